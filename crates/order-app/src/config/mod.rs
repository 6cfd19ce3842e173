//! Settings: flags, then environment, then a TOML file, then defaults. One table names them all.

mod given;
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

pub use given::{Error, Given};
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
    /// Who may call the API; none: everybody.
    pub tokens_file: Option<PathBuf>,
    /// Requests per second and token.
    pub rate_limit: Option<NonZeroU32>,
    /// Until when an order without `pay_by` should be paid.
    pub pay_within: Duration,
    /// When the payment service is first asked.
    pub check_after: Duration,
    /// Who is asked about unpaid orders.
    pub payment_query: PaymentQuery,
    /// How long after an order left `NOT_PAID` it is asked about for the last time, if at all.
    pub last_check_after: Option<Duration>,
    /// How often `serve` reconciles, if at all.
    pub reconcile_every: Option<Duration>,
    /// Questions per second to the payment service, of all instances.
    pub reconcile_rate: u32,
    /// How long a payment waits for its order before it is an exception.
    pub wait_for_order: Duration,
    /// Whether real money counts.
    pub livemode: bool,
    /// How long what is closed is kept.
    pub keep: Duration,
    /// Whether order events are published.
    pub relay: bool,
    /// What is logged.
    pub log: String,
    /// How.
    pub log_format: LogFormat,
}

/// Who is asked about unpaid orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaymentQuery {
    /// Nobody.
    Nobody,
    /// Who answers requests on this subject.
    Nats(String),
    /// Who answers a POST to this URL.
    Http(reqwest::Url),
}

/// The broker and the names in it.
#[derive(Debug, Clone)]
pub struct NatsConfig {
    /// The servers.
    pub servers: Vec<async_nats::ServerAddr>,
    /// A credentials file.
    pub creds: Option<PathBuf>,
    /// Root certificates.
    pub ca: Option<PathBuf>,
    /// A client certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The stream of payment events.
    pub inbound_stream: String,
    /// Their subject, without the provider.
    pub inbound_subject: String,
    /// The durable consumer.
    pub consumer: String,
    /// The stream of order events.
    pub outbound_stream: String,
    /// Their subjects, without the event.
    pub outbound_prefix: String,
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
        Ok(Self {
            database_url: given.parse(
                "database-url",
                "sqlite://<file> or postgres://<user>@<host>/<database>",
                |text| DatabaseUrl::from_str(text).ok(),
            )?,
            nats: NatsConfig::parse(given)?,
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
            payment_query: given.parse(
                "payment-query",
                "none, nats:<subject without spaces, * and >> or http(s)://<host>/<path>",
                payment_query,
            )?,
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
            relay: given.parse("relay", "on or off", |text| match text {
                "on" => Some(true),
                "off" => Some(false),
                _ => None,
            })?,
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

impl NatsConfig {
    fn parse(given: &Given) -> Result<Self, Error> {
        let servers = given.parse(
            "nats-url",
            "nats:// or tls:// URLs, separated by commas",
            |text| {
                text.split(',')
                    .map(|server| nats_server(server.trim()))
                    .collect()
            },
        )?;
        let files = (
            given.readable_file("nats-cert")?,
            given.readable_file("nats-key")?,
        );
        let identity = match files {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            (Some(_), None) => {
                given.parse("nats-key", "given together with NATS_CERT", |_| None)?
            }
            (None, Some(_)) => {
                given.parse("nats-cert", "given together with NATS_KEY", |_| None)?
            }
        };
        let name = "a name without spaces, dots, slashes, * and >";
        let subject = "a subject without spaces, * and >";
        let inbound_stream: String = given.parse("inbound-stream", name, nats_name)?;
        let inbound_subject: String = given.parse("inbound-subject", subject, nats_subject)?;
        // The service would read its own events.
        let other_stream =
            "a name without spaces, dots, slashes, * and >, not the inbound stream's";
        let outbound_stream = given.parse("outbound-stream", other_stream, |text| {
            nats_name(text).filter(|name| *name != inbound_stream)
        })?;
        let other_subject = "a subject without spaces, * and >, apart from the inbound subject";
        let outbound_prefix = given.parse("outbound-prefix", other_subject, |text| {
            nats_subject(text).filter(|prefix| !overlap(prefix, &inbound_subject))
        })?;
        Ok(Self {
            servers,
            creds: given.readable_file("nats-creds")?,
            ca: given.readable_file("nats-ca")?,
            identity,
            inbound_stream,
            inbound_subject,
            consumer: given.parse("consumer", name, nats_name)?,
            outbound_stream,
            outbound_prefix,
        })
    }
}

fn nats_server(text: &str) -> Option<async_nats::ServerAddr> {
    let server: async_nats::ServerAddr = text.parse().ok()?;
    let known = matches!(server.scheme(), "nats" | "tls") && !server.host().is_empty();
    (known && !text.is_empty()).then_some(server)
}

fn nats_name(text: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_graphic() && !matches!(c, '.' | '*' | '>' | '/' | '\\');
    (!text.is_empty() && text.len() <= 255 && text.chars().all(fits)).then(|| text.to_owned())
}

fn nats_subject(text: &str) -> Option<String> {
    let fits = |token: &str| {
        !token.is_empty()
            && token
                .chars()
                .all(|c| c.is_ascii_graphic() && !matches!(c, '*' | '>'))
    };
    text.split('.').all(fits).then(|| text.to_owned())
}

/// Whether one subject is the other, or lies under it.
fn overlap(one: &str, other: &str) -> bool {
    one.split('.').zip(other.split('.')).all(|(a, b)| a == b)
}

fn payment_query(text: &str) -> Option<PaymentQuery> {
    if text == "none" {
        return Some(PaymentQuery::Nobody);
    }
    if let Some(subject) = text.strip_prefix("nats:") {
        return nats_subject(subject).map(PaymentQuery::Nats);
    }
    let url = reqwest::Url::parse(text).ok()?;
    let known = matches!(url.scheme(), "http" | "https") && url.has_host();
    known.then_some(PaymentQuery::Http(url))
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

/// Says what [`parse_duration`] takes.
pub fn allowed_duration(min: Duration) -> String {
    format!(
        "a duration with a unit, such as 30s, 5m or 24h, from {} to 3650days",
        humantime::format_duration(min)
    )
}

/// Reads a duration as settings have them.
pub fn parse_duration(text: &str, min: Duration) -> Option<Duration> {
    // `humantime` lets a bare 0 pass.
    let unit = text.chars().any(char::is_alphabetic);
    humantime::parse_duration(text)
        .ok()
        .filter(|duration| unit && (min..=DURATION_MAX).contains(duration))
}
