//! `orderd serve`: the parts put together, and taken apart in order.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use metrics::gauge;
use order_fsm::{PaymentKind, Verdict};
use order_store::{OutboxGauges, Republished, Store, StoreOptions};
use time::OffsetDateTime;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::health::Health;
use crate::http::{self, HttpState};
use crate::ingest::{self, Ingest};
use crate::nats::{self, Topology};
use crate::relay::{self, Ending, Relay};
use crate::telemetry::{self, chain};
use crate::time_format;

/// How long the database may be away at the start.
const DATABASE_START: Duration = Duration::from_secs(30);

/// How long parts may take to stop; what isn't done by then is delivered again.
const STOP: Duration = Duration::from_secs(11);

/// How often the state of things is looked at.
const PROBE_EVERY: Duration = Duration::from_secs(2);

/// The same until the service is ready: nobody has to wait longer than for what is missing.
const PROBE_EVERY_UNREADY: Duration = Duration::from_millis(250);

/// How often payments are looked for that a dead process left waiting.
const SETTLE_EVERY: Duration = Duration::from_mins(1);

/// Orders settled in one such look.
const SETTLE_MAX: u32 = 1000;

/// How often what is closed and old is forgotten.
const FORGET_EVERY: Duration = Duration::from_hours(1);

/// Rows of a kind that are forgotten in one go.
const FORGET_MAX: u64 = 100_000;

/// How often the recorder of metrics tidies up.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Opens the store of `config`, with a pool for the way in.
pub fn open_store(config: &Config) -> Store {
    let options = StoreOptions {
        livemode: config.livemode,
        pay_within: config.pay_within,
        check_after: config.check_after,
        ..StoreOptions::default()
    };
    Store::open(&config.database_url, options)
}

