//! Looks at database and broker every other second, for the probes and the gauges.

use std::time::Duration;

use anyhow::Result;
use metrics::gauge;
use order_fsm::Verdict;
use order_store::{OutboxGauges, Store};
use tokio_util::sync::CancellationToken;

use crate::health::Health;
use crate::nats::Topology;
use crate::telemetry::chain;

/// How often the state of things is looked at.
const PROBE_EVERY: Duration = Duration::from_secs(2);

/// The same until the service is ready: nobody has to wait longer than for what is missing.
const PROBE_EVERY_UNREADY: Duration = Duration::from_millis(250);

/// Looks at database and broker, for the probes and the gauges.
pub(super) async fn probe(
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
        set_health_gauges(&health);
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
                .filter(|verdict| verdict.can_be_exception())
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

fn set_health_gauges(health: &Health) {
    gauge!("orderd_ready").set(u32::from(health.ready()));
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
