//! Runs against a payment service with all kinds of answers and faults, on a SQLite file.

mod pace;

use std::path::PathBuf;

use order_fsm::OrderStatus;
use order_payment_mock::{Answer, Fault, Mock, Payment, RetryAfter, Script};
use order_store::{
    Batch, Closed, Closing, ExceptionFilter, ExceptionState, FindingKind, NewOrder, Resolution,
    Run, StoreOptions,
};
use serde_json::json;

use super::*;
use crate::payment_event;
use crate::payment_service::PaymentService;

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

    /// Records a payment as an event does.
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

    /// Closes the only open exception.
    async fn close_exception(&self, resolution: Resolution) {
        let open = ExceptionFilter {
            state: Some(ExceptionState::Open),
            ..ExceptionFilter::default()
        };
        let found = self.store.list_exceptions(open, Place::START, 2).await;
        let found = found.unwrap().items;
        assert_eq!(found.len(), 1, "{found:?}");
        let closing = Closing {
            id: found[0].id.clone(),
            resolution,
            note: "talked to the customer".to_owned(),
            actor: "ann".to_owned(),
            refused_as: "illegal-transition",
        };
        let closed = self.store.close_exception(closing).await.unwrap();
        assert_eq!(closed, Closed::Closed);
    }

    /// A run that asks the payment service at this URL.
    async fn run(&self, url: &str) -> Run {
        self.run_unless(false, url).await
    }

    async fn run_unless(&self, dry_run: bool, url: &str) -> Run {
        let reconciler = self.reconciler(Some(url), Duration::ZERO);
        carry_out(&reconciler, dry_run).await
    }

    fn reconciler(&self, url: Option<&str>, spacing: Duration) -> Reconciler {
        Reconciler {
            store: self.store.clone(),
            service: url.map(|url| PaymentService::at(url, &self.store, spacing)),
            wait_for_order: Duration::from_hours(24),
            keep: Duration::from_hours(24),
            walks: Walks::default(),
        }
    }
}

async fn mock(script: Script) -> (Mock, String) {
    Mock::over_http(script).await.unwrap()
}

fn payment(transaction_id: &str, amount: u64) -> Payment {
    Payment::new("acme", transaction_id, amount, "CNY")
}

