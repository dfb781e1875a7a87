//! Bodies that cannot be read: every call refuses them with a sentence that names the place, and changes nothing.

use serde_json::json;

use super::{at_work, problem, raw};
use crate::support::{OWNER_TOKEN, World};

/// Every call that takes a body, with a body that is right.
const CALLS: [(&str, &str); 8] = [
    ("/executor/claim", r#"{"request_id":"r"}"#),
    ("/executor/heartbeat", r#"{"task_id":"ID","claim_token":"TOKEN"}"#),
    ("/executor/result", r#"{"task_id":"ID","claim_token":"TOKEN","status":"completed"}"#),
    ("/executor/defer", r#"{"task_id":"ID","claim_token":"TOKEN","seconds":5}"#),
    ("/executor/release", r#"{"task_id":"ID","claim_token":"TOKEN"}"#),
    ("/executor/ping", r#"{"version":"1"}"#),
    ("/api/executors", r#"{"name":"ant"}"#),
    ("/api/executors/bot/keys", r#"{}"#),
];

fn bearer<'b>(path: &str, key: &'b str) -> &'b str {
    if path.starts_with("/api/") { OWNER_TOKEN } else { key }
}

#[test]
fn what_is_not_json_is_refused_everywhere() {
    let (world, held) = at_work();
    let before = world.db.dump();
    for (path, right) in CALLS {
        let right = right.replace("ID", &held.id).replace("TOKEN", &held.token);
        let open = right.trim_end_matches('}');
        let comma = if open.len() > 1 { "," } else { "" };
        let wrong: [(&str, Vec<u8>, &str); 12] = [
            ("prose", b"please".to_vec(), "not valid JSON"),
            ("half", open.as_bytes().to_vec(), "not valid JSON"),
            ("a trailing comma", format!("{open},}}").into_bytes(), "not valid JSON"),
            ("two values", format!("{right}{right}").into_bytes(), "not valid JSON"),
            ("single quotes", right.replace('"', "'").replace("{}", "{'a'}").into_bytes(), "not valid JSON"),
            ("half an emoji", format!("{open}{comma}\"x\":\"\\ud83d\"}}").into_bytes(), "not valid JSON"),
            ("not UTF-8", [right.as_bytes(), &[0xff]].concat(), "UTF-8"),
            ("a list", format!("[{right}]").into_bytes(), "one JSON object"),
            ("a text", b"\"claim\"".to_vec(), "one JSON object"),
            ("null", b"null".to_vec(), "one JSON object"),
            ("NUL in a text", format!("{open}{comma}\"x\":\"a\\u0000b\"}}").into_bytes(), "U+0000"),
            ("too deep", format!("{open}{comma}\"x\":{}", "[".repeat(100_000)).into_bytes(), "not valid JSON"),
        ];
        for (what, body, why) in wrong {
            let response = world.send(&raw("POST", path, bearer(path, &held.key), &body));
            let detail = problem(&response, 400, "bad_request");
            assert!(detail.contains(why), "{path}, {what}: {detail}");
        }
        let unknown = format!("{open}{comma}\"colour\":\"red\"}}");
        let response = world.send(&raw("POST", path, bearer(path, &held.key), unknown.as_bytes()));
        let detail = problem(&response, 400, "bad_request");
        assert!(detail.contains("colour"), "{path}: {detail}");
    }
    assert_eq!(world.db.dump(), before);
}

#[test]
fn an_empty_body_is_an_empty_object() {
    let (world, held) = at_work();
    for body in [&b""[..], b" \n", b"{}"] {
        assert_eq!(world.send(&raw("POST", "/executor/claim", &held.key, body)).status, 204);
        assert_eq!(world.send(&raw("POST", "/executor/ping", &held.key, body)).status, 200);
        let response = world.send(&raw("POST", "/executor/heartbeat", &held.key, body));
        assert!(problem(&response, 400, "bad_request").contains("missing field `task_id`"));
        let response = world.send(&raw("POST", "/api/executors", OWNER_TOKEN, body));
        assert!(problem(&response, 400, "bad_request").contains("missing field `name`"));
    }
}

#[test]
fn a_field_of_a_wrong_type_is_named() {
    let (world, held) = at_work();
    let before = world.db.dump();
    let task = json!({ "task_id": held.id, "claim_token": held.token });
    for (path, field, value) in [
        ("claim", "request_id", json!(5)),
        ("claim", "queues", json!("q")),
        ("claim", "queues", json!([5])),
        ("claim", "wait_seconds", json!(-1)),
        ("claim", "wait_seconds", json!("5")),
        ("claim", "wait_seconds", json!(1.5)),
        ("heartbeat", "note", json!(["a"])),
        ("heartbeat", "progress", json!("half")),
        ("heartbeat", "state", json!("WORKING")),
        ("heartbeat", "state", json!("completed")),
        ("heartbeat", "task_id", json!(7)),
        ("result", "status", json!("done")),
        ("result", "retryable", json!("yes")),
        ("result", "external_actions", json!({})),
        ("result", "result", json!({ "a": 1 })),
        ("result", "next", json!(true)),
        ("result", "next", json!({ "wait_seconds": 5 })),
        ("defer", "seconds", json!("60")),
        ("defer", "seconds", json!(-60)),
        ("defer", "seconds", json!(5_000_000_000_u64)),
        ("ping", "capabilities", json!("all")),
    ] {
        let mut body = if matches!(path, "claim" | "ping") { json!({}) } else { task.clone() };
        if path == "result" {
            body["status"] = json!("completed");
        }
        body[field] = value.clone();
        let request = raw("POST", &format!("/executor/{path}"), &held.key, body.to_string().as_bytes());
        let detail = problem(&world.send(&request), 400, "bad_request");
        assert!(detail.contains(&format!("call: {field}")), "{path}.{field} = {value}: {detail}");
    }
    assert_eq!(world.db.dump(), before);
}

#[test]
fn a_wrong_word_names_the_right_ones() {
    let (world, held) = at_work();
    let body = json!({ "task_id": held.id, "claim_token": held.token, "status": "done" });
    let response = world.send(&raw("POST", "/executor/result", &held.key, body.to_string().as_bytes()));
    let detail = problem(&response, 400, "bad_request");
    for word in ["completed", "failed", "blocked"] {
        assert!(detail.contains(word), "{detail}");
    }
}

/// NUL and the rest of Unicode: what is let in comes out as it went in.
#[test]
fn text_survives_as_it_is() {
    let (world, held) = at_work();
    let text = "\u{1}\u{7f}\u{feff}\u{202e}é✓😀\u{10ffff}\r\n\t\"\\";
    world.does("result", &held, json!({ "status": "completed", "result": text, "data": { text: [text, null, 1e-7] } }));
    let full = world.detail(&held.id).full;
    assert_eq!(full.result.as_deref(), Some(text));
    assert_eq!(full.data, Some(json!({ text: [text, null, 1e-7] })));
}

#[test]
fn numbers_in_data_keep_their_digits() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    let data = json!([9_007_199_254_740_993_i64, u64::MAX, -1.5, 0.1]);
    world.does("result", &held, json!({ "status": "completed", "data": data }));
    assert_eq!(world.detail(&held.id).full.data, Some(data));
}
