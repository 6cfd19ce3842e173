//! Paying an order writes no index: its new row finds room on the page of the old one.

use super::*;
use crate::sql::Sql;

/// Each order and the page of its row.
const PAGES: Sql = Sql::both(
    "SELECT order_id || ' ' || split_part(ctid::text, ',', 1) FROM orders ORDER BY order_id",
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paid_orders_stay_on_their_pages() {
    const ORDERS: usize = 400;
    let db = TestDb::postgres().await;
    for number in 0..ORDERS {
        let order = new_order(&format!("OD-{number:08}"), 1000, "EUR");
        db.store.create_order(order).await.unwrap();
    }
    let before = db.strings(PAGES).await;
    let paid: Vec<String> = (0..ORDERS)
        .map(|number| format!("succeeded tx-{number:08} OD-{number:08} 1000 EUR"))
        .collect();
    let paid: Vec<&str> = paid.iter().map(String::as_str).collect();
    record(&db.store, &paid).await;
    let after = db.strings(PAGES).await;
    let stayed = before
        .iter()
        .zip(&after)
        .filter(|(before, after)| before == after)
        .count();
    assert!(
        stayed * 10 >= ORDERS * 8,
        "{stayed} of {ORDERS} stayed: the fill factor leaves too little room"
    );
}
