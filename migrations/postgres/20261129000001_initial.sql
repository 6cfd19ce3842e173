-- Ids are compared byte for byte and sort as Rust and SQLite sort them: COLLATE "C".

CREATE TABLE orders (
    order_id            text COLLATE "C" PRIMARY KEY,
    status              text        NOT NULL,
    amount              bigint      NOT NULL,
    currency            text        NOT NULL,
    version             bigint      NOT NULL,
    pay_by              timestamptz NOT NULL,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    paid_provider       text COLLATE "C",
    paid_transaction_id text COLLATE "C",
    CONSTRAINT orders_status_known   CHECK (status IN ('NOT_PAID', 'PAID', 'SHIPPED', 'DONE', 'CANCELLED')),
    CONSTRAINT orders_amount_range   CHECK (amount BETWEEN 1 AND 9007199254740991),
    CONSTRAINT orders_version_grows  CHECK (version >= 1),
    CONSTRAINT orders_paid_by_whole  CHECK ((paid_provider IS NULL) = (paid_transaction_id IS NULL))
);

-- The list, oldest first. Names no column that the advance sets, so paying stays a HOT update.
CREATE INDEX orders_by_creation ON orders (created_at, order_id);

CREATE TABLE payments (
    provider       text COLLATE "C" NOT NULL,
    transaction_id text COLLATE "C" NOT NULL,
    kind           text COLLATE "C" NOT NULL,
    event_id       text,
    order_id       text COLLATE "C" NOT NULL,
    amount         bigint      NOT NULL,
    currency       text        NOT NULL,
    occurred_at    timestamptz NOT NULL,
    received_at    timestamptz NOT NULL,
    verdict        text COLLATE "C" NOT NULL,
    source         text        NOT NULL,
    PRIMARY KEY (provider, transaction_id, kind),
    CONSTRAINT payments_verdict_known CHECK (verdict IN (
        'ATTEMPT_FAILED', 'REVERSED', 'UNSUPPORTED', 'WAITING_FOR_ORDER', 'SECOND_PAYMENT',
        'PAID_AFTER_CANCEL', 'CURRENCY_MISMATCH', 'AMOUNT_MISMATCH', 'APPLIED')),
    CONSTRAINT payments_amount_range  CHECK (amount BETWEEN 1 AND 9007199254740991),
    CONSTRAINT payments_source_known  CHECK (source IN ('event', 'reconciliation', 'api'))
);

-- The applied payment of an order is found through orders.paid_*, so the paying path writes
-- neither of these.
CREATE INDEX payments_unapplied_by_order ON payments (order_id) WHERE verdict <> 'APPLIED';
CREATE INDEX payments_unapplied_by_verdict ON payments (verdict, provider, transaction_id, kind)
    WHERE verdict <> 'APPLIED';

-- History and outbox in one row: what happened is what is published.
CREATE TABLE transitions (
    order_id       text COLLATE "C" NOT NULL,
    version        bigint      NOT NULL,
    from_status    text,
    to_status      text        NOT NULL,
    event          text COLLATE "C" NOT NULL,
    source         text        NOT NULL,
    actor          text        NOT NULL,
    reason         text COLLATE "C",
    provider       text COLLATE "C",
    transaction_id text COLLATE "C",
    at             timestamptz NOT NULL,
    published_at   timestamptz,
    PRIMARY KEY (order_id, version),
    CONSTRAINT transitions_version_grows CHECK (version >= 1)
);

CREATE INDEX transitions_unpublished ON transitions (at, order_id, version) WHERE published_at IS NULL;

-- A refusal is kept once per version met, event, reason and transaction.
CREATE TABLE refusals (
    order_id       text COLLATE "C" NOT NULL,
    version        bigint      NOT NULL,
    event          text COLLATE "C" NOT NULL,
    reason         text COLLATE "C" NOT NULL,
    provider       text COLLATE "C" NOT NULL DEFAULT '',
    transaction_id text COLLATE "C" NOT NULL DEFAULT '',
    source         text        NOT NULL,
    actor          text        NOT NULL,
    at             timestamptz NOT NULL,
    PRIMARY KEY (order_id, version, event, reason, provider, transaction_id)
);

-- `id` is the digest of (verdict, payment, order, amount, currency).
CREATE TABLE payment_exceptions (
    id                text COLLATE "C" PRIMARY KEY,
    verdict           text COLLATE "C" NOT NULL,
    order_id          text COLLATE "C" NOT NULL,
    provider          text COLLATE "C" NOT NULL,
    transaction_id    text COLLATE "C" NOT NULL,
    kind              text COLLATE "C" NOT NULL,
    event_id          text,
    amount            bigint      NOT NULL,
    currency          text        NOT NULL,
    expected_order_id text,
    expected_amount   bigint,
    expected_currency text,
    occurred_at       timestamptz NOT NULL,
    pay_by            timestamptz,
    state             text        NOT NULL DEFAULT 'open',
    resolution        text,
    note              text,
    closed_by         text,
    opened_at         timestamptz NOT NULL,
    closed_at         timestamptz,
    published_at      timestamptz,
    CONSTRAINT payment_exceptions_state_known CHECK (state IN ('open', 'closed')),
    CONSTRAINT payment_exceptions_closed_whole CHECK (
        (state = 'closed') = (closed_at IS NOT NULL) AND (state = 'closed') = (resolution IS NOT NULL))
);

CREATE INDEX payment_exceptions_by_order ON payment_exceptions (order_id);
CREATE INDEX payment_exceptions_by_opening ON payment_exceptions (opened_at, id);
CREATE INDEX payment_exceptions_open ON payment_exceptions (verdict) WHERE state = 'open';
CREATE INDEX payment_exceptions_unpublished ON payment_exceptions (opened_at, id) WHERE published_at IS NULL;

-- `id` is the digest of (stream, sequence, digest of the body).
CREATE TABLE dead_letters (
    id          text COLLATE "C" PRIMARY KEY,
    stream      text        NOT NULL,
    subject     text        NOT NULL,
    sequence    bigint      NOT NULL,
    headers     text        NOT NULL,
    body        bytea       NOT NULL,
    reason      text        NOT NULL,
    detail      text        NOT NULL,
    received_at timestamptz NOT NULL,
    state       text        NOT NULL DEFAULT 'open',
    note        text,
    CONSTRAINT dead_letters_state_known CHECK (state IN ('open', 'replayed', 'discarded'))
);

CREATE INDEX dead_letters_by_arrival ON dead_letters (received_at, id);
CREATE INDEX dead_letters_open ON dead_letters (received_at) WHERE state = 'open';

-- When the payment service is asked about an order: written with the order, never touched by a
-- payment.
CREATE TABLE checks (
    order_id      text COLLATE "C" PRIMARY KEY,
    next_check_at timestamptz NOT NULL,
    pause_ms      bigint      NOT NULL
);

CREATE INDEX checks_due ON checks (next_check_at, order_id);
