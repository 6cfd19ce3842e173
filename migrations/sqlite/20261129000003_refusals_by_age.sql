-- Retention finds old refusals by their age; they are rare on the paying path.
CREATE INDEX refusals_by_age ON refusals (at);
