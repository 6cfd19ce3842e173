//! Which request holds a key, and what is answered under it.

use std::time::Duration;

use super::*;
use crate::{KEYS_KEPT, KeptAnswer, KeyClaim, KeyedRequest};

const HOLD: Duration = Duration::from_secs(10);

/// A request written as `actor key digest holder`.
fn request(text: &str) -> KeyedRequest {
    let words: Vec<&str> = text.split(' ').collect();
    let [actor, key, digest, holder] = words[..] else {
        panic!("{text:?} has not four words")
    };
    KeyedRequest {
        actor: actor.to_owned(),
        key: key.to_owned(),
        digest: digest.to_owned(),
        holder: holder.to_owned(),
    }
}

fn answer() -> KeptAnswer {
    KeptAnswer {
        status: 409,
        headers: vec![("etag".to_owned(), "\"2\"".to_owned())],
        body: b"\x00\xff{}".to_vec(),
    }
}

async fn claim(store: &Store, text: &str) -> KeyClaim {
    store.claim_key(request(text), HOLD).await.unwrap()
}

on_both! {
    async fn the_first_holder_answers_and_others_are_answered_the_same(db) {
        assert_eq!(claim(&db.store, "shop k1 d1 h1").await, KeyClaim::Held);
        assert_eq!(claim(&db.store, "shop k1 d1 h2").await, KeyClaim::InUse);
        // Another request is refused, not asked to wait.
        assert_eq!(claim(&db.store, "shop k1 d2 h2").await, KeyClaim::OtherRequest);
        assert!(!db.store.keep_answer(request("shop k1 d1 h2"), answer()).await.unwrap());
        assert!(db.store.keep_answer(request("shop k1 d1 h1"), answer()).await.unwrap());
        assert_eq!(claim(&db.store, "shop k1 d1 h3").await, KeyClaim::Answered(answer()));
        assert_eq!(claim(&db.store, "shop k1 d2 h3").await, KeyClaim::OtherRequest);
        // An answer is never written over.
        let other = KeptAnswer { status: 200, ..answer() };
        assert!(!db.store.keep_answer(request("shop k1 d1 h1"), other).await.unwrap());
        db.store.release_key(request("shop k1 d1 h1")).await.unwrap();
        assert_eq!(claim(&db.store, "shop k1 d1 h4").await, KeyClaim::Answered(answer()));
    }

    async fn a_key_stays_held_at_the_last_possible_moment(db) {
        assert_eq!(claim(&db.store, "shop k1 d1 h1").await, KeyClaim::Held);
        let last = match db.url.sqlite_path() {
            Some(_) => "UPDATE idempotency_keys SET created_at = 253402300799999999",
            None => "UPDATE idempotency_keys SET created_at = '9999-12-31 23:59:59.999999Z'",
        };
        db.tamper(last).await;
        assert_eq!(claim(&db.store, "shop k1 d1 h2").await, KeyClaim::InUse);
    }

    async fn keys_are_per_actor_and_compared_byte_for_byte(db) {
        for request in ["shop k d1 h", "till k d2 h", "shop K d3 h", "shop kk d4 h"] {
            assert_eq!(claim(&db.store, request).await, KeyClaim::Held, "{request}");
        }
    }

    async fn a_released_key_is_free_for_the_same_request_only(db) {
        assert_eq!(claim(&db.store, "shop k1 d1 h1").await, KeyClaim::Held);
        db.store.release_key(request("shop k1 d1 h2")).await.unwrap();
        assert_eq!(claim(&db.store, "shop k1 d1 h2").await, KeyClaim::InUse);
        db.store.release_key(request("shop k1 d1 h1")).await.unwrap();
        assert_eq!(claim(&db.store, "shop k1 d2 h2").await, KeyClaim::OtherRequest);
        assert_eq!(claim(&db.store, "shop k1 d1 h2").await, KeyClaim::Held);
    }

    async fn a_dead_holder_is_taken_over_when_its_time_is_over_and_keeps_nothing(db) {
        assert_eq!(claim(&db.store, "shop k1 d1 h1").await, KeyClaim::Held);
        let just_before = db.at(NOW + HOLD - Duration::from_micros(1));
        assert_eq!(claim(&just_before, "shop k1 d1 h2").await, KeyClaim::InUse);
        let then = db.at(NOW + HOLD);
        assert_eq!(claim(&then, "shop k1 d2 h2").await, KeyClaim::OtherRequest);
        assert_eq!(claim(&then, "shop k1 d1 h2").await, KeyClaim::Held);
        assert_eq!(claim(&then, "shop k1 d1 h3").await, KeyClaim::InUse);
        assert!(!db.store.keep_answer(request("shop k1 d1 h1"), answer()).await.unwrap());
        assert!(db.store.keep_answer(request("shop k1 d1 h2"), answer()).await.unwrap());
    }

    async fn a_key_that_is_held_beyond_any_request_is_taken_over(db) {
        // The database's clock was ahead.
        let ahead = db.at(NOW + Duration::from_hours(1));
        assert_eq!(claim(&ahead, "shop k1 d1 h1").await, KeyClaim::Held);
        assert_eq!(claim(&db.store, "shop k1 d2 h2").await, KeyClaim::OtherRequest);
        assert_eq!(claim(&db.store, "shop k1 d1 h2").await, KeyClaim::Held);
        assert!(!db.store.keep_answer(request("shop k1 d1 h1"), answer()).await.unwrap());
        // Two transactions that overlap don't begin at the same time.
        let before = db.at(NOW - HOLD);
        assert_eq!(claim(&before, "shop k1 d1 h3").await, KeyClaim::InUse);
        let far = Sql {
            postgres: "UPDATE idempotency_keys SET held_until = 'infinity'",
            sqlite: "UPDATE idempotency_keys SET held_until = 9223372036854775807",
        };
        db.store.write("testing", far, execute_one).await.unwrap();
        assert_eq!(claim(&db.store, "shop k1 d1 h4").await, KeyClaim::Held);
        assert_eq!(claim(&db.store, "shop k1 d1 h5").await, KeyClaim::InUse);
        assert!(db.store.keep_answer(request("shop k1 d1 h4"), answer()).await.unwrap());
    }

    async fn a_key_may_be_used_again_after_a_day(db) {
        claim(&db.store, "shop k1 d1 h1").await;
        db.store.keep_answer(request("shop k1 d1 h1"), answer()).await.unwrap();
        let just_before = db.at(NOW + KEYS_KEPT - Duration::from_micros(1));
        assert_eq!(claim(&just_before, "shop k1 d1 h2").await, KeyClaim::Answered(answer()));
        assert_eq!(just_before.purge(Duration::ZERO, 10).await.unwrap(), 0);
        let then = db.at(NOW + KEYS_KEPT);
        assert_eq!(claim(&then, "shop k1 d2 h2").await, KeyClaim::Held);
        assert_eq!(claim(&then, "shop k1 d1 h3").await, KeyClaim::OtherRequest);
        assert_eq!(claim(&then, "shop k1 d2 h3").await, KeyClaim::InUse);
    }

    async fn old_keys_are_forgotten_and_young_ones_kept(db) {
        for number in 0..3 {
            claim(&db.store, &format!("shop k{number} d h")).await;
        }
        let later = db.at(NOW + KEYS_KEPT + Duration::from_secs(1));
        claim(&later, "shop young d h").await;
        assert_eq!(later.purge(Duration::from_hours(90 * 24), 1000).await.unwrap(), 3);
        assert_eq!(claim(&later, "shop young d h2").await, KeyClaim::InUse);
    }

    async fn of_many_at_once_one_holds_the_key(db) {
        let claims = (0..12).map(|number| {
            let store = db.store.clone();
            async move { claim(&store, &format!("shop k1 d1 h{number}")).await }
        });
        let claims = futures_util::future::join_all(claims).await;
        assert_eq!(claims.iter().filter(|claim| **claim == KeyClaim::Held).count(), 1, "{claims:?}");
        assert!(claims.iter().all(|claim| matches!(claim, KeyClaim::Held | KeyClaim::InUse)));
    }
}
