//! Commands are carried out to their end, even if the caller disconnects.
//!
//! When a client disconnects, the future of its request is dropped at any await. So the body of a
//! `POST` is read first, which is safe to drop; then the request runs in its own task. The caller's
//! request joins it, and the service joins all tasks before it ends.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use order_store::Store;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::http::answer::error::{ApiError, BODY_BYTES_MAX};
use crate::http::answer::write;
use crate::http::request::body;
use crate::http::request::key;
use crate::http::server::{idempotency, page};

/// The maximum number of commands in progress. Further ones, from up to 4,096 connections, wait for
/// a slot.
const COMMANDS_MAX: usize = 1024;

/// The commands in progress. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Commands {
    tasks: TaskTracker,
    slots: Arc<Semaphore>,
}

impl Default for Commands {
    fn default() -> Self {
        Self::at_most(COMMANDS_MAX)
    }
}

impl Commands {
    /// Limited to this many in progress.
    pub(crate) fn at_most(count: usize) -> Self {
        Self {
            tasks: TaskTracker::new(),
            slots: Arc::new(Semaphore::new(count)),
        }
    }

    /// Waits until all have ended; to be called when no more requests come in.
    pub async fn join(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// The number of commands in progress.
    #[cfg(test)]
    pub(crate) fn running(&self) -> usize {
        self.tasks.len()
    }
}

/// The layer around every operation.
pub(crate) async fn carry_out(
    State(store): State<Store>,
    State(commands): State<Commands>,
    request: Request,
    next: Next,
) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let done = begin(store, commands, request, next).await;
    done.unwrap_or_else(ApiError::into_response)
}

async fn begin(
    store: Store,
    commands: Commands,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let is_page = page::is_page(request.uri().path());
    // Forms have no key: their commands find what is done already.
    let key = key::key(request.headers())?.filter(|_| !is_page);
    let bytes_max = if is_page {
        page::FORM_BYTES_MAX
    } else {
        BODY_BYTES_MAX
    };
    let (head, sent) = request.into_parts();
    let body = body::read(&head.headers, sent, bytes_max).await?;
    let keyed = key.map(|key| idempotency::keyed(key, &head, &body));
    let request = Request::from_parts(head, Body::from(body));
    let slot = commands.slots.clone().acquire_owned().await;
    let task = commands.tasks.spawn(async move {
        let _slot = slot;
        let path = request.uri().path().to_owned();
        let answer = async {
            // Caught here, since no layer outside sees it if the caller is gone.
            let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
            let answer = answer.unwrap_or_else(write::answer_panic);
            if is_page {
                // A layer outside of this one shows its problem.
                answer
            } else {
                write::complete(&path, answer)
            }
        };
        match keyed {
            Some(keyed) => idempotency::answer(&store, keyed, answer).await,
            None => answer.await,
        }
    });
    match task.await {
        Ok(answer) => Ok(answer),
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only a runtime that is shutting down cancels tasks.
            Err(_) => Err(ApiError::Unavailable),
        },
    }
}
