//! Every statement is prepared against both migrated schemas, and none is forgotten.

use std::collections::BTreeSet;
use std::path::Path;

use sqlx::{Executor as _, SqlSafeStr as _};

use super::*;
use crate::sql;

on_both! {
    async fn every_statement_is_known_to_the_database(db) {
        for (name, statement) in sql::every() {
            let prepared = db.store.read("preparing", statement, prepare);
            if let Err(error) = prepared.await {
                panic!("{name}: {error:?}");
            }
        }
    }
}

async fn prepare(conn: &mut Conn, statement: &Sql) -> sqlx::Result<()> {
    match conn {
        Conn::Postgres(c) => c.prepare(statement.postgres.into_sql_str()).await.map(drop),
        Conn::Sqlite(c) => c.prepare(statement.sqlite.into_sql_str()).await.map(drop),
    }
}

/// Sent as they are, over the simple protocol: most of them are several statements.
const NOT_PREPARED: [&str; 2] = ["mod::BEGIN_WRITE", "mod::BEGIN_SNAPSHOT"];

#[test]
fn no_statement_is_missing_from_the_list_of_its_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sql");
    let mut written = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let file = path.file_stem().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let constants = text
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("pub(crate) const "));
        let statements = constants.filter_map(|line| line.split_once(": Sql"));
        written.extend(statements.map(|(name, _)| format!("{file}::{name}")));
    }
    let listed = sql::every().into_iter().map(|(name, _)| name);
    let listed: BTreeSet<String> = listed.chain(NOT_PREPARED.map(str::to_owned)).collect();
    assert!(listed.len() > 100, "{}", listed.len());
    let forgotten: Vec<&String> = written.symmetric_difference(&listed).collect();
    assert!(
        forgotten.is_empty(),
        "not written, or not in its file's list: {forgotten:?}"
    );
}
