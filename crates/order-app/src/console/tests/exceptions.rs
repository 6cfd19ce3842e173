//! The queue of payment exceptions, and closing them.

use order_fsm::Verdict;
use order_store::{ExceptionFilter, Place};

use super::browser::{Browser, Console};
use crate::http::tests::app::fact;
use crate::tokens::Scope;

/// Orders with a payment of another amount each; the ids of their exceptions, oldest first.
async fn mismatches(console: &Console, count: usize) -> Vec<String> {
    for number in 0..count {
        console.app.create(&format!("OD-{number}")).await;
        let verdict = console
            .app
            .pay(&format!("OD-{number}"), &format!("tx-{number}"), 900)
            .await;
        assert_eq!(verdict, Verdict::AmountMismatch);
    }
    open(console).await
}

async fn open(console: &Console) -> Vec<String> {
    let filter = ExceptionFilter {
        state: Some(order_store::ExceptionState::Open),
        ..ExceptionFilter::default()
    };
    let found = console.app.store.list_exceptions(filter, Place::START, 200);
    found
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|one| one.id)
        .collect()
}

async fn close(browser: &Browser, id: &str, resolution: &str) -> crate::http::tests::app::Answer {
    browser
        .page(&format!("/console/payment-exceptions/{id}"))
        .await;
    let fields = [("resolution", resolution), ("note", "as agreed")];
    browser
        .submit(&format!("/console/payment-exceptions/{id}/close"), &fields)
        .await
}

#[tokio::test]
async fn the_queue_is_filtered_and_paged() {
    let console = Console::open().await;
    let browser = console.browser();
    let empty = browser.page("/console/payment-exceptions").await;
    assert!(
        empty.contains("Nothing is waiting for a person here."),
        "{empty}"
    );
    mismatches(&console, 60).await;
    console.app.pay("OD-0", "tx-second", 1000).await;
    console.app.pay("OD-0", "tx-third", 1000).await;

    let first = browser.page("/console/payment-exceptions").await;
    assert_eq!(first.matches("name=\"id\"").count(), 50, "{first}");
    let (_, rest) = first.split_once("&amp;cursor=").unwrap();
    let cursor = rest.split('"').next().unwrap();
    let second = format!("/console/payment-exceptions?state=open&cursor={cursor}");
    let second = browser.page(&second).await;
    assert_eq!(second.matches("name=\"id\"").count(), 11, "{second}");
    assert!(!second.contains("Next page"), "{second}");

    let of_verdict = "/console/payment-exceptions?state=open&verdict=SECOND_PAYMENT";
    let of_verdict = browser.page(of_verdict).await;
    assert_eq!(of_verdict.matches("name=\"id\"").count(), 1, "{of_verdict}");
    assert!(of_verdict.contains("acme/tx-third"), "{of_verdict}");
    let closed = browser
        .page("/console/payment-exceptions?state=closed")
        .await;
    assert!(closed.contains("Nothing was closed yet."), "{closed}");
    // What people mistype is taken for nothing.
    browser
        .page("/console/payment-exceptions?state=x&verdict=APPLIED&cursor=%00&y=1")
        .await;
}

