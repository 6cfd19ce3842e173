//! The HTTP API: one operation a file, every error a problem, one list of routes in which served
//! means documented.
//!
//! Nothing here decides what happens to an order: handlers read a request into typed values, ask
//! the store, and write its answer. A client that goes away drops its handler at any await: reads
//! end there, commands are carried out in a task of their own (`commands`).
//!
//! Enter at [`router`]; `routes` is the list of operations, `problem` the list of errors.

mod access;
mod actor;
mod body;
mod commands;
mod cursor;
mod deadline;
mod docs;
mod error;
mod etag;
mod examples;
mod fields;
mod idempotency;
mod layers;
mod openapi;
mod operations;
mod page;
mod path;
mod patient;
mod prefer;
mod problem;
mod problem_docs;
mod query;
mod rate;
mod routes;
mod schemas;
mod serve;
mod telemetry;
#[cfg(test)]
mod tests;
mod values;
mod wire;
mod wire_ops;
mod wire_runs;

use std::num::NonZeroU32;
use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use axum::middleware::from_fn_with_state;
use metrics_exporter_prometheus::PrometheusHandle;
use order_store::{Run, Store};
use tokio::sync::mpsc;

pub use commands::Commands;
pub use openapi::{openapi, openapi_json};
pub use serve::{listen, serve};

use crate::health::Health;
use crate::payment_service::PaymentService;
use crate::tokens::Tokens;
use crate::watch::Watch;
use access::Access;

/// What the operations need. Cheap to clone.
#[derive(Clone)]
pub struct HttpState {
    store: Store,
    health: Health,
    metrics: PrometheusHandle,
    inbound: InboundSubject,
    reconciliation: Reconciliation,
    watch: Watch,
    commands: Commands,
    tokens: Option<Tokens>,
    rate_limit: Option<NonZeroU32>,
}

/// What HTTP needs of the reconciliation: who is asked before an order is cancelled, and where runs
/// go that a caller began.
#[derive(Debug, Clone)]
pub struct Reconciliation {
    /// Who is asked, if there is anybody.
    pub service: Option<PaymentService>,
    /// To whoever carries runs out.
    pub runs: mpsc::Sender<Run>,
}

/// The inbound subject without the provider: dead letters are replayed as if from there.
#[derive(Debug, Clone)]
pub(crate) struct InboundSubject(pub(crate) Arc<str>);

impl HttpState {
    /// The store should be the API's own pool: a shared one would let callers starve the consumer.
    pub fn new(
        store: Store,
        health: Health,
        metrics: PrometheusHandle,
        inbound_subject: &str,
        reconciliation: Reconciliation,
    ) -> Self {
        Self {
            store,
            health,
            metrics,
            inbound: InboundSubject(inbound_subject.into()),
            reconciliation,
            watch: Watch::default(),
            commands: Commands::default(),
            tokens: None,
            rate_limit: None,
        }
    }

    /// Waits for orders here, where somebody tells what moved.
    #[must_use]
    pub fn watching(self, watch: Watch) -> Self {
        Self { watch, ..self }
    }

    /// With commands of a test's own.
    #[cfg(test)]
    fn carrying_out(self, commands: Commands) -> Self {
        Self { commands, ..self }
    }

    /// The commands that are being carried out, to be joined after the last request.
    pub fn commands(&self) -> Commands {
        self.commands.clone()
    }

    /// Lets in only who has a token; none: everybody.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Option<Tokens>) -> Self {
        self.tokens = tokens;
        self
    }

    /// Requests per second and token; without tokens all callers share them.
    #[must_use]
    pub fn with_rate_limit(mut self, per_second: Option<NonZeroU32>) -> Self {
        self.rate_limit = per_second;
        self
    }
}

impl FromRef<HttpState> for Reconciliation {
    fn from_ref(state: &HttpState) -> Self {
        state.reconciliation.clone()
    }
}

impl FromRef<HttpState> for InboundSubject {
    fn from_ref(state: &HttpState) -> Self {
        state.inbound.clone()
    }
}

impl FromRef<HttpState> for Watch {
    fn from_ref(state: &HttpState) -> Self {
        state.watch.clone()
    }
}

impl FromRef<HttpState> for Commands {
    fn from_ref(state: &HttpState) -> Self {
        state.commands.clone()
    }
}

impl FromRef<HttpState> for Store {
    fn from_ref(state: &HttpState) -> Self {
        state.store.clone()
    }
}

impl FromRef<HttpState> for Health {
    fn from_ref(state: &HttpState) -> Self {
        state.health.clone()
    }
}

impl FromRef<HttpState> for PrometheusHandle {
    fn from_ref(state: &HttpState) -> Self {
        state.metrics.clone()
    }
}

/// Everything that is served over HTTP.
pub fn router(state: HttpState) -> Router {
    telemetry::describe();
    let (router, document) = routes::routes().split_for_parts();
    // The innermost layer: whoever may not come in claims no key and starts no task.
    let router = router.route_layer(from_fn_with_state(state.clone(), commands::carry_out));
    let access = Access::new(state.tokens.clone(), state.rate_limit, &document);
    layers::around(
        router.with_state(state).merge(docs::pages()),
        access,
        layers::REQUEST_DEADLINE,
    )
}
