-- Written to every few seconds, to know that the database takes writes: a row per process or so, overwritten in place.
CREATE TABLE write_probes (
    slot bigint      NOT NULL PRIMARY KEY,
    at   timestamptz NOT NULL
) WITH (fillfactor = 50);
