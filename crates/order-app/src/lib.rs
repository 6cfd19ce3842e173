//! `orderd`: NATS, HTTP, time and processes around the store.
//!
//! The parts don't know one another: they meet in the calls of `order-store`. Enter at
//! [`app::serve`], then read one folder per question: how a message becomes rows ([`ingest`])
//! and rows become messages ([`relay`]), what the broker must look like ([`nats`]), what the API answers ([`http`]),
//! who is asked about unpaid orders ([`payment_service`]) and by whom ([`reconcile`]).

pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod exception_wire;
pub mod health;
mod hex;
pub mod http;
pub mod ingest;
pub mod nats;
mod open_files;
pub mod payment_event;
pub mod payment_service;
pub mod raw_object;
pub mod reconcile;
pub mod relay;
pub mod run_wire;
pub mod telemetry;
pub mod time_format;
pub mod tokens;
pub mod watch;
