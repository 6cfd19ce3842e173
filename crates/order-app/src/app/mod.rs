//! `orderd serve`: starts the parts and stops them in order.

mod chores;
mod describe;
pub mod one_shot;
mod parts;
mod pools;
mod probe;
mod question;
mod ready;
mod writing;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use order_store::{Store, StoreOptions};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::console;
use crate::health::Health;
use crate::http::{self, HttpState};
use crate::nats::Topology;
use crate::payment_service::{self, PaymentService};
use crate::reconcile::{self, Reconciler};
use crate::relay::Relay;
use crate::telemetry;
use crate::tokens::{self, Tokens};
use crate::watch::Watch;
use parts::Parts;

/// Connections to the database for HTTP.
const API_CONNECTIONS_MAX: u32 = 8;

/// How long a request waits for one of them; then it is answered with 503.
const API_PATIENCE: Duration = Duration::from_secs(2);

/// The most runs that the API started and the job hasn't picked up yet.
const RUNS_MAX: usize = 8;

/// The reconciliation job with these settings.
fn reconciler(config: &Config, store: Store, service: Option<PaymentService>) -> Reconciler {
    Reconciler {
        store,
        service,
        wait_for_order: config.wait_for_order,
        keep: config.keep,
        walks: reconcile::Walks::default(),
    }
}

/// Opens the store with the settings of `config`. A SQLite file has to exist: `serve` and `migrate` create it before
/// they call this.
///
/// # Errors
/// If there is no such file, or it has other names.
pub fn open_store(config: &Config) -> Result<Store> {
    config.database_url.check_file(false)?;
    let options = StoreOptions {
        livemode: config.livemode,
        pay_within: config.pay_within,
        check_after: config.check_after,
        last_check_after: config.last_check_after,
        ..StoreOptions::default()
    };
    Ok(Store::open(&config.database_url, options))
}

/// The payment service, if one is set; logs a warning otherwise.
async fn payment_service(config: &Config, store: Store) -> Result<Option<PaymentService>> {
    let service = PaymentService::new(config, store).await?;
    if service.is_none() {
        tracing::warn!(
            "ORDERD_PAYMENT_QUERY is `none`: lost payments are not found, and unpaid orders are not \
             cancelled automatically"
        );
    }
    Ok(service)
}

