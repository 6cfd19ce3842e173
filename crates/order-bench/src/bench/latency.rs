//! From publish to commit at fixed rates.
//!
//! Each message has the time at which it is due, whatever became of those before it: a service that stalls doesn't make the
//! bench wait (no coordinated omission). A message is acked after its commit, and anybody may listen to acks: the time of an
//! ack is an upper bound of the time of the commit, seen from outside. The relay is on, as it is by default.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::StreamExt as _;
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use super::Bench;
use crate::database::Kind;
use crate::lab::World;
use crate::ledger::Ledger;
use crate::numbers::{figure, micros};
use crate::orderd::Orderd;
use crate::report::Section;
use crate::traffic::{self, Payment};

/// Messages per second.
const RATES: [u64; 3] = [200, 1000, 5000];

/// How long the last ack may take.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) async fn measure(
    bench: &Bench<'_>,
    kind: Kind,
    mut section: Section,
) -> Result<Section> {
    for per_second in RATES {
        let messages = (per_second * u64::try_from(bench.size.seconds.as_millis())? / 1000).max(50);
        let world = bench.world(kind, messages).await?;
        let orderd = Orderd::start(&world, true).await?;
        let seen = at_rate(&world, per_second, messages).await?;
        traffic::consumed(&world, "orderd", messages, 0).await?;
        traffic::published(&world, messages).await?;
        orderd.stop().await?;
        let differences = Ledger::all_paid(messages)
            .differences(&world.database)
            .await?;
        world.close().await?;
        if differences.is_empty() {
            for percentile in [50.0, 99.0, 99.9] {
                let latency = figure(seen.value_at_percentile(percentile)) / 1000.0;
                section.figure(format!("{per_second}/s p{percentile}"), latency, "ms");
            }
        }
        section.differences.extend(differences);
    }
    Ok(section)
}

/// Publishes at a rate; from the time at which each message was due to its ack, in microseconds.
async fn at_rate(world: &World<'_>, per_second: u64, messages: u64) -> Result<Histogram<u64>> {
    let listener = async_nats::connect(world.lab.nats_url()).await?;
    let mut acks = listener.subscribe("$JS.ACK.>").await?;
    listener.flush().await?;
    // A flush is no round trip: the answer to a request is.
    world.published().await?;
    let publisher = async_nats::connect(world.lab.nats_url()).await?;
    let subject = format!("{}.acme", world.subject);
    let begun = Instant::now() + Duration::from_millis(20);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        for number in 1..=messages {
            tokio::time::sleep_until(due(begun, number, per_second).into()).await;
            let body = traffic::event(number, Payment::Fitting);
            publisher.publish(subject.clone(), body.into()).await?;
        }
        anyhow::Ok(publisher.flush().await?)
    });
    let mut seen = Histogram::new(3)?;
    let mut acked = vec![false; usize::try_from(messages)? + 1];
    let mut left = messages;
    while left > 0 {
        let ack = tokio::time::timeout(PATIENCE, acks.next()).await;
        let ack = ack
            .context("acks stay away")?
            .context("the subscription ended")?;
        let arrived = Instant::now();
        let Some(number) = acked_message(&ack.subject, &ack.payload, &world.inbound) else {
            continue;
        };
        let first = acked
            .get_mut(usize::try_from(number)?)
            .context("an ack of no message of ours")?;
        if !std::mem::replace(first, true) {
            left -= 1;
            seen.record(micros(
                arrived.saturating_duration_since(due(begun, number, per_second)),
            ))?;
        }
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    ensure!(seen.len() == messages, "not every message was acked");
    Ok(seen)
}

fn due(begun: Instant, number: u64, per_second: u64) -> Instant {
    begun + Duration::from_nanos(number * (1_000_000_000 / per_second))
}

/// The number in the stream of a message that is acked: `$JS.ACK.<stream>.<consumer>.<deliveries>.<number>…`, in newer
/// servers with two words before the stream.
fn acked_message(subject: &str, body: &[u8], stream: &str) -> Option<u64> {
    let is_ack = body.is_empty() || body == b"+ACK";
    let words: Vec<&str> = subject.split('.').collect();
    let at = words
        .iter()
        .position(|word| *word == stream)
        .filter(|_| is_ack)?;
    words.get(at + 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_names_its_message() {
        for (subject, body, expect) in [
            ("$JS.ACK.in.orderd.1.42.7.1700000000.0", "+ACK", Some(42)),
            ("$JS.ACK.in.orderd.1.42.7.1700000000.0", "", Some(42)),
            (
                "$JS.ACK._.hash.in.orderd.1.42.7.1700000000.0.x",
                "+ACK",
                Some(42),
            ),
            ("$JS.ACK.in.orderd.1.42.7.1700000000.0", "+WPI", None),
            ("$JS.ACK.other.orderd.1.42.7.1700000000.0", "+ACK", None),
            ("$JS.ACK.in.orderd.1", "+ACK", None),
        ] {
            assert_eq!(
                acked_message(subject, body.as_bytes(), "in"),
                expect,
                "{subject} {body}"
            );
        }
    }

    #[test]
    fn messages_are_due_whatever_became_of_those_before_them() {
        let begun = Instant::now();
        assert_eq!(due(begun, 5000, 5000) - begun, Duration::from_secs(1));
    }
}
