//! Scripts and what is recorded, without a transport.

use std::time::Duration;

use tokio::time::Instant;

use crate::asked::{self, Pace};
use crate::{Answer, Asked, Fault, Payment, RetryAfter, Script};

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|&id| id.to_owned()).collect()
}

#[test]
fn the_most_specific_answer_is_given() {
    let mut script = Script::all(Answer::unknown());
    script.set_start("OD-", Answer::unpaid());
    script.set_start("OD-1", Answer::unpaid_for_good());
    script.set("OD-12", Answer::pending());
    let check = |id: &str, expect: Answer| assert_eq!(script.answer(id), expect, "{id}");
    check("X", Answer::unknown());
    check("OD-2", Answer::unpaid());
    check("OD-11", Answer::unpaid_for_good());
    check("OD-12", Answer::pending());
    assert_eq!(Script::default().answer("X"), Answer::absent());
}

#[test]
fn replies_are_those_of_the_contract() {
    let mut script = Script::all(Answer::paid(Payment::new(
        "acme",
        "tx-{order_id}",
        1000,
        "CNY",
    )));
    script.set("B", Answer::unpaid_for_good());
    script.set("C", Answer::absent());
    script.set("D", Answer::unpaid().and(Answer::pending()));
    script.set("E", Answer::unreadable());
    script.set(
        "F",
        Answer::refunded(Payment::new("acme", "r", 1, "EUR")).and(Answer::unknown()),
    );
    let expect = concat!(
        r#"{"payments":["#,
        r#"{"order_id":"A","state":"paid","provider":"acme","transaction_id":"tx-A","amount":1000,"currency":"CNY","occurred_at":"2026-11-29T08:00:00Z"},"#,
        r#"{"order_id":"B","state":"unpaid","final":true},"#,
        r#"{"order_id":"D","state":"unpaid","final":false},{"order_id":"D","state":"pending"},"#,
        r#"{"order_id":"E","state":"paid"},"#,
        r#"{"order_id":"F","state":"refunded","provider":"acme","transaction_id":"r","amount":1,"currency":"EUR","occurred_at":"2026-11-29T08:00:00Z"},{"order_id":"F","state":"unknown"}"#,
        "]}"
    );
    assert_eq!(
        script.reply(&ids(&["A", "B", "C", "D", "E", "F"]), &[]),
        expect
    );
}

#[test]
fn faults_have_their_turn_and_poison_comes_first() {
    let mut script = Script::default();
    script.always(Fault::Empty);
    script.above(2, Fault::Truncated);
    script.every(3, Fault::Html);
    script.next(Fault::Garbage);
    script.next_is_well();
    script.poison("P", Fault::Silent);
    let mut check = |nth: u64, id: &str, expect: Option<Fault>| {
        assert_eq!(script.fault(nth, &ids(&["A", id])), expect, "{nth} {id}");
    };
    check(1, "P", Some(Fault::Silent));
    check(2, "B", Some(Fault::Garbage));
    check(3, "B", None);
    check(4, "B", Some(Fault::Empty));
    check(6, "B", Some(Fault::Html));
    check(6, "P", Some(Fault::Silent));
    assert_eq!(
        script.fault(6, &ids(&["A", "B", "C"])),
        Some(Fault::Truncated)
    );
    script.clear_faults();
    assert_eq!(script.fault(7, &ids(&["P"])), None);
}

#[test]
fn the_fastest_second_and_early_questions_are_recorded() {
    let (mut pace, mut asked, start) = (Pace::default(), Asked::default(), Instant::now());
    let at = |ms: u64| start + Duration::from_millis(ms);
    for (ms, expect) in [(0, 1), (400, 2), (999, 3), (1000, 3), (1399, 4), (3000, 1)] {
        assert_eq!(pace.arrive(at(ms), &mut asked), expect, "{ms}");
    }
    assert_eq!((asked.questions, asked.most_in_a_second), (6, 4));
    pace.close(at(3000), Duration::from_secs(2));
    pace.close(at(3100), Duration::from_secs(1));
    for ms in [3500, 4999, 5000, 5001] {
        pace.arrive(at(ms), &mut asked);
    }
    assert_eq!(asked.too_early, [500, 1999].map(Duration::from_millis));
    assert_eq!(asked.times[..2], [at(0), at(400)]);
    let violation = "2 questions before the time that a Retry-After had named";
    assert_eq!(asked.violation().as_deref(), Some(violation));
    asked.add_wrong("unreadable".to_owned());
    asked.add_wrong("too large".to_owned());
    let violation = "2 questions that the contract doesn't allow, the first: unreadable";
    assert_eq!(asked.violation().as_deref(), Some(violation));
    assert_eq!(Asked::default().violation(), None);
}

