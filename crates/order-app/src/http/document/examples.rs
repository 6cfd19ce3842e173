//! Examples of the document: one for every shape and one for every kind of problem, each a real
//! value, written as the service writes it.

use std::fmt::Debug;
use std::str::FromStr;

use order_fsm::{Content, OrderEvent, OrderStatus, PaymentKey, Refusal, Verdict};
use order_store::{
    DeadLetter, FindingKind, HistoryItem, LetterState, Order, Outcome, PaidBy, Payment,
    PaymentException, Run, RunCounts, RunFinding, RunState, Source, StartedBy,
};
use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::macros::datetime;
use utoipa::PartialSchema as _;
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{Content as Answer, RefOr};

use crate::http::answer::error::{ApiError, ErrorId};
use crate::http::answer::probe::{CheckState, Checks, NotReadyReason, Probe, Readiness};
use crate::http::answer::problem::{Kind, Problem};
use crate::http::request::key::REPLAYED;
use crate::tokens::Scope;
use crate::wire;

const RUN_ID: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
const DIGEST: &str = "5f1d7a84db5a1c3e8b7f6a5d4c3b2a190f8e7d6c5b4a39281706f5e4d3c2b1a0";
const OCCURRED: OffsetDateTime = datetime!(2026-11-29 08:00 UTC);
const RECEIVED: OffsetDateTime = datetime!(2026-11-29 08:00:01.123456 UTC);
const PAY_BY: OffsetDateTime = datetime!(2026-11-29 08:30 UTC);

/// Adds an example to every answer of an operation that has none.
pub(crate) fn complete(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else {
            continue;
        };
        for (media_type, content) in &mut response.content {
            if let RefOr::T(content) = content
                && content.examples.is_empty()
            {
                content.example = answer(media_type, status, content);
            }
        }
    }
}

/// Documents that the answers of a command may be replayed.
pub(crate) fn mark_replayed(command: &mut Operation) {
    for (status, response) in &mut command.responses.responses {
        let kept = status.starts_with('2') || status.starts_with('4');
        if let (true, RefOr::T(response)) = (kept, response) {
            let about = "`true` if the answer was replayed for this `Idempotency-Key`.";
            let header = HeaderBuilder::new()
                .schema(Some(bool::schema()))
                .description(Some(about));
            let name = REPLAYED.to_string();
            response.headers.insert(name, RefOr::T(header.build()));
        }
    }
}

/// The problems of a response, by slug.
pub(crate) fn problems(kinds: &[Kind]) -> impl Iterator<Item = (String, RefOr<Example>)> {
    kinds.iter().map(|kind| {
        let (instance, error) = problem(*kind);
        let problem = Problem::from(error);
        let example = ExampleBuilder::new().value(Some(value(problem.body(instance))));
        (kind.row().slug.to_owned(), RefOr::T(example.build()))
    })
}

fn answer(media_type: &str, status: &str, content: &Answer) -> Option<Value> {
    if media_type == "text/plain" {
        let metrics = "# TYPE orderd_dead_letters_open gauge\norderd_dead_letters_open 0\n";
        return Some(json!(metrics));
    }
    match &content.schema {
        Some(RefOr::Ref(reference)) => {
            let (_, name) = reference.ref_location.rsplit_once('/')?;
            shape(name, status)
        }
        // The document itself.
        _ => Some(json!({"openapi": "3.1.0"})),
    }
}

fn shape(name: &str, status: &str) -> Option<Value> {
    if let Some(item) = name.strip_suffix("List") {
        return Some(json!({"items": [shape(item, status)?], "next_cursor": null}));
    }
    let example = match name {
        "Order" => value(wire::Order::from(order())),
        "HistoryItem" => value(wire::HistoryItem::from(history_item())),
        "Payment" => value(wire::Payment::from(payment())),
        "PaymentException" => value(wire::Exception::from(exception())),
        "DeadLetter" => value(wire::DeadLetter::from(dead_letter())),
        "Run" => value(wire::Run::from(run(status == "202"))),
        "Replay" => value(wire::Replay::new(Verdict::Applied, false)),
        "Probe" => value(probe(status == "200")),
        _ => return None,
    };
    Some(example)
}

fn value(example: impl Serialize) -> Value {
    serde_json::to_value(example).expect("what is answered serialises without fail")
}

fn of<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().expect("the examples are valid")
}

fn order() -> Order {
    Order {
        order_id: of("OD-1"),
        status: OrderStatus::Paid,
        amount: amount(1000),
        currency: of("CNY"),
        version: 2,
        pay_by: PAY_BY,
        created_at: OCCURRED,
        updated_at: RECEIVED,
        paid_by: Some(PaidBy {
            provider: of("acme"),
            transaction_id: of("tx-1"),
        }),
    }
}

fn amount(minor_units: i64) -> order_fsm::Amount {
    minor_units.try_into().expect("the examples are valid")
}

fn history_item() -> HistoryItem {
    HistoryItem {
        version: 2,
        from: Some(OrderStatus::NotPaid),
        to: Some(OrderStatus::Paid),
        event: OrderEvent::Pay.as_str().to_owned(),
        outcome: Outcome::Applied,
        source: Source::Event,
        actor: "orderd".to_owned(),
        reason: None,
        provider: Some(of("acme")),
        transaction_id: Some(of("tx-1")),
        at: RECEIVED,
    }
}

fn key(transaction_id: &str) -> PaymentKey {
    PaymentKey {
        provider: of("acme"),
        transaction_id: of(transaction_id),
        kind: of("succeeded"),
    }
}

fn content(order_id: &str, minor_units: i64) -> Content {
    Content {
        order_id: of(order_id),
        amount: amount(minor_units),
        currency: of("CNY"),
    }
}

