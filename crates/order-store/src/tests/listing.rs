//! The list of orders.

use order_fsm::{OrderEvent, OrderStatus};
use time::Duration;

use super::*;
use crate::{Operation, Order, OrderFilter};

/// All pages, as ids; none longer than `limit`.
async fn pages(store: &Store, filter: &OrderFilter, limit: u32) -> Vec<Vec<String>> {
    let (mut pages, mut from) = (Vec::new(), Some(Place::START));
    while let Some(at) = from {
        let page = store.list_orders(filter.clone(), at, limit);
        let page = page.await.unwrap();
        assert!(page.items.len() <= limit as usize);
        pages.push(page.items.iter().map(id).collect());
        from = page.next;
    }
    pages
}

fn id(order: &Order) -> String {
    order.order_id.to_string()
}

async fn ids(store: &Store, filter: &OrderFilter) -> Vec<String> {
    pages(store, filter, 3).await.concat()
}

fn created(after: Option<OffsetDateTime>, before: Option<OffsetDateTime>) -> OrderFilter {
    OrderFilter {
        status: None,
        created_after: after,
        created_before: before,
    }
}

on_both! {
    async fn orders_of_one_moment_are_each_listed_once(db) {
        // The order of the ids, not of their creation.
        for number in (10..25).rev() {
            db.store.create_order(new_order(&format!("O{number}"), 1, "EUR")).await.unwrap();
        }
        let expect: Vec<String> = (10..25).map(|number| format!("O{number}")).collect();
        for limit in [1, 4, 15, 16] {
            assert_eq!(pages(&db.store, &OrderFilter::default(), limit).await.concat(), expect);
        }
        assert_eq!(pages(&db.store, &OrderFilter::default(), 15).await.len(), 1);
    }

    async fn after_is_inclusive_and_before_exclusive_to_the_nanosecond(db) {
        let (first, second) = (NOW, NOW + Duration::MICROSECOND);
        for (id, at) in [("O1", first), ("O2", second), ("O3", second)] {
            db.at(at).create_order(new_order(id, 1, "EUR")).await.unwrap();
        }
        let between = first + Duration::NANOSECOND;
        for (after, before, expect) in [
            (Some(first), None, &["O1", "O2", "O3"][..]),
            (Some(between), None, &["O2", "O3"]),
            (Some(second), None, &["O2", "O3"]),
            (Some(second + Duration::NANOSECOND), None, &[]),
            (None, Some(first), &[]),
            (None, Some(between), &["O1"]),
            (None, Some(second), &["O1"]),
            (None, Some(second + Duration::NANOSECOND), &["O1", "O2", "O3"]),
            (Some(first), Some(second), &["O1"]),
            (Some(second), Some(first), &[]),
        ] {
            assert_eq!(ids(&db.store, &created(after, before)).await, expect, "{after:?} {before:?}");
        }
    }

    async fn a_status_is_found_however_far_apart_its_orders_are(db) {
        // 12,000 orders, of which the 2nd, the 5,000th, the 5,001st and the last are PAID.
        const ORDERS: Sql = Sql {
            postgres: "
                INSERT INTO orders (order_id, status, amount, currency, version, pay_by, created_at, updated_at)
                SELECT 'O' || n, CASE WHEN n IN (10002, 15000, 15001, 22000) THEN 'PAID' ELSE 'NOT_PAID' END,
                       1, 'EUR', 1, now(), now() + n * interval '1 microsecond', now()
                  FROM generate_series(10001, 22000) AS n",
            sqlite: "
                WITH RECURSIVE ns (n) AS (SELECT 10001 UNION ALL SELECT n + 1 FROM ns WHERE n < 22000)
                INSERT INTO orders (order_id, status, amount, currency, version, pay_by, created_at, updated_at)
                SELECT 'O' || n, CASE WHEN n IN (10002, 15000, 15001, 22000) THEN 'PAID' ELSE 'NOT_PAID' END,
                       1, 'EUR', 1, 0, n, 0
                  FROM ns",
        };
        let made = db.store.write("testing", ORDERS, execute_one);
        assert_eq!(made.await.unwrap(), 12_000);
        let paid = OrderFilter { status: Some(OrderStatus::Paid), ..OrderFilter::default() };
        assert_eq!(
            pages(&db.store, &paid, 50).await,
            [vec!["O10002", "O15000"], vec!["O15001"], vec!["O22000"]]
        );
        assert_eq!(
            pages(&db.store, &paid, 1).await,
            [vec!["O10002"], vec!["O15000"], vec!["O15001"], vec!["O22000"]]
        );
        let done = OrderFilter { status: Some(OrderStatus::Done), ..OrderFilter::default() };
        assert_eq!(pages(&db.store, &done, 200).await, [Vec::<String>::new(), vec![], vec![]]);
    }

    async fn orders_that_change_their_status_between_pages_stay_where_they_are(db) {
        for number in 10..25 {
            db.store.create_order(new_order(&format!("O{number}"), 1, "EUR")).await.unwrap();
        }
        let (mut seen, mut from) = (Vec::new(), Some(Place::START));
        while let Some(at) = from {
            let page = db.store.list_orders(OrderFilter::default(), at, 4).await.unwrap();
            seen.extend(page.items.iter().map(id));
            for order in page.items.iter().take(2) {
                db.store.operate(cancel(order)).await.unwrap();
            }
            from = page.next;
        }
        let expect: Vec<String> = (10..25).map(|number| format!("O{number}")).collect();
        assert_eq!(seen, expect);
        let filter = OrderFilter { status: Some(OrderStatus::Cancelled), ..OrderFilter::default() };
        assert_eq!(ids(&db.store, &filter).await.len(), 8);
    }
}

fn cancel(order: &Order) -> Operation {
    Operation {
        order_id: order.order_id.clone(),
        event: OrderEvent::Cancel,
        source: Source::Api,
        actor: "shop".to_owned(),
        reason: None,
        if_version: None,
        refused_as: REFUSED_AS,
    }
}
