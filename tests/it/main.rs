//! `orderd` as a process, against a real nats-server, PostgreSQL and SQLite files.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails there")]

mod api;
mod broker;
mod crash;
mod disconnects;
mod drill;
mod faults;
mod fuzz;
mod limits;
mod process;
mod reconcile;
mod relay;
mod support;
mod tidy;
mod tokens;
mod watched;