fn payment() -> Payment {
    Payment {
        key: key("tx-1"),
        event_id: Some(of("ev-1")),
        content: content("OD-1", 1000),
        verdict: Verdict::Applied,
        occurred_at: OCCURRED,
        received_at: RECEIVED,
        source: Source::Event,
    }
}

fn exception() -> PaymentException {
    PaymentException {
        id: DIGEST.to_owned(),
        verdict: Verdict::AmountMismatch,
        key: key("tx-2"),
        content: content("OD-2", 999),
        event_id: Some(of("ev-2")),
        expected_order_id: Some(of("OD-2")),
        expected_amount: Some(amount(1000)),
        expected_currency: Some(of("CNY")),
        occurred_at: OCCURRED,
        pay_by: Some(PAY_BY),
        opened_at: RECEIVED,
        closed: None,
    }
}

fn dead_letter() -> DeadLetter {
    DeadLetter {
        id: DIGEST.to_owned(),
        stream: "PAYMENTS".to_owned(),
        subject: "payments.events.acme".to_owned(),
        sequence: 7,
        headers: r#"{"Nats-Msg-Id":["ev-3"]}"#.to_owned(),
        body: b"not JSON".to_vec(),
        reason: crate::payment_event::Reason::InvalidJson
            .as_str()
            .to_owned(),
        detail: "expected ident at line 1 column 2".to_owned(),
        received_at: RECEIVED,
        state: LetterState::Open,
        note: None,
    }
}

fn run(is_begun: bool) -> Run {
    let begun = Run {
        id: RUN_ID.to_owned(),
        state: RunState::Running,
        dry_run: false,
        started_by: StartedBy::Api,
        started_at: OCCURRED,
        finished_at: None,
        counts: RunCounts::default(),
        findings: Vec::new(),
        unreadable: 0,
    };
    if is_begun {
        return begun;
    }
    let finding = RunFinding {
        order_id: of("OD-1"),
        kind: FindingKind::Healed,
        detail: "acme/tx-1 (succeeded), 1000 CNY: only the payment service reported it, APPLIED"
            .to_owned(),
    };
    Run {
        state: RunState::Done,
        finished_at: Some(datetime!(2026-11-29 08:00:02.123456 UTC)),
        counts: RunCounts {
            asked: 1,
            healed: 1,
            ..RunCounts::default()
        },
        findings: vec![finding],
        ..begun
    }
}

fn probe(is_ready: bool) -> Probe {
    if is_ready {
        return Probe {
            status: Readiness::Ready,
            checks: Checks {
                database: CheckState::Up,
                broker: CheckState::Up,
            },
            reasons: Vec::new(),
        };
    }
    Probe {
        status: Readiness::NotReady,
        checks: Checks {
            database: CheckState::Up,
            broker: CheckState::Down,
        },
        reasons: vec![NotReadyReason {
            reason: "broker-down",
            detail: "the broker doesn't answer".to_owned(),
        }],
    }
}

/// A problem of this kind, and the path of the request that met it.
fn problem(kind: Kind) -> (&'static str, ApiError) {
    const ORDERS: &str = "/v1/orders";
    const CANCEL: &str = "/v1/orders/OD-2/cancel";
    let (path, error) = match kind {
        Kind::InvalidRequest => (ORDERS, ApiError::invalid("/amount", "must be an integer")),
        Kind::Unauthenticated => (
            ORDERS,
            ApiError::Unauthenticated("the token has expired; use another one"),
        ),
        Kind::Forbidden => (ORDERS, ApiError::Forbidden(Scope::OrdersWrite)),
        Kind::RateLimited => (ORDERS, ApiError::RateLimited),
        Kind::NotFound => ("/v1/orders/OD-9", ApiError::no_such_order(&of("OD-9"))),
        Kind::MethodNotAllowed => ("/v1/payments", ApiError::MethodNotAllowed),
        Kind::OrderExists => (ORDERS, ApiError::OrderExists(Box::new(order()))),
        Kind::IllegalTransition => {
            let error = ApiError::IllegalTransition {
                event: OrderEvent::Complete,
                refusal: Refusal::NotShippedYet,
                order: Box::new(order()),
                moved_by: Some(Box::new(history_item().into())),
            };
            ("/v1/orders/OD-1/complete", error)
        }
        Kind::PaymentRecorded => (CANCEL, ApiError::PaymentRecorded(of("OD-2"))),
        Kind::PaymentPending => (CANCEL, ApiError::PaymentPending(of("OD-2"))),
        Kind::PaymentStateUnknown => {
            let why = "the reply leaves it out".to_owned();
            (CANCEL, ApiError::PaymentStateUnknown(of("OD-2"), why))
        }
        Kind::AlreadyRunning => {
            let error = ApiError::AlreadyRunning(RUN_ID.to_owned());
            ("/v1/reconciliations", error)
        }
        Kind::AlreadyClosed => {
            let error = ApiError::AlreadyClosed("the dead letter is already replayed".to_owned());
            ("/v1/dead-letters", error)
        }
        Kind::IdempotencyKeyInUse => (ORDERS, ApiError::KeyInUse),
        Kind::PreconditionFailed => {
            let error = ApiError::OtherVersion(Box::new(order()));
            ("/v1/orders/OD-1/ship", error)
        }
        Kind::PayloadTooLarge => (ORDERS, ApiError::PayloadTooLarge),
        Kind::UnsupportedMediaType => {
            let why = "the Content-Type must be application/json";
            (ORDERS, ApiError::UnsupportedMediaType(why))
        }
        Kind::IdempotencyKeyReused => (ORDERS, ApiError::KeyReused),
        Kind::Internal => (ORDERS, ApiError::Internal(ErrorId(0xa1))),
        Kind::Unavailable => (ORDERS, ApiError::Unavailable),
    };
    (path, error)
}
