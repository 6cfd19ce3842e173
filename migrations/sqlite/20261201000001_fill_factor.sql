-- PostgreSQL leaves room on its pages for updates. SQLite updates rows where they are.
SELECT 1;
