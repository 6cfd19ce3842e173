//! Examples of the document: one for every shape and one for every kind of problem.

use serde_json::{Value, json};
use utoipa::PartialSchema as _;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{Content, RefOr};

use super::idempotency;
use super::problem::Kind;

const RUN_ID: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

const DIGEST: &str = "5f1d7a84db5a1c3e8b7f6a5d4c3b2a190f8e7d6c5b4a39281706f5e4d3c2b1a0";

/// Gives every answer of an operation that has none its example.
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

/// Says of the answers of a command that they may be repeated.
pub(crate) fn mark_replayed(command: &mut Operation) {
    for (status, response) in &mut command.responses.responses {
        let kept = status.starts_with('2') || status.starts_with('4');
        if let (true, RefOr::T(response)) = (kept, response) {
            let about = "`true` if the answer was given before under this `Idempotency-Key`.";
            let header = HeaderBuilder::new()
                .schema(Some(bool::schema()))
                .description(Some(about));
            let name = idempotency::REPLAYED.to_string();
            response.headers.insert(name, RefOr::T(header.build()));
        }
    }
}

/// The problems of a response, by slug.
pub(crate) fn problems(
    kinds: &[Kind],
) -> impl Iterator<Item = (String, RefOr<utoipa::openapi::example::Example>)> {
    kinds.iter().map(|kind| {
        let example = ExampleBuilder::new().value(Some(problem(*kind))).build();
        (kind.row().slug.to_owned(), RefOr::T(example))
    })
}

fn answer(media_type: &str, status: &str, content: &Content) -> Option<Value> {
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
        "Order" => order(),
        "HistoryItem" => history_item(),
        "Payment" => payment(),
        "PaymentException" => exception(),
        "DeadLetter" => dead_letter(),
        "Run" => run(status),
        "Replay" => json!({"verdict": "APPLIED", "applied": true, "detail": "is APPLIED"}),
        "Probe" if status == "503" => {
            json!({"status": "not-ready", "checks": {"database": "up", "broker": "down"}})
        }
        "Probe" => json!({"status": "ready", "checks": {"database": "up", "broker": "up"}}),
        _ => return None,
    };
    Some(example)
}

fn order() -> Value {
    json!({
        "order_id": "OD-1",
        "status": "PAID",
        "amount": 1000,
        "currency": "CNY",
        "version": 2,
        "pay_by": "2026-11-29T08:30:00.000000Z",
        "created_at": "2026-11-29T08:00:00.000000Z",
        "updated_at": "2026-11-29T08:00:01.123456Z",
        "paid_by": {"provider": "acme", "transaction_id": "tx-1"},
    })
}

fn history_item() -> Value {
    json!({
        "version": 2,
        "from": "NOT_PAID",
        "to": "PAID",
        "event": "pay",
        "outcome": "applied",
        "source": "event",
        "actor": "orderd",
        "reason": null,
        "provider": "acme",
        "transaction_id": "tx-1",
        "at": "2026-11-29T08:00:01.123456Z",
    })
}

fn payment() -> Value {
    json!({
        "provider": "acme",
        "transaction_id": "tx-1",
        "kind": "succeeded",
        "event_id": "ev-1",
        "order_id": "OD-1",
        "verdict": "APPLIED",
        "amount": 1000,
        "currency": "CNY",
        "occurred_at": "2026-11-29T08:00:00.000000Z",
        "received_at": "2026-11-29T08:00:01.123456Z",
        "source": "event",
    })
}

fn exception() -> Value {
    json!({
        "id": DIGEST,
        "verdict": "AMOUNT_MISMATCH",
        "order_id": "OD-2",
        "provider": "acme",
        "transaction_id": "tx-2",
        "kind": "succeeded",
        "event_id": "ev-2",
        "amount": 999,
        "currency": "CNY",
        "expected_order_id": "OD-2",
        "expected_amount": 1000,
        "expected_currency": "CNY",
        "occurred_at": "2026-11-29T08:00:00.000000Z",
        "pay_by": "2026-11-29T08:30:00.000000Z",
        "in_time": null,
        "state": "open",
        "resolution": null,
        "note": null,
        "closed_by": null,
        "opened_at": "2026-11-29T08:00:01.123456Z",
        "closed_at": null,
    })
}

