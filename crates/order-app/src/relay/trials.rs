//! Tries closed subjects with one event each, beside everything else: nothing waits for these
//! trials, however long the broker takes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use metrics::counter;
use order_store::{AsidePlace, Concluded, Fate, OutboxEvent};
use tokio::time::Instant;

use super::event::Outgoing;
use super::publish::{Fault, Sent, close};
use super::{Error, Relay};
use crate::telemetry::chain;

/// The running trials, by the token of their subject. The mutex is never locked: it only makes the
/// relay `Sync`, which a boxed future isn't.
#[derive(Default)]
pub(super) struct Trials(Mutex<BTreeMap<&'static str, Trial>>);

type Trial = BoxFuture<'static, (OutboxEvent, Sent)>;

impl Trials {
    fn map(&mut self) -> &mut BTreeMap<&'static str, Trial> {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Trials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trials").finish_non_exhaustive()
    }
}

impl Relay {
    /// Begins the trials that are due, and acts upon those that have ended.
    pub(super) async fn try_subjects(&mut self) -> Result<Concluded, Error> {
        let publisher = self.publisher();
        for token in self.subjects.due(Instant::now()) {
            if self.trials.map().contains_key(token) {
                continue;
            }
            let event = self.store.blocked_event(token).await?;
            let outgoing = event
                .as_ref()
                .and_then(|event| event.body.as_ref().ok())
                .map(Outgoing::of);
            let (Some(event), Some(outgoing)) = (event, outgoing) else {
                // No event waits for it: the next one shows whether it is open.
                self.subjects.open(token);
                continue;
            };
            let publisher = publisher.clone();
            let denial = publisher.denial(token);
            let trial = async move {
                tokio::select! {
                    sent = publisher.send(&outgoing) => {
                        publisher.permitted(token, &sent);
                        (event, sent)
                    }
                    _ = denial => (event, Sent::Cut),
                }
            };
            self.trials.map().insert(token, trial.boxed());
        }
        let mut ended = Vec::new();
        for (token, trial) in self.trials.map() {
            if let Some((event, sent)) = trial.now_or_never() {
                ended.push((*token, event, sent));
            }
        }
        for (token, event, sent) in ended {
            self.trials.map().remove(token);
            if self.trial_ended(token, event, sent).await? == Concluded::LeaseLost {
                return Ok(Concluded::LeaseLost);
            }
        }
        Ok(Concluded::Written)
    }

    async fn trial_ended(
        &mut self,
        token: &'static str,
        event: OutboxEvent,
        sent: Sent,
    ) -> Result<Concluded, Error> {
        match sent {
            Sent::Acknowledged { .. } => {
                let fates = vec![Fate::Published];
                let events = Arc::new(vec![event]);
                let concluded = self
                    .store
                    .conclude_outbox(&self.lease, events, fates, None)
                    .await?;
                if concluded == Concluded::LeaseLost {
                    return Ok(Concluded::LeaseLost);
                }
                tracing::info!(
                    event = token,
                    "order events of one kind accepted by the broker again"
                );
                counter!("orderd_published_events_total", "event" => name_of(token)).increment(1);
                self.subjects.open(token);
                // The events that waited for it are published next.
                self.walk = Some(AsidePlace::default());
            }
            // The event is at fault, not its subject: the walk sets it aside.
            Sent::TooLarge(_) => {
                self.subjects.open(token);
                self.walk = Some(AsidePlace::default());
            }
            Sent::Failed(fault) => self.trial_failed(token, &fault),
            Sent::Cut => self.subjects.failed(token, Instant::now()),
        }
        Ok(Concluded::Written)
    }

    fn trial_failed(&mut self, token: &'static str, fault: &Fault) {
        tracing::debug!(event = token, error = %chain(fault), "trial of a closed subject failed");
        close(&mut self.subjects, token, chain(fault));
        self.subjects.failed(token, Instant::now());
    }
}

fn name_of(token: &str) -> &'static str {
    super::event::EVENTS
        .into_iter()
        .find_map(|(name, known)| (known == token).then_some(name))
        .unwrap_or(super::event::UNKNOWN)
}
