//! A service in memory: the contract's table of verdicts, one message after the other, with bugs to switch on.
//!
//! It reads the bytes that would be published, so that it shares only the contract with the ledger.

use std::collections::BTreeMap;

use order_payment_mock::Entry;
use serde_json::{Value, json};

use crate::Plan;
use crate::compare::Seen;
use crate::events::micros;
use crate::plan::{Message, Step};
use crate::truth::Truth;
use crate::view::{ExceptionView, HistoryItem, OrderView, PaidBy, PaymentView};
use crate::words::Verdict;

/// What the service does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    None,
    KnowsPaymentsByEventId,
    KnowsPaymentsByTransactionAlone,
    AppliesEverySuccess,
    ForgetsWaitingPayments,
    IgnoresAmounts,
    TakesTestMoney,
    LosesEveryTenthMessage,
    LosesOrders,
    OverwritesConflicts,
    RefundsUnpay,
}

impl Bug {
    pub(super) const ALL: [Self; 10] = [
        Self::KnowsPaymentsByEventId,
        Self::KnowsPaymentsByTransactionAlone,
        Self::AppliesEverySuccess,
        Self::ForgetsWaitingPayments,
        Self::IgnoresAmounts,
        Self::TakesTestMoney,
        Self::LosesEveryTenthMessage,
        Self::LosesOrders,
        Self::OverwritesConflicts,
        Self::RefundsUnpay,
    ];
}

const AHEAD: usize = 50;

type Key = (String, String, String, String);

pub(super) struct Model {
    bug: Bug,
    orders: BTreeMap<String, OrderView>,
    histories: BTreeMap<String, Vec<HistoryItem>>,
    /// In the order of their first delivery, which is the order in which waiting ones are settled.
    payments: Vec<(Key, PaymentView)>,
    exceptions: BTreeMap<String, ExceptionView>,
    events: Vec<(String, String, String)>,
    delivered: BTreeMap<Verdict, u64>,
}

impl Model {
    /// The service after all steps of the plan.
    pub(super) fn after(plan: &Plan, bug: Bug) -> Self {
        Self::play(plan, bug, None)
    }

    /// The same with a reconciliation, which asks now and then while the steps go on, and about all orders at the end.
    pub(super) fn healed(plan: &Plan) -> Self {
        Self::play(plan, Bug::None, Some(&Truth::of(plan)))
    }

    fn play(plan: &Plan, bug: Bug, truth: Option<&Truth>) -> Self {
        let mut model = Self {
            bug,
            orders: BTreeMap::new(),
            histories: BTreeMap::new(),
            payments: Vec::new(),
            exceptions: BTreeMap::new(),
            events: Vec::new(),
            delivered: BTreeMap::new(),
        };
        let mut next = (0..).take(plan.orders.len()).cycle();
        for (nth, step) in plan.steps.iter().enumerate() {
            // The payment service knows of a payment a while before its event comes.
            for step in plan.steps.iter().skip(nth).take(AHEAD) {
                if let (Step::Publish(message), Some(truth)) = (step, truth)
                    && let Message::Payment { fact, .. } = plan.message(*message)
                {
                    truth.happens(fact);
                }
            }
            match *step {
                Step::Create(order) => model.create(plan, order),
                Step::Cancel(order) => model.cancel(&plan.order_id(order)),
                Step::Publish(_) if bug == Bug::LosesEveryTenthMessage && nth % 10 == 0 => {}
                Step::Publish(message) => match plan.message(message) {
                    Message::Letter { .. } => model.count(Verdict::DeadLetter),
                    payment @ Message::Payment { .. } => model.deliver(&plan.body(payment)),
                },
            }
            if let Some(truth) = truth {
                if let Step::Cancel(order) = *step {
                    truth.cancelled(order);
                }
                model.ask(&plan.order_id(next.next().unwrap_or(0)), truth);
            }
        }
        if let Some(truth) = truth {
            (0u32..)
                .zip(&plan.orders)
                .for_each(|(order, _)| model.ask(&plan.order_id(order), truth));
        }
        model
    }

    pub(super) fn seen(&self, order_id: &str) -> Seen {
        let payments: Vec<PaymentView> = self
            .payments
            .iter()
            .map(|(_, payment)| payment)
            .filter(|payment| payment.order_id == order_id)
            .cloned()
            .collect();
        let order = self.orders.get(order_id).cloned();
        let exists = order.is_some() || !payments.is_empty();
        Seen {
            order,
            history: self.histories.get(order_id).cloned().unwrap_or_default(),
            payments: exists.then_some(payments),
        }
    }

    pub(super) fn exceptions(&self) -> Vec<ExceptionView> {
        self.exceptions.values().cloned().collect()
    }

    pub(super) fn events(&self) -> Vec<(String, String, String)> {
        self.events.clone()
    }

    pub(super) fn delivered(&self, verdict: Verdict) -> u64 {
        self.delivered.get(&verdict).copied().unwrap_or(0)
    }

