//! Checks database and broker every two seconds, for the probes and the gauges.

use std::time::Duration;

use anyhow::{Context as _, Result};
use metrics::gauge;
use order_fsm::Verdict;
use order_store::{OutboxGauges, Store};
use tokio_util::sync::CancellationToken;

use super::writing::Writing;
use crate::health::{Cause, Health};
use crate::nats::{About, Topology};
use crate::pause::pause;
use crate::telemetry::chain;

/// How often both are checked.
const PROBE_EVERY: Duration = Duration::from_secs(2);

/// The same while the service isn't ready, so that it becomes ready soon.
const PROBE_EVERY_UNREADY: Duration = Duration::from_millis(250);

/// The first pause at the start, where everything is in place within some tens of milliseconds; the pauses double.
const PROBE_EVERY_FIRST: Duration = Duration::from_millis(20);

/// How long the database may take for all its answers.
const PATIENCE: Duration = Duration::from_secs(5);

/// Checks both until `stop`.
///
/// # Errors
/// If another file is at the path of the service's database: only a new start can open it.
pub(super) async fn probe(
    topology: Topology,
    [store, api]: [Store; 2],
    health: Health,
    stop: CancellationToken,
) -> Result<()> {
    let mut was_ready = false;
    let mut writing = Writing::default();
    let mut unready_rest = PROBE_EVERY_FIRST;
    while !stop.is_cancelled() {
        let (database, broker) = tokio::join!(
            probe_database([&store, &api], &health, &mut writing),
            probe_broker(&topology, &health)
        );
        let database = database.context("the database file cannot be used any more")?;
        health.set_broker(broker);
        say_unreadable(&store, &health);
        set_health_gauges(&health);
        if health.ready() != was_ready {
            was_ready = !was_ready;
            let reasons = reasons(&health);
            tracing::info!(
                ready = was_ready,
                database,
                broker,
                reasons,
                "readiness changed"
            );
        }
        let rest = if was_ready { PROBE_EVERY } else { unready_rest };
        unready_rest = (unready_rest * 2).min(PROBE_EVERY_UNREADY);
        pause(&stop, rest).await;
    }
    Ok(())
}

/// Whether the database can be used; if not, the reason goes to the health.
async fn probe_database(
    [store, api]: [&Store; 2],
    health: &Health,
    writing: &mut Writing,
) -> Result<bool, order_store::Error> {
    let (looked, of_store, of_api) = tokio::join!(
        tokio::time::timeout(PATIENCE, writing.check(store)),
        store.starved(),
        api.starved(),
    );
    let looked = looked.unwrap_or_else(|_| Ok(Err("the database doesn't answer".to_owned())))?;
    // A single connection that one pool still has is enough for this look, but not for the work.
    let looked = looked.and_then(|()| match of_store.or(of_api) {
        None => Ok(()),
        Some(starved) => Err(starved.to_string()),
    });
    match &looked {
        Ok(()) => health.clear_cause(Cause::DatabaseDown),
        Err(why) => health.set_cause(Cause::DatabaseDown, why),
    }
    health.set_database(looked.is_ok());
    set_gauges(store).await;
    Ok(looked.is_ok())
}

/// Counts open exceptions, dead letters and events; a gauge that can't be counted keeps its last
/// value.
async fn set_gauges(store: &Store) {
    // Each for itself: what one of them fails at says nothing about the others.
    let (rechecked, gauges, outbox) = tokio::join!(
        tokio::time::timeout(PATIENCE, store.recheck_unreadable()),
        tokio::time::timeout(PATIENCE, store.gauges()),
        tokio::time::timeout(PATIENCE, store.outbox_gauges()),
    );
    if let Ok(Err(error)) = rechecked {
        tracing::debug!(error = %chain(&error), "unreadable rows were not all looked at again");
    }
    match outbox {
        Ok(Ok(outbox)) => set_outbox_gauges(outbox),
        Ok(Err(error)) => tracing::debug!(error = %chain(&error), "events were not counted"),
        Err(_) => {}
    }
    match gauges {
        Ok(Ok(gauges)) => {
            for verdict in Verdict::ALL
                .into_iter()
                .filter(|verdict| verdict.can_be_exception())
            {
                let open = gauges.exceptions_open.iter().find(|(of, _)| *of == verdict);
                set_gauge_of(verdict, open.map_or(0, |(_, count)| *count));
            }
            set_gauge("orderd_dead_letters_open", gauges.dead_letters_open);
        }
        Ok(Err(error)) => {
            tracing::debug!(
                error = %chain(&error),
                "exceptions, dead letters and outbox not counted; their gauges keep the last \
                 values"
            );
        }
        Err(_) => {}
    }
}

