//! Leases: one holder of a name at a time.

use std::time::Duration as StdDuration;

use time::Duration;
use tokio::task::JoinSet;

use super::*;
use crate::Lease;

fn lease(holder: &str) -> Lease {
    Lease {
        name: "outbox",
        holder: holder.to_owned(),
        ttl: StdDuration::from_secs(10),
    }
}

on_both! {
    async fn a_lease_has_one_holder_at_a_time(db) {
        let (a, b) = (lease("a"), lease("b"));
        assert!(db.store.take_lease(&a).await.unwrap());
        assert!(db.store.take_lease(&a).await.unwrap(), "its holder renews it");
        assert!(!db.store.take_lease(&b).await.unwrap());
        assert_eq!(db.store.lease_holder("outbox").await.unwrap().as_deref(), Some("a"));
        let later = db.at(NOW + Duration::seconds(10));
        assert_eq!(later.lease_holder("outbox").await.unwrap(), None);
        assert!(later.take_lease(&b).await.unwrap(), "it ran out");
        assert!(!later.renew_lease(&a).await.unwrap());
        later.release_lease(&a).await.unwrap();
        assert_eq!(later.lease_holder("outbox").await.unwrap().as_deref(), Some("b"));
        later.release_lease(&b).await.unwrap();
        assert!(later.take_lease(&a).await.unwrap());
    }

    async fn a_lease_beyond_any_time_to_hold_it_is_taken(db) {
        let (a, b) = (lease("a"), lease("b"));
        // The database's clock was ahead, and the holder is gone.
        assert!(db.at(NOW + Duration::hours(1)).take_lease(&a).await.unwrap());
        assert!(db.store.take_lease(&b).await.unwrap());
        assert!(!db.store.renew_lease(&a).await.unwrap());
        // Two transactions that overlap don't begin at the same time.
        assert!(db.at(NOW + Duration::seconds(9)).take_lease(&b).await.unwrap());
        assert!(!db.store.take_lease(&a).await.unwrap());
        for far in [
            Sql {
                postgres: "UPDATE leases SET expires_at = 'infinity'",
                sqlite: "UPDATE leases SET expires_at = 9223372036854775807",
            },
            Sql {
                postgres: "UPDATE leases SET expires_at = '-infinity'",
                sqlite: "UPDATE leases SET expires_at = -9223372036854775808",
            },
        ] {
            db.store.write("testing", far, execute_one).await.unwrap();
            let taker = lease(far.postgres);
            assert!(db.store.take_lease(&taker).await.unwrap(), "{far:?}");
            assert!(!db.store.take_lease(&b).await.unwrap(), "it is held as usual again");
        }
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

    async fn a_lease_that_is_seized_is_lost_by_its_holder(db) {
        let (a, b) = (lease("a"), lease("b"));
        assert!(db.store.take_lease(&a).await.unwrap());
        db.store.seize_lease(&b).await.unwrap();
        assert!(!db.store.renew_lease(&a).await.unwrap());
        assert!(!db.store.take_lease(&a).await.unwrap());
        assert_eq!(db.store.lease_holder("outbox").await.unwrap().as_deref(), Some("b"));
    }
}
