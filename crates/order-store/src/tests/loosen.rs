//! Takes the constraints from a table, so that tests can damage its rows.

use crate::conn::Conn;
use crate::error::{Error, doing};
use crate::store::Store;
use crate::tx::Tx;

/// Drops the checks of a table, and in SQLite its strict types as well.
pub(crate) async fn loosen(store: &Store, table: &'static str) {
    store.write("testing", table, drop_checks).await.unwrap();
}

async fn drop_checks(tx: &mut Tx, table: &&'static str) -> Result<(), Error> {
    match tx.conn() {
                Conn::Postgres(c) => {
                    let drop_checks = sqlx::AssertSqlSafe(format!(
                        "DO $$ DECLARE name text; BEGIN
                             FOR name IN SELECT conname FROM pg_constraint
                                          WHERE conrelid = '{table}'::regclass AND contype = 'c' LOOP
                                 EXECUTE format('ALTER TABLE {table} DROP CONSTRAINT %I', name);
                             END LOOP;
                         END $$"
                    ));
                    sqlx::raw_sql(drop_checks).execute(&mut **c).await.map(drop)
                }
                Conn::Sqlite(c) => {
                    let rewrite = sqlx::AssertSqlSafe(format!(
                        "PRAGMA writable_schema = ON;
                         UPDATE sqlite_master
                            SET sql = rtrim(CASE instr(sql, 'CONSTRAINT') WHEN 0
                                            THEN substr(sql, 1, instr(sql, ') STRICT') - 1)
                                            ELSE substr(sql, 1, instr(sql, 'CONSTRAINT') - 1) END,
                                            ', ' || char(10))
                                  || CASE WHEN sql LIKE '%WITHOUT ROWID%' THEN ') WITHOUT ROWID' ELSE ')' END
                          WHERE type = 'table' AND name = '{table}' AND sql LIKE '%) STRICT%';
                         PRAGMA writable_schema = RESET;"
                    ));
                    sqlx::raw_sql(rewrite).execute(&mut **c).await.map(drop)
                }
            }
            .map_err(doing("loosening a table"))
}

/// Lets a column be null.
pub(crate) async fn allow_null(store: &Store, table: &'static str, column: &'static str) {
    let args = (table, column);
    store.write("testing", args, drop_not_null).await.unwrap();
}

async fn drop_not_null(
    tx: &mut Tx,
    (table, column): &(&'static str, &'static str),
) -> Result<(), Error> {
    match tx.conn() {
        Conn::Postgres(c) => {
            let alter = format!("ALTER TABLE {table} ALTER {column} DROP NOT NULL");
            let alter = sqlx::AssertSqlSafe(alter);
            sqlx::raw_sql(alter).execute(&mut **c).await.map(drop)
        }
        Conn::Sqlite(c) => {
            let rewrite = sqlx::AssertSqlSafe(format!(
                "PRAGMA writable_schema = ON;
                 UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '')
                  WHERE type = 'table' AND name = '{table}';
                 PRAGMA writable_schema = RESET;"
            ));
            sqlx::raw_sql(rewrite).execute(&mut **c).await.map(drop)
        }
    }
    .map_err(doing("loosening a column"))
}
