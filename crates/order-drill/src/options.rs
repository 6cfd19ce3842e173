//! What a drill is asked to do: each option once, with its default, its limits and its text on the command line.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{OsStr, Resettable};
use clap::{Args, Command, value_parser};
use humantime::parse_duration;

/// What to throw. The same options give the same plan, byte for byte.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What is thrown")]
pub struct PlanOptions {
    /// The source of everything random.
    #[arg(skip)]
    pub seed: u64,
    /// The start of every id, so that several runs can share a service.
    #[arg(skip)]
    pub prefix: String,
    /// Payment providers; each has a subject of its own.
    #[arg(long, value_delimiter = ',', default_value = "acme,globex,initech", value_parser = provider)]
    pub providers: Vec<String>,
    /// Orders in addition to those of the anomalies.
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u32).range(..=5_000_000))]
    pub orders: u32,
    /// Share of the orders that are never paid.
    #[arg(long, default_value_t = 0.1, value_parser = share)]
    pub unpaid: f64,
    /// Failed or expired attempts per order, on average.
    #[arg(long, default_value_t = 0.3, value_parser = mean)]
    pub attempts: f64,
    /// Share of the payments that are published more than once.
    #[arg(long, default_value_t = 0.05, value_parser = share)]
    pub duplicates: f64,
    /// Share of the orders that are created only after an event about them was stored.
    #[arg(long, default_value_t = 0.05, value_parser = share)]
    pub early: f64,
    /// Share of the paid orders whose success is never published.
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub lose: f64,
    /// Demand that a reconciliation has healed what was lost.
    #[arg(long)]
    pub expect_healed: bool,
    /// How many of each anomaly whose only message is lost: second payments, mismatches, refunds, payments after a cancel.
    #[arg(long, default_value_t = 0, value_parser = count(), requires = "expect_healed")]
    pub lost_anomalies: u32,
    /// Steps that are shuffled with one another; a few go further astray.
    #[arg(long, default_value_t = 5_000, value_parser = value_parser!(u32).range(10..))]
    pub window: u32,
    /// Orders that are cancelled over HTTP at the moment of their payment.
    #[arg(long, default_value_t = 0, value_parser = count())]
    pub cancels: u32,
    /// How many of each anomaly.
    #[command(flatten)]
    pub anomalies: Anomalies,
}

/// How many of each anomaly; every one is a case of its own.
#[derive(Debug, Clone, Copy, Default, Args)]
#[expect(missing_docs, reason = "each field is the anomaly it counts")]
pub struct Anomalies {
    /// How many of each anomaly; the next options set the number of a single one.
    #[arg(long = "anomalies", value_name = "COUNT", default_value_t = 5, value_parser = count())]
    pub each: u32,
    #[arg(long, value_parser = count())]
    pub second_payments: Option<u32>,
    #[arg(long, value_parser = count())]
    pub amount_mismatches: Option<u32>,
    #[arg(long, value_parser = count())]
    pub currency_mismatches: Option<u32>,
    #[arg(long, value_parser = count())]
    pub conflicts: Option<u32>,
    #[arg(long, value_parser = count())]
    pub reversals: Option<u32>,
    #[arg(long, value_parser = count())]
    pub unsupported: Option<u32>,
    #[arg(long, value_parser = count())]
    pub not_live: Option<u32>,
    #[arg(long, value_parser = count())]
    pub never_created: Option<u32>,
    /// Dead letters of each known fault.
    #[arg(long, value_parser = count())]
    pub dead_letters: Option<u32>,
}

impl Anomalies {
    /// The same number of each.
    pub fn each(each: u32) -> Self {
        Self {
            each,
            ..Self::default()
        }
    }
}

/// Where the service is and what to look at.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Service and limits")]
pub struct RunOptions {
    /// Base URL of the service.
    #[arg(
        long,
        env = "ORDER_DRILL_HTTP",
        default_value = "http://127.0.0.1:8080"
    )]
    pub http: String,
    /// URLs of the broker, comma-separated.
    #[arg(
        long,
        env = "NATS_URL",
        default_value = "nats://127.0.0.1:4222",
        hide_env_values = true
    )]
    pub nats: String,
    /// Bearer token, with the scopes of what is looked at.
    #[arg(long, env = "ORDER_DRILL_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Names in the broker.
    #[command(flatten)]
    pub names: Names,
    /// Publishes and creations in flight at a time.
    #[arg(long, default_value_t = 1_000)]
    pub in_flight: usize,
    /// HTTP requests in flight at a time.
    #[arg(long, default_value_t = 64)]
    pub http_in_flight: usize,
    /// The time limit of the whole run.
    #[arg(long, default_value = "10m", value_parser = parse_duration)]
    pub deadline: Duration,
    /// How long the consumer may take to become idle after the last publish.
    #[arg(long, default_value = "2m", value_parser = parse_duration)]
    pub settle: Duration,
    /// How long a difference may take to disappear: a waiting payment is settled after its ack.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub patience: Duration,
    /// Compare the counters of /metrics; only for a service that serves this run alone and isn't restarted.
    #[arg(long)]
    pub counters: bool,
    /// Compare exceptions and dead letters.
    #[arg(long)]
    pub ops: bool,
    /// Compare the outbound stream.
    #[arg(long)]
    pub events: bool,
    /// Play the payment service on this subject or address, and answer with what has happened.
    #[arg(long, value_name = "nats:SUBJECT|http://ADDR")]
    pub payment_service: Option<PaymentService>,
    /// How long a reconciliation may take to heal what was lost, after all else is consumed.
    #[arg(long, default_value = "2m", value_parser = parse_duration)]
    pub heal: Duration,
}

