-- What is to be published, one row per transaction: inserted last, so that `seq` follows the versions
-- of an order; deleted when all of it is acknowledged. A line of `content` is an event as JSON.
CREATE TABLE outbox (
    seq     integer PRIMARY KEY AUTOINCREMENT,
    at      integer NOT NULL,
    events  integer NOT NULL,
    content text    NOT NULL,
    CONSTRAINT outbox_tells_something CHECK (events >= 1)
) STRICT;

-- Events that can't be published now, one by one: all that waits for an event of the same order is
-- here too. `name` is an order, or an exception with version 0.
CREATE TABLE outbox_set_aside (
    name    text    NOT NULL,
    version integer NOT NULL,
    event   text    NOT NULL,
    kind    text    NOT NULL,
    why     text    NOT NULL,
    tried   integer NOT NULL,
    at      integer NOT NULL,
    line    text    NOT NULL,
    PRIMARY KEY (name, version),
    CONSTRAINT outbox_set_aside_kind_known CHECK (kind IN ('blocked', 'too-large', 'unreadable', 'waits'))
) STRICT, WITHOUT ROWID;

CREATE INDEX outbox_set_aside_by_kind ON outbox_set_aside (kind, event);

-- Up to where publishing was tried: written before the first try.
CREATE TABLE outbox_progress (
    name text    NOT NULL PRIMARY KEY,
    seq  integer NOT NULL
) STRICT, WITHOUT ROWID;

-- `published_at` and `set_aside` of transitions and payment_exceptions, and their indexes, are of
-- older versions, which may run beside this one: they leave `published_at` null, and the relay carries
-- those rows over. What is in the outbox has the beginning of 1970 there. The next release drops them.
