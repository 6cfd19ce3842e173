//! The router called in process, on a SQLite file of its own; sockets only where sockets matter.

mod access;
mod app;
mod bodies;
mod create_order;
mod cursors;
mod get_order;
mod list_order_history;
mod list_order_payments;
mod list_payments;
mod openapi;
mod operate_order;
mod ops;
mod problems;
mod queries;
mod reconciliations;
mod serve;
mod service;
mod telemetry;
