//! The document: committed, whole, and in the words of the domain.

use std::collections::BTreeSet;
use std::path::Path;

use order_fsm::{OrderEvent, OrderStatus, Verdict};
use serde_json::{Value, json};

use super::app::TestApp;
use crate::http::openapi_json;

fn document() -> Value {
    serde_json::from_str(&openapi_json()).unwrap()
}

/// Every operation, as `get /path`.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths
        .flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().iter();
            methods.map(move |(method, operation)| (format!("{method} {path}"), operation))
        })
        .collect()
}

#[test]
fn the_committed_document_is_what_orderd_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi/orders-v1.json");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == openapi_json(),
        "write the document again: orderd openapi > openapi/orders-v1.json"
    );
}

#[tokio::test]
async fn the_served_document_is_the_committed_one() {
    let answer = TestApp::start().await.get("/openapi.json").await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.text(), openapi_json());
}

#[test]
fn words_of_the_document_are_those_of_the_domain() {
    let document = document();
    let words = |schema: &str| document["components"]["schemas"][schema]["enum"].clone();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(
        words("OrderStatus"),
        json!(OrderStatus::ALL.map(OrderStatus::as_str))
    );
    assert_eq!(words("Verdict"), json!(Verdict::ALL.map(Verdict::as_str)));
    assert_eq!(words("Source"), json!(["event", "reconciliation", "api"]));
    let reasons = crate::payment_event::Reason::ALL.map(crate::payment_event::Reason::as_str);
    assert_eq!(words("LetterReason"), json!(reasons));
    let mut events = vec!["create"];
    events.extend(OrderEvent::ALL.map(OrderEvent::as_str));
    assert_eq!(words("HistoryEvent"), json!(events));
}

#[test]
fn every_operation_has_a_name_a_summary_and_its_problems() {
    let document = document();
    let mut ids = BTreeSet::new();
    for (name, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap();
        let verb = id.split('_').next().unwrap();
        assert!(
            [
                "get", "list", "create", "ship", "complete", "cancel", "close", "replay", "discard"
            ]
            .contains(&verb),
            "{id}"
        );
        assert!(ids.insert(id), "{id} is there twice");
        assert!(operation["summary"].is_string(), "{name} has no summary");
        let responses = operation["responses"].as_object().unwrap();
        assert!(
            responses.contains_key("500") && responses.contains_key("503"),
            "{name}"
        );
        let ok = responses
            .iter()
            .filter(|(status, _)| status.starts_with('2'));
        for (status, response) in ok {
            assert!(
                response["content"].is_object(),
                "{name} {status} has no shape"
            );
        }
        if name.contains("{order_id}") {
            assert_eq!(operation["parameters"][0]["name"], "order_id", "{name}");
            assert!(responses.contains_key("404"), "{name}");
        }
    }
    assert_eq!(ids.len(), 23);
}

#[test]
fn every_reference_leads_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members
                    .values()
                    .for_each(|member| references(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for reference in &found {
        let name = reference.strip_prefix("#/components/schemas/").unwrap();
        assert!(schemas.contains_key(name), "{reference}");
    }
    for name in schemas.keys() {
        assert!(
            found.contains(format!("#/components/schemas/{name}").as_str()),
            "{name} is unused"
        );
    }
}

#[test]
fn commands_are_closed_and_answers_complete() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    for name in ["CreateOrder", "OperateOrder"] {
        assert_eq!(
            schemas[name]["additionalProperties"],
            json!(false),
            "{name}"
        );
    }
    assert_eq!(
        schemas["CreateOrder"]["required"],
        json!(["order_id", "amount", "currency"])
    );
    for name in [
        "Order",
        "HistoryItem",
        "Payment",
        "Probe",
        "OrderList",
        "PaymentList",
        "HistoryItemList",
    ] {
        let members = schemas[name]["properties"].as_object().unwrap();
        let required = schemas[name]["required"].as_array().unwrap();
        let optional: Vec<&String> = members
            .keys()
            .filter(|member| !required.contains(&json!(member)))
            .collect();
        // Only the count of unreadable rows may be absent.
        if name.ends_with("List") {
            assert_eq!(optional, ["unreadable"], "{name}");
        } else {
            assert!(optional.is_empty(), "{name}: {optional:?}");
        }
    }
}
