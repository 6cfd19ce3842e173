//! Settings: flags, then environment, then a TOML file, then defaults. One table names them all.

mod given;
mod kubernetes;
mod masking;
mod nats;
mod nats_server;
#[cfg(test)]
mod page;
mod settings;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use order_store::DatabaseUrl;
use tracing_subscriber::EnvFilter;

pub(crate) use given::tidy;
pub use given::{Error, Given};
pub(crate) use masking::masked;
pub use nats::NatsConfig;
pub use nats_server::{Login, NatsServer};
pub use settings::{SETTINGS, Setting};

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// The settings, parsed.
#[derive(Debug)]
pub struct Config {
    /// Where the data is.
    pub database_url: DatabaseUrl,
    /// The broker.
    pub nats: NatsConfig,
    /// Where HTTP is served.
    pub http_addr: SocketAddr,
    /// The tokens that may call the API; without the file, every caller is allowed.
    pub tokens_file: Option<PathBuf>,
    /// Requests per second and token.
    pub rate_limit: Option<NonZeroU32>,
    /// Whether there are pages for people.
    pub console: bool,
    /// Until when an order without `pay_by` should be paid.
    pub pay_within: Duration,
    /// When the payment service is first asked.
    pub check_after: Duration,
    /// Where the payment service is asked about unpaid orders.
    pub payment_query: PaymentQuery,
    /// How long after an order left `NOT_PAID` the payment service is asked about it for the last time, if at
    /// all.
    pub last_check_after: Option<Duration>,
    /// How often `serve` reconciles, if at all.
    pub reconcile_every: Option<Duration>,
    /// Questions per second to the payment service, by all instances together.
    pub reconcile_rate: u32,
    /// How long a payment waits for its order before it is an exception.
    pub wait_for_order: Duration,
    /// Whether events of real money count, or those of test money.
    pub livemode: bool,
    /// How long closed and finished rows are kept.
    pub keep: Duration,
    /// Whether order events are published.
    pub relay: bool,
    /// The log filter, in the syntax of `RUST_LOG`.
    pub log: String,
    /// The format of log lines.
    pub log_format: LogFormat,
}

/// Where the payment service is asked about unpaid orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaymentQuery {
    /// Not at all.
    Nobody,
    /// By requests on this NATS subject.
    Nats(String),
    /// By a POST to this URL.
    Http(reqwest::Url),
}

impl Config {
    /// Parses what was given.
    ///
    /// # Errors
    /// On the first value that isn't allowed.
    pub fn parse(given: &Given) -> Result<Self, Error> {
        let http_addr: SocketAddr =
            given.parse("http-addr", "<address>:<port>", |text| text.parse().ok())?;
        let tokens_file = given.file("tokens-file")?;
        if tokens_file.is_none() && !http_addr.ip().is_loopback() {
            let allowed = "a loopback address as long as ORDERD_TOKENS_FILE is not set";
            return given.parse("http-addr", allowed, |_| None);
        }
        let nats = NatsConfig::parse(given)?;
        // A stream that captures the questions would answer each of them with its ack.
        let apart = "none, nats:<subject without spaces, * and >> outside the subjects of both \
                     streams, or http(s)://<host>/<path>";
        let payment_query = given.parse("payment-query", apart, |text| {
            payment_query(text).filter(|query| match query {
                PaymentQuery::Nats(subject) => !nats.takes(subject),
                PaymentQuery::Nobody | PaymentQuery::Http(_) => true,
            })
        })?;
        Ok(Self {
            database_url: given.parse(
                "database-url",
                "sqlite://<file> or postgres://<user>@<host>/<database>",
                |text| DatabaseUrl::from_str(text).ok(),
            )?,
            nats,
            http_addr,
            tokens_file,
            rate_limit: given.parse(
                "rate-limit",
                "off, or a whole number of requests per second from 1 to 1000000",
                |text| match text {
                    "off" => Some(None),
                    number => number
                        .parse::<NonZeroU32>()
                        .ok()
                        .filter(|rate| rate.get() <= 1_000_000)
                        .map(Some),
                },
            )?,
            pay_within: duration(given, "pay-within", Duration::from_secs(1))?,
            check_after: duration(given, "check-after", Duration::from_secs(1))?,
            payment_query,
            last_check_after: duration_or_off(given, "last-check-after", Duration::from_secs(1))?,
            reconcile_every: duration_or_off(given, "reconcile-every", Duration::from_secs(1))?,
            reconcile_rate: given.parse(
                "reconcile-rate",
                "an integer from 1 to 10000",
                |text| text.parse().ok().filter(|rate| (1..=10_000).contains(rate)),
            )?,
            wait_for_order: duration(given, "wait-for-order", Duration::from_secs(1))?,
            keep: duration(given, "keep", Duration::from_mins(1))?,
            livemode: given.parse("livemode", "true or false", |text| text.parse().ok())?,
            console: given.parse("console", "on or off", on_or_off)?,
            relay: given.parse("relay", "on or off", on_or_off)?,
            log: given.parse("log", "a level or a list of target=level", |text| {
                EnvFilter::try_new(text)
                    .ok()
                    .filter(|_| !text.is_empty())
                    .map(|_| text.to_owned())
            })?,
            log_format: given.parse("log-format", "text or json", |text| match text {
                "text" => Some(LogFormat::Text),
                "json" => Some(LogFormat::Json),
                _ => None,
            })?,
        })
    }
}

fn on_or_off(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn payment_query(text: &str) -> Option<PaymentQuery> {
    if text == "none" {
        return Some(PaymentQuery::Nobody);
    }
    if let Some(subject) = text.strip_prefix("nats:") {
        return nats::subject(subject).map(PaymentQuery::Nats);
    }
    // Without the slashes, `http:u:password@h` would be read as if it had them.
    let slashed = text.starts_with("http://") || text.starts_with("https://");
    let url = slashed.then(|| reqwest::Url::parse(text).ok())??;
    url.has_host().then_some(PaymentQuery::Http(url))
}

fn duration_or_off(
    given: &Given,
    flag: &'static str,
    min: Duration,
) -> Result<Option<Duration>, Error> {
    let allowed = format!("off, or {}", allowed_duration(min));
    given.parse(flag, &allowed, |text| match text {
        "off" => Some(None),
        _ => parse_duration(text, min).map(Some),
    })
}

fn duration(given: &Given, flag: &'static str, min: Duration) -> Result<Duration, Error> {
    given.parse(flag, &allowed_duration(min), |text| {
        parse_duration(text, min)
    })
}

const DURATION_MAX: Duration = Duration::from_hours(24 * 3650);

/// Describes what [`parse_duration`] accepts.
pub fn allowed_duration(min: Duration) -> String {
    format!(
        "a duration with a unit, such as 30s, 5m or 24h, from {} to 3650days",
        humantime::format_duration(min)
    )
}

/// Reads the duration of a setting.
pub fn parse_duration(text: &str, min: Duration) -> Option<Duration> {
    // `humantime` accepts a bare 0.
    let unit = text.chars().any(char::is_alphabetic);
    humantime::parse_duration(text)
        .ok()
        .filter(|duration| unit && (min..=DURATION_MAX).contains(duration))
}
