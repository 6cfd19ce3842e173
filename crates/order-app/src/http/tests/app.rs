//! What tests do with the API.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::request::Builder;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use metrics_exporter_prometheus::PrometheusBuilder;
use order_fsm::{Content, PaymentKey, Verdict};
use order_store::{
    Batch, Clock, DatabaseUrl, KeyClaim, KeyedRequest, PaymentFact, Run, Source, Store,
    StoreOptions,
};
use serde_json::Value;
use time::OffsetDateTime;
use time::macros::datetime;
use tokio::sync::{Mutex, mpsc};
use tower::ServiceExt as _;

use crate::health::Health;
use crate::http::server::idempotency;
use crate::http::{Commands, HttpState, Reconciliation, openapi_json, router};
use crate::payment_service::PaymentService;
use crate::watch::Watch;

/// When everything in these tests happens.
pub(crate) const NOW: OffsetDateTime = datetime!(2026-11-29 08:00:00.123456 UTC);

/// The API on a database of its own.
pub(crate) struct TestApp {
    pub(crate) router: Router,
    /// What the router was made of.
    pub(crate) state: HttpState,
    pub(crate) store: Store,
    pub(crate) health: Health,
    /// Runs that were started and that no job carries out.
    pub(crate) begun: Mutex<mpsc::Receiver<Run>>,
    pub(crate) watch: Watch,
    pub(crate) commands: Commands,
    pub(crate) url: DatabaseUrl,
    document: Value,
    folder: PathBuf,
}

impl Drop for TestApp {
    fn drop(&mut self) {
        // If this fails, a file stays in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl TestApp {
    pub(crate) async fn start() -> Self {
        Self::start_asking(|_| None).await
    }

    /// With a payment service.
    pub(crate) async fn start_asking(
        service: impl FnOnce(&Store) -> Option<PaymentService>,
    ) -> Self {
        Self::start_with(Watch::default(), service).await
    }

    pub(crate) async fn watching(watch: Watch) -> Self {
        Self::start_with(watch, |_| None).await
    }

    async fn start_with(
        watch: Watch,
        service: impl FnOnce(&Store) -> Option<PaymentService>,
    ) -> Self {
        let folder = std::env::temp_dir().join(order_testkit::unique_name("orderd_http"));
        std::fs::create_dir_all(&folder).unwrap();
        let url = format!("sqlite://{}", folder.join("orderd.db").display());
        let url: DatabaseUrl = url.parse().unwrap();
        let options = StoreOptions {
            clock: Clock::Fixed(NOW),
            listener: Some(Arc::new(watch.clone())),
            ..StoreOptions::default()
        };
        let store = Store::open(&url, options);
        store.migrate().await.unwrap();
        let service = service(&store);
        let (runs, begun) = mpsc::channel(1);
        let health = Health::default();
        let metrics = PrometheusBuilder::new().build_recorder().handle();
        let state = HttpState::new(
            store.clone(),
            health.clone(),
            metrics,
            "payments.events",
            Reconciliation {
                service,
                runs,
                lease: Duration::from_secs(30),
            },
        );
        let state = state.watching(watch.clone());
        let commands = state.commands();
        let router = router(state.clone());
        let document = serde_json::from_str(&openapi_json()).unwrap();
        Self {
            router,
            state,
            store,
            health,
            begun: Mutex::new(begun),
            watch,
            commands,
            url,
            document,
            folder,
        }
    }

    /// What the API needs, on this store.
    pub(crate) fn state(&self, store: Store) -> HttpState {
        let metrics = PrometheusBuilder::new().build_recorder().handle();
        let (runs, _) = mpsc::channel(1);
        let reconciliation = Reconciliation {
            service: None,
            runs,
            lease: Duration::from_secs(30),
        };
        let health = self.health.clone();
        HttpState::new(store, health, metrics, "payments.events", reconciliation)
    }

    /// The API on this store, without waiting callers.
    pub(crate) fn on(&self, store: Store) -> Router {
        router(self.state(store))
    }

    /// Claims a key for a command that never ends.
    pub(crate) async fn hold_key(&self, key: &str, target: &str, body: &str) {
        let request = KeyedRequest {
            actor: "anonymous".to_owned(),
            key: key.to_owned(),
            digest: idempotency::digest(&Method::POST, target, body.as_bytes()),
            holder: "another-request".to_owned(),
        };
        let claim = self.store.claim_key(request, Duration::from_secs(10));
        assert_eq!(claim.await.unwrap(), KeyClaim::Held);
    }

    /// Sends a request and compares its answer with the document.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let answer = send(&self.router, request).await;
        self.assert_documented(&method, &path, answer.status);
        answer
    }

