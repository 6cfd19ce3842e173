//! Every answer and every problem of the document has an example, and each fits its shape.

use serde_json::{Value, json};

use crate::http::answer::problem::Kind;
use crate::http::openapi_json;

/// Compares a value with a schema of this document: references, members, words, types.
fn check(document: &Value, schema: &Value, value: &Value, at: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.strip_prefix('#').unwrap();
        let schema = document.pointer(pointer).unwrap();
        return check(document, schema, value, at);
    }
    for several in ["oneOf", "anyOf"] {
        let Some(schemas) = schema[several].as_array() else {
            continue;
        };
        let schema = if value.is_null() {
            schemas.iter().find(|schema| schema["type"] == "null")
        } else {
            schemas.iter().find(|schema| schema["type"] != "null")
        };
        return check(document, schema.expect("a schema that fits"), value, at);
    }
    if let Some(words) = schema["enum"].as_array() {
        assert!(
            words.contains(value),
            "{at}: {value} isn't one of {words:?}"
        );
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        one => vec![one.clone()],
    };
    let fits = types.iter().any(|name| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    });
    assert!(fits, "{at}: {value} is no {types:?}");
    if let (Some(properties), Some(members)) = (schema["properties"].as_object(), value.as_object())
    {
        for name in members.keys() {
            assert!(properties.contains_key(name), "{at} has no {name}");
        }
        for name in schema["required"].as_array().unwrap() {
            assert!(
                members.contains_key(name.as_str().unwrap()),
                "{at} lacks {name}"
            );
        }
        for (name, value) in members {
            check(document, &properties[name], value, &format!("{at}/{name}"));
        }
    }
    if let Some(items) = value.as_array() {
        // A run that has just begun has no findings; a ready service has no reasons.
        let may_be_empty = at.ends_with(" 202/findings") || at.ends_with(" 200/reasons");
        assert!(may_be_empty || !items.is_empty(), "{at} shows nothing");
        for item in items {
            check(document, &schema["items"], item, &format!("{at}[]"));
        }
    }
}

/// The responses with a body, by operation and status.
fn responses(document: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let contents = response["content"].as_object();
                for (_, content) in contents.into_iter().flatten() {
                    found.push((format!("{method} {path} {status}"), content.clone()));
                }
            }
        }
    }
    found
}

#[test]
fn every_answer_has_an_example_that_fits() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let mut problems = 0;
    for (at, content) in responses(&document) {
        if let Some(examples) = content["examples"].as_object() {
            for (slug, example) in examples {
                let example = &example["value"];
                assert_eq!(example["type"], format!("/problems/{slug}"), "{at}");
                let status = at.rsplit(' ').next().unwrap();
                assert_eq!(example["status"].to_string(), status, "{at}");
                let schema = match slug.as_str() {
                    "already-running" => "AlreadyRunningProblem",
                    "invalid-request" => "InvalidRequestProblem",
                    "illegal-transition" => "IllegalTransitionProblem",
                    _ => "Problem",
                };
                let schema = json!({"$ref": format!("#/components/schemas/{schema}")});
                check(&document, &schema, example, &format!("{at} {slug}"));
                problems += 1;
            }
        } else {
            let example = content.get("example");
            let example = example.unwrap_or_else(|| panic!("{at} has no example"));
            check(&document, &content["schema"], example, &at);
        }
    }
    assert!(problems > Kind::ALL.len(), "{problems}");
}

#[test]
fn every_problem_of_an_operation_is_shown() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let shown: Vec<String> = responses(&document)
        .iter()
        .filter_map(|(_, content)| content["examples"].as_object())
        .flat_map(|examples| examples.keys().cloned())
        .collect();
    for kind in Kind::ALL {
        // A wrong method belongs to no operation.
        if kind != Kind::MethodNotAllowed {
            let slug = kind.row().slug;
            assert!(shown.iter().any(|shown| shown == slug), "{slug}");
        }
    }
}

#[test]
fn every_command_accepts_an_idempotency_key() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let mut commands = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let Some(command) = item.get("post") else {
            continue;
        };
        commands += 1;
        let parameters = command["parameters"].as_array().unwrap();
        let key = parameters
            .iter()
            .find(|parameter| parameter["name"] == "Idempotency-Key");
        assert_eq!(key.unwrap()["in"], "header", "{path}");
        let responses = command["responses"].as_object().unwrap();
        for (status, slug) in [
            ("409", "idempotency-key-in-use"),
            ("422", "idempotency-key-reused"),
        ] {
            let content = &responses[status]["content"]["application/problem+json"];
            assert!(content["examples"].get(slug).is_some(), "{path} {slug}");
        }
        for (status, response) in responses {
            let replayed = response["headers"].get("idempotent-replayed").is_some();
            assert_eq!(replayed, !status.starts_with('5'), "{path} {status}");
        }
    }
    assert!(commands >= 7, "{commands}");
}
