//! Is every message that can't be understood a dead letter, byte for byte, and no other message?

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::api::PAGE;
use crate::difference::Check;
use crate::plan::{Fault, Message};
use crate::session::Session;
use crate::view::LetterView;
use crate::{Difference, Names, Plan};

/// Reads the open dead letters; returns how many are this plan's, and what is wrong with them. Each may have been stored
/// this many times more than once.
pub(crate) async fn dead_letters(
    session: &Session<'_>,
    uncertain: u64,
) -> Result<(u64, Vec<Difference>), Difference> {
    let path = "/v1/dead-letters?state=open";
    let seen = session.api.list(path, PAGE).await?.unwrap_or_default();
    let names = &session.options.names;
    Ok(compare_letters(session.plan, names, &seen, uncertain))
}

fn compare_letters(
    plan: &Plan,
    names: &Names,
    seen: &[LetterView],
    uncertain: u64,
) -> (u64, Vec<Difference>) {
    let mut expected: BTreeMap<Vec<u8>, (u32, Fault, u64)> = (0u32..)
        .zip(&plan.letters)
        .map(|(letter, &fault)| (plan.letter_kept(letter), (letter, fault, 0)))
        .collect();
    let mut differences = Vec::new();
    let mut ours = 0;
    for view in seen {
        let name = format!("dead letter {}", view.id);
        let Ok(body) = STANDARD.decode(&view.body_base64) else {
            Check::of(name, &mut differences).differs("a body in base64", "another body");
            continue;
        };
        let Some((letter, fault, count)) = expected.get_mut(&body) else {
            if contains(&body, plan.prefix.as_bytes()) {
                let text: String = String::from_utf8_lossy(&body).chars().take(300).collect();
                let found = format!("{}: {text}", view.reason);
                let expected = "no dead letter of a good event";
                Check::of(name, &mut differences).differs(expected, found);
            }
            continue;
        };
        ours += 1;
        *count += 1;
        let provider = plan.subject_provider(Message::Letter { letter: *letter });
        let subject = format!("{}.{provider}", names.inbound_subject);
        let mut check = Check::of(format!("{name} ({fault})"), &mut differences);
        check.same("subject", &subject, &view.subject);
        check.same("stream", &names.inbound_stream, &view.stream);
        if !fault.reasons().contains(&&*view.reason) {
            check.same("reason", &fault.reasons().join(" or "), &view.reason);
        }
    }
    for (letter, fault, count) in expected.into_values() {
        if !(1..=1 + uncertain).contains(&count) {
            let name = format!("dead letter number {letter} ({fault})");
            Check::of(name, &mut differences).differs("kept once", format!("{count} times"));
        }
    }
    (ours, differences)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use base64::Engine;

    use super::{LetterView, STANDARD, compare_letters};
    use crate::plan::Message;
    use crate::{Names, Plan, PlanOptions};

    fn plan() -> Plan {
        let options = PlanOptions {
            orders: 1,
            ..PlanOptions::default()
        };
        Plan::generate(&options)
    }

    fn kept(plan: &Plan, letter: u32) -> LetterView {
        let provider = plan.subject_provider(Message::Letter { letter });
        LetterView {
            id: letter.into(),
            stream: "PAYMENTS".to_owned(),
            subject: format!("payments.events.{provider}"),
            body_base64: STANDARD.encode(plan.letter_kept(letter)),
            reason: plan.letters[letter as usize].reasons()[0].to_owned(),
        }
    }

    fn check(spoil: impl FnOnce(&Plan, &mut Vec<LetterView>), expect: &[&str]) {
        let plan = plan();
        let mut seen: Vec<_> = (0u32..)
            .zip(&plan.letters)
            .map(|(letter, _)| kept(&plan, letter))
            .collect();
        spoil(&plan, &mut seen);
        let (_, found) = compare_letters(&plan, &Names::default(), &seen, 0);
        assert_eq!(found.len(), expect.len(), "{found:#?}");
        for (difference, part) in found.iter().zip(expect) {
            assert!(
                difference.to_string().contains(part),
                "{part}: {difference}"
            );
        }
    }

    #[test]
    fn letters_kept_byte_for_byte_are_no_difference() {
        check(|_, _| {}, &[]);
    }

    #[test]
    fn a_wrong_reason_a_lost_letter_and_a_repeated_one_are_differences() {
        check(
            |_, seen| seen[0].reason = "invalid-json".to_owned(),
            &["expected invalid-utf8"],
        );
        check(
            |_, seen| drop(seen.remove(3)),
            &["expected kept once, found 0 times"],
        );
        check(
            |_, seen| seen.push(seen[0].clone()),
            &["expected kept once, found 2 times"],
        );
    }

    #[test]
    fn a_good_event_among_the_letters_is_a_difference() {
        let event = |plan: &Plan| plan.body(Message::Payment { fact: 0, label: 0 });
        check(
            |plan, seen| {
                let body_base64 = STANDARD.encode(event(plan));
                seen.push(LetterView {
                    body_base64,
                    ..kept(plan, 0)
                });
            },
            &["expected no dead letter of a good event"],
        );
    }
}