/// Serves until `shutdown`.
///
/// # Errors
/// If the service can't start, or meets something that waiting doesn't mend.
pub async fn serve(config: Config, migrate: bool, shutdown: CancellationToken) -> Result<()> {
    let metrics = telemetry::metrics();
    describe_metrics();
    let _lock = config.database_url.lock_for_serving()?;
    let store = open_store(&config);
    prepare_database(&store, migrate, &shutdown).await?;
    // The API has a pool of its own: its callers must not starve the way in.
    let api_store = if config.database_url.sqlite_path().is_some() {
        store.clone()
    } else {
        open_store(&config)
    };

    let health = Health::default();
    health.set_database(true);
    let listener = TcpListener::bind(config.http_addr)
        .await
        .with_context(|| format!("ORDERD_HTTP_ADDR: {} cannot be bound", config.http_addr))?;
    tracing::info!(http.addr = %listener.local_addr()?, database = %config.database_url, "serving");
    let router = http::router(HttpState::new(
        api_store.clone(),
        health.clone(),
        metrics.clone(),
        &config.nats.inbound_subject,
    ));

    let client = nats::connect(&config.nats).await?;
    let topology = Topology::new(client, config.nats.clone());

    let stop = shutdown.child_token();
    let mut parts: JoinSet<Result<()>> = JoinSet::new();
    parts.spawn({
        let stop = stop.clone();
        async move {
            http::serve(listener, router, stop).await;
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
    parts.spawn(probe(topology, store.clone(), health.clone(), stop.clone()));
    parts.spawn(settle(store.clone(), stop.clone()));
    parts.spawn(forget(store.clone(), config.keep, stop.clone()));
    parts.spawn(upkeep(metrics, stop.clone()));

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
    let result = tokio::time::timeout(STOP, rest).await.unwrap_or_else(|_| {
        // Nothing of it was acked; the next process gets it again.
        tracing::warn!("not everything stopped in time; the rest is given up");
        Ok(())
    });
    // Whatever still holds a connection is cut off by the end of the process.
    let _ = tokio::time::timeout(Duration::from_millis(500), store.close()).await;
    tracing::info!("stopped");
    result
}

/// Publishes order events again; what is to be said about it.
///
/// # Errors
/// If the database or the broker failed before everything was published.
pub async fn republish(config: &Config, since: OffsetDateTime) -> Result<String> {
    let store = open_store(config);
    let context = "order events cannot be published again";
    store.check_schema().await.context(context)?;
    let client = nats::connect(&config.nats).await?;
    let relay = Relay::new(Topology::new(client, config.nats.clone()), store.clone());
    let done = relay::republish(relay, &store, since, config.relay).await;
    let done = done.context(context)?;
    let Republished {
        transitions,
        exceptions,
    } = done.marked;
    let said = format!(
        "{transitions} order event(s) and {exceptions} payment exception(s) since {} are marked to \
         be published again; the broker drops those that it took within its duplicate window \
         (10 minutes)\n",
        time_format::format(since)
    );
    let ending = match done.ending {
        Ending::NothingToDo => String::new(),
        Ending::Service => "the running service publishes them\n".to_owned(),
        Ending::Here(count) => format!("{count} event(s) published\n"),
        Ending::RelayOff => "ORDERD_RELAY is off: nobody publishes them now\n".to_owned(),
        Ending::Failed(count, error) => {
            return Err(error).context(format!(
                "{said}{count} event(s) published, the rest is kept"
            ));
        }
    };
    Ok(said + &ending)
}

/// Lets payment events be consumed again; what is to be said about it.
///
/// # Errors
/// If a service is running, or the broker failed.
pub async fn reconsume(config: &Config, since: OffsetDateTime) -> Result<String> {
    // A SQLite file that is served says so at once; for PostgreSQL the consumer is watched.
    let _lock = match config.database_url.sqlite_path() {
        Some(path) if path.exists() => config.database_url.lock_for_serving()?,
        _ => None,
    };
    let client = nats::connect(&config.nats).await?;
    let topology = Topology::new(client, config.nats.clone());
    let done = topology.reconsume(since).await?;
    let from = match done.earlier_sequence {
        Some(sequence) => format!("message {sequence}, the first one not consumed yet"),
        None => time_format::format(since),
    };
    Ok(format!(
        "consumer {} starts again at {from}: {} message(s) will be delivered, those that are \
         recorded already as DUPLICATE\n",
        config.nats.consumer, done.messages
    ))
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
            () = shutdown.cancelled() => bail!("stopped before the database was there"),
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
    loop {
        match topology.ensure().await {
            Ok(_) => break,
            Err(error) if error.is_unfit() => {
                return Err(error).context("the broker cannot be used");
            }
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the broker is not there yet");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
    Ingest::new(topology, store, health).run(stop).await;
    Ok(())
}

/// Waits for a fit stream, then publishes to it.
async fn relay(topology: Topology, store: Store, on: bool, stop: CancellationToken) -> Result<()> {
    loop {
        match topology.ensure_outbound().await {
            Ok(()) => break,
            Err(error) if error.is_unfit() => {
                return Err(error).context("the broker cannot be used");
            }
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the broker is not there yet");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
            () = stop.cancelled() => return Ok(()),
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

/// Looks at database and broker, for the probes and the gauges.
async fn probe(
    topology: Topology,
    store: Store,
    health: Health,
    stop: CancellationToken,
) -> Result<()> {
    let mut was_ready = false;
    while !stop.is_cancelled() {
        let (database, broker) = tokio::join!(probe_database(&store), probe_broker(&topology));
        health.set_database(database);
        health.set_broker(broker);
        if health.ready() != was_ready {
            was_ready = !was_ready;
            tracing::info!(ready = was_ready, database, broker, "readiness changed");
        }
        tokio::select! {
            () = tokio::time::sleep(if was_ready { PROBE_EVERY } else { PROBE_EVERY_UNREADY }) => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(())
}

async fn probe_database(store: &Store) -> bool {
    let looked = async {
        store.check_schema().await?;
        Ok::<_, order_store::Error>((store.gauges().await?, store.outbox_gauges().await?))
    };
    match tokio::time::timeout(Duration::from_secs(5), looked).await {
        Ok(Ok((gauges, outbox))) => {
            for verdict in Verdict::ALL
                .into_iter()
                .filter(|verdict| can_be_open(*verdict))
            {
                let open = gauges.exceptions_open.iter().find(|(of, _)| *of == verdict);
                set_gauge_of(verdict, open.map_or(0, |(_, count)| *count));
            }
            set_gauge("orderd_dead_letters_open", gauges.dead_letters_open);
            set_outbox_gauges(outbox);
            true
        }
        Ok(Err(error)) => {
            tracing::debug!(error = %chain(&error), "the database does not answer");
            false
        }
        Err(_) => false,
    }
}

/// Whether an exception can have this verdict: the kinds of payments that open most of them, and
/// the one that opens with time.
fn can_be_open(verdict: Verdict) -> bool {
    verdict == Verdict::WaitingForOrder || verdict.opens_exception(&PaymentKind::Succeeded)
}

async fn probe_broker(topology: &Topology) -> bool {
    match topology.pending().await {
        Ok(pending) => {
            set_gauge(
                "orderd_consumer_pending",
                i64::try_from(pending).unwrap_or(i64::MAX),
            );
            true
        }
        Err(error) => {
            tracing::debug!(error = %chain(&error), "the broker does not answer");
            false
        }
    }
}

fn set_outbox_gauges(outbox: OutboxGauges) {
    set_gauge("orderd_unpublished_events", outbox.unpublished);
    gauge!("orderd_unpublished_oldest_seconds").set(outbox.oldest_seconds);
    set_gauge("orderd_set_aside_events", outbox.set_aside);
}

#[expect(clippy::cast_precision_loss, reason = "a gauge of counts")]
fn set_gauge(name: &'static str, value: i64) {
    gauge!(name).set(value as f64);
}

#[expect(clippy::cast_precision_loss, reason = "a gauge of counts")]
fn set_gauge_of(verdict: Verdict, value: i64) {
    gauge!("orderd_exceptions_open", "verdict" => verdict.as_str()).set(value as f64);
}

/// Settles what a process left that died between a commit and the settling after it.
async fn settle(store: Store, stop: CancellationToken) -> Result<()> {
    while !stop.is_cancelled() {
        match store.settle_stranded(SETTLE_MAX).await {
            Ok(0) => {}
            Ok(settled) => tracing::info!(settled, "stranded payments settled"),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "stranded payments were not settled");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(SETTLE_EVERY) => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(())
}

/// Forgets closed dead letters and refusals after their time.
async fn forget(store: Store, keep: Duration, stop: CancellationToken) -> Result<()> {
    while !stop.is_cancelled() {
        match store.purge(keep, FORGET_MAX).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "closed and old rows are forgotten"),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "old rows were not forgotten");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(FORGET_EVERY) => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(())
}

async fn upkeep(
    metrics: metrics_exporter_prometheus::PrometheusHandle,
    stop: CancellationToken,
) -> Result<()> {
    while !stop.is_cancelled() {
        metrics.run_upkeep();
        tokio::select! {
            () = tokio::time::sleep(UPKEEP_EVERY) => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(())
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
    describe_gauge!(
        "orderd_consumer_pending",
        "Messages the consumer has not been given yet"
    );
    describe_gauge!(
        "orderd_exceptions_open",
        "Open payment exceptions by verdict"
    );
    describe_gauge!("orderd_dead_letters_open", "Open dead letters");
}
