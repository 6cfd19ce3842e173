//! Runs against a payment service that says all kinds of things, on a SQLite file.

use std::path::PathBuf;

use order_fsm::OrderStatus;
use order_store::{Batch, FindingKind, NewOrder, Run, StoreOptions};
use serde_json::{Value, json};

use super::*;
use crate::payment_event;
use crate::payment_service::stub::{Say, Stub, paid, unpaid_for_good};

/// A store whose orders are due at once, and past `pay_by`.
struct Shop {
    store: Store,
    folder: PathBuf,
}

impl Drop for Shop {
    fn drop(&mut self) {
        // Left behind at worst, in a folder for such things.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Shop {
    async fn open() -> Self {
        let folder = std::env::temp_dir().join(order_testkit::unique_name("orderd_reconcile"));
        std::fs::create_dir_all(&folder).unwrap();
        let url = format!("sqlite://{}", folder.join("orderd.db").display());
        let options = StoreOptions {
            pay_within: Duration::ZERO,
            check_after: Duration::ZERO,
            last_check_after: Some(Duration::ZERO),
            ..StoreOptions::default()
        };
        let store = Store::open(&url.parse().unwrap(), options);
        store.migrate().await.unwrap();
        Self { store, folder }
    }

    /// Orders of 1000 CNY.
    async fn create(&self, ids: impl IntoIterator<Item = String>) {
        for id in ids {
            let new = NewOrder {
                order_id: id.parse().unwrap(),
                amount: 1000.try_into().unwrap(),
                currency: "CNY".parse().unwrap(),
                pay_by: None,
                actor: "shop".to_owned(),
            };
            self.store.create_order(new).await.unwrap();
        }
    }

    async fn status(&self, id: &str) -> OrderStatus {
        let order = self.store.get_order(id.parse().unwrap()).await.unwrap();
        order.unwrap().status
    }

    /// Tells of a payment as an event does.
    async fn event(&self, order_id: &str, transaction_id: &str) {
        let body = json!({
            "event_id": "ev", "type": "payment.succeeded", "order_id": order_id,
            "provider": "acme", "transaction_id": transaction_id, "amount": 1000,
            "currency": "CNY", "occurred_at": "2026-11-29T08:00:00Z",
        });
        let fact = payment_event::decode("acme", body.to_string().as_bytes()).unwrap();
        let batch = Batch {
            facts: vec![fact],
            dead_letters: Vec::new(),
        };
        self.store.record_payments(batch).await.unwrap();
    }

    async fn run(&self, stub: &Stub) -> Run {
        self.run_unless(false, stub).await
    }

    async fn run_unless(&self, dry_run: bool, stub: &Stub) -> Run {
        let reconciler = Reconciler {
            store: self.store.clone(),
            service: Some(stub.service(&self.store, Duration::ZERO)),
            wait_for_order: Duration::from_hours(24),
            keep: Duration::from_hours(24),
        };
        carry_out(&reconciler, dry_run).await
    }
}

async fn carry_out(reconciler: &Reconciler, dry_run: bool) -> Run {
    let RunStart::Started(run) = reconciler.begin(StartedBy::Cli, dry_run).await.unwrap() else {
        panic!("another run is at work")
    };
    let progress = watch::Sender::default();
    let going_on = CancellationToken::new();
    let ended = reconciler.carry_out(run, progress, &going_on).await;
    ended.unwrap()
}

fn names(prefix: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |number| format!("{prefix}{number:03}"))
}

fn kinds(run: &Run) -> Vec<(String, FindingKind)> {
    let mut kinds: Vec<_> = run
        .findings
        .iter()
        .map(|finding| (finding.order_id.to_string(), finding.kind))
        .collect();
    kinds.sort_by_key(|(id, kind)| (id.clone(), kind.as_str()));
    kinds
}

