//! `orderd` as a process, against a real nats-server, PostgreSQL and SQLite files.

mod broker;
mod crash;
mod drill;
mod faults;
mod process;
mod relay;
mod support;
mod tidy;
