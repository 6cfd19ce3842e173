//! Asks the payment service before an order is cancelled over the API.

use std::time::Duration;

use order_fsm::{OrderId, OrderStatus};
use order_store::{Operation, RecordedAnswer, Store};

use crate::http::answer::error::ApiError;
use crate::http::answer::problem::Kind;
use crate::payment_service::{Answer, AskError, PaymentService, State};
use crate::telemetry::chain;

/// How long a question waits for its turn; together with the reply this stays within the request
/// deadline.
const TURN_MAX: Duration = Duration::from_secs(2);

/// Asks about an order that could be cancelled, and records the payments in the reply.
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
        // The operation reports why.
        return Ok(());
    }
    let (kind, refusal) = match question(store, service, order_id).await? {
        // The only payments were given up by a person.
        None | Some(State::Unpaid | State::UnpaidForGood | State::Refunded) => return Ok(()),
        Some(State::Paid) => (
            Kind::PaymentRecorded,
            ApiError::PaymentRecorded(order_id.clone()),
        ),
        Some(State::Pending) => (
            Kind::PaymentPending,
            ApiError::PaymentPending(order_id.clone()),
        ),
        Some(State::Unknown(why)) => (
            Kind::PaymentStateUnknown,
            ApiError::PaymentStateUnknown(order_id.clone(), why),
        ),
    };
    store.refuse(operation.clone(), kind.row().slug).await?;
    Err(refusal)
}

/// Asks about an order and records the payments in the reply; `None` if a person gave all of them up.
pub(crate) async fn question(
    store: &Store,
    service: &PaymentService,
    order_id: &OrderId,
) -> Result<Option<State>, ApiError> {
    let answer = ask(service, order_id).await?;
    let told = store.record_answers(answer.facts.clone(), false).await?;
    if told.contains(&RecordedAnswer::Unreadable) {
        return Err(ApiError::Unreadable);
    }
    Ok(answer.state_after(&told).cloned())
}

async fn ask(service: &PaymentService, order_id: &OrderId) -> Result<Answer, ApiError> {
    let unknown = |why: String| {
        tracing::warn!(order.id = %order_id, why, "payment service gave no usable answer; the order is not cancelled");
        Ok(Answer::unknown(why))
    };
    match service.ask(std::slice::from_ref(order_id), TURN_MAX).await {
        Ok(reply) if reply.nameless > 0 => {
            let nameless = "an entry doesn't say what it is about";
            let paid = reply.answers.into_iter().next();
            match paid {
                Some(answer) if answer.state == State::Paid => {
                    Ok(answer.doubting_the_rest(nameless))
                }
                _ => unknown(nameless.to_owned()),
            }
        }
        Ok(reply) => match reply.answers.into_iter().next() {
            Some(answer) => Ok(answer),
            None => unknown("the reply leaves it out".to_owned()),
        },
        Err(AskError::Store(error)) => Err(error.into()),
        // The question wasn't sent, so the state of the order is unchanged.
        Err(AskError::NotYet(pause)) => {
            tracing::warn!(order.id = %order_id, ?pause, "question not sent: its turn comes too late for the caller");
            Err(ApiError::NotToBeAsked(pause))
        }
        Err(error) => unknown(chain(&error)),
    }
}
