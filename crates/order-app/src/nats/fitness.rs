//! The settings that a stream must have, and those that are only recommended.

use std::time::Duration;

use async_nats::jetstream::stream::{
    Config as StreamConfig, DiscardPolicy, PersistenceMode, RetentionPolicy, StorageType,
};

use super::error::TopologyError;
use super::transform;

const DUPLICATE_WINDOW: Duration = Duration::from_mins(10);

/// What a stream is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// Payment events, read.
    Inbound,
    /// Order events, published.
    Outbound,
}

/// The settings of a stream that this service creates.
pub(super) fn stream_config(name: &str, subject: String, replicas: usize) -> StreamConfig {
    StreamConfig {
        name: name.to_owned(),
        subjects: vec![subject],
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        duplicate_window: DUPLICATE_WINDOW,
        num_replicas: replicas,
        ..StreamConfig::default()
    }
}

/// Refuses a stream that loses or forgets messages.
pub(super) fn verify(found: &StreamConfig, wanted: &StreamConfig) -> Result<(), TopologyError> {
    let unfit = |field, wanted: String, found_value: String| TopologyError::Unfit {
        stream: found.name.clone(),
        field,
        wanted,
        found: found_value,
    };
    if found.storage != StorageType::File {
        return Err(unfit(
            "storage",
            "file".to_owned(),
            format!("{:?}", found.storage),
        ));
    }
    if found.retention != RetentionPolicy::Limits {
        return Err(unfit(
            "retention",
            "limits".to_owned(),
            format!("{:?}", found.retention),
        ));
    }
    for subject in &wanted.subjects {
        if !found.subjects.iter().any(|known| covers(known, subject)) {
            return Err(unfit("subjects", subject.clone(), listed(found)));
        }
    }
    Ok(())
}

/// Why no message comes through a stream that passes `verify`, if none does. Its owner can change
/// all of this while the service runs.
pub(super) fn hindrance(role: Role, found: &StreamConfig, wanted: &StreamConfig) -> Option<String> {
    let name = &found.name;
    if role == Role::Outbound && found.sealed {
        return Some(format!("stream {name} is sealed: it takes no events"));
    }
    if role == Role::Outbound && found.no_ack {
        return Some(format!(
            "stream {name}: no_ack is true: no event is known to be stored"
        ));
    }
    let transform = found.subject_transform.as_ref()?;
    let is_moved = |subject: &String| match role {
        Role::Inbound => transform::leaves(transform, subject),
        Role::Outbound => transform::changes(transform, subject),
    };
    let (from, to) = (&transform.source, &transform.destination);
    let lost = match role {
        Role::Inbound => "which isn't read",
        Role::Outbound => "where no consumer looks for order events",
    };
    wanted
        .subjects
        .iter()
        .any(is_moved)
        .then(|| format!("stream {name}: subject_transform stores {from} as {to}, {lost}"))
}

/// A setting that differs from what is recommended, and is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remark {
    pub(super) field: &'static str,
    pub(super) found: String,
    pub(super) wanted: String,
}

/// The settings that differ from what is recommended.
pub(super) fn remarks(found: &StreamConfig, wanted: &StreamConfig) -> Vec<Remark> {
    let limit = |limit: i64| {
        if limit > 0 {
            limit.to_string()
        } else {
            "none".to_owned()
        }
    };
    let text = |value: &dyn std::fmt::Debug| format!("{value:?}");
    let replicas = found.num_replicas.min(wanted.num_replicas);
    let stored_later = found.persist_mode == Some(PersistenceMode::Async);
    let copied = found.mirror.is_some() || found.sources.is_some();
    let rows = [
        ("discard", text(&found.discard), text(&wanted.discard)),
        ("max_age", text(&found.max_age), text(&wanted.max_age)),
        (
            "duplicate_window",
            text(&found.duplicate_window),
            text(&wanted.duplicate_window),
        ),
        ("max_msgs", limit(found.max_messages), limit(-1)),
        ("max_bytes", limit(found.max_bytes), limit(-1)),
        (
            "max_msgs_per_subject",
            limit(found.max_messages_per_subject),
            limit(-1),
        ),
        (
            "max_msg_size",
            limit(found.max_message_size.into()),
            limit(-1),
        ),
        ("no_ack", text(&found.no_ack), text(&wanted.no_ack)),
        ("sealed", text(&found.sealed), text(&wanted.sealed)),
        // More is fine.
        ("num_replicas", text(&replicas), text(&wanted.num_replicas)),
        (
            "subject_transform",
            text(&found.subject_transform.is_some()),
            text(&false),
        ),
        ("mirror or sources", text(&copied), text(&false)),
        ("persist_mode async", text(&stored_later), text(&false)),
        (
            "allow_msg_ttl",
            text(&found.allow_message_ttl),
            text(&wanted.allow_message_ttl),
        ),
    ];
    rows.into_iter()
        .filter(|(_, found, wanted)| found != wanted)
        .map(|(field, found, wanted)| Remark {
            field,
            found,
            wanted,
        })
        .collect()
}

