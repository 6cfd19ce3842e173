//! What can be played.

use crate::words::words;

words! {
    /// A story about one or two orders.
    pub(crate) enum Scenario {
        /// One success, perhaps after failed attempts.
        Paid => "paid",
        /// No success.
        Unpaid => "unpaid",
        /// A success that is never published.
        Lost => "lost",
        /// A second success that is never published.
        LostSecondPayment => "lost second payment",
        /// A success with wrong money that is never published.
        LostMismatch => "lost mismatch",
        /// A refund that is never published.
        LostRefund => "lost refund",
        /// A success that happens after the order was cancelled and is never published.
        LostAfterCancel => "lost after cancel",
        /// Two or three successes of one order.
        SecondPayment => "second payment",
        /// One minor unit more or less, perhaps with a correct payment too.
        AmountMismatch => "amount mismatch",
        /// Another currency, perhaps with a correct payment too.
        CurrencyMismatch => "currency mismatch",
        /// One payment with two contents.
        Conflict => "conflicting content",
        /// A success, and a refund or reversal before or after it.
        Reversal => "refund or reversal",
        /// A kind that the service doesn't know.
        Unsupported => "unsupported kind",
        /// Test money.
        NotLive => "not live",
        /// A payment for an order that is never created.
        NeverCreated => "never created",
        /// A payment and a cancellation at the same moment.
        CancelRace => "cancel race",
    }
}