/// Names in the broker, as the service is set.
#[derive(Debug, Clone, Args)]
#[expect(missing_docs, reason = "each field is the setting of that name")]
pub struct Names {
    #[arg(long, default_value = "PAYMENTS")]
    pub inbound_stream: String,
    #[arg(long, default_value = "payments.events")]
    pub inbound_subject: String,
    #[arg(long, default_value = "orderd")]
    pub consumer: String,
    #[arg(long, default_value = "ORDERS")]
    pub outbound_stream: String,
    #[arg(long, default_value = "orders.events")]
    pub outbound_prefix: String,
}

/// How the service reaches the payment service that the drill plays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaymentService {
    /// Over the options' broker.
    Nats {
        /// The subject of the questions.
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
        let wrong = "must be nats:SUBJECT or http://ADDRESS:PORT";
        if let Some(subject) = text.strip_prefix("nats:").filter(|it| !it.is_empty()) {
            let subject = subject.to_owned();
            return Ok(Self::Nats { subject });
        }
        let rest = text.strip_prefix("http://").ok_or(wrong)?;
        let address = rest.split('/').next().unwrap_or_default();
        let address = address.parse().map_err(|_| wrong)?;
        Ok(Self::Http { address })
    }
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            prefix: "drill-".to_owned(),
            ..defaults()
        }
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        defaults()
    }
}

impl Default for Names {
    fn default() -> Self {
        defaults()
    }
}

/// The options of an empty command line, whatever the environment says.
fn defaults<T: Args>() -> T {
    let command = T::augment_args(Command::new("order-drill").no_binary_name(true))
        .mut_args(|arg| arg.env(Resettable::<OsStr>::Reset));
    let parsed = command.try_get_matches_from([""; 0]);
    parsed
        .and_then(|matches| T::from_arg_matches(&matches))
        .expect("every option can be left out")
}

fn count() -> clap::builder::RangedI64ValueParser<u32> {
    value_parser!(u32).range(..=100_000)
}

fn share(text: &str) -> Result<f64, &'static str> {
    let parsed = text.parse().ok();
    let share = parsed.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or("must be a share from 0 to 1")
}

fn mean(text: &str) -> Result<f64, &'static str> {
    let parsed = text.parse().ok();
    let mean = parsed.filter(|mean| (0.0..=20.0).contains(mean));
    mean.ok_or("must be a mean from 0 to 20")
}

/// Checks the start of every id; its length leaves room for a letter, a number and a copy in the 64 characters of an id.
///
/// # Errors
/// What is allowed.
pub fn prefix(text: &str) -> Result<String, &'static str> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._:-".contains(&b);
    let is_prefix = text.len() <= 40
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(allowed);
    let wrong = "must be 1 to 40 of A-Z a-z 0-9 . _ : -, the first a letter or digit";
    is_prefix.then(|| text.to_owned()).ok_or(wrong)
}

fn provider(text: &str) -> Result<String, &'static str> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
    let is_provider = (1..=32).contains(&text.len()) && text.bytes().all(allowed);
    let wrong = "must be names of 1 to 32 of a-z 0-9 _ -";
    is_provider.then(|| text.to_owned()).ok_or(wrong)
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    fn parsed<T: Args + FromArgMatches>(arguments: &[&str]) -> Result<T, clap::Error> {
        let command = T::augment_args(Command::new("order-drill").no_binary_name(true));
        T::from_arg_matches(&command.try_get_matches_from(arguments)?)
    }

    #[test]
    fn what_cannot_be_drilled_is_refused_by_name() {
        for (option, value) in [
            ("duplicates", "1.5"),
            ("lose", "NaN"),
            ("unpaid", "-0.1"),
            ("early", "many"),
            ("attempts", "-1"),
            ("orders", "4294967295"),
            ("window", "0"),
            ("providers", ""),
            ("providers", "Acme"),
            ("conflicts", "4294967295"),
            ("dead-letters", "100001"),
            ("cancels", "100001"),
            ("lost-anomalies", "100001"),
        ] {
            let argument = format!("--{option}={value}");
            let error = parsed::<PlanOptions>(&[&argument, "--expect-healed"]).expect_err(option);
            let error = error.to_string();
            assert!(error.contains(&format!("'--{option} <")), "{error}");
        }
        let error = parsed::<PlanOptions>(&["--lost-anomalies=1"]).expect_err("nothing finds them");
        assert!(error.to_string().contains("--expect-healed"), "{error}");
    }

    #[test]
    fn a_prefix_is_the_start_of_an_id() {
        for text in ["-starts-with-a-dash", "", "a b", &"x".repeat(41)] {
            prefix(text).expect_err(text);
        }
        for text in ["d", "9._:-", &"x".repeat(40)] {
            assert_eq!(prefix(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn defaults_are_those_of_the_command_line() {
        let options = PlanOptions::default();
        assert_eq!((options.orders, options.anomalies.each), (1_000, 5));
        assert_eq!(options.providers, ["acme", "globex", "initech"]);
        let options = RunOptions::default();
        assert_eq!(options.deadline, Duration::from_mins(10));
        assert_eq!(options.names.inbound_subject, "payments.events");
    }
}
