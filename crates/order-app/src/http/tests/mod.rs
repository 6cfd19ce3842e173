//! The router called in process, on a SQLite file of its own; sockets only where sockets matter.

pub(crate) mod access;
pub(crate) mod app;
mod bodies;
mod browsers;
mod commands;
mod create_order;
mod cursors;
mod examples;
mod get_order;
mod idempotency;
mod list_order_history;
mod list_order_payments;
mod list_orders;
mod list_payments;
mod measure;
mod openapi;
mod operate_order;
mod ops;
mod problems;
mod queries;
mod reconciliations;
mod refused_bodies;
mod serve;
mod service;
mod times;
mod wait_for_order;
