//! Descriptions of all metrics of `serve`.

use super::pools;
use crate::{ingest, nats, payment_service, reconcile, relay, telemetry, watch};

/// Describes the metrics, and shows them from the start.
pub(super) fn describe_metrics() {
    use metrics::describe_gauge;

    telemetry::describe_metrics();
    nats::describe_metrics();
    ingest::describe_metrics();
    metrics::describe_counter!(
        "orderd_consumer_recreated_total",
        "How often the consumer was recreated, reading from the beginning"
    );
    metrics::counter!("orderd_consumer_recreated_total").increment(0);
    describe_gauge!(
        "orderd_consumer_limited",
        "Settings of the consumer for which the broker grants less than is wanted"
    );
    metrics::gauge!("orderd_consumer_limited").set(0);
    relay::describe_metrics();
    reconcile::describe_metrics();
    payment_service::describe_metrics();
    watch::describe_metrics();
    describe_gauge!(
        "orderd_consumer_pending",
        "Messages that are not delivered to the consumer yet"
    );
    describe_gauge!(
        "orderd_exceptions_open",
        "Open payment exceptions by verdict, counted up to 10000 each: 10000 means 10000 or more"
    );
    describe_gauge!(
        "orderd_dead_letters_open",
        "Open dead letters, counted up to 10000: 10000 means 10000 or more"
    );
    describe_gauge!(
        "orderd_unreadable_rows",
        "Unreadable rows that this process came across, each checked again until it can be read; at most 1000 \
         are remembered, and `orderd audit` finds all"
    );
    describe_gauge!("orderd_ready", "1 if the service is ready for traffic");
    describe_gauge!(
        "orderd_not_ready",
        "1 if this reason keeps the service from being ready"
    );
    describe_gauge!("orderd_dependency_up", "1 if the dependency answers");
    pools::describe_metrics();
}
