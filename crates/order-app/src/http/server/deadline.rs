//! The deadline of a request; an operation that was asked to wait extends it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::time::{Instant, timeout_at};

use crate::http::answer::error::ApiError;

/// How long a request may take before it is answered with 503. Longer than any body may take to
/// arrive, so that only load and our own faults exceed it.
pub(crate) const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// When the answer is due. Travels with the request; clones are the same deadline.
#[derive(Debug, Clone)]
pub(crate) struct Deadline(Arc<Mutex<Instant>>);

impl Deadline {
    fn after(limit: Duration) -> Self {
        Self(Arc::new(Mutex::new(Instant::now() + limit)))
    }

    fn at(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Extends the deadline: time spent waiting doesn't count.
    pub(crate) fn put_off(&self, by: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }
}

impl<S: Sync> FromRequestParts<S> for Deadline {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // Without the layer there is no deadline.
        let due = parts.extensions.get::<Self>().cloned();
        Ok(due.unwrap_or_else(|| Self::after(Duration::from_hours(1))))
    }
}

/// Answers with 503 at the deadline.
pub(crate) async fn enforce(limit: Duration, mut request: Request, next: Next) -> Response {
    let deadline = Deadline::after(limit);
    request.extensions_mut().insert(deadline.clone());
    let answer = next.run(request);
    tokio::pin!(answer);
    loop {
        let due = deadline.at();
        if let Ok(answer) = timeout_at(due, answer.as_mut()).await {
            return answer;
        }
        if deadline.at() <= due {
            tracing::warn!(
                deadline_ms = limit.as_millis(),
                "request exceeded its deadline and was answered with 503"
            );
            return ApiError::Unavailable.into_response();
        }
    }
}
