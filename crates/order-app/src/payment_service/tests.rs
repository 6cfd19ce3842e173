//! Replies as tables: what is definite, and what is not.

use order_fsm::{OrderId, OrderStatus, PaymentKind, Verdict};
use order_store::{RecordedAnswer, Source};

use super::reply::{Reply, State, read};
use super::retry_after;

fn ids(text: &str) -> Vec<OrderId> {
    text.split(' ').map(|id| id.parse().unwrap()).collect()
}

/// Reads entries about O1 and O2.
fn reply(entries: &str) -> Reply {
    let body = format!(r#"{{"payments":[{entries}],"more":1}}"#);
    read(body.as_bytes(), &ids("O1 O2"), true).unwrap()
}

fn word(state: &State) -> &'static str {
    match state {
        State::Paid => "paid",
        State::Refunded => "refunded",
        State::UnpaidForGood => "unpaid-for-good",
        State::Unpaid => "unpaid",
        State::Pending => "pending",
        State::Unknown(_) => "unknown",
    }
}

/// `O1`'s answer as `state facts`.
fn check(entries: &str, expect: &str) {
    let reply = reply(entries);
    let answer = &reply.answers[0];
    let kinds: Vec<&str> = answer
        .facts
        .iter()
        .map(|fact| fact.key.kind.as_str())
        .collect();
    let seen = format!("{} {}", word(&answer.state), kinds.join(" "));
    if answer.state != State::Paid && !matches!(answer.state, State::Unknown(_)) {
        // Nothing but payments can be given up.
        assert_eq!(answer.rest.as_ref(), Some(&answer.state), "{entries}");
    }
    assert_eq!(seen.trim_end(), expect, "{entries}");
}

const PAID: &str = r#"{"order_id":"O1","state":"paid","provider":"acme","transaction_id":"t1","amount":1000,"currency":"EUR","occurred_at":"2026-11-29T08:00:00Z"}"#;
const REFUNDED: &str = r#"{"order_id":"O1","state":"refunded","provider":"acme","transaction_id":"r1","amount":1000,"currency":"EUR","occurred_at":"2026-11-29T08:00:00Z"}"#;
const FINAL: &str = r#"{"order_id":"O1","state":"unpaid","final":true}"#;
const UNPAID: &str = r#"{"order_id":"O1","state":"unpaid","final":false}"#;
const PENDING: &str = r#"{"order_id":"O1","state":"pending"}"#;
const UNKNOWN: &str = r#"{"order_id":"O1","state":"unknown"}"#;

#[test]
fn what_is_said_beside_a_payment_is_kept_for_the_case_that_it_was_given_up() {
    for (rest, expect) in [
        ("", "nothing"),
        (PAID, "nothing"),
        (FINAL, "unpaid-for-good"),
        (UNPAID, "unpaid"),
        (PENDING, "pending"),
        (REFUNDED, "refunded"),
        (UNKNOWN, "unknown"),
    ] {
        let entries = format!("{PAID},{rest}");
        let answer = reply(entries.trim_end_matches(',')).answers.remove(0);
        assert_eq!(answer.state, State::Paid, "{entries}");
        assert_eq!(
            answer.rest.as_ref().map_or("nothing", word),
            expect,
            "{entries}"
        );
        let recorded = |all| vec![all; answer.facts.len()];
        let given_up = recorded(RecordedAnswer::GivenUp(Verdict::AmountMismatch));
        assert_eq!(
            answer.state_after(&given_up),
            answer.rest.as_ref(),
            "{entries}"
        );
        let known = recorded(RecordedAnswer::Known(
            Verdict::AmountMismatch,
            OrderStatus::NotPaid,
        ));
        assert_eq!(answer.state_after(&known), Some(&State::Paid), "{entries}");
    }
}

