//! A batch into the store, whatever happens on the way.

use std::time::Duration;

use futures_util::future::BoxFuture;
use metrics::{counter, histogram};
use order_fsm::Verdict;
use order_store::{Batch, Error};
use rand::RngExt as _;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;

use super::message::Incoming;
use super::{Ingest, Item, pause};
use crate::nats::ACK_WAIT;
use crate::payment_event::{NotUnderstood, Reason};
use crate::telemetry::chain;

/// How dead letters are counted among the verdicts.
pub const DEAD_LETTER: &str = "DEAD_LETTER";

const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(3);

/// What became of a message: its verdict, or none for a dead letter.
pub(super) type Outcome = Option<Verdict>;

impl Ingest {
    /// Records items, and again until it is done: a transient fault stops here, with the messages
    /// kept in progress. Data that the database refuses is halved down to the message, which then
    /// is a dead letter. `None` if the service is stopped first.
    pub(super) async fn record(
        &self,
        items: Vec<Item>,
        messages: &[Incoming],
        shutdown: &CancellationToken,
    ) -> Option<Vec<Outcome>> {
        let mut backoff = BACKOFF_MIN;
        loop {
            match self.attempt(&items, messages).await {
                Ok(outcomes) => {
                    self.health.set_database(true);
                    return Some(outcomes);
                }
                Err(error) if error.is_data() => {
                    return self.record_halves(items, messages, &error, shutdown).await;
                }
                Err(error) => {
                    self.health.set_database(false);
                    tracing::warn!(
                        error = %chain(&error),
                        messages = messages.len(),
                        "the database failed; pulling stops until the batch is recorded"
                    );
                }
            }
            if shutdown.is_cancelled() {
                return None;
            }
            let jitter = rand::rng().random_range(0.5..1.0);
            pause(shutdown, backoff.mul_f64(jitter)).await;
            self.keep_in_progress(messages).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    /// One call of the store, with the messages kept in progress while it lasts.
    async fn attempt(&self, items: &[Item], messages: &[Incoming]) -> Result<Vec<Outcome>, Error> {
        let mut batch = Batch::default();
        for item in items {
            match item {
                Item::Fact(fact) => batch.facts.push(fact.clone()),
                Item::Letter(letter) => batch.dead_letters.push(letter.clone()),
            }
        }
        let mut recording = std::pin::pin!(self.store.record_payments(batch));
        let verdicts = loop {
            tokio::select! {
                done = &mut recording => break done?,
                () = tokio::time::sleep(ACK_WAIT / 3) => self.keep_in_progress(messages).await,
            }
        };
        let mut verdicts = verdicts.into_iter();
        Ok(items
            .iter()
            .map(|item| match item {
                Item::Fact(_) => verdicts.next(),
                Item::Letter(_) => None,
            })
            .collect())
    }

    /// Boxed, because it calls what calls it.
    fn record_halves<'a>(
        &'a self,
        mut items: Vec<Item>,
        messages: &'a [Incoming],
        error: &Error,
        shutdown: &'a CancellationToken,
    ) -> BoxFuture<'a, Option<Vec<Outcome>>> {
        let cause = chain(error);
        Box::pin(async move {
            if let [only] = messages {
                tracing::error!(error = %cause, "the database refuses a message; it is kept aside");
                let fault = NotUnderstood::new(Reason::RefusedByDatabase, cause);
                items = vec![Item::Letter(only.letter(&fault))];
                return self.record_letter(items, messages, shutdown).await;
            }
            let right = items.split_off(items.len() / 2);
            let (left_messages, right_messages) = messages.split_at(items.len());
            let mut outcomes = self.record(items, left_messages, shutdown).await?;
            outcomes.extend(self.record(right, right_messages, shutdown).await?);
            Some(outcomes)
        })
    }

    /// A letter that the database refuses as well is a fault of ours: it is tried again, visibly,
    /// and never dropped.
    async fn record_letter(
        &self,
        items: Vec<Item>,
        messages: &[Incoming],
        shutdown: &CancellationToken,
    ) -> Option<Vec<Outcome>> {
        loop {
            match self.attempt(&items, messages).await {
                Ok(outcomes) => return Some(outcomes),
                Err(error) => {
                    tracing::error!(error = %chain(&error), "a dead letter could not be kept");
                }
            }
            if shutdown.is_cancelled() {
                return None;
            }
            pause(shutdown, BACKOFF_MAX).await;
        }
    }
}

/// Counts what was committed.
pub(super) fn count(messages: &[Incoming], outcomes: &[Outcome], committed_at: OffsetDateTime) {
    #[expect(clippy::cast_precision_loss, reason = "a batch is small")]
    histogram!("orderd_batch_size").record(messages.len() as f64);
    let delays = histogram!("orderd_commit_delay_seconds");
    for message in messages {
        if let Some(published) = message.published {
            delays.record((committed_at - published).as_seconds_f64().max(0.0));
        }
        if message.delivered > 1 {
            counter!("orderd_redeliveries_total").increment(1);
        }
    }
    for outcome in outcomes {
        let verdict = outcome.map_or(DEAD_LETTER, Verdict::as_str);
        counter!("orderd_payment_events_total", "verdict" => verdict).increment(1);
    }
}

/// Describes the metrics of ingest and shows every counter from the start, at zero.
pub fn describe_metrics() {
    use metrics::{Unit, describe_counter, describe_histogram};

    describe_counter!(
        "orderd_payment_events_total",
        "Delivered payment events by what became of them"
    );
    describe_counter!(
        "orderd_redeliveries_total",
        "Deliveries that were not the first"
    );
    describe_histogram!("orderd_batch_size", "Messages of one transaction");
    describe_histogram!(
        "orderd_commit_delay_seconds",
        Unit::Seconds,
        "From the publishing of a message to the commit of its outcome"
    );
    for verdict in Verdict::ALL
        .map(Verdict::as_str)
        .into_iter()
        .chain([DEAD_LETTER])
    {
        counter!("orderd_payment_events_total", "verdict" => verdict).increment(0);
    }
    counter!("orderd_redeliveries_total").increment(0);
    // Naming a histogram shows it, empty.
    let _ = histogram!("orderd_batch_size");
    let _ = histogram!("orderd_commit_delay_seconds");
}
