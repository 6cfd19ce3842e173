-- Written to every few seconds, to know that the file takes writes: a row per process or so, overwritten in place.
CREATE TABLE write_probes (
    slot INTEGER NOT NULL PRIMARY KEY,
    at   INTEGER NOT NULL
) STRICT;
