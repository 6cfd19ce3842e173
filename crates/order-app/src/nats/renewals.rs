//! What this process knows of its consumer: when it was last recreated, and which differences are left alone.

use std::time::Duration;

use async_nats::jetstream::stream::ConsumerError;
use metrics::gauge;
use tokio::time::Instant;

use super::consumer::{Difference, listed};

const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(5);

/// What this process knows of the consumer.
#[derive(Debug, Default)]
pub(super) struct Renewals {
    /// It existed once.
    pub(super) known: bool,
    /// Differences that are left alone: the server was asked and grants no more.
    borne: Vec<Difference>,
    last: Option<Instant>,
    pause: Duration,
}

impl Renewals {
    /// How long the consumer is left alone.
    pub(super) fn resting(&self) -> Option<Duration> {
        let left = (self.last? + self.pause).saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Notes that it is recreated now; the next pause is longer.
    pub(super) fn begin(&mut self) {
        let now = Instant::now();
        let is_calm = self
            .last
            .is_none_or(|last| now.duration_since(last) > 2 * PAUSE_MAX);
        self.pause = if is_calm {
            PAUSE_MIN
        } else {
            (self.pause * 2).min(PAUSE_MAX)
        };
        self.last = Some(now);
    }

    pub(super) fn open(&self, found: Vec<Difference>) -> Vec<Difference> {
        let is_open = |difference: &Difference| !self.borne.contains(difference);
        found.into_iter().filter(is_open).collect()
    }

    pub(super) fn bear(&mut self, name: &str, rest: Vec<Difference>, why: Option<&ConsumerError>) {
        if !rest.is_empty() && rest != self.borne {
            tracing::warn!(
                consumer.name = %name,
                differences = %listed(&rest),
                error = why.map(tracing::field::display),
                "consumer granted less than is wanted; the service works with that"
            );
        }
        #[expect(clippy::cast_precision_loss, reason = "a handful of settings")]
        gauge!("orderd_consumer_limited").set(rest.len() as f64);
        self.borne = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_broker_that_undoes_it_again_and_again_finds_us_slower_each_time() {
        let mut renewals = Renewals::default();
        assert_eq!(renewals.resting(), None);
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            renewals.begin();
            let pause = Duration::from_secs(seconds);
            assert_eq!(renewals.resting(), Some(pause));
            tokio::time::advance(pause).await;
            assert_eq!(renewals.resting(), None);
        }
        tokio::time::advance(2 * PAUSE_MAX).await;
        renewals.begin();
        assert_eq!(renewals.resting(), Some(PAUSE_MIN));
    }
}
