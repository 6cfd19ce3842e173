//! What is legal: the order state machine and the judgement of payments.
//!
//! Pure: nothing here awaits, reads a clock, does IO or knows a wire format. Time and ids are
//! arguments, and every function is total. It deliberately stores nothing; `order-store` applies
//! the same rules in SQL and asks this crate which statuses its guards expect.
//!
//! Enter at [`decide`] (an operation on an order) and [`judge`] (a payment). [`Book`] combines both
//! in memory, one fact at a time: every concurrent execution is measured against it.

// A new status, event, kind or verdict must break the build wherever the code decides by it.
#![deny(clippy::wildcard_enum_match_arm)]

mod book;
mod event;
mod ids;
mod payment;
mod status;
mod transition;

pub use book::{Book, BookOrder, BookPayment, ExceptionKey};
pub use event::OrderEvent;
pub use ids::{
    Amount, Currency, EventId, InvalidId, InvalidMoney, OrderId, Provider, TransactionId,
};
pub use payment::{
    Content, Fact, InvalidKind, OrderFacts, OtherKind, PaymentKey, PaymentKind, UnknownVerdict,
    Verdict, judge,
};
pub use status::{OrderStatus, UnknownStatus};
pub use transition::{Decision, Refusal, Transition, decide, diagram};

#[cfg(test)]
mod tests;
