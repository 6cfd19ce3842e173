//! Does everything that needs a person have one exception, and nothing else any?

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};

use crate::api::{PAGE, PAGE_SMALL};
use crate::difference::Check;
use crate::plan::ExpectedException;
use crate::session::Session;
use crate::view::ExceptionView;
use crate::words::Verdict;
use crate::{Difference, Plan};

const PATH: &str = "/v1/payment-exceptions";

/// Reads the exceptions by verdict and by order, and compares them with what the outcomes demand.
pub(crate) async fn exceptions(
    session: &Session<'_>,
    expected: &[ExpectedException],
) -> Result<Vec<Difference>, Difference> {
    let plan = session.plan;
    let mut seen: Vec<ExceptionView> = Vec::new();
    for verdict in Verdict::ALL.into_iter().filter(|it| it.demands_exception()) {
        let path = format!("{PATH}?verdict={verdict}");
        let all: Option<Vec<ExceptionView>> = session.api.list(&path, PAGE).await?;
        let of_plan = |it: &ExceptionView| plan.order_number(&it.order_id).is_some();
        seen.extend(all.into_iter().flatten().filter(of_plan));
    }
    let mut differences = compare_exceptions(plan, expected, &seen);
    let mut by_verdict: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for exception in &seen {
        let ids = by_verdict.entry(&exception.order_id).or_default();
        ids.insert(&exception.id);
    }
    let orders: BTreeSet<u32> = expected.iter().map(|exception| exception.order).collect();
    let reads = orders.into_iter().map(|order| of_order(session, order));
    let in_flight = session.options.http_in_flight.max(1);
    let mut reads = stream::iter(reads).buffer_unordered(in_flight);
    while let Some(read) = reads.next().await {
        let (order_id, all) = read?;
        let not_waiting = |it: &&ExceptionView| it.verdict != Verdict::WaitingForOrder.as_str();
        let by_order: BTreeSet<&str> = all.iter().filter(not_waiting).map(|it| &*it.id).collect();
        let expected = by_verdict.remove(&*order_id).unwrap_or_default();
        differences.extend(Difference::between(
            format!("exceptions of {order_id} by order, compared with those by verdict"),
            &format!("{expected:?}"),
            &format!("{by_order:?}"),
        ));
    }
    Ok(differences)
}

/// The order's id and its exceptions.
async fn of_order(
    session: &Session<'_>,
    order: u32,
) -> Result<(String, Vec<ExceptionView>), Difference> {
    let order_id = session.plan.order_id(order);
    let path = format!("{PATH}?order_id={order_id}");
    let all = session.api.list(&path, PAGE_SMALL).await?;
    Ok((order_id, all.unwrap_or_default()))
}

/// What makes an exception unique, as a text.
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

/// The same text for an exception that must exist.
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
        fact.currency
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
        let views = by_name.remove(&name).unwrap_or_default();
        let mut check = Check::of(name, &mut differences);
        match &views[..] {
            [] => check.differs("open", "none"),
            [view] => content(plan, exception, view, &mut check),
            several => check.differs("one", several.len().to_string()),
        }
    }
    for name in by_name.into_keys() {
        Check::of(name, &mut differences).differs("no such exception", "an exception");
    }
    differences
}

fn content(
    plan: &Plan,
    expected: &ExpectedException,
    view: &ExceptionView,
    exception: &mut Check<'_>,
) {
    exception.same("state", "open", &view.state);
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "null".to_owned());
    let (amount, currency) = if let Some(recorded) = expected.recorded {
        let recorded = plan.fact(recorded);
        let order_id = plan.order_id(recorded.order);
        exception.same(
            "expected_order_id",
            &order_id,
            &text(&view.expected_order_id),
        );
        (recorded.amount, recorded.currency)
    } else if matches!(
        expected.verdict,
        Verdict::AmountMismatch | Verdict::CurrencyMismatch
    ) {
        let order = plan.order(expected.order);
        (order.amount, order.currency)
    } else {
        return;
    };
    let found = view.expected_amount.map(|amount| amount.to_string());
    exception.same("expected_amount", &amount, &text(&found));
    exception.same(
        "expected_currency",
        &currency,
        &text(&view.expected_currency),
    );
}
