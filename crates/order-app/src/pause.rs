//! Waiting: a pause that the end of the service cuts short, and pauses that grow.

use std::time::Duration;

use rand::RngExt as _;
use tokio_util::sync::CancellationToken;

/// Waits for this time, or until `stop`. Returns whether the whole time passed.
pub(crate) async fn pause(stop: &CancellationToken, time: Duration) -> bool {
    tokio::select! {
        () = tokio::time::sleep(time) => true,
        () = stop.cancelled() => false,
    }
}

/// Pauses between attempts: each up to twice as long as the one before, with jitter.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    const MIN: Duration = Duration::from_millis(100);
    const MAX: Duration = Duration::from_secs(3);

    /// Starts with the shortest pause.
    pub(crate) fn new() -> Self {
        Self(Self::MIN)
    }

    /// The next pause.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.0.mul_f64(rand::rng().random_range(0.5..1.0));
        self.0 = (self.0 * 2).min(Self::MAX);
        pause
    }

    /// An attempt succeeded: the next pause is the shortest again.
    pub(crate) fn reset(&mut self) {
        self.0 = Self::MIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_start_again() {
        let mut backoff = Backoff::new();
        for most in [100, 200, 400, 800, 1600, 3000, 3000] {
            let most = Duration::from_millis(most);
            let pause = backoff.next();
            assert!(most / 2 <= pause && pause < most, "{pause:?} of {most:?}");
        }
        backoff.reset();
        assert!(backoff.next() < Backoff::MIN);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_ends_with_the_service() {
        let stop = CancellationToken::new();
        assert!(pause(&stop, Duration::from_secs(9)).await);
        stop.cancel();
        assert!(!pause(&stop, Duration::from_secs(9)).await);
    }
}
