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
        ("1", true),
        ("5", true),
        ("0", false),
        ("6", false),
        ("two", false),
    ] {
        check("ORDERD_STREAM_REPLICAS", value, valid);
    }
    for (value, valid) in [
        ("none", true),
        ("nats:payments.query", true),
        ("nats:payments.*", false),
        ("nats:payments.events", true),
        ("nats:payments.eventsx", true),
        ("nats:payments.events.query", false),
        ("nats:orders.events.query", false),
        ("nats:", false),
        ("http://127.0.0.1:9000/query", true),
        ("https://ann:secret@pay.example/query", true),
        ("ftp://pay.example", false),
        ("http:ann:secret@pay.example", false),
        ("https:pay.example://", false),
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
            .starts_with("ORDERD_LIVEMOD isn't a setting"),
        "{error}"
    );
}

#[test]
fn what_kubernetes_injects_for_a_service_of_our_name_is_ignored() {
    parse(&[
        ("ORDERD_SERVICE_HOST", "10.0.0.1"),
        ("ORDERD_SERVICE_PORT", "80"),
        ("ORDERD_SERVICE_PORT_HTTP", "80"),
        ("ORDERD_PORT", "tcp://10.0.0.1:80"),
        ("ORDERD_PORT_80_TCP", "tcp://10.0.0.1:80"),
        ("ORDERD_PORT_80_TCP_ADDR", "10.0.0.1"),
    ])
    .unwrap();
    let error = parse(&[("ORDERD_DB_SERVICE_HOST", "10.0.0.1")]).unwrap_err();
    let said = error.to_string();
    assert!(
        said.starts_with("ORDERD_DB_SERVICE_HOST isn't a setting"),
        "{said}"
    );
    assert!(said.contains("enableServiceLinks"), "{said}");
}

/// White space as shells, files and editors leave it behind.
const AROUND: [&str; 9] = [
    " ", "  ", "\t", "\n", "\r\n", "\u{a0}", "\u{2003}", "\u{3000}", "\u{85}",
];

#[test]
fn white_space_around_a_value_is_cut_off() {
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for space in AROUND {
        let around = |value: &str| format!("{space}{value}{space}");
        let (database, creds) = (around("sqlite://orderd.db"), around(here));
        let (addr, nats) = (
            around("127.0.0.1:0"),
            around("nats://a:4222 , nats://b:4222"),
        );
        let (tokens, query) = (around("tokens"), around("http://pay.example/query"));
        let config = parse(&[
            ("DATABASE_URL", &database),
            ("NATS_URL", &nats),
            ("NATS_CREDS", &creds),
            ("ORDERD_HTTP_ADDR", &addr),
            ("ORDERD_TOKENS_FILE", &tokens),
            ("ORDERD_PAYMENT_QUERY", &query),
            ("ORDERD_PAY_WITHIN", &around("30s")),
            ("ORDERD_CONSUMER", &around("orderd")),
            ("ORDERD_LIVEMODE", &around("true")),
            ("ORDERD_LOG", &around("info")),
        ])
        .unwrap();
        let path = config.database_url.sqlite_path().unwrap();
        assert_eq!(path, std::path::Path::new("orderd.db"), "{space:?}");
        assert_eq!(config.nats.creds, Some(here.into()), "{space:?}");
        assert_eq!(config.nats.servers.len(), 2, "{space:?}");
        assert_eq!(config.tokens_file, Some("tokens".into()), "{space:?}");
        assert_eq!(config.nats.consumer, "orderd", "{space:?}");
        assert_eq!(config.log, "info", "{space:?}");
    }
    for nothing in ["DATABASE_URL", "ORDERD_TOKENS_FILE", "ORDERD_LOG"] {
        check(nothing, " ", false);
    }
}

#[test]
fn a_control_character_inside_a_value_is_wrong_and_shown_escaped() {
    for control in ['\0', '\t', '\n', '\r', '\u{1b}', '\u{7f}', '\u{85}'] {
        for (env, value) in [
            ("DATABASE_URL", format!("sqlite://ord{control}erd.db")),
            ("ORDERD_TOKENS_FILE", format!("tok{control}ens")),
            ("ORDERD_LOG", format!("info,{control}order_app=debug")),
            ("NATS_URL", format!("nats://a,{control}nats://b")),
        ] {
            let said = parse(&[(env, &value)]).unwrap_err().to_string();
            assert!(said.starts_with(env), "{said:?}");
            assert!(said.contains("control characters"), "{said:?}");
            assert!(!said.contains(control), "{said:?}");
        }
    }
    let said = parse(&[("DATABASE_URL", "postgres://ann:s3c\nret@db/shop")]).unwrap_err();
    let said = said.to_string();
    assert!(
        said.contains("ann:***@db") && !said.contains("s3c"),
        "{said}"
    );
}

#[test]
fn a_password_is_never_shown() {
    for (env, url) in [
        ("DATABASE_URL", "mysql://ann:s3cret,s3cret@db/shop"),
        ("DATABASE_URL", "mysql://ann:s3cret@s3cret@db/shop"),
        ("DATABASE_URL", "mysql://h/d?password=s3cret@s3cret"),
        ("NATS_URL", "http://s3cret@h"),
        ("NATS_URL", "nats://u:s3cret@h,nats://s3cret@h:x"),
        ("NATS_URL", "nats://s3cret@h:4222,nats://u:s3cret@h:x"),
        ("NATS_URL", "nats://h:4222,nats://s3cret@h:x"),
        ("ORDERD_PAYMENT_QUERY", "ftp://ann:s3cret@pay.example"),
        ("ORDERD_PAYMENT_QUERY", "ftp://pay.example/?api_key=s3cret"),
        ("ORDERD_PAYMENT_QUERY", "http:u:s3cret@h"),
        ("DATABASE_URL", "postgres://u:s3cret"),
    ] {
        let said = parse(&[(env, url)]).unwrap_err().to_string();
        assert!(!said.contains("s3cret"), "{said}");
        assert!(said.contains("***"), "{said}");
    }
    let said = parse(&[("DATABASE_URL", "postgres://ann@db:x/shop")]).unwrap_err();
    assert!(said.to_string().contains("ann@db:x"), "{said}");

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
    let error = parse(&[("DATABASE_URL", "mysql://h/d?password=s3cret&mode=1")]).unwrap_err();
    assert!(
        error.to_string().contains("?password=***&mode=1"),
        "{error}"
    );
    for url in [
        "nats://u:s3cret@h:x,nats://u:s3cret@h",
        "nats://s3cret@h:x",
        "s3cret@h:x",
        "nats://u:pass,s3cret@h",
        "nats://u@h:x?password=s3cret,nats://h?password=s3cret",
    ] {
        let error = parse(&[("NATS_URL", url)]).unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
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
    let spaced = read("pay_within = \" 1h\\n\"\nlivemode = '\tfalse '", None).unwrap();
    assert_eq!(
        (spaced.livemode, spaced.pay_within),
        (false, Duration::from_hours(1))
    );
    let said = read("consumer = \"or\\u0007der\"", None)
        .unwrap_err()
        .to_string();
    assert!(
        said.starts_with("consumer in ") && said.contains("or\\u{7}der"),
        "{said}"
    );
    std::fs::remove_dir_all(folder).unwrap();
}
