//! The list of operations.

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::Shared;
use crate::http::document::openapi;
use crate::http::operations::{
    cancel_order, close_payment_exception, create_order, create_reconciliation,
    discard_dead_letter, get_dead_letter, get_liveness, get_metrics, get_openapi, get_order,
    get_payment_exception, get_readiness, get_reconciliation, list_dead_letters,
    list_order_history, list_order_payments, list_orders, list_payment_exceptions, list_payments,
    list_reconciliations, operate, replay_dead_letter,
};

/// Every operation, served and documented by the same line. Operations on the same path share a
/// line.
pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(openapi::preamble())
        .routes(routes!(
            create_order::create_order,
            list_orders::list_orders
        ))
        .routes(routes!(get_order::get_order))
        .routes(routes!(list_order_history::list_order_history))
        .routes(routes!(list_order_payments::list_order_payments))
        .routes(routes!(operate::ship_order))
        .routes(routes!(operate::complete_order))
        .routes(routes!(cancel_order::cancel_order))
        .routes(routes!(list_payments::list_payments))
        .routes(routes!(list_payment_exceptions::list_payment_exceptions))
        .routes(routes!(get_payment_exception::get_payment_exception))
        .routes(routes!(close_payment_exception::close_payment_exception))
        .routes(routes!(list_dead_letters::list_dead_letters))
        .routes(routes!(get_dead_letter::get_dead_letter))
        .routes(routes!(replay_dead_letter::replay_dead_letter))
        .routes(routes!(discard_dead_letter::discard_dead_letter))
        .routes(routes!(create_reconciliation::create_reconciliation))
        .routes(routes!(list_reconciliations::list_reconciliations))
        .routes(routes!(get_reconciliation::get_reconciliation))
        .routes(routes!(get_metrics::get_metrics))
        .routes(routes!(get_liveness::get_liveness))
        .routes(routes!(get_readiness::get_readiness))
        .routes(routes!(get_openapi::get_openapi))
}
