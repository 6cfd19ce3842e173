//! The grids as text snapshots, and the laws as properties.

mod grid;
mod ids;
mod laws;

use crate::{Amount, Content, Currency, PaymentKey};

fn content(order_id: &str, amount: i64, currency: &str) -> Content {
    Content {
        order_id: order_id.parse().unwrap(),
        amount: Amount::try_from(amount).unwrap(),
        currency: currency.parse::<Currency>().unwrap(),
    }
}

fn key(transaction_id: &str, kind: &str) -> PaymentKey {
    PaymentKey {
        provider: "acme".parse().unwrap(),
        transaction_id: transaction_id.parse().unwrap(),
        kind: kind.parse().unwrap(),
    }
}
