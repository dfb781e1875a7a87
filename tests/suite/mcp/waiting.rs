//! `get_task` with `wait_seconds`: it holds the call until there is something to tell.

use serde_json::{Value as Json, json};
use taskhub::http::message::{Outcome, Request, Topic, Wait};

use super::client::{attempt, call, claim, legacy, modern_request, outcome, post, read, submit, taken};
use crate::support::World;

fn get(id: &str, wait_seconds: u32) -> Request {
    let arguments = json!({ "task_id": id, "wait_seconds": wait_seconds });
    modern_request("tools/call", json!({ "name": "get_task", "arguments": arguments }))
}

fn waits(world: &World, request: &Request) -> Wait {
    match outcome(world, request) {
        Outcome::Wait(wait) => wait,
        other => panic!("it does not wait: {other:?}"),
    }
}

fn answers(world: &World, request: &Request) -> Json {
    match outcome(world, request) {
        Outcome::Reply(response) => taken("get_task", &read(&response).1).expect("a task"),
        waits => panic!("it is not answered: {waits:?}"),
    }
}

fn resumed(request: &Request, wait: &Wait) -> Request {
    Request { resumed: Some(wait.clone()), ..request.clone() }
}

#[test]
fn it_waits_for_a_change_of_this_task() {
    let world = World::new();
    let key = world.executor("nas", &[]);
    let id = submit(&world, "nas");
    let request = get(&id, 25);
    let wait = waits(&world, &request);
    assert_eq!(wait.until, world.now() + 25_000);
    assert!(matches!(&wait.on, Topic::Task(task) if task.as_str() == id));

    // Woken for nothing, it waits on, until the same moment.
    world.pass(5_000);
    assert_eq!(waits(&world, &resumed(&request, &wait)), wait);
    claim(&world, &key);
    assert_eq!(answers(&world, &resumed(&request, &wait))["state"], "working");
}

#[test]
fn what_waits_for_the_executors_own_user_is_waited_for() {
    let world = World::new();
    let key = world.executor("nas", &[]);
    let id = submit(&world, "nas");
    let claimed = claim(&world, &key);
    attempt(&world, &key, &claimed, "heartbeat", json!({ "state": "input-required" }));
    waits(&world, &get(&id, 25));
    attempt(&world, &key, &claimed, "heartbeat", json!({ "question": "Which?" }));
    assert_eq!(answers(&world, &get(&id, 25))["waiting_on"], "submitter");
}

#[test]
fn it_answers_when_the_time_is_over() {
    let world = World::new();
    world.executor("nas", &[]);
    let request = get(&submit(&world, "nas"), 10);
    let wait = waits(&world, &request);
    world.pass(9_999);
    assert_eq!(waits(&world, &resumed(&request, &wait)), wait);
    world.pass(1);
    assert_eq!(answers(&world, &resumed(&request, &wait))["state"], "submitted");
}

#[test]
fn news_of_the_attempt_end_the_wait_and_bare_heartbeats_do_not() {
    let world = World::new();
    let key = world.executor("nas", &[]);
    let id = submit(&world, "nas");
    let claimed = claim(&world, &key);
    let request = get(&id, 50);
    let wait = waits(&world, &request);
    attempt(&world, &key, &claimed, "heartbeat", json!({}));
    assert_eq!(waits(&world, &resumed(&request, &wait)), wait);
    attempt(&world, &key, &claimed, "heartbeat", json!({ "note": "half" }));
    assert_eq!(answers(&world, &resumed(&request, &wait))["note"], "half");
}

#[test]
fn what_is_over_or_asks_is_answered_at_once() {
    let world = World::new();
    let key = world.executor("nas", &[]);
    let id = submit(&world, "nas");
    let claimed = claim(&world, &key);
    attempt(&world, &key, &claimed, "heartbeat", json!({ "state": "input-required", "question": "?" }));
    assert_eq!(answers(&world, &get(&id, 50))["state"], "input-required");
    // Once it is answered there is something to wait for again.
    call(&world, "answer_task", json!({ "task_id": id, "answer": "!" })).unwrap();
    let wait = waits(&world, &get(&id, 50));
    attempt(&world, &key, &claimed, "heartbeat", json!({}));
    assert_eq!(answers(&world, &resumed(&get(&id, 50), &wait))["state"], "working");
    attempt(&world, &key, &claimed, "result", json!({ "status": "completed" }));
    assert_eq!(answers(&world, &get(&id, 50))["state"], "completed");
}

#[test]
fn without_a_task_there_is_nothing_to_wait_for() {
    let world = World::new();
    for id in ["nonsense", "t_0mb2x4k9q_7h3k5m9p2r4t6w8x"] {
        let Outcome::Reply(response) = outcome(&world, &get(id, 50)) else { panic!("it waits") };
        assert!(taken("get_task", &read(&response).1).unwrap_err().starts_with("task_not_found: "));
    }
}

#[test]
fn pages_and_batches_do_not_wait() {
    let world = World::new();
    world.executor("nas", &[]);
    let id = submit(&world, "nas");
    let arguments = json!({ "task_id": id, "wait_seconds": 50, "part": "instructions" });
    let page = modern_request("tools/call", json!({ "name": "get_task", "arguments": arguments }));
    assert_eq!(answers(&world, &page)["page"]["text"], "Do it.");

    let arguments = json!({ "task_id": id, "wait_seconds": 50 });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "get_task", "arguments": arguments } });
    let response = world.send(&post(&[], json!([call, call]).to_string().as_bytes()));
    let (_, messages) = read(&response);
    assert_eq!(messages.as_array().map(Vec::len), Some(2));
    assert_eq!(taken("get_task", &messages[1]).unwrap()["state"], "submitted");
    // Alone, and legacy, it does wait.
    assert!(matches!(outcome(&world, &post(&[], call.to_string().as_bytes())), Outcome::Wait(_)));
    assert_eq!(legacy(&world, "ping", json!({})).0, 200);
}
