//! What a stream's `subject_transform` does to our subjects: it stores messages under other subjects than
//! they were published to, and consumers find them there only.

use async_nats::jetstream::stream::SubjectTransform;

/// Stands for any event that a transform doesn't name.
const ANY: &str = "event";

/// Whether something that fits `subject`, which ends in `>`, is stored under a subject that doesn't.
pub(super) fn leaves(transform: &SubjectTransform, subject: &str) -> bool {
    let kept = subject.trim_end_matches('>');
    let (from, to) = (source(transform), &transform.destination);
    !to.is_empty() && meets(from, subject) && !to.starts_with(kept)
}

/// Whether something published one token below `subject`, which ends in `>`, is stored under another
/// subject.
pub(super) fn changes(transform: &SubjectTransform, subject: &str) -> bool {
    let prefix = subject.trim_end_matches('>');
    let below = prefix.matches('.').count();
    let named = source(transform).split('.').nth(below);
    let event = named.filter(|token| !matches!(*token, "*" | ">"));
    let published = format!("{prefix}{}", event.unwrap_or(ANY));
    match stored(transform, &published) {
        Stored::As(stored) => stored != published,
        Stored::Unknown => true,
        Stored::Unchanged => false,
    }
}

/// Under which subject something is stored.
#[derive(Debug, PartialEq, Eq)]
enum Stored {
    /// The transform isn't about it.
    Unchanged,
    As(String),
    /// By a function that isn't known here: a partition, a slice.
    Unknown,
}

fn stored(transform: &SubjectTransform, published: &str) -> Stored {
    // A server takes this for no transform.
    if transform.destination.is_empty() {
        return Stored::Unchanged;
    }
    let Some(matched) = matched(source(transform), published) else {
        return Stored::Unchanged;
    };
    let tokens = transform.destination.split('.').map(|token| {
        if token == ">" {
            matched.rest
        } else if let Some(number) = wildcard(token) {
            matched.wildcards.get(number.checked_sub(1)?).copied()
        } else if token.contains("{{") || token.starts_with('$') {
            None
        } else {
            Some(token)
        }
    });
    let tokens: Option<Vec<&str>> = tokens.collect();
    tokens.map_or(Stored::Unknown, |tokens| Stored::As(tokens.join(".")))
}

/// A server takes an empty one for all subjects.
fn source(transform: &SubjectTransform) -> &str {
    match transform.source.as_str() {
        "" => ">",
        source => source,
    }
}

/// The number of `$1` or `{{wildcard(1)}}`.
fn wildcard(token: &str) -> Option<usize> {
    if let Some(number) = token.strip_prefix('$') {
        return number.parse().ok();
    }
    let inner = token.strip_prefix("{{")?.strip_suffix("}}")?.trim();
    let (function, number) = inner.strip_suffix(')')?.split_once('(')?;
    let is_known = function.trim().eq_ignore_ascii_case("wildcard");
    number.trim().parse().ok().filter(|_| is_known)
}

/// What the wildcards of a pattern stand for in a subject.
struct Matched<'a> {
    wildcards: Vec<&'a str>,
    rest: Option<&'a str>,
}

fn matched<'a>(pattern: &str, subject: &'a str) -> Option<Matched<'a>> {
    let mut wildcards = Vec::new();
    let mut left = Some(subject);
    for token in pattern.split('.') {
        let subject = left?;
        if token == ">" {
            let rest = Some(subject);
            return Some(Matched { wildcards, rest });
        }
        let (first, rest) = match subject.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (subject, None),
        };
        if token == "*" {
            wildcards.push(first);
        } else if token != first {
            return None;
        }
        left = rest;
    }
    let rest = None;
    left.is_none().then_some(Matched { wildcards, rest })
}

/// Whether there is a subject that fits both.
fn meets(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (one.split('.'), other.split('.'));
    loop {
        match (one.next(), other.next()) {
            (Some(">"), Some(_)) | (Some(_), Some(">")) | (None, None) => return true,
            (Some(a), Some(b)) if a == b || a == "*" || b == "*" => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transform(from: &str, to: &str) -> SubjectTransform {
        SubjectTransform {
            source: from.to_owned(),
            destination: to.to_owned(),
        }
    }

    #[test]
    fn a_transform_that_leaves_each_subject_as_it_is_changes_nothing() {
        for (from, to, changed) in [
            ("orders.events.>", "x.orders.>", true),
            ("orders.events.>", "orders.events.v2.>", true),
            ("orders.events.>", "orders.events.>", false),
            ("", "x.>", true),
            ("", ">", false),
            (">", ">", false),
            ("orders.events.*", "orders.events.{{wildcard(1)}}", false),
            ("orders.*.*", "orders.$1.$2", false),
            ("orders.*.*", "orders.$2.$1", true),
            ("orders.*.*", "orders.events.{{ Wildcard(2) }}", false),
            ("orders.events.paid", "orders.events.paid", false),
            ("orders.events.paid", "orders.events.settled", true),
            ("orders.*.paid", "orders.events.paid", false),
            ("orders.events.*", "orders.events.{{partition(3,1)}}", true),
            ("orders.events.*", "orders.events.all", true),
            ("orders.*", "x.$1", false),
            ("orders.events.a.b", "x", false),
            ("other.>", "x.>", false),
            ("orders.events.>", "", false),
        ] {
            let transform = transform(from, to);
            let found = changes(&transform, "orders.events.>");
            assert_eq!(found, changed, "{from} to {to}");
        }
        assert!(changes(&transform("events.*", "x.$1"), "events.>"));
    }

    #[test]
    fn payment_events_are_read_wherever_they_are_stored_below_their_subject() {
        for (from, to, lost) in [
            ("payments.events.>", "x.>", true),
            ("", "x.>", true),
            ("payments.events.>", "payments.events.v2.>", false),
            ("payments.events.>", "", false),
            ("other.>", "x.>", false),
        ] {
            let found = leaves(&transform(from, to), "payments.events.>");
            assert_eq!(found, lost, "{from} to {to}");
        }
    }
}
