//! Private servers for tests: PostgreSQL, nats-server and PgBouncer, started by the test that needs them.
//!
//! A [`Proxy`] makes the way to a server slow, silent or short-lived, and counts round trips.
//!
//! [`Postgres::start`] and [`Nats::start`] give a test a server of its own that it may stop, kill
//! and pause; [`Postgres::shared`] and [`Nats::shared`] are one server per test process, which no
//! test may stop. A server listens on 127.0.0.1, has one temporary folder, and ends when its owner
//! is dropped or the test process ends for whatever reason (see `guard`).
//!
//! Nothing is installed here, and a missing server is an error, never a reason to skip:
//! `scripts/test` installs what is missing and sets `ORDERD_PG_BIN`, `ORDERD_NATS_SERVER` and
//! `ORDERD_PGBOUNCER`. The crate speaks neither SQL nor NATS and knows nothing about orders.

mod error;
mod find;
mod guard;
mod names;
mod nats;
mod pgbouncer;
mod postgres;
mod processes;
mod proxy;
mod server;
#[cfg(test)]
mod tests;

pub use error::Error;
pub use names::{clear_settings, unique_name};
pub use nats::Nats;
pub use pgbouncer::Pgbouncer;
pub use postgres::{Durability, Postgres};
pub use proxy::Proxy;
