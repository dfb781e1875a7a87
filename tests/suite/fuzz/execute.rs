//! The executor's tools over MCP: right calls, changed a little, in any order, while time passes.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value as Json, json};
use taskhub::domain::scope::Scope;
use taskhub::domain::secret::attempt_of_token;
use taskhub::mcp::tools::Tool;

use super::hub::Fuzzed;
use super::shapes::{Change, changes, written};
use super::{check, rules};
use crate::mcp::client::post;
use crate::support::Held;

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    Call(&'static str, Json, Vec<Change>),
    Pass(i64),
}

/// Every tool with arguments that are right.
fn calls() -> Vec<(&'static str, Json)> {
    let attempt = |more: Json| {
        let mut body = json!({ "task_id": "$ID", "claim_token": "$TOKEN" });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    vec![
        ("claim_task", json!({ "request_id": "r1", "queues": ["q"], "wait_seconds": 5 })),
        ("claim_task", json!({ "request_id": "r2" })),
        ("claim_task", json!({ "request_id": "r2", "part": "instructions", "offset": 1 })),
        ("heartbeat_task", attempt(json!({ "note": "n", "progress": 0.5, "checkpoint": { "page": [3] } }))),
        ("heartbeat_task", attempt(json!({ "question": "Which?" }))),
        ("finish_task", attempt(json!({ "status": "completed", "result": "done", "data": { "n": 1.5 } }))),
        (
            "finish_task",
            attempt(json!({ "status": "failed", "error": "e", "retryable": true, "external_actions": [{}] })),
        ),
        ("finish_task", json!({ "task_id": "$OLDID", "claim_token": "$OLDTOKEN", "status": "completed" })),
        ("record_action", attempt(json!({ "step_id": "s", "tool": "t", "params": { "n": [1.5] }, "status": "begin" }))),
        (
            "record_action",
            attempt(json!({ "step_id": "s", "tool": "t", "params": { "n": [1.5] }, "status": "done", "outcome": [1] })),
        ),
        (
            "record_action",
            attempt(json!({ "step_id": "s", "tool": "t", "params": { "n": [1.5] }, "status": "failed" })),
        ),
        ("attach_file", attempt(json!({ "name": "a.txt", "text": "one\ntwo", "content_type": "text/plain" }))),
        ("attach_file", attempt(json!({ "name": "a.png", "base64": "iVBORw0KGgo=" }))),
        ("defer_task", attempt(json!({ "seconds": 60, "note": "n", "checkpoint": [1] }))),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let call = (select(calls()), changes()).prop_map(|((tool, right), changes)| Step::Call(tool, right, changes));
    prop_oneof![6 => call, 1 => select(vec![1_i64, 299_999, 300_001, 86_400_000]).prop_map(Step::Pass)]
}

fn take(fuzzed: &mut Fuzzed, bearer: &str, tool: &str, right: &Json, changes: &[Change]) {
    let arguments = String::from_utf8_lossy(&fuzzed.filled(&written(right, changes))).into_owned();
    let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    let request = post(&[("authorization", &format!("Bearer {bearer}"))], body.as_bytes());
    let response = fuzzed.send(&request);
    for message in rules::is_rpc(&response) {
        let claim = &message["result"]["structuredContent"];
        let text = |field: &str| claim[field].as_str().map(str::to_owned);
        if let (Some(id), Some(token)) = (text("task_id"), text("claim_token")) {
            let attempt = attempt_of_token(&token).expect("a claim token").into();
            let held = Held { key: fuzzed.key.clone(), id, token, attempt };
            fuzzed.old = std::mem::replace(&mut fuzzed.held, held);
        }
    }
}

#[test]
fn no_argument_breaks_an_executors_tool() {
    check(60, &proptest::collection::vec(step(), 1..10), |steps| {
        let mut fuzzed = Fuzzed::new();
        for step in &steps {
            match step {
                Step::Pass(ms) => fuzzed.world.pass(*ms),
                Step::Call(tool, right, changes) => {
                    // A token of its own for each call: those of an hour ago may be over.
                    let bearer = fuzzed.world.connected_as("bot").access;
                    take(&mut fuzzed, &bearer, tool, right, changes);
                }
            }
        }
    });
}

#[test]
fn every_tool_of_an_executor_is_fuzzed() {
    let tools = Tool::ALL.into_iter().filter(|tool| tool.scope() == Scope::TasksExecute);
    for tool in tools {
        assert!(calls().iter().any(|(name, _)| *name == tool.name()), "{}", tool.name());
    }
}
