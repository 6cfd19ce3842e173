//! Due orders, what becomes of them, overdue payments, runs and the pace of questions.

use std::time::Duration;

use order_fsm::{OrderEvent, OrderStatus};

use super::*;
use crate::{
    DueOrder, FindingKind, Operated, Operation, QUESTIONS_CLOSED_MAX, RecordedAnswer, RunCounts,
    RunFinding, RunStart, RunState, Slot, StartedBy, Step, Stepped, WaitingRange,
};

const MINUTE: Duration = Duration::from_mins(1);
const TTL: Duration = Duration::from_secs(30);

async fn due(store: &Store, until: OffsetDateTime) -> Vec<DueOrder> {
    store
        .due_orders(Place::START, until, 100)
        .await
        .unwrap()
        .orders
}

async fn due_ids(store: &Store, until: OffsetDateTime) -> Vec<String> {
    let due = due(store, until).await;
    due.iter().map(|order| order.order_id.to_string()).collect()
}

async fn step(store: &Store, id: &str, step: Step) -> Stepped {
    step_unless(store, id, step, false).await
}

/// Takes a step with an order that is due at the store's time.
async fn step_unless(store: &Store, id: &str, step: Step, dry_run: bool) -> Stepped {
    let Clock::Fixed(now) = store.options.clock else {
        panic!("these tests have their own time")
    };
    let due = due(store, now).await;
    let order = due.into_iter().find(|order| order.order_id.as_str() == id);
    let order = order.unwrap_or_else(|| panic!("{id} is not due"));
    let done = store.step_due_orders(vec![(order, step)], dry_run).await;
    done.unwrap()[0]
}

fn for_good() -> Step {
    Step::Cancel {
        reason: "unpaid, final".to_owned(),
    }
}

async fn status(store: &Store, id: &str) -> OrderStatus {
    let order = store.get_order(id.parse().unwrap()).await.unwrap();
    order.unwrap().status
}

fn answer(text: &str) -> PaymentFact {
    PaymentFact {
        event_id: None,
        source: Source::Reconciliation,
        ..fact(text)
    }
}

