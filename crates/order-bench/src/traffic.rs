//! Payment events: how they are published, and when they are all consumed.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use async_nats::jetstream::consumer::Info;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use crate::lab::World;
use crate::ledger::{order_id, transaction_id};

/// Publish acks in flight.
const IN_FLIGHT: usize = 1000;

/// How often the consumer is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long nothing may move before a run is given up.
const PATIENCE: Duration = Duration::from_mins(1);

/// How the payments of a run differ from the ones that fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payment {
    /// The one that pays the order.
    Fitting,
    /// Another one for the same order.
    Second,
    /// The first one, with another amount.
    Mismatch,
}

/// The event about a payment of this order.
pub(crate) fn event(number: u64, payment: Payment) -> String {
    let order = order_id(number);
    let (transaction, amount) = match payment {
        Payment::Fitting => (transaction_id(number), 1000),
        Payment::Second => (format!("second-{number}"), 1000),
        Payment::Mismatch => (transaction_id(number), 999),
    };
    format!(
        r#"{{"event_id":"ev-{number}","type":"payment.succeeded","order_id":"{order}","provider":"acme","transaction_id":"{transaction}","amount":{amount},"currency":"EUR","occurred_at":"2026-11-29T08:00:00Z","livemode":true}}"#
    )
}

/// Publishes the payments of orders `from` to `to`, and waits until the broker has acknowledged all of them.
pub(crate) async fn publish(world: &World<'_>, from: u64, to: u64, payment: Payment) -> Result<()> {
    let subject = format!("{}.acme", world.subject);
    publish_all(
        world,
        &subject,
        (from..=to).map(|number| event(number, payment)),
    )
    .await
}

/// Publishes bodies on one subject, with many acks in flight.
pub(crate) async fn publish_all(
    world: &World<'_>,
    subject: &str,
    bodies: impl Iterator<Item = String>,
) -> Result<()> {
    let mut acks = FuturesUnordered::new();
    for body in bodies {
        let ack = world.js.publish(subject.to_owned(), body.into()).await?;
        acks.push(ack.into_future());
        if acks.len() >= IN_FLIGHT
            && let Some(acked) = acks.next().await
        {
            acked?;
        }
    }
    while let Some(acked) = acks.next().await {
        acked?;
    }
    Ok(())
}

/// The consumer of a world, once it is there.
async fn consumer(world: &World<'_>, name: &str) -> Option<Info> {
    let stream = world.js.get_stream_no_info(&world.inbound).await.ok()?;
    stream.consumer_info(name).await.ok()
}

/// When something began and ended. Both are found by polling, so both are known to some 10 ms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
}

impl Span {
    /// How long it took.
    pub(crate) fn took(self) -> Duration {
        self.ended.duration_since(self.begun)
    }
}

/// Waits until so many messages, after the first `known` ones, are delivered and all are acked. It begins when the first of
/// them is delivered, so it has to be waited for from before the service starts.
pub(crate) async fn consumed(
    world: &World<'_>,
    name: &str,
    messages: u64,
    known: u64,
) -> Result<Span> {
    let mut begun = Instant::now();
    let mut moved = Instant::now();
    let mut acked_before = 0;
    loop {
        let looked = Instant::now();
        if let Some(info) = consumer(world, name).await {
            let delivered = info.delivered.consumer_sequence;
            if delivered <= known {
                begun = looked;
            }
            let waiting = info.num_pending + u64::try_from(info.num_ack_pending)?;
            if delivered >= known + messages && waiting == 0 {
                let ended = Instant::now();
                return Ok(Span { begun, ended });
            }
            let acked = info.ack_floor.consumer_sequence;
            if acked != acked_before {
                (moved, acked_before) = (looked, acked);
            }
        } else {
            begun = looked;
        }
        if moved.elapsed() > PATIENCE {
            bail!("nothing was consumed for {PATIENCE:?}, {acked_before} messages are acked");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits until the outbound stream has so many messages. It begins when the first one is there.
pub(crate) async fn published(world: &World<'_>, messages: u64) -> Result<Span> {
    let mut begun = Instant::now();
    let mut moved = Instant::now();
    let mut before = 0;
    loop {
        let looked = Instant::now();
        let there = world.published().await?;
        if there == 0 {
            begun = looked;
        }
        if there >= messages {
            let ended = Instant::now();
            return Ok(Span { begun, ended });
        }
        if there != before {
            (moved, before) = (Instant::now(), there);
        }
        if moved.elapsed() > PATIENCE {
            bail!("nothing was published for {PATIENCE:?}, {there} of {messages} are there");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
