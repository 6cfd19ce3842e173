-- What was answered under an idempotency key. Without a status the request is running, until
-- `held_until` at the latest. Of the request only a digest is kept.
CREATE TABLE idempotency_keys (
    actor           text    NOT NULL,
    idempotency_key text    NOT NULL,
    request         text    NOT NULL,
    holder          text    NOT NULL,
    held_until      integer NOT NULL,
    created_at      integer NOT NULL,
    status          integer,
    headers         text,
    body            blob,
    PRIMARY KEY (actor, idempotency_key),
    CONSTRAINT idempotency_keys_answered_whole CHECK (
        (status IS NULL) = (headers IS NULL) AND (status IS NULL) = (body IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);
