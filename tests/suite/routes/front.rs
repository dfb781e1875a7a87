//! What the front decides alone: routes, methods, and which calls may be repeated.

use serde_json::{Value as Json, json};
use taskhub::http::front;

use super::{header, problem};
use crate::support::{OWNER_TOKEN, World, request};

/// Every path with the methods that it takes.
const ROUTES: [(&str, &[&str]); 24] = [
    ("/healthz", &["GET", "HEAD"]),
    ("/.well-known/oauth-protected-resource", &["GET"]),
    ("/.well-known/oauth-protected-resource/mcp", &["GET"]),
    ("/mcp", &["POST"]),
    ("/executor/claim", &["POST"]),
    ("/executor/heartbeat", &["POST"]),
    ("/executor/result", &["POST"]),
    ("/executor/defer", &["POST"]),
    ("/executor/release", &["POST"]),
    ("/executor/ping", &["POST"]),
    ("/executor/listen", &["GET"]),
    ("/executor/attachment", &["GET", "PUT"]),
    ("/executor/enroll", &["POST"]),
    ("/api/events", &["GET"]),
    ("/api/executors", &["GET", "POST"]),
    ("/api/executors/bot", &["PATCH", "DELETE"]),
    ("/api/executors/bot/enroll", &["POST"]),
    ("/api/executors/bot/keys", &["GET", "POST"]),
    ("/api/executors/bot/keys/key_1", &["DELETE"]),
    ("/api/tasks/t_000000000_0000000000000000", &["GET"]),
    ("/api/tasks/t_000000000_0000000000000000/approve", &["POST"]),
    ("/api/tasks/t_000000000_0000000000000000/deny", &["POST"]),
    ("/api/notify/test", &["POST"]),
    ("/healthz/", &["GET", "HEAD"]),
];

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "BREW"];

fn bearer<'b>(path: &str, key: &'b str) -> &'b str {
    if path.starts_with("/executor/") { key } else { OWNER_TOKEN }
}

#[test]
fn a_path_takes_its_methods_and_names_them() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    for (path, methods) in ROUTES {
        for method in METHODS {
            let mut request = request(method, path, bearer(path, &key), &json!({}));
            // Two of them are sockets; the others do not mind.
            request.headers.push(("upgrade".to_owned(), "websocket".to_owned()));
            let refusal = front::refuse(&request, &world.settings, world.now());
            if methods.contains(&method) {
                assert_eq!(refusal, None, "{method} {path}");
                continue;
            }
            for response in [refusal.expect("the front refuses it"), world.send(&request)] {
                problem(&response, 405, "method_not_allowed");
                let allow = header(&response, "allow").expect("it says what is allowed");
                assert!(allow.split(", ").all(|allowed| methods.contains(&allowed)), "{method} {path}: {allow}");
            }
        }
    }
}

#[test]
fn a_path_that_leads_nowhere_is_404_with_or_without_a_credential() {
    let world = World::new();
    for path in [
        "/",
        "/index.html",
        "/executor",
        "/executor/",
        "/executor/steal",
        "/executor/claim/again",
        "/Executor/claim",
        "/api",
        "/api/tasks",
        "/api/executors/bot/keys/1/2",
        "/api/tasks/t_1/maybe",
        "/api/secrets",
        "/mcp/x",
        "/__internal/sweep",
        "/__test/tick",
        "/.env",
        "/healthz/x",
        "/../healthz",
        "/executor/claim%00",
    ] {
        for method in ["GET", "POST"] {
            for bearer in [OWNER_TOKEN, "junk"] {
                let request = request(method, path, bearer, &json!({}));
                let refusal = front::refuse(&request, &world.settings, world.now()).expect("the front refuses it");
                problem(&refusal, 404, "not_found");
                problem(&world.send(&request), 404, "not_found");
            }
        }
    }
}

