//! A storage that takes nothing, because it is full or read-only: each way in says so, and nothing is half there.

use serde_json::{Value as Json, json};
use taskhub::domain::storage::StorageFailure;
use taskhub::http::message::{Request, Response};

use super::{header, problem};
use crate::mcp::client::legacy;
use crate::support::{OWNER_TOKEN, World, request, task_for};

fn set(world: &World, pragma: &str, value: i64) {
    world.db.connection().pragma_update(None, pragma, value).expect("the pragma is known");
}

/// The result of a call of this tool.
fn tool(world: &World, name: &str, arguments: Json) -> Json {
    let (status, body) = legacy(world, "tools/call", json!({ "name": name, "arguments": arguments }));
    assert_eq!(status, 200, "{body}");
    body["result"].clone()
}

/// That this is a tool's error of this code, in words for the model.
fn assert_refused(result: &Json, code: &str) {
    let text = result["content"][0]["text"].as_str().expect("an error has a text");
    assert!(result["isError"] == true && text.starts_with(&format!("{code}: ")), "{result}");
    assert!(text.contains("nothing was changed") && text.contains("your user"), "{text}");
}

fn assert_problem(response: &Response, code: &str) {
    let detail = problem(response, 503, code);
    assert!(detail.contains("nothing was changed") && detail.contains("the owner"), "{detail}");
    assert_eq!(header(response, "retry-after"), Some("30"));
}

/// What writes, and what only reads.
fn calls(key: &str, id: &str) -> ([Request; 3], [Request; 3]) {
    let writes = [
        request("POST", "/executor/claim", key, &json!({})),
        request("POST", "/api/executors", OWNER_TOKEN, &json!({ "name": "other" })),
        request("POST", "/api/executors/bot/keys", OWNER_TOKEN, &json!({})),
    ];
    let reads = [
        request("GET", "/healthz", "", &Json::Null),
        request("GET", "/api/executors", OWNER_TOKEN, &Json::Null),
        request("GET", &format!("/api/tasks/{id}"), OWNER_TOKEN, &Json::Null),
    ];
    (writes, reads)
}

#[test]
fn a_read_only_storage_is_said_to_be_one_and_can_be_read() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let id = world.submit(&task_for("bot"));
    let before = world.db.dump();
    let (writes, reads) = calls(&key, &id);
    set(&world, "query_only", 1);
    for call in &writes {
        assert_problem(&world.send(call), "storage_read_only");
    }
    let submit = json!({ "title": "x", "instructions": "y", "executor": "bot" });
    assert_refused(&tool(&world, "submit_task", submit), "storage_read_only");
    assert_refused(&tool(&world, "cancel_task", json!({ "task_id": id })), "storage_read_only");
    for call in &reads {
        assert_eq!(world.send(call).status, 200, "{}", call.path);
    }
    set(&world, "query_only", 0);
    assert_eq!(world.db.dump(), before);
    assert_eq!(world.send(&writes[0]).status, 200);
}

#[test]
fn a_full_storage_is_said_to_be_full_and_can_be_read_and_takes_the_same_call_once_there_is_room() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let id = world.submit(&task_for("bot"));
    let pages = world.db.connection().pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    set(&world, "max_page_count", pages);
    // What is left of the last pages may be used up.
    let submit = |n: u32| {
        let instructions = "y".repeat(9_000);
        let key = format!("key-{n}");
        json!({ "title": "x", "instructions": instructions, "executor": "bot", "idempotency_key": key })
    };
    let before = world.db.dump();
    assert_refused(&tool(&world, "submit_task", submit(1)), "storage_full");
    assert_eq!(world.db.dump(), before);
    let long = json!({ "task_id": id, "claim_token": world.claim(&key).token, "checkpoint": "z".repeat(9_000) });
    let heartbeat = request("POST", "/executor/heartbeat", &key, &long);
    assert_problem(&world.send(&heartbeat), "storage_full");
    for call in &calls(&key, &id).1 {
        assert_eq!(world.send(call).status, 200, "{}", call.path);
    }
    set(&world, "max_page_count", 1 << 20);
    assert_eq!(world.send(&heartbeat).status, 200);
    assert_eq!(tool(&world, "submit_task", submit(1))["structuredContent"]["existed"], false);
}

#[test]
fn the_engines_words_are_understood() {
    for (message, failure) in [
        ("database or disk is full: SQLITE_FULL", StorageFailure::Full),
        ("Error: disk I/O error: SQLITE_IOERR (extended: SQLITE_IOERR_WRITE)", StorageFailure::Full),
        ("Error: disk I/O error: SQLITE_IOERR (extended: SQLITE_IOERR_SHMSIZE)", StorageFailure::Full),
        ("attempt to write a readonly database: SQLITE_READONLY", StorageFailure::ReadOnly),
        ("disk I/O error: SQLITE_IOERR (extended: SQLITE_IOERR_READ)", StorageFailure::Other),
        ("internal error; reference = 5kg87gci6gfje4pia40pv84c", StorageFailure::Other),
        ("", StorageFailure::Other),
    ] {
        assert_eq!(StorageFailure::of(message), failure, "{message}");
    }
}
