//! What the payment service knows of an order.

use serde::Serialize;

/// Stands for the order's id in texts that serve many orders.
const PLACEHOLDER: &str = "{order_id}";

/// The entries about one order. An answer without entries leaves the order out of the reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer(Vec<Entry>);

/// One entry of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The payment succeeded.
    Paid(Payment),
    /// The payment was refunded.
    Refunded(Payment),
    /// There is no payment.
    Unpaid {
        /// There will never be one.
        is_final: bool,
    },
    /// A payment is in progress.
    Pending,
    /// The payment service doesn't know.
    Unknown,
    /// This text in place of an entry; `{order_id}` in it stands for the order's id.
    Raw(String),
}

/// A payment as the payment service reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Payment {
    /// The payment provider.
    pub provider: String,
    /// The provider's id of the transaction; `{order_id}` in it stands for the order's id.
    pub transaction_id: String,
    /// In minor units.
    pub amount: u64,
    /// The ISO 4217 code.
    pub currency: String,
    /// In RFC 3339.
    pub occurred_at: String,
}

impl Payment {
    /// A payment of a fixed day.
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
    /// The order is left out of the reply.
    pub fn absent() -> Self {
        Self::default()
    }

    /// Paid by this payment.
    pub fn paid(payment: Payment) -> Self {
        Self(vec![Entry::Paid(payment)])
    }

    /// Paid and refunded.
    pub fn refunded(payment: Payment) -> Self {
        Self(vec![Entry::Refunded(payment)])
    }

    /// Not paid; a payment may still come.
    pub fn unpaid() -> Self {
        Self(vec![Entry::Unpaid { is_final: false }])
    }

    /// Not paid, and no payment will come.
    pub fn unpaid_for_good() -> Self {
        Self(vec![Entry::Unpaid { is_final: true }])
    }

    /// A payment is in progress.
    pub fn pending() -> Self {
        Self(vec![Entry::Pending])
    }

    /// The payment service says that it doesn't know.
    pub fn unknown() -> Self {
        Self(vec![Entry::Unknown])
    }

    /// Paid, but the entry lacks the payment and can't be read.
    pub fn unreadable() -> Self {
        Self::raw(format!(r#"{{"order_id":"{PLACEHOLDER}","state":"paid"}}"#))
    }

    /// This text in place of an entry.
    pub fn raw(text: impl Into<String>) -> Self {
        Self(vec![Entry::Raw(text.into())])
    }

    /// Adds the other answer's entries: several payments, or a contradiction.
    #[must_use]
    pub fn and(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }

    /// The entries, in the order of the reply.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    pub(super) fn render(&self, order_id: &str) -> impl Iterator<Item = String> {
        self.0.iter().map(move |entry| entry.render(order_id))
    }
}

#[derive(Serialize)]
struct Wire<'a> {
    order_id: &'a str,
    state: &'static str,
    #[serde(flatten)]
    payment: Option<Payment>,
    #[serde(rename = "final", skip_serializing_if = "Option::is_none")]
    is_final: Option<bool>,
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
            payment: payment.map(|payment| Payment {
                transaction_id: payment.transaction_id.replace(PLACEHOLDER, order_id),
                ..payment.clone()
            }),
            is_final,
        };
        serde_json::to_string(&wire).expect("strings and numbers have a JSON form")
    }
}