fn paid(transaction_id: &str) -> Answer {
    Answer::paid(payment(transaction_id, 1000))
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
    let mut script = Script::default();
    script.set("PAID", paid("t1"));
    script.set("OTHER", Answer::paid(payment("t2", 999)));
    script.set("BACK", Answer::refunded(payment("r1", 1000)));
    script.set("GONE", Answer::unpaid_for_good());
    script.set("OPEN", Answer::unpaid());
    script.set("WAY", Answer::pending());
    script.set("DARK", Answer::unknown());
    script.set("NOBODY-ASKED", Answer::unpaid_for_good());
    script.always(Fault::Foreign(vec!["NOBODY-ASKED".to_owned()]));
    let (_mock, url) = mock(script).await;
    let rehearsed = shop.run_unless(true, &url).await;
    for id in ids {
        assert_eq!(shop.status(id).await, OrderStatus::NotPaid, "{id}");
    }
    let run = shop.run(&url).await;
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

/// A payment that doesn't fit, closed by a person, listed for ever.
#[tokio::test]
async fn money_that_a_person_gave_back_speaks_for_no_order() {
    let gone = Answer::unpaid_for_good;
    let other = || Answer::paid(payment("other", 999));
    for (name, resolution, rest, expected) in [
        (
            "refunded",
            Some(Resolution::Refunded),
            Some(gone()),
            OrderStatus::Cancelled,
        ),
        (
            "written off",
            Some(Resolution::WrittenOff),
            Some(gone()),
            OrderStatus::Cancelled,
        ),
        ("open", None, Some(gone()), OrderStatus::NotPaid),
        (
            "accepted",
            Some(Resolution::Accepted),
            Some(gone()),
            OrderStatus::Paid,
        ),
        (
            "nothing else is said",
            Some(Resolution::Refunded),
            None,
            OrderStatus::NotPaid,
        ),
        (
            "not final",
            Some(Resolution::Refunded),
            Some(Answer::unpaid()),
            OrderStatus::NotPaid,
        ),
        (
            "one of two",
            Some(Resolution::Refunded),
            Some(gone().and(Answer::unpaid())),
            OrderStatus::NotPaid,
        ),
        (
            "on its way",
            Some(Resolution::Refunded),
            Some(gone().and(Answer::pending())),
            OrderStatus::NotPaid,
        ),
        (
            "unknown",
            Some(Resolution::Refunded),
            Some(gone().and(Answer::unknown())),
            OrderStatus::NotPaid,
        ),
        (
            "nameless",
            Some(Resolution::Refunded),
            Some(gone().and(Answer::raw("{}"))),
            OrderStatus::NotPaid,
        ),
        (
            "unreadable",
            Some(Resolution::Refunded),
            Some(gone().and(Answer::unreadable())),
            OrderStatus::NotPaid,
        ),
        (
            "another payment",
            Some(Resolution::Refunded),
            Some(gone().and(other())),
            OrderStatus::NotPaid,
        ),
    ] {
        let shop = Shop::open().await;
        shop.create(["ID".to_owned()]).await;
        let short = Answer::paid(payment("short", 999));
        let (mock, url) = mock(Script::all(short.clone())).await;
        let run = shop.run(&url).await;
        assert_eq!(
            kinds(&run),
            [("ID".to_owned(), FindingKind::Mismatch)],
            "{name}"
        );
        if let Some(resolution) = resolution {
            shop.close_exception(resolution).await;
        }
        let answer = match rest {
            Some(rest) => short.and(rest),
            None => short,
        };
        mock.script(|script| *script = Script::all(answer));
        shop.run(&url).await;
        assert_eq!(shop.status("ID").await, expected, "{name}");
        assert!(shop.store.audit().await.unwrap().is_empty(), "{name}");
    }
}

#[tokio::test]
async fn nothing_but_a_definite_answer_cancels() {
    let gone = Answer::unpaid_for_good;
    let broken = |fault: Fault| {
        let mut script = Script::all(gone());
        script.always(fault);
        script
    };
    let mut foreign = Script::default();
    foreign.set("ID-2", gone());
    foreign.always(Fault::Foreign(vec!["ID-2".to_owned()]));
    let twice = r#"{"order_id":"ID","state":"paid","state":"unpaid","final":true}"#;
    let unclear = [
        ("500", broken(Fault::Status(500))),
        ("404", broken(Fault::Status(404))),
        ("202", broken(Fault::StatusWithAnswer(202))),
        ("302", broken(Fault::Redirect(302))),
        ("empty", broken(Fault::Empty)),
        ("html", broken(Fault::Html)),
        ("truncated", broken(Fault::Truncated)),
        ("twice", Script::all(Answer::raw(twice))),
        ("left out", Script::all(Answer::absent())),
        ("foreign", foreign),
        ("nameless", Script::all(gone().and(Answer::raw("{}")))),
        ("not-final", Script::all(Answer::unpaid())),
        (
            "one-of-two-final",
            Script::all(gone().and(Answer::unpaid())),
        ),
        (
            "unpaid-and-pending",
            Script::all(gone().and(Answer::pending())),
        ),
        (
            "unpaid-and-unreadable",
            Script::all(gone().and(Answer::unreadable())),
        ),
        ("silence", broken(Fault::Silent)),
    ];
    for (name, script) in unclear {
        let shop = Shop::open().await;
        shop.create(["ID".to_owned()]).await;
        let (mock, url) = mock(script).await;
        let run = shop.run(&url).await;
        assert_eq!(shop.status("ID").await, OrderStatus::NotPaid, "{name}");
        let counts = run.counts;
        assert_eq!((counts.cancelled, counts.healed), (0, 0), "{name}");
        assert_eq!(counts.pending + counts.unknown, 1, "{name}");
        let asked = mock.asked();
        assert_eq!((asked.questions, asked.followed), (1, 0), "{name}");
    }
    // The same question with the definite answer.
    let shop = Shop::open().await;
    shop.create(["ID".to_owned()]).await;
    let (_mock, url) = mock(Script::all(gone())).await;
    assert_eq!(shop.run(&url).await.counts.cancelled, 1);
}

#[tokio::test]
async fn one_poisonous_order_does_not_hold_up_the_others() {
    let nameless = r#"{"payments":[{"state":"unpaid","final":true}]}"#;
    let poisons = [
        Fault::Status(500),
        Fault::Html,
        Fault::Body(nameless.to_owned()),
    ];
    for poison in poisons {
        let shop = Shop::open().await;
        shop.create(
            names("OK", 249)
                .chain(["POISON".to_owned()])
                .chain(names("Z", 250)),
        )
        .await;
        let mut script = Script::all(Answer::unpaid_for_good());
        script.poison("POISON", poison);
        let (mock, url) = mock(script).await;
        let run = shop.run(&url).await;
        assert_eq!((run.counts.cancelled, run.counts.unknown), (499, 1));
        assert_eq!(shop.status("POISON").await, OrderStatus::NotPaid);
        let questions = mock.asked().questions;
        assert!(questions < 25, "{questions} questions");
    }
}

#[tokio::test]
async fn hopeless_orders_do_not_starve_the_next_one() {
    let shop = Shop::open().await;
    shop.create(names("DARK", 100).chain(["PAID".to_owned()]))
        .await;
    let mut script = Script::all(Answer::unknown());
    script.set("PAID", paid("t1"));
    let (_mock, url) = mock(script).await;
    let run = shop.run(&url).await;
    assert_eq!((run.counts.healed, run.counts.unknown), (1, 100));
    assert_eq!(shop.status("PAID").await, OrderStatus::Paid);
}

#[tokio::test]
async fn the_last_question_finds_what_came_after_an_order_left() {
    let shop = Shop::open().await;
    shop.create(["TWICE", "LATE", "FINE", "ODD"].map(str::to_owned))
        .await;
    for id in ["TWICE", "FINE", "ODD"] {
        shop.event(id, &format!("t-{id}")).await;
    }
    let mut cancelling = Script::all(Answer::pending());
    cancelling.set("LATE", Answer::unpaid_for_good());
    let (_mock, url) = mock(cancelling).await;
    assert_eq!(shop.run(&url).await.counts.cancelled, 1);
    let mut script = Script::all(Answer::unpaid_for_good());
    script.set("TWICE", paid("t-TWICE").and(paid("t-second")));
    script.set("LATE", paid("t-late"));
    script.set("FINE", paid("t-FINE"));
    let (_mock, url) = mock(script).await;
    // What was pending comes again after its pause, which is zero here.
    let run = shop.run(&url).await;
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
        shop.run(&url).await.counts.asked,
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
    let reconciler = shop.reconciler(None, Duration::ZERO);
    let run = carry_out(&reconciler, false).await;
    assert_eq!((run.state, run.counts.asked), (RunState::Done, 0));
    assert_eq!(shop.status("UNPAID").await, OrderStatus::NotPaid);
    let until = crate::clock::now() + Duration::from_hours(1000);
    let due = shop
        .store
        .due_orders(Place::START, until, 10)
        .await
        .unwrap();
    let left: Vec<&str> = due
        .orders
        .iter()
        .map(|order| order.order_id.as_str())
        .collect();
    assert_eq!(left, ["UNPAID"]);
}
