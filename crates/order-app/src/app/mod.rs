//! `orderd serve`: the parts put together, and taken apart in order.

mod chores;
mod commands;
mod pools;
mod probe;
mod reconciling;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use order_store::{Store, StoreOptions};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::health::Health;
use crate::http::{self, HttpState};
use crate::ingest::{self, Ingest};
use crate::nats::{self, Topology, TopologyError};
use crate::payment_service::PaymentService;
use crate::reconcile::{self, Reconciler};
use crate::relay::{self, Relay};
use crate::telemetry::{self, chain};
use crate::tokens::{self, Tokens};
use crate::watch::{self, Watch};

pub use commands::{reconsume, republish};
pub use reconciling::{Reconciled, RunEnding, reconcile};

/// How long the database may be away at the start.
const DATABASE_START: Duration = Duration::from_secs(30);

/// Connections to the database for HTTP.
const API_CONNECTIONS_MAX: u32 = 8;

/// How long a request waits for one of them; then its caller is told to come back.
const API_PATIENCE: Duration = Duration::from_secs(2);

/// How long parts may take to stop; what isn't done by then is delivered again.
const STOP: Duration = Duration::from_secs(11);

/// Runs that the API began and the job has not taken over yet; one works at a time.
const RUNS_MAX: usize = 8;

/// The job of these settings.
fn reconciler(config: &Config, store: Store, service: Option<PaymentService>) -> Reconciler {
    Reconciler {
        store,
        service,
        wait_for_order: config.wait_for_order,
        keep: config.keep,
    }
}

/// Opens the store of `config`, with a pool for the way in.
pub fn open_store(config: &Config) -> Store {
    let options = StoreOptions {
        livemode: config.livemode,
        pay_within: config.pay_within,
        check_after: config.check_after,
        last_check_after: config.last_check_after,
        ..StoreOptions::default()
    };
    Store::open(&config.database_url, options)
}

/// Who is asked about unpaid orders, if there is anybody; says so if not.
async fn payment_service(config: &Config, store: Store) -> Result<Option<PaymentService>> {
    let service = PaymentService::new(config, store).await?;
    if service.is_none() {
        tracing::warn!(
            "ORDERD_PAYMENT_QUERY is none: no lost payment is healed, and no unpaid order is \
             cancelled by itself"
        );
    }
    Ok(service)
}

/// Serves until `shutdown`.
///
/// # Errors
/// If the service can't start, or meets something that waiting doesn't mend.
pub async fn serve(config: Config, migrate: bool, shutdown: CancellationToken) -> Result<()> {
    let metrics = telemetry::metrics();
    describe_metrics();
    let tokens = load_tokens(&config)?;
    let _lock = config.database_url.lock_for_serving()?;
    let stop = shutdown.child_token();
    let watch = Watch::until(stop.clone());
    let watched = |options: &mut StoreOptions| options.listener = Some(Arc::new(watch.clone()));
    let store = open_store(&config).with_options(watched);
    prepare_database(&store, migrate, &shutdown).await?;
    if shutdown.is_cancelled() {
        return Ok(());
    }
    // The API has a pool of its own: its callers must not starve the way in.
    let api_store = store.beside(|options| {
        options.connections_max = API_CONNECTIONS_MAX;
        options.acquire_timeout = API_PATIENCE;
    });

    let health = Health::default();
    health.set_database(true);
    let listener = http::listen(config.http_addr)
        .with_context(|| format!("ORDERD_HTTP_ADDR: {} cannot be bound", config.http_addr))?;
    tracing::info!(http.addr = %listener.local_addr()?, database = %config.database_url, "serving");
    // The pace of questions is kept over the API's pool: people wait for some of them.
    let service = payment_service(&config, api_store.clone()).await?;
    let reconciler = reconciler(&config, store.clone(), service.clone());
    let (runs, begun) = mpsc::channel(RUNS_MAX);
    let state = HttpState::new(
        api_store.clone(),
        health.clone(),
        metrics.clone(),
        &config.nats.inbound_subject,
        http::Reconciliation { service, runs },
    );
    let state = state
        .watching(watch.clone())
        .with_tokens(tokens.clone())
        .with_rate_limit(config.rate_limit);
    let commands = state.commands();
    let router = http::router(state);

    let client = nats::connect(&config.nats).await?;
    let topology = Topology::new(client, config.nats.clone());

    let mut parts: JoinSet<Result<()>> = JoinSet::new();
    parts.spawn({
        let stop = stop.clone();
        async move {
            http::serve(listener, router, stop).await;
            // Those whose callers went away.
            commands.join().await;
            Ok(())
        }
    });
    parts.spawn({
        let (store, stop) = (api_store.clone(), stop.clone());
        async move {
            watch.run(store, stop).await;
            Ok(())
        }
    });
    parts.spawn(ingest(
        topology.clone(),
        store.clone(),
        health.clone(),
        stop.clone(),
    ));
    parts.spawn(relay(
        topology.clone(),
        store.clone(),
        config.relay,
        stop.clone(),
    ));
    parts.spawn(probe::probe(
        topology,
        store.clone(),
        health.clone(),
        stop.clone(),
    ));
    parts.spawn(watch_tokens(tokens, stop.clone()));
    parts.spawn(chores::settle(store.clone(), stop.clone()));
    parts.spawn({
        let (every, stop) = (config.reconcile_every, stop.clone());
        async move {
            reconcile::serve(reconciler, every, begun, stop).await;
            Ok(())
        }
    });
    parts.spawn(chores::upkeep(metrics, stop.clone()));
    parts.spawn(pools::watch(store.clone(), api_store.clone(), stop.clone()));

    let result = run(parts, &shutdown, &stop, &health).await;
    // Whatever still holds a connection is cut off by the end of the process.
    let closed = async {
        api_store.close().await;
        store.close().await;
    };
    let _ = tokio::time::timeout(Duration::from_millis(500), closed).await;
    tracing::info!("stopped");
    result
}

