-- Retention finds closed letters by their age, past any number of open ones.
CREATE INDEX dead_letters_closed ON dead_letters (received_at, id) WHERE state <> 'open';
