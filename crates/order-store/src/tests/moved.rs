//! Listeners are notified of every committed step, and of nothing else.

use std::sync::{Arc, Mutex};

use order_fsm::OrderEvent;

use super::*;
use crate::{Closing, Listener, Moved, NewDeadLetter, Operation, Resolution};

#[derive(Debug, Default)]
struct Heard(Mutex<Vec<String>>);

impl Listener for Heard {
    fn moved(&self, orders: &[Moved]) {
        let lines = orders
            .iter()
            .map(|moved| format!("{} {}", moved.order_id, moved.version));
        self.0.lock().unwrap().extend(lines);
    }
}

impl Heard {
    fn take(&self) -> Vec<String> {
        let mut heard = std::mem::take(&mut *self.0.lock().unwrap());
        heard.sort();
        heard
    }
}

fn operation(order_id: &str, event: OrderEvent) -> Operation {
    Operation {
        order_id: order_id.parse().unwrap(),
        event,
        source: Source::Api,
        actor: "shop".to_owned(),
        reason: None,
        if_version: None,
        refused_as: REFUSED_AS,
    }
}

on_both! {
    async fn every_way_to_move_an_order_is_reported(db) {
        let heard = Arc::new(Heard::default());
        let listener = heard.clone();
        let store = db.store.with_options(|options| options.listener = Some(listener));

        record(&store, &["succeeded tx0 O0 1000 EUR"]).await;
        assert_eq!(heard.take(), [""; 0]);
        store.create_order(new_order("O0", 1000, "EUR")).await.unwrap();
        assert_eq!(heard.take(), ["O0 1", "O0 2"], "a creation that settles");
        store.create_order(new_order("O0", 1000, "EUR")).await.unwrap();
        for id in ["O1", "O2", "O3"] {
            store.create_order(new_order(id, 1000, "EUR")).await.unwrap();
        }
        assert_eq!(heard.take(), ["O1 1", "O2 1", "O3 1"]);
        record(&store, &["succeeded tx1 O1 1000 EUR", "succeeded tx2 O2 999 EUR",
                         "succeeded tx3 O1 1000 EUR", "succeeded tx0 O0 1000 EUR"]).await;
        assert_eq!(heard.take(), ["O1 2"]);
        store.operate(operation("O1", OrderEvent::Ship)).await.unwrap();
        store.operate(operation("O1", OrderEvent::Ship)).await.unwrap();
        store.operate(operation("O1", OrderEvent::Cancel)).await.unwrap();
        store.operate(operation("O3", OrderEvent::Cancel)).await.unwrap();
        assert_eq!(heard.take(), ["O1 3", "O3 2"]);

        let open = store.list_exceptions(crate::ExceptionFilter::default(), Place::START, 10).await.unwrap().items;
        let mismatch = open.iter().find(|e| e.verdict == Verdict::AmountMismatch).unwrap();
        let closing = Closing {
            id: mismatch.id.clone(),
            resolution: Resolution::Accepted,
            note: "rounding".to_owned(),
            actor: "ann".to_owned(),
            refused_as: REFUSED_AS.illegal,
        };
        store.close_exception(closing).await.unwrap();
        assert_eq!(heard.take(), ["O2 2"]);

        let letter = NewDeadLetter {
            stream: "PAYMENTS".to_owned(),
            subject: "payments.events.acme".to_owned(),
            sequence: 7,
            headers: "{}".to_owned(),
            body: b"x".to_vec(),
            reason: "invalid-json",
            detail: "x".to_owned(),
        };
        let id = letter.id();
        let batch = crate::Batch { facts: Vec::new(), dead_letters: vec![letter] };
        store.record_payments(batch).await.unwrap();
        store.create_order(new_order("O4", 1000, "EUR")).await.unwrap();
        heard.take();
        let replayed = fact("succeeded tx4 O4 1000 EUR");
        store.replay_dead_letter(id.clone(), replayed.clone(), true).await.unwrap();
        assert_eq!(heard.take(), [""; 0], "a dry run moves nothing");
        store.replay_dead_letter(id, replayed, false).await.unwrap();
        assert_eq!(heard.take(), ["O4 2"]);
    }
}
