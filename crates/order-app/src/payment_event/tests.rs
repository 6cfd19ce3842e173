use super::*;

const GOOD: &str = r#"{"event_id":"ev-1","type":"payment.succeeded","order_id":"OD-1","provider":"acme","transaction_id":"tx-1","amount":1000,"currency":"CNY","occurred_at":"2026-11-29T08:00:00Z","livemode":true}"#;

fn reason(body: impl AsRef<[u8]>) -> &'static str {
    match decode("acme", body.as_ref()) {
        Ok(_) => "understood",
        Err(fault) => fault.reason.as_str(),
    }
}

/// The good event with one field written differently.
fn with(name: &str, raw: &str) -> String {
    let mut event: Vec<(String, String)> = serde_json::from_str::<serde_json::Value>(GOOD)
        .unwrap()
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| (key.clone(), value.to_string()))
        .collect();
    event.iter_mut().find(|(key, _)| key == name).unwrap().1 = raw.to_owned();
    object(&event)
}

fn without(name: &str) -> String {
    let event: serde_json::Value = serde_json::from_str(GOOD).unwrap();
    let mut event = event.as_object().unwrap().clone();
    event.remove(name);
    serde_json::Value::Object(event).to_string()
}

fn object(fields: &[(String, String)]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|(key, raw)| format!("{}:{raw}", serde_json::json!(key)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

#[test]
fn a_good_event_is_understood_whole() {
    insta::assert_debug_snapshot!(decode("acme", GOOD.as_bytes()).unwrap());
}

#[test]
fn only_a_plain_integer_in_range_is_an_amount() {
    for (raw, expect) in [
        ("1", "understood"),
        ("9007199254740991", "understood"),
        ("9007199254740992", "invalid-amount"),
        ("9007199254740993", "invalid-amount"),
        ("9223372036854775807", "invalid-amount"),
        ("9223372036854775808", "invalid-amount"),
        ("99999999999999999999999999", "invalid-amount"),
        ("0", "invalid-amount"),
        ("-0", "invalid-amount"),
        ("-1000", "invalid-amount"),
        ("1000.0", "wrong-type"),
        ("1e3", "wrong-type"),
        ("1E+3", "wrong-type"),
        ("100.1", "wrong-type"),
        ("1e400", "wrong-type"),
        ("\"1000\"", "wrong-type"),
        ("null", "wrong-type"),
        ("true", "wrong-type"),
        ("{}", "wrong-type"),
        ("[1000]", "wrong-type"),
        ("NaN", "invalid-json"),
        ("01000", "invalid-json"),
        ("+1000", "invalid-json"),
        ("1_000", "invalid-json"),
    ] {
        assert_eq!(reason(with("amount", raw)), expect, "{raw}");
    }
}

#[test]
fn an_id_is_a_string_of_its_alphabet() {
    for field in ["order_id", "transaction_id", "event_id"] {
        for (raw, expect) in [
            ("\"x\"".to_owned(), "understood"),
            (format!("\"{}\"", "x".repeat(64)), "understood"),
            (format!("\"{}\"", "x".repeat(65)), "invalid-id"),
            ("\"\"".to_owned(), "invalid-id"),
            ("\" x\"".to_owned(), "invalid-id"),
            ("\"x\\u0000\"".to_owned(), "invalid-id"),
            ("\"\\u0078\"".to_owned(), "understood"),
            ("\"ö\"".to_owned(), "invalid-id"),
            ("\"\\ud800\"".to_owned(), "invalid-json"),
            ("9007199254740993".to_owned(), "wrong-type"),
            ("123".to_owned(), "wrong-type"),
            ("null".to_owned(), "wrong-type"),
            ("{}".to_owned(), "wrong-type"),
            ("[]".to_owned(), "wrong-type"),
        ] {
            assert_eq!(reason(with(field, &raw)), expect, "{field} {raw}");
        }
    }
}

#[test]
fn every_other_field_is_checked() {
    for (field, raw, expect) in [
        ("type", "\"payment.failed\"", "understood"),
        ("type", "\"payment.partially_refunded_v2\"", "understood"),
        ("type", "\"payment.\"", "unsupported-type"),
        ("type", "\"payment.Succeeded\"", "unsupported-type"),
        (
            "type",
            "\"payment.0123456789012345678901234567890123\"",
            "unsupported-type",
        ),
        ("type", "\"refund.succeeded\"", "unsupported-type"),
        ("type", "\"\"", "unsupported-type"),
        ("type", "7", "wrong-type"),
        ("provider", "\"globex\"", "provider-mismatch"),
        ("provider", "\"Acme\"", "invalid-provider"),
        ("provider", "\"\"", "invalid-provider"),
        ("provider", "null", "wrong-type"),
        ("currency", "\"EUR\"", "understood"),
        ("currency", "\"eur\"", "invalid-currency"),
        ("currency", "\"ABC\"", "invalid-currency"),
        ("currency", "978", "wrong-type"),
        ("occurred_at", "\"1970-01-01T00:00:00Z\"", "understood"),
        ("occurred_at", "\"2100-01-01T00:00:00+02:00\"", "understood"),
        ("occurred_at", "\"2026-11-29T08:00:00\"", "invalid-time"),
        ("occurred_at", "\"2026-13-29T08:00:00Z\"", "invalid-time"),
        ("occurred_at", "\"2026-11-29t08:00:00z\"", "understood"),
        ("occurred_at", "\"2026-11-29 08:00:00Z\"", "understood"),
        ("occurred_at", "\"2026-11-29x08:00:00Z\"", "invalid-time"),
        ("occurred_at", "\"2026-11-29_08:00:00Z\"", "invalid-time"),
        ("occurred_at", "1764403200", "wrong-type"),
        ("livemode", "false", "understood"),
        ("livemode", "\"true\"", "wrong-type"),
        ("livemode", "null", "understood"),
        ("livemode", "\"null\"", "wrong-type"),
        ("livemode", "[]", "wrong-type"),
        ("livemode", "1", "wrong-type"),
    ] {
        assert_eq!(reason(with(field, raw)), expect, "{field} {raw}");
    }
}

#[test]
fn every_field_but_the_live_mode_is_required() {
    for field in fields::NAMES {
        let expect = if field == "livemode" {
            "understood"
        } else {
            "missing-field"
        };
        assert_eq!(reason(without(field)), expect, "{field}");
    }
    for body in [without("livemode"), with("livemode", "null")] {
        assert!(decode("acme", body.as_bytes()).unwrap().livemode, "{body}");
    }
}

#[test]
fn a_known_key_is_there_once_and_unknown_ones_are_ignored() {
    for field in fields::NAMES {
        let value = serde_json::from_str::<serde_json::Value>(GOOD).unwrap()[field].to_string();
        let twice = format!("{},\"{field}\":{value}}}", GOOD.trim_end_matches('}'));
        assert_eq!(reason(twice), "duplicate-key", "{field}");
    }
    let escaped = format!(
        "{},\"order\\u005fid\":\"OD-2\"}}",
        GOOD.trim_end_matches('}')
    );
    assert_eq!(reason(escaped), "duplicate-key");
    let nested = format!(
        "{},\"status\":\"deleting\",\"x\":1e400,\"x\":{{\"order_id\":\"a\",\"order_id\":\"b\"}}}}",
        GOOD.trim_end_matches('}')
    );
    assert_eq!(reason(nested), "understood");
}

#[test]
fn bodies_that_are_not_json_objects_have_their_reasons() {
    for (body, expect) in [
        (&b""[..], "invalid-json"),
        (b"   ", "invalid-json"),
        (b"{", "invalid-json"),
        (b"{}x", "invalid-json"),
        (b"{\"amount\":}", "invalid-json"),
        (b"\xef\xbb\xbf{}", "invalid-json"),
        (b"{}", "missing-field"),
        (b"[1", "invalid-json"),
        (b"[1}", "invalid-json"),
        (b"12x", "invalid-json"),
        (b"null null", "invalid-json"),
        (b"\"a\" b", "invalid-json"),
        (b"[]", "wrong-type"),
        (b"1", "wrong-type"),
        (b"\"text\"", "wrong-type"),
        (b"null", "wrong-type"),
        (b"\xff\xfe", "invalid-utf8"),
        (b"{\"order_id\":\"\xc3\x28\"}", "invalid-utf8"),
    ] {
        assert_eq!(reason(body), expect, "{:?}", String::from_utf8_lossy(body));
    }
    let deep = format!("{{\"x\":{}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    assert!(["missing-field", "invalid-json"].contains(&reason(deep)));
    let deep = with(
        "amount",
        &format!("{}{}", "[".repeat(20_000), "]".repeat(20_000)),
    );
    assert!(["wrong-type", "invalid-json"].contains(&reason(deep)));
}

#[test]
fn a_body_over_64_kib_is_refused_with_the_digest_of_all() {
    let padded = |size: usize| {
        let event = format!("{},\"pad\":\"", GOOD.trim_end_matches('}'));
        format!("{event}{}\"}}", "x".repeat(size - event.len() - 2))
    };
    assert_eq!(reason(padded(BODY_MAX)), "understood");
    let fault = decode("acme", padded(BODY_MAX + 1).as_bytes()).unwrap_err();
    assert_eq!(fault.reason, Reason::TooLarge);
    assert!(
        fault.detail.contains("65537") && fault.detail.contains("sha256"),
        "{}",
        fault.detail
    );
}

#[test]
fn the_subject_names_the_provider() {
    for (provider, expect) in [
        ("acme", "understood"),
        ("globex", "mismatch"),
        ("", "mismatch"),
        ("acme.eu", "mismatch"),
    ] {
        let understood = match decode(provider, GOOD.as_bytes()) {
            Ok(_) => "understood",
            Err(fault) if fault.reason == Reason::ProviderMismatch => "mismatch",
            Err(_) => "another fault",
        };
        assert_eq!(understood, expect, "{provider:?}");
    }
}

#[test]
fn no_cut_and_no_flipped_byte_makes_it_panic() {
    for end in 0..GOOD.len() {
        assert_ne!(reason(&GOOD.as_bytes()[..end]), "understood");
        for bit in 0..8 {
            let mut body = GOOD.as_bytes().to_vec();
            body[end] ^= 1 << bit;
            let _ = decode("acme", &body);
        }
    }
}

/// The schema checks them: a new reason needs a migration.
#[test]
fn the_schema_knows_every_reason() {
    let path = format!(
        "{}/../../migrations/postgres/20261130000001_checks.sql",
        env!("CARGO_MANIFEST_DIR")
    );
    let schema = std::fs::read_to_string(path).unwrap();
    let (_, list) = schema.split_once("reason IN (").unwrap();
    let (list, _) = list.split_once(')').unwrap();
    let mut listed: Vec<&str> = list
        .split(',')
        .map(|name| name.trim().trim_matches('\''))
        .collect();
    let mut reasons = Reason::ALL.map(Reason::as_str).to_vec();
    listed.sort_unstable();
    reasons.sort_unstable();
    assert_eq!(listed, reasons);
}