#[test]
fn questions_that_the_contract_does_not_allow_are_refused() {
    let check = |body: &str, expect: Result<usize, &str>| {
        let found = asked::read(body.as_bytes());
        match (&found, expect) {
            (Ok(ids), Ok(count)) => assert_eq!(ids.len(), count),
            (Err(what), Err(part)) => assert!(what.contains(part), "{what}"),
            _ => panic!("{body}: {found:?}"),
        }
    };
    let of = |count: usize| {
        let ids: Vec<String> = (0..count).map(|n| format!("\"{n}\"")).collect();
        format!(r#"{{"order_ids":[{}]}}"#, ids.join(","))
    };
    check(&of(1), Ok(1));
    check(&of(500), Ok(500));
    check(&of(501), Err("501 orders"));
    check(&of(0), Err("0 orders"));
    check(r#"{"order_ids":["A","B","A"]}"#, Err("A named twice"));
    check(r#"{"order_ids":["A"],"more":1}"#, Err("unknown field"));
    check(r#"{"order_ids":[1]}"#, Err("invalid type"));
    check("", Err("EOF"));
}

#[test]
fn a_script_is_read_from_lines() {
    let mut script = Script::read(
        r#"
{"order_id":"OD-*","state":"unpaid","final":true}
{"order_id":"OD-1","state":"paid","amount":1000}
{"order_id":"OD-1","state":"paid","provider":"globex","transaction_id":"x","amount":5,"currency":"JPY","occurred_at":"2026-01-01T00:00:00+08:00"}
{"order_id":"OD-2","state":"absent"}
{"order_id":"OD-3","raw":"[]"}
{"fault":"slow=2s","times":1}
{"fault":"too-many=3","every":10}
{"fault":"garbage","order_id":"OD-7"}
{"fault":"foreign=A,B"}
{"fault":"body={}","above":1}
{"limit":20}"#,
    )
    .unwrap();
    let mut second = Payment::new("globex", "x", 5, "JPY");
    "2026-01-01T00:00:00+08:00".clone_into(&mut second.occurred_at);
    let first = Payment::new("acme", "t-{order_id}", 1000, "EUR");
    assert_eq!(script.answer("OD-9"), Answer::unpaid_for_good());
    assert_eq!(
        script.answer("OD-1"),
        Answer::paid(first).and(Answer::paid(second))
    );
    assert_eq!(script.answer("OD-2"), Answer::absent());
    assert_eq!(script.answer("OD-3"), Answer::raw("[]"));
    let fault = |nth, id| script.fault(nth, &ids(&[id]));
    assert_eq!(
        [(1, "OD-7"), (2, "A"), (3, "A"), (10, "A")].map(fault_of(fault)),
        [
            Some(Fault::Garbage),
            Some(Fault::Slow(Duration::from_secs(2))),
            Some(Fault::Foreign(ids(&["A", "B"]))),
            Some(Fault::TooMany(RetryAfter::Seconds(3))),
        ]
    );
    let text = Some(Fault::Body("{}".to_owned()));
    assert_eq!(script.fault(3, &ids(&["A", "B"])), text);
    assert!(!script.is_over(20) && script.is_over(21));
}

/// An array's `map` passes one argument.
fn fault_of<'a>(
    mut fault: impl FnMut(u64, &'a str) -> Option<Fault>,
) -> impl FnMut((u64, &'a str)) -> Option<Fault> {
    move |(nth, id)| fault(nth, id)
}

#[test]
fn a_wrong_line_is_refused_with_its_number() {
    let check = |line: &str, expect: &str| {
        let error = Script::read(&format!("\n{line}")).unwrap_err().to_string();
        assert!(
            error.starts_with("line 2: ") && error.contains(expect),
            "{error}"
        );
    };
    check("{}", "no order_id, fault or limit");
    check(r#"{"order_id":"A","state":"gone"}"#, "gone");
    check(r#"{"order_id":"A","state":"paid"}"#, "amount");
    check(r#"{"fault":"slow"}"#, "slow");
    check(r#"{"fault":"status=7"}"#, "status=7");
    check(r#"{"order":"A"}"#, "unknown field");
}
