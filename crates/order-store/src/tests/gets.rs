//! Orders read by id while others are read: each reader gets its own answer.

use std::task::{Context, Waker};

use futures_util::future::{join_all, maybe_done};

use super::*;
use crate::error::Error;

async fn get(store: &Store, id: &str) -> String {
    match store.get_order(id.parse().unwrap()).await {
        Ok(Some(order)) => format!("{} {}", order.order_id, order.version),
        Ok(None) => "none".to_owned(),
        Err(Error::Inconsistent { id, column, .. }) => format!("{id} {column}"),
        Err(error) => panic!("{error}"),
    }
}

on_both! {
    async fn each_reader_gets_its_own_order(db) {
        for number in 0..20 {
            db.store.create_order(new_order(&format!("O{number}"), 1000, "EUR")).await.unwrap();
        }
        record(&db.store, &["succeeded t1 O7 1000 EUR"]).await;
        let asked: Vec<String> = (0..600).map(|turn| format!("O{}", turn * 7 % 30)).collect();
        let answers = join_all(asked.iter().map(|id| get(&db.store, id))).await;
        for (id, answer) in asked.iter().zip(answers) {
            let number: u32 = id[1..].parse().unwrap();
            let expected = match number {
                7 => format!("{id} 2"),
                0..20 => format!("{id} 1"),
                _ => "none".to_owned(),
            };
            assert_eq!(answer, expected);
        }
    }

    async fn a_row_that_cannot_be_read_is_an_error_of_its_own_readers(db) {
        for id in ["O1", "O2"] {
            db.store.create_order(new_order(id, 1000, "EUR")).await.unwrap();
        }
        db.loosen("orders").await;
        db.tamper("UPDATE orders SET currency = 'eur' WHERE order_id = 'O1'").await;
        let asked = ["O1", "O2", "O3"].repeat(20);
        let answers = join_all(asked.iter().map(|id| get(&db.store, id))).await;
        let expected = ["O1 currency", "O2 1", "none"].repeat(20);
        assert_eq!(answers, expected);
    }

    async fn a_reader_that_goes_away_leaves_the_others_their_answers(db) {
        db.store.create_order(new_order("O1", 1000, "EUR")).await.unwrap();
        for _ in 0..50 {
            let mut readers: Vec<_> =
                (0..6).map(|_| Box::pin(maybe_done(get(&db.store, "O1")))).collect();
            // Each asks; the first ones have the turns. Some may have their answers already.
            for reader in &mut readers {
                let _ = reader.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
            let left = readers.split_off(3);
            drop(readers);
            for mut reader in left {
                reader.as_mut().await;
                assert_eq!(reader.as_mut().take_output().as_deref(), Some("O1 1"));
            }
        }
    }
}
