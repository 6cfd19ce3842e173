//! Statements on sqlx's table of applied migrations.

use super::Sql;

pub(crate) const EXIST: Sql = Sql {
    postgres: "SELECT (to_regclass('_sqlx_migrations') IS NOT NULL)::int::bigint",
    sqlite: "SELECT count(*) FROM sqlite_master WHERE name = '_sqlx_migrations'",
};

pub(crate) const APPLIED: Sql = Sql::both("SELECT version FROM _sqlx_migrations WHERE success");

#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = super::named![EXIST, APPLIED];
