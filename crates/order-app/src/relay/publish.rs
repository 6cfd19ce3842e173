//! Publishes a batch: many events at a time, each until its ack, each at most once in a round.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::{Context, ErrorCode};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use order_store::{Lease, Store};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::RENEW_EVERY;
use super::batch::{Batch, Next};
use super::event::{EVENTS, Outgoing};
use super::subjects::Subjects;
use crate::nats::Refusals;
use crate::telemetry::chain;

/// The most publishes that wait for their acks.
const IN_FLIGHT_MAX: usize = 1000;

/// The same for one subject, so that a silent one leaves room for the others.
const IN_FLIGHT_SUBJECT_MAX: usize = 500;

/// How long an ack may take. An event whose ack is late may be stored: it is sent again with the same id.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);

/// A subject is silent if it has no ack for this long while others have theirs: a stream
/// acknowledges in order what it gets over one connection.
const SILENCE: Duration = Duration::from_secs(1);

/// How often silent subjects are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long acks are waited for when the service stops.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Why an event is not known to be published.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// No ack in time.
    #[error("the broker did not acknowledge an event within {ACK_TIMEOUT:?}")]
    NoAck,
    /// No ack, while other subjects had theirs.
    #[error("the broker acknowledges nothing on {subject}")]
    Silent {
        /// The subject.
        subject: String,
    },
    /// No stream has the subject.
    #[error("no stream has the subject {subject}")]
    NoStream {
        /// The subject.
        subject: String,
    },
    /// Another stream stored the event.
    #[error("stream {found} stored an event that is for {wanted}")]
    OtherStream {
        /// The outbound stream.
        wanted: String,
        /// The stream that answered.
        found: String,
    },
    /// The broker refused the event, or could not be reached.
    #[error("an event could not be published")]
    Refused(#[source] PublishError),
}

/// What is known after a round.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// The first fault of each subject on which an event failed; nothing more was sent there.
    pub(super) doubts: BTreeMap<&'static str, Fault>,
    /// Whether anything was acknowledged.
    pub(super) acknowledged: bool,
    /// The numbers of the events in the batch that the broker already had although no relay had tried to
    /// publish them.
    pub(super) duplicates: Vec<usize>,
}

/// Where events are published, and under which lease.
#[derive(Debug, Clone)]
pub(super) struct Publisher {
    pub(super) store: Store,
    pub(super) lease: Lease,
    pub(super) context: Context,
    pub(super) refusals: Refusals,
    pub(super) stream: String,
    pub(super) prefix: String,
}

/// What became of an event that was sent.
#[derive(Debug)]
pub(super) enum Sent {
    Acknowledged {
        duplicate: bool,
    },
    TooLarge(String),
    Failed(Fault),
    /// Its ack is no longer waited for.
    Cut,
}

/// The events of one subject that wait for their acks.
struct Flying {
    count: usize,
    cut: CancellationToken,
    /// Since when there was no ack.
    silent_since: Instant,
}

impl Publisher {
    /// Publishes a batch, and renews the lease meanwhile. After a fault, nothing more is sent on
    /// that subject; when the lease is lost, nothing more is sent at all, but outstanding acks are
    /// awaited.
    pub(super) async fn publish(
        &self,
        batch: &mut Batch,
        subjects: &mut Subjects,
        stop: &CancellationToken,
    ) -> Round {
        let mut round = Round::default();
        let mut flying: BTreeMap<&'static str, Flying> = BTreeMap::new();
        let mut in_flight = FuturesUnordered::new();
        let open = EVENTS.iter().filter(|(_, token)| subjects.is_open(token));
        let mut denials: FuturesUnordered<_> = open.map(|(_, token)| self.denial(token)).collect();
        let mut kept = true;
        let mut last_ack = Instant::now();
        let mut keeping = tokio::time::interval(RENEW_EVERY);
        // The first tick is at once.
        keeping.tick().await;
        let mut looking = tokio::time::interval(LOOK_EVERY);
        let mut grace = std::pin::pin!(async {
            stop.cancelled().await;
            tokio::time::sleep(STOP_GRACE).await;
        });
        loop {
            while kept && !stop.is_cancelled() && in_flight.len() < IN_FLIGHT_MAX {
                let may_send = |token| {
                    subjects.is_open(token)
                        && !round.doubts.contains_key(token)
                        && flying
                            .get(token)
                            .is_none_or(|flying| flying.count < IN_FLIGHT_SUBJECT_MAX)
                };
                let Some(Next { chain, outgoing }) = batch.next(may_send) else {
                    break;
                };
                let of_subject = flying.entry(outgoing.token).or_insert_with(Flying::new);
                of_subject.take_off();
                in_flight.push(self.send_for(chain, outgoing, of_subject.cut.clone()));
            }
            tokio::select! {
                landed = in_flight.next() => {
                    let Some((chain, token, sent)) = landed else { return round };
                    let of_subject = flying.entry(token).or_insert_with(Flying::new);
                    of_subject.count = of_subject.count.saturating_sub(1);
                    match sent {
                        Sent::Acknowledged { duplicate } => {
                            last_ack = Instant::now();
                            of_subject.silent_since = last_ack;
                            round.acknowledged = true;
                            let number = batch.acknowledged(chain);
                            if duplicate {
                                round.duplicates.push(number);
                            }
                        }
                        Sent::TooLarge(why) => batch.too_large(chain, why),
                        Sent::Failed(fault) => {
                            batch.unacknowledged(chain);
                            round.doubts.entry(token).or_insert(fault);
                        }
                        Sent::Cut => batch.unacknowledged(chain),
                    }
                }
                Some((token, why)) = denials.next() => {
                    denials.push(self.denial(token));
                    if let Some(of_subject) = flying.get(token).filter(|flying| flying.count > 0) {
                        close(subjects, token, why);
                        of_subject.cut.cancel();
                    }
                }
                _ = looking.tick() => for (token, of_subject) in &flying {
                    if of_subject.is_silent(last_ack) && !of_subject.cut.is_cancelled() {
                        of_subject.cut.cancel();
                        let subject = self.subject(token);
                        round.doubts.entry(token).or_insert(Fault::Silent { subject });
                    }
                },
                _ = keeping.tick() => kept = self.keep().await,
                () = &mut grace => return round,
            }
        }
    }

