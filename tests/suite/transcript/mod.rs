//! A scripted run, word for word the same natively and in workerd.
//!
//! Natively, a workload out of a seed makes the script while it runs: each request with its clock, its chance, and the
//! answer that it got. `tests/edge/transcript.test.mjs` sends the same requests, under the same clock and chance, to the
//! built Worker and compares every answer. Ids, keys and claim tokens follow from clock, chance and secret, so they are part
//! of the comparison, and one difference shows in everything that follows from it.

mod workload;

use std::cell::Cell;
use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use taskhub::domain::limits::SWEEP_BATCHES_MAX;
use taskhub::domain::secret::sha256_hex;
use taskhub::http::front;
use taskhub::http::message::{Outcome, Request, Response};
use taskhub::http::router;
use taskhub::hub::{self, Entropy, Hub};

use crate::support::World;
use workload::{Asked, Workload};

/// Requests of one script, and how many scripts.
const REQUESTS: u32 = 500;
const SEEDS: u64 = 6;

/// Where the hub is reached in a script; workerd is told by the `Host` header.
const ORIGIN: &str = "http://hub.example";

/// What both sides are configured with, beside the secrets of `World`.
const VARS: [(&str, &str); 4] = [
    ("PUBLIC_URL", "https://hub.example"),
    ("LEASE_SECONDS", "60"),
    ("INPUT_TIMEOUT_SECONDS", "120"),
    ("ALLOW_PRIVATE_WEBHOOKS", "true"),
];

/// Chance of one request, as `src/edge/test_routes.rs` makes it from `x-test-entropy`.
struct Scripted {
    seed: String,
    fills: Cell<u32>,
}

impl Entropy for Scripted {
    fn fill(&self, bytes: &mut [u8]) {
        let digits = sha256_hex(&format!("{}/{}", self.seed, self.fills.replace(self.fills.get() + 1)));
        for (byte, digit) in bytes.iter_mut().zip(digits.bytes().cycle()) {
            *byte = digit;
        }
    }
}

/// What `/__test/tick` does.
fn tick(hub: &Hub<'_>) -> Response {
    let mut handled = 0;
    for _ in 0..SWEEP_BATCHES_MAX {
        let swept = hub::sweep(hub).expect("a sweep succeeds");
        assert_eq!(swept.trouble, []);
        handled += swept.handled;
        if !swept.more {
            break;
        }
    }
    while hub::dispatch(hub, usize::MAX).expect("the outbox can be read").more {}
    let mut after = String::new();
    while let Some(next) = hub::purge(hub, &after).expect("a purge succeeds") {
        after = next;
    }
    let due = hub.next_due().expect("the next timer is known");
    Response::json(200, &json!({ "handled": handled, "next_due": due }))
}

/// The front's answer, or else the object's.
fn answer(world: &World, request: &Request, now: i64, seed: &str) -> Response {
    let entropy = Scripted { seed: seed.to_owned(), fills: Cell::default() };
    let hub = Hub::new(&world.db, &world.settings, &world.presence, &entropy, now, &request.origin);
    if request.path == workload::TICK {
        return tick(&hub);
    }
    if let Some(refusal) = front::refuse(request, &world.settings, world.now()) {
        return refusal;
    }
    match router::handle(&hub, request) {
        Outcome::Reply(response) => response,
        waits => panic!("a scripted request is not answered: {waits:?}"),
    }
}

/// One line of a script: what is sent, and what must come back.
fn line(asked: &Asked, now: i64, seed: &str, response: &Response) -> Json {
    let body = String::from_utf8(response.body.clone()).expect("answers are UTF-8");
    json!({
        "now": now,
        "entropy": seed,
        "method": asked.method,
        "path": asked.path,
        "headers": asked.headers,
        "body": asked.body,
        "answer": { "status": response.status, "headers": response.headers, "body": body },
    })
}

fn request(asked: &Asked) -> Request {
    Request {
        method: asked.method.clone(),
        path: asked.path.clone(),
        origin: ORIGIN.to_owned(),
        headers: asked.headers.clone(),
        body: asked.body.clone().into_bytes(),
        ..Request::default()
    }
}

/// The script of this seed.
fn script(seed: u64) -> Vec<Json> {
    let world = World::with(&VARS);
    let mut workload = Workload::new(seed);
    let mut lines = Vec::new();
    let mut step = 0;
    while let Some(asked) = workload.next(step, REQUESTS) {
        let chance = format!("{seed}.{step}");
        let now = workload.now();
        let response = answer(&world, &request(&asked), now, &chance);
        workload.learn(&asked, &response);
        lines.push(line(&asked, now, &chance, &response));
        step += 1;
    }
    lines
}

/// What the scripts go through, so that a workload that has become dull is noticed.
fn seen(lines: &[Json]) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for line in lines {
        let status = &line["answer"]["status"];
        let path = line["path"].as_str().expect("a path");
        let path = path.split('/').take(3).collect::<Vec<_>>().join("/");
        seen.insert(format!("{} {path} {status}", line["method"].as_str().expect("a method")));
        let body: Json = serde_json::from_str(line["answer"]["body"].as_str().expect("a text")).unwrap_or(Json::Null);
        if let Some(code) = body["code"].as_str() {
            seen.insert(format!("code {code}"));
        }
        for task in [&body, &body["task"], &body["result"]["structuredContent"]] {
            seen.extend(task["state"].as_str().map(|state| format!("state {state}")));
            seen.extend(task["error_code"].as_str().map(|code| format!("failure {code}")));
        }
        let events = body["events"].as_array().into_iter().flatten();
        seen.extend(events.map(|event| format!("event {}", event["kind"].as_str().expect("a kind"))));
    }
    seen
}

#[test]
fn scripts_repeat_and_go_through_everything() {
    let mut all = BTreeSet::new();
    for seed in 1..=SEEDS {
        let lines = script(seed);
        assert!(lines == script(seed), "the script of seed {seed} is not the same twice");
        if let Ok(directory) = std::env::var("TASKHUB_TRANSCRIPTS") {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            std::fs::write(format!("{directory}/{seed}.jsonl"), text).expect("the script can be written");
        }
        all.extend(seen(&lines));
    }
    let missing: Vec<&str> = workload::EXPECTED.split(',').map(str::trim).filter(|what| !all.contains(*what)).collect();
    assert!(missing.is_empty(), "the scripts no longer reach {missing:?}; they reach {all:#?}");
}
