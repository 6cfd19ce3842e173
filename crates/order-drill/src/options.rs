//! What a drill is asked to do, checked before anything is sent.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use crate::Error;

/// What to make. The same options give the same plan, byte for byte.
#[derive(Debug, Clone)]
pub struct PlanOptions {
    /// Everything random comes from here.
    pub seed: u64,
    /// Starts every id, so that several runs can share a service.
    pub prefix: String,
    /// Payment providers; each has its own subject.
    pub providers: Vec<String>,
    /// Orders besides those of the anomalies.
    pub orders: u32,
    /// Share of these orders that nobody pays.
    pub unpaid: f64,
    /// Failed or expired attempts per order, on average.
    pub attempts: f64,
    /// Share of the payments that are told more than once.
    pub duplicates: f64,
    /// Share of the orders that are created only after an event about them was stored.
    pub early: f64,
    /// Share of the paid orders whose success is never published.
    pub lose: f64,
    /// Whether a reconciliation must have healed the lost ones.
    pub expect_healed: bool,
    /// How many of each anomaly whose one message is lost: second payments, mismatches, refunds, payments after a cancel.
    pub lost_anomalies: u32,
    /// Steps that are shuffled with one another; a few go astray further than that.
    pub window: u32,
    /// How many of each anomaly.
    pub anomalies: Anomalies,
    /// Orders cancelled over HTTP at the moment of their payment.
    pub cancels: u32,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            prefix: "drill-".to_owned(),
            providers: ["acme", "globex", "initech"].map(str::to_owned).to_vec(),
            orders: 1_000,
            unpaid: 0.1,
            attempts: 0.3,
            duplicates: 0.05,
            early: 0.05,
            lose: 0.0,
            expect_healed: false,
            lost_anomalies: 0,
            window: 5_000,
            anomalies: Anomalies::each(5),
            cancels: 0,
        }
    }
}

/// How many of each anomaly; every one is a case of its own, dead letters one per known fault.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs, reason = "each field is the anomaly it counts")]
pub struct Anomalies {
    pub second_payments: u32,
    pub amount_mismatches: u32,
    pub currency_mismatches: u32,
    pub conflicts: u32,
    pub reversals: u32,
    pub unsupported: u32,
    pub not_live: u32,
    pub never_created: u32,
    pub dead_letters: u32,
}

impl Anomalies {
    /// The same number of each.
    pub fn each(count: u32) -> Self {
        Self {
            second_payments: count,
            amount_mismatches: count,
            currency_mismatches: count,
            conflicts: count,
            reversals: count,
            unsupported: count,
            not_live: count,
            never_created: count,
            dead_letters: count,
        }
    }
}

const ORDERS_MAX: u32 = 5_000_000;
const ANOMALIES_MAX: u32 = 100_000;
const ATTEMPTS_MAX: f64 = 20.0;
/// Leaves room in the 64 characters of an id for a letter, a number and a copy.
const PREFIX_MAX: usize = 40;

impl PlanOptions {
    /// Refuses what can't be drilled, by the name of the option.
    pub fn validate(&self) -> Result<(), Error> {
        let shares = [
            ("unpaid", self.unpaid),
            ("duplicates", self.duplicates),
            ("early", self.early),
            ("lose", self.lose),
        ];
        for (option, share) in shares {
            demand(
                option,
                (0.0..=1.0).contains(&share),
                "is a share from 0 to 1",
            )?;
        }
        demand(
            "attempts",
            (0.0..=ATTEMPTS_MAX).contains(&self.attempts),
            "is a mean from 0 to 20",
        )?;
        demand(
            "lost-anomalies",
            self.lost_anomalies == 0 || self.expect_healed,
            "needs --expect-healed: nobody else finds them",
        )?;
        demand("orders", self.orders <= ORDERS_MAX, "is at most 5000000")?;
        demand("window", self.window >= 10, "is at least 10")?;
        demand(
            "prefix",
            is_prefix(&self.prefix),
            "is 1 to 40 of A-Z a-z 0-9 . _ : -, the first a letter or digit",
        )?;
        demand(
            "providers",
            (1..=100).contains(&self.providers.len())
                && self.providers.iter().all(|p| is_provider(p)),
            "is 1 to 100 names of 1 to 32 of a-z 0-9 _ -",
        )?;
        let Anomalies {
            second_payments,
            amount_mismatches,
            currency_mismatches,
            conflicts,
            reversals,
            unsupported,
            not_live,
            never_created,
            dead_letters,
        } = self.anomalies;
        let counts = [
            ("second-payments", second_payments),
            ("amount-mismatches", amount_mismatches),
            ("currency-mismatches", currency_mismatches),
            ("conflicts", conflicts),
            ("reversals", reversals),
            ("unsupported", unsupported),
            ("not-live", not_live),
            ("never-created", never_created),
            ("dead-letters", dead_letters),
            ("cancels", self.cancels),
            ("lost-anomalies", self.lost_anomalies),
        ];
        for (option, count) in counts {
            demand(option, count <= ANOMALIES_MAX, "is at most 100000")?;
        }
        Ok(())
    }
}

