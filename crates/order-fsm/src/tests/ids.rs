use crate::{Amount, Currency, OrderId, OrderStatus, PaymentKind, Provider, Verdict};

fn check_id(text: &str, valid: bool) {
    assert_eq!(text.parse::<OrderId>().is_ok(), valid, "{text:?}");
}

#[test]
fn an_id_has_1_to_64_of_its_alphabet_and_starts_with_a_letter_or_digit() {
    check_id("O", true);
    check_id("9", true);
    check_id("OD-1._:-", true);
    check_id(&"x".repeat(64), true);
    check_id(&"x".repeat(65), false);
    check_id("", false);
    check_id("-1", false);
    check_id(".1", false);
    check_id("a b", false);
    check_id("a/b", false);
    check_id("a*", false);
    check_id("a>", false);
    check_id("a\0", false);
    check_id("ö", false);
    check_id("O1\n", false);
}

#[test]
fn a_provider_has_1_to_32_of_its_alphabet() {
    for (text, valid) in [
        ("acme", true),
        ("a", true),
        ("_-9", true),
        (&*"p".repeat(32), true),
        (&*"p".repeat(33), false),
        ("", false),
        ("Acme", false),
        ("a.b", false),
    ] {
        assert_eq!(text.parse::<Provider>().is_ok(), valid, "{text:?}");
    }
}

#[test]
fn money_is_a_positive_integer_every_json_reader_holds() {
    for (minor_units, valid) in [
        (1, true),
        (9_007_199_254_740_991, true),
        (9_007_199_254_740_992, false),
        (0, false),
        (-1, false),
        (i64::MAX, false),
        (i64::MIN, false),
    ] {
        assert_eq!(
            Amount::try_from(minor_units).is_ok(),
            valid,
            "{minor_units}"
        );
    }
    for (code, valid) in [
        ("EUR", true),
        ("CNY", true),
        ("JPY", true),
        ("eur", false),
        ("EU", false),
        ("EURO", false),
        ("ABC", false),
        ("", false),
        ("€", false),
    ] {
        assert_eq!(code.parse::<Currency>().is_ok(), valid, "{code:?}");
    }
}

#[test]
fn names_are_read_back_as_they_are_written() {
    for status in OrderStatus::ALL {
        assert_eq!(status.as_str().parse(), Ok(status));
    }
    for verdict in Verdict::ALL {
        assert_eq!(verdict.as_str().parse(), Ok(verdict));
    }
    for kind in [
        "succeeded",
        "failed",
        "expired",
        "refunded",
        "reversed",
        "a.b_c-9",
    ] {
        assert_eq!(kind.parse::<PaymentKind>().unwrap().as_str(), kind);
    }
    for kind in ["", "Failed", "a b", &"k".repeat(33)] {
        assert!(kind.parse::<PaymentKind>().is_err(), "{kind:?}");
    }
    assert!("paid".parse::<OrderStatus>().is_err());
    assert!("applied".parse::<Verdict>().is_err());
}
