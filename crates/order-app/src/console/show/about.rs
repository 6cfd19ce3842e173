//! What verdicts mean, and what a person does about them, as `docs/verdicts.md` says it.

use order_fsm::Verdict;
use order_store::Resolution;

/// What a person has to know about a verdict.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About {
    /// What happened.
    pub(crate) means: &'static str,
    /// What to do about it.
    pub(crate) todo: &'static str,
    /// Whether the money can be kept.
    can_be_accepted: bool,
    /// Whether accepting pays the order.
    pub(crate) pays: bool,
}

impl About {
    /// The ways to close an exception of this verdict, with what each of them means.
    pub(crate) fn resolutions(&self) -> Vec<(&'static str, &'static str, &'static str)> {
        let fits =
            |resolution: &Resolution| self.can_be_accepted || *resolution != Resolution::Accepted;
        let all = Resolution::ALL.into_iter().filter(fits);
        all.map(|resolution| {
            let (label, hint) = match resolution {
                Resolution::Refunded => (
                    "Refunded",
                    "The money goes back. Refund it at the provider first: this service doesn't.",
                ),
                Resolution::Accepted if self.pays => (
                    "Accepted",
                    "Keep the money. This pays the order with this payment.",
                ),
                Resolution::Accepted => ("Accepted", "Keep the money. The order stays as it is."),
                Resolution::WrittenOff => ("Written off", "Nothing is done about it."),
            };
            (resolution.as_str(), label, hint)
        })
        .collect()
    }
}

/// What a person has to know about a verdict.
pub(crate) const fn about(verdict: Verdict) -> About {
    let (means, todo) = match verdict {
        Verdict::NotLive => (
            "Test money on a live service, or real money on a test service.",
            "Check the provider's configuration and ORDERD_LIVEMODE. Real money in a test service \
             is refunded at the provider.",
        ),
        Verdict::Duplicate => (
            "The payment is known, with the same content.",
            "Nothing: providers and brokers deliver more than once.",
        ),
        Verdict::ConflictingContent => (
            "Two events claim the same transaction with different content: a bug of the publisher, \
             or a forgery. The first one counts.",
            "Ask the provider which one is right, correct the effects of the wrong one by hand (a \
             refund, a new order), and close as refunded or written off.",
        ),
        Verdict::AttemptFailed => ("An attempt that took no money.", "Nothing."),
        Verdict::Reversed => (
            "The money went back: a refund or a chargeback. The order keeps its status.",
            "Stop the shipment if you still can, and close as written off or accepted.",
        ),
        Verdict::Unsupported => ("A kind of event that has no effect.", "Nothing."),
        Verdict::WaitingForOrder => (
            "The payment's order doesn't exist yet.",
            "Create the order, which applies the payment and closes this; or refund the money and \
             close as refunded. Once this is closed, the payment isn't applied any more.",
        ),
        Verdict::SecondPayment => (
            "The customer paid twice: the order was paid already, by another payment.",
            "Refund this payment, then close as refunded. Order and first payment stay as they are.",
        ),
        Verdict::PaidAfterCancel => (
            "The payment came after the order was cancelled. A cancelled order can't be revived.",
            "Refund and close as refunded, or ship under a new order and close as accepted.",
        ),
        Verdict::CurrencyMismatch => (
            "The payment has another currency than the order, which stays NOT_PAID and isn't \
             cancelled while this is open.",
            "Compare both, then accept the payment, which pays the order; or refund it and close as \
             refunded.",
        ),
        Verdict::AmountMismatch => (
            "The payment has another amount than the order, which stays NOT_PAID and isn't \
             cancelled while this is open.",
            "Compare both, then accept the payment, which pays the order; or refund it and close as \
             refunded.",
        ),
        Verdict::Applied => ("It paid the order.", "Nothing."),
    };
    About {
        means,
        todo,
        can_be_accepted: !matches!(
            verdict,
            Verdict::ConflictingContent | Verdict::NotLive | Verdict::WaitingForOrder
        ),
        pays: matches!(verdict, Verdict::AmountMismatch | Verdict::CurrencyMismatch),
    }
}
