//! Settings: flags, then environment, then a TOML file, then defaults. One table names them all.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use order_store::DatabaseUrl;
use tracing_subscriber::EnvFilter;

/// A setting as users see it.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The environment variable.
    pub env: &'static str,
    /// The flag, without dashes in front; with underscores it is the key of the TOML file.
    pub flag: &'static str,
    /// What holds if it is not given; empty: nothing.
    pub default: &'static str,
    /// What it is for.
    pub help: &'static str,
}

macro_rules! settings {
    ($($env:literal $flag:literal $default:literal $help:literal)*) => {
        /// Every setting.
        pub const SETTINGS: &[Setting] =
            &[$(Setting { env: $env, flag: $flag, default: $default, help: $help }),*];
    };
}

settings! {
    "DATABASE_URL" "database-url" "sqlite://orderd.db" "sqlite://<file> or postgres://<user>@<host>/<database>"
    "NATS_URL" "nats-url" "nats://127.0.0.1:4222" "Servers, separated by commas; tls:// for TLS"
    "NATS_CREDS" "nats-creds" "" "A credentials file"
    "NATS_CA" "nats-ca" "" "A file with the root certificates of the servers"
    "NATS_CERT" "nats-cert" "" "A client certificate; needs a key"
    "NATS_KEY" "nats-key" "" "The key of the client certificate"
    "ORDERD_HTTP_ADDR" "http-addr" "127.0.0.1:8080" "Where HTTP is served: a loopback address"
    "ORDERD_INBOUND_STREAM" "inbound-stream" "PAYMENTS" "The stream of payment events"
    "ORDERD_INBOUND_SUBJECT" "inbound-subject" "payments.events" "Their subject, without .<provider>"
    "ORDERD_CONSUMER" "consumer" "orderd" "The durable consumer, shared by all instances"
    "ORDERD_OUTBOUND_STREAM" "outbound-stream" "ORDERS" "The stream of order events"
    "ORDERD_OUTBOUND_PREFIX" "outbound-prefix" "orders.events" "Their subjects, without .<event>"
    "ORDERD_RELAY" "relay" "on" "on or off: whether order events are published; nothing is lost"
    "ORDERD_PAY_WITHIN" "pay-within" "30m" "pay_by of an order without one"
    "ORDERD_CHECK_AFTER" "check-after" "5m" "The first question about an unpaid order"
    "ORDERD_LIVEMODE" "livemode" "true" "Whether events of real money count, or of test money"
    "ORDERD_KEEP" "keep" "90d" "How long closed dead letters and refusals are kept"
    "ORDERD_LOG" "log" "info" "What is logged, as in RUST_LOG"
    "ORDERD_LOG_FORMAT" "log-format" "text" "text or json"
}

/// A setting that is wrong, or none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A value that isn't allowed.
    #[error("{name} is {value:?}, but must be {allowed}")]
    Invalid {
        /// The setting, as it was given.
        name: String,
        /// Its value; secrets are masked.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// A name that is no setting.
    #[error("{name} is no setting; there are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Those there are.
        known: String,
    },
    /// The file can't be read.
    #[error("{path} cannot be read as TOML: {why}")]
    File {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
}

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
    /// Until when an order without `pay_by` should be paid.
    pub pay_within: Duration,
    /// When the payment service is first asked.
    pub check_after: Duration,
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

/// Given values by flag, and where each came from.
pub struct Given {
    values: BTreeMap<&'static str, (String, String)>,
}

impl Given {
    /// Collects what was given: flags and environment win over the file.
    ///
    /// # Errors
    /// If the file can't be read or holds an unknown key, or the environment an unknown
    /// `ORDERD_` variable.
    pub fn collect(
        given: impl Fn(&Setting) -> Option<(String, String)>,
        environment: impl Iterator<Item = String>,
        file: Option<&Path>,
    ) -> Result<Self, Error> {
        for name in environment {
            if name.starts_with("ORDERD_") && !SETTINGS.iter().any(|known| known.env == name) {
                return Err(unknown(name, |setting| setting.env.to_owned()));
            }
        }
        let mut values = match file {
            Some(path) => read_file(path)?,
            None => BTreeMap::new(),
        };
        for setting in SETTINGS {
            if let Some(found) = given(setting) {
                values.insert(setting.flag, found);
            }
        }
        Ok(Self { values })
    }

    fn get(&self, flag: &'static str) -> (String, String) {
        let setting = SETTINGS
            .iter()
            .find(|setting| setting.flag == flag)
            .expect("settings are asked for by their names");
        self.values
            .get(flag)
            .cloned()
            .unwrap_or_else(|| (setting.env.to_owned(), setting.default.to_owned()))
    }