fn dead_letter() -> Value {
    json!({
        "id": DIGEST,
        "stream": "PAYMENTS",
        "subject": "payments.events.acme",
        "sequence": 7,
        "headers": {"Nats-Msg-Id": ["ev-3"]},
        "body_base64": "bm90IEpTT04=",
        "reason": "invalid-json",
        "detail": "expected ident at line 1 column 2",
        "received_at": "2026-11-29T08:00:01.123456Z",
        "state": "open",
        "note": null,
    })
}

fn run(status: &str) -> Value {
    let begun = status == "202";
    let mut run = json!({
        "id": RUN_ID,
        "state": if begun { "running" } else { "done" },
        "dry_run": false,
        "trigger": "api",
        "started_at": "2026-11-29T08:00:00.000000Z",
        "finished_at": null,
        "findings": [],
    });
    for outcome in [
        "asked",
        "healed",
        "cancelled",
        "pending",
        "unknown",
        "raced",
        "settled",
    ] {
        run[outcome] = json!(0);
    }
    if !begun {
        run["finished_at"] = json!("2026-11-29T08:00:02.123456Z");
        run["asked"] = json!(1);
        run["healed"] = json!(1);
        run["findings"] = json!([{
            "order_id": "OD-1",
            "kind": "healed",
            "detail": "acme/tx-1 (succeeded), 1000 CNY: only the payment service told of it, APPLIED",
        }]);
    }
    run
}

fn problem(kind: Kind) -> Value {
    let row = kind.row();
    let (instance, detail) = occurrence(kind);
    let mut problem = json!({
        "type": format!("/problems/{}", row.slug),
        "title": row.title,
        "status": row.status.as_u16(),
        "detail": detail,
        "instance": instance,
    });
    if kind == Kind::InvalidRequest {
        problem["errors"] = json!([{"pointer": "/amount", "detail": "must be an integer"}]);
    }
    if kind == Kind::AlreadyRunning {
        problem["id"] = json!(RUN_ID);
    }
    if kind == Kind::IllegalTransition {
        problem["order_status"] = json!("PAID");
        problem["version"] = json!(2);
        problem["moved_by"] = history_item();
    }
    problem
}

fn occurrence(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::InvalidRequest => ("/v1/orders", "/amount must be an integer"),
        Kind::Unauthenticated => ("/v1/orders", "the token has expired"),
        Kind::Forbidden => ("/v1/orders", "the token lacks the scope orders:write"),
        Kind::RateLimited => ("/v1/orders", "too many requests in a second"),
        Kind::NotFound => ("/v1/orders/OD-9", "there is no order OD-9"),
        Kind::MethodNotAllowed => (
            "/v1/payments",
            "see the Allow header for the methods of this path",
        ),
        Kind::OrderExists => (
            "/v1/orders",
            "order OD-1 exists with 1000 CNY and pay_by 2026-11-29T08:30:00.000000Z",
        ),
        Kind::IllegalTransition => (
            "/v1/orders/OD-1/complete",
            "complete is not possible: order OD-1 is not shipped",
        ),
        Kind::PaymentRecorded => (
            "/v1/orders/OD-2/cancel",
            "money was received for order OD-2: a person has to look at it first",
        ),
        Kind::PaymentPending => (
            "/v1/orders/OD-2/cancel",
            "a payment of order OD-2 is on its way",
        ),
        Kind::PaymentStateUnknown => (
            "/v1/orders/OD-2/cancel",
            "nobody knows whether order OD-2 was paid: the reply leaves it out",
        ),
        Kind::AlreadyRunning => (
            "/v1/reconciliations",
            "reconciliation 0f1e2d3c4b5a69788796a5b4c3d2e1f0 is at work",
        ),
        Kind::AlreadyClosed => ("/v1/dead-letters", "the dead letter is replayed"),
        Kind::IdempotencyKeyInUse => (
            "/v1/orders",
            "the same request is being carried out: try again in a moment",
        ),
        Kind::PreconditionFailed => ("/v1/orders/OD-1/ship", "order OD-1 has version 2"),
        Kind::PayloadTooLarge => ("/v1/orders", "the body may have 65536 bytes at most"),
        Kind::UnsupportedMediaType => ("/v1/orders", "the Content-Type must be application/json"),
        Kind::IdempotencyKeyReused => (
            "/v1/orders",
            "the key was used for a request with another method, path or body",
        ),
        Kind::Internal => (
            "/v1/orders",
            "a fault of this service; its log tells more under 00000000000000a1",
        ),
        Kind::Unavailable => ("/v1/orders", "try again in a moment"),
    }
}
