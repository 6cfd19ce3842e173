//! The rules combined in memory, one fact after the other, without any race.
//!
//! The service doesn't work like this; the book is its yardstick. Whatever concurrent writers make
//! of a set of facts must be a state that a book reaches with the same facts in some order.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Amount, Content, Currency, Decision, Fact, OrderEvent, OrderFacts, OrderId, OrderStatus,
    PaymentKey, PaymentKind, Verdict, decide, judge,
};

/// An order in the book.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BookOrder {
    /// Its status.
    pub status: OrderStatus,
    /// The amount due.
    pub amount: Amount,
    /// The currency of the amount.
    pub currency: Currency,
    /// The number of its transitions, its creation included.
    pub version: i64,
    /// The payment that paid it.
    pub paid_by: Option<PaymentKey>,
}

/// A recorded payment in the book.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BookPayment {
    /// The order and the money that it named.
    pub content: Content,
    /// What it did to its order.
    pub verdict: Verdict,
}

/// What makes an exception unique.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExceptionKey {
    /// Why the payment needs a person.
    pub verdict: Verdict,
    /// The payment.
    pub payment: PaymentKey,
    /// The order and the money that the payment named.
    pub content: Content,
}

/// Orders, payments and exceptions of one service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Book {
    live: bool,
    orders: BTreeMap<OrderId, BookOrder>,
    payments: BTreeMap<PaymentKey, BookPayment>,
    waiting: Vec<PaymentKey>,
    exceptions: BTreeSet<ExceptionKey>,
}

impl Book {
    /// An empty book; `live` is the service's live mode.
    pub fn new(live: bool) -> Self {
        Self {
            live,
            orders: BTreeMap::new(),
            payments: BTreeMap::new(),
            waiting: Vec::new(),
            exceptions: BTreeSet::new(),
        }
    }

    /// The orders.
    pub fn orders(&self) -> &BTreeMap<OrderId, BookOrder> {
        &self.orders
    }

    /// The recorded payments.
    pub fn payments(&self) -> &BTreeMap<PaymentKey, BookPayment> {
        &self.payments
    }

    /// The exceptions, open or closed.
    pub fn exceptions(&self) -> &BTreeSet<ExceptionKey> {
        &self.exceptions
    }

    /// Creates an order and settles the payments that waited for it. An existing order doesn't
    /// change.
    pub fn create(&mut self, order_id: &OrderId, amount: Amount, currency: Currency) {
        if self.orders.contains_key(order_id) {
            return;
        }
        let order = BookOrder {
            status: OrderStatus::NotPaid,
            amount,
            currency,
            version: 1,
            paid_by: None,
        };
        self.orders.insert(order_id.clone(), order);

        let keys: Vec<PaymentKey> = self
            .waiting
            .extract_if(.., |key| self.payments[key].content.order_id == *order_id)
            .collect();
        for key in keys {
            let content = self.payments[&key].content.clone();
            let fact = Fact {
                kind: PaymentKind::Succeeded,
                livemode: self.live,
                content,
            };
            let verdict = judge(self.live, None, self.order_facts(order_id).as_ref(), &fact);
            self.record(key, fact.content, verdict);
        }
    }

    /// Judges and records one delivery of a payment, and returns its verdict.
    pub fn deliver(&mut self, key: &PaymentKey, livemode: bool, content: &Content) -> Verdict {
        let fact = Fact {
            kind: key.kind.clone(),
            livemode,
            content: content.clone(),
        };
        let known = self.payments.get(key).map(|payment| &payment.content);
        let order = self.order_facts(&content.order_id);
        let verdict = judge(self.live, known, order.as_ref(), &fact);
        if verdict == Verdict::WaitingForOrder {
            self.waiting.push(key.clone());
        }
        self.record(key.clone(), fact.content, verdict);
        verdict
    }

    /// Carries out an operation if it is legal and the order exists. An order with an exception for
    /// money received is not cancelled: the money waits for a person.
    pub fn operate(&mut self, order_id: &OrderId, event: OrderEvent) -> Option<Decision> {
        let holds_money = self.exceptions.iter().any(|exception| {
            exception.content.order_id == *order_id
                && exception.payment.kind == PaymentKind::Succeeded
                && exception.verdict != Verdict::NotLive
                && exception.verdict != Verdict::ConflictingContent
        });
        let order = self.orders.get_mut(order_id)?;
        let decision = decide(order.status, event);
        if event == OrderEvent::Cancel && holds_money {
            return Some(decision);
        }
        if let Decision::Advance(step) = decision {
            order.status = step.to;
            order.version += 1;
        }
        Some(decision)
    }

    fn order_facts(&self, order_id: &OrderId) -> Option<OrderFacts> {
        self.orders.get(order_id).map(|order| OrderFacts {
            status: order.status,
            amount: order.amount,
            currency: order.currency,
        })
    }

    fn record(&mut self, key: PaymentKey, content: Content, verdict: Verdict) {
        if verdict.opens_exception(&key.kind) {
            let payment = key.clone();
            self.exceptions.insert(ExceptionKey {
                verdict,
                payment,
                content: content.clone(),
            });
        }
        if verdict == Verdict::Applied
            && let Some(order) = self.orders.get_mut(&content.order_id)
        {
            order.status = OrderStatus::Paid;
            order.version += 1;
            order.paid_by = Some(key.clone());
        }
        if verdict.is_recorded() {
            self.payments.insert(key, BookPayment { content, verdict });
        }
    }
}