#[tokio::test]
async fn an_exception_is_closed_and_the_next_one_follows() {
    let console = Console::with_tokens(None).await;
    let ann = console.signed_in("ann", &Scope::ALL).await;
    let ids = mismatches(&console, 3).await;
    let page = ann
        .page(&format!("/console/payment-exceptions/{}", ids[0]))
        .await;
    for part in [
        "AMOUNT_MISMATCH",
        "9.00 CNY",
        "instead of 10.00 CNY",
        "The payment has another amount than the order",
        "This pays the order with this payment.",
        "<span class=\"chip amber\">NOT_PAID</span>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let closed = close(&ann, &ids[0], "accepted").await;
    assert_eq!(closed.status, 303, "{closed}");
    let next = closed.header("location").unwrap();
    let expect = format!(
        "/console/payment-exceptions/{}?state=open&closed={}",
        ids[1], ids[0]
    );
    assert_eq!(next, expect);
    let page = ann.page(next).await;
    assert!(page.contains("This is the next one."), "{page}");

    let first = console
        .app
        .store
        .get_exception(ids[0].clone())
        .await
        .unwrap()
        .unwrap();
    let order = console
        .app
        .store
        .get_order(first.content.order_id.clone())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(order.status, order_fsm::OrderStatus::Paid);
    let closure = first.closed.unwrap();
    assert_eq!(
        (closure.resolution.as_str(), closure.by.as_deref()),
        ("accepted", Some("ann"))
    );
    let history = console
        .app
        .store
        .history(order.order_id, Place::START, 10)
        .await
        .unwrap();
    assert_eq!(history.items.last().unwrap().actor, "ann");

    // The last one leads back to the beginning of the queue, then to its end.
    let closed = close(&ann, &ids[2], "refunded").await;
    assert!(
        closed.header("location").unwrap().contains(&ids[1]),
        "{closed}"
    );
    let closed = close(&ann, &ids[1], "written_off").await;
    assert!(
        closed
            .header("location")
            .unwrap()
            .starts_with("/console/payment-exceptions?")
    );
    let queue = ann.page(closed.header("location").unwrap()).await;
    assert!(
        queue.contains("There is no other one in this queue."),
        "{queue}"
    );
}

#[tokio::test]
async fn of_two_people_who_close_the_same_one_wins_and_the_other_is_told() {
    let console = Console::with_tokens(None).await;
    let (ann, bob) = (
        console.signed_in("ann", &[Scope::Ops]).await,
        console.signed_in("bob", &[Scope::Ops]).await,
    );
    console
        .app
        .tell(vec![fact("OD-1", "acme", "tx-1", "refunded", 900)])
        .await;
    let id = &open(&console).await[0];
    let path = format!("/console/payment-exceptions/{id}");
    let seen = bob.page(&path).await;
    assert!(
        seen.contains("need a token with the scope <code>orders:read</code>"),
        "{seen}"
    );
    assert_eq!(close(&ann, id, "accepted").await.status, 303);
    let fields = [("resolution", "written_off"), ("note", "too late")];
    let told = bob.submit(&format!("{path}/close"), &fields).await;
    assert_eq!(told.status, 409, "{told}");
    assert_eq!(told.header("hx-push-url"), Some("false"));
    let page = told.text();
    for part in [
        "Already closed",
        "How it was closed",
        "<bdi>ann</bdi>",
        "as agreed",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("Close it"), "{page}");
    // The same again isn't a conflict.
    let again = [("resolution", "accepted"), ("note", "as agreed")];
    assert_eq!(
        bob.submit(&format!("{path}/close"), &again).await.status,
        303
    );
}

#[tokio::test]
async fn what_is_missing_is_said_and_what_was_typed_stays() {
    let console = Console::open().await;
    let id = &mismatches(&console, 1).await[0];
    let browser = console.browser();
    let path = format!("/console/payment-exceptions/{id}");
    browser.page(&path).await;
    let long = "é".repeat(501);
    for (fields, part) in [
        (vec![("note", "<b>kept</b>")], "resolution must be chosen"),
        (
            vec![("resolution", "settled"), ("note", "<b>kept</b>")],
            "resolution must be chosen",
        ),
        (
            vec![("resolution", "refunded")],
            "note must have 1 to 500 characters",
        ),
        (
            vec![("resolution", "refunded"), ("note", "  ")],
            "note must have 1 to 500 characters",
        ),
        (
            vec![("resolution", "refunded"), ("note", &long)],
            "note must have 1 to 500 characters",
        ),
        (
            vec![("resolution", "refunded"), ("note", "a\0b")],
            "note must not contain U+0000",
        ),
    ] {
        let told = browser.submit(&format!("{path}/close"), &fields).await;
        assert_eq!(told.status, 400, "{told}");
        assert!(told.text().contains(part), "{part}: {told}");
        if fields.contains(&("note", "<b>kept</b>")) {
            assert!(
                told.text()
                    .contains("&#60;b&#62;kept&#60;/b&#62;</textarea>"),
                "{told}"
            );
        }
    }
    assert_eq!(open(&console).await.len(), 1);
    // An order that moved meanwhile can't be paid with it.
    console.app.pay("OD-0", "tx-other", 1000).await;
    let fields = [("resolution", "accepted"), ("note", "fine")];
    let told = browser.submit(&format!("{path}/close"), &fields).await;
    assert_eq!(told.status, 409, "{told}");
    for part in [
        "Illegal status transition",
        "already paid",
        "moved it from NOT_PAID to PAID",
    ] {
        assert!(told.text().contains(part), "{part}: {told}");
    }
    let missing = browser
        .get(&format!("/console/payment-exceptions/{}", "0".repeat(64)))
        .await;
    assert_eq!(missing.status, 404, "{missing}");
}

#[tokio::test]
async fn many_are_closed_each_by_itself() {
    let console = Console::open().await;
    let ids = mismatches(&console, 4).await;
    let browser = console.browser();
    let all = "/console/payment-exceptions/close";
    browser.page("/console/payment-exceptions").await;
    assert_eq!(close(&browser, &ids[1], "refunded").await.status, 303);
    let unknown = "f".repeat(64);
    let fields = [
        ("id", &*ids[0]),
        ("id", &*ids[1]),
        ("id", &*ids[2]),
        ("id", &*ids[2]),
        ("id", &*unknown),
        ("id", "<img>"),
        ("resolution", "written_off"),
        ("note", "a test run"),
    ];
    let results = browser.submit(all, &fields).await;
    assert_eq!(results.status, 200, "{results}");
    let page = results.text();
    assert!(page.contains("2 of 5 closed"), "{page}");
    assert_eq!(page.matches("not closed").count(), 3, "{page}");
    assert!(page.contains("<bdi>&lt;img&gt;</bdi>"), "{page}");
    assert_eq!(open(&console).await, [ids[3].clone()]);

    let many: Vec<String> = (0..201).map(|number| format!("{number:064}")).collect();
    let mut fields: Vec<(&str, &str)> = many.iter().map(|id| ("id", id.as_str())).collect();
    fields.extend([("resolution", "refunded"), ("note", "x")]);
    let refused = browser.submit(all, &fields).await;
    assert_eq!(refused.status, 400, "{refused}");
    assert!(
        refused.text().contains("200 exceptions at most"),
        "{refused}"
    );
    let refused = browser
        .submit(all, &[("resolution", "refunded"), ("note", "x")])
        .await;
    assert_eq!(refused.status, 400, "{refused}");
}

#[tokio::test]
async fn pages_for_operators_need_the_scope() {
    let console = Console::with_tokens(None).await;
    let shop = console
        .signed_in("shop", &[Scope::OrdersRead, Scope::OrdersWrite])
        .await;
    for path in [
        "/console/payment-exceptions",
        "/console/payment-exceptions/x",
    ] {
        let refused = shop.get(path).await;
        assert_eq!(refused.status, 403, "{refused}");
        assert!(refused.text().contains("the scope ops"), "{refused}");
    }
    shop.page("/console").await;
    let fields = [("resolution", "refunded"), ("note", "x"), ("id", "y")];
    let refused = shop
        .submit("/console/payment-exceptions/close", &fields)
        .await;
    assert_eq!(refused.status, 403, "{refused}");
}
