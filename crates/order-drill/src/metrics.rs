//! Reads the Prometheus text of `/metrics`.

use std::collections::BTreeMap;

/// Samples with their names and labels.
#[derive(Debug)]
pub(crate) struct Metrics {
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Metrics {
    /// Reads what it can; a line that isn't a sample is skipped.
    pub(crate) fn parse(text: &str) -> Self {
        Self {
            samples: text.lines().filter_map(sample).collect(),
        }
    }

    /// The sum of all samples of a name, or of those with this label.
    pub(crate) fn sum(&self, name: &str, label: Option<(&str, &str)>) -> f64 {
        let has_label = |sample: &&Sample| {
            label.is_none_or(|(key, value)| sample.labels.get(key).is_some_and(|v| v == value))
        };
        self.samples
            .iter()
            .filter(|s| s.name == name)
            .filter(has_label)
            .map(|s| s.value)
            .sum()
    }
}

fn sample(line: &str) -> Option<Sample> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample {
        name: name.to_owned(),
        labels,
        value,
    })
}

/// The labels up to the closing brace, and what follows it.
fn labels(mut text: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (key, rest) = text.split_once("=\"")?;
        let (value, rest) = quoted(rest)?;
        labels.insert(key.trim().to_owned(), value);
        text = rest;
    }
}

/// A value up to its closing quote, unescaped, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Metrics;

    const TEXT: &str = r#"
# HELP orderd_payment_events_total deliveries by verdict
# TYPE orderd_payment_events_total counter
orderd_payment_events_total{verdict="APPLIED"} 12
orderd_payment_events_total{verdict="DUPLICATE",instance="a,\"b\"}"} 3 1700000000000
orderd_payment_events_total{instance="c", verdict="DUPLICATE",} 4.0
orderd_redeliveries_total 2
orderd_commit_delay_seconds_bucket{le="+Inf"} +Inf
this isn't a sample
broken{verdict="APPLIED
"#;

    #[expect(clippy::float_cmp, reason = "whole numbers are exact")]
    fn check(name: &str, label: Option<(&str, &str)>, expect: f64) {
        assert_eq!(
            Metrics::parse(TEXT).sum(name, label),
            expect,
            "{name} {label:?}"
        );
    }

    #[test]
    fn samples_are_summed_by_name_and_label() {
        let events = "orderd_payment_events_total";
        check(events, Some(("verdict", "APPLIED")), 12.0);
        check(events, Some(("verdict", "DUPLICATE")), 7.0);
        check(events, Some(("instance", "a,\"b\"}")), 3.0);
        check(events, None, 19.0);
        check("orderd_redeliveries_total", None, 2.0);
    }

    #[test]
    fn what_is_absent_counts_as_zero() {
        check("orderd_redeliveries", None, 0.0);
        check(
            "orderd_payment_events_total",
            Some(("verdict", "REVERSED")),
            0.0,
        );
        check("broken", None, 0.0);
    }
}
