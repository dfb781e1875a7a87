//! The owner's word before a task begins.

use serde_json::{Value as Json, json};
use taskhub::domain::task::{FailureCode, State, WaitingOn};
use taskhub::hub::{self, Submit, When};

use super::{change, claim_status, refused};
use crate::mcp::client::call;
use crate::support::{World, task_for, task_in};

fn asked() -> (World, String, String) {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    change(&world, "bot", json!({ "approval": "always" }));
    let id = world.submit(&task_for("bot"));
    (world, key, id)
}

fn word(world: &World, id: &str, word: &str, body: Json) -> (u16, Json) {
    world.owner("POST", &format!("/api/tasks/{id}/{word}"), body)
}

#[test]
fn a_task_waits_for_the_owner_and_begins_on_their_word() {
    let (world, key, id) = asked();
    let life = world.life(&id);
    assert_eq!((life.state, life.waiting_on), (State::Waiting, Some(WaitingOn::Approval)));
    assert_eq!(claim_status(&world, &key), 204);
    world.pass_and_sweep(30 * 86_400_000 - 1);
    let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
    assert_eq!((&task["state"], &task["waiting_on"]), (&json!("waiting"), &json!("approval")), "however long");
    assert!(task["next"].as_str().unwrap().contains("approve_task"), "{task}");
    let approved = call(&world, "approve_task", json!({ "task_id": id, "approve": true, "note": "Go on." })).unwrap();
    assert_eq!((&approved["state"], &approved["already"]), (&json!("submitted"), &json!(false)));
    let event = world.detail(&id).events.pop().unwrap();
    assert_eq!(
        (event.kind, event.actor.as_str(), &event.data["note"]),
        ("approved", "submitter:owner", &json!("Go on."))
    );
    assert_eq!(world.claim(&key).id, id);
}

#[test]
fn a_task_that_is_denied_fails_with_the_reason() {
    let (world, key, id) = asked();
    let denied = call(&world, "approve_task", json!({ "task_id": id, "approve": false, "note": "Too dear." })).unwrap();
    assert_eq!(denied["state"], "failed");
    let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
    assert_eq!((&task["state"], &task["error_code"]), (&json!("failed"), &json!("denied")));
    assert_eq!(task["error"], "The owner refused it: Too dear.");
    let event = world.detail(&id).events.pop().unwrap();
    assert_eq!(
        (event.kind, &event.data["code"], &event.data["note"]),
        ("failed", &json!("denied"), &json!("Too dear."))
    );
    assert_eq!(claim_status(&world, &key), 204);
    let second = world.submit(&task_for("bot"));
    assert_eq!(word(&world, &second, "deny", Json::Null).0, 200);
    assert_eq!(world.detail(&second).full.error.as_deref(), Some("The owner refused it."));
}

#[test]
fn what_was_said_once_is_said_and_the_contrary_comes_too_late() {
    let (world, key, id) = asked();
    let second = world.submit(&task_for("bot"));
    assert_eq!(word(&world, &id, "approve", json!({})).1["already"], false);
    assert_eq!(word(&world, &second, "deny", json!({ "note": "no" })).1["already"], false);
    let check = |world: &World| {
        let before = world.db.dump();
        let (status, answer) = word(world, &id, "approve", json!({ "note": "again" }));
        assert_eq!((status, &answer["already"]), (200, &json!(true)), "{answer}");
        let again = call(world, "approve_task", json!({ "task_id": id, "approve": true })).unwrap();
        assert!(again["next"].as_str().unwrap().contains("approved already"), "{again}");
        let (status, answer) = word(world, &id, "deny", Json::Null);
        assert_eq!((status, &answer["code"]), (409, &json!("approved_before")), "{answer}");
        let text = refused(world, "approve_task", json!({ "task_id": id, "approve": false }), "approved_before");
        assert!(text.contains("cancel_task"), "{text}");
        let (status, answer) = word(world, &second, "deny", Json::Null);
        assert_eq!((status, &answer["already"], &answer["state"]), (200, &json!(true), &json!("failed")), "{answer}");
        let (status, answer) = word(world, &second, "approve", Json::Null);
        assert_eq!((status, &answer["code"]), (409, &json!("denied_before")), "{answer}");
        let text = refused(world, "approve_task", json!({ "task_id": second, "approve": true }), "denied_before");
        assert!(text.contains("retry_task"), "{text}");
        assert_eq!(world.db.dump(), before, "nothing changes");
    };
    check(&world);
    let held = world.claim(&key);
    check(&world);
    world.does("result", &held, json!({ "status": "completed" }));
    check(&world);
}

#[test]
fn a_task_that_waits_for_no_approval_says_so() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let ready = world.submit(&task_for("bot"));
    let later = world.submit(&Submit { not_before: Some(When::In(60)), ..task_for("bot") });
    let held = world.claim(&key);
    let before = world.db.dump();
    for id in [&ready, &later, &held.id] {
        for (approve, verb) in [(true, "approve"), (false, "deny")] {
            let (status, answer) = word(&world, id, verb, Json::Null);
            assert_eq!((status, &answer["code"]), (409, &json!("not_awaiting_approval")), "{answer}");
            refused(&world, "approve_task", json!({ "task_id": id, "approve": approve }), "not_awaiting_approval");
        }
    }
    assert_eq!(word(&world, "t_000000000_0000000000000000", "approve", Json::Null).0, 404);
    assert_eq!(word(&world, "nonsense", "deny", Json::Null).0, 404);
    assert_eq!(word(&world, &ready, "approve", json!({ "note": "x".repeat(2_001) })).0, 400);
    refused(
        &world,
        "approve_task",
        json!({ "task_id": "t_0mb2x4k9q_7h3k5m9p2r4t6w8x", "approve": true }),
        "task_not_found",
    );
    assert_eq!(world.db.dump(), before);
}

