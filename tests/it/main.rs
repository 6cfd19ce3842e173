//! `orderd` as a process, against a real nats-server, PostgreSQL and SQLite files.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails there")]

mod api;
mod bench;
mod broker;
mod circles;
mod crash;
mod databases;
mod disconnects;
mod drill;
mod faults;
mod files;
mod fuzz;
mod held;
mod limits;
mod logs;
mod nats;
mod pages;
mod process;
mod reconcile;
mod relay;
mod soak;
mod support;
mod surroundings;
mod tidy;
mod tokens;
mod unreadable;
mod watched;
