//! What a stream must be like to be trusted with payments, and what is merely recommended.

use std::time::Duration;

use async_nats::jetstream::stream::{
    Config as StreamConfig, DiscardPolicy, RetentionPolicy, StorageType,
};

use super::topology::TopologyError;

const DUPLICATE_WINDOW: Duration = Duration::from_mins(10);

/// A stream as this service makes it.
pub(super) fn stream_config(name: &str, subject: String) -> StreamConfig {
    StreamConfig {
        name: name.to_owned(),
        subjects: vec![subject],
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        duplicate_window: DUPLICATE_WINDOW,
        ..StreamConfig::default()
    }
}

/// Refuses what loses messages, warns about what merely differs.
pub(super) fn verify(found: &StreamConfig, subject: &str) -> Result<(), TopologyError> {
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
    if !found.subjects.iter().any(|known| covers(known, subject)) {
        let listed = if found.subjects.is_empty() {
            "none".to_owned()
        } else {
            found.subjects.join(", ")
        };
        return Err(unfit("subjects", subject.to_owned(), listed));
    }
    let wanted = stream_config(&found.name, subject.to_owned());
    let limit = |limit: i64| {
        if limit > 0 {
            limit.to_string()
        } else {
            "none".to_owned()
        }
    };
    for (field, found_value, wanted_value) in [
        (
            "discard",
            format!("{:?}", found.discard),
            format!("{:?}", wanted.discard),
        ),
        (
            "max_age",
            format!("{:?}", found.max_age),
            format!("{:?}", wanted.max_age),
        ),
        (
            "duplicate_window",
            format!("{:?}", found.duplicate_window),
            format!("{:?}", wanted.duplicate_window),
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
        (
            "no_ack",
            found.no_ack.to_string(),
            wanted.no_ack.to_string(),
        ),
        (
            "sealed",
            found.sealed.to_string(),
            wanted.sealed.to_string(),
        ),
    ] {
        if found_value != wanted_value {
            tracing::warn!(
                stream.name = %found.name,
                field,
                found = %found_value,
                wanted = %wanted_value,
                "the stream differs from what is recommended and is left as it is"
            );
        }
    }
    Ok(())
}

/// Whether a stream's subject takes everything under `subject`, which ends in `.>`.
fn covers(known: &str, subject: &str) -> bool {
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
    use super::*;

    fn stream() -> StreamConfig {
        stream_config("PAYMENTS", "payments.events.>".to_owned())
    }

    fn check(found: &StreamConfig, unfit: Option<&str>) {
        let field = match verify(found, "payments.events.>") {
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
}
