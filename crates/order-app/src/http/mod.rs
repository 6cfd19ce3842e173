//! The HTTP API: one file per operation, every error is a problem, and one list of routes that are
//! both served and documented.
//!
//! Nothing here decides what happens to an order: handlers parse a request into typed values, call
//! the store, and write its answer. When a client disconnects, its handler is dropped at any await:
//! reads end there, commands are carried out in their own task (`carry_out`).
//!
//! Enter at [`router`]; `routes` is the list of operations, `problem` the list of errors.

pub(crate) mod answer;
mod document;
pub(crate) mod operations;
pub(crate) mod request;
mod routes;
pub(crate) mod server;
#[cfg(test)]
pub(crate) mod tests;

use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::FromRef;
use axum::middleware::from_fn_with_state;
use metrics_exporter_prometheus::PrometheusHandle;
use order_store::{Run, Store};
use tokio::sync::mpsc;
use utoipa::openapi::OpenApi;

pub use server::carry_out::Commands;
pub use server::serve::{listen, serve};

use crate::health::Health;
use crate::payment_service::PaymentService;
use crate::tokens::Tokens;
use crate::watch::Watch;
use server::access::Access;
use server::page::Pages;
use server::{carry_out, deadline, docs, layers, measure};

/// The state of the operations.
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
    document: Document,
}

/// The state as the routes share it: it is cloned several times for each request.
#[derive(Clone)]
pub(crate) struct Shared(Arc<HttpState>);

/// The parts of the reconciliation that the API uses: the payment service, which is asked before an
/// order is cancelled, and the channel for runs that callers start.
#[derive(Debug, Clone)]
pub struct Reconciliation {
    /// The payment service, if one is configured.
    pub service: Option<PaymentService>,
    /// To the job that carries out runs.
    pub runs: mpsc::Sender<Run>,
    /// How long a run counts as alive without a renewal of its lease.
    pub lease: Duration,
}

/// The inbound subject without the provider; replayed dead letters are treated as if from there.
#[derive(Debug, Clone)]
pub(crate) struct InboundSubject(pub(crate) Arc<str>);

/// The OpenAPI document as it is served: the same for every state of a process.
#[derive(Clone)]
pub(crate) struct Document(pub(crate) Bytes);

impl Document {
    fn of_this_binary() -> Self {
        static JSON: LazyLock<Bytes> = LazyLock::new(|| openapi_json().into());
        Self(JSON.clone())
    }
}

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
            document: Document::of_this_binary(),
        }
    }

    /// Uses this watch, which is notified of orders that moved.
    #[must_use]
    pub fn watching(self, watch: Watch) -> Self {
        Self { watch, ..self }
    }

    /// Uses the commands of a test.
    #[cfg(test)]
    fn carrying_out(self, commands: Commands) -> Self {
        Self { commands, ..self }
    }

    /// The commands in progress, to be joined after the last request.
    pub fn commands(&self) -> Commands {
        self.commands.clone()
    }

    /// Requires a token; without a tokens file, everyone is allowed.
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

/// Makes parts of the state available to operations.
macro_rules! parts {
    ($($field:ident: $part:ty,)*) => {$(
        impl FromRef<Shared> for $part {
            fn from_ref(Shared(state): &Shared) -> Self {
                state.$field.clone()
            }
        }
    )*};
}

parts! {
    store: Store,
    health: Health,
    metrics: PrometheusHandle,
    inbound: InboundSubject,
    reconciliation: Reconciliation,
    watch: Watch,
    commands: Commands,
    document: Document,
}

/// The API.
pub fn router(state: HttpState) -> Router {
    router_with(state, None)
}

/// Everything that is served over HTTP: the API, and pages beside it.
pub(crate) fn router_with(state: HttpState, pages: Option<Pages>) -> Router {
    measure::describe();
    let (router, document) = routes::routes().split_for_parts();
    let access = Access::new(state.tokens.clone(), state.rate_limit, &document);
    let shared = Shared(Arc::new(state));
    let show = pages.as_ref().map(|pages| pages.show);
    let router = match pages {
        Some(pages) => router.merge(pages.router),
        None => router,
    };
    // The innermost layer: a refused request claims no key and starts no task.
    let router = router.route_layer(from_fn_with_state(shared.clone(), carry_out::carry_out));
    layers::around(
        router.with_state(shared).merge(docs::pages()),
        access,
        deadline::REQUEST_DEADLINE,
        show,
    )
}

/// The OpenAPI document.
pub fn openapi() -> OpenApi {
    let (_, mut collected) = routes::routes().split_for_parts();
    document::openapi::complete(&mut collected);
    collected
}

/// The document as it is committed and served.
pub fn openapi_json() -> String {
    let json = openapi().to_pretty_json();
    json.expect("the document has string keys and serialises without fail") + "\n"
}
