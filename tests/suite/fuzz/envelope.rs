//! MCP: right messages of both eras for every tool, changed a little in body and headers; cursors; times.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value as Json, json};
use taskhub::domain::scope::Scope;
use taskhub::mcp::tools::Tool;

use super::hub::Fuzzed;
use super::shapes::{Change, changes, text, written};
use super::{check, rules};
use crate::mcp::client::{self, MODERN, call, meta, post};
use crate::support::World;

/// The methods and tools with parameters that are right.
fn messages() -> Vec<(&'static str, Json)> {
    let tool = |name: &str, arguments: Json| ("tools/call", json!({ "name": name, "arguments": arguments }));
    let task = json!({
        "title": "t", "instructions": "i", "executor": "bot", "context": { "a": [1] }, "priority": 9,
        "deadline": "2027-06-01T00:00:00Z", "delay_seconds": 5, "idempotency_key": "k", "max_attempts": 2,
    });
    let timed = json!({
        "title": "t", "instructions": "i", "queue": "q", "deadline_seconds": 3600, "not_before": "2027-01-16T00:00:00+01:00",
    });
    let with_files = json!({
        "title": "t", "instructions": "i", "executor": "bot",
        "input_files": [{ "name": "a.txt", "text": "a" }, { "name": "b", "base64": "YQ==", "content_type": "image/png" }],
    });
    let client = json!({ "name": "c", "version": "1" });
    vec![
        ("initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client })),
        ("ping", json!({})),
        ("tools/list", json!({})),
        ("server/discover", json!({})),
        ("notifications/initialized", json!({})),
        tool("submit_task", task),
        tool("submit_task", timed),
        tool("submit_task", with_files),
        tool("get_attachment", json!({ "file_id": "f_0mb2x4k9q_7h3k5m9p2r4t6w8x", "offset": 3 })),
        tool("create_upload_link", json!({ "name": "a.pdf", "content_type": "application/pdf" })),
        tool("get_task", json!({ "task_id": "$ID", "wait_seconds": 3 })),
        tool("get_task", json!({ "task_id": "$OLDID", "part": "result", "offset": 0 })),
        tool("list_tasks", json!({ "states": ["working", "completed"], "executor": "bot", "page_size": 1 })),
        tool("list_tasks", json!({ "queue": "q", "cursor": "0~5~$OLDID~@bot" })),
        tool("list_tasks", json!({ "states": ["failed", "submitted"], "cursor": "1~9~~q" })),
        tool("cancel_task", json!({ "task_id": "$ID", "reason": "no longer needed" })),
        tool("answer_task", json!({ "task_id": "$ID", "answer": "yes" })),
        tool("approve_task", json!({ "task_id": "$ID", "approve": true, "note": "yes" })),
        tool("retry_task", json!({ "task_id": "$OLDID", "instructions": "again" })),
        tool("wake_executor", json!({ "executor": "bot" })),
        tool("list_executors", json!({})),
        tool("enroll_executor", json!({ "name": "bot", "queues": ["q"], "max_concurrent": 2 })),
        tool("enroll_executor", json!({ "name": "cat" })),
        tool("hub_status", json!({})),
    ]
}

/// How the message is put into a POST.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Dress {
    Legacy,
    Modern,
    Batch,
}