    fn count(&mut self, verdict: Verdict) {
        *self.delivered.entry(verdict).or_default() += 1;
    }

    fn create(&mut self, plan: &Plan, number: u32) {
        if self.bug == Bug::LosesOrders && number.is_multiple_of(50) {
            return;
        }
        let order_id = plan.order_id(number);
        let planned = plan.order(number);
        let order = OrderView {
            order_id: order_id.clone(),
            status: "NOT_PAID".to_owned(),
            amount: planned.amount,
            currency: planned.currency.as_str().to_owned(),
            version: 0,
            paid_by: None,
        };
        self.orders.insert(order_id.clone(), order);
        self.step(&order_id, "create", "NOT_PAID", None);
        if self.bug == Bug::ForgetsWaitingPayments {
            return;
        }
        for place in 0..self.payments.len() {
            let payment = self.payments[place].1.clone();
            if payment.order_id == order_id && payment.verdict == "WAITING_FOR_ORDER" {
                let verdict = self.judge(&payment);
                self.payments[place].1.verdict = verdict.as_str().to_owned();
            }
        }
    }

    fn cancel(&mut self, order_id: &str) {
        if self
            .orders
            .get(order_id)
            .is_some_and(|order| order.status == "NOT_PAID")
        {
            self.step(order_id, "cancel", "CANCELLED", None);
        }
    }

    fn deliver(&mut self, body: &[u8]) {
        let event: Value = serde_json::from_slice(body).expect("the plan's events are JSON");
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let payment = PaymentView {
            provider: text("provider"),
            transaction_id: text("transaction_id"),
            kind: text("type").replace("payment.", ""),
            event_id: Some(text("event_id")),
            order_id: text("order_id"),
            verdict: String::new(),
            amount: event["amount"].as_u64().unwrap_or(0),
            currency: text("currency"),
            source: "event".to_owned(),
        };
        let verdict = self.record(payment, event["livemode"].as_bool().unwrap_or(true));
        self.count(verdict);
    }

    /// Asks the payment service about an order, and records the answer.
    fn ask(&mut self, order_id: &str, truth: &Truth) {
        if !self.orders.contains_key(order_id) {
            return;
        }
        for entry in truth.script().answer(order_id).entries() {
            let (kind, paid) = match entry {
                Entry::Paid(paid) => ("succeeded", paid),
                Entry::Refunded(paid) => ("refunded", paid),
                _ => continue,
            };
            let payment = PaymentView {
                provider: paid.provider.clone(),
                transaction_id: paid.transaction_id.clone(),
                kind: kind.to_owned(),
                event_id: None,
                order_id: order_id.to_owned(),
                verdict: String::new(),
                amount: paid.amount,
                currency: paid.currency.clone(),
                source: "reconciliation".to_owned(),
            };
            self.record(payment, true);
        }
    }

    fn record(&mut self, mut payment: PaymentView, live: bool) -> Verdict {
        let moves_money = ["succeeded", "refunded", "reversed"].contains(&payment.kind.as_str());
        if !live && self.bug != Bug::TakesTestMoney {
            if moves_money {
                self.except(&payment, Verdict::NotLive, None);
            }
            return Verdict::NotLive;
        }
        let key = self.key(&payment);
        if let Some(place) = self.payments.iter().position(|(known, _)| *known == key) {
            let known = self.payments[place].1.clone();
            let same = (&known.order_id, known.amount, &known.currency)
                == (&payment.order_id, payment.amount, &payment.currency);
            if same {
                return Verdict::Duplicate;
            }
            if self.bug == Bug::OverwritesConflicts {
                payment.verdict = self.judge(&payment).as_str().to_owned();
                self.payments[place].1 = payment;
            } else if moves_money {
                self.except(&payment, Verdict::ConflictingContent, Some(&known));
            }
            return Verdict::ConflictingContent;
        }
        let verdict = self.judge(&payment);
        payment.verdict = verdict.as_str().to_owned();
        self.payments.push((key, payment));
        verdict
    }

    fn key(&self, payment: &PaymentView) -> Key {
        let PaymentView {
            provider,
            transaction_id,
            kind,
            event_id,
            ..
        } = payment.clone();
        match self.bug {
            Bug::KnowsPaymentsByEventId => {
                (provider, transaction_id, kind, event_id.unwrap_or_default())
            }
            Bug::KnowsPaymentsByTransactionAlone => {
                (provider, transaction_id, String::new(), String::new())
            }
            _ => (provider, transaction_id, kind, String::new()),
        }
    }