#[tokio::test]
async fn each_answer_has_its_outcome() {
    let shop = Shop::open().await;
    let ids = [
        "PAID", "OTHER", "BACK", "GONE", "OPEN", "WAY", "DARK", "LEFT-OUT",
    ];
    shop.create(ids.map(str::to_owned)).await;
    let stub = Stub::start(|_| {
        Say::Entries(vec![
            paid("PAID", "t1", 1000),
            paid("OTHER", "t2", 999),
            json!({
                "order_id": "BACK", "state": "refunded", "provider": "acme",
                "transaction_id": "r1", "amount": 1000, "currency": "CNY",
                "occurred_at": "2026-11-29T08:00:00Z",
            }),
            unpaid_for_good("GONE"),
            json!({ "order_id": "OPEN", "state": "unpaid" }),
            json!({ "order_id": "WAY", "state": "pending" }),
            json!({ "order_id": "DARK", "state": "unknown" }),
            unpaid_for_good("NOBODY-ASKED"),
        ])
    })
    .await;
    let rehearsed = shop.run_unless(true, &stub).await;
    for id in ids {
        assert_eq!(shop.status(id).await, OrderStatus::NotPaid, "{id}");
    }
    let run = shop.run(&stub).await;
    assert_eq!(
        (run.counts, &run.findings),
        (rehearsed.counts, &rehearsed.findings)
    );
    let counts = order_store::RunCounts {
        asked: 8,
        healed: 1,
        cancelled: 1,
        // OTHER, BACK, OPEN, WAY
        pending: 4,
        unknown: 2,
        ..order_store::RunCounts::default()
    };
    assert_eq!((run.state, run.counts), (RunState::Done, counts));
    assert_eq!(
        kinds(&run),
        [
            ("BACK".to_owned(), FindingKind::Refunded),
            ("OTHER".to_owned(), FindingKind::Mismatch),
            ("PAID".to_owned(), FindingKind::Healed),
        ]
    );
    for id in ids {
        let expected = match id {
            "PAID" => OrderStatus::Paid,
            "GONE" => OrderStatus::Cancelled,
            _ => OrderStatus::NotPaid,
        };
        assert_eq!(shop.status(id).await, expected, "{id}");
    }
    assert!(shop.store.audit().await.unwrap().is_empty());
}

#[tokio::test]
async fn nothing_but_a_definite_answer_cancels() {
    let unclear: Vec<(&str, Say)> = vec![
        ("500", Say::status("500 Internal Server Error")),
        ("404", Say::status("404 Not Found")),
        (
            "202",
            Say::Raw("202 Accepted", String::new(), final_of("ID")),
        ),
        (
            "302",
            Say::Raw(
                "302 Found",
                "location: /query\r\n".to_owned(),
                final_of("ID"),
            ),
        ),
        ("empty", Say::body("")),
        ("html", Say::body("<html><body>unpaid</body></html>")),
        ("truncated", Say::body(&final_of("ID")[..40])),
        (
            "twice",
            Say::body(&final_of("ID").replace("\"state\"", "\"state\":\"paid\",\"state\"")),
        ),
        ("nobody", Say::Entries(Vec::new())),
        ("foreign", Say::Entries(vec![unpaid_for_good("ID-2")])),
        (
            "nameless",
            Say::Entries(vec![unpaid_for_good("ID"), json!({})]),
        ),
        (
            "not-final",
            Say::Entries(vec![json!({"order_id": "ID", "state": "unpaid"})]),
        ),
        (
            "one-of-two-final",
            Say::Entries(vec![
                unpaid_for_good("ID"),
                json!({"order_id": "ID", "state": "unpaid"}),
            ]),
        ),
        (
            "unpaid-and-pending",
            Say::Entries(vec![
                unpaid_for_good("ID"),
                json!({"order_id": "ID", "state": "pending"}),
            ]),
        ),
        (
            "unpaid-and-unreadable",
            Say::Entries(vec![
                unpaid_for_good("ID"),
                json!({"order_id": "ID", "state": "paid"}),
            ]),
        ),
        ("silence", Say::Silence),
    ];
    for (name, say) in unclear {
        let shop = Shop::open().await;
        shop.create(["ID".to_owned()]).await;
        let stub = Stub::start(move |_| say.clone()).await;
        let run = shop.run(&stub).await;
        assert_eq!(shop.status("ID").await, OrderStatus::NotPaid, "{name}");
        let counts = run.counts;
        assert_eq!((counts.cancelled, counts.healed), (0, 0), "{name}");
        assert_eq!(counts.pending + counts.unknown, 1, "{name}");
        assert_eq!(stub.asked().len(), 1, "{name}: a redirect is not followed");
    }
    // The same question with the definite answer.
    let shop = Shop::open().await;
    shop.create(["ID".to_owned()]).await;
    let stub = Stub::start(|_| Say::body(&final_of("ID"))).await;
    assert_eq!(shop.run(&stub).await.counts.cancelled, 1);
}

