//! A difference between what the ledger demands and what was found.

use std::fmt;

use serde::Serialize;

/// One thing that isn't as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which order, payment, letter or counter.
    pub what: String,
    /// What the ledger demands.
    pub expected: String,
    /// What the service says.
    pub found: String,
}

impl Difference {
    /// A difference about `what`.
    pub fn new(
        what: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            expected: expected.into(),
            found: found.into(),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: expected {}, found {}",
            self.what, self.expected, self.found
        )
    }
}

const KEPT_MAX: usize = 10_000;

/// Differences with a bound: a service that lost everything must not cost the drill its memory.
#[derive(Debug, Clone, Default)]
pub struct Differences {
    kept: Vec<Difference>,
    total: u64,
}

impl Differences {
    /// Counts one, and keeps it if there is room.
    pub fn push(&mut self, difference: Difference) {
        self.total += 1;
        if self.kept.len() < KEPT_MAX {
            self.kept.push(difference);
        }
    }

    /// The first ones.
    pub fn kept(&self) -> &[Difference] {
        &self.kept
    }

    /// How many there were.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Takes over another list, counting what it didn't keep.
    pub fn absorb(&mut self, other: Self) {
        self.total += other.total;
        let room = KEPT_MAX.saturating_sub(self.kept.len());
        self.kept.extend(other.kept.into_iter().take(room));
    }

    /// The first ones, and how many there were.
    pub fn into_parts(self) -> (Vec<Difference>, u64) {
        (self.kept, self.total)
    }
}

impl Extend<Difference> for Differences {
    fn extend<I: IntoIterator<Item = Difference>>(&mut self, differences: I) {
        for difference in differences {
            self.push(difference);
        }
    }
}