#[derive(Clone, Debug)]
struct Case {
    dress: Dress,
    method: &'static str,
    params: Json,
    changes: Vec<Change>,
    id: Json,
    headers: Vec<(&'static str, Option<String>)>,
}

fn case() -> impl Strategy<Value = Case> {
    const HEADERS: [&str; 5] = ["mcp-protocol-version", "mcp-method", "mcp-name", "content-type", "accept"];
    let value = prop_oneof![
        1 => Just(None),
        1 => text().prop_map(Some),
        1 => select(vec!["2026-07-28", "2025-03-26", "2027-01-01", "tools/call", "=?base64?YQ==?="])
            .prop_map(|text| Some(text.to_owned())),
    ];
    let headers = prop_oneof![
        3 => Just(vec![]),
        1 => proptest::collection::vec((select(&HEADERS[..]), value), 1..3),
    ];
    let dress = prop_oneof![4 => Just(Dress::Legacy), 4 => Just(Dress::Modern), 1 => Just(Dress::Batch)];
    let id = prop_oneof![4 => Just(json!(7)), 1 => text().prop_map(Json::from), 1 => any::<i64>().prop_map(Json::from)];
    // A message's id and method are given back as they came, whatever they are.
    let changes = changes().prop_map(|mut all| {
        all.retain(|change| !matches!(change, Change::Misplace(..)));
        all
    });
    (dress, select(messages()), changes, id, headers).prop_map(|(dress, (method, params), changes, id, headers)| Case {
        dress,
        method,
        params,
        changes,
        id,
        headers,
    })
}

/// The body before it is changed, and the headers that go with it.
fn right(case: &Case) -> (Json, Vec<(&'static str, String)>) {
    let mut params = case.params.clone();
    let mut headers = vec![("mcp-protocol-version", "2025-11-25".to_owned())];
    if case.dress == Dress::Modern {
        params["_meta"] = meta();
        headers = vec![("mcp-protocol-version", MODERN.to_owned()), ("mcp-method", case.method.to_owned())];
        headers.extend(params["name"].as_str().map(|name| ("mcp-name", name.to_owned())));
    }
    let mut message = json!({ "jsonrpc": "2.0", "id": case.id, "method": case.method, "params": params });
    if case.method.starts_with("notifications/") {
        message.as_object_mut().expect("an object").remove("id");
    }
    if case.dress == Dress::Batch {
        headers = vec![("mcp-protocol-version", "2025-03-26".to_owned())];
        message = json!([message, { "jsonrpc": "2.0", "id": 8, "method": "ping" }]);
    }
    (message, headers)
}

fn take(fuzzed: &mut Fuzzed, case: &Case) {
    let (message, mut headers) = right(case);
    for (name, value) in &case.headers {
        headers.retain(|(found, _)| found != name);
        headers.extend(value.as_ref().map(|value| (*name, value.clone())));
    }
    let body = fuzzed.filled(&written(&message, &case.changes));
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let response = fuzzed.send(&post(&headers, &body));
    let answers = rules::is_rpc(&response);
    if answers.is_empty() || response.status != 200 {
        return;
    }
    let sent: Json = serde_json::from_slice(&body).expect("it was understood");
    let asked = if sent.is_array() { &sent[0] } else { &sent };
    for answer in answers.iter().filter(|answer| answer["id"] == asked["id"] && answer["result"]["content"].is_array())
    {
        drop(client::taken(asked["params"]["name"].as_str().expect("a tool"), answer));
    }
}

#[test]
fn no_message_breaks_the_server() {
    check(60, &proptest::collection::vec(case(), 1..8), |cases| {
        let mut fuzzed = Fuzzed::new();
        for case in &cases {
            take(&mut fuzzed, case);
        }
        drop(call(&fuzzed.world, "hub_status", json!({})).expect("the hub still answers"));
    });
}

/// Every right message is taken; otherwise the changes above would start from nothing.
#[test]
fn what_is_changed_was_right_before() {
    for (method, params) in messages() {
        let mut fuzzed = Fuzzed::new();
        let case = Case { dress: Dress::Legacy, method, params, changes: vec![], id: json!(1), headers: vec![] };
        let (message, headers) = right(&case);
        let body = fuzzed.filled(message.to_string().as_bytes());
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (status, answer) = client::read(&fuzzed.send(&post(&headers, &body)));
        let is_other_era = method == "server/discover";
        assert!([200, 202].contains(&status), "{answer}");
        assert!(answer["error"].is_null() || is_other_era, "{answer}");
        take(&mut fuzzed, &case);
    }
    // `execute` has the rest.
    let submits = Tool::ALL.into_iter().filter(|tool| tool.scope() != Scope::TasksExecute).count();
    assert_eq!(submits, 13, "a new tool is fuzzed too");
}

/// A cursor that was handed out goes on; one that was not is refused or shows a page.
#[test]
fn no_cursor_breaks_a_list() {
    let world = World::new();
    world.executor("bot", &["q"]);
    for index in 0..9 {
        client::submit(&world, "bot");
        world.pass(index);
    }
    let page = |arguments: Json| call(&world, "list_tasks", arguments);
    let open = json!(["submitted"]);
    let first = page(json!({ "page_size": 2, "states": open })).expect("a page");
    let cursor = first["next_cursor"].as_str().expect("there is more").to_owned();
    let second = page(json!({ "page_size": 2, "states": open, "cursor": cursor })).expect("a page");
    assert_ne!(first["tasks"], second["tasks"]);
    let cursors = (any::<Index>(), text(), any::<bool>());
    check(100, &cursors, |(at, more, is_all)| {
        let mut wrong: Vec<char> = cursor.chars().collect();
        let at = at.index(wrong.len());
        wrong.splice(at..(at + 1), more.chars());
        let text = if is_all { more } else { String::from_iter(wrong) };
        match page(json!({ "page_size": 2, "states": open, "cursor": text })) {
            Ok(page) => assert!(page["tasks"].as_array().is_some_and(|tasks| tasks.len() <= 2), "{page}"),
            Err(told) => assert!(told.contains("cursor"), "{told}"),
        }
    });
}

/// A moment comes back as it went in, to the millisecond, whatever the offset in which it was written.
#[test]
fn a_time_survives_its_text() {
    let world = World::new();
    world.executor("bot", &[]);
    let moments = (60_000_i64..31_000_000_000, -23_i32..=23, 0_i32..60, any::<bool>());
    check(60, &moments, |(ms, hours, minutes, is_lower)| {
        let at = world.now() + ms;
        let sign = if hours < 0 { -1 } else { 1 };
        let offset = time::UtcOffset::from_hms(hours as i8, (sign * minutes) as i8, 0).expect("an offset");
        let moment = time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(at) * 1_000_000).expect("a moment");
        let written = moment.to_offset(offset).format(&time::format_description::well_known::Rfc3339).expect("a text");
        let written = if is_lower { written.to_lowercase() } else { written };
        let task = json!({ "title": "t", "instructions": "i", "executor": "bot", "deadline": written });
        let id = call(&world, "submit_task", task).expect(&written)["task_id"].as_str().expect("an id").to_owned();
        assert_eq!(world.life(&id).deadline_at, Some(at), "{written}");
        let shown = call(&world, "get_task", json!({ "task_id": id })).expect("a task")["deadline_at"].clone();
        let read = time::OffsetDateTime::parse(
            shown.as_str().expect("a time"),
            &time::format_description::well_known::Rfc3339,
        );
        assert_eq!(read.expect("RFC 3339").unix_timestamp_nanos(), i128::from(at) * 1_000_000, "{shown}");
    });
}

#[test]
fn what_is_no_time_is_refused() {
    let world = World::new();
    world.executor("bot", &[]);
    let near = "[0-9]{4}-[01][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{1,12})?([Zz]|[+-][0-2][0-9]:[0-9]{2})?";
    check(100, &prop_oneof![2 => near.prop_map(|text: String| text), 1 => text()], |text| {
        let task = json!({ "title": "t", "instructions": "i", "executor": "bot", "not_before": text });
        if let Err(told) = call(&world, "submit_task", task) {
            assert!(told.contains("not_before"), "{told}");
        }
    });
}