fn demand(option: &'static str, holds: bool, allowed: &'static str) -> Result<(), Error> {
    if holds {
        Ok(())
    } else {
        Err(Error::Option { option, allowed })
    }
}

fn is_prefix(prefix: &str) -> bool {
    prefix.len() <= PREFIX_MAX
        && prefix.starts_with(|c: char| c.is_ascii_alphanumeric())
        && prefix
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
}

fn is_provider(provider: &str) -> bool {
    (1..=32).contains(&provider.len())
        && provider
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b))
}

/// Where the service is and what to look at.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Base URL of the service.
    pub http: String,
    /// Comma-separated URLs of the broker.
    pub nats: String,
    /// Bearer token, with the scopes of what is looked at.
    pub token: Option<String>,
    /// Names in the broker.
    pub names: Names,
    /// Publishes and creations under way at a time.
    pub in_flight: usize,
    /// HTTP requests under way at a time.
    pub http_in_flight: usize,
    /// The whole run ends by then.
    pub deadline: Duration,
    /// How long the consumer may take to become idle after the last publish.
    pub settle: Duration,
    /// How long a difference may take to go away: a waiting payment is settled after its ack.
    pub patience: Duration,
    /// Compare the counters of `/metrics`; for a service of this run alone that isn't restarted meanwhile.
    pub counters: bool,
    /// Compare exceptions and dead letters.
    pub ops: bool,
    /// Compare the outbound stream.
    pub events: bool,
    /// Be the payment service that the service asks, and answer by what has happened.
    pub payment_service: Option<PaymentService>,
    /// How long a reconciliation may take to heal what was lost, after all else is consumed.
    pub heal: Duration,
}

/// How the service reaches the payment service that the drill plays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaymentService {
    /// Over the options' broker.
    Nats {
        /// Where it asks.
        subject: String,
    },
    /// Over HTTP.
    Http {
        /// Where the drill listens.
        address: SocketAddr,
    },
}

impl FromStr for PaymentService {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "is nats:SUBJECT or http://ADDRESS:PORT";
        if let Some(subject) = text.strip_prefix("nats:") {
            let subject = subject.to_owned();
            return if subject.is_empty() {
                Err(wrong)
            } else {
                Ok(Self::Nats { subject })
            };
        }
        let rest = text.strip_prefix("http://").ok_or(wrong)?;
        let address = rest.split('/').next().unwrap_or_default();
        let address = address.parse().map_err(|_| wrong)?;
        Ok(Self::Http { address })
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            http: "http://127.0.0.1:8080".to_owned(),
            nats: "nats://127.0.0.1:4222".to_owned(),
            token: None,
            names: Names::default(),
            in_flight: 1_000,
            http_in_flight: 64,
            deadline: Duration::from_mins(10),
            settle: Duration::from_mins(2),
            patience: Duration::from_secs(5),
            counters: false,
            ops: false,
            events: false,
            payment_service: None,
            heal: Duration::from_mins(2),
        }
    }
}

/// Names in the broker, as the service is set.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "each field is the setting of that name")]
pub struct Names {
    pub inbound_stream: String,
    pub inbound_subject: String,
    pub consumer: String,
    pub outbound_stream: String,
    pub outbound_prefix: String,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            inbound_stream: "PAYMENTS".to_owned(),
            inbound_subject: "payments.events".to_owned(),
            consumer: "orderd".to_owned(),
            outbound_stream: "ORDERS".to_owned(),
            outbound_prefix: "orders.events".to_owned(),
        }
    }
}
