-- People work through exceptions by state and verdict, oldest first: however many others there are, a page is read from
-- an index. Payments without an exception write neither.
CREATE INDEX payment_exceptions_by_state ON payment_exceptions (state, opened_at, id);
CREATE INDEX payment_exceptions_by_state_and_verdict ON payment_exceptions (state, verdict, opened_at, id);
