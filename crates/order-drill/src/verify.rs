//! Compares what the service says with the ledger: orders, counters, runs, exceptions, dead letters and events.

use std::time::Duration;

use order_payment_mock::{Asked, Mock};
use tokio::time::{Instant, sleep};

use crate::compare::{Comparison, Healed, compare};
use crate::counters::{compare_counters, compare_healed};
use crate::events::{self, Follow};
use crate::metrics::Metrics;
use crate::session::Session;
use crate::words::Verdict;
use crate::{Difference, Error, Report, Thrown, ops};

const PAUSE: Duration = Duration::from_millis(500);

/// Compares everything that the options name; `before` are the counters before the plan was thrown.
pub(crate) async fn verify(
    session: &Session<'_>,
    thrown: Option<&Thrown>,
    before: Option<Metrics>,
) -> Result<Report, Error> {
    let Session { options, plan, .. } = session;
    let mut comparison = compare(session).await;
    let letters = plan.letters.len() as u64;
    comparison.counted.add(Verdict::DeadLetter, letters);
    if let Some(thrown) = thrown {
        comparison.differences.absorb(thrown.differences.clone());
    }
    let after = match before {
        Some(_) => session.read_counters().await?,
        None => None,
    };
    let readings = before.zip(after);
    if let (Some(thrown), Some((before, after))) = (thrown, &readings) {
        let differences = compare_counters(before, after, &comparison.counted, thrown);
        comparison.differences.extend(differences);
    }
    // A killed instance takes with it what it was about to report, and begins to count again.
    if options.counters {
        let before = readings.as_ref().map(|(before, _)| before);
        let differences = healing(session, before, &comparison.healed).await?;
        comparison.differences.extend(differences);
    }
    let asked = session.mock.as_ref().map(Mock::asked);
    let violation = asked.as_ref().and_then(Asked::violation);
    let differs = |found| {
        Difference::new(
            "questions to the payment service",
            "as in the contract",
            found,
        )
    };
    comparison.differences.extend(violation.map(differs));
    let letters = if options.ops {
        exceptions_and_letters(session, thrown, &mut comparison).await
    } else {
        None
    };
    if options.events {
        session.progress.enter("reading the outbound stream", 0);
        let transitions = std::mem::take(&mut comparison.transitions);
        let prefix = &options.names.outbound_prefix;
        let follow = Follow::new(plan, prefix, &transitions, &comparison.exceptions);
        let differences = events::follow(session, follow).await?;
        comparison.differences.absorb(differences);
    }
    let mut report = Report::new(plan, thrown, comparison, readings.as_ref(), letters);
    report.questions = asked.map(|asked| asked.questions);
    report.unacked = session.broker.unacked().await.unwrap_or(0);
    Ok(report)
}

/// Compares what runs report of themselves; a run that is under way reports at its end.
async fn healing(
    session: &Session<'_>,
    before: Option<&Metrics>,
    healed: &[Healed],
) -> Result<Vec<Difference>, Error> {
    let until = Instant::now() + session.options.patience;
    loop {
        let mut found = Vec::new();
        if let (Some(before), Some(after)) = (before, session.read_counters().await?) {
            found.extend(compare_healed(before, &after, healed));
        }
        if session.options.ops && !healed.is_empty() {
            let differences = ops::runs(session, healed).await;
            found.extend(differences.unwrap_or_else(|fault| vec![fault]));
        }
        if found.is_empty() || Instant::now() >= until {
            return Ok(found);
        }
        sleep(PAUSE).await;
    }
}

/// Compares exceptions and dead letters; returns how many letters are this plan's.
async fn exceptions_and_letters(
    session: &Session<'_>,
    thrown: Option<&Thrown>,
    comparison: &mut Comparison,
) -> Option<u64> {
    session
        .progress
        .enter("reading exceptions and dead letters", 0);
    let differences = ops::exceptions(session, &comparison.exceptions).await;
    comparison
        .differences
        .extend(differences.unwrap_or_else(|fault| vec![fault]));
    // If the plan was thrown earlier, it isn't known how many copies were stored.
    let uncertain = thrown.map_or(u64::from(u32::MAX), |thrown| thrown.uncertain);
    let (letters, differences) = match ops::dead_letters(session, uncertain).await {
        Ok((letters, differences)) => (Some(letters), differences),
        Err(fault) => (None, vec![fault]),
    };
    comparison.differences.extend(differences);
    letters
}
