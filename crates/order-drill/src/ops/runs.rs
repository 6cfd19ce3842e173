//! Did the runs of the reconciliation report what they healed, and no more?

use std::collections::BTreeMap;

use serde::Deserialize;

use super::PAGE;
use crate::api::Api;
use crate::{Difference, Healed, Plan, Verdict};

/// A run.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RunView {
    pub(crate) dry_run: bool,
    pub(crate) findings: Vec<FindingView>,
}

/// What a run tells people.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct FindingView {
    pub(crate) order_id: String,
    pub(crate) kind: String,
}

/// Reads the runs and compares their findings with the payments that came from a reconciliation.
pub(crate) async fn runs(
    plan: &Plan,
    api: &Api,
    healed: &[Healed],
) -> Result<Vec<Difference>, Difference> {
    const PATH: &str = "/v1/reconciliations";
    let runs: Option<Vec<RunView>> = api.list(PATH, PAGE).await?;
    let runs = runs.ok_or_else(|| Difference::new(format!("GET {PATH}"), "a list", "404"))?;
    Ok(compare_runs(plan, healed, &runs))
}

/// `healed` is an alarm: one for each payment applied so, and none besides. The other kinds may be told again.
pub(crate) fn compare_runs(plan: &Plan, healed: &[Healed], runs: &[RunView]) -> Vec<Difference> {
    let mut told: BTreeMap<(u32, &str), u64> = BTreeMap::new();
    let findings = runs
        .iter()
        .filter(|run| !run.dry_run)
        .flat_map(|run| &run.findings);
    for finding in findings {
        if let Some(order) = plan.order_number(&finding.order_id) {
            *told.entry((order, &finding.kind)).or_default() += 1;
        }
    }
    let mut differences = Vec::new();
    for Healed { fact, verdict } in healed {
        let Some(kind) = finding_kind(*verdict) else {
            continue;
        };
        let order = plan.fact(*fact).order;
        match told.get_mut(&(order, kind)) {
            Some(left) if *left > 0 => *left -= 1,
            _ => {
                let what = format!(
                    "finding about {} of {}",
                    plan.payment_name(*fact),
                    plan.order_id(order)
                );
                differences.push(Difference::new(what, kind, "none"));
            }
        }
    }
    for ((order, kind), left) in told {
        if kind == HEALED && left > 0 {
            let what = format!("findings {HEALED} about {}", plan.order_id(order));
            differences.push(Difference::new(
                what,
                "none besides",
                format!("{left} more"),
            ));
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
