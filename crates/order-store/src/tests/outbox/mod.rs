//! The outbox: what transactions write to it, what is read from it, and which relay may conclude it.

mod aside;
mod old;
mod plans;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration as StdDuration;

use order_fsm::{OrderEvent, OrderStatus};
use time::Duration;

use super::*;
use crate::outbox::PageSize;
use crate::{
    Concluded, EventBody, Fate, Lease, Operation, OutboxEvent, OutboxGauges, OutboxKey, OutboxPage,
    OutboxPlace, PublishedTransition, Republished,
};

pub(super) fn lease(holder: &str) -> Lease {
    Lease {
        name: "outbox",
        holder: holder.to_owned(),
        ttl: StdDuration::from_secs(10),
    }
}

pub(super) async fn create(store: &Store, id: &str) {
    store
        .create_order(new_order(id, 1000, "EUR"))
        .await
        .unwrap();
}

pub(super) async fn ship(store: &Store, id: &str) {
    let operation = Operation {
        order_id: id.parse().unwrap(),
        event: OrderEvent::Ship,
        source: Source::Api,
        actor: "shop".to_owned(),
        reason: Some("parcel 7\nand \"8\"".to_owned()),
        if_version: None,
        refused_as: REFUSED_AS,
    };
    store.operate(operation).await.unwrap();
}

/// An event as `order/version`, an exception as its verdict, `?` if it can't be read.
pub(super) fn name(event: &OutboxEvent) -> String {
    match &event.body {
        Ok(EventBody::Transition(t)) => format!("{}/{}", t.order_id, t.version),
        Ok(EventBody::Exception(e)) => e.verdict.to_string(),
        Err(_) => "?".to_owned(),
    }
}

pub(super) fn names(events: &[OutboxEvent]) -> Vec<String> {
    events.iter().map(name).collect()
}

pub(super) async fn first_page(store: &Store) -> OutboxPage {
    store.outbox_page(OutboxPlace::default()).await.unwrap()
}

/// What is in the outbox, page after page.
pub(super) async fn waiting(store: &Store, size: PageSize) -> Vec<OutboxEvent> {
    let mut place = Some(OutboxPlace::default());
    let mut events = Vec::new();
    while let Some(at) = place {
        let page = store.outbox_page_of(at, size).await.unwrap();
        assert!(page.next.is_none() || !page.events.is_empty());
        events.extend(page.events);
        place = page.next;
    }
    events
}

const SMALL: PageSize = PageSize { rows: 3, events: 2 };

pub(super) async fn conclude(
    store: &Store,
    holder: &str,
    events: Vec<OutboxEvent>,
    fate: impl Fn(&OutboxEvent) -> Fate,
) -> Concluded {
    let fates = events.iter().map(fate).collect();
    store
        .conclude_outbox(&lease(holder), Arc::new(events), fates, None)
        .await
        .unwrap()
}

/// Publishes everything, as a relay does; the names in order.
pub(super) async fn drain(store: &Store, holder: &str) -> Vec<String> {
    assert!(store.take_lease(&lease(holder)).await.unwrap());
    let events = waiting(store, SMALL).await;
    let published = names(&events);
    let concluded = conclude(store, holder, events, |_| Fate::Published).await;
    assert_eq!(concluded, Concluded::Written);
    assert_eq!(store.outbox_gauges().await.unwrap().unpublished, 0);
    published
}

fn transitions(events: Vec<OutboxEvent>) -> Vec<PublishedTransition> {
    let transition = |event: OutboxEvent| match event.body.unwrap() {
        EventBody::Transition(transition) => *transition,
        EventBody::Exception(exception) => panic!("{exception:?}"),
    };
    events.into_iter().map(transition).collect()
}

pub(super) async fn rows(db: &TestDb) -> i64 {
    const ROWS: Sql = Sql::both("SELECT CAST(count(*) AS text) FROM outbox");
    db.strings(ROWS).await[0].parse().unwrap()
}

