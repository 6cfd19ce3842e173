-- `next_check_at` is when the job looks at an order, `ask_at` when it asks about it: an order that
-- left NOT_PAID is noticed by a look and asked about later. Null: with the next look.
ALTER TABLE checks ADD COLUMN ask_at timestamptz;
-- Answers in a row that told nothing.
ALTER TABLE checks ADD COLUMN unknowns bigint NOT NULL DEFAULT 0;

CREATE TABLE runs (
    id          text COLLATE "C" PRIMARY KEY,
    state       text        NOT NULL DEFAULT 'running',
    dry_run     boolean     NOT NULL,
    started_by  text        NOT NULL,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz,
    asked       bigint      NOT NULL DEFAULT 0,
    healed      bigint      NOT NULL DEFAULT 0,
    cancelled   bigint      NOT NULL DEFAULT 0,
    pending     bigint      NOT NULL DEFAULT 0,
    unknown     bigint      NOT NULL DEFAULT 0,
    raced       bigint      NOT NULL DEFAULT 0,
    settled     bigint      NOT NULL DEFAULT 0,
    CONSTRAINT runs_state_known      CHECK (state IN ('running', 'done', 'failed')),
    CONSTRAINT runs_started_by_known CHECK (started_by IN ('schedule', 'api', 'cli')),
    CONSTRAINT runs_ended_whole      CHECK ((state = 'running') = (finished_at IS NULL))
);

CREATE INDEX runs_by_start ON runs (started_at, id);
CREATE INDEX runs_running ON runs (started_at) WHERE state = 'running';

CREATE TABLE run_findings (
    run_id   text COLLATE "C" NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    position bigint NOT NULL,
    order_id text   NOT NULL,
    kind     text   NOT NULL,
    detail   text   NOT NULL,
    PRIMARY KEY (run_id, position),
    CONSTRAINT run_findings_kind_known CHECK (kind IN (
        'healed', 'paid-after-cancel', 'second-payment', 'mismatch', 'refunded', 'inconsistent'))
);

-- When the payment service may be asked next, by any instance: questions are spaced, and none is
-- asked before the time the service named.
CREATE TABLE pacing (
    name       text COLLATE "C" PRIMARY KEY,
    next_at    timestamptz NOT NULL,
    not_before timestamptz NOT NULL
);
