//! What distinguishes runs.

use clap::Args;
use time::OffsetDateTime;

#[derive(Debug, Args)]
pub(crate) struct Seed {
    /// Repeats a run; random if absent
    #[arg(long)]
    seed: Option<u64>,
}

impl Seed {
    /// The seed, and the start of every id if none is given.
    pub(crate) fn with_prefix(&self) -> (u64, String) {
        // 32 bits are enough to distinguish runs, and short enough to read out.
        let random = || u64::from(rand::random::<u32>());
        let seed = self.seed.unwrap_or_else(random);
        (seed, default_prefix(seed))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time only makes the prefix unique"
)]
fn default_prefix(seed: u64) -> String {
    let now = OffsetDateTime::now_utc().unix_timestamp();
    format!("d{seed:x}-{now:x}-")
}

#[cfg(test)]
mod tests {
    use super::default_prefix;

    #[test]
    fn the_default_prefix_fits_the_largest_seed() {
        order_drill::prefix(&default_prefix(u64::MAX)).unwrap();
    }
}
