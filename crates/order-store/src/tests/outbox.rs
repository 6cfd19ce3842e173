//! The outbox and its lease: what is offered to be published, and whose marks count.

use std::time::Duration as StdDuration;

use order_fsm::{OrderEvent, OrderStatus};
use time::Duration;
use tokio::task::JoinSet;

use super::*;
use crate::{Lease, Marked, Operation, OutboxGauges, OutboxKey, Republished, Unpublished};

fn lease(holder: &str) -> Lease {
    Lease {
        name: "relay",
        holder: holder.to_owned(),
        ttl: StdDuration::from_secs(10),
    }
}

async fn create(store: &Store, id: &str) {
    store
        .create_order(new_order(id, 1000, "EUR"))
        .await
        .unwrap();
}

async fn ship(store: &Store, id: &str) {
    let operation = Operation {
        order_id: id.parse().unwrap(),
        event: OrderEvent::Ship,
        source: Source::Api,
        actor: "shop".to_owned(),
        reason: Some("parcel 7".to_owned()),
        if_version: None,
        refused_as: REFUSED_AS,
    };
    store.operate(operation).await.unwrap();
}

/// The ids of a batch, exceptions by their verdict.
async fn offered(store: &Store, limit: u32) -> Vec<String> {
    let batch = store.unpublished(limit).await.unwrap();
    assert!(batch.unreadable.is_empty(), "{:?}", batch.unreadable);
    let exceptions = batch.exceptions.iter().map(|e| e.verdict.to_string());
    let transitions = batch.transitions.iter();
    transitions
        .map(|t| format!("{}/{}", t.order_id, t.version))
        .chain(exceptions)
        .collect()
}

fn keys(batch: &Unpublished) -> Vec<OutboxKey> {
    let transitions = batch.transitions.iter();
    transitions
        .map(|t| OutboxKey::Transition(t.order_id.clone(), t.version))
        .chain(
            batch
                .exceptions
                .iter()
                .map(|e| OutboxKey::Exception(e.id.clone())),
        )
        .collect()
}

async fn aside(store: &Store, holder: &str, key: &OutboxKey) -> Marked {
    let why = "too large".to_owned();
    store
        .set_aside(&lease(holder), key.clone(), why)
        .await
        .unwrap()
}

/// Marks everything, batch after batch, as a relay does; the ids in the order of their marks.
async fn drain(store: &Store, holder: &str) -> Vec<String> {
    let mut published = Vec::new();
    assert!(store.take_lease(&lease(holder)).await.unwrap());
    loop {
        let batch = store.unpublished(2).await.unwrap();
        let keys = keys(&batch);
        if keys.is_empty() {
            return published;
        }
        let marked = store
            .mark_published(&lease(holder), keys.clone())
            .await
            .unwrap();
        assert_eq!(marked, Marked::Marked(keys.len() as u64));
        published.extend(
            batch
                .transitions
                .iter()
                .map(|t| format!("{}/{}", t.order_id, t.version)),
        );
        published.extend(batch.exceptions.iter().map(|e| e.verdict.to_string()));
    }
}