    fn optional(&self, flag: &'static str) -> Option<String> {
        Some(self.get(flag).1).filter(|value| !value.is_empty())
    }

    fn parse<T>(
        &self,
        flag: &'static str,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Error> {
        let (name, value) = self.get(flag);
        parse(&value).ok_or_else(|| Error::Invalid {
            name,
            value: masked(&value),
            allowed: allowed.to_owned(),
        })
    }
}

impl Config {
    /// Parses what was given.
    ///
    /// # Errors
    /// On the first value that isn't allowed.
    pub fn parse(given: &Given) -> Result<Self, Error> {
        let http_addr: SocketAddr =
            given.parse("http-addr", "<address>:<port>", |text| text.parse().ok())?;
        if !http_addr.ip().is_loopback() {
            return given.parse("http-addr", "a loopback address", |_| None);
        }
        Ok(Self {
            database_url: given.parse(
                "database-url",
                "sqlite://<file> or postgres://<user>@<host>/<database>",
                |text| DatabaseUrl::from_str(text).ok(),
            )?,
            nats: NatsConfig::parse(given)?,
            http_addr,
            pay_within: duration(given, "pay-within", Duration::from_secs(1))?,
            check_after: duration(given, "check-after", Duration::from_secs(1))?,
            keep: duration(given, "keep", Duration::from_mins(1))?,
            livemode: given.parse("livemode", "true or false", |text| text.parse().ok())?,
            relay: given.parse("relay", "on or off", |text| match text {
                "on" => Some(true),
                "off" => Some(false),
                _ => None,
            })?,
            log: given.parse("log", "a level or a list of target=level", |text| {
                EnvFilter::try_new(text).ok().map(|_| text.to_owned())
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
                    .map(|server| server.trim().parse().ok())
                    .collect()
            },
        )?;
        let identity = match (given.optional("nats-cert"), given.optional("nats-key")) {
            (Some(cert), Some(key)) => Some((cert.into(), key.into())),
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
            creds: given.optional("nats-creds").map(PathBuf::from),
            ca: given.optional("nats-ca").map(PathBuf::from),
            identity,
            inbound_stream,
            inbound_subject,
            consumer: given.parse("consumer", name, nats_name)?,
            outbound_stream,
            outbound_prefix,
        })
    }
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

fn duration(given: &Given, flag: &'static str, min: Duration) -> Result<Duration, Error> {
    const MAX: Duration = Duration::from_hours(24 * 3650);
    let allowed = format!(
        "a duration with a unit, such as 30s, 5m or 24h, from {} to 3650days",
        humantime::format_duration(min)
    );
    given.parse(flag, &allowed, |text| {
        // `humantime` lets a bare 0 pass.
        let unit = text.chars().any(char::is_alphabetic);
        humantime::parse_duration(text)
            .ok()
            .filter(|d| unit && (min..=MAX).contains(d))
    })
}

fn read_file(path: &Path) -> Result<BTreeMap<&'static str, (String, String)>, Error> {
    let shown = path.display().to_string();
    let fault = |why: String| Error::File {
        path: shown.clone(),
        why,
    };
    let text = std::fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| fault(error.message().to_owned()))?;
    let mut values = BTreeMap::new();
    for (key, value) in table {
        let setting = SETTINGS.iter().find(|setting| toml_key(setting) == key);
        let Some(setting) = setting else {
            return Err(unknown(key, toml_key));
        };
        let name = format!("{key} in {shown}");
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Boolean(flag) => flag.to_string(),
            toml::Value::Integer(number) => number.to_string(),
            other => {
                let allowed = "a string, a number or a boolean".to_owned();
                return Err(Error::Invalid {
                    name,
                    value: other.type_str().to_owned(),
                    allowed,
                });
            }
        };
        values.insert(setting.flag, (name, value));
    }
    Ok(values)
}

fn toml_key(setting: &Setting) -> String {
    setting.flag.replace('-', "_")
}

fn unknown(name: String, shown: impl Fn(&Setting) -> String) -> Error {
    let known: Vec<String> = SETTINGS.iter().map(shown).collect();
    Error::Unknown {
        name,
        known: known.join(", "),
    }
}

