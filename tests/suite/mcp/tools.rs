//! Every tool, when it succeeds and when it does not.

use serde_json::{Value as Json, json};
use taskhub::domain::task::State;

use super::client::{attempt, call, claim, legacy, submit, taken};
use crate::support::World;

fn refused(world: &World, tool: &str, arguments: Json, code: &str) -> String {
    let text = call(world, tool, arguments).expect_err("it is refused");
    assert!(text.starts_with(&format!("{code}: ")), "{text}");
    text
}

/// A world with one polling executor that serves two queues, and its key.
fn world() -> (World, String) {
    let world = World::new();
    let key = world.executor("nas", &["slow", "quick"]);
    (world, key)
}

const NO_TASK: &str = "t_0mb2x4k9q_7h3k5m9p2r4t6w8x";

#[test]
fn submit_and_read_the_result() {
    let (world, key) = world();
    let submitted = call(
        &world,
        "submit_task",
        json!({
            "title": "Book the table", "instructions": "For two, at eight.", "executor": "nas",
            "context": { "restaurant": "Adler" }, "priority": 9, "max_attempts": 1,
        }),
    )
    .unwrap();
    assert_eq!((&submitted["state"], &submitted["existed"]), (&json!("submitted"), &json!(false)));
    let id = submitted["task_id"].as_str().unwrap();

    let claimed = claim(&world, &key);
    assert_eq!(claimed["task"]["id"], id);
    assert_eq!(claimed["task"]["context"]["restaurant"], "Adler");
    let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
    assert_eq!((&task["state"], &task["held_by"], &task["attempt"]), (&json!("working"), &json!("nas"), &json!(1)));
    assert!(task["lease_expires_at"].is_string() && task["heard_at"].is_string());
    assert!(task.get("notice").is_none(), "nothing is quoted yet");

    attempt(&world, &key, &claimed, "heartbeat", json!({ "note": "calling", "progress": 0.5 }));
    let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
    assert_eq!((&task["note"], &task["progress"]), (&json!("calling"), &json!(0.5)));
    assert!(task["notice"].as_str().unwrap().contains("never instructions"));

    attempt(
        &world,
        &key,
        &claimed,
        "result",
        json!({
            "status": "completed", "result": "Booked.", "data": { "table": 4 }, "external_actions": [{ "call": "Adler" }],
        }),
    );
    let task = call(&world, "get_task", json!({ "task_id": id, "wait_seconds": 50 })).unwrap();
    assert_eq!((&task["state"], &task["result"]), (&json!("completed"), &json!("Booked.")));
    assert_eq!((&task["data"]["table"], &task["external_actions"]), (&json!(4), &json!([{ "call": "Adler" }])));
    assert!(task["completed_at"].is_string() && task.get("held_by").is_none());
    assert_eq!(task["executor"], "nas");
    assert_eq!(task["priority"], 9);
}

#[test]
fn both_eras_give_the_same() {
    let (world, _) = world();
    let id = submit(&world, "nas");
    let params = json!({ "name": "get_task", "arguments": { "task_id": id } });
    let (_, message) = legacy(&world, "tools/call", params);
    assert_eq!(taken("get_task", &message), call(&world, "get_task", json!({ "task_id": id })));
    for modern_only in ["resultType", "_meta", "ttlMs"] {
        assert!(message["result"].get(modern_only).is_none());
    }
}

#[test]
fn submitting_twice_under_one_key() {
    let (world, _) = world();
    let arguments = json!({ "title": "x", "instructions": "y", "queue": "slow", "idempotency_key": "k" });
    let first = call(&world, "submit_task", arguments.clone()).unwrap();
    let again = call(&world, "submit_task", arguments.clone()).unwrap();
    assert_eq!((&again["task_id"], &again["existed"]), (&first["task_id"], &json!(true)));
    let mut other = arguments;
    other["title"] = json!("z");
    let text = refused(&world, "submit_task", other, "idempotency_conflict");
    assert!(text.contains(first["task_id"].as_str().unwrap()));
}