    fn judge(&mut self, payment: &PaymentView) -> Verdict {
        let order = self.orders.get(&payment.order_id).cloned();
        let blind = self.bug == Bug::IgnoresAmounts;
        let verdict = match (payment.kind.as_str(), &order) {
            ("failed" | "expired", _) => Verdict::AttemptFailed,
            ("refunded" | "reversed", _) => Verdict::Reversed,
            ("succeeded", None) => Verdict::WaitingForOrder,
            ("succeeded", Some(order)) => match order.status.as_str() {
                "PAID" if self.bug != Bug::AppliesEverySuccess => Verdict::SecondPayment,
                "CANCELLED" => Verdict::PaidAfterCancel,
                _ if order.currency != payment.currency => Verdict::CurrencyMismatch,
                _ if order.amount != payment.amount && !blind => Verdict::AmountMismatch,
                _ => Verdict::Applied,
            },
            _ => Verdict::Unsupported,
        };
        if verdict == Verdict::Applied {
            self.step(&payment.order_id, "pay", "PAID", Some(payment));
        } else if verdict.is_refusal() {
            let item = self.item(&payment.order_id, "pay", None, Some(payment), Some(verdict));
            self.histories
                .entry(payment.order_id.clone())
                .or_default()
                .push(item);
        }
        if verdict.demands_exception() {
            self.except(payment, verdict, None);
        }
        if verdict == Verdict::Reversed && self.bug == Bug::RefundsUnpay && order.is_some() {
            self.step(&payment.order_id, "refund", "NOT_PAID", None);
        }
        verdict
    }

    /// Moves the order, with an item in its history and an event.
    fn step(&mut self, order_id: &str, event: &str, to: &str, by: Option<&PaymentView>) {
        let mut item = self.item(order_id, event, Some(to), by, None);
        let order = self
            .orders
            .get_mut(order_id)
            .expect("only existing orders move");
        order.version += 1;
        item.version = order.version;
        to.clone_into(&mut order.status);
        if let Some(by) = by {
            order.paid_by = Some(PaidBy {
                provider: by.provider.as_str().into(),
                transaction_id: by.transaction_id.as_str().into(),
            });
        }
        let word = match to {
            "NOT_PAID" => "created",
            "PAID" => "paid",
            _ => "cancelled",
        };
        let body = json!({
            "event": format!("order.{word}"), "order_id": order_id, "version": item.version,
            "from": item.from, "to": to, "amount": order.amount, "currency": order.currency,
            "provider": item.provider, "transaction_id": item.transaction_id,
            "source": item.source, "reason": item.reason, "at": item.at,
        });
        let id = format!("{order_id}/{}/{}", item.version, micros(&item.at));
        self.events
            .push((format!("orders.events.{word}"), id, body.to_string()));
        self.histories
            .entry(order_id.to_owned())
            .or_default()
            .push(item);
    }

    fn item(
        &self,
        order_id: &str,
        event: &str,
        to: Option<&str>,
        by: Option<&PaymentView>,
        refusal: Option<Verdict>,
    ) -> HistoryItem {
        let order = &self.orders[order_id];
        HistoryItem {
            version: order.version,
            from: (order.version > 0).then(|| order.status.as_str().into()),
            to: to.map(Box::from),
            event: event.into(),
            outcome: if refusal.is_some() {
                "refused"
            } else {
                "applied"
            }
            .into(),
            source: by.map_or("api", |by| &by.source).into(),
            reason: refusal.map(|verdict| verdict.as_str().into()),
            provider: by.map(|by| by.provider.as_str().into()),
            transaction_id: by.map(|by| by.transaction_id.as_str().into()),
            at: "2026-11-29T08:00:00.123456Z".into(),
        }
    }

    fn except(&mut self, payment: &PaymentView, verdict: Verdict, known: Option<&PaymentView>) {
        let PaymentView {
            provider,
            transaction_id,
            kind,
            order_id,
            amount,
            currency,
            ..
        } = payment.clone();
        let id =
            format!("{verdict} {provider} {transaction_id} {kind} {order_id} {amount} {currency}");
        let order = self.orders.get(&order_id);
        let view = ExceptionView {
            id: id.clone(),
            verdict: verdict.as_str().to_owned(),
            expected_order_id: known.map(|known| known.order_id.clone()),
            expected_amount: known.map(|k| k.amount).or(order.map(|o| o.amount)),
            expected_currency: known
                .map(|k| k.currency.clone())
                .or(order.map(|o| o.currency.clone())),
            order_id,
            provider,
            transaction_id,
            kind,
            amount,
            currency,
            state: "open".to_owned(),
        };
        if self.exceptions.insert(id.clone(), view.clone()).is_none() {
            let body = json!({
                "event": "payment.exception", "id": id, "verdict": view.verdict,
                "order_id": view.order_id, "provider": view.provider,
                "transaction_id": view.transaction_id, "kind": view.kind,
                "amount": view.amount, "currency": view.currency,
                "expected_order_id": view.expected_order_id,
                "expected_amount": view.expected_amount,
                "expected_currency": view.expected_currency, "state": view.state,
            });
            self.events.push((
                "orders.events.payment_exception".to_owned(),
                id,
                body.to_string(),
            ));
        }
    }
}
