//! Private servers for tests: PostgreSQL and nats-server, started by the test that needs them.
//!
//! [`Postgres::start`] and [`Nats::start`] give a test a server of its own that it may stop, kill
//! and pause; [`Postgres::shared`] and [`Nats::shared`] give one per test process, which nobody may
//! disturb. Everything is bound to 127.0.0.1, lives in one temporary folder, and is gone when its
//! owner is dropped or the test process ends, however it ends (see `guard`).
//!
//! Nothing is installed here, and a missing server is an error, never a reason to skip:
//! `scripts/test` installs what is missing and says in `ORDERD_PG_BIN` and `ORDERD_NATS_SERVER`
//! where it is. The crate speaks neither SQL nor NATS and knows nothing about orders.

mod error;
mod find;
mod guard;
mod names;
mod nats;
mod postgres;
mod processes;
mod server;
#[cfg(test)]
mod tests;

pub use error::Error;
pub use names::{clear_settings, unique_name};
pub use nats::Nats;
pub use postgres::{Durability, Postgres};
