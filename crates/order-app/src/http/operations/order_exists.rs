//! Whether an order exists, for lists that belong to one.

use order_fsm::OrderId;
use order_store::Store;

use crate::http::answer::error::ApiError;

/// Whether the order exists. An order that can't be read exists too.
///
/// # Errors
/// If the database failed.
pub(super) async fn order_exists(store: &Store, order_id: &OrderId) -> Result<bool, ApiError> {
    match store.get_order(order_id.clone()).await {
        Ok(order) => Ok(order.is_some()),
        Err(error) if error.is_inconsistent() => Ok(true),
        Err(error) => Err(error.into()),
    }
}
