//! What the payment service says before an order is cancelled by hand.

use std::time::Duration;

use order_fsm::{OrderId, OrderStatus};
use order_store::{Operation, Store};

use crate::http::error::ApiError;
use crate::http::problem::Kind;
use crate::payment_service::{Answer, AskError, PaymentService, State};
use crate::telemetry::chain;

/// How long a caller waits for the turn of its question; with the reply it stays within the
/// request deadline.
const TURN_MAX: Duration = Duration::from_secs(2);

/// Asks about an order that could be cancelled, and records the payments it is told of.
///
/// # Errors
/// If the order must not be cancelled now; its history keeps the refusal.
pub(super) async fn ask_first(
    store: &Store,
    service: &PaymentService,
    operation: &Operation,
) -> Result<(), ApiError> {
    let order_id = &operation.order_id;
    let Some(order) = store.get_order(order_id.clone()).await? else {
        return Ok(());
    };
    let expected = operation
        .if_version
        .as_ref()
        .is_none_or(|versions| versions.contains(&order.version));
    if order.status != OrderStatus::NotPaid || !expected {
        // The operation says why not.
        return Ok(());
    }
    let Answer { state, facts } = ask(service, order_id).await?;
    store.tell_answers(facts, false).await?;
    let (kind, refusal) = match state {
        State::Unpaid | State::UnpaidForGood | State::Refunded => return Ok(()),
        State::Paid => (
            Kind::PaymentRecorded,
            ApiError::PaymentRecorded(order_id.clone()),
        ),
        State::Pending => (
            Kind::PaymentPending,
            ApiError::PaymentPending(order_id.clone()),
        ),
        State::Unknown(why) => (
            Kind::PaymentStateUnknown,
            ApiError::PaymentStateUnknown(order_id.clone(), why),
        ),
    };
    store.refuse(operation.clone(), kind.row().slug).await?;
    Err(refusal)
}

async fn ask(service: &PaymentService, order_id: &OrderId) -> Result<Answer, ApiError> {
    let unknown = |why: String| {
        tracing::warn!(order.id = %order_id, why, "the payment service was asked in vain");
        Ok(Answer::unknown(why))
    };
    match service.ask(std::slice::from_ref(order_id), TURN_MAX).await {
        Ok(reply) if reply.nameless > 0 => {
            let paid = reply.answers.into_iter().next();
            match paid {
                Some(answer) if answer.state == State::Paid => Ok(answer),
                _ => unknown("an entry doesn't say what it is about".to_owned()),
            }
        }
        Ok(reply) => match reply.answers.into_iter().next() {
            Some(answer) => Ok(answer),
            None => unknown("the reply leaves it out".to_owned()),
        },
        Err(AskError::Store(error)) => Err(error.into()),
        // Nobody was asked: that says nothing about the order.
        Err(AskError::NotYet(pause)) => {
            tracing::warn!(order.id = %order_id, ?pause, "a caller would wait too long for an answer");
            Err(ApiError::Unavailable)
        }
        Err(error) => unknown(chain(&error)),
    }
}
