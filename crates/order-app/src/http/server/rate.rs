//! Rate limit: requests per second, for each caller separately.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::http::answer::error::ApiError;
use crate::tokens::SecretDigest;

/// Callers remembered at most. A caller that was idle for a second has a full bucket again, so it
/// can be forgotten.
const CALLERS_MAX: usize = 4096;

/// A token bucket for each caller, and one for all callers without a token. It holds the requests
/// of one second.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: f64,
    buckets: Mutex<HashMap<Option<SecretDigest>, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    level: f64,
    at: Instant,
}

impl Rate {
    pub(crate) fn new(per_second: NonZeroU32) -> Self {
        Self {
            per_second: f64::from(per_second.get()),
            buckets: Mutex::default(),
        }
    }

    /// Takes one request out of a caller's bucket.
    pub(crate) fn take(&self, caller: Option<SecretDigest>) -> Result<(), ApiError> {
        let now = Instant::now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= CALLERS_MAX && !buckets.contains_key(&caller) {
            buckets.retain(|_, bucket| now - bucket.at < Duration::from_secs(1));
        }
        let bucket = buckets.entry(caller).or_insert(Bucket {
            level: self.per_second,
            at: now,
        });
        let refill = (now - bucket.at).as_secs_f64() * self.per_second;
        bucket.level = (bucket.level + refill).min(self.per_second);
        bucket.at = now;
        if bucket.level < 1.0 {
            return Err(ApiError::RateLimited);
        }
        bucket.level -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(rate: &Rate, caller: &[u8], times: usize) -> usize {
        let caller = Some(SecretDigest::of(caller));
        (0..times).filter(|_| rate.take(caller).is_ok()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_allows_its_number_and_callers_do_not_share() {
        let rate = Rate::new(NonZeroU32::new(10).unwrap());
        assert_eq!(taken(&rate, b"ann", 15), 10);
        assert_eq!(taken(&rate, b"bob", 15), 10);
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(taken(&rate, b"ann", 15), 5);
        // Quiet hours are not saved up.
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(taken(&rate, b"ann", 15), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn quiet_callers_are_forgotten() {
        let rate = Rate::new(NonZeroU32::new(1).unwrap());
        for number in 0..CALLERS_MAX {
            taken(&rate, &number.to_be_bytes(), 1);
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(taken(&rate, b"one more", 2), 1);
        assert_eq!(rate.buckets.lock().unwrap().len(), 1);
    }
}
