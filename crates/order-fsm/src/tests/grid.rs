use std::fmt::Write as _;

use super::content;
use crate::{
    Content, Decision, Fact, OrderEvent, OrderFacts, OrderStatus, PaymentKind, Transition, decide,
    diagram, judge,
};

#[test]
fn every_status_meets_every_event() {
    let mut grid = String::new();
    for status in OrderStatus::ALL {
        for event in OrderEvent::ALL {
            let answer = match decide(status, event) {
                Decision::Advance(step) => format!("-> {}", step.to),
                Decision::AlreadyThere => "already there".to_owned(),
                Decision::Refused(reason) => format!("refused: {reason}"),
            };
            writeln!(grid, "{status:<9} {event:<8} {answer}").unwrap();
        }
    }
    insta::assert_snapshot!(grid);
}

#[test]
fn the_guard_of_an_event_is_the_only_status_it_is_legal_in() {
    for event in OrderEvent::ALL {
        let legal: Vec<_> = OrderStatus::ALL
            .into_iter()
            .filter(|status| matches!(decide(*status, event), Decision::Advance(_)))
            .collect();
        assert_eq!(legal, [Transition::of(event).from], "{event}");
    }
}

#[test]
fn every_status_but_the_first_is_reached_and_reaching_it_again_is_already_there() {
    for event in OrderEvent::ALL {
        assert_eq!(
            decide(event.target(), event),
            Decision::AlreadyThere,
            "{event}"
        );
    }
    let reached: Vec<_> = OrderEvent::ALL
        .into_iter()
        .map(OrderEvent::target)
        .collect();
    for status in OrderStatus::ALL {
        assert_eq!(
            reached.contains(&status),
            status != OrderStatus::NotPaid,
            "{status}"
        );
    }
}

#[test]
fn the_diagram_shows_the_allow_list() {
    insta::assert_snapshot!(diagram());
}

/// The contract's table over everything it depends on. The columns are the money of the event:
/// what the order asks for, another amount, another currency, and both.
#[test]
fn every_payment_meets_every_order() {
    let paid = [
        ("equal", content("O1", 1000, "EUR")),
        ("amount", content("O1", 1001, "EUR")),
        ("currency", content("O1", 1000, "USD")),
        ("both", content("O1", 1001, "USD")),
    ];
    let records: [(&str, Option<Content>); 5] = [
        ("unknown", None),
        ("O1 1000 EUR", Some(content("O1", 1000, "EUR"))),
        ("O2 1000 EUR", Some(content("O2", 1000, "EUR"))),
        ("O1 1001 EUR", Some(content("O1", 1001, "EUR"))),
        ("O1 1000 USD", Some(content("O1", 1000, "USD"))),
    ];
    let kinds = [
        "succeeded",
        "failed",
        "expired",
        "refunded",
        "reversed",
        "refunded_v2",
    ];
    let orders: Vec<Option<OrderStatus>> = std::iter::once(None)
        .chain(OrderStatus::ALL.map(Some))
        .collect();

    let mut grid = String::new();
    for livemode in [true, false] {
        for (record, known) in &records {
            for kind in kinds {
                for status in &orders {
                    write!(
                        grid,
                        "{:<8} {record:<11} {kind:<11} {:<9}",
                        if livemode { "live" } else { "not live" },
                        status.map_or("absent", OrderStatus::as_str)
                    )
                    .unwrap();
                    for (_, content) in &paid {
                        let order = status.map(|status| OrderFacts {
                            status,
                            amount: paid[0].1.amount,
                            currency: paid[0].1.currency,
                        });
                        let kind: PaymentKind = kind.parse().unwrap();
                        let fact = Fact {
                            kind,
                            livemode,
                            content: content.clone(),
                        };
                        let verdict = judge(true, known.as_ref(), order.as_ref(), &fact);
                        write!(grid, " {verdict:<19}").unwrap();
                    }
                    grid.truncate(grid.trim_end().len());
                    grid.push('\n');
                }
            }
        }
    }
    let columns = paid.map(|(name, _)| format!("{name:<19}")).join(" ");
    let head = format!(
        "{:<8} {:<11} {:<11} {:<9} {columns}",
        "mode", "recorded", "kind", "order"
    );
    insta::assert_snapshot!(format!("{}\n{grid}", head.trim_end()));
}
