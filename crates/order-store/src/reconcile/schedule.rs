//! When an order is looked at and asked about next. Pure.
//!
//! Pauses double up to [`PAUSE_MAX`]. The question at `pay_by` comes in between and leaves them as
//! they are. While an order is `NOT_PAID` it is looked at, without a question, at least every
//! `last_check_after`: so the last question is never late, though a payment doesn't touch the
//! schedule.

use std::time::Duration;

use time::OffsetDateTime;

/// The longest pause between two questions about an order.
pub(crate) const PAUSE_MAX: Duration = Duration::from_hours(1);

/// A row of the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// When the order is looked at.
    pub(crate) next_check_at: OffsetDateTime,
    /// When it is asked about.
    pub(crate) ask_at: OffsetDateTime,
    /// The pause before this question.
    pub(crate) pause: Duration,
    /// Consecutive answers without information.
    pub(crate) unknowns: i64,
}

/// A time after another one; the last there is instead of one beyond it.
pub(crate) fn later(at: OffsetDateTime, after: Duration) -> OffsetDateTime {
    let after = time::Duration::try_from(after).unwrap_or(time::Duration::MAX);
    at.saturating_add(after).min(LAST)
}

/// The last time that both databases and the edge know.
const LAST: OffsetDateTime = time::macros::datetime!(9999-12-31 23:59:59.999999 UTC);

impl Schedule {
    /// The schedule of a new order.
    pub(crate) fn begin(
        now: OffsetDateTime,
        pay_by: OffsetDateTime,
        check_after: Duration,
        last_check_after: Option<Duration>,
    ) -> Self {
        Self {
            next_check_at: now,
            ask_at: now,
            pause: check_after,
            unknowns: 0,
        }
        .at(later(now, check_after))
        .not_past(now, pay_by)
        .looked_at_within(now, last_check_after)
    }

    /// After a look at a `NOT_PAID` order whose question is still to come.
    pub(crate) fn looked(self, now: OffsetDateTime, last_check_after: Option<Duration>) -> Self {
        self.at(self.ask_at).looked_at_within(now, last_check_after)
    }

    /// After a question about a `NOT_PAID` order.
    pub(crate) fn asked(
        self,
        now: OffsetDateTime,
        pay_by: OffsetDateTime,
        unknown: bool,
        last_check_after: Option<Duration>,
    ) -> Self {
        let next = if self.ask_at == pay_by {
            self.at(later(now, self.pause))
        } else {
            self.doubled().at_pause(now)
        };
        next.counting(unknown)
            .not_past(now, pay_by)
            .looked_at_within(now, last_check_after)
    }

    /// After a last question that got no answer.
    pub(crate) fn unanswered(self, now: OffsetDateTime, unknown: bool) -> Self {
        self.doubled().at_pause(now).counting(unknown)
    }

    /// Before the last question of an order that left `NOT_PAID` at this time.
    pub(crate) fn last(self, left_at: OffsetDateTime, last_check_after: Duration) -> Self {
        self.at(later(left_at, last_check_after))
    }

    fn doubled(self) -> Self {
        Self {
            pause: self.pause.saturating_mul(2).min(PAUSE_MAX),
            ..self
        }
    }

    fn at_pause(self, now: OffsetDateTime) -> Self {
        self.at(later(now, self.pause))
    }

    fn at(self, at: OffsetDateTime) -> Self {
        Self {
            next_check_at: at,
            ask_at: at,
            ..self
        }
    }

    fn counting(self, unknown: bool) -> Self {
        Self {
            unknowns: if unknown {
                self.unknowns.saturating_add(1)
            } else {
                0
            },
            ..self
        }
    }

    /// Asks at `pay_by` if that is sooner.
    fn not_past(self, now: OffsetDateTime, pay_by: OffsetDateTime) -> Self {
        if pay_by > now && pay_by < self.ask_at {
            self.at(pay_by)
        } else {
            self
        }
    }

    fn looked_at_within(self, now: OffsetDateTime, last_check_after: Option<Duration>) -> Self {
        let look = last_check_after.map_or(self.ask_at, |after| later(now, after));
        Self {
            next_check_at: look.min(self.ask_at),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const START: OffsetDateTime = datetime!(2026-11-29 08:00 UTC);
    const DAY: Option<Duration> = Some(Duration::from_hours(24));

    fn minutes(schedule: Schedule) -> i64 {
        (schedule.ask_at - START).whole_minutes()
    }

    /// The minutes at which an order is asked about that never gets an answer.
    fn questions(check_after: u64, pay_within: u64, count: usize) -> Vec<i64> {
        let pay_by = START + Duration::from_mins(pay_within);
        let mut schedule = Schedule::begin(START, pay_by, Duration::from_mins(check_after), DAY);
        let mut at = vec![minutes(schedule)];
        while at.len() < count {
            schedule = schedule.asked(schedule.ask_at, pay_by, true, DAY);
            at.push(minutes(schedule));
        }
        at
    }

    #[test]
    fn pauses_double_up_to_an_hour_and_pay_by_comes_in_between() {
        let table: [(u64, u64, &[i64]); 5] = [
            (5, 30, &[5, 15, 30, 50, 90, 150, 210, 270]),
            (5, 15, &[5, 15, 25, 45, 85, 145]),
            (5, 3, &[3, 8, 18, 38, 78, 138]),
            (40, 1000, &[40, 100, 160, 220, 280]),
            (90, 30, &[30, 120, 180, 240]),
        ];
        for (check_after, pay_within, expected) in table {
            let asked = questions(check_after, pay_within, expected.len());
            assert_eq!(asked, expected, "{check_after} {pay_within}");
        }
    }

    #[test]
    fn a_pay_by_in_the_past_changes_nothing() {
        let past = START - Duration::from_hours(1);
        let schedule = Schedule::begin(START, past, Duration::from_mins(5), DAY);
        assert_eq!(minutes(schedule), 5);
    }

    #[test]
    fn an_unpaid_order_is_looked_at_in_time_for_its_last_question() {
        let pay_by = START + Duration::from_mins(30);
        let short = Some(Duration::from_secs(2));
        let schedule = Schedule::begin(START, pay_by, Duration::from_mins(5), short);
        assert_eq!(schedule.next_check_at, START + Duration::from_secs(2));
        assert_eq!(minutes(schedule), 5);
        let now = START + Duration::from_secs(2);
        let looked = schedule.looked(now, short);
        assert_eq!(looked.next_check_at, START + Duration::from_secs(4));
        assert_eq!(minutes(looked), 5);
        // Off: no look without a question.
        let off = schedule.looked(now, None);
        assert_eq!(off.next_check_at, off.ask_at);
    }
}
