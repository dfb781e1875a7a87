//! Inputs that once failed, each with what was wrong.

use serde_json::{Value as Json, json};
use taskhub::domain::target::{self, TargetPolicy, TargetRefused};

use super::hub::{Fuzzed, request};
use super::rules;
use crate::mcp::client::{MODERN, meta, post};
use crate::support::OWNER_TOKEN;

/// The detail of a refused body.
fn told(fuzzed: &Fuzzed, path: &str, body: &Json) -> String {
    let bearer = if path.starts_with("/api") { OWNER_TOKEN } else { &fuzzed.key };
    let headers = [("authorization", format!("Bearer {bearer}"))];
    let response = fuzzed.send(&request("POST", path, &headers, body.to_string().into_bytes()));
    assert_eq!(rules::is_plain(&response).as_deref(), Some("bad_request"));
    rules::json(&response)["detail"].as_str().expect("a detail").to_owned()
}

/// The refusal repeated a wrong text whole, which may be a credential in the wrong field.
#[test]
fn a_credential_in_the_wrong_field_is_not_repeated() {
    let fuzzed = Fuzzed::new();
    let token = &fuzzed.held.token;
    let (task_id, key) = (&fuzzed.held.id, &fuzzed.key);
    let hook = json!({ "adapter": "webhook", "url": "https://bot.example/", "auth": "a secret of the receiver" });
    for (path, body, secret) in [
        ("/executor/defer", json!({ "task_id": task_id, "seconds": token }), token.as_str()),
        ("/executor/result", json!({ "task_id": task_id, "status": token }), token),
        ("/executor/heartbeat", json!({ "task_id": task_id, "state": key, "claim_token": token }), key),
        ("/api/executors", json!({ "name": "ant", "wake": hook }), "a secret of the receiver"),
    ] {
        let detail = told(&fuzzed, path, &body);
        assert!(!detail.contains(secret), "{detail}");
        assert!(detail.contains("call: "), "the field is named: {detail}");
    }
    let detail = told(&fuzzed, "/executor/result", &json!({ "task_id": task_id, "status": "done" }));
    assert!(detail.contains("status: unknown word, expected one of `completed`, `failed`, `blocked`"), "{detail}");
}

/// A refusal was as long as what was wrong in the body: up to a megabyte, twice.
#[test]
fn a_refusal_is_not_as_long_as_the_body() {
    let fuzzed = Fuzzed::new();
    let long = "\u{1}".repeat(8_000);
    for body in
        [json!({ "wait_seconds": long }), json!({ long.clone(): 1 }), json!({ "queues": [{ long.clone(): 1 }] })]
    {
        assert!(told(&fuzzed, "/executor/claim", &body).len() < 600);
    }
}

/// So was an error of JSON-RPC, as long as a header or a version.
#[test]
fn an_rpc_error_is_not_as_long_as_what_it_refuses() {
    let fuzzed = Fuzzed::new();
    let long = "x".repeat(9_000);
    let mut params = json!({ "_meta": meta() });
    let message =
        |params: &Json| json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params }).to_string();
    let method = post(&[("mcp-protocol-version", MODERN), ("mcp-method", &long)], message(&params).as_bytes());
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(long);
    let version = post(&[("mcp-protocol-version", &long), ("mcp-method", "tools/list")], message(&params).as_bytes());
    for request in [method, version] {
        let response = fuzzed.send(&request);
        rules::is_rpc(&response);
        assert!((400..500).contains(&response.status) && response.body.len() < 1_500, "{}", response.body.len());
    }
}

/// A debug build panicked in an assertion of `idna_adapter`.
#[test]
fn a_host_with_a_capital_beside_other_letters_is_refused() {
    for text in ["https://0.0.0.0A\u{a1}", "https://A%C2%A1.example/", "https://M\u{fc}nchen.example"] {
        assert_eq!(target::check(text, TargetPolicy::PublicOnly), Err(TargetRefused::NotAnAddress), "{text}");
    }
}