fn final_of(id: &str) -> String {
    json!({ "payments": [unpaid_for_good(id)] }).to_string()
}

#[tokio::test]
async fn one_poisonous_order_does_not_hold_up_the_others() {
    let poisons = [
        Say::status("500 Internal Server Error"),
        Say::body("<html>"),
        Say::Entries(vec![json!({ "state": "unpaid", "final": true })]),
    ];
    for poison in poisons {
        let shop = Shop::open().await;
        shop.create(
            names("OK", 249)
                .chain(["POISON".to_owned()])
                .chain(names("Z", 250)),
        )
        .await;
        let stub = Stub::start(move |ids| {
            if ids.iter().any(|id| id == "POISON") {
                return poison.clone();
            }
            Say::Entries(ids.iter().map(|id| unpaid_for_good(id)).collect())
        })
        .await;
        let run = shop.run(&stub).await;
        assert_eq!((run.counts.cancelled, run.counts.unknown), (499, 1));
        assert_eq!(shop.status("POISON").await, OrderStatus::NotPaid);
        assert!(stub.asked().len() < 25, "{} questions", stub.asked().len());
    }
}

#[tokio::test]
async fn hopeless_orders_do_not_starve_the_next_one() {
    let shop = Shop::open().await;
    shop.create(names("DARK", 100).chain(["PAID".to_owned()]))
        .await;
    let stub = Stub::start(|ids| {
        let entry = |id: &String| match id.as_str() {
            "PAID" => paid("PAID", "t1", 1000),
            _ => json!({ "order_id": id, "state": "unknown" }),
        };
        Say::Entries(ids.iter().map(entry).collect())
    })
    .await;
    let run = shop.run(&stub).await;
    assert_eq!((run.counts.healed, run.counts.unknown), (1, 100));
    assert_eq!(shop.status("PAID").await, OrderStatus::Paid);
}

#[tokio::test]
async fn a_run_gives_up_when_nobody_replies_and_leaves_the_rest_due() {
    let shop = Shop::open().await;
    shop.create(names("OD", 600)).await;
    let gone = {
        let stub = Stub::start(|_| Say::Silence).await;
        stub.service(&shop.store, Duration::ZERO)
    };
    let reconciler = Reconciler {
        store: shop.store.clone(),
        service: Some(gone),
        wait_for_order: Duration::from_hours(24),
        keep: Duration::from_hours(24),
    };
    let run = carry_out(&reconciler, false).await;
    assert_eq!((run.state, run.counts.unknown), (RunState::Done, 600));
    let stub =
        Stub::start(|ids| Say::Entries(ids.iter().map(|id| unpaid_for_good(id)).collect())).await;
    // Their pause is zero here.
    assert_eq!(shop.run(&stub).await.counts.cancelled, 600);
}

#[tokio::test]
async fn a_service_that_is_asked_too_often_is_left_alone_for_as_long_as_it_says() {
    let shop = Shop::open().await;
    shop.create(["ID".to_owned()]).await;
    let mut first = true;
    let stub = Stub::start(move |ids| {
        if std::mem::take(&mut first) {
            return Say::Raw(
                "429 Too Many Requests",
                "retry-after: 1\r\n".to_owned(),
                String::new(),
            );
        }
        Say::Entries(ids.iter().map(|id| unpaid_for_good(id)).collect())
    })
    .await;
    assert_eq!(shop.run(&stub).await.counts.cancelled, 1);
    let asked = stub.asked();
    assert_eq!(asked.len(), 2);
    assert!(
        asked[1].0 - asked[0].0 >= Duration::from_secs(1),
        "{asked:?}"
    );
}