    /// Waits until publishing to a subject is denied; returns what the server reported.
    pub(super) fn denial(
        &self,
        token: &'static str,
    ) -> impl Future<Output = (&'static str, String)> + use<> {
        let denied = self.refusals.next_of(&[&self.subject(token)]);
        async move { (token, denied.await) }
    }

    /// A subject whose events are acknowledged isn't denied any more.
    pub(super) fn permitted(&self, token: &str, sent: &Sent) {
        if let Sent::Acknowledged { .. } = sent {
            self.refusals.permitted(&self.subject(token));
        }
    }

    fn subject(&self, token: &str) -> String {
        format!("{}.{token}", self.prefix)
    }

    /// Renews the lease; whether it is still ours.
    async fn keep(&self) -> bool {
        match self.store.renew_lease(&self.lease).await {
            Ok(held) => held,
            Err(error) => {
                tracing::warn!(
                    error = %chain(&error),
                    "relay lease not renewed; nothing more is sent"
                );
                false
            }
        }
    }

    async fn send_for(
        &self,
        chain: usize,
        outgoing: Outgoing,
        cut: CancellationToken,
    ) -> (usize, &'static str, Sent) {
        let sent = tokio::select! {
            sent = self.send(&outgoing) => sent,
            () = cut.cancelled() => Sent::Cut,
        };
        (chain, outgoing.token, sent)
    }

    /// Sends one event and waits for its ack.
    pub(super) async fn send(&self, outgoing: &Outgoing) -> Sent {
        let subject = self.subject(outgoing.token);
        let sending = async {
            let message = outgoing.message(&self.stream);
            self.context
                .send_publish(subject.clone(), message)
                .await?
                .await
        };
        match timeout(ACK_TIMEOUT, sending).await {
            Ok(Ok(ack)) if ack.stream == self.stream => Sent::Acknowledged {
                duplicate: ack.duplicate,
            },
            Ok(Ok(ack)) => Sent::Failed(Fault::OtherStream {
                wanted: self.stream.clone(),
                found: ack.stream,
            }),
            Ok(Err(error)) => failed(error, subject),
            Err(_) => Sent::Failed(Fault::NoAck),
        }
    }
}

impl Flying {
    fn new() -> Self {
        Self {
            count: 0,
            cut: CancellationToken::new(),
            silent_since: Instant::now(),
        }
    }

    fn take_off(&mut self) {
        if self.count == 0 {
            self.silent_since = Instant::now();
        }
        self.count += 1;
    }

    fn is_silent(&self, last_ack: Instant) -> bool {
        self.count > 0 && last_ack > self.silent_since && self.silent_since.elapsed() > SILENCE
    }
}

/// Closes a subject, and logs it the first time.
pub(super) fn close(subjects: &mut Subjects, token: &'static str, why: String) {
    let said = why.clone();
    if subjects.close(token, why, Instant::now()) {
        tracing::error!(
            event = token,
            why = said,
            "order events of one kind set aside: the broker does not accept them; they are tried again"
        );
    }
}

fn failed(error: PublishError, subject: String) -> Sent {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => Sent::TooLarge(chain(&error)),
        PublishErrorKind::StreamNotFound => Sent::Failed(Fault::NoStream { subject }),
        PublishErrorKind::TimedOut => Sent::Failed(Fault::NoAck),
        PublishErrorKind::Other if stream_refuses_size(&error) => Sent::TooLarge(chain(&error)),
        _ => Sent::Failed(Fault::Refused(error)),
    }
}

/// Whether the stream refused the size: its own limit is reported in its ack.
fn stream_refuses_size(error: &PublishError) -> bool {
    use std::error::Error as _;

    let answered = error
        .source()
        .and_then(|source| source.downcast_ref::<async_nats::jetstream::Error>());
    answered.is_some_and(|error| {
        [
            ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM,
            ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM,
        ]
        .contains(&error.error_code())
    })
}
