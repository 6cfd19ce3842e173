//! The settings that the durable consumer must have, and how an existing one differs from them.

use std::time::Duration;

use async_nats::jetstream::consumer::{
    AckPolicy, Config, DeliverPolicy, PriorityPolicy, ReplayPolicy, pull,
};

/// A message without an ack is delivered again after this long.
pub(crate) const ACK_WAIT: Duration = Duration::from_secs(30);

/// How many messages may be unacked, over all instances: far more than they hold in batches, so
/// that an instance that died with a batch doesn't stall the others.
const ACK_PENDING_MAX: i64 = 50_000;

/// The fewest waiting pulls that must be allowed, over all instances: with fewer, some pulls would be
/// refused.
const WAITING_MIN: i64 = 64;

/// The consumer as this service creates it. It has as many replicas as its stream.
pub(super) fn consumer_config(name: &str, filter: String) -> pull::Config {
    pull::Config {
        durable_name: Some(name.to_owned()),
        ack_policy: AckPolicy::Explicit,
        deliver_policy: DeliverPolicy::All,
        ack_wait: ACK_WAIT,
        max_deliver: -1,
        filter_subject: filter,
        max_ack_pending: ACK_PENDING_MAX,
        ..pull::Config::default()
    }
}

/// The settings of an existing consumer, with those replaced that an update can repair.
pub(super) fn altered(found: pull::Config, wanted: &pull::Config) -> pull::Config {
    pull::Config {
        durable_name: wanted.durable_name.clone(),
        ack_wait: wanted.ack_wait,
        max_deliver: wanted.max_deliver,
        backoff: Vec::new(),
        max_ack_pending: wanted.max_ack_pending,
        rate_limit: 0,
        headers_only: false,
        inactive_threshold: Duration::ZERO,
        max_batch: 0,
        max_bytes: 0,
        max_expires: Duration::ZERO,
        priority_policy: PriorityPolicy::None,
        priority_groups: Vec::new(),
        priority_timeout: Duration::ZERO,
        ..found
    }
}

/// A setting of a consumer that differs from what is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    field: &'static str,
    found: String,
    wanted: String,
    /// How it can be repaired.
    pub(super) by: Mend,
    /// Whether the service works with it nevertheless.
    pub(super) is_bearable: bool,
}

/// How a difference is repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mend {
    /// The consumer is updated.
    Update,
    /// The consumer is recreated: servers refuse the update, or do it wrong. 2.9.10 accepts another
    /// filter and then passes over everything that it should deliver.
    Renewal,
}

/// All differences in one line.
pub(super) fn listed(differences: &[Difference]) -> String {
    let each = |difference: &Difference| {
        let Difference {
            field,
            found,
            wanted,
            ..
        } = difference;
        format!("{field} is {found}, but should be {wanted}")
    };
    differences.iter().map(each).collect::<Vec<_>>().join("; ")
}

/// How a consumer differs from what is needed. Where it starts doesn't count: `reconsume` decides
/// that.
pub(super) fn differences(found: &Config, wanted: &pull::Config) -> Vec<Difference> {
    use Mend::{Renewal, Update};

    let mut differences = Vec::new();
    let mut compare = |field, by, is_bearable, found: String, wanted: String| {
        if found != wanted {
            differences.push(Difference {
                field,
                found,
                wanted,
                by,
                is_bearable,
            });
        }
    };
    let text = |value: &dyn std::fmt::Debug| format!("{value:?}");
    for (field, found, wanted) in [
        (
            "deliver_subject",
            text(&found.deliver_subject),
            text(&None::<String>),
        ),
        (
            "ack_policy",
            text(&found.ack_policy),
            text(&wanted.ack_policy),
        ),
        (
            "filter_subject",
            filters(found).join(", "),
            wanted.filter_subject.clone(),
        ),
        (
            "replay_policy",
            text(&found.replay_policy),
            text(&ReplayPolicy::Instant),
        ),
        ("memory_storage", text(&found.memory_storage), text(&false)),
    ] {
        compare(field, Renewal, false, found, wanted);
    }
    for (field, found, wanted) in [
        ("ack_wait", text(&found.ack_wait), text(&wanted.ack_wait)),
        (
            "max_deliver",
            text(&found.max_deliver),
            text(&wanted.max_deliver),
        ),
        ("backoff", text(&found.backoff), text(&wanted.backoff)),
        ("rate_limit", text(&found.rate_limit), text(&0)),
        ("headers_only", text(&found.headers_only), text(&false)),
        (
            "priority_policy",
            text(&found.priority_policy),
            text(&PriorityPolicy::None),
        ),
    ] {
        compare(field, Update, false, found, wanted);
    }
    // An account or a stream may allow less of these: that is slower, or less safe.
    for (field, found, wanted) in [
        (
            "max_ack_pending",
            text(&found.max_ack_pending),
            text(&wanted.max_ack_pending),
        ),
        ("max_batch", text(&found.max_batch), text(&0)),
        ("max_bytes", text(&found.max_bytes), text(&0)),
        (
            "max_expires",
            text(&found.max_expires),
            text(&Duration::ZERO),
        ),
        (
            "inactive_threshold",
            text(&found.inactive_threshold),
            text(&Duration::ZERO),
        ),
    ] {
        compare(field, Update, true, found, wanted);
    }
    // More than needed isn't a difference; a push consumer has no such limit.
    let waiting = found.max_waiting.min(WAITING_MIN);
    compare(
        "max_waiting",
        Renewal,
        true,
        text(&waiting),
        text(&WAITING_MIN),
    );
    differences
}

