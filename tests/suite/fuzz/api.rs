//! The executor API and the owner API: right calls, changed a little, in any order, while time passes.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value as Json, json};

use super::hub::{Fuzzed, request};
use super::shapes::{Change, changes, text, written};
use super::{check, rules};
use crate::support::{OWNER_TOKEN, task_for, task_in};

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    Call { path: &'static str, right: Json, changes: Vec<Change>, token_header: Option<String> },
    Pass(i64),
    Sweep,
    Submit(bool),
}

/// Every call that takes a body, with bodies that are right.
fn calls() -> Vec<(&'static str, Json)> {
    let attempt = |more: Json| {
        let mut body = json!({ "task_id": "$ID", "claim_token": "$TOKEN" });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let action = |more: Json| {
        let mut body = attempt(json!({ "step_id": "pay", "tool": "bank", "params": { "to": "x", "sum": 12.5 } }));
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let stale = json!({ "task_id": "$OLDID", "claim_token": "$OLDTOKEN", "status": "failed", "error": "late" });
    let hook = |auth: Json| json!({ "adapter": "webhook", "url": "https://bot.example/wake", "auth": auth, "body": { "a": [1] } });
    let signed = hook(json!({ "kind": "hmac", "secret": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=" }));
    let ant = |wake: Json| json!({ "name": "ant", "queues": ["q", "r.s_t-u"], "max_concurrent": 3, "wake": wake });
    vec![
        ("/executor/claim", json!({ "request_id": "r1", "queues": ["q"], "wait_seconds": 5 })),
        ("/executor/claim", json!({ "request_id": "r2" })),
        ("/executor/claim", json!({})),
        ("/executor/heartbeat", attempt(json!({ "note": "n", "progress": 0.5, "checkpoint": { "page": [3] } }))),
        ("/executor/heartbeat", attempt(json!({ "state": "input-required", "question": "Which?" }))),
        ("/executor/heartbeat", attempt(json!({ "state": "working" }))),
        (
            "/executor/result",
            attempt(json!({ "status": "completed", "result": "done", "data": { "n": 1.5 }, "next": {} })),
        ),
        (
            "/executor/result",
            attempt(json!({ "status": "failed", "error": "e", "retryable": true, "external_actions": [{}] })),
        ),
        (
            "/executor/result",
            attempt(json!({ "status": "blocked", "question": "Which?", "next": { "request_id": "n" } })),
        ),
        ("/executor/result", stale),
        ("/executor/defer", attempt(json!({ "seconds": 60, "note": "n", "checkpoint": [1] }))),
        ("/executor/release", attempt(json!({ "note": "bye", "checkpoint": "c" }))),
        ("/executor/action", action(json!({ "status": "begin" }))),
        ("/executor/action", action(json!({ "status": "done", "outcome": { "receipt": 7 } }))),
        ("/executor/action", action(json!({ "status": "failed", "outcome": "no" }))),
        ("/executor/ping", json!({ "version": "1", "capabilities": ["web"] })),
        ("/api/executors", ant(hook(json!({ "kind": "bearer", "token": "a-token-of-the-receiver" })))),
        ("/api/executors", ant(signed)),
        ("/api/executors", ant(hook(json!({ "kind": "none" })))),
        ("/api/executors", ant(json!({ "adapter": "poll" }))),
        ("/api/executors/bot/keys", json!({ "revoke_others": true })),
        ("/api/executors/bot/enroll", json!({})),
        ("/api/executors", json!({ "name": "cat", "enroll": true })),
        ("/executor/enroll", json!({ "code": "enr_bot.x.1.y", "nonce": "a-nonce-of-this-machine" })),
        ("/api/executors/bot", json!({ "paused": false, "max_concurrent": 3, "max_tasks_per_day": 50 })),
        ("/api/executors/bot", json!({ "approval": "never", "wake": { "adapter": "poll" } })),
        ("/api/tasks/$ID/approve", json!({ "note": "n" })),
        ("/api/tasks/$OLDID/deny", json!({})),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let header = prop_oneof![
        4 => Just(None),
        1 => Just(Some("$TOKEN".to_owned())),
        1 => text().prop_map(Some),
    ];
    let call = (select(calls()), changes(), header).prop_map(|((path, right), changes, token_header)| Step::Call {
        path,
        right,
        changes,
        token_header,
    });
    prop_oneof![
        12 => call,
        2 => select(vec![1_i64, 30_000, 299_999, 300_000, 300_001, 86_400_000]).prop_map(Step::Pass),
        1 => Just(Step::Sweep),
        1 => any::<bool>().prop_map(Step::Submit),
    ]
}

fn take(fuzzed: &mut Fuzzed, step: &Step) {
    match step {
        Step::Pass(ms) => fuzzed.world.pass(*ms),
        Step::Sweep => drop(fuzzed.world.pass_and_sweep(1)),
        Step::Submit(to_queue) => {
            drop(fuzzed.world.submit(&if *to_queue { task_in("q") } else { task_for("bot") }));
        }
        Step::Call { path, right, changes, token_header } => {
            let bearer = if path.starts_with("/api") { OWNER_TOKEN } else { &fuzzed.key };
            let mut headers = vec![("authorization", format!("Bearer {bearer}"))];
            headers.extend(token_header.as_ref().map(|text| ("x-claim-token", fuzzed.filled_text(text))));
            let body = fuzzed.filled(&written(right, changes));
            let method = if *path == "/api/executors/bot" { "PATCH" } else { "POST" };
            let response = fuzzed.send(&request(method, &fuzzed.filled_text(path), &headers, body));
            rules::is_plain(&response);
            fuzzed.learn(&response);
        }
    }
}

#[test]
fn no_body_breaks_a_call() {
    check(70, &proptest::collection::vec(step(), 1..12), |steps| {
        let mut fuzzed = Fuzzed::new();
        for step in &steps {
            take(&mut fuzzed, step);
        }
        let (status, task) = fuzzed.world.owner("GET", &format!("/api/tasks/{}", fuzzed.held.id), Json::Null);
        assert_eq!(status, 200, "the task can still be read: {task}");
        let (status, answer) = fuzzed.world.owner("GET", "/api/executors", Json::Null);
        assert_eq!(status, 200, "{answer}");
        assert!(!answer.to_string().contains("a-token-of-the-receiver"), "{answer}");
    });
}

/// Names in paths: any text between the slashes.
#[test]
fn no_name_in_a_path_breaks_a_call() {
    let fuzzed = Fuzzed::new();
    let paths = (select(vec!["GET", "POST", "PATCH", "DELETE"]), any::<Index>(), text());
    check(150, &paths, |(method, which, name)| {
        let name = fuzzed.filled_text(&name);
        let all = [
            format!("/api/tasks/{name}"),
            format!("/api/executors/{name}"),
            format!("/api/executors/{name}/keys"),
            format!("/api/executors/bot/keys/{name}"),
            format!("/api/executors/{name}/enroll"),
            format!("/kit/{name}"),
            format!("/api/tasks/{name}/approve"),
            format!("/executor/{name}"),
            format!("/{name}"),
            name.clone(),
        ];
        let headers = [("authorization", format!("Bearer {OWNER_TOKEN}"))];
        rules::is_plain(&fuzzed.send(&request(method, &all[which.index(all.len())], &headers, vec![])));
    });
}

/// Data of an executor comes out as it went in: also deep ones, and numbers to their last digit.
#[test]
fn data_survive_their_storage() {
    let fuzzed = Fuzzed::new();
    let numbers = proptest::collection::vec(any::<f64>(), 0..20);
    check(60, &(numbers, 0_usize..120), |(numbers, levels)| {
        let sent = json!({ "numbers": numbers, "deep": super::shapes::deep(levels) });
        let more = json!({ "checkpoint": sent });
        fuzzed.world.does("heartbeat", &fuzzed.held, more);
        assert_eq!(fuzzed.world.detail(&fuzzed.held.id).full.checkpoint, Some(sent));
    });
}
