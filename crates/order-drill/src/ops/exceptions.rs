//! Is everything that needs a person an exception, once, and nothing else?

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};

use super::{PAGE, PAGE_SMALL};
use crate::api::Api;
use crate::ledger::ExpectedException;
use crate::view::ExceptionView;
use crate::{Difference, Plan, Verdict};

const PATH: &str = "/v1/payment-exceptions";

/// Reads the exceptions by verdict and by order, and compares them with what the outcomes demand.
pub(crate) async fn exceptions(
    plan: &Plan,
    api: &Api,
    expected: &[ExpectedException],
    in_flight: usize,
) -> Result<Vec<Difference>, Difference> {
    let mut seen: Vec<ExceptionView> = Vec::new();
    for verdict in Verdict::ALL
        .into_iter()
        .filter(|verdict| verdict.demands_exception())
    {
        let path = format!("{PATH}?verdict={verdict}");
        let all: Vec<ExceptionView> = api.list(&path, PAGE).await?.unwrap_or_default();
        seen.extend(
            all.into_iter()
                .filter(|e| plan.order_number(&e.order_id).is_some()),
        );
    }
    let mut differences = compare_exceptions(plan, expected, &seen);
    let orders: BTreeSet<u32> = expected.iter().map(|exception| exception.order).collect();
    let mut by_verdict: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for exception in &seen {
        by_verdict
            .entry(&exception.order_id)
            .or_default()
            .insert(&exception.id);
    }
    let looks = orders.into_iter().map(|order| of_order(plan, api, order));
    let mut looks = stream::iter(looks).buffer_unordered(in_flight.max(1));
    while let Some(look) = looks.next().await {
        let (order, path, all) = look?;
        let by_order: BTreeSet<&str> = all
            .iter()
            .filter(|exception| exception.verdict != Verdict::WaitingForOrder.as_str())
            .map(|exception| exception.id.as_str())
            .collect();
        let order_id = plan.order_id(order);
        let expected = by_verdict
            .get(order_id.as_str())
            .cloned()
            .unwrap_or_default();
        if by_order != expected {
            let expected = format!("{expected:?} as by verdict");
            differences.push(Difference::new(path, expected, format!("{by_order:?}")));
        }
    }
    Ok(differences)
}

/// The order, how it was asked about, and its exceptions.
async fn of_order(
    plan: &Plan,
    api: &Api,
    order: u32,
) -> Result<(u32, String, Vec<ExceptionView>), Difference> {
    let path = format!("{PATH}?order_id={}", plan.order_id(order));
    let all = api.list(&path, PAGE_SMALL).await?;
    Ok((order, path, all.unwrap_or_default()))
}

/// What makes an exception unique, in words.
pub(crate) fn exception_name(view: &ExceptionView) -> String {
    let ExceptionView {
        verdict,
        order_id,
        provider,
        transaction_id,
        kind,
        amount,
        currency,
        ..
    } = view;
    format!("exception {verdict} {provider}/{transaction_id}/{kind} {order_id} {amount} {currency}")
}

/// The same words for an exception that must be there.
pub(crate) fn expected_name(plan: &Plan, expected: &ExpectedException) -> String {
    let fact = plan.fact(expected.fact);
    format!(
        "exception {} {}/{}/{} {} {} {}",
        expected.verdict,
        plan.provider(fact),
        plan.transaction_id(fact),
        fact.kind.as_str(),
        plan.order_id(expected.order),
        fact.amount,
        fact.currency.as_str()
    )
}

/// Compares the exceptions seen with those demanded.
pub(crate) fn compare_exceptions(
    plan: &Plan,
    expected: &[ExpectedException],
    seen: &[ExceptionView],
) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut by_name: BTreeMap<String, Vec<&ExceptionView>> = BTreeMap::new();
    for view in seen {
        by_name.entry(exception_name(view)).or_default().push(view);
    }
    for exception in expected {
        let name = expected_name(plan, exception);
        match by_name.remove(&name).as_deref() {
            Some([view]) => content(plan, exception, view, &name, &mut differences),
            Some(several) => {
                differences.push(Difference::new(name, "one", several.len().to_string()));
            }
            None => differences.push(Difference::new(name, "open", "none")),
        }
    }
    differences.extend(
        by_name
            .into_keys()
            .map(|name| Difference::new(name, "no such exception", "there it is")),
    );
    differences
}

fn content(
    plan: &Plan,
    exception: &ExpectedException,
    view: &ExceptionView,
    name: &str,
    differences: &mut Vec<Difference>,
) {
    let mut differ = |what: &str, expected: String, found: String| {
        if expected != found {
            differences.push(Difference::new(format!("{name}, {what}"), expected, found));
        }
    };
    let number = |amount: Option<u64>| amount.map_or_else(|| "null".to_owned(), |a| a.to_string());
    let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "null".to_owned());
    differ("state", "open".to_owned(), view.state.clone());
    let (amount, currency) = match exception.recorded.map(|fact| plan.fact(fact)) {
        Some(recorded) => {
            let order_id = plan.order_id(recorded.order);
            differ("expected_order_id", order_id, word(&view.expected_order_id));
            (recorded.amount, recorded.currency)
        }
        None if matches!(
            exception.verdict,
            Verdict::AmountMismatch | Verdict::CurrencyMismatch
        ) =>
        {
            let order = plan.order(exception.order);
            (order.amount, order.currency)
        }
        None => return,
    };
    differ(
        "expected_amount",
        amount.to_string(),
        number(view.expected_amount),
    );
    differ(
        "expected_currency",
        currency.as_str().to_owned(),
        word(&view.expected_currency),
    );
}
