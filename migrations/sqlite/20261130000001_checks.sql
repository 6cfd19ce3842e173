-- PostgreSQL has checks of this name. SQLite can add one only by copying the table: that would refuse or lose the very
-- rows that are damaged already, under a lock for as long as it takes. Its tables are STRICT, so that values have their
-- types, and one process writes the file. `orderd audit` reads every row in both databases.
SELECT 1;