on_both! {
    async fn a_batch_holds_each_order_once_with_its_lowest_version(db) {
        create(&db.store, "O1").await;
        create(&db.at(NOW + Duration::seconds(1)), "O2").await;
        record(&db.at(NOW + Duration::seconds(2)), &["succeeded tx1 O1 1000 EUR", "succeeded tx2 O2 1000 EUR"]).await;
        ship(&db.at(NOW + Duration::seconds(3)), "O2").await;
        assert_eq!(offered(&db.store, 100).await, ["O1/1", "O2/1"]);
        assert_eq!(offered(&db.store, 1).await, ["O1/1"]);
        assert_eq!(drain(&db.store, "a").await, ["O1/1", "O2/1", "O1/2", "O2/2", "O2/3"]);
        assert!(offered(&db.store, 100).await.is_empty());
    }

    async fn an_event_tells_what_its_transition_was(db) {
        create(&db.store, "O1").await;
        record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await;
        ship(&db.store, "O1").await;
        let mut told = Vec::new();
        assert!(db.store.take_lease(&lease("a")).await.unwrap());
        for _ in 0..3 {
            let batch = db.store.unpublished(10).await.unwrap();
            db.store.mark_published(&lease("a"), keys(&batch)).await.unwrap();
            told.extend(batch.transitions);
        }
        let steps: Vec<_> = told.iter().map(|t| (t.from, t.to, t.version)).collect();
        assert_eq!(steps, [
            (None, OrderStatus::NotPaid, 1),
            (Some(OrderStatus::NotPaid), OrderStatus::Paid, 2),
            (Some(OrderStatus::Paid), OrderStatus::Shipped, 3),
        ]);
        let payments: Vec<_> = told.iter().map(|t| t.transaction_id.as_ref().map(ToString::to_string)).collect();
        assert_eq!(payments, [None, Some("tx1".to_owned()), None]);
        assert_eq!(told[2].reason.as_deref(), Some("parcel 7"));
        assert_eq!((told[1].source, told[2].source), (Source::Event, Source::Api));
        assert!(told.iter().all(|t| t.amount.minor_units() == 1000 && t.currency.as_str() == "EUR" && t.at == NOW));
    }

    async fn a_row_that_becomes_visible_late_is_still_published(db) {
        create(&db.store, "O2").await;
        assert_eq!(drain(&db.store, "a").await, ["O2/1"]);
        // With an older time, as if its transaction had been open for an hour.
        create(&db.at(NOW - Duration::hours(1)), "O1").await;
        assert_eq!(drain(&db.store, "a").await, ["O1/1"]);
    }

    async fn an_anomaly_is_offered_as_an_exception_and_never_as_a_paid_order(db) {
        create(&db.store, "O1").await;
        record(&db.store, &["succeeded tx1 O1 999 EUR", "succeeded tx1 O1 999 EUR"]).await;
        assert_eq!(drain(&db.store, "a").await, ["O1/1", "AMOUNT_MISMATCH"]);
        record(&db.store, &["succeeded tx1 O1 999 EUR"]).await;
        assert!(offered(&db.store, 100).await.is_empty(), "told once, whatever is delivered");
    }

    async fn an_exception_is_read_as_it_is_when_it_is_published(db) {
        create(&db.store, "O1").await;
        record(&db.store, &["succeeded tx1 O1 999 EUR"]).await;
        let open = db.store.unpublished(10).await.unwrap().exceptions.pop().unwrap();
        assert_eq!((open.closed.clone(), open.in_time()), (None, None));
        assert_eq!(open.expected_amount.unwrap().minor_units(), 1000);
        db.tamper("UPDATE payment_exceptions SET state = 'closed', resolution = 'written_off',
                          note = 'small', closed_by = 'ann', closed_at = opened_at").await;
        let closed = db.store.unpublished(10).await.unwrap().exceptions.pop().unwrap();
        let closure = closed.closed.unwrap();
        assert_eq!((closure.resolution.as_str(), closure.at), ("written_off", NOW));
    }

    async fn a_lease_has_one_holder_at_a_time(db) {
        let (a, b) = (lease("a"), lease("b"));
        assert!(db.store.take_lease(&a).await.unwrap());
        assert!(db.store.take_lease(&a).await.unwrap(), "its holder renews it");
        assert!(!db.store.take_lease(&b).await.unwrap());
        assert_eq!(db.store.lease_holder("relay").await.unwrap().as_deref(), Some("a"));
        let later = db.at(NOW + Duration::seconds(10));
        assert_eq!(later.lease_holder("relay").await.unwrap(), None);
        assert!(later.take_lease(&b).await.unwrap(), "it ran out");
        assert!(!later.renew_lease(&a).await.unwrap());
        later.release_lease(&a).await.unwrap();
        assert_eq!(later.lease_holder("relay").await.unwrap().as_deref(), Some("b"));
        later.release_lease(&b).await.unwrap();
        assert!(later.take_lease(&a).await.unwrap());
    }

    async fn of_many_that_ask_at_once_one_gets_the_lease(db) {
        for round in 0..20 {
            let store = db.at(NOW + Duration::minutes(round));
            let mut asking = JoinSet::new();
            for number in 0..8 {
                let (store, lease) = (store.clone(), lease(&format!("h{number}")));
                asking.spawn(async move { store.take_lease(&lease).await.unwrap() });
            }
            let held = asking.join_all().await.into_iter().filter(|held| *held).count();
            assert_eq!(held, 1);
        }
    }

    async fn who_lost_the_lease_marks_nothing(db) {
        create(&db.store, "O1").await;
        assert!(db.store.take_lease(&lease("a")).await.unwrap());
        let batch = keys(&db.store.unpublished(10).await.unwrap());
        let later = db.at(NOW + Duration::seconds(11));
        // It ran out, but nobody else took it: still the only one.
        assert_eq!(later.mark_published(&lease("a"), Vec::new()).await.unwrap(), Marked::Marked(0));
        let later = db.at(NOW + Duration::seconds(30));
        assert!(later.take_lease(&lease("b")).await.unwrap());
        assert_eq!(later.mark_published(&lease("a"), batch.clone()).await.unwrap(), Marked::LeaseLost);
        assert_eq!(aside(&later, "a", &batch[0]).await, Marked::LeaseLost);
        assert_eq!(offered(&later, 10).await, ["O1/1"]);
        assert_eq!(later.mark_published(&lease("b"), batch.clone()).await.unwrap(), Marked::Marked(1));
        // Nor does anybody write over a mark.
        let last = db.at(NOW + Duration::hours(1));
        assert_eq!(last.mark_published(&lease("b"), batch).await.unwrap(), Marked::Marked(0));
    }

    async fn an_ended_lease_is_nobodys_and_its_holder_begins_again(db) {
        create(&db.store, "O1").await;
        assert!(db.store.take_lease(&lease("a")).await.unwrap());
        let batch = keys(&db.store.unpublished(10).await.unwrap());
        db.store.end_lease("relay").await.unwrap();
        assert!(!db.store.renew_lease(&lease("a")).await.unwrap());
        assert_eq!(db.store.mark_published(&lease("a"), batch).await.unwrap(), Marked::LeaseLost);
        assert_eq!(drain(&db.store, "a").await, ["O1/1"]);
    }

    async fn what_is_set_aside_holds_up_nothing_and_is_counted(db) {
        create(&db.store, "O1").await;
        record(&db.store, &["succeeded tx1 O1 1000 EUR", "succeeded tx2 O1 1000 EUR"]).await;
        let later = db.at(NOW + Duration::seconds(90));
        let waits = |unpublished, oldest_seconds, set_aside| OutboxGauges { unpublished, oldest_seconds, set_aside };
        assert_eq!(later.outbox_gauges().await.unwrap(), waits(3, 90.0, 0));
        assert!(db.store.take_lease(&lease("a")).await.unwrap());
        let batch = keys(&db.store.unpublished(10).await.unwrap());
        for key in batch {
            assert_eq!(aside(&db.store, "a", &key).await, Marked::Marked(1));
        }
        assert_eq!(offered(&db.store, 10).await, ["O1/2"]);
        assert_eq!(later.outbox_gauges().await.unwrap(), waits(1, 90.0, 2));
        assert_eq!(drain(&db.store, "a").await, ["O1/2"]);
        assert_eq!(later.outbox_gauges().await.unwrap(), waits(0, 0.0, 2));
        let again = db.store.republish_since(NOW).await.unwrap();
        assert_eq!(again, Republished { transitions: 2, exceptions: 1 });
        assert_eq!(later.outbox_gauges().await.unwrap(), waits(3, 90.0, 0));
    }

    async fn everything_since_a_time_is_published_again_in_version_order(db) {
        for number in 0..7 {
            let id = format!("O{number}");
            let store = db.at(NOW + Duration::seconds(number));
            create(&store, &id).await;
            record(&store, &[&format!("succeeded tx{number} {id} 1000 EUR"),
                             &format!("succeeded second{number} {id} 1000 EUR")]).await;
        }
        assert_eq!(drain(&db.store, "a").await.len(), 21);
        for step_max in [1, 2, 3, 14, 100] {
            let since = NOW + Duration::seconds(3);
            let again = db.store.republish_in_steps(since, step_max).await.unwrap();
            assert_eq!(again, Republished { transitions: 8, exceptions: 4 }, "in steps of {step_max}");
            let none = db.store.republish_in_steps(since, step_max).await.unwrap();
            assert_eq!(none, Republished::default());
            let published = drain(&db.store, "a").await;
            for number in 3..7 {
                let place = |version| published.iter().position(|id| *id == format!("O{number}/{version}")).unwrap();
                assert!(place(1) < place(2), "{published:?}");
            }
            assert_eq!(published.len(), 12);
        }
    }

    async fn a_row_nobody_understands_holds_up_its_order_alone(db) {
        create(&db.store, "O1").await;
        record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await;
        create(&db.at(NOW + Duration::seconds(1)), "O2").await;
        db.tamper("UPDATE transitions SET source = 'oracle' WHERE order_id = 'O1' AND version = 1").await;
        let batch = db.store.unpublished(10).await.unwrap();
        assert_eq!(keys(&batch), [OutboxKey::Transition("O2".parse().unwrap(), 1)]);
        assert_eq!(batch.unreadable.len(), 1);
    }
}

/// Transaction A writes first and commits last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_commits_after_a_later_one_is_not_passed_over() {
    use sqlx::Connection as _;

    let db = TestDb::postgres().await;
    create(&db.store, "O1").await;
    assert_eq!(drain(&db.store, "a").await, ["O1/1"]);
    let mut slow = sqlx::PgConnection::connect(&db.url.to_string())
        .await
        .unwrap();
    let mut open = slow.begin().await.unwrap();
    sqlx::query(
        "INSERT INTO transitions (order_id, version, from_status, to_status, event, source, actor, at)
         VALUES ('O1', 2, 'NOT_PAID', 'CANCELLED', 'cancel', 'api', 'shop', '2026-11-29 08:00:00Z')",
    )
    .execute(&mut *open)
    .await
    .unwrap();
    create(&db.at(NOW + Duration::seconds(5)), "O2").await;
    assert_eq!(drain(&db.store, "a").await, ["O2/1"]);
    open.commit().await.unwrap();
    assert_eq!(drain(&db.store, "a").await, ["O1/2"]);
}

/// By the partial index, each look would walk all of a backlog.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_versions_of_an_order_are_looked_up_by_their_key() {
    use sqlx::Connection as _;

    let db = TestDb::postgres().await;
    let mut conn = sqlx::PgConnection::connect(&db.url.to_string())
        .await
        .unwrap();
    let explain = format!(
        "EXPLAIN {}",
        crate::sql::outbox::TRANSITIONS_UNPUBLISHED.postgres
    );
    let plan: Vec<(String,)> = sqlx::query_as(sqlx::AssertSqlSafe(explain))
        .bind(500_i64)
        .fetch_all(&mut conn)
        .await
        .unwrap();
    let plan: Vec<String> = plan.into_iter().map(|line| line.0).collect();
    let looks = plan.iter().skip_while(|line| !line.contains("SubPlan"));
    let looks: Vec<&String> = looks.filter(|line| line.contains("Scan")).collect();
    let by_key = looks.iter().any(|line| line.contains("transitions_pkey"));
    let by_backlog = looks
        .iter()
        .any(|line| line.contains("transitions_unpublished"));
    assert!(by_key && !by_backlog, "{plan:#?}");
}