/// Serves until `shutdown`.
///
/// # Errors
/// If the service can't start, or fails with something that waiting doesn't resolve.
#[expect(
    clippy::too_many_lines,
    reason = "the list of the parts, in the order of their start"
)]
pub async fn serve(config: Config, migrate: bool, shutdown: CancellationToken) -> Result<()> {
    let metrics = telemetry::metrics();
    describe::describe_metrics();
    let tokens = load_tokens(&config)?;
    let lock = config.database_url.lock_for_serving()?;
    let stop = shutdown.child_token();
    let watch = Watch::until(stop.clone());
    let watched = |options: &mut StoreOptions| options.listener = Some(Arc::new(watch.clone()));
    let store = open_store(&config)?.with_options(watched);
    if let Some(lock) = &lock {
        store.rely_on(lock);
    }
    ready::prepare_database(&store, migrate, &shutdown).await?;
    if shutdown.is_cancelled() {
        return Ok(());
    }
    // The API has a pool of its own, so that its callers can't starve ingest.
    let api_store = store.beside(|options| {
        options.connections_max = API_CONNECTIONS_MAX;
        options.acquire_timeout = API_PATIENCE;
    });

    let health = Health::default();
    health.set_database(true);
    let listener = http::listen(config.http_addr)
        .with_context(|| format!("ORDERD_HTTP_ADDR: {} cannot be bound", config.http_addr))?;
    tracing::info!(
        http.addr = %listener.local_addr()?, database = %config.database_url,
        "service started"
    );
    // Turns of questions are reserved over the API's pool: callers wait for some of them.
    let service = payment_service(&config, api_store.clone()).await?;
    let reconciler = reconciler(&config, store.clone(), service.clone());
    let (runs, begun) = mpsc::channel(RUNS_MAX);
    let state = HttpState::new(
        api_store.clone(),
        health.clone(),
        metrics.clone(),
        &config.nats.inbound_subject,
        http::Reconciliation {
            service,
            runs,
            lease: reconcile::LEASE_TTL,
        },
    );
    let state = state
        .watching(watch.clone())
        .with_tokens(tokens.clone())
        .with_rate_limit(config.rate_limit);
    let commands = state.commands();
    let router = http::router_with(state, config.console.then(console::pages));

    let topology = Topology::connect(&config.nats).await?;
    let publishing = Relay::new(topology.clone(), store.clone()).reporting_to(health.clone());

    let mut parts = Parts::default();
    parts.add(parts::LAST, {
        let (stop, others_stopped) = (stop.clone(), parts.others_stopped());
        async move {
            http::serve(listener, router, stop, others_stopped).await;
            // Also commands whose callers have disconnected.
            commands.join().await;
            Ok(())
        }
    });
    parts.add("watch", {
        let (store, stop) = (api_store.clone(), stop.clone());
        async move {
            watch.run(store, stop).await;
            Ok(())
        }
    });
    parts.add(
        "ingest",
        ready::ingest(
            topology.clone(),
            store.clone(),
            health.clone(),
            stop.clone(),
        ),
    );
    parts.add(
        "relay",
        ready::relay(
            topology.clone(),
            config.relay.then_some(publishing),
            stop.clone(),
        ),
    );
    parts.add(
        "payment query",
        question::check_regularly(
            topology.clone(),
            config.payment_query.clone(),
            health.clone(),
            stop.clone(),
        ),
    );
    parts.add(
        "probe",
        probe::probe(
            topology,
            [store.clone(), api_store.clone()],
            health.clone(),
            stop.clone(),
        ),
    );
    parts.add("tokens", reload_tokens(tokens, stop.clone()));
    parts.add("settling", chores::settle(store.clone(), stop.clone()));
    parts.add(
        "retention",
        chores::purge(store.clone(), config.keep, stop.clone()),
    );
    parts.add("reconciliation", {
        let (every, stop) = (config.reconcile_every, stop.clone());
        async move {
            reconcile::run_scheduled(reconciler, every, begun, stop).await;
            Ok(())
        }
    });
    parts.add("metrics", chores::upkeep(metrics, stop.clone()));
    parts.add(
        "pools",
        pools::measure(store.clone(), api_store.clone(), stop.clone()),
    );

    let result = parts.run(&shutdown, &stop, &health).await;
    // Connections that are still in use are closed by the end of the process.
    let closed = async {
        api_store.close().await;
        store.close().await;
    };
    let _ = tokio::time::timeout(Duration::from_millis(500), closed).await;
    tracing::info!("service stopped");
    result
}

/// Reads the tokens file, if one is set. A broken file refuses the start.
fn load_tokens(config: &Config) -> Result<Option<Tokens>> {
    let Some(path) = &config.tokens_file else {
        tracing::info!(
            "ORDERD_TOKENS_FILE is not set: every caller on this machine is allowed everything"
        );
        return Ok(None);
    };
    let tokens = Tokens::load(path).context("ORDERD_TOKENS_FILE")?;
    if tokens.count() == 0 {
        tracing::warn!(
            "tokens file contains no token: every request is refused until `orderd token` adds one"
        );
    }
    tokens::describe_metrics();
    Ok(Some(tokens))
}

/// Reads the tokens file again when it changes, if there is one.
async fn reload_tokens(tokens: Option<Tokens>, stop: CancellationToken) -> Result<()> {
    match tokens {
        Some(tokens) => tokens::reload_when_changed(tokens, stop).await,
        None => stop.cancelled().await,
    }
    Ok(())
}