/// Checks the broker; if it can't be used, the reasons go to the health. Returns whether it
/// answers.
async fn probe_broker(topology: &Topology, health: &Health) -> bool {
    let looked = topology.inspect().await;
    if looked.is_err() {
        topology.renew_connection().await;
    }
    let (mut down, mut stream, mut consumer) = (None, None, None);
    match &looked {
        Ok(look) => {
            let pending = i64::try_from(look.pending).unwrap_or(i64::MAX);
            set_gauge("orderd_consumer_pending", pending);
            (stream, consumer) = (look.stream.clone(), look.consumer.clone());
        }
        Err(error) => {
            tracing::debug!(error = %chain(error), "broker not usable");
            let troubles = topology.troubles();
            for (about, why) in troubles.into_iter().chain([(error.about(), chain(error))]) {
                let of = match about {
                    About::Stream => &mut stream,
                    About::Consumer => &mut consumer,
                    About::Broker => &mut down,
                };
                of.get_or_insert(why);
            }
            if let Some(why) = topology.refusals().unconnected() {
                down = Some(format!("the broker can't be connected to: {why}"));
            }
        }
    }
    let is_up = down.is_none();
    let denials = topology.denials();
    let denials = (!denials.is_empty()).then(|| denials.join("; "));
    health.state_cause(Cause::BrokerDown, down);
    health.state_cause(Cause::StreamUnusable, stream);
    health.state_cause(Cause::ConsumerUnusable, consumer);
    health.state_cause(Cause::BrokerPermission, denials);
    is_up
}

/// Reports how many unreadable rows this process came across.
fn say_unreadable(store: &Store, health: &Health) {
    let rows = store.unreadable_rows();
    set_gauge(
        "orderd_unreadable_rows",
        i64::try_from(rows).unwrap_or(i64::MAX),
    );
    if rows == 0 {
        health.clear_cause(Cause::UnreadableRows);
    } else {
        let why = format!(
            "{rows} rows can't be read, and what belongs to them is held back; `orderd audit` names them"
        );
        health.set_cause(Cause::UnreadableRows, why);
    }
}

/// Why the service isn't ready, for the log.
fn reasons(health: &Health) -> String {
    let because = health.not_ready_because();
    let causes: Vec<&str> = because.iter().map(|(cause, _)| cause.as_str()).collect();
    causes.join(", ")
}

fn set_health_gauges(health: &Health) {
    gauge!("orderd_ready").set(u32::from(health.ready()));
    let because = health.not_ready_because();
    for cause in Cause::ALL {
        let is_so = because.iter().any(|(given, _)| *given == cause);
        gauge!("orderd_not_ready", "reason" => cause.as_str()).set(u32::from(is_so));
    }
    for (dependency, up) in [
        ("database", health.database_up()),
        ("broker", health.broker_up()),
    ] {
        gauge!("orderd_dependency_up", "dependency" => dependency).set(u32::from(up));
    }
}

fn set_outbox_gauges(outbox: OutboxGauges) {
    set_gauge("orderd_unpublished_events", outbox.unpublished);
    gauge!("orderd_unpublished_oldest_seconds").set(outbox.oldest_seconds);
    set_gauge("orderd_blocked_events", outbox.blocked);
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
