//! The operations, one per file, named as in the document; those that differ in an event share `operate`.

pub(crate) mod ask_first;
pub(crate) mod cancel_order;
pub(crate) mod close_payment_exception;
pub(crate) mod create_order;
pub(crate) mod create_reconciliation;
pub(crate) mod discard_dead_letter;
pub(crate) mod get_dead_letter;
pub(crate) mod get_liveness;
pub(crate) mod get_metrics;
pub(crate) mod get_openapi;
pub(crate) mod get_order;
pub(crate) mod get_payment_exception;
pub(crate) mod get_readiness;
pub(crate) mod get_reconciliation;
pub(crate) mod list_dead_letters;
pub(crate) mod list_order_history;
pub(crate) mod list_order_payments;
pub(crate) mod list_orders;
pub(crate) mod list_payment_exceptions;
pub(crate) mod list_payments;
pub(crate) mod list_reconciliations;
pub(crate) mod operate;
mod order_exists;
pub(crate) mod replay_dead_letter;
