//! `orderd`: NATS, HTTP, time and processes around the store.
//!
//! The parts don't know one another: they meet in the calls of `order-store`. Enter at
//! [`app::serve`], then read one folder per question: how a message becomes rows ([`ingest`]) and
//! rows become messages ([`relay`]), what streams and consumer must look like ([`nats`]), what the
//! API answers ([`http`]), how the payment service is asked ([`payment_service`]), and when and why
//! ([`reconcile`]). `console` has pages for people beside the API.

pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
mod console;
pub mod health;
pub mod http;
pub mod ingest;
mod lock;
mod loopback;
pub mod nats;
mod open_files;
mod pause;
pub mod payment_event;
pub mod payment_service;
mod random_id;
pub mod raw_object;
pub mod reconcile;
pub mod relay;
pub mod telemetry;
pub mod time_format;
pub mod tokens;
pub mod watch;
mod wire;
