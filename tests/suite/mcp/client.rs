//! An MCP client of both eras over the router, and what it expects of every tool result.

use serde_json::{Value as Json, json};
use taskhub::domain::limits::TOOL_RESULT_BYTES_MAX;
use taskhub::http::message::{Outcome, Request, Response};
use taskhub::http::router;
use taskhub::mcp::schema::tools;

use super::validate;
use crate::support::{OWNER_TOKEN, World};

/// The modern revision.
pub const MODERN: &str = "2026-07-28";

/// The envelope of a modern request.
pub fn meta() -> Json {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": { "name": "tests", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// A POST to `/mcp` under the owner's token, with these headers beside the usual ones.
pub fn post(headers: &[(&str, &str)], body: &[u8]) -> Request {
    let usual = [
        ("authorization", format!("Bearer {OWNER_TOKEN}")),
        ("content-type", "application/json".to_owned()),
        ("accept", "application/json, text/event-stream".to_owned()),
    ];
    let given = |name: &str| headers.iter().any(|(given, _)| *given == name);
    let mut all: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    all.extend(usual.into_iter().filter(|(name, _)| !given(name)).map(|(name, value)| (name.to_owned(), value)));
    Request {
        method: "POST".to_owned(),
        path: "/mcp".to_owned(),
        origin: "https://hub.example".to_owned(),
        headers: all,
        body: body.to_vec(),
        ..Request::default()
    }
}

/// Status and message of a POST.
pub fn send(world: &World, headers: &[(&str, &str)], body: &Json) -> (u16, Json) {
    read(&world.send(&post(headers, body.to_string().as_bytes())))
}

/// Status and message of a response.
pub fn read(response: &Response) -> (u16, Json) {
    (response.status, serde_json::from_slice(&response.body).unwrap_or(Json::Null))
}

/// A legacy request, as a client sends it after `initialize`.
pub fn legacy(world: &World, method: &str, params: Json) -> (u16, Json) {
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    send(world, &[("mcp-protocol-version", "2025-11-25")], &body)
}

/// A modern request with all its headers.
pub fn modern(world: &World, method: &str, params: Json) -> (u16, Json) {
    read(&world.send(&modern_request(method, params)))
}

/// The same, not sent yet.
pub fn modern_request(method: &str, mut params: Json) -> Request {
    params["_meta"] = meta();
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let mut headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", method)];
    if method == "tools/call" {
        headers.push(("mcp-name", &name));
    }
    let body = json!({ "jsonrpc": "2.0", "id": "r1", "method": method, "params": params });
    post(&headers, body.to_string().as_bytes())
}

/// What a tool gives, in both eras alike: its data, or its error's text.
pub fn call(world: &World, tool: &str, arguments: Json) -> Result<Json, String> {
    let (status, message) = modern(world, "tools/call", json!({ "name": tool, "arguments": arguments }));
    assert_eq!(status, 200, "{message}");
    taken(tool, &message)
}

/// The data of a tool's result, after everything that is promised of every result has been checked.
pub fn taken(tool: &str, message: &Json) -> Result<Json, String> {
    let result = &message["result"];
    assert!(result.is_object(), "{message}");
    let bytes = result.to_string().len();
    assert!(bytes <= TOOL_RESULT_BYTES_MAX, "{tool}: {bytes} bytes");
    assert_eq!(result["content"].as_array().map(Vec::len), Some(1), "{result}");
    assert_eq!(result["content"][0]["type"], "text");
    let text = result["content"][0]["text"].as_str().expect("a text");
    if result["isError"] == true {
        assert!(result.get("structuredContent").is_none(), "{result}");
        let (code, sentence) = text.split_once(": ").expect("a code and a sentence");
        assert!(code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{text}");
        assert!(sentence.len() > 20, "{text}");
        return Err(text.to_owned());
    }
    let data = result["structuredContent"].clone();
    assert_eq!(serde_json::from_str::<Json>(text).expect("JSON in the text"), data);
    let definition = tools().iter().find(|definition| definition["name"] == tool).expect("a known tool");
    let faults = validate::faults(&definition["outputSchema"], &data);
    assert!(faults.is_empty(), "{tool}: {faults:?} in {data}");
    assert!(data["next"].as_str().is_some_and(|next| next.len() > 10), "{data}");
    Ok(data)
}

/// What the router makes of a request that may wait.
pub fn outcome(world: &World, request: &Request) -> Outcome {
    router::handle(&world.hub(), request)
}

/// Submits a task to this executor and returns its id.
pub fn submit(world: &World, executor: &str) -> String {
    let arguments = json!({ "title": "A task", "instructions": "Do it.", "executor": executor });
    call(world, "submit_task", arguments).expect("it is submitted")["task_id"].as_str().expect("an id").to_owned()
}

/// Claims the next task with this key and returns the claim.
pub fn claim(world: &World, key: &str) -> Json {
    let (status, claim) = world.call("POST", "/executor/claim", key, json!({}));
    assert_eq!(status, 200, "{claim}");
    claim
}

/// Makes one more call of the attempt that holds this claim.
pub fn attempt(world: &World, key: &str, claim: &Json, verb: &str, mut body: Json) -> Json {
    body["task_id"] = claim["task"]["id"].clone();
    body["claim_token"] = claim["claim_token"].clone();
    let (status, answer) = world.call("POST", &format!("/executor/{verb}"), key, body);
    assert_eq!(status, 200, "{answer}");
    answer
}
