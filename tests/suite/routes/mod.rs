//! Tests of the ways in, by their URLs.

mod auth;
mod bodies;
mod executor;
mod files;
mod front;
mod health;
mod kit;
mod owner;
mod sockets;
mod storage;

use serde_json::{Value as Json, json};
use taskhub::http::message::{Request, Response};

use crate::support::{World, request};

fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers.iter().find(|(found, _)| *found == name).map(|(_, value)| value.as_str())
}

/// Checks that a response is a problem of this status and code in the shape of RFC 9457, and returns its detail.
fn problem(response: &Response, status: u16, code: &str) -> String {
    let body: Json = serde_json::from_slice(&response.body).expect("a problem is JSON");
    assert_eq!((response.status, &body["code"]), (status, &json!(code)), "{body}");
    assert_eq!(header(response, "content-type"), Some("application/problem+json"));
    assert_eq!(header(response, "cache-control"), Some("no-store"));
    assert_eq!((&body["type"], &body["status"]), (&json!("about:blank"), &json!(status)));
    assert!(body["title"].is_string() && body["retryable"].is_boolean(), "{body}");
    let retry_after = body.get("retry_after_seconds").map(|seconds| seconds.to_string());
    assert_eq!(header(response, "retry-after"), retry_after.as_deref());
    let detail = body["detail"].as_str().expect("a detail is a text").to_owned();
    assert!(detail.ends_with('.') && detail.len() > 20, "a sentence that says what to do: {detail}");
    detail
}

/// A request with these bytes for a body.
fn raw(method: &str, path: &str, bearer: &str, body: &[u8]) -> Request {
    Request { body: body.to_vec(), ..request(method, path, bearer, &Json::Null) }
}

/// A hub with an executor that works on a task.
fn at_work() -> (World, crate::support::Held) {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    let held = world.working("bot", &key);
    (world, held)
}
