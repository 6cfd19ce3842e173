-- One holder of a name at a time. The row decides; `expires_at` is compared with this database's
-- clock.
CREATE TABLE leases (
    name       text COLLATE "C" PRIMARY KEY,
    holder     text        NOT NULL,
    expires_at timestamptz NOT NULL
);

-- Why an event can't be published: such a row is left out until a person asks for it again.
ALTER TABLE transitions ADD COLUMN set_aside text;
ALTER TABLE payment_exceptions ADD COLUMN set_aside text;

DROP INDEX transitions_unpublished;
CREATE INDEX transitions_unpublished ON transitions (at, order_id, version)
    WHERE published_at IS NULL AND set_aside IS NULL;

DROP INDEX payment_exceptions_unpublished;
CREATE INDEX payment_exceptions_unpublished ON payment_exceptions (opened_at, id)
    WHERE published_at IS NULL AND set_aside IS NULL;

-- Hold next to nothing, and are not written by the paying path.
CREATE INDEX transitions_set_aside ON transitions (order_id, version) WHERE set_aside IS NOT NULL;
CREATE INDEX payment_exceptions_set_aside ON payment_exceptions (id) WHERE set_aside IS NOT NULL;
