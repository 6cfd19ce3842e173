//! Did the runs of the reconciliation report what they healed, and nothing else?

use std::collections::BTreeMap;

use crate::api::PAGE;
use crate::compare::Healed;
use crate::session::Session;
use crate::view::RunView;
use crate::words::Verdict;
use crate::{Difference, Plan};

/// Reads the runs and compares their findings with the payments that a reconciliation recorded.
pub(crate) async fn runs(
    session: &Session<'_>,
    healed: &[Healed],
) -> Result<Vec<Difference>, Difference> {
    const PATH: &str = "/v1/reconciliations";
    let runs: Option<Vec<RunView>> = session.api.list(PATH, PAGE).await?;
    let runs = runs.ok_or_else(|| Difference::new(format!("GET {PATH}"), "a list", "404"))?;
    Ok(compare_runs(session.plan, healed, &runs))
}

/// There must be one finding `healed` for each payment that a run applied, and no others. The other kinds may be reported again.
/// The findings of a run that healed more than it lists were cut off, so none of them counts as missing.
pub(crate) fn compare_runs(plan: &Plan, healed: &[Healed], runs: &[RunView]) -> Vec<Difference> {
    let runs = || runs.iter().filter(|run| !run.dry_run);
    let mut reported: BTreeMap<(u32, &str), u64> = BTreeMap::new();
    for finding in runs().flat_map(|run| &run.findings) {
        if let Some(order) = plan.order_number(&finding.order_id) {
            *reported.entry((order, &finding.kind)).or_default() += 1;
        }
    }
    let is_cut = runs().any(|run| {
        let listed = run.findings.iter().filter(|finding| finding.kind == HEALED);
        run.healed > listed.count() as u64
    });
    let mut differences = Vec::new();
    for healed in healed {
        let Some(kind) = finding_kind(healed.verdict) else {
            continue;
        };
        let order = plan.fact(healed.fact).order;
        match reported.get_mut(&(order, kind)) {
            Some(left) if *left > 0 => *left -= 1,
            _ if healed.perhaps_by_hand || is_cut => {}
            _ => {
                let payment = plan.payment_name(healed.fact);
                let what = format!("finding about {payment} of {}", plan.order_id(order));
                differences.push(Difference::new(what, kind, "none"));
            }
        }
    }
    for ((order, kind), left) in reported {
        if kind == HEALED && left > 0 {
            let what = format!("findings {HEALED} about {}", plan.order_id(order));
            let found = format!("{left} more");
            differences.push(Difference::new(what, "one for each payment", found));
        }
    }
    differences
}

const HEALED: &str = "healed";

fn finding_kind(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Applied => Some(HEALED),
        Verdict::SecondPayment => Some("second-payment"),
        Verdict::PaidAfterCancel => Some("paid-after-cancel"),
        Verdict::AmountMismatch | Verdict::CurrencyMismatch => Some("mismatch"),
        Verdict::Reversed => Some("refunded"),
        Verdict::Duplicate
        | Verdict::ConflictingContent
        | Verdict::NotLive
        | Verdict::AttemptFailed
        | Verdict::Unsupported
        | Verdict::WaitingForOrder
        | Verdict::DeadLetter => None,
    }
}