/// The subjects of a stream as text.
pub(super) fn listed(found: &StreamConfig) -> String {
    if found.subjects.is_empty() {
        "none".to_owned()
    } else {
        found.subjects.join(", ")
    }
}

/// Whether a stream's subject covers everything that matches `subject`.
pub(super) fn covers(known: &str, subject: &str) -> bool {
    let (mut known, mut subject) = (known.split('.'), subject.split('.'));
    loop {
        match (known.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(token)) if token != ">" => {}
            (Some(a), Some(b)) if a == b => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use async_nats::jetstream::stream::SubjectTransform;

    use super::*;

    fn stream() -> StreamConfig {
        stream_config("PAYMENTS", "payments.events.>".to_owned(), 1)
    }

    fn check(found: &StreamConfig, unfit: Option<&str>) {
        let field = match verify(found, &stream()) {
            Ok(()) => None,
            Err(TopologyError::Unfit { field, .. }) => Some(field),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(field, unfit);
    }

    #[test]
    fn a_stream_that_loses_or_forgets_is_unfit_and_others_are_taken_as_they_are() {
        check(&stream(), None);
        check(
            &StreamConfig {
                storage: StorageType::Memory,
                ..stream()
            },
            Some("storage"),
        );
        check(
            &StreamConfig {
                retention: RetentionPolicy::WorkQueue,
                ..stream()
            },
            Some("retention"),
        );
        check(
            &StreamConfig {
                retention: RetentionPolicy::Interest,
                ..stream()
            },
            Some("retention"),
        );
        check(
            &StreamConfig {
                subjects: vec!["payments.other.>".to_owned()],
                ..stream()
            },
            Some("subjects"),
        );
        check(
            &StreamConfig {
                subjects: vec!["payments.events.*".to_owned()],
                ..stream()
            },
            Some("subjects"),
        );
        check(
            &StreamConfig {
                subjects: Vec::new(),
                ..stream()
            },
            Some("subjects"),
        );
        check(
            &StreamConfig {
                subjects: vec!["x".to_owned(), "payments.>".to_owned()],
                ..stream()
            },
            None,
        );
        check(
            &StreamConfig {
                subjects: vec!["*.events.>".to_owned()],
                ..stream()
            },
            None,
        );
        check(
            &StreamConfig {
                subjects: vec![">".to_owned()],
                ..stream()
            },
            None,
        );
        check(
            &StreamConfig {
                discard: DiscardPolicy::Old,
                max_age: DUPLICATE_WINDOW,
                ..stream()
            },
            None,
        );
    }

    fn hinders(role: Role, change: impl FnOnce(&mut StreamConfig)) -> bool {
        let mut found = stream();
        change(&mut found);
        verify(&found, &stream()).unwrap();
        hindrance(role, &found, &stream()).is_some()
    }

    fn transform(from: &str, to: &str) -> SubjectTransform {
        SubjectTransform {
            source: from.to_owned(),
            destination: to.to_owned(),
        }
    }

    #[test]
    fn a_stream_that_nothing_comes_through_is_noticed() {
        assert!(!hinders(Role::Inbound, |_| ()));
        assert!(!hinders(Role::Outbound, |_| ()));
        assert!(hinders(Role::Outbound, |found| found.sealed = true));
        assert!(hinders(Role::Outbound, |found| found.no_ack = true));
        assert!(!hinders(Role::Inbound, |found| found.sealed = true));
        for (from, to, moved) in [
            ("payments.events.>", "x.>", true),
            (">", "x.>", true),
            ("payments.*.acme", "x.{{wildcard(1)}}", true),
            ("payments.events.>", "payments.events.v2.>", false),
            ("other.>", "x.>", false),
        ] {
            let found =
                |found: &mut StreamConfig| found.subject_transform = Some(transform(from, to));
            assert_eq!(hinders(Role::Inbound, found), moved, "{from} to {to}");
        }
        for (from, to, moved) in [
            ("payments.events.>", "payments.events.v2.>", true),
            ("payments.events.>", "payments.events.>", false),
        ] {
            let found =
                |found: &mut StreamConfig| found.subject_transform = Some(transform(from, to));
            assert_eq!(hinders(Role::Outbound, found), moved, "{from} to {to}");
        }
    }

    #[test]
    fn fewer_replicas_than_wanted_are_remarked_and_more_are_not() {
        let fields = |found: usize, wanted: usize| {
            let of = |replicas| stream_config("PAYMENTS", "x.>".to_owned(), replicas);
            remarks(&of(found), &of(wanted))
                .iter()
                .map(|remark| remark.field)
                .collect::<Vec<_>>()
        };
        assert_eq!(fields(1, 3), ["num_replicas"]);
        assert_eq!(fields(3, 3), [] as [&str; 0]);
        assert_eq!(fields(3, 1), [] as [&str; 0]);
    }
}
