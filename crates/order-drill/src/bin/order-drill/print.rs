//! Results on standard output, errors on standard error.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;
use order_drill::{Differences, Plan, Report, Summary, Thrown, VerdictRow};
use serde::Serialize;
use serde_json::json;

const DIFFERENCES_SHOWN: usize = 50;

/// A line on standard error.
pub(crate) fn error(text: &str) {
    let _ = writeln!(io::stderr(), "order-drill: {text}");
}

/// A line on standard output; flushed, since a script may wait for it.
pub(crate) fn line(text: impl Display) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        // The reader closed it because it has seen enough, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(serde_json::to_string_pretty(value)?)
}

fn facts(facts: &[(&str, &dyn Display)]) -> anyhow::Result<()> {
    facts
        .iter()
        .try_for_each(|(name, value)| line(format_args!("{name:<12} {value}")))
}

/// The first differences.
pub(crate) fn differences(differences: &Differences, shown: usize) -> anyhow::Result<()> {
    differences.kept().iter().take(shown).try_for_each(line)?;
    match differences.total().saturating_sub(shown as u64) {
        0 => Ok(()),
        hidden => line(format_args!("… and {hidden} more")),
    }
}

/// Says whether there is no difference.
pub(crate) fn report(report: &Report, as_json: bool) -> anyhow::Result<bool> {
    let total = report.differences.total();
    if as_json {
        json(report)?;
        return Ok(total == 0);
    }
    differences(&report.differences, DIFFERENCES_SHOWN)?;
    line(format_args!(
        "{:<20} {:>12} {:>12}",
        "verdict", "expected", "found"
    ))?;
    for row in &report.verdicts {
        let VerdictRow {
            verdict,
            expected,
            at_least,
            found,
        } = row;
        let expected = format!("{}{expected}", if *at_least { "≥ " } else { "" });
        let found = found.map_or_else(|| "not asked".to_owned(), |found| found.to_string());
        line(format_args!("{verdict:<20} {expected:>12} {found:>12}"))?;
    }
    line("")?;
    let published = match (report.published, report.uncertain) {
        (Some(published), Some(0)) => format!("{published} published"),
        (Some(published), Some(uncertain)) => {
            format!("{published} published, up to {uncertain} of them again after a lost ack")
        }
        _ => format!("{} published earlier", report.messages),
    };
    let healed = match report.questions {
        Some(questions) => format!("{} in {questions} questions", report.healed),
        None => report.healed.to_string(),
    };
    let millis = u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX);
    facts(&[
        (
            "orders",
            &format!("{}: {}", report.orders, counts(&report.statuses)),
        ),
        ("messages", &published),
        ("duplicates", &report.duplicates),
        (
            "lost",
            &format!("{}, recorded by a reconciliation: {healed}", report.lost),
        ),
        ("anomalies", &counts(&report.anomalies)),
        ("seed", &report.seed),
        ("prefix", &report.prefix),
        (
            "duration",
            &humantime::format_duration(Duration::from_millis(millis)),
        ),
    ])?;
    line(format_args!("differences: {total}"))?;
    line(format_args!("unacked: {}", report.unacked))?;
    Ok(total == 0)
}

/// Says whether there is no difference.
pub(crate) fn thrown(plan: &Plan, thrown: &Thrown, as_json: bool) -> anyhow::Result<bool> {
    let total = thrown.differences.total();
    if as_json {
        let mut result = serde_json::to_value(thrown)?;
        result["seed"] = json!(plan.seed);
        result["prefix"] = json!(plan.prefix);
        json(&result)?;
        return Ok(total == 0);
    }
    differences(&thrown.differences, DIFFERENCES_SHOWN)?;
    facts(&[
        ("orders", &thrown.created),
        ("messages", &format!("{} published", thrown.published)),
        ("uncertain", &thrown.uncertain),
        ("seed", &plan.seed),
        ("prefix", &plan.prefix),
    ])?;
    line(format_args!("differences: {total}"))?;
    Ok(total == 0)
}

pub(crate) fn plan(plan: &Plan, as_json: bool) -> anyhow::Result<bool> {
    let summary = plan.summary();
    if as_json {
        json(&summary)?;
        return Ok(true);
    }
    let Summary {
        seed,
        prefix,
        orders,
        messages,
        duplicates,
        lost,
        dead_letters,
        waves,
        cases,
    } = &summary;
    facts(&[
        ("orders", orders),
        ("messages", messages),
        ("duplicates", duplicates),
        ("lost", lost),
        ("dead letters", dead_letters),
        ("waves", waves),
        ("cases", &counts(cases)),
        ("seed", seed),
        ("prefix", prefix),
    ])?;
    Ok(true)
}

fn counts<K: Display>(counts: &BTreeMap<K, u64>) -> String {
    let parts: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if parts.is_empty() {
        "none".to_owned()
    } else {
        parts.join(", ")
    }
}
