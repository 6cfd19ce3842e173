//! `POST /console/payment-exceptions/{id}/close`: closes one, then shows the next one.

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use order_store::{ExceptionState, Listed as _, PaymentException, Place, Resolution, Store};

use super::one::{Typed, again};
use super::{Queue, Shown};
use crate::console::frame::form::Form;
use crate::console::frame::visitor::Visitor;
use crate::http::answer::error::ApiError;
use crate::http::operations::close_payment_exception;
use crate::http::request::actor::Actor;
use crate::http::request::path::DigestPath;

pub(in crate::console) async fn close(
    State(store): State<Store>,
    visitor: Visitor,
    Actor(actor): Actor,
    DigestPath(id): DigestPath,
    form: Form,
) -> Result<Response, ApiError> {
    let queue = Queue {
        state: ExceptionState::Open,
        ..Queue::of(&form.0)
    };
    let closed = match closing(&form) {
        Ok((resolution, note)) => {
            close_payment_exception::close(&store, id.clone(), resolution, note, actor).await
        }
        Err(invalid) => Err(invalid),
    };
    match closed {
        Ok(exception) => next(&store, queue, &exception).await,
        Err(refused) => {
            let typed = Typed {
                resolution: form.get("resolution").unwrap_or_default().to_owned(),
                note: form.get("note").unwrap_or_default().to_owned(),
            };
            again(&store, &visitor, id, queue, refused, typed).await
        }
    }
}

/// What the form says about how to close.
pub(super) fn closing(form: &Form) -> Result<(Resolution, String), ApiError> {
    let resolution = form.get("resolution").unwrap_or_default().parse();
    let resolution = resolution.map_err(|_| {
        ApiError::invalid(
            "resolution",
            "must be chosen: refunded, accepted or written off",
        )
    })?;
    Ok((resolution, form.note("note")?))
}

/// The exception behind this one in its queue, or else the first of it.
async fn next(
    store: &Store,
    queue: Queue,
    closed: &PaymentException,
) -> Result<Response, ApiError> {
    let behind = Place::after(closed.cursor());
    for from in [behind, Place::START] {
        let found = store.list_exceptions(queue.filter(), from, 1).await?;
        if let Some(next) = found.items.into_iter().next().map(Shown::from) {
            let place = format!(
                "/console/payment-exceptions/{}?{}&closed={}",
                next.id,
                queue.query(),
                closed.id
            );
            return Ok(Redirect::to(&place).into_response());
        }
    }
    let place = format!(
        "/console/payment-exceptions?{}&closed={}",
        queue.query(),
        closed.id
    );
    Ok(Redirect::to(&place).into_response())
}