/// Runs the parts until the shutdown, or until one of them fails; then lets them finish.
async fn run(
    mut parts: JoinSet<Result<()>>,
    shutdown: &CancellationToken,
    stop: &CancellationToken,
    health: &Health,
) -> Result<()> {
    // The first part that ends says why: it was told to, or it failed.
    let first = tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        Some(ended) = parts.join_next() => ended.context("a part of the service panicked")?,
    };
    health.drain();
    stop.cancel();
    tracing::info!("stopping");
    let rest = async {
        let mut result = first;
        while let Some(ended) = parts.join_next().await {
            let ended = ended.context("a part of the service panicked")?;
            result = result.and(ended);
        }
        result
    };
    tokio::time::timeout(STOP, rest).await.unwrap_or_else(|_| {
        // Nothing of it was acked; the next process gets it again.
        tracing::warn!("not everything stopped in time; the rest is given up");
        Ok(())
    })
}

/// Those who may call the API. A broken file at the start lets nobody in and says so.
fn load_tokens(config: &Config) -> Result<Option<Tokens>> {
    let Some(path) = &config.tokens_file else {
        tracing::info!(
            "ORDERD_TOKENS_FILE is not set: everybody on this machine may do everything"
        );
        return Ok(None);
    };
    let tokens = Tokens::load(path).context("ORDERD_TOKENS_FILE")?;
    if tokens.count() == 0 {
        tracing::warn!("the tokens file holds no token: `orderd token` makes one");
    }
    tokens::describe_metrics();
    Ok(Some(tokens))
}

/// Reads the tokens file again when it changes, if there is one.
async fn watch_tokens(tokens: Option<Tokens>, stop: CancellationToken) -> Result<()> {
    match tokens {
        Some(tokens) => tokens::watch(tokens, stop).await,
        None => stop.cancelled().await,
    }
    Ok(())
}

/// Waits for the database, then brings its schema up to date or checks it.
async fn prepare_database(
    store: &Store,
    migrate: bool,
    shutdown: &CancellationToken,
) -> Result<()> {
    let deadline = Instant::now() + DATABASE_START;
    loop {
        let prepared = if migrate {
            store.migrate().await.map(|applied| {
                if applied > 0 {
                    tracing::info!(applied, "migrations applied");
                }
            })
        } else {
            store.check_schema().await
        };
        match prepared {
            Ok(()) => return Ok(()),
            Err(error) if error.is_transient() && Instant::now() < deadline => {
                tracing::warn!(error = %chain(&error), "the database is not there yet");
            }
            Err(error) => return Err(error).context("the database cannot be used"),
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
            () = shutdown.cancelled() => return Ok(()),
        }
    }
}

/// Waits for a fit stream, then reads from it.
async fn ingest(
    topology: Topology,
    store: Store,
    health: Health,
    stop: CancellationToken,
) -> Result<()> {
    while !is_fit(topology.ensure().await.map(drop))? {
        if !again(&stop).await {
            return Ok(());
        }
    }
    Ingest::new(topology, store, health).run(stop).await;
    Ok(())
}

/// Waits for a fit stream, then publishes to it.
async fn relay(topology: Topology, store: Store, on: bool, stop: CancellationToken) -> Result<()> {
    while !is_fit(topology.ensure_outbound().await)? {
        if !again(&stop).await {
            return Ok(());
        }
    }
    if on {
        Relay::new(topology, store).run(stop).await;
    } else {
        tracing::warn!("ORDERD_RELAY is off: order events are kept and not published");
        stop.cancelled().await;
    }
    Ok(())
}

/// Whether the broker is as it must be; an error if waiting won't help.
fn is_fit(asked: std::result::Result<(), TopologyError>) -> Result<bool> {
    match asked {
        Ok(()) => Ok(true),
        Err(error) if error.is_unfit() => Err(error).context("the broker cannot be used"),
        Err(error) => {
            tracing::warn!(error = %chain(&error), "the broker is not ready yet: it must answer, and have JetStream");
            Ok(false)
        }
    }
}

/// Waits a moment; `false` if the service is stopped first.
async fn again(stop: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(500)) => true,
        () = stop.cancelled() => false,
    }
}

fn describe_metrics() {
    use metrics::describe_gauge;

    ingest::describe_metrics();
    metrics::describe_counter!(
        "orderd_consumer_recreated_total",
        "How often the consumer had to be made again because it did not belong to its stream"
    );
    metrics::counter!("orderd_consumer_recreated_total").increment(0);
    relay::describe_metrics();
    reconcile::describe_metrics();
    watch::describe_metrics();
    describe_gauge!(
        "orderd_consumer_pending",
        "Messages the consumer has not been given yet"
    );
    describe_gauge!(
        "orderd_exceptions_open",
        "Open payment exceptions by verdict"
    );
    describe_gauge!("orderd_dead_letters_open", "Open dead letters");
    describe_gauge!("orderd_ready", "1 if traffic is welcome");
    describe_gauge!("orderd_dependency_up", "1 if it answers, by dependency");
    pools::describe_metrics();
}