/// A call is sent to the object a second time only where twice is the same as once.
#[test]
fn only_what_is_the_same_twice_is_repeated() {
    let tool = |name: &str, arguments: Json| {
        let params = json!({ "name": name, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
    };
    let cases: Vec<(&str, &str, Json, bool)> = vec![
        ("GET", "/healthz", Json::Null, true),
        ("GET", "/.well-known/oauth-protected-resource", Json::Null, true),
        ("GET", "/api/executors", Json::Null, true),
        ("GET", "/api/tasks/t_1", Json::Null, true),
        ("POST", "/api/executors", json!({ "name": "bot" }), false),
        ("DELETE", "/api/executors/bot", Json::Null, false),
        ("POST", "/api/executors/bot/keys", Json::Null, false),
        ("POST", "/api/notify/test", Json::Null, false),
        ("POST", "/api/executors/bot/enroll", json!({}), false),
        ("POST", "/executor/enroll", json!({}), true),
        ("GET", "/kit/relay.py", Json::Null, true),
        ("POST", "/mcp", tool("enroll_executor", json!({ "name": "bot" })), false),
        ("GET", "/act/cancel.t_1.1.x", Json::Null, true),
        ("POST", "/act/cancel.t_1.1.x", Json::Null, true),
        ("POST", "/executor/claim", json!({}), false),
        ("POST", "/executor/claim", Json::Null, false),
        ("POST", "/executor/claim", json!({ "request_id": null }), false),
        ("POST", "/executor/claim", json!({ "request_id": "r" }), true),
        ("POST", "/executor/heartbeat", json!({}), true),
        ("POST", "/executor/result", json!({ "next": {} }), true),
        ("POST", "/executor/defer", json!({}), true),
        ("POST", "/executor/release", json!({}), true),
        ("POST", "/executor/action", json!({}), true),
        ("POST", "/executor/ping", json!({}), true),
        ("POST", "/mcp", json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize" }), true),
        ("POST", "/mcp", json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }), true),
        ("POST", "/mcp", tool("submit_task", json!({ "title": "t" })), false),
        ("POST", "/mcp", tool("submit_task", json!({ "title": "t", "idempotency_key": "k" })), true),
        ("POST", "/mcp", tool("get_task", json!({})), true),
        ("POST", "/mcp", tool("list_tasks", json!({})), true),
        ("POST", "/mcp", tool("cancel_task", json!({})), true),
        ("POST", "/mcp", tool("retry_task", json!({})), true),
        ("POST", "/mcp", tool("answer_task", json!({})), true),
        ("POST", "/mcp", tool("approve_task", json!({})), true),
        ("POST", "/mcp", tool("record_action", json!({})), true),
        ("PATCH", "/api/executors/bot", json!({ "paused": true }), false),
        ("GET", "/api/executors/bot/keys", json!({}), true),
        ("DELETE", "/api/executors/bot/keys/key_1", json!({}), false),
        ("POST", "/api/tasks/t_1/approve", json!({}), true),
        ("POST", "/api/tasks/t_1/deny", json!({}), true),
        ("POST", "/mcp", tool("wake_executor", json!({})), false),
        ("POST", "/mcp", tool("a_tool_of_tomorrow", json!({})), false),
        ("POST", "/mcp", json!([{ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }]), false),
        ("POST", "/mcp", json!("junk"), false),
        ("POST", "/nowhere", Json::Null, false),
        ("PUT", "/healthz", Json::Null, false),
    ];
    for (method, path, body, right) in cases {
        assert_eq!(front::is_repeatable(&request(method, path, "", &body)), right, "{method} {path} {body}");
    }
}

/// What the front repeats must be the same twice: each such call, done twice, leaves the hub as once.
#[test]
fn what_is_repeated_leaves_the_hub_as_once() {
    for (verb, more) in [
        ("result", json!({ "status": "completed", "result": "x", "next": {} })),
        ("result", json!({ "status": "failed", "retryable": true })),
        ("defer", json!({ "seconds": 60 })),
        ("release", json!({ "note": "bye" })),
        ("heartbeat", json!({ "question": "Which?" })),
        ("heartbeat", json!({ "checkpoint": 1 })),
    ] {
        let (world, held) = super::at_work();
        world.submit(&crate::support::task_in("q"));
        let first = world.does(verb, &held, more.clone());
        let events = world.db.rows("SELECT seq FROM task_events").len();
        let life = world.life(&held.id);
        assert_eq!(world.does(verb, &held, more), first, "{verb}");
        assert_eq!(world.life(&held.id), life, "{verb}");
        assert_eq!(world.db.rows("SELECT seq FROM task_events").len(), events, "{verb}");
    }
}