    pub(crate) async fn get(&self, uri: &str) -> Answer {
        self.send(get(uri).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, uri: &str, body: impl Into<Body>) -> Answer {
        self.send(post(uri).body(body.into()).unwrap()).await
    }

    /// Creates an order of 1000 CNY.
    pub(crate) async fn create(&self, order_id: &str) -> Answer {
        let body = format!(r#"{{"order_id":"{order_id}","amount":1000,"currency":"CNY"}}"#);
        let answer = self.post("/v1/orders", body).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{answer}");
        answer
    }

    /// Records a payment in CNY, as an event would.
    pub(crate) async fn pay(&self, order_id: &str, transaction_id: &str, amount: i64) -> Verdict {
        let fact = fact(order_id, "acme", transaction_id, "succeeded", amount);
        self.tell(vec![fact]).await[0]
    }

    pub(crate) async fn tell(&self, facts: Vec<PaymentFact>) -> Vec<Verdict> {
        self.store
            .record_payments(Batch {
                facts,
                dead_letters: Vec::new(),
            })
            .await
            .unwrap()
    }

    fn assert_documented(&self, method: &Method, path: &str, status: StatusCode) {
        let method = if method == Method::HEAD {
            "get"
        } else {
            &method.as_str().to_lowercase()
        };
        let paths = self.document["paths"].as_object().unwrap();
        let Some((template, item)) = paths.iter().find(|(template, _)| fits(template, path)) else {
            return;
        };
        if let Some(operation) = item.get(method) {
            let known = operation["responses"].get(status.as_str());
            assert!(
                known.is_some(),
                "{method} {template} is not documented to answer {status}"
            );
        }
    }
}

fn fits(template: &str, path: &str) -> bool {
    let (template, path) = (template.split('/'), path.split('/'));
    template.clone().count() == path.clone().count()
        && template
            .zip(path)
            .all(|(t, p)| t == p || (t.starts_with('{') && !p.is_empty()))
}

/// Adds a `Host`, which every client sends, if it is missing.
pub(crate) fn addressed(mut request: Request<Body>) -> Request<Body> {
    let host = HeaderValue::from_static("localhost:8080");
    request.headers_mut().entry(header::HOST).or_insert(host);
    request
}

pub(crate) async fn send(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(addressed(request)).await.unwrap();
    let (head, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
    Answer {
        status: head.status,
        headers: head.headers,
        body,
    }
}

pub(crate) fn get(uri: &str) -> Builder {
    Request::get(uri)
}

/// Adds the content type of a command.
pub(crate) fn post(uri: &str) -> Builder {
    Request::post(uri).header(header::CONTENT_TYPE, "application/json")
}

pub(crate) fn fact(
    order_id: &str,
    provider: &str,
    transaction_id: &str,
    kind: &str,
    amount: i64,
) -> PaymentFact {
    PaymentFact {
        key: PaymentKey {
            provider: provider.parse().unwrap(),
            transaction_id: transaction_id.parse().unwrap(),
            kind: kind.parse().unwrap(),
        },
        event_id: Some(format!("ev-{transaction_id}").parse().unwrap()),
        content: Content {
            order_id: order_id.parse().unwrap(),
            amount: amount.try_into().unwrap(),
            currency: "CNY".parse().unwrap(),
        },
        occurred_at: NOW - time::Duration::SECOND,
        livemode: true,
        source: Source::Event,
    }
}

/// An answer; its `Display` is what snapshots hold.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Asserts a problem of this kind and returns it.
    pub(crate) fn problem(&self, status: u16, slug: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{self}");
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self}"
        );
        let problem = self.json();
        assert_eq!(problem["type"], format!("/problems/{slug}"), "{self}");
        assert_eq!(problem["status"], status, "{self}");
        problem
    }

    /// Asserts a request that can't be read and returns the pointers to what is wrong with it.
    pub(crate) fn pointers(&self) -> Vec<String> {
        let problem = self.problem(400, "invalid-request");
        let errors = problem["errors"].as_array().unwrap();
        errors
            .iter()
            .map(|error| error["pointer"].as_str().unwrap().to_owned())
            .collect()
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.status)?;
        let mut headers: Vec<_> = self.headers.iter().collect();
        headers.sort_by_key(|(name, _)| name.as_str());
        for (name, value) in headers {
            writeln!(f, "{name}: {}", String::from_utf8_lossy(value.as_bytes()))?;
        }
        match serde_json::from_slice::<Value>(&self.body) {
            Ok(json) => write!(f, "\n{json:#}"),
            Err(_) => write!(f, "\n{}", String::from_utf8_lossy(&self.body)),
        }
    }
}
