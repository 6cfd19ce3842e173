//! What the payment service knows of an order.

use std::borrow::Cow;

use serde::Serialize;

/// Stands for the order's id in texts that are made for many orders.
const PLACEHOLDER: &str = "{order_id}";

/// The entries about one order, in their order; none leaves it out of the reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer(Vec<Entry>);

/// One entry of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The money is there.
    Paid(Payment),
    /// The money was there and went back.
    Refunded(Payment),
    /// There is no money.
    Unpaid {
        /// There will never be any.
        is_final: bool,
    },
    /// Somebody is paying.
    Pending,
    /// The service doesn't know.
    Unknown,
    /// This text in the place of an entry; `{order_id}` in it stands for the order's id.
    Raw(String),
}

/// A payment as the payment service tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// Who took the money.
    pub provider: String,
    /// The provider's name for it; `{order_id}` in it stands for the order's id.
    pub transaction_id: String,
    /// Minor units.
    pub amount: u64,
    /// ISO 4217.
    pub currency: String,
    /// RFC 3339.
    pub occurred_at: String,
}

impl Payment {
    /// A payment of some Sunday in November.
    pub fn new(provider: &str, transaction_id: &str, amount: u64, currency: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            transaction_id: transaction_id.to_owned(),
            amount,
            currency: currency.to_owned(),
            occurred_at: "2026-11-29T08:00:00Z".to_owned(),
        }
    }
}

impl Answer {
    /// The order is left out.
    pub fn absent() -> Self {
        Self::default()
    }

    /// Paid by this payment.
    pub fn paid(payment: Payment) -> Self {
        Self(vec![Entry::Paid(payment)])
    }

    /// Paid once and given back.
    pub fn refunded(payment: Payment) -> Self {
        Self(vec![Entry::Refunded(payment)])
    }

    /// Not paid, and may be paid yet.
    pub fn unpaid() -> Self {
        Self(vec![Entry::Unpaid { is_final: false }])
    }

    /// Not paid, and never will be.
    pub fn unpaid_for_good() -> Self {
        Self(vec![Entry::Unpaid { is_final: true }])
    }

    /// Being paid.
    pub fn pending() -> Self {
        Self(vec![Entry::Pending])
    }

    /// The service says that it doesn't know.
    pub fn unknown() -> Self {
        Self(vec![Entry::Unknown])
    }

    /// Paid, but an entry without its money can't be read.
    pub fn unreadable() -> Self {
        let text = format!(r#"{{"order_id":"{PLACEHOLDER}","state":"paid"}}"#);
        Self(vec![Entry::Raw(text)])
    }

    /// Any text in the place of an entry.
    pub fn raw(text: impl Into<String>) -> Self {
        Self(vec![Entry::Raw(text.into())])
    }

    /// These entries after the ones there are: several payments, or a contradiction.
    #[must_use]
    pub fn and(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }

    /// Its entries.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    pub(super) fn render(&self, order_id: &str) -> impl Iterator<Item = String> {
        self.0.iter().map(move |entry| entry.render(order_id))
    }
}

impl Entry {
    fn render(&self, order_id: &str) -> String {
        let (state, payment, is_final) = match self {
            Self::Paid(payment) => ("paid", Some(payment), None),
            Self::Refunded(payment) => ("refunded", Some(payment), None),
            Self::Unpaid { is_final } => ("unpaid", None, Some(*is_final)),
            Self::Pending => ("pending", None, None),
            Self::Unknown => ("unknown", None, None),
            Self::Raw(text) => return text.replace(PLACEHOLDER, order_id),
        };
        let wire = Wire {
            order_id,
            state,
            payment: payment.map(|payment| WirePayment::new(payment, order_id)),
            is_final,
        };
        serde_json::to_string(&wire).expect("strings and numbers have a JSON form")
    }
}

#[derive(Serialize)]
struct Wire<'a> {
    order_id: &'a str,
    state: &'static str,
    #[serde(flatten)]
    payment: Option<WirePayment<'a>>,
    #[serde(rename = "final", skip_serializing_if = "Option::is_none")]
    is_final: Option<bool>,
}

#[derive(Serialize)]
struct WirePayment<'a> {
    provider: &'a str,
    transaction_id: Cow<'a, str>,
    amount: u64,
    currency: &'a str,
    occurred_at: &'a str,
}

impl<'a> WirePayment<'a> {
    fn new(payment: &'a Payment, order_id: &str) -> Self {
        let Payment {
            provider,
            transaction_id,
            amount,
            currency,
            occurred_at,
        } = payment;
        let transaction_id = if transaction_id.contains(PLACEHOLDER) {
            Cow::Owned(transaction_id.replace(PLACEHOLDER, order_id))
        } else {
            Cow::Borrowed(transaction_id.as_str())
        };
        Self {
            provider,
            transaction_id,
            amount: *amount,
            currency,
            occurred_at,
        }
    }
}