on_both! {
    async fn a_transaction_writes_one_row_with_all_its_events(db) {
        for number in 0..5 {
            create(&db.store, &format!("O{number}")).await;
        }
        assert_eq!(rows(db).await, 5);
        let mut facts: Vec<String> = (0..5).map(|n| format!("succeeded tx{n} O{n} 1000 EUR")).collect();
        facts.push("succeeded other O0 1000 EUR".to_owned());
        facts.push("failed tx0 O0 1000 EUR".to_owned());
        record(&db.store, &facts.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert_eq!(rows(db).await, 6);
        record(&db.store, &["succeeded tx0 O0 1000 EUR", "failed tx9 O0 1000 EUR"]).await;
        assert_eq!(rows(db).await, 6, "nothing happened that is published");
        let mut read = drain(&db.store, "a").await;
        read.sort_unstable();
        let paid = ["O0/1", "O0/2", "O1/1", "O1/2", "O2/1", "O2/2", "O3/1", "O3/2", "O4/1", "O4/2"];
        assert_eq!(read[..10], paid);
        assert_eq!(read[10..], ["SECOND_PAYMENT"]);
        assert_eq!(rows(db).await, 0);
    }

    async fn a_rolled_back_transaction_publishes_nothing(db) {
        create(&db.store, "O1").await;
        drain(&db.store, "a").await;
        let batch = crate::Batch { facts: vec![fact("succeeded tx1 O1 1000 EUR")], dead_letters: Vec::new() };
        db.store.record_unless(true, batch).await.unwrap();
        assert_eq!(rows(db).await, 0);
    }

    async fn the_versions_of_an_order_come_in_their_order(db) {
        record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await;
        create(&db.store, "O1").await;
        create(&db.at(NOW - Duration::hours(1)), "O2").await;
        ship(&db.store, "O1").await;
        record(&db.store, &["succeeded tx2 O2 1000 EUR"]).await;
        assert_eq!(drain(&db.store, "a").await, ["O1/1", "O1/2", "O2/1", "O1/3", "O2/2"]);
    }

    async fn an_event_is_the_row_after_the_commit(db) {
        create(&db.store, "O1").await;
        record(&db.at(NOW + Duration::seconds(1)), &["succeeded tx1 O1 1000 EUR"]).await;
        ship(&db.store, "O1").await;
        let events = waiting(&db.store, SMALL).await;
        let read = transitions(events);
        assert_eq!(read, committed(&db.store, "O1").await);
        let steps: Vec<_> = read.iter().map(|t| (t.from, t.to, t.version)).collect();
        assert_eq!(steps, [
            (None, OrderStatus::NotPaid, 1),
            (Some(OrderStatus::NotPaid), OrderStatus::Paid, 2),
            (Some(OrderStatus::Paid), OrderStatus::Shipped, 3),
        ]);
        assert_eq!(read[2].reason.as_deref(), Some("parcel 7\nand \"8\""));
        assert_eq!((read[1].source, read[2].source), (Source::Event, Source::Api));
        // The clock of the shipping instance is behind: a step isn't earlier than the one before.
        assert_eq!(read[2].at, NOW + Duration::seconds(1));
    }

    async fn an_id_names_the_order_the_version_and_the_time(db) {
        create(&db.store, "O1").await;
        let read = transitions(waiting(&db.store, SMALL).await).pop().unwrap();
        let key = OutboxKey::Transition(read.order_id, read.version, read.at);
        assert_eq!(key.to_string(), "O1/1/1795939200123456");
        assert_eq!(OutboxKey::Exception("5f00".to_owned()).to_string(), "5f00");
    }

    async fn a_pass_ends_where_the_outbox_ended_when_it_began(db) {
        for number in 0..5 {
            create(&db.store, &format!("O{number}")).await;
        }
        let first = db.store.outbox_page_of(OutboxPlace::default(), SMALL).await.unwrap();
        assert_eq!(names(&first.events), ["O0/1", "O1/1"]);
        create(&db.store, "O5").await;
        let second = db.store.outbox_page_of(first.next.unwrap(), SMALL).await.unwrap();
        assert_eq!(names(&second.events), ["O2/1", "O3/1"]);
        let third = db.store.outbox_page_of(second.next.unwrap(), SMALL).await.unwrap();
        assert_eq!(names(&third.events), ["O4/1"]);
        assert_eq!(third.next, None);
    }

    async fn an_anomaly_is_offered_as_an_exception_and_never_as_a_paid_order(db) {
        create(&db.store, "O1").await;
        record(&db.store, &["succeeded tx1 O1 999 EUR", "succeeded tx1 O1 999 EUR"]).await;
        assert_eq!(drain(&db.store, "a").await, ["O1/1", "AMOUNT_MISMATCH"]);
        record(&db.store, &["succeeded tx1 O1 999 EUR"]).await;
        assert_eq!(rows(db).await, 0, "published once, whatever is delivered");
    }

    async fn an_exception_is_read_as_it_is_when_it_is_published(db) {
        create(&db.store, "O1").await;
        record(&db.store, &["succeeded tx1 O1 999 EUR"]).await;
        let exception = async || match first_page(&db.store).await.events.pop().unwrap().body.unwrap() {
            EventBody::Exception(exception) => *exception,
            EventBody::Transition(transition) => panic!("{transition:?}"),
        };
        let open = exception().await;
        assert_eq!((open.closed.clone(), open.in_time()), (None, None));
        assert_eq!(open.expected_amount.unwrap().minor_units(), 1000);
        db.tamper("UPDATE payment_exceptions SET state = 'closed', resolution = 'written_off',
                          note = 'small', closed_by = 'ann', closed_at = opened_at").await;
        let closure = exception().await.closed.unwrap();
        assert_eq!((closure.resolution.as_str(), closure.at), ("written_off", NOW));
    }

    async fn a_former_lease_holder_writes_nothing(db) {
        create(&db.store, "O1").await;
        assert!(db.store.take_lease(&lease("a")).await.unwrap());
        let later = db.at(NOW + Duration::seconds(11));
        // It expired, but no other relay took it: still the only holder.
        assert_eq!(conclude(&later, "a", Vec::new(), |_| Fate::Published).await, Concluded::Written);
        let later = db.at(NOW + Duration::seconds(30));
        assert!(later.take_lease(&lease("b")).await.unwrap());
        for fate in [Fate::Published, aside(crate::AsideKind::TooLarge)] {
            let page = first_page(&later).await.events;
            assert_eq!(conclude(&later, "a", page, |_| fate.clone()).await, Concluded::LeaseLost);
        }
        let page = first_page(&later).await;
        assert_eq!(later.try_outbox(&lease("a"), &page).await.unwrap(), Concluded::LeaseLost);
        assert_eq!(names(&first_page(&later).await.events), ["O1/1"]);
        assert!(!first_page(&later).await.events[0].tried);
        assert!(!later.is_any_set_aside().await.unwrap());
        assert_eq!(conclude(&later, "b", page.events, |_| Fate::Published).await, Concluded::Written);
        assert_eq!(rows(db).await, 0);
    }

    async fn the_unfinished_part_of_a_row_stays(db) {
        record(&db.store, &["succeeded tx1 O1 1000 EUR", "succeeded tx2 O2 1000 EUR"]).await;
        create(&db.store, "O1").await;
        create(&db.store, "O2").await;
        assert!(db.store.take_lease(&lease("a")).await.unwrap());
        let page = first_page(&db.store).await.events;
        assert_eq!(names(&page), ["O1/1", "O1/2", "O2/1", "O2/2"]);
        let fate = |event: &OutboxEvent| match name(event).as_str() {
            "O1/1" => Fate::Published,
            _ => Fate::Kept,
        };
        conclude(&db.store, "a", page, fate).await;
        assert_eq!(db.store.outbox_gauges().await.unwrap().unpublished, 3);
        assert_eq!(drain(&db.store, "a").await, ["O1/2", "O2/1", "O2/2"]);
    }

    async fn events_that_no_relay_tried_to_publish_are_known(db) {
        let tried = async || -> Vec<bool> {
            let page = first_page(&db.store).await;
            page.events.iter().map(|event| event.tried).collect()
        };
        create(&db.store, "O1").await;
        assert!(db.store.take_lease(&lease("a")).await.unwrap());
        let page = first_page(&db.store).await;
        create(&db.store, "O2").await;
        assert_eq!(tried().await, [false, false]);
        assert_eq!(db.store.try_outbox(&lease("a"), &page).await.unwrap(), Concluded::Written);
        assert_eq!(tried().await, [true, false]);
        // The page that comes next is written down with what became of the one before.
        let next = first_page(&db.store).await;
        let (all, fates) = (Arc::new(page.events), vec![Fate::Published]);
        db.store.conclude_outbox(&lease("a"), all, fates, Some(&next)).await.unwrap();
        assert_eq!(tried().await, [true]);
        // The broker may know events that are published again.
        db.store.republish_since(&lease("a"), NOW).await.unwrap().unwrap();
        assert_eq!(tried().await, [true, true, true]);
    }

    async fn everything_since_a_time_is_published_again_in_version_order(db) {
        for number in 0..7 {
            let id = format!("O{number}");
            let store = db.at(NOW + Duration::seconds(number));
            create(&store, &id).await;
            record(&store, &[&format!("succeeded tx{number} {id} 1000 EUR"),
                             &format!("succeeded second{number} {id} 1000 EUR")]).await;
        }
        let read = waiting(&db.store, SMALL).await;
        assert_eq!(drain(&db.store, "a").await.len(), 21);
        for step_max in [1, 2, 3, 14, 100] {
            let since = NOW + Duration::seconds(3);
            let again = db.store.republish_in_steps(&lease("a"), since, step_max).await.unwrap();
            assert_eq!(again, Some(Republished { transitions: 8, exceptions: 4 }), "in steps of {step_max}");
            let events = waiting(&db.store, SMALL).await;
            for event in events.iter().filter(|event| event.order.is_some()) {
                let first = read.iter().find(|first| first.order == event.order).unwrap();
                assert_eq!(first.body.as_ref().unwrap(), event.body.as_ref().unwrap(), "the same event");
            }
            let published = drain(&db.store, "a").await;
            for number in 3..7 {
                let place = |version| published.iter().position(|id| *id == format!("O{number}/{version}")).unwrap();
                assert!(place(1) < place(2), "{published:?}");
            }
            assert_eq!(published.len(), 12);
        }
        let none = db.store.republish_since(&lease("b"), NOW).await.unwrap();
        assert_eq!(none, None, "somebody else has the lease");
        let none = db.store.republish_since(&lease("a"), NOW + Duration::hours(1)).await.unwrap();
        assert_eq!(none, Some(Republished::default()));
    }

    async fn republished_events_come_before_waiting_ones(db) {
        create(&db.store, "O1").await;
        drain(&db.store, "a").await;
        record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await;
        create(&db.store, "O2").await;
        db.store.republish_since(&lease("a"), NOW).await.unwrap().unwrap();
        assert_eq!(drain(&db.store, "a").await, ["O1/1", "O1/2", "O2/1", "O1/2", "O2/1"]);
    }

    async fn an_unreadable_line_names_its_order(db) {
        create(&db.store, "O1").await;
        create(&db.store, "O2").await;
        create(&db.store, "O3").await;
        create(&db.store, "O4").await;
        db.tamper("UPDATE outbox SET content = replace(content, '\"api\"', '\"oracle\"') WHERE content LIKE '%O1%'").await;
        db.tamper("UPDATE outbox SET content = replace(content, 'EUR', '€') WHERE content LIKE '%O2%'").await;
        db.tamper("UPDATE outbox SET content = 'gone' WHERE content LIKE '%O3%'").await;
        let page = first_page(&db.store).await;
        assert_eq!(names(&page.events), ["?", "?", "?", "O4/1"]);
        let orders: Vec<_> = page.events.iter().map(|event| event.order.clone()).collect();
        let of = |id: &str| Some((id.to_owned(), 1));
        assert_eq!(orders, [of("O1"), of("O2"), None, of("O4")]);
    }

    async fn the_gauges_say_how_much_waits_and_since_when(db) {
        let later = db.at(NOW + Duration::seconds(90));
        let waits = |unpublished, oldest_seconds| OutboxGauges { unpublished, oldest_seconds, ..OutboxGauges::default() };
        assert_eq!(later.outbox_gauges().await.unwrap(), waits(0, 0.0));
        create(&db.store, "O1").await;
        record(&db.at(NOW + Duration::seconds(30)), &["succeeded tx1 O1 1000 EUR", "succeeded tx2 O1 1000 EUR"]).await;
        assert_eq!(later.outbox_gauges().await.unwrap(), waits(3, 90.0));
        assert!(db.store.take_lease(&lease("a")).await.unwrap());
        let mut page = first_page(&db.store).await.events;
        page.truncate(1);
        conclude(&db.store, "a", page, |_| Fate::Published).await;
        assert_eq!(later.outbox_gauges().await.unwrap(), waits(2, 60.0));
    }

    async fn a_time_that_cannot_be_read_keeps_nothing_from_being_counted(db) {
        let later = db.at(NOW + Duration::seconds(90));
        create(&db.store, "O1").await;
        create(&db.store, "O2").await;
        create(&db.store, "O3").await;
        assert!(db.store.take_lease(&lease("a")).await.unwrap());
        let mut page = first_page(&db.store).await.events;
        page.truncate(1);
        conclude(&db.store, "a", page, |_| aside(crate::AsideKind::Blocked)).await;
        let (aside_time, outbox_time) = match db.url.sqlite_path() {
            Some(_) => ("UPDATE outbox_set_aside SET at = -9223372036854775807",
                        "UPDATE outbox SET at = -9223372036854775807 WHERE content LIKE '%O2%'"),
            None => ("UPDATE outbox_set_aside SET at = '-infinity'",
                     "UPDATE outbox SET at = '-infinity' WHERE content LIKE '%O2%'"),
        };
        db.tamper(aside_time).await;
        db.tamper(outbox_time).await;
        let gauges = later.outbox_gauges().await.unwrap();
        assert_eq!((gauges.unpublished, gauges.blocked), (3, 1));
        assert_eq!(gauges.oldest_seconds.to_bits(), 90.0_f64.to_bits(), "of what can be read");
    }
}

pub(super) fn aside(kind: crate::AsideKind) -> Fate {
    Fate::SetAside {
        kind,
        event: "created",
        why: "because".to_owned(),
        tried: true,
    }
}

/// The transitions of an order as the tables have them.
pub(super) async fn committed(store: &Store, id: &str) -> Vec<PublishedTransition> {
    let order = store.get_order(id.parse().unwrap()).await.unwrap().unwrap();
    let history = store
        .history(id.parse().unwrap(), Place::default(), 100)
        .await
        .unwrap();
    let applied = history
        .items
        .into_iter()
        .filter(|item| item.outcome == crate::Outcome::Applied);
    let transition = |item: crate::HistoryItem| PublishedTransition {
        order_id: id.parse().unwrap(),
        version: item.version,
        from: item.from,
        to: item.to.unwrap(),
        amount: order.amount,
        currency: order.currency,
        provider: item.provider,
        transaction_id: item.transaction_id,
        source: item.source,
        reason: item.reason,
        at: item.at,
    };
    applied.map(transition).collect()
}

/// Whichever transactions ran at the same time: the outbox holds every transition once, as it was committed, and those of an
/// order in the order of its versions; and every exception once.
pub(super) async fn assert_complete_and_in_version_order(store: &Store) {
    const TRANSITIONS: Sql = Sql::both("SELECT count(*) FROM transitions");
    const EXCEPTIONS: Sql = Sql::both("SELECT count(*) FROM payment_exceptions");
    let mut of_orders: HashMap<String, Vec<PublishedTransition>> = HashMap::new();
    let mut exceptions = HashSet::new();
    for event in waiting(
        store,
        PageSize {
            rows: 500,
            events: 500,
        },
    )
    .await
    {
        match event.body.unwrap() {
            EventBody::Transition(transition) => {
                let id = transition.order_id.to_string();
                of_orders.entry(id).or_default().push(*transition);
            }
            EventBody::Exception(exception) => assert!(exceptions.insert(exception.id)),
        }
    }
    let read: usize = of_orders.values().map(Vec::len).sum();
    assert_eq!(read, count(store, TRANSITIONS).await);
    assert_eq!(exceptions.len(), count(store, EXCEPTIONS).await);
    for (id, read) in of_orders {
        assert_eq!(read, committed(store, &id).await, "{id}");
    }
}

async fn count(store: &Store, sql: Sql) -> usize {
    let rows = store.read("testing", sql, async |conn: &mut Conn, sql: &Sql| {
        fetch_all!(conn, (i64,), *sql)
    });
    usize::try_from(rows.await.unwrap()[0].0).unwrap()
}

/// Transaction A takes its place first and commits last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_commits_after_a_later_one_is_not_passed_over() {
    use sqlx::Connection as _;

    let db = TestDb::postgres().await;
    let mut slow = sqlx::PgConnection::connect(&db.url.to_string())
        .await
        .unwrap();
    let mut open = slow.begin().await.unwrap();
    sqlx::query(
        "INSERT INTO outbox (at, events, content)
         VALUES (now(), 1, '[\"t\",\"O1\",2,\"NOT_PAID\",\"CANCELLED\",1000,\"EUR\",null,null,\"api\",null,0]')",
    )
    .execute(&mut *open)
    .await
    .unwrap();
    create(&db.store, "O2").await;
    assert_eq!(drain(&db.store, "a").await, ["O2/1"]);
    open.commit().await.unwrap();
    assert_eq!(drain(&db.store, "a").await, ["O1/2"]);
}
