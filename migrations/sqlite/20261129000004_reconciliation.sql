-- `next_check_at` is when the job looks at an order, `ask_at` when it asks about it: an order that
-- left NOT_PAID is noticed by a look and asked about later. Null: with the next look.
ALTER TABLE checks ADD COLUMN ask_at integer;
-- Answers in a row that told nothing.
ALTER TABLE checks ADD COLUMN unknowns integer NOT NULL DEFAULT 0;

CREATE TABLE runs (
    id          text NOT NULL PRIMARY KEY,
    state       text        NOT NULL DEFAULT 'running',
    dry_run     integer     NOT NULL,
    started_by  text        NOT NULL,
    started_at  integer NOT NULL,
    finished_at integer,
    asked       integer      NOT NULL DEFAULT 0,
    healed      integer      NOT NULL DEFAULT 0,
    cancelled   integer      NOT NULL DEFAULT 0,
    pending     integer      NOT NULL DEFAULT 0,
    unknown     integer      NOT NULL DEFAULT 0,
    raced       integer      NOT NULL DEFAULT 0,
    settled     integer      NOT NULL DEFAULT 0,
    CONSTRAINT runs_state_known      CHECK (state IN ('running', 'done', 'failed')),
    CONSTRAINT runs_started_by_known CHECK (started_by IN ('schedule', 'api', 'cli')),
    CONSTRAINT runs_ended_whole      CHECK ((state = 'running') = (finished_at IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_by_start ON runs (started_at, id);
CREATE INDEX runs_running ON runs (started_at) WHERE state = 'running';

CREATE TABLE run_findings (
    run_id   text NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    position integer NOT NULL,
    order_id text   NOT NULL,
    kind     text   NOT NULL,
    detail   text   NOT NULL,
    PRIMARY KEY (run_id, position),
    CONSTRAINT run_findings_kind_known CHECK (kind IN (
        'healed', 'paid-after-cancel', 'second-payment', 'mismatch', 'refunded', 'inconsistent'))
) STRICT, WITHOUT ROWID;

-- When the payment service may be asked next, by any instance: questions are spaced, and none is
-- asked before the time the service named.
CREATE TABLE pacing (
    name       text NOT NULL PRIMARY KEY,
    next_at    integer NOT NULL,
    not_before integer NOT NULL
) STRICT, WITHOUT ROWID;