on_both! {
    async fn an_order_is_due_after_its_first_pause_and_not_before(db) {
        db.store.create_order(new_order("O1", 1000, "EUR")).await.unwrap();
        assert!(due(&db.store, NOW + 5 * MINUTE - Duration::from_micros(1)).await.is_empty());
        let due = due(&db.store, NOW + 5 * MINUTE).await;
        assert_eq!(due.len(), 1);
        assert!(due[0].to_ask);
        assert_eq!(due[0].left_at, None);
    }

    async fn due_orders_come_oldest_first_page_after_page(db) {
        for (minute, id) in [(2, "A"), (0, "C"), (1, "B"), (0, "D")] {
            let store = db.at(NOW + minute * MINUTE);
            store.create_order(new_order(id, 1000, "EUR")).await.unwrap();
        }
        let until = NOW + 60 * MINUTE;
        let (mut seen, mut from) = (Vec::new(), Some(Place::START));
        while let Some(at) = from {
            let page = db.store.due_orders(at, until, 2).await.unwrap();
            seen.extend(page.orders.iter().map(|order| order.order_id.to_string()));
            from = page.next;
        }
        assert_eq!(seen, ["C", "D", "B", "A"]);
    }

    async fn an_order_that_cannot_be_paid_any_more_is_cancelled_after_pay_by(db) {
        db.store.create_order(new_order("O1", 1000, "EUR")).await.unwrap();
        let early = db.at(NOW + 29 * MINUTE);
        assert_eq!(step(&early, "O1", for_good()).await, Stepped::NotYet);
        assert_eq!(status(&early, "O1").await, OrderStatus::NotPaid);
        // Asked again at pay_by.
        assert!(due(&early, NOW + 29 * MINUTE).await.is_empty());
        let late = db.at(NOW + 30 * MINUTE);
        assert_eq!(step(&late, "O1", for_good()).await, Stepped::Cancelled);
        assert_eq!(status(&late, "O1").await, OrderStatus::Cancelled);
        let history = late.history("O1".parse().unwrap(), Place::START, 10).await.unwrap().items;
        let cancel = history.last().unwrap();
        assert_eq!((cancel.source, cancel.actor.as_str()), (Source::Reconciliation, "orderd"));
        assert_eq!(cancel.reason.as_deref(), Some("unpaid, final"));
        // One last question, a day later.
        let day = Duration::from_hours(24);
        assert!(due(&late, NOW + 30 * MINUTE + day - MINUTE).await.is_empty());
        let last = due(&late, NOW + 30 * MINUTE + day).await;
        assert!(last[0].to_ask);
        db.assert_clean().await;
    }

    async fn a_dry_run_changes_nothing(db) {
        db.store.create_order(new_order("O1", 1000, "EUR")).await.unwrap();
        db.store.create_order(new_order("O2", 1000, "EUR")).await.unwrap();
        let late = db.at(NOW + 40 * MINUTE);
        assert_eq!(step_unless(&late, "O1", for_good(), true).await, Stepped::Cancelled);
        let told = late.record_answers(vec![answer("succeeded t2 O2 1000 EUR")], true).await.unwrap();
        assert_eq!(told, [RecordedAnswer::New(Verdict::Applied)]);
        assert_eq!(status(&late, "O1").await, OrderStatus::NotPaid);
        assert_eq!(status(&late, "O2").await, OrderStatus::NotPaid);
        assert_eq!(due_ids(&late, NOW + 40 * MINUTE).await, ["O1", "O2"]);
    }

    async fn an_order_whose_money_waits_is_not_cancelled(db) {
        for id in ["MISMATCH", "CLOSED"] {
            db.store.create_order(new_order(id, 1000, "EUR")).await.unwrap();
            record(&db.store, &[&format!("succeeded {id} {id} 999 EUR")]).await;
        }
        let id = exception_of(db, "CLOSED").await;
        db.store
            .close_exception(crate::Closing {
                id,
                resolution: crate::Resolution::Refunded,
                note: "sent back".to_owned(),
                actor: "ann".to_owned(),
                refused_as: "illegal-transition",
            })
            .await
            .unwrap();
        let late = db.at(NOW + 40 * MINUTE);
        assert_eq!(step(&late, "MISMATCH", for_good()).await, Stepped::MoneyHeld);
        assert_eq!(step(&late, "CLOSED", for_good()).await, Stepped::Cancelled);
        db.assert_clean().await;
    }

    async fn a_lost_race_is_no_cancellation(db) {
        db.store.create_order(new_order("O1", 1000, "EUR")).await.unwrap();
        let late = db.at(NOW + 40 * MINUTE);
        let order = due(&late, NOW + 40 * MINUTE).await.remove(0);
        record(&late, &["succeeded t1 O1 1000 EUR"]).await;
        let stepped = late.step_due_orders(vec![(order, for_good())], false).await;
        assert_eq!(stepped.unwrap(), [Stepped::Raced]);
        assert_eq!(status(&late, "O1").await, OrderStatus::Paid);
        db.assert_clean().await;
    }

    async fn an_order_that_was_paid_once_is_not_cancelled_whatever_its_status_says(db) {
        for id in ["O1", "O2"] {
            db.store.create_order(new_order(id, 1000, "EUR")).await.unwrap();
            record(&db.store, &[&format!("succeeded {id} {id} 1000 EUR")]).await;
        }
        db.tamper("UPDATE orders SET status = 'NOT_PAID' WHERE order_id = 'O1'").await;
        db.tamper(
            "UPDATE orders
                SET status = 'NOT_PAID', paid_provider = NULL, paid_transaction_id = NULL
              WHERE order_id = 'O2'",
        )
        .await;
        for id in ["O1", "O2"] {
            let cancelled = db.store.operate(cancel(id)).await.unwrap();
            assert!(matches!(cancelled, Operated::MoneyHeld(_)), "{cancelled:?}");
        }
        let late = db.at(NOW + 40 * MINUTE);
        assert_eq!(step(&late, "O1", for_good()).await, Stepped::Inconsistent);
        assert_eq!(step(&late, "O2", for_good()).await, Stepped::Inconsistent);
        assert_eq!(status(&late, "O1").await, OrderStatus::NotPaid);
        let told = late.record_answers(vec![answer("succeeded O1 O1 1000 EUR")], false).await;
        assert_eq!(told.unwrap(), [RecordedAnswer::Known(Verdict::Applied, OrderStatus::NotPaid)]);
    }

    async fn answers_say_whether_they_were_new(db) {
        for id in ["O1", "O2", "O3", "O4"] {
            db.store.create_order(new_order(id, 1000, "EUR")).await.unwrap();
        }
        record(&db.store, &["succeeded t2 O2 1000 EUR"]).await;
        db.store.operate(cancel("O4")).await.unwrap();
        let told = db.store.record_answers(
            vec![
                answer("succeeded t1 O1 1000 EUR"),
                answer("succeeded t2 O2 1000 EUR"),
                answer("succeeded t3 O2 1000 EUR"),
                answer("succeeded t2 O3 1000 EUR"),
                answer("succeeded t4 O4 1000 EUR"),
                answer("refunded r1 O3 1000 EUR"),
                answer("succeeded t5 O3 1001 EUR"),
            ],
            false,
        );
        assert_eq!(
            told.await.unwrap(),
            [
                RecordedAnswer::New(Verdict::Applied),
                RecordedAnswer::Known(Verdict::Applied, OrderStatus::Paid),
                RecordedAnswer::New(Verdict::SecondPayment),
                RecordedAnswer::Conflict(Verdict::ConflictingContent),
                RecordedAnswer::New(Verdict::PaidAfterCancel),
                RecordedAnswer::New(Verdict::Reversed),
                RecordedAnswer::New(Verdict::AmountMismatch),
            ]
        );
        let payments = db.store.order_payments("O1".parse().unwrap(), Place::START, 10).await.unwrap().items;
        assert_eq!(payments[0].source, Source::Reconciliation);
        assert_eq!(payments[0].event_id, None);
        db.assert_clean().await;
    }

    async fn pauses_grow_and_unknown_answers_are_counted(db) {
        db.store.create_order(new_order("O1", 1000, "EUR")).await.unwrap();
        let mut at = NOW;
        let mut minutes = Vec::new();
        for round in 0..6_i64 {
            let page = due(&db.store, NOW + 600 * MINUTE).await;
            assert_eq!(page[0].unknowns(), round);
            // The first moment at which it is due.
            while due(&db.store, at).await.is_empty() {
                at += MINUTE;
            }
            minutes.push((at - NOW).whole_minutes());
            step(&db.at(at), "O1", Step::Asked { unknown: true }).await;
        }
        assert_eq!(minutes, [5, 15, 30, 50, 90, 150]);
        step(&db.at(NOW + 240 * MINUTE), "O1", Step::Asked { unknown: false }).await;
        assert_eq!(due(&db.store, NOW + 600 * MINUTE).await[0].unknowns(), 0);
    }

    async fn an_order_is_asked_about_once_more_after_it_left_not_paid(db) {
        let short = |at| {
            db.store.with_options(|options| {
                options.clock = Clock::Fixed(at);
                options.last_check_after = Some(Duration::from_secs(10));
            })
        };
        short(NOW).create_order(new_order("O1", 1000, "EUR")).await.unwrap();
        // Looked at in time, without a question.
        let look = NOW + Duration::from_secs(10);
        let order = due(&short(look), look).await.remove(0);
        assert!(!order.to_ask);
        step(&short(look), "O1", Step::Look).await;
        let paid = NOW + Duration::from_secs(12);
        record(&short(paid), &["succeeded t1 O1 1000 EUR"]).await;
        let second = NOW + Duration::from_secs(20);
        assert!(!due(&short(second), second).await[0].to_ask);
        step(&short(second), "O1", Step::Look).await;
        let last = NOW + Duration::from_secs(22);
        assert!(due(&short(last), last - Duration::from_micros(1)).await.is_empty());
        assert!(due(&short(last), last).await[0].to_ask);
        step(&short(last), "O1", Step::Asked { unknown: true }).await;
        assert!(due(&short(last), last).await.is_empty());
        let again = last + 10 * MINUTE;
        step(&short(again), "O1", Step::End).await;
        assert!(due(&short(again), NOW + 10_000 * MINUTE).await.is_empty());
    }

    async fn without_a_last_question_an_order_that_left_is_forgotten(db) {
        let off = db.at(NOW + 5 * MINUTE).with_options(|options| options.last_check_after = None);
        db.store.create_order(new_order("O1", 1000, "EUR")).await.unwrap();
        record(&db.store, &["succeeded t1 O1 1000 EUR"]).await;
        assert!(!due(&off, NOW + 5 * MINUTE).await[0].to_ask);
        step(&off, "O1", Step::Look).await;
        assert!(due(&off, NOW + 10_000 * MINUTE).await.is_empty());
    }

    async fn a_payment_that_waited_too_long_is_an_exception_once(db) {
        let wait = Duration::from_hours(24);
        record(&db.store, &["succeeded t1 O9 1000 EUR", "failed t2 O9 1000 EUR"]).await;
        let before = db.at(NOW + wait - MINUTE);
        assert_eq!(before.open_overdue(wait, WaitingRange::ALL, false).await.unwrap(), 0);
        let after = db.at(NOW + wait);
        assert_eq!(after.open_overdue(wait, WaitingRange::ALL, true).await.unwrap(), 1);
        assert!(db.exceptions().await.is_empty());
        assert_eq!(after.open_overdue(wait, WaitingRange::ALL, false).await.unwrap(), 1);
        assert_eq!(after.open_overdue(wait, WaitingRange::ALL, false).await.unwrap(), 0);
        assert_eq!(db.exceptions().await, ["WAITING_FOR_ORDER t1 O9 1000 EUR open"]);
        db.assert_clean().await;
        after.create_order(new_order("O9", 1000, "EUR")).await.unwrap();
        assert_eq!(status(&after, "O9").await, OrderStatus::Paid);
        assert_eq!(db.exceptions().await, ["WAITING_FOR_ORDER t1 O9 1000 EUR closed"]);
        assert_eq!(after.open_overdue(wait, WaitingRange::ALL, false).await.unwrap(), 0);
        db.assert_clean().await;
    }

    async fn one_run_works_at_a_time_and_a_dead_one_is_marked_failed(db) {
        let start = |store: Store, id: &'static str| async move {
            store.start_run(id.to_owned(), StartedBy::Api, false, TTL).await.unwrap()
        };
        assert!(matches!(start(db.store.clone(), "a").await, RunStart::Started(_)));
        let running = RunStart::AlreadyRunning { id: "a".to_owned() };
        assert_eq!(start(db.store.clone(), "b").await, running);
        let counts = RunCounts { asked: 7, healed: 1, ..RunCounts::default() };
        let alive = db.at(NOW + TTL - Duration::from_secs(1));
        assert!(alive.progress_run("a".to_owned(), counts, TTL).await.unwrap());
        assert_eq!(start(db.at(NOW + TTL), "b").await, running);
        // No sign of life since.
        let later = db.at(NOW + 2 * TTL);
        assert!(matches!(start(later.clone(), "b").await, RunStart::Started(_)));
        assert!(!later.progress_run("a".to_owned(), counts, TTL).await.unwrap());
        let ended = later.end_run("a".to_owned(), RunState::Done, counts, Vec::new()).await;
        assert!(!ended.unwrap());
        let a = later.get_run("a".to_owned()).await.unwrap().unwrap();
        assert_eq!((a.state, a.counts), (RunState::Failed, counts));
        // A late step of the dead run takes nothing from the live one.
        assert_eq!(start(later.clone(), "c").await, RunStart::AlreadyRunning { id: "b".to_owned() });
    }

    async fn a_lease_that_no_run_works_under_keeps_no_run_from_starting(db) {
        let start = |store: Store, id: &'static str| async move {
            store.start_run(id.to_owned(), StartedBy::Api, false, TTL).await.unwrap()
        };
        start(db.store.clone(), "gone").await;
        db.tamper("DELETE FROM runs").await;
        assert!(matches!(start(db.store.clone(), "a").await, RunStart::Started(_)));
        let running = RunStart::AlreadyRunning { id: "a".to_owned() };
        assert_eq!(start(db.store.clone(), "b").await, running);
        // The database's clock is ahead for a while.
        assert!(matches!(start(db.at(NOW + Duration::from_hours(1)), "ahead").await, RunStart::Started(_)));
        assert!(matches!(start(db.store.clone(), "c").await, RunStart::Started(_)));
        let ahead = db.store.get_run("ahead".to_owned()).await.unwrap().unwrap();
        assert_eq!(ahead.state, RunState::Failed);
    }

    async fn a_run_is_kept_with_what_it_found(db) {
        let finding = |id: &str, kind| RunFinding {
            order_id: id.parse().unwrap(),
            kind,
            detail: format!("about {id}"),
        };
        let findings = vec![
            finding("O2", FindingKind::Healed),
            finding("O1", FindingKind::PaidAfterCancel),
        ];
        for (seconds, id) in [(0, "a"), (1, "b"), (2, "c")] {
            let store = db.at(NOW + Duration::from_secs(seconds));
            store.start_run(id.to_owned(), StartedBy::Cli, id == "b", TTL).await.unwrap();
            let found = if id == "b" { findings.clone() } else { Vec::new() };
            let ended = store.end_run(id.to_owned(), RunState::Done, RunCounts::default(), found);
            assert!(ended.await.unwrap());
        }
        let run = db.store.get_run("b".to_owned()).await.unwrap().unwrap();
        assert_eq!(run.findings, findings);
        assert!(run.dry_run);
        assert_eq!(run.finished_at, Some(NOW + Duration::from_secs(1)));
        let page = db.store.list_runs(Place::START, 2).await.unwrap().items;
        assert_eq!(page.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["c", "b"]);
        assert_eq!(page[1].findings, findings);
        let rest = db.store.list_runs(Place::after(page[1].cursor()), 2).await.unwrap().items;
        assert_eq!(rest.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["a"]);
        // Forgotten in time, findings and all.
        let later = db.at(NOW + Duration::from_hours(25));
        assert_eq!(later.purge(Duration::from_hours(24), 100).await.unwrap(), 3);
        assert!(later.get_run("b".to_owned()).await.unwrap().is_none());
    }

    async fn questions_are_spaced_and_held_back_for_all(db) {
        let spacing = Duration::from_millis(50);
        let reserve = |wait_max| db.store.reserve_question(spacing, wait_max);
        let long = MINUTE;
        assert_eq!(reserve(long).await.unwrap(), Slot::After(Duration::ZERO));
        assert_eq!(reserve(long).await.unwrap(), Slot::After(spacing));
        assert_eq!(reserve(long).await.unwrap(), Slot::After(2 * spacing));
        assert_eq!(reserve(spacing).await.unwrap(), Slot::Closed(3 * spacing));
        // That reserved no turn.
        assert_eq!(reserve(long).await.unwrap(), Slot::After(3 * spacing));
        db.store.close_questions(Duration::from_secs(10)).await.unwrap();
        db.store.close_questions(Duration::from_secs(5)).await.unwrap();
        assert_eq!(db.store.questions_closed_for().await.unwrap(), Duration::from_secs(10));
        assert_eq!(reserve(spacing).await.unwrap(), Slot::Closed(Duration::from_secs(10)));
        assert_eq!(reserve(long).await.unwrap(), Slot::After(Duration::from_secs(10)));
        let later = db.at(NOW + Duration::from_secs(20));
        let free = later.reserve_question(spacing, Duration::ZERO).await.unwrap();
        assert_eq!(free, Slot::After(Duration::ZERO));
        assert_eq!(later.questions_closed_for().await.unwrap(), Duration::ZERO);
    }

    async fn questions_are_held_back_for_an_hour_at_most(db) {
        let years = Duration::from_hours(10 * 365 * 24);
        db.store.close_questions(years).await.unwrap();
        assert_eq!(db.store.questions_closed_for().await.unwrap(), QUESTIONS_CLOSED_MAX);
        let later = db.at(NOW + QUESTIONS_CLOSED_MAX);
        assert_eq!(later.questions_closed_for().await.unwrap(), Duration::ZERO);
    }

    async fn a_stored_time_that_is_too_far_away_comes_within_an_hour(db) {
        let far = [
            Sql {
                postgres: "UPDATE pacing SET not_before = '2036-11-29T08:00:00Z'",
                sqlite: "UPDATE pacing SET not_before = 2111745600000000",
            },
            Sql {
                postgres: "UPDATE pacing SET next_at = '2036-11-29T08:00:00Z'",
                sqlite: "UPDATE pacing SET next_at = 2111745600000000",
            },
        ];
        let mut now = NOW;
        for statement in far {
            let ask = async |store: Store| {
                store.reserve_question(Duration::ZERO, MINUTE).await.unwrap()
            };
            assert_eq!(ask(db.at(now)).await, Slot::After(Duration::ZERO));
            let stored = db.store.write("testing", statement, execute_one);
            assert_eq!(stored.await.unwrap(), 1);
            assert_eq!(ask(db.at(now)).await, Slot::Closed(QUESTIONS_CLOSED_MAX));
            // From the first look on, and not from each anew.
            now += QUESTIONS_CLOSED_MAX / 2;
            assert_eq!(ask(db.at(now)).await, Slot::Closed(QUESTIONS_CLOSED_MAX / 2));
            now += QUESTIONS_CLOSED_MAX / 2;
            assert_eq!(ask(db.at(now)).await, Slot::After(Duration::ZERO));
        }
    }
}

fn cancel(id: &str) -> Operation {
    Operation {
        order_id: id.parse().unwrap(),
        event: OrderEvent::Cancel,
        source: Source::Api,
        actor: "ann".to_owned(),
        reason: None,
        if_version: None,
        refused_as: REFUSED_AS,
    }
}

async fn exception_of(db: &TestDb, order_id: &str) -> String {
    let filter = crate::ExceptionFilter {
        order_id: Some(order_id.parse().unwrap()),
        ..crate::ExceptionFilter::default()
    };
    let found = db
        .store
        .list_exceptions(filter, Place::START, 10)
        .await
        .unwrap()
        .items;
    found[0].id.clone()
}
