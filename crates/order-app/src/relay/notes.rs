//! What the relay reports about its work: logs and metrics.

use metrics::counter;
use order_store::{AsideKind, Fate, OutboxEvent, Store};

use super::batch::Batch;
use super::event::{EVENTS, Outgoing};
use super::publish::Round;

/// Counts what was published; returns the number.
pub(super) fn count(batch: &Batch) -> usize {
    let mut published = 0;
    for outgoing in batch.published() {
        counter!("orderd_published_events_total", "event" => outgoing.event).increment(1);
        published += 1;
    }
    published
}

/// The ids of events that the broker already had although no relay had tried to publish them.
pub(super) fn unexpected(events: &[OutboxEvent], round: &Round) -> Vec<String> {
    let fresh = round.duplicates.iter().filter_map(|&number| {
        let event = &events[number];
        (!event.tried).then(|| event.body.as_ref().ok())?
    });
    fresh
        .map(|body| Outgoing::of(body).key.to_string())
        .collect()
}

/// Warns about events that the stream already had although this database had never published them.
pub(super) fn warn_of(duplicates: &[String]) {
    let Some(first) = duplicates.first() else {
        return;
    };
    counter!("orderd_unexpected_duplicates_total").increment(duplicates.len() as u64);
    tracing::warn!(
        message.id = first,
        count = duplicates.len(),
        "outbound stream already had events that this database never published: the database was restored \
         to an earlier state, or another one publishes there too"
    );
}

/// Logs and counts the events that are unreadable or too large.
pub(super) fn note(events: &[OutboxEvent], fates: &[Fate], store: &Store) {
    store.note_unreadable(events.iter().filter_map(|event| event.body.as_ref().err()));
    for (event, fate) in events.iter().zip(fates) {
        if let Fate::SetAside {
            kind: AsideKind::TooLarge,
            why,
            ..
        } = fate
            && let Ok(body) = &event.body
            && !event.is_set_aside()
        {
            tracing::error!(
                message.id = %Outgoing::of(body).key,
                why,
                "order event set aside: it is too large for the broker; it is tried again"
            );
        }
    }
}

/// Describes the metrics of the relay and shows every counter from the start, at zero.
pub fn describe_metrics() {
    use metrics::{Unit, describe_counter, describe_gauge};

    describe_counter!(
        "orderd_published_events_total",
        "Order events that the broker acknowledged and that left the outbox"
    );
    describe_counter!(
        "orderd_unexpected_duplicates_total",
        "Order events that the stream already had, although this database had never published them"
    );
    describe_gauge!(
        "orderd_unpublished_events",
        "Order events that are not published yet; of a larger backlog, those of the first 100000 transactions"
    );
    describe_gauge!(
        "orderd_unpublished_oldest_seconds",
        Unit::Seconds,
        "How long the oldest unpublished order event has waited"
    );
    describe_gauge!(
        "orderd_blocked_events",
        "Unpublished order events whose subject the broker doesn't accept, and those that wait for them"
    );
    describe_gauge!(
        "orderd_set_aside_events",
        "Order events that are too large for the broker or can't be read; they are tried again every 30 s"
    );
    for (event, _) in EVENTS {
        counter!("orderd_published_events_total", "event" => event).increment(0);
    }
    counter!("orderd_unexpected_duplicates_total").increment(0);
}
