//! Whether messages can be pulled, as the workers report it.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::lock::lock;

/// How long a pull that worked outweighs one that failed: a pull is answered every second, even if
/// nothing is published.
const SPEAKS: Duration = Duration::from_secs(3);

/// How pulling goes, over all workers of this process.
#[derive(Debug)]
pub struct Pulls(Mutex<State>);

#[derive(Debug)]
struct State {
    worked: Option<Instant>,
    failed: Option<String>,
}

impl Default for Pulls {
    fn default() -> Self {
        Self(Mutex::new(State {
            worked: None,
            failed: Some("no pull was answered yet".to_owned()),
        }))
    }
}

impl Pulls {
    /// A pull was answered.
    pub fn worked(&self) {
        *lock(&self.0) = State {
            worked: Some(Instant::now()),
            failed: None,
        };
    }

    /// A pull wasn't answered, or not as it should be.
    pub fn failed(&self, why: String) {
        lock(&self.0).failed = Some(why);
    }

    /// Why messages can't be pulled, if they can't.
    pub fn fault(&self) -> Option<String> {
        let state = lock(&self.0);
        let works = state.worked.is_some_and(|at| at.elapsed() < SPEAKS);
        state.failed.clone().filter(|_| !works)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn messages_can_be_pulled_while_one_of_the_workers_can() {
        let pulls = Pulls::default();
        assert!(pulls.fault().is_some(), "no pull was tried");
        pulls.worked();
        assert_eq!(pulls.fault(), None);
        pulls.failed("denied".to_owned());
        assert_eq!(pulls.fault(), None);
        tokio::time::advance(SPEAKS).await;
        assert_eq!(pulls.fault().as_deref(), Some("denied"));
        pulls.worked();
        tokio::time::advance(10 * SPEAKS).await;
        assert_eq!(pulls.fault(), None, "no pulls while the database is slow");
    }
}