#[test]
fn every_combination_of_entries_has_its_meaning() {
    check(PAID, "paid succeeded");
    check(REFUNDED, "refunded refunded");
    check(FINAL, "unpaid-for-good");
    check(UNPAID, "unpaid");
    check(r#"{"order_id":"O1","state":"unpaid"}"#, "unpaid");
    check(PENDING, "pending");
    check(UNKNOWN, "unknown");
    check("", "unknown");
    let pairs = [
        (PAID, PAID, "paid succeeded succeeded"),
        (PAID, REFUNDED, "paid succeeded refunded"),
        (PAID, FINAL, "paid succeeded"),
        (PAID, UNKNOWN, "paid succeeded"),
        (REFUNDED, FINAL, "refunded refunded"),
        (REFUNDED, PENDING, "pending refunded"),
        (REFUNDED, UNKNOWN, "unknown"),
        (FINAL, FINAL, "unpaid-for-good"),
        (FINAL, UNPAID, "unpaid"),
        (FINAL, PENDING, "pending"),
        (FINAL, UNKNOWN, "unknown"),
        (PENDING, UNKNOWN, "unknown"),
    ];
    for (one, other, expect) in pairs {
        check(&format!("{one},{other}"), expect);
        let state = expect.split(' ').next().unwrap();
        let turned = reply(&format!("{other},{one}"));
        assert_eq!(word(&turned.answers[0].state), state, "{other},{one}");
    }
}

#[test]
fn an_entry_that_cannot_be_read_makes_its_order_unknown_whatever_else_is_said() {
    let broken = [
        r#"{"order_id":"O1"}"#,
        r#"{"order_id":"O1","state":"deleting"}"#,
        r#"{"order_id":"O1","state":1}"#,
        r#"{"order_id":"O1","state":"unpaid","final":"true"}"#,
        r#"{"order_id":"O1","state":"unpaid","final":null}"#,
        r#"{"order_id":"O1","state":"unpaid","state":"paid"}"#,
        r#"{"order_id":"O1","state":"paid"}"#,
        &PAID.replace("1000", "1000.0"),
        &PAID.replace("1000", "\"1000\""),
        &PAID.replace("1000", "0"),
        &PAID.replace("EUR", "EURO"),
        &PAID.replace("acme", "ACME"),
        &PAID.replace("t1", ""),
        &PAID.replace("08:00:00Z", "08:00:00"),
        &PAID.replace("T08:00:00Z", "x08:00:00Z"),
    ];
    for entry in broken {
        check(entry, "unknown");
        check(&format!("{entry},{PAID}"), "unknown");
        check(&format!("{FINAL},{entry}"), "unknown");
        let other = reply(&format!(
            r#"{entry},{{"order_id":"O2","state":"unpaid","final":true}}"#
        ));
        assert_eq!(other.answers[1].state, State::UnpaidForGood, "{entry}");
        assert_eq!((other.foreign, other.nameless), (0, 0), "{entry}");
    }
}

#[test]
fn entries_about_others_are_counted() {
    let reply = reply(&format!(
        r#"{PAID},{{"order_id":"O9","state":"paid"}},42,null,{{}},{{"order_id":7}},{{"order_id":""}},
           {{"order_id":"O1","order_id":"O2","state":"unpaid"}}"#
    ));
    assert_eq!((reply.foreign, reply.nameless), (1, 6));
    assert_eq!(word(&reply.answers[0].state), "paid");
    assert_eq!(word(&reply.answers[1].state), "unknown");
}

#[test]
fn a_paid_entry_is_a_fact_of_the_reconciliation() {
    let reply = reply(PAID);
    let fact = &reply.answers[0].facts[0];
    assert_eq!(fact.key.kind, PaymentKind::Succeeded);
    assert_eq!(fact.source, Source::Reconciliation);
    assert_eq!(fact.event_id, None);
    assert_eq!(fact.content.amount.minor_units(), 1000);
    assert!(fact.livemode);
}

#[test]
fn an_invalid_reply_cannot_be_read() {
    let bodies: [&[u8]; 10] = [
        b"",
        b"<html>",
        b"null",
        b"[]",
        b"{}",
        br#"{"payments":null}"#,
        br#"{"payments":{}}"#,
        br#"{"payments":[],"payments":[]}"#,
        br#"{"payments":[{"order_id":"O1","state":"unpaid""#,
        b"{\"payments\":[]}\xff",
    ];
    for body in bodies {
        let read = read(body, &ids("O1"), true);
        assert!(read.is_err(), "{}", String::from_utf8_lossy(body));
    }
}

#[test]
fn what_retry_after_names_is_read_whatever_its_size() {
    for (text, expect) in [
        ("0", Some(0)),
        ("90", Some(90)),
        (" 90 ", Some(90)),
        ("315360000", Some(315_360_000)),
        ("18446744073709551615", Some(u64::MAX)),
        ("99999999999999999999999999", Some(u64::MAX)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(0)),
        ("-1", None),
        ("+1", None),
        ("1.5", None),
        ("in a while", None),
        ("", None),
    ] {
        let named = retry_after(text).map(|pause| pause.as_secs());
        assert_eq!(named, expect, "{text:?}");
    }
    let far = retry_after("Fri, 31 Dec 9999 23:59:59 GMT").unwrap();
    assert!(far.as_secs() > 315_360_000, "{far:?}");
}