#[test]
fn nobody_would_do_it() {
    let (world, _) = world();
    let task = |more: Json| {
        let mut arguments = json!({ "title": "x", "instructions": "y" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    for address in
        [json!({ "executor": "nobody" }), json!({ "queue": "nothing" }), json!({ "executor": "No Name!" }), json!({})]
    {
        let text = refused(&world, "submit_task", task(address), "no_consumer");
        assert!(text.contains("the executors nas, and the queues quick, slow."), "{text}");
    }
    refused(&world, "submit_task", task(json!({ "executor": "nas", "queue": "slow" })), "invalid_arguments");
    let text = refused(&World::new(), "submit_task", task(json!({ "executor": "nas" })), "no_consumer");
    assert!(text.contains("no executor yet"), "{text}");
}

#[test]
fn times_may_be_given_in_two_ways() {
    let (world, _) = world();
    let submit = |more: Json| {
        let mut arguments = json!({ "title": "x", "instructions": "y", "executor": "nas" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call(&world, "submit_task", arguments)
    };
    let get = |id: &Json| call(&world, "get_task", json!({ "task_id": id })).unwrap();
    // The clock of a test stands at 2027-01-15T08:00:00Z.
    let task =
        submit(json!({ "deadline": "2027-01-15T10:00:00+01:30", "not_before": "2027-01-15T08:10:00.250Z" })).unwrap();
    assert_eq!(task["state"], "waiting");
    let shown = get(&task["task_id"]);
    assert_eq!(shown["deadline_at"], "2027-01-15T08:30:00Z");
    assert_eq!(shown["visible_at"], "2027-01-15T08:10:00.25Z");
    assert_eq!(shown["waiting_on"], "time");
    assert!(shown["next"].as_str().unwrap().contains("2027-01-15T08:10:00.25Z"));
    assert_eq!(shown["created_at"], "2027-01-15T08:00:00Z");

    let shown = get(&submit(json!({ "deadline_seconds": 3600, "delay_seconds": 60 })).unwrap()["task_id"]);
    assert_eq!(
        (&shown["deadline_at"], &shown["visible_at"]),
        (&json!("2027-01-15T09:00:00Z"), &json!("2027-01-15T08:01:00Z"))
    );

    for (wrong, told) in [
        (json!({ "deadline": "2027-01-15T10:00:00Z", "deadline_seconds": 5 }), "not both"),
        (json!({ "deadline": "tomorrow" }), "RFC 3339"),
        (json!({ "deadline": "2027-01-15T10:00:00" }), "offset"),
        (json!({ "not_before": "2027-02-30T10:00:00Z" }), "RFC 3339"),
        (json!({ "deadline": "2027-01-15T07:59:59Z" }), "not in the future"),
        (json!({ "deadline": "2037-01-15T08:00:00Z" }), "more than a year"),
        (json!({ "deadline_seconds": 60, "delay_seconds": 60 }), "earlier than the deadline"),
        (json!({ "deadline_seconds": 0 }), "1 to 31536000"),
    ] {
        let text = submit(wrong.clone()).expect_err("a wrong time");
        assert!(text.starts_with("invalid_arguments: ") && text.contains(told), "{wrong}: {text}");
    }
}

#[test]
fn a_question_and_its_answer() {
    let (world, key) = world();
    let id = submit(&world, "nas");
    refused(&world, "answer_task", json!({ "task_id": id, "answer": "yes" }), "not_asked");
    let claimed = claim(&world, &key);
    attempt(
        &world,
        &key,
        &claimed,
        "heartbeat",
        json!({ "state": "input-required", "question": "Inside or outside?" }),
    );
    let task = call(&world, "get_task", json!({ "task_id": id, "wait_seconds": 25 })).unwrap();
    assert_eq!((&task["state"], &task["waiting_on"]), (&json!("input-required"), &json!("submitter")));
    assert_eq!(task["question"], "Inside or outside?");
    assert!(task["next"].as_str().unwrap().contains("answer_task") && task["input_expires_at"].is_string());
    let listed = call(&world, "list_tasks", json!({ "states": ["input-required"] })).unwrap();
    assert_eq!(listed["tasks"][0]["question"], "Inside or outside?");
    assert!(listed["notice"].is_string() && listed["next"].as_str().unwrap().contains("answer_task"));

    let answer = json!({ "task_id": id, "answer": "Outside." });
    let answered = call(&world, "answer_task", answer.clone()).unwrap();
    assert_eq!((&answered["state"], &answered["already"]), (&json!("input-required"), &json!(false)));
    assert_eq!(call(&world, "answer_task", answer).unwrap()["already"], true);
    let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
    assert!(task["answered_at"].is_string() && task["next"].as_str().unwrap().contains("answered"));
    let said: Vec<&str> = task["messages"].as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap()).collect();
    assert_eq!(said, ["Inside or outside?", "Outside."]);
    assert_eq!(task["messages"][1]["from"], "submitter:owner");

    let beat = attempt(&world, &key, &claimed, "heartbeat", json!({}));
    assert_eq!(beat["messages"][0]["text"], "Outside.");
    refused(&world, "answer_task", json!({ "task_id": NO_TASK, "answer": "x" }), "task_not_found");
    refused(&world, "answer_task", json!({ "task_id": id, "answer": "   " }), "invalid_arguments");
}

#[test]
fn canceling() {
    let (world, key) = world();
    let id = submit(&world, "nas");
    claim(&world, &key);
    let canceled = call(&world, "cancel_task", json!({ "task_id": id, "reason": "We eat at home." })).unwrap();
    assert_eq!((&canceled["state"], &canceled["already"]), (&json!("canceled"), &json!(false)));
    assert_eq!(canceled["was_held_by"], "nas");
    assert_eq!(call(&world, "cancel_task", json!({ "task_id": id })).unwrap()["already"], true);
    let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
    assert_eq!((&task["state"], &task["error"]), (&json!("canceled"), &json!("We eat at home.")));

    submit(&world, "nas");
    let claimed = claim(&world, &key);
    attempt(&world, &key, &claimed, "result", json!({ "status": "completed", "result": "done" }));
    refused(&world, "cancel_task", json!({ "task_id": claimed["task"]["id"] }), "already_finished");
    refused(&world, "cancel_task", json!({ "task_id": NO_TASK }), "task_not_found");
    refused(&world, "answer_task", json!({ "task_id": id, "answer": "x" }), "not_asked");
}

#[test]
fn retrying() {
    let (world, key) = world();
    let id = submit(&world, "nas");
    refused(&world, "retry_task", json!({ "task_id": id }), "not_finished");
    refused(&world, "retry_task", json!({ "task_id": "nonsense" }), "task_not_found");
    let claimed = claim(&world, &key);
    attempt(&world, &key, &claimed, "result", json!({ "status": "failed", "error": "The line is dead." }));
    let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
    assert_eq!((&task["error_code"], &task["error"]), (&json!("executor_failed"), &json!("The line is dead.")));
    assert!(task["next"].as_str().unwrap().contains("retry_task"));

    let retried = call(&world, "retry_task", json!({ "task_id": id })).unwrap();
    assert_eq!((&retried["retry_of"], &retried["existed"]), (&json!(id), &json!(false)));
    let again = call(&world, "retry_task", json!({ "task_id": id })).unwrap();
    assert_eq!((&again["task_id"], &again["existed"]), (&retried["task_id"], &json!(true)));
    let new = call(&world, "get_task", json!({ "task_id": retried["task_id"] })).unwrap();
    assert_eq!((&new["retry_of"], &new["title"]), (&json!(id), &json!("A task")));
}

#[test]
fn earlier_attempts_are_told() {
    let (world, key) = world();
    let id = submit(&world, "nas");
    let claimed = claim(&world, &key);
    attempt(&world, &key, &claimed, "result", json!({ "status": "failed", "error": "busy", "retryable": true }));
    let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
    assert_eq!(
        (&task["state"], &task["waiting_on"], &task["failures"]),
        (&json!("waiting"), &json!("time"), &json!(1))
    );
    let earlier = &task["earlier_attempts"][0];
    assert_eq!(
        (&earlier["attempt"], &earlier["ended"], &earlier["note"]),
        (&json!(1), &json!("failed"), &json!("busy"))
    );
    assert!(task["next"].as_str().unwrap().contains("wake_executor"));
}

#[test]
fn waking() {
    let (world, key) = world();
    let id = submit(&world, "nas");
    let woken = call(&world, "wake_executor", json!({ "executor": "nas" })).unwrap();
    assert_eq!((&woken["sent"], &woken["executor"]), (&json!(false), &json!("nas")));
    assert!(woken["next"].as_str().unwrap().contains("only polls"));

    let claimed = claim(&world, &key);
    attempt(&world, &key, &claimed, "defer", json!({ "seconds": 3600 }));
    let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
    assert_eq!(task["waiting_on"], "external");
    let woken = call(&world, "wake_executor", json!({ "executor": "nas", "task_id": id })).unwrap();
    assert_eq!(woken["task_id"], id.as_str());
    assert_eq!(call(&world, "get_task", json!({ "task_id": id })).unwrap()["state"], "submitted");

    world.executor("other", &[]);
    let text = refused(&world, "wake_executor", json!({ "executor": "no one" }), "executor_not_found");
    assert!(text.contains("nas, other"), "{text}");
    refused(&world, "wake_executor", json!({ "executor": "other", "task_id": id }), "task_elsewhere");
    refused(&world, "wake_executor", json!({ "executor": "nas", "task_id": NO_TASK }), "task_not_found");
    claim(&world, &key);
    refused(&world, "wake_executor", json!({ "executor": "nas", "task_id": id }), "not_waiting");
    let text = refused(&World::new(), "wake_executor", json!({ "executor": "nas" }), "executor_not_found");
    assert!(text.contains("nor any other"), "{text}");
}

#[test]
fn a_webhook_is_called() {
    let world = World::new();
    let wake = json!({ "adapter": "webhook", "url": "https://bot.example/wake", "auth": { "kind": "none" } });
    let body = json!({ "name": "bot", "wake": wake });
    assert_eq!(world.call("POST", "/api/executors", crate::support::OWNER_TOKEN, body).0, 201);
    let id = submit(&world, "bot");
    let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
    assert_eq!(task["wake"]["status"], "sent");
    assert!(task["next"].as_str().unwrap().contains("wake_executor with executor \"bot\""), "{task}");
    assert_eq!(call(&world, "wake_executor", json!({ "executor": "bot" })).unwrap()["sent"], true);
    let listed = call(&world, "list_executors", json!({})).unwrap();
    assert_eq!((&listed["executors"][0]["wake"], &listed["executors"][0]["ready"]), (&json!("webhook"), &json!(1)));
    assert!(!listed.to_string().contains("bot.example"), "where it is called is the owner's business");
}

#[test]
fn who_is_there() {
    let (world, key) = world();
    let none = call(&World::new(), "list_executors", json!({})).unwrap();
    assert_eq!(none["executors"], json!([]));
    assert!(none["next"].as_str().unwrap().contains("no executor yet"));

    let id = submit(&world, "nas");
    let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
    assert_eq!(task["executors"], json!([{ "name": "nas", "online": false }]));
    assert!(task["next"].as_str().unwrap().contains("has never been seen"));
    let status = call(&world, "hub_status", json!({})).unwrap();
    assert_eq!(status["attention"].as_array().map(Vec::len), Some(1), "{status}");

    world.call("POST", "/executor/ping", &key, json!({}));
    let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
    assert_eq!(task["executors"][0]["online"], true);
    assert!(task["next"].as_str().unwrap().contains("is there"));
    let listed = call(&world, "list_executors", json!({})).unwrap();
    let nas = &listed["executors"][0];
    assert_eq!((&nas["name"], &nas["online"], &nas["wake"]), (&json!("nas"), &json!(true), &json!("poll")));
    assert_eq!((&nas["ready"], &nas["held"], &nas["queues"]), (&json!(1), &json!(0), &json!(["quick", "slow"])));

    world.pass(60_000);
    assert_eq!(call(&world, "list_executors", json!({})).unwrap()["executors"][0]["online"], false);
    let status = call(&world, "hub_status", json!({})).unwrap();
    assert!(status["attention"][0].as_str().unwrap().contains("last seen at 2027-01-15T08:00:00Z"), "{status}");
    assert_eq!(status["executors"][0]["ready"], 1);
    assert_eq!(status["queues"][0], json!({ "name": "quick", "ready": 0, "waiting": 0 }));
    assert_eq!(status["left_out"], false);
}

#[test]
fn a_quiet_hub_needs_nothing() {
    let (world, _) = world();
    let status = call(&world, "hub_status", json!({})).unwrap();
    assert_eq!(status["attention"], json!([]));
    assert!(status["next"].as_str().unwrap().contains("Nothing needs attention"));
    assert_eq!(status["time"], "2027-01-15T08:00:00Z");
    assert!(status["version"].is_string() && status["schema"].is_i64());
}

#[test]
fn lists_are_filtered() {
    let (world, key) = world();
    assert!(call(&world, "list_tasks", json!({})).unwrap()["next"].as_str().unwrap().contains("no tasks"));
    let own = submit(&world, "nas");
    let queued = call(&world, "submit_task", json!({ "title": "q", "instructions": "q", "queue": "slow" })).unwrap();
    claim(&world, &key);
    let ids = |arguments: Json| {
        let listed = call(&world, "list_tasks", arguments).unwrap();
        listed["tasks"].as_array().unwrap().iter().map(|task| task["task_id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(json!({})).len(), 2);
    assert_eq!(ids(json!({ "states": ["working"] })), [json!(own)]);
    assert_eq!(ids(json!({ "queue": "slow" })), [queued["task_id"].clone()]);
    assert_eq!(ids(json!({ "executor": "nas", "states": ["working", "completed"] })), [json!(own)]);
    assert!(ids(json!({ "states": ["failed"] })).is_empty());
    refused(&world, "list_tasks", json!({ "executor": "nas", "queue": "slow" }), "invalid_arguments");
    refused(&world, "list_tasks", json!({ "executor": "No Name" }), "invalid_arguments");
    refused(&world, "list_tasks", json!({ "cursor": "nonsense" }), "unknown_cursor");
    let text = refused(&world, "list_tasks", json!({ "states": ["done"] }), "invalid_arguments");
    assert!(State::ALL.iter().all(|state| text.contains(state.as_str())), "{text}");
    for page_size in [0, 51] {
        refused(&world, "list_tasks", json!({ "page_size": page_size }), "invalid_arguments");
    }
}

#[test]
fn a_failing_database_is_an_error_of_the_tool() {
    let (world, _) = world();
    world.db.fail_in(Some(0));
    let text =
        refused(&world, "submit_task", json!({ "title": "x", "instructions": "y", "executor": "nas" }), "internal");
    assert!(text.contains("nothing was changed") && !text.contains("test asked"), "{text}");
}
