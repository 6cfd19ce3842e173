//! A difference between what the ledger demands and what was found.

use std::fmt;

use serde::Serialize;

/// One thing that isn't as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The order, payment, letter or counter.
    pub what: String,
    /// What the ledger demands.
    pub expected: String,
    /// What the service says.
    pub found: String,
}

impl Difference {
    pub(crate) fn new(
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

    /// Compares two values by their text.
    pub(crate) fn between(
        what: impl Into<String>,
        expected: &(impl ToString + ?Sized),
        found: &(impl ToString + ?Sized),
    ) -> Option<Self> {
        let (expected, found) = (expected.to_string(), found.to_string());
        (expected != found).then(|| Self::new(what, expected, found))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            expected,
            found,
        } = self;
        write!(f, "{what}: expected {expected}, found {found}")
    }
}

/// Collects the differences of one thing, part by part.
pub(crate) struct Check<'a> {
    name: String,
    found: &'a mut Vec<Difference>,
}

impl<'a> Check<'a> {
    pub(crate) fn of(name: impl Into<String>, found: &'a mut Vec<Difference>) -> Self {
        Self {
            name: name.into(),
            found,
        }
    }

    /// The part must be as expected.
    pub(crate) fn same(
        &mut self,
        part: &str,
        expected: &(impl ToString + ?Sized),
        found: &(impl ToString + ?Sized),
    ) {
        let what = format!("{}, {part}", self.name);
        self.found
            .extend(Difference::between(what, expected, found));
    }

    /// The thing as a whole isn't as expected.
    pub(crate) fn differs(&mut self, expected: impl Into<String>, found: impl Into<String>) {
        self.found
            .push(Difference::new(self.name.as_str(), expected, found));
    }
}

const KEPT_MAX: usize = 10_000;

/// Differences with a limit, so that a service that lost everything doesn't cost the drill its memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Differences {
    #[serde(rename = "differences")]
    kept: Vec<Difference>,
    #[serde(rename = "differences_total")]
    total: u64,
}

impl Differences {
    /// The first 10,000.
    pub fn kept(&self) -> &[Difference] {
        &self.kept
    }

    /// The number of all differences.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Adds another list with its total.
    pub(crate) fn absorb(&mut self, other: Self) {
        let dropped = other.total - other.kept.len() as u64;
        self.extend(other.kept);
        self.total += dropped;
    }
}

impl Extend<Difference> for Differences {
    fn extend<I: IntoIterator<Item = Difference>>(&mut self, differences: I) {
        for difference in differences {
            self.total += 1;
            if self.kept.len() < KEPT_MAX {
                self.kept.push(difference);
            }
        }
    }
}
