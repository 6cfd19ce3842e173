//! Results on standard output, errors on standard error.

use std::collections::BTreeMap;
use std::io::{self, Write};

use order_drill::{Plan, Report, Scenario, Thrown, VerdictRow};
use serde_json::json;

const DIFFERENCES_SHOWN: usize = 50;

/// An error with all its causes.
pub(crate) fn error(error: &anyhow::Error) {
    let _ = writeln!(io::stderr(), "order-drill: {error:#}");
}

/// How to throw the same plan again.
pub(crate) fn repeat(plan: &Plan) {
    let _ = writeln!(
        io::stderr(),
        "order-drill: --seed {} --prefix {}",
        plan.seed,
        plan.prefix
    );
}

pub(crate) fn report(report: &Report, as_json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if as_json {
        return writeln!(out, "{}", serde_json::to_string_pretty(report)?);
    }
    for difference in report.differences.iter().take(DIFFERENCES_SHOWN) {
        writeln!(out, "{difference}")?;
    }
    let hidden = report
        .differences_total
        .saturating_sub(DIFFERENCES_SHOWN as u64);
    if hidden > 0 {
        writeln!(out, "… and {hidden} more")?;
    }
    writeln!(out, "{:<20} {:>12} {:>12}", "verdict", "expected", "found")?;
    for row in &report.verdicts {
        let VerdictRow {
            verdict,
            expected,
            at_least,
            found,
        } = row;
        let expected = format!("{}{expected}", if *at_least { "≥ " } else { "" });
        let found = found.map_or_else(|| "not asked".to_owned(), |found| found.to_string());
        writeln!(out, "{verdict:<20} {expected:>12} {found:>12}")?;
    }
    writeln!(out)?;
    let published = match (report.published, report.uncertain) {
        (Some(published), Some(0)) => format!("{published} published"),
        (Some(published), Some(uncertain)) => {
            format!("{published} published, up to {uncertain} of them again after a lost ack")
        }
        _ => format!("{} published earlier", report.messages),
    };
    let orders = format!("{}: {}", report.orders, counts(&report.statuses));
    let told = match report.questions {
        Some(questions) => format!("{} in {questions} questions", report.healed),
        None => report.healed.to_string(),
    };
    let healing = format!("{}, told by a reconciliation: {told}", report.lost);
    let duration = humantime::format_duration(rounded(report.duration));
    let facts = [
        ("orders", orders),
        ("messages", published),
        ("duplicates", report.duplicates.to_string()),
        ("lost", healing),
        ("anomalies", counts(&report.anomalies)),
        ("seed", report.seed.to_string()),
        ("prefix", report.prefix.clone()),
        ("duration", duration.to_string()),
    ];
    for (name, value) in facts {
        writeln!(out, "{name:<12} {value}")?;
    }
    writeln!(out, "differences: {}", report.differences_total)?;
    writeln!(out, "unacked: {}", report.unacked)
}

pub(crate) fn thrown(plan: &Plan, thrown: &Thrown, as_json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let differences = thrown.differences.total();
    if as_json {
        let result = json!({
            "seed": plan.seed, "prefix": plan.prefix, "created": thrown.created,
            "published": thrown.published, "uncertain": thrown.uncertain,
            "differences": thrown.differences.kept(), "differences_total": differences,
        });
        return writeln!(out, "{result:#}");
    }
    for difference in thrown.differences.kept().iter().take(DIFFERENCES_SHOWN) {
        writeln!(out, "{difference}")?;
    }
    writeln!(out, "{:<12} {}", "orders", thrown.created)?;
    writeln!(out, "{:<12} {} published", "messages", thrown.published)?;
    writeln!(out, "{:<12} {}", "uncertain", thrown.uncertain)?;
    writeln!(out, "{:<12} {}", "seed", plan.seed)?;
    writeln!(out, "{:<12} {}", "prefix", plan.prefix)?;
    writeln!(out, "differences: {differences}")
}

pub(crate) fn plan(plan: &Plan, as_json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut cases: BTreeMap<&str, u64> = BTreeMap::new();
    for case in &plan.ledger.cases {
        *cases.entry(Scenario::as_str(case.scenario)).or_default() += 1;
    }
    let lost = plan.lost().count();
    if as_json {
        let summary = json!({
            "seed": plan.seed, "prefix": plan.prefix, "orders": plan.created(),
            "messages": plan.messages.len(), "duplicates": plan.duplicates(), "lost": lost,
            "dead_letters": plan.letters.len(), "waves": plan.waves().count(), "cases": cases,
        });
        return writeln!(out, "{summary:#}");
    }
    let facts = [
        ("orders", plan.created().to_string()),
        ("messages", plan.messages.len().to_string()),
        ("duplicates", plan.duplicates().to_string()),
        ("lost", lost.to_string()),
        ("dead letters", plan.letters.len().to_string()),
        ("waves", plan.waves().count().to_string()),
        ("cases", counts(&cases)),
        ("seed", plan.seed.to_string()),
        ("prefix", plan.prefix.clone()),
    ];
    for (name, value) in facts {
        writeln!(out, "{name:<12} {value}")?;
    }
    Ok(())
}

fn counts<K: std::fmt::Display>(counts: &BTreeMap<K, u64>) -> String {
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

fn rounded(duration: std::time::Duration) -> std::time::Duration {
    std::time::Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
