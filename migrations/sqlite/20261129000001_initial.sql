-- Times are integer microseconds since 1970: SQLite compares text times as text.

CREATE TABLE orders (
    order_id            text NOT NULL PRIMARY KEY,
    status              text        NOT NULL,
    amount              integer     NOT NULL,
    currency            text        NOT NULL,
    version             integer     NOT NULL,
    pay_by              integer     NOT NULL,
    created_at          integer     NOT NULL,
    updated_at          integer     NOT NULL,
    paid_provider       text,
    paid_transaction_id text,
    CONSTRAINT orders_status_known   CHECK (status IN ('NOT_PAID', 'PAID', 'SHIPPED', 'DONE', 'CANCELLED')),
    CONSTRAINT orders_amount_range   CHECK (amount BETWEEN 1 AND 9007199254740991),
    CONSTRAINT orders_version_grows  CHECK (version >= 1),
    CONSTRAINT orders_paid_by_whole  CHECK ((paid_provider IS NULL) = (paid_transaction_id IS NULL))
) STRICT, WITHOUT ROWID;

-- The list, oldest first. Names no column that the advance sets, so paying rewrites no index.
CREATE INDEX orders_by_creation ON orders (created_at, order_id);

CREATE TABLE payments (
    provider       text NOT NULL,
    transaction_id text NOT NULL,
    kind           text NOT NULL,
    event_id       text,
    order_id       text NOT NULL,
    amount         integer     NOT NULL,
    currency       text        NOT NULL,
    occurred_at    integer     NOT NULL,
    received_at    integer     NOT NULL,
    verdict        text NOT NULL,
    source         text        NOT NULL,
    PRIMARY KEY (provider, transaction_id, kind),
    CONSTRAINT payments_verdict_known CHECK (verdict IN (
        'ATTEMPT_FAILED', 'REVERSED', 'UNSUPPORTED', 'WAITING_FOR_ORDER', 'SECOND_PAYMENT',
        'PAID_AFTER_CANCEL', 'CURRENCY_MISMATCH', 'AMOUNT_MISMATCH', 'APPLIED')),
    CONSTRAINT payments_amount_range  CHECK (amount BETWEEN 1 AND 9007199254740991),
    CONSTRAINT payments_source_known  CHECK (source IN ('event', 'reconciliation', 'api'))
) STRICT, WITHOUT ROWID;

-- The applied payment of an order is found through orders.paid_*, so the paying path writes
-- neither of these.
CREATE INDEX payments_unapplied_by_order ON payments (order_id) WHERE verdict <> 'APPLIED';
CREATE INDEX payments_unapplied_by_verdict ON payments (verdict, provider, transaction_id, kind)
    WHERE verdict <> 'APPLIED';

-- History and outbox in one row: what happened is what is published.
CREATE TABLE transitions (
    order_id       text NOT NULL,
    version        integer     NOT NULL,
    from_status    text,
    to_status      text        NOT NULL,
    event          text NOT NULL,
    source         text        NOT NULL,
    actor          text        NOT NULL,
    reason         text,
    provider       text,
    transaction_id text,
    at             integer     NOT NULL,
    published_at   integer,
    PRIMARY KEY (order_id, version),
    CONSTRAINT transitions_version_grows CHECK (version >= 1)
) STRICT, WITHOUT ROWID;

CREATE INDEX transitions_unpublished ON transitions (at, order_id, version) WHERE published_at IS NULL;

-- A refusal is kept once per version met, event, reason and transaction.
CREATE TABLE refusals (
    order_id       text NOT NULL,
    version        integer     NOT NULL,
    event          text NOT NULL,
    reason         text NOT NULL,
    provider       text NOT NULL DEFAULT '',
    transaction_id text NOT NULL DEFAULT '',
    source         text        NOT NULL,
    actor          text        NOT NULL,
    at             integer     NOT NULL,
    PRIMARY KEY (order_id, version, event, reason, provider, transaction_id)
) STRICT, WITHOUT ROWID;

-- `id` is the digest of (verdict, payment, order, amount, currency).
CREATE TABLE payment_exceptions (
    id                text NOT NULL PRIMARY KEY,
    verdict           text NOT NULL,
    order_id          text NOT NULL,
    provider          text NOT NULL,
    transaction_id    text NOT NULL,
    kind              text NOT NULL,
    event_id          text,
    amount            integer     NOT NULL,
    currency          text        NOT NULL,
    expected_order_id text,
    expected_amount   integer,
    expected_currency text,
    occurred_at       integer     NOT NULL,
    pay_by            integer,
    state             text        NOT NULL DEFAULT 'open',
    resolution        text,
    note              text,
    closed_by         text,
    opened_at         integer     NOT NULL,
    closed_at         integer,
    published_at      integer,
    CONSTRAINT payment_exceptions_state_known CHECK (state IN ('open', 'closed')),
    CONSTRAINT payment_exceptions_closed_whole CHECK (
        (state = 'closed') = (closed_at IS NOT NULL) AND (state = 'closed') = (resolution IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX payment_exceptions_by_order ON payment_exceptions (order_id);
CREATE INDEX payment_exceptions_by_opening ON payment_exceptions (opened_at, id);
CREATE INDEX payment_exceptions_open ON payment_exceptions (verdict) WHERE state = 'open';
CREATE INDEX payment_exceptions_unpublished ON payment_exceptions (opened_at, id) WHERE published_at IS NULL;

-- `id` is the digest of (stream, sequence, digest of the body).
CREATE TABLE dead_letters (
    id          text NOT NULL PRIMARY KEY,
    stream      text        NOT NULL,
    subject     text        NOT NULL,
    sequence    integer     NOT NULL,
    headers     text        NOT NULL,
    body        blob        NOT NULL,
    reason      text        NOT NULL,
    detail      text        NOT NULL,
    received_at integer     NOT NULL,
    state       text        NOT NULL DEFAULT 'open',
    note        text,
    CONSTRAINT dead_letters_state_known CHECK (state IN ('open', 'replayed', 'discarded'))
) STRICT, WITHOUT ROWID;

CREATE INDEX dead_letters_by_arrival ON dead_letters (received_at, id);
CREATE INDEX dead_letters_open ON dead_letters (received_at) WHERE state = 'open';

-- When the payment service is asked about an order: written with the order, never touched by a
-- payment.
CREATE TABLE checks (
    order_id      text NOT NULL PRIMARY KEY,
    next_check_at integer     NOT NULL,
    pause_ms      integer     NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX checks_due ON checks (next_check_at, order_id);