#[test]
fn the_time_of_a_task_is_kept_for_after_the_word() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    change(&world, "bot", json!({ "approval": "always" }));
    let timed = || world.submit(&Submit { not_before: Some(When::In(3_600)), ..task_for("bot") });
    let (early, late) = (timed(), timed());
    let begins_at = world.now() + 3_600_000;
    assert_eq!(world.life(&early).waiting_on, Some(WaitingOn::Approval), "the word comes first");
    assert_eq!(world.life(&early).visible_at, None);
    let (_, answer) = word(&world, &early, "approve", Json::Null);
    assert_eq!((&answer["state"], &answer["visible_at"]), (&json!("waiting"), &json!(begins_at)), "{answer}");
    assert_eq!(world.life(&early).waiting_on, Some(WaitingOn::Time));
    assert_eq!(word(&world, &early, "approve", Json::Null).1["already"], true, "while it waits for its time");
    assert_eq!(claim_status(&world, &key), 204);
    world.pass_and_sweep(3_600_000);
    assert_eq!(world.claim(&key).id, early);
    let (_, answer) = word(&world, &late, "approve", Json::Null);
    assert_eq!(
        (&answer["state"], &answer["visible_at"]),
        (&json!("submitted"), &Json::Null),
        "its time has come before"
    );
}

#[test]
fn a_deadline_runs_on_while_the_owner_thinks() {
    let world = World::new();
    world.executor("bot", &[]);
    change(&world, "bot", json!({ "approval": "always" }));
    let id = world.submit(&Submit { deadline: Some(When::In(60)), ..task_for("bot") });
    world.pass_and_sweep(60_000);
    assert_eq!(world.life(&id).failure, Some(FailureCode::DeadlineExceeded));
    let (status, answer) = word(&world, &id, "approve", Json::Null);
    assert_eq!((status, &answer["code"]), (409, &json!("not_awaiting_approval")), "{answer}");
}

#[test]
fn a_queue_waits_if_one_of_those_who_serve_it_has_the_rule() {
    let world = World::new();
    world.executor("bot", &["q", "mine"]);
    world.executor("ant", &["q", "other"]);
    let ant_alone = world.submit(&task_in("q"));
    assert_eq!(world.state(&ant_alone), State::Submitted);
    change(&world, "bot", json!({ "approval": "always" }));
    assert_eq!(world.state(&ant_alone), State::Submitted, "the rule counts for what is submitted from then on");
    for (task, waits) in
        [(task_in("q"), true), (task_in("mine"), true), (task_in("other"), false), (task_for("ant"), false)]
    {
        let id = world.submit(&task);
        assert_eq!(world.life(&id).waiting_on == Some(WaitingOn::Approval), waits, "{task:?}");
    }
    change(&world, "bot", json!({ "disabled": true }));
    let id = world.submit(&task_in("q"));
    assert_eq!(world.state(&id), State::Waiting, "it may be enabled again before the task is done");
    change(&world, "bot", json!({ "approval": "never" }));
    assert_eq!(world.state(&world.submit(&task_in("q"))), State::Submitted);
}

#[test]
fn a_submitter_is_told_and_the_same_key_is_the_same_task() {
    let (world, ..) = asked();
    let task = json!({ "title": "A", "instructions": "B", "executor": "bot", "idempotency_key": "k" });
    let submitted = call(&world, "submit_task", task.clone()).unwrap();
    assert_eq!(submitted["state"], "waiting");
    assert!(submitted["next"].as_str().unwrap().contains("approve_task"), "{submitted}");
    let again = call(&world, "submit_task", task).unwrap();
    assert_eq!((&again["task_id"], &again["existed"]), (&submitted["task_id"], &json!(true)));
}

#[test]
fn nothing_but_the_owners_word_begins_it() {
    let (world, key, id) = asked();
    refused(&world, "wake_executor", json!({ "executor": "bot", "task_id": id }), "not_waiting");
    world.pass_and_sweep(86_400_000);
    assert_eq!(claim_status(&world, &key), 204);
    call(&world, "cancel_task", json!({ "task_id": id })).unwrap();
    let retried = call(&world, "retry_task", json!({ "task_id": id })).unwrap();
    assert_eq!(retried["state"], "waiting", "a retry asks again");
}

#[test]
fn an_approved_task_calls_its_executor() {
    let world = World::new();
    let hook = json!({ "adapter": "webhook", "url": "https://bot.example/wake", "auth": { "kind": "none" } });
    world.webhook_executor("bot", &[], hook);
    change(&world, "bot", json!({ "approval": "always" }));
    let (id, effects) = world.submit_with_effects(&task_for("bot"));
    assert!(effects.outbox.is_empty(), "not before");
    let approve = hub::Approve { submitter: "owner".to_owned(), task_id: id.clone(), approve: true, note: None };
    let (approved, effects) = world.run(|hub| hub::approve(hub, &approve));
    assert_eq!(approved.unwrap().state, State::Submitted);
    assert_eq!(effects.outbox.len(), 1);
    assert_eq!((effects.changed, effects.ready), (vec![id], vec!["@bot".to_owned()]));
}
