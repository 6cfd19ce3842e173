//! Conversions for figures that people read, where a rounding error of one in 2^53 doesn't matter.

use std::time::Duration;

/// A count as a figure.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn figure(count: u64) -> f64 {
    count as f64
}

/// A length as a count.
pub(crate) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// So many per second.
pub(crate) fn rate(count: u64, took: Duration) -> f64 {
    figure(count) / took.as_secs_f64().max(1e-9)
}

/// Microseconds, up to 584,000 years.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The middle one; the lower one of two.
pub(crate) fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        for (figures, expect) in [
            (vec![], None),
            (vec![3.0], Some(3.0)),
            (vec![9.0, 1.0], Some(1.0)),
            (vec![9.0, 1.0, 2.0], Some(2.0)),
        ] {
            assert_eq!(median(figures.clone()), expect, "{figures:?}");
        }
    }
}