/// Without the password of a URL.
fn masked(value: &str) -> String {
    let hide = |part: &str| match (part.find("://"), part.rfind('@')) {
        (Some(scheme), Some(at)) if scheme + 3 <= at => {
            let user = part[scheme + 3..at].split(':').next().unwrap_or_default();
            format!("{}{user}:***{}", &part[..scheme + 3], &part[at..])
        }
        _ => part.to_owned(),
    };
    value.split(',').map(hide).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Config, Error> {
        let given = |setting: &Setting| {
            let found = pairs.iter().find(|(env, _)| *env == setting.env);
            found.map(|(env, value)| ((*env).to_owned(), (*value).to_owned()))
        };
        Config::parse(&Given::collect(
            given,
            pairs.iter().map(|p| p.0.to_owned()),
            None,
        )?)
    }

    fn check(env: &str, value: &str, valid: bool) {
        match parse(&[(env, value)]) {
            Ok(_) => assert!(valid, "{env}={value}"),
            Err(error) => {
                assert!(!valid, "{error}");
                assert!(error.to_string().contains(env), "{error}");
            }
        }
    }

    #[test]
    fn every_default_is_allowed() {
        parse(&[]).unwrap();
    }

    #[test]
    fn durations_carry_a_unit_and_a_range() {
        for (value, valid) in [
            ("30s", true),
            ("30m", true),
            ("90d", true),
            ("1h 30m", true),
            ("30", false),
            ("0", false),
            ("0s", false),
            ("30ms", false),
            ("-1s", false),
            ("1e3s", false),
            ("99999999d", false),
            ("", false),
        ] {
            check("ORDERD_PAY_WITHIN", value, valid);
        }
    }

    #[test]
    fn wrong_values_name_the_setting_and_what_is_allowed() {
        check("ORDERD_LIVEMODE", "yes", false);
        check("ORDERD_LIVEMODE", "false", true);
        check("ORDERD_HTTP_ADDR", "8080", false);
        check("ORDERD_HTTP_ADDR", "0.0.0.0:8080", false);
        check("ORDERD_HTTP_ADDR", "[::1]:0", true);
        check("ORDERD_CONSUMER", "a.b", false);
        check("ORDERD_INBOUND_SUBJECT", "payments.>", false);
        check("ORDERD_INBOUND_SUBJECT", "pay..events", false);
        check("ORDERD_OUTBOUND_STREAM", "a b", false);
        check("ORDERD_OUTBOUND_PREFIX", "orders.*", false);
        check("ORDERD_RELAY", "off", true);
        check("ORDERD_RELAY", "true", false);
        check("ORDERD_LOG_FORMAT", "xml", false);
        check("DATABASE_URL", "mysql://ann@db/shop", false);
        check("NATS_URL", "nats://a:4222,nats://b:4222", true);
        check("NATS_URL", "nats://a:x", false);
        check("NATS_CERT", "cert.pem", false);
    }

    #[test]
    fn what_is_published_is_not_what_is_read() {
        check("ORDERD_OUTBOUND_STREAM", "PAYMENTS", false);
        check("ORDERD_OUTBOUND_PREFIX", "payments.events", false);
        check("ORDERD_OUTBOUND_PREFIX", "payments.events.orders", false);
        check("ORDERD_OUTBOUND_PREFIX", "payments", false);
        check("ORDERD_OUTBOUND_PREFIX", "payments.orders", true);
        check("ORDERD_OUTBOUND_PREFIX", "payments.eventsx", true);
    }

    #[test]
    fn an_unknown_variable_stops_the_start() {
        let error = parse(&[("ORDERD_LIVEMOD", "false")]).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("ORDERD_LIVEMOD is no setting"),
            "{error}"
        );
    }

    #[test]
    fn a_password_is_never_shown() {
        for url in [
            "mysql://ann:s3cret@db/shop",
            "postgres://ann:s3cret@db:x/shop",
        ] {
            let error = parse(&[("DATABASE_URL", url)]).unwrap_err().to_string();
            assert!(
                error.contains("ann:***@db") && !error.contains("s3cret"),
                "{error}"
            );
        }
        let error = parse(&[("NATS_URL", "nats://u:s3cret@h:x,nats://u:s3cret@h")]).unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }

    #[test]
    fn a_file_gives_what_flags_and_environment_do_not() {
        let folder = std::env::temp_dir().join(format!("orderd_config_{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("orderd.toml");
        let read = |text: &str, env: Option<&str>| {
            std::fs::write(&path, text).unwrap();
            let given = |setting: &Setting| {
                env.filter(|_| setting.flag == "livemode")
                    .map(|value| (setting.env.to_owned(), value.to_owned()))
            };
            Config::parse(&Given::collect(given, std::iter::empty(), Some(&path))?)
        };
        let config = read("livemode = false\npay_within = \"1h\"\n", None).unwrap();
        assert_eq!(
            (config.livemode, config.pay_within),
            (false, Duration::from_hours(1))
        );
        assert!(read("livemode = false", Some("true")).unwrap().livemode);
        assert!(matches!(
            read("livemod = false", None),
            Err(Error::Unknown { .. })
        ));
        assert!(matches!(
            read("livemode = [1]", None),
            Err(Error::Invalid { .. })
        ));
        assert!(matches!(read("livemode =", None), Err(Error::File { .. })));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