#[tokio::test]
async fn after_a_long_retry_after_the_orders_stay_due() {
    let shop = Shop::open().await;
    shop.create(["ID".to_owned()]).await;
    let stub = Stub::start(|_| {
        Say::Raw(
            "503 Service Unavailable",
            "retry-after: 3600\r\n".to_owned(),
            String::new(),
        )
    })
    .await;
    let run = shop.run(&stub).await;
    let counts = run.counts;
    assert_eq!(
        (run.state, counts.asked, counts.unknown),
        (RunState::Done, 1, 1)
    );
    // Their pause is zero here. A run that may not ask didn't come to its end.
    let run = shop.run(&stub).await;
    assert_eq!((run.state, run.counts.asked), (RunState::Failed, 0));
    assert_eq!(shop.status("ID").await, OrderStatus::NotPaid);
    assert_eq!(stub.asked().len(), 1, "nobody asks before that time");
}

#[tokio::test]
async fn questions_are_spaced() {
    let shop = Shop::open().await;
    shop.create(names("OD", 20)).await;
    let stub = Stub::start(|ids| {
        if ids.len() > 1 {
            return Say::body("<html>");
        }
        Say::Entries(ids.iter().map(|id| unpaid_for_good(id)).collect())
    })
    .await;
    let spacing = Duration::from_millis(20);
    let reconciler = Reconciler {
        store: shop.store.clone(),
        service: Some(stub.service(&shop.store, spacing)),
        wait_for_order: Duration::from_hours(24),
        keep: Duration::from_hours(24),
    };
    assert_eq!(carry_out(&reconciler, false).await.counts.cancelled, 20);
    let asked = stub.asked();
    assert_eq!(asked.len(), 39);
    let whole = asked[38].0 - asked[0].0;
    assert!(whole >= 37 * spacing, "{whole:?}");
}

#[tokio::test]
async fn the_last_question_finds_what_came_after_an_order_left() {
    let shop = Shop::open().await;
    shop.create(["TWICE", "LATE", "FINE", "ODD"].map(str::to_owned))
        .await;
    for id in ["TWICE", "FINE", "ODD"] {
        shop.event(id, &format!("t-{id}")).await;
    }
    let cancelling = Stub::start(|ids| {
        let cancel = |id: &String| match id.as_str() {
            "LATE" => unpaid_for_good(id),
            _ => json!({ "order_id": id, "state": "pending" }),
        };
        Say::Entries(ids.iter().map(cancel).collect())
    })
    .await;
    assert_eq!(shop.run(&cancelling).await.counts.cancelled, 1);
    let stub = Stub::start(|ids| {
        let entries = |id: &String| -> Vec<Value> {
            match id.as_str() {
                "TWICE" => vec![paid(id, "t-TWICE", 1000), paid(id, "t-second", 1000)],
                "LATE" => vec![paid(id, "t-late", 1000)],
                "FINE" => vec![paid(id, "t-FINE", 1000)],
                _ => vec![unpaid_for_good(id)],
            }
        };
        Say::Entries(ids.iter().flat_map(entries).collect())
    })
    .await;
    // What was pending comes again after its pause, which is zero here.
    let run = shop.run(&stub).await;
    assert_eq!(run.counts.asked, 4);
    assert_eq!(
        kinds(&run),
        [
            ("LATE".to_owned(), FindingKind::PaidAfterCancel),
            ("ODD".to_owned(), FindingKind::Inconsistent),
            ("TWICE".to_owned(), FindingKind::SecondPayment),
        ]
    );
    assert_eq!(
        shop.run(&stub).await.counts.asked,
        0,
        "it was the last question"
    );
    assert!(shop.store.audit().await.unwrap().is_empty());
}

#[tokio::test]
async fn without_a_payment_service_nothing_is_cancelled_and_the_schedule_does_not_pile_up() {
    let shop = Shop::open().await;
    shop.create(["UNPAID", "PAID"].map(str::to_owned)).await;
    shop.event("PAID", "t1").await;
    let reconciler = Reconciler {
        store: shop.store.clone(),
        service: None,
        wait_for_order: Duration::from_hours(24),
        keep: Duration::from_hours(24),
    };
    let run = carry_out(&reconciler, false).await;
    assert_eq!((run.state, run.counts.asked), (RunState::Done, 0));
    assert_eq!(shop.status("UNPAID").await, OrderStatus::NotPaid);
    let until = crate::clock::now() + Duration::from_hours(1000);
    let due = shop.store.due_orders(None, until, 10).await.unwrap();
    let left: Vec<&str> = due
        .orders
        .iter()
        .map(|order| order.order_id.as_str())
        .collect();
    assert_eq!(left, ["UNPAID"]);
}
