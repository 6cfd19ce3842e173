//! What is accepted, what is refused, and how.

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
    check("ORDERD_RATE_LIMIT", "off", true);
    check("ORDERD_RATE_LIMIT", "100", true);
    for nonsense in ["0", "-1", "1.5", "1000001", "on", ""] {
        check("ORDERD_RATE_LIMIT", nonsense, false);
    }
    check("ORDERD_CONSUMER", "a.b", false);
    check("ORDERD_INBOUND_SUBJECT", "payments.>", false);
    check("ORDERD_INBOUND_SUBJECT", "pay..events", false);
    check("ORDERD_OUTBOUND_STREAM", "a b", false);
    check("ORDERD_OUTBOUND_PREFIX", "orders.*", false);
    check("ORDERD_RELAY", "off", true);
    for (value, valid) in [
        ("none", true),
        ("nats:payments.query", true),
        ("nats:payments.*", false),
        ("nats:", false),
        ("http://127.0.0.1:9000/query", true),
        ("https://ann:secret@pay.example/query", true),
        ("ftp://pay.example", false),
        ("payments.query", false),
        ("", false),
    ] {
        check("ORDERD_PAYMENT_QUERY", value, valid);
    }
    for (value, valid) in [("off", true), ("1m", true), ("60", false), ("0s", false)] {
        check("ORDERD_RECONCILE_EVERY", value, valid);
        check("ORDERD_LAST_CHECK_AFTER", value, valid);
    }
    for (value, valid) in [("1", true), ("10000", true), ("0", false), ("1.5", false)] {
        check("ORDERD_RECONCILE_RATE", value, valid);
    }
    check("ORDERD_WAIT_FOR_ORDER", "off", false);
    check("ORDERD_RELAY", "true", false);
    check("ORDERD_LOG_FORMAT", "xml", false);
    check("DATABASE_URL", "mysql://ann@db/shop", false);
    check("NATS_URL", "nats://a:4222,nats://b:4222", true);
    check("NATS_URL", "nats://a:x", false);
    check("NATS_URL", "a:4222", true);
    for nonsense in ["", ",", "nats://", "nats://a,,", "ws://a:4222", "http://a"] {
        check("NATS_URL", nonsense, false);
    }
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    check("NATS_CERT", here, false);
    check("NATS_CREDS", here, true);
    check("NATS_CA", here, true);
    for file in [
        "NATS_CREDS",
        "NATS_CA",
        "NATS_CERT",
        "NATS_KEY",
        "ORDERD_TOKENS_FILE",
    ] {
        check(file, "", false);
    }
    check("NATS_CREDS", "/nonexistent/creds", false);
    check("ORDERD_LOG", "", false);
}

#[test]
fn only_loopback_is_served_without_tokens() {
    let open = [("ORDERD_HTTP_ADDR", "0.0.0.0:8080")];
    let error = parse(&open).unwrap_err().to_string();
    assert!(
        error.contains("ORDERD_HTTP_ADDR") && error.contains("ORDERD_TOKENS_FILE"),
        "{error}"
    );
    parse(&[open[0], ("ORDERD_TOKENS_FILE", "tokens")]).unwrap();
    parse(&[("ORDERD_TOKENS_FILE", "tokens")]).unwrap();
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
    let error = parse(&[("DATABASE_URL", "mysql://h/d?password=s3cret&x=1")]).unwrap_err();
    assert!(error.to_string().contains("?password=***&x=1"), "{error}");
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
