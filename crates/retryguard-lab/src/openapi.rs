//! The description of every service's endpoints, served at `/openapi.json`.

use serde_json::{Value, json};

use crate::{answer::LARGEST_BODY, faults::Kind, name::Name};

/// The route that a path belongs to, as metrics label it. What is not served shares a label: paths come from
/// outside.
pub(crate) fn route(name: Name, path: &str) -> &'static str {
    let deeper = path
        .strip_prefix("/orders/")
        .is_some_and(|rest| !rest.contains('/'));
    match (name, path) {
        (Name::Gateway | Name::Orders, "/orders") => "/orders",
        (Name::Gateway | Name::Orders, _) if deeper => "/orders/{order}",
        (Name::Payments, "/charges") => "/charges",
        (Name::Inventory, "/reservations") => "/reservations",
        (Name::Notifications, "/notifications") => "/notifications",
        _ => "other",
    }
}

/// The description of a service, in OpenAPI 3.0.
pub(crate) fn describe(name: Name) -> Value {
    let mut paths = json!({
        "/healthz": {"get": {"summary": "Whether it runs", "responses": {"200": plain("It does.")}}},
        "/metrics": {"get": {"summary": "Metrics for Prometheus", "responses": {"200": plain("The metrics.")}}},
        "/openapi.json": {"get": {"summary": "This description", "responses": {"200": answer("The description.", &json!({"type": "object"}))}}},
        "/admin/faults": {
            "get": admin("What is broken", None, &[("200", "The faults.")]),
            "post": admin("Break something", Some("Fault"), &[("201", "It is broken.")]),
            "delete": admin("End all faults", None, &[("200", "All faults have ended.")]),
        },
        "/admin/faults/{fault}": {
            "parameters": [{"name": "fault", "in": "path", "required": true, "schema": fault_name()}],
            "delete": admin("End a fault", None, &[("200", "The fault has ended."), ("404", "It was not broken.")]),
        },
        "/admin/counts": {
            "get": admin("What this process has counted", None, &[("200", "The counts.")]),
        },
        "/admin/capacity": {
            "get": admin("How full the station is", None, &[("200", "Its load."), ("404", "It has no station.")]),
            "put": admin("Change the capacity", Some("Capacity"), &[("200", "Its load."), ("404", "It has no station.")]),
        },
    });
    if let Value::Object(paths) = &mut paths {
        for (path, item) in own(name) {
            paths.insert(path.to_owned(), item);
        }
    }
    json!({
        "openapi": "3.0.3",
        "info": {
            "title": format!("RetryGuard laboratory: {name}"),
            "version": env!("CARGO_PKG_VERSION"),
            "description": format!("Bodies are JSON of at most {LARGEST_BODY} bytes. Every answer that is not a success is an object with `error`, a sentence that says why; what is wrong with an idempotency key is told as application/problem+json."),
        },
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn own(name: Name) -> Vec<(&'static str, Value)> {
    let reference = json!([{"name": "order", "in": "path", "required": true, "schema": {"$ref": "#/components/schemas/Reference"}}]);
    match name {
        Name::Gateway | Name::Orders => vec![
            (
                "/orders",
                json!({"post": work("Place an order", "Order", "It is paid.")}),
            ),
            (
                "/orders/{order}",
                json!({"parameters": reference, "get": {
                    "summary": "The state of an order",
                    "responses": responses(&[("200", "The order."), ("404", "There is none.")]),
                }}),
            ),
        ],
        Name::Payments => vec![(
            "/charges",
            json!({"post": work("Charge", "Charge", "It is charged.")}),
        )],
        Name::Inventory => vec![(
            "/reservations",
            json!({"post": work("Reserve goods", "Order", "They are reserved.")}),
        )],
        Name::Notifications => vec![(
            "/notifications",
            json!({"post": work("Notify a customer", "Notification", "The customer is notified.")}),
        )],
    }
}

fn schemas() -> Value {
    json!({
        "Reference": {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z0-9_-]+$"},
        "Item": object(&json!({
            "sku": {"type": "integer", "minimum": 0, "maximum": u32::MAX},
            "quantity": {"type": "integer", "minimum": 1, "maximum": 1000},
        }), &["sku", "quantity"]),
        "Order": object(&json!({
            "order": {"$ref": "#/components/schemas/Reference"},
            "items": {"type": "array", "minItems": 1, "maxItems": 20, "items": {"$ref": "#/components/schemas/Item"}},
        }), &["order", "items"]),
        "Charge": object(&json!({
            "order": {"$ref": "#/components/schemas/Reference"},
            "amount": {"type": "integer", "minimum": 1, "maximum": 1_000_000_000},
        }), &["order", "amount"]),
        "Notification": object(&json!({"order": {"$ref": "#/components/schemas/Reference"}}), &["order"]),
        "Fault": object(&json!({
            "fault": fault_name(),
            "service": {"type": "string", "enum": Name::ALL.map(Name::as_str)},
            "share": {"type": "number", "minimum": 0, "maximum": 1},
            "for": {"type": "string", "example": "12s"},
        }), &["fault"]),
        "Capacity": object(&json!({
            "workers": {"type": "integer", "minimum": 0, "maximum": 100_000},
            "queue": {"type": "integer", "minimum": 0, "maximum": 100_000},
        }), &["workers", "queue"]),
        "Problem": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]},
    })
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn fault_name() -> Value {
    json!({"type": "string", "enum": Kind::ALL.map(Kind::as_str)})
}

fn work(summary: &str, body: &str, done: &str) -> Value {
    let mut responses = responses(&[("201", done), ("409", "It cannot be done as things stand.")]);
    // Mistakes of a key are reported by the layer that reads it, in the form of RFC 9457.
    for status in ["400", "409", "422"] {
        responses[status]["content"]["application/problem+json"] = json!({"schema": {"type": "object"}});
    }
    json!({
        "summary": summary,
        "parameters": [{"name": "Idempotency-Key", "in": "header", "required": false, "schema": {"type": "string", "minLength": 1, "maxLength": 255}}],
        "requestBody": body_of(body),
        "responses": responses,
    })
}

fn admin(summary: &str, body: Option<&str>, done: &[(&str, &str)]) -> Value {
    let mut operation = json!({
        "summary": summary,
        "security": [{"token": []}],
        "responses": responses(done),
    });
    operation["responses"]["401"] = problem("The token is missing or wrong.");
    if let Some(body) = body {
        operation["requestBody"] = body_of(body);
    }
    operation
}

fn body_of(schema: &str) -> Value {
    json!({"required": true, "content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{schema}")}}}})
}

fn responses(done: &[(&str, &str)]) -> Value {
    let mut responses = json!({
        "400": problem("The body is not JSON."),
        "405": problem("Another method is wanted."),
        "413": problem("The body is too large."),
        "415": problem("The body does not say that it is JSON."),
        "422": problem("The body has a value that is not allowed."),
        "502": problem("A service behind this one closed the connection."),
        "503": problem("The service, or one behind it, is overloaded."),
        "504": problem("The service, or one behind it, did not answer in time."),
    });
    for (status, meaning) in done {
        responses[*status] = if status.starts_with('2') {
            answer(meaning, &json!({}))
        } else {
            problem(meaning)
        };
    }
    responses
}

fn answer(meaning: &str, schema: &Value) -> Value {
    json!({"description": meaning, "content": {"application/json": {"schema": schema}}})
}

fn plain(meaning: &str) -> Value {
    json!({"description": meaning, "content": {"text/plain": {"schema": {"type": "string"}}}})
}

fn problem(meaning: &str) -> Value {
    answer(meaning, &json!({"$ref": "#/components/schemas/Problem"}))
}
