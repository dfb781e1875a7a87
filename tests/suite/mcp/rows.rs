//! The ways in which real clients broke real servers (`docs/oauth.md`), as far as they concern `/mcp`. `oauth::rows` has
//! those that concern signing in. Each test is named after its row.

use serde_json::{Value as Json, json};
use taskhub::domain::limits::{TASK_WAIT_SECONDS_MAX, TOOL_RESULT_BYTES_MAX};
use taskhub::http::message::{Outcome, Request};
use taskhub::mcp::schema::tools;

use super::client::{call, legacy, modern, modern_request, outcome, post, read, send, submit};
use crate::support::World;

#[test]
fn row_21_a_get_is_answered_405_at_once() {
    let world = World::new();
    for method in ["GET", "DELETE"] {
        let Outcome::Reply(response) = outcome(&world, &Request { method: method.to_owned(), ..post(&[], b"") }) else {
            panic!("it waits")
        };
        assert_eq!(response.status, 405);
        assert!(response.headers.contains(&("allow", "POST".to_owned())));
    }
}

#[test]
fn row_22_no_accept_header_is_refused() {
    let world = World::new();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for accept in ["application/json", "text/event-stream", "*/*", "text/html", "", "application/json;q=0"] {
        assert_eq!(send(&world, &[("accept", accept)], &body).0, 200, "{accept}");
    }
    let mut request = post(&[], body.to_string().as_bytes());
    request.headers.retain(|(name, _)| name != "accept");
    assert_eq!(world.send(&request).status, 200);
}

#[test]
fn row_23_a_legacy_client_need_not_repeat_the_version() {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let (status, message) = send(&World::new(), &[], &body);
    assert!(status == 200 && message["result"]["tools"].is_array(), "{message}");
}

#[test]
fn row_24_modern_results_have_what_clients_demand() {
    let world = World::new();
    for (method, params) in [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("tools/call", json!({ "name": "hub_status", "arguments": {} })),
    ] {
        let (status, message) = modern(&world, method, params);
        assert_eq!((status, &message["result"]["resultType"]), (200, &json!("complete")), "{message}");
        if method != "tools/call" {
            assert_eq!((&message["result"]["ttlMs"], &message["result"]["cacheScope"]), (&json!(0), &json!("private")));
        }
    }
}

#[test]
fn row_25_discovery_is_there_and_never_stale() {
    let (status, message) = modern(&World::new(), "server/discover", json!({}));
    assert_eq!((status, &message["result"]["ttlMs"]), (200, &json!(0)), "{message}");
    assert!(message["result"]["supportedVersions"].as_array().is_some_and(|versions| !versions.is_empty()));
}

/// A result of this size has fewer than 10,000 tokens, of 25,000 that clients take.
#[test]
fn row_26_results_stay_short_by_paging() {
    const { assert!(TOOL_RESULT_BYTES_MAX <= 30_000) };
    let world = World::new();
    world.executor("bot", &[]);
    for _ in 0..60 {
        submit(&world, "bot");
    }
    let page = call(&world, "list_tasks", json!({ "page_size": 50 })).expect("a page");
    assert!(page["cursor"].is_string() || page["next_cursor"].is_string(), "{page}");
}

#[test]
fn row_27_text_and_structure_say_the_same() {
    let world = World::new();
    for era in [modern, legacy] {
        let (_, message) = era(&world, "tools/call", json!({ "name": "hub_status", "arguments": {} }));
        let text = message["result"]["content"][0]["text"].as_str().expect("a text");
        assert_eq!(serde_json::from_str::<Json>(text).expect("JSON"), message["result"]["structuredContent"]);
    }
}

#[test]
fn row_28_a_call_is_answered_within_a_minute() {
    const { assert!(TASK_WAIT_SECONDS_MAX < 60) };
    let world = World::new();
    world.executor("bot", &[]);
    let id = submit(&world, "bot");
    let arguments = json!({ "task_id": id, "wait_seconds": TASK_WAIT_SECONDS_MAX });
    let request = modern_request("tools/call", json!({ "name": "get_task", "arguments": arguments }));
    let Outcome::Wait(wait) = outcome(&world, &request) else { panic!("it does not wait") };
    assert!(wait.until - world.now() < 60_000);
    let resumed = Request { resumed: Some(wait.clone()), ..request };
    world.pass(wait.until - world.now());
    assert_eq!(read(&world.send(&resumed)).0, 200);
}

#[test]
fn row_29_schemas_are_plain_objects() {
    for tool in tools() {
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object", "{tool}");
            for word in ["oneOf", "anyOf", "allOf", "$ref"] {
                assert!(tool[schema].get(word).is_none(), "{word} in {}", tool["name"]);
            }
        }
    }
}
