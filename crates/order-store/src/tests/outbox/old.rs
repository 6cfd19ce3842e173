//! What an older version of this service writes beside this one, or left behind.

use super::*;
use crate::CarriedOver;

/// Writes as an older version does: nothing to the outbox.
async fn old_step(db: &TestDb, id: &'static str, from: &'static str, to: &'static str) {
    const STEP: Sql = Sql::both(
        "INSERT INTO transitions
                (order_id, version, from_status, to_status, event, source, actor, at)
         SELECT order_id, version + 1, $2, $3, 'pay', 'api', 'shop', updated_at
           FROM orders WHERE order_id = $1",
    );
    const ORDER: Sql =
        Sql::both("UPDATE orders SET status = $2, version = version + 1 WHERE order_id = $1");
    let args = (id, from, to);
    let done = db.store.write(
        "testing",
        args,
        async |tx: &mut Tx, (id, from, to): &(&str, &str, &str)| {
            execute!(tx.conn(), STEP, *id, *from, *to).map_err(doing("testing"))?;
            execute!(tx.conn(), ORDER, *id, *to).map_err(doing("testing"))
        },
    );
    assert_eq!(done.await.unwrap(), 1);
}

/// Takes what a new version wrote for what an older one wrote.
async fn as_if_old(db: &TestDb) {
    db.tamper("DELETE FROM outbox").await;
    db.tamper("UPDATE transitions SET published_at = NULL")
        .await;
}

async fn carry_over(store: &Store, rows_max: i64) -> u64 {
    assert!(store.take_lease(&lease("a")).await.unwrap());
    let mut carried = 0;
    loop {
        match store.carry_over_of(&lease("a"), rows_max).await.unwrap() {
            CarriedOver::Events(events) => carried += events,
            CarriedOver::Nothing => return carried,
            CarriedOver::LeaseLost => panic!("the lease is ours"),
        }
    }
}

on_both! {
    async fn a_backlog_is_carried_over_in_steps(db) {
        for number in 0..7 {
            let id = format!("O{number}");
            create(&db.store, &id).await;
            record(&db.store, &[&format!("succeeded tx{number} {id} 1000 EUR"),
                                &format!("succeeded second{number} {id} 1000 EUR")]).await;
        }
        let told = waiting(&db.store, SMALL).await;
        for rows_max in [1, 3, 100] {
            as_if_old(db).await;
            db.tamper("UPDATE payment_exceptions SET published_at = NULL").await;
            db.tamper("UPDATE transitions SET set_aside = 'too large' WHERE order_id = 'O2' AND version = 1").await;
            assert!(first_page(&db.store).await.has_old);
            let gauges = db.store.outbox_gauges().await.unwrap();
            assert_eq!(gauges.unpublished, 20, "all but what was set aside");
            assert_eq!(carry_over(&db.store, rows_max).await, 21);
            assert!(!first_page(&db.store).await.has_old);
            let events = waiting(&db.store, SMALL).await;
            let mut names = names(&events);
            for number in 0..7 {
                let place = |version| names.iter().position(|id| *id == format!("O{number}/{version}")).unwrap();
                assert!(place(1) < place(2), "{names:?}");
            }
            names.sort_unstable();
            let mut expected = super::names(&told);
            expected.sort_unstable();
            assert_eq!(names, expected);
            for event in events.iter().filter(|event| event.order.is_some()) {
                let first = told.iter().find(|first| first.order == event.order).unwrap();
                assert_eq!(first.body.as_ref().unwrap(), event.body.as_ref().unwrap());
            }
            assert_eq!(carry_over(&db.store, rows_max).await, 0);
        }
    }

    async fn steps_of_both_versions_come_in_their_order(db) {
        // Old, new, old.
        create(&db.store, "O1").await;
        as_if_old(db).await;
        record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await;
        old_step(db, "O1", "PAID", "SHIPPED").await;
        // New, old, new.
        create(&db.store, "O2").await;
        old_step(db, "O2", "NOT_PAID", "PAID").await;
        ship(&db.store, "O2").await;
        carry_over(&db.store, 100).await;
        let told = drain(&db.store, "a").await;
        for id in ["O1", "O2"] {
            let mut expected = 1;
            for name in told.iter().filter(|name| name.starts_with(id)) {
                let version: i64 = name.split_once('/').unwrap().1.parse().unwrap();
                assert!(version <= expected, "{told:?}");
                expected = expected.max(version + 1);
            }
            assert_eq!(expected, 4, "{told:?}");
        }
    }

    async fn events_that_an_older_relay_published_are_not_published_again(db) {
        create(&db.store, "O1").await;
        as_if_old(db).await;
        db.tamper("UPDATE transitions SET published_at = at").await;
        record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await;
        old_step(db, "O1", "PAID", "SHIPPED").await;
        carry_over(&db.store, 100).await;
        assert_eq!(drain(&db.store, "a").await, ["O1/2", "O1/3", "O1/2"]);
    }

    async fn a_damaged_row_is_carried_over_as_it_is(db) {
        create(&db.store, "O1").await;
        create(&db.store, "O2").await;
        as_if_old(db).await;
        db.loosen("transitions").await;
        db.tamper("UPDATE transitions SET source = 'oracle' WHERE order_id = 'O1'").await;
        db.tamper("DELETE FROM orders WHERE order_id = 'O2'").await;
        create(&db.store, "O3").await;
        assert_eq!(carry_over(&db.store, 1).await, 2);
        let events = waiting(&db.store, SMALL).await;
        let mut orders: Vec<_> = events.iter().map(|event| event.order.clone().unwrap().0).collect();
        orders.sort_unstable();
        assert_eq!(orders, ["O1", "O2", "O3"]);
        assert_eq!(events.iter().filter(|event| event.body.is_err()).count(), 2);
    }

    async fn older_relays_stay_away_until_no_newer_one_is_left(db) {
        // Older versions have no longest time to hold a lease, so that of this one must not interfere.
        let ttl = std::time::Duration::from_mins(1);
        let old = Lease { name: "relay", ttl, ..lease("old") };
        assert!(db.store.take_lease(&old).await.unwrap());
        db.store.keep_older_relays_away().await.unwrap();
        assert!(!db.store.renew_lease(&old).await.unwrap(), "it marks nothing any more");
        assert!(!db.store.take_lease(&old).await.unwrap());
        // Every step of a newer one renews that.
        let later = db.at(NOW + Duration::seconds(50));
        assert!(later.take_lease(&lease("a")).await.unwrap());
        assert_eq!(later.carry_over(&lease("a")).await.unwrap(), CarriedOver::Nothing);
        let later = db.at(NOW + Duration::seconds(100));
        assert!(!later.take_lease(&old).await.unwrap());
        let later = db.at(NOW + Duration::seconds(111));
        assert!(later.take_lease(&old).await.unwrap());
    }

    async fn nothing_is_carried_over_without_the_lease(db) {
        create(&db.store, "O1").await;
        as_if_old(db).await;
        assert_eq!(db.store.carry_over(&lease("a")).await.unwrap(), CarriedOver::LeaseLost);
        assert_eq!(rows(db).await, 0);
        assert!(first_page(&db.store).await.has_old);
    }
}
