//! Events that are set aside: what waits with them, how they are read again, how they are counted.

use super::*;
use crate::{AsideKind, AsidePlace};

/// Sets aside what the closure names, publishes the rest.
async fn set_aside(store: &Store, which: impl Fn(&str) -> Option<AsideKind>) {
    assert!(store.take_lease(&lease("a")).await.unwrap());
    let page = first_page(store).await.events;
    let fate = |event: &OutboxEvent| which(&name(event)).map_or(Fate::Published, aside);
    assert_eq!(conclude(store, "a", page, fate).await, Concluded::Written);
}

/// All that is set aside, read in pages of `rows_max`.
async fn all_aside(store: &Store, rows_max: u32) -> Vec<OutboxEvent> {
    let mut place = Some(AsidePlace::default());
    let mut events = Vec::new();
    while let Some(at) = place {
        let (page, next) = store.set_aside_page_of(at, rows_max).await.unwrap();
        events.extend(page);
        place = next;
    }
    events
}

async fn blocked(store: &Store, ids: &[&str]) -> Vec<String> {
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    let mut found: Vec<String> = store
        .orders_set_aside(ids)
        .await
        .unwrap()
        .into_iter()
        .collect();
    found.sort_unstable();
    found
}

on_both! {
    async fn an_event_that_is_set_aside_leaves_the_outbox_and_names_its_order(db) {
        assert!(!db.store.is_any_set_aside().await.unwrap());
        create(&db.store, "O1").await;
        create(&db.store, "O2").await;
        record(&db.store, &["succeeded tx2 O2 999 EUR"]).await;
        set_aside(&db.store, |name| (name != "O2/1").then_some(AsideKind::Blocked)).await;
        assert_eq!(rows(db).await, 0);
        assert!(db.store.is_any_set_aside().await.unwrap());
        assert_eq!(blocked(&db.store, &["O0", "O1", "O2", "O1"]).await, ["O1"]);
        // An exception may have the name of an order.
        let id = all_aside(&db.store, 10).await.iter().find_map(|event| match &event.body {
            Ok(EventBody::Exception(exception)) => Some(exception.id.clone()),
            _ => None,
        });
        assert!(blocked(&db.store, &[&id.unwrap()]).await.is_empty());
    }

    async fn what_is_set_aside_is_read_by_whole_orders_in_version_order(db) {
        for number in 0..4 {
            let id = format!("O{number}");
            record(&db.store, &[&format!("succeeded tx{number} {id} 1000 EUR")]).await;
            create(&db.store, &id).await;
        }
        ship(&db.store, "O1").await;
        set_aside(&db.store, |_| Some(AsideKind::Waits)).await;
        let all = ["O0/1", "O0/2", "O1/1", "O1/2", "O1/3", "O2/1", "O2/2", "O3/1", "O3/2"];
        for rows_max in [3, 4, 5, 9, 10, 100] {
            assert_eq!(names(&all_aside(&db.store, rows_max).await), all, "{rows_max}");
        }
        let (page, next) = db.store.set_aside_page_of(AsidePlace::default(), 4).await.unwrap();
        assert_eq!(names(&page), ["O0/1", "O0/2"], "O1 is not cut");
        assert!(next.is_some());
    }

    async fn of_a_subject_one_blocked_event_is_found(db) {
        create(&db.store, "O1").await;
        create(&db.store, "O2").await;
        set_aside(&db.store, |name| Some(if name == "O1/1" { AsideKind::Waits } else { AsideKind::Blocked })).await;
        assert_eq!(name(&db.store.blocked_event("created").await.unwrap().unwrap()), "O2/1");
        assert!(db.store.blocked_event("paid").await.unwrap().is_none());
        // Tried again: one goes out, of the other it is known why not.
        let events = all_aside(&db.store, 10).await;
        let fate = |event: &OutboxEvent| match name(event).as_str() {
            "O1/1" => aside(AsideKind::TooLarge),
            _ => Fate::Published,
        };
        assert_eq!(conclude(&db.store, "a", events, fate).await, Concluded::Written);
        assert_eq!(names(&all_aside(&db.store, 10).await), ["O1/1"]);
        assert!(db.store.blocked_event("created").await.unwrap().is_none());
        let gauges = db.store.outbox_gauges().await.unwrap();
        assert_eq!((gauges.unpublished, gauges.blocked, gauges.set_aside), (0, 0, 1));
    }

    async fn what_is_set_aside_is_counted_by_its_reason(db) {
        for id in ["O1", "O2", "O3", "O4"] {
            create(&db.store, id).await;
        }
        create(&db.at(NOW + Duration::seconds(30)), "O5").await;
        set_aside(&db.store, |name| match name {
            "O1/1" => Some(AsideKind::TooLarge),
            "O2/1" => Some(AsideKind::Unreadable),
            "O3/1" => Some(AsideKind::Blocked),
            "O4/1" => Some(AsideKind::Waits),
            _ => None,
        }).await;
        let later = db.at(NOW + Duration::seconds(90));
        let expected = OutboxGauges { unpublished: 2, oldest_seconds: 90.0, blocked: 2, set_aside: 2 };
        assert_eq!(later.outbox_gauges().await.unwrap(), expected);
    }

    async fn an_event_that_was_not_tried_is_still_known_as_such(db) {
        for id in ["O1", "O2"] {
            create(&db.store, id).await;
        }
        assert!(db.store.take_lease(&lease("a")).await.unwrap());
        let page = first_page(&db.store).await.events;
        let fate = |event: &OutboxEvent| Fate::SetAside {
            kind: AsideKind::Blocked,
            event: "created",
            why: "because".to_owned(),
            tried: name(event) == "O1/1",
        };
        conclude(&db.store, "a", page, fate).await;
        let tried: Vec<bool> = all_aside(&db.store, 10).await.iter().map(|event| event.tried).collect();
        assert_eq!(tried, [true, false]);
    }

    async fn an_event_that_comes_again_is_set_aside_once(db) {
        create(&db.store, "O1").await;
        assert!(db.store.take_lease(&lease("a")).await.unwrap());
        db.store.republish_since(&lease("a"), NOW).await.unwrap().unwrap();
        assert_eq!(names(&first_page(&db.store).await.events), ["O1/1", "O1/1"]);
        set_aside(&db.store, |_| Some(AsideKind::Blocked)).await;
        assert_eq!(names(&all_aside(&db.store, 10).await), ["O1/1"]);
    }

    async fn a_line_without_an_order_is_set_aside_under_a_name_of_its_own(db) {
        create(&db.store, "O1").await;
        create(&db.store, "O2").await;
        db.tamper("UPDATE outbox SET content = 'gone'").await;
        set_aside(&db.store, |_| Some(AsideKind::Unreadable)).await;
        assert_eq!(names(&all_aside(&db.store, 10).await), ["?", "?"]);
        assert_eq!(rows(db).await, 0);
    }
}