/// The filter subjects of a consumer; a server can write a single one in two ways.
fn filters(config: &Config) -> Vec<String> {
    if config.filter_subjects.is_empty() {
        vec![config.filter_subject.clone()]
    } else {
        config.filter_subjects.clone()
    }
}

/// Where a consumer starts, if its settings make it start after the first stored message.
pub(super) fn late_start(policy: DeliverPolicy) -> Option<String> {
    match policy {
        DeliverPolicy::All => None,
        DeliverPolicy::Last
        | DeliverPolicy::New
        | DeliverPolicy::LastPerSubject
        | DeliverPolicy::ByStartSequence { .. }
        | DeliverPolicy::ByStartTime { .. } => Some(format!("{policy:?}")),
    }
}

#[cfg(test)]
mod tests {
    use async_nats::jetstream::consumer::IntoConsumerConfig as _;

    use super::*;

    fn wanted() -> pull::Config {
        consumer_config("orderd", "payments.events.>".to_owned())
    }

    fn check(change: impl FnOnce(&mut Config), expected: &[(&str, Mend, bool)]) {
        let mut found = wanted().into_consumer_config();
        found.max_waiting = 512;
        change(&mut found);
        let differences = differences(&found, &wanted());
        let short: Vec<(&str, Mend, bool)> = differences
            .iter()
            .map(|difference| (difference.field, difference.by, difference.is_bearable))
            .collect();
        assert_eq!(short, expected, "{}", listed(&differences));
    }

    #[test]
    fn each_difference_says_how_it_is_put_right_and_whether_the_service_works_with_it() {
        use Mend::{Renewal, Update};

        check(|_| (), &[]);
        check(|found| found.max_waiting = 64, &[]);
        check(
            |found| {
                found.filter_subjects = vec![std::mem::take(&mut found.filter_subject)];
            },
            &[],
        );
        check(
            |found| found.filter_subject.clear(),
            &[("filter_subject", Renewal, false)],
        );
        check(
            |found| found.ack_policy = AckPolicy::All,
            &[("ack_policy", Renewal, false)],
        );
        check(
            |found| found.memory_storage = true,
            &[("memory_storage", Renewal, false)],
        );
        check(
            |found| found.max_waiting = 1,
            &[("max_waiting", Renewal, true)],
        );
        check(
            |found| found.max_deliver = 5,
            &[("max_deliver", Update, false)],
        );
        check(
            |found| found.priority_policy = PriorityPolicy::Overflow,
            &[("priority_policy", Update, false)],
        );
        check(|found| found.max_batch = 1, &[("max_batch", Update, true)]);
        check(
            |found| {
                found.max_ack_pending = 1000;
                found.inactive_threshold = Duration::from_secs(5);
            },
            &[
                ("max_ack_pending", Update, true),
                ("inactive_threshold", Update, true),
            ],
        );
    }

    #[test]
    fn an_update_changes_nothing_that_only_a_renewal_can() {
        let found = pull::Config {
            filter_subject: "other".to_owned(),
            ack_policy: AckPolicy::All,
            max_deliver: 3,
            description: Some("by hand".to_owned()),
            ..pull::Config::default()
        };
        let altered = altered(found.clone(), &wanted());
        assert_eq!(altered.filter_subject, found.filter_subject);
        assert_eq!(altered.ack_policy, found.ack_policy);
        assert_eq!(altered.description, found.description);
        assert_eq!(altered.max_deliver, -1);
    }
}
