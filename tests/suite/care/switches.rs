//! Pausing, disabling, and every other change of an account.

use serde_json::{Value as Json, json};
use taskhub::domain::task::{State, WakeStatus};
use taskhub::http::message::{Request, Topic};
use taskhub::hub::{self, Delivery, Effects, ExecutorChange};

use super::{change, claim_status, ping, refused, shown};
use crate::mcp::client::call;
use crate::support::{OWNER_TOKEN, World, request, task_for, task_in};

fn hook() -> Json {
    json!({ "adapter": "webhook", "url": "https://bot.example/wake", "auth": { "kind": "none" } })
}

fn effects(world: &World, change: ExecutorChange) -> Effects {
    let (changed, effects) = world.run(|hub| hub::change_executor(hub, "bot", &change));
    changed.expect("it is changed");
    effects
}

#[test]
fn a_paused_executor_claims_nothing_and_finishes_what_it_has() {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    let held = world.working("bot", &key);
    let waiting = world.submit(&task_in("q"));
    let view = change(&world, "bot", json!({ "paused": true }));
    assert_eq!((&view["paused"], &view["paused_at"]), (&json!(true), &json!(world.now())));
    assert_eq!(claim_status(&world, &key), 204);
    let pong = ping(&world, &key);
    assert_eq!(pong["paused"], true);
    assert!(pong["next"].as_str().unwrap().contains("paused"), "{pong}");
    world.does("heartbeat", &held, json!({}));
    let answer = world.does("result", &held, json!({ "status": "completed", "next": {} }));
    assert_eq!(answer["next"], Json::Null, "nor does it get the next one with its result");
    world.pass(5_000);
    assert_eq!(change(&world, "bot", json!({ "paused": true }))["paused_at"], world.now() - 5_000, "since when");
    let view = change(&world, "bot", json!({ "paused": false }));
    assert_eq!((&view["paused"], &view["paused_at"]), (&json!(false), &Json::Null));
    assert_eq!(world.claim(&key).id, waiting);
}

#[test]
fn a_claim_that_was_answered_before_the_pause_is_answered_again() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    world.submit(&task_for("bot"));
    let claim = || world.call("POST", "/executor/claim", &key, json!({ "request_id": "r" }));
    let first = claim();
    change(&world, "bot", json!({ "paused": true }));
    let second = claim();
    assert_eq!((second.0, &second.1["claim_token"]), (200, &first.1["claim_token"]), "its answer may have been lost");
}

#[test]
fn a_paused_executor_counts_as_a_consumer_and_is_not_woken() {
    let world = World::new();
    world.webhook_executor("bot", &[], hook());
    change(&world, "bot", json!({ "paused": true }));
    let (id, effects) = world.submit_with_effects(&task_for("bot"));
    assert!(effects.outbox.is_empty());
    assert_eq!(world.life(&id).next_wake_at, None);
    let woken = call(&world, "wake_executor", json!({ "executor": "bot" })).unwrap();
    assert_eq!(woken["sent"], false);
    assert!(woken["next"].as_str().unwrap().contains("paused bot"), "{woken}");
    world.pass_and_sweep(3_600_000);
    assert_eq!(world.life(&id).last_wake_status, None);

    let second = world.submit(&task_for("bot"));
    let effects = self::effects(&world, ExecutorChange { paused: Some(false), ..ExecutorChange::default() });
    assert_eq!(effects.outbox.len(), 1, "it is called at once");
    assert!(effects.ready.contains(&"@bot".to_owned()), "and whoever waits looks");
    assert_eq!(world.life(&id).last_wake_status, Some(WakeStatus::Sent));
    world.pass_and_sweep(0);
    assert_eq!(world.life(&second).last_wake_status, Some(WakeStatus::Coalesced), "one wake for all of them");
    assert!(world.life(&second).next_wake_at.is_some(), "and another one if that is lost");
}

#[test]
fn who_was_woken_just_before_the_pause_is_woken_again_after_it() {
    let world = World::new();
    let key = world.webhook_executor("bot", &[], hook());
    let (id, effects) = world.submit_with_effects(&task_for("bot"));
    world.record(&effects.outbox[0], Delivery::Accepted);
    change(&world, "bot", json!({ "paused": true }));
    assert_eq!(claim_status(&world, &key), 204, "it came for nothing");
    world.pass(1_000);
    let effects = self::effects(&world, ExecutorChange { paused: Some(false), ..ExecutorChange::default() });
    assert_eq!(effects.outbox.len(), 1);
    assert_eq!(world.life(&id).last_wake_at, Some(world.now()));
}

#[test]
fn a_resumed_executor_without_tasks_is_left_in_peace() {
    let world = World::new();
    world.webhook_executor("bot", &["q"], hook());
    change(&world, "bot", json!({ "paused": true }));
    let effects = self::effects(&world, ExecutorChange { paused: Some(false), ..ExecutorChange::default() });
    assert!(effects.outbox.is_empty());
}

#[test]
fn a_disabled_executor_is_refused_whatever_it_calls() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    let view = change(&world, "bot", json!({ "disabled": true }));
    assert_eq!((&view["disabled"], &view["held"]), (&json!(true), &json!(1)));
    for verb in ["claim", "heartbeat", "result", "defer", "release", "ping"] {
        let body = json!({ "task_id": held.id, "claim_token": held.token, "status": "completed", "seconds": 1 });
        let (status, answer) = world.call("POST", &format!("/executor/{verb}"), &key, body);
        assert_eq!((status, &answer["code"], &answer["retryable"]), (403, &json!("executor_disabled"), &json!(false)));
        assert!(answer["detail"].as_str().unwrap().contains("owner has disabled the executor bot"), "{answer}");
    }
    world.pass_and_sweep(300_000);
    assert_eq!(world.state(&held.id), State::Submitted, "its lease ran out");
    change(&world, "bot", json!({ "disabled": false }));
    assert_eq!(world.claim(&key).attempt, 2);
}

#[test]
fn a_call_that_waits_is_refused_when_its_executor_is_disabled() {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    let waits = request("POST", "/executor/claim", &key, &json!({ "wait_seconds": 25 }));
    let wait = world.send_waiting(&waits);
    world.submit(&task_in("q"));
    let effects = self::effects(&world, ExecutorChange { disabled: Some(true), ..ExecutorChange::default() });
    assert_eq!(effects.cut_off, ["bot"]);
    let Topic::Ready(places) = &wait.on else { panic!("it waits for work") };
    assert!(effects.ready.iter().any(|place| places.contains(place)), "it looks again at once");
    let resumed = Request { resumed: Some(wait), ..waits };
    assert_eq!(world.send(&resumed).status, 403);
}

#[test]
fn a_call_that_waits_finds_nothing_when_its_executor_is_paused_and_something_when_it_is_resumed() {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    let waits = request("POST", "/executor/claim", &key, &json!({ "wait_seconds": 25 }));
    change(&world, "bot", json!({ "paused": true }));
    world.submit(&task_in("q"));
    let wait = world.send_waiting(&waits);
    change(&world, "bot", json!({ "paused": false }));
    assert_eq!(world.send(&Request { resumed: Some(wait), ..waits.clone() }).status, 200);
    assert_eq!(claim_status(&world, &key), 204);
    world.submit(&task_in("q"));
    change(&world, "bot", json!({ "disabled": true }));
    assert_eq!(world.send(&waits).status, 403);
}

#[test]
fn nobody_is_asked_to_do_what_only_a_disabled_executor_would() {
    let world = World::new();
    world.executor("bot", &["q"]);
    change(&world, "bot", json!({ "disabled": true }));
    for address in ["executor", "queue"] {
        let name = if address == "queue" { "q" } else { "bot" };
        let task = json!({ "title": "A", "instructions": "B", address: name });
        let text = refused(&world, "submit_task", task, "no_consumer");
        assert!(text.contains("bot is disabled by the owner") && text.contains("{\"disabled\": false}"), "{text}");
    }
    world.executor("ant", &["p"]);
    let text =
        refused(&world, "submit_task", json!({ "title": "A", "instructions": "B", "queue": "q" }), "no_consumer");
    assert!(text.contains("the executors ant, and the queues p"), "{text}");
    let text =
        refused(&world, "submit_task", json!({ "title": "A", "instructions": "B", "queue": "x" }), "no_consumer");
    assert!(!text.contains("bot"), "what is disabled is nothing to choose: {text}");
    change(&world, "ant", json!({ "queues": ["p", "q"] }));
    world.submit(&task_in("q"));
}

#[test]
fn everything_of_an_account_can_be_changed() {
    let world = World::new();
    let key = world.executor("bot", &["p", "q"]);
    let view = change(
        &world,
        "bot",
        json!({
            "queues": ["r", "q", "r"], "max_concurrent": 2, "max_tasks_per_day": 7, "approval": "always", "wake": hook(),
        }),
    );
    assert_eq!((&view["queues"], &view["max_concurrent"]), (&json!(["q", "r"]), &json!(2)));
    assert_eq!(
        (&view["max_tasks_per_day"], &view["tasks_today"], &view["approval"]),
        (&json!(7), &json!(0), &json!("always"))
    );
    assert_eq!(view["wake"]["url"], "https://bot.example/wake");
    let (status, _) = world.call("POST", "/executor/claim", &key, json!({ "queues": ["p"] }));
    assert_eq!(status, 400, "it does not serve that queue any more");
    assert_eq!(world.call("POST", "/executor/claim", &key, json!({ "queues": ["r"] })).0, 204);
    let pong = ping(&world, &key);
    assert_eq!((&pong["limits"]["max_concurrent"], &pong["limits"]["max_tasks_per_day"]), (&json!(2), &json!(7)));
    let view = change(&world, "bot", json!({ "max_tasks_per_day": null, "wake": { "adapter": "poll" } }));
    assert_eq!((&view["max_tasks_per_day"], &view["approval"]), (&Json::Null, &json!("always")), "the rest stays");
    let before = world.db.dump();
    change(&world, "bot", json!({ "approval": "always", "paused": false }));
    assert_eq!(world.db.dump(), before, "nothing is written where nothing changes");
}

#[test]
fn an_account_is_created_with_all_of_it() {
    let world = World::new();
    let body = json!({
        "name": "bot", "paused": true, "approval": "always", "max_tasks_per_day": 3, "max_concurrent": 1, "queues": ["q"],
    });
    let (status, created) = world.owner("POST", "/api/executors", body);
    assert_eq!(status, 201, "{created}");
    let view = shown(&world, "bot");
    for (field, value) in [("paused", json!(true)), ("approval", json!("always")), ("max_tasks_per_day", json!(3))] {
        assert_eq!((&created[field], &view[field]), (&value, &value), "{field}");
    }
}

#[test]
fn other_queues_cut_an_executor_off_and_other_limits_do_not() {
    let world = World::new();
    world.executor("bot", &["q"]);
    let with = |change: ExecutorChange| effects(&world, change).cut_off;
    assert!(with(ExecutorChange { paused: Some(true), ..ExecutorChange::default() }).is_empty());
    assert!(with(ExecutorChange { max_concurrent: Some(1), ..ExecutorChange::default() }).is_empty());
    assert_eq!(with(ExecutorChange { queues: Some(vec!["p".to_owned()]), ..ExecutorChange::default() }), ["bot"]);
    assert_eq!(with(ExecutorChange { disabled: Some(true), ..ExecutorChange::default() }), ["bot"]);
    assert!(with(ExecutorChange { disabled: Some(true), ..ExecutorChange::default() }).is_empty(), "it was before");
}

#[test]
fn a_queue_with_tasks_is_not_left_alone() {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    world.executor("ant", &["q"]);
    change(&world, "ant", json!({ "disabled": true }));
    world.submit(&task_in("q"));
    let (status, answer) = world.owner("PATCH", "/api/executors/bot", json!({ "queues": [] }));
    assert_eq!((status, &answer["code"]), (409, &json!("executor_has_tasks")), "{answer}");
    assert_eq!(shown(&world, "bot")["queues"], json!(["q"]));
    world.claim(&key);
    change(&world, "bot", json!({ "queues": [] }));
}

#[test]
fn a_wrong_change_is_refused_by_its_field_and_changes_nothing() {
    let world = World::new();
    world.executor("bot", &["q"]);
    let before = world.db.dump();
    for (body, field) in [
        (json!({}), "Send what is to change"),
        (json!({ "name": "ant" }), "name: "),
        (json!({ "name": "bot" }), "Send what is to change"),
        (json!({ "paused": "yes" }), "paused: "),
        (json!({ "max_concurrent": 0 }), "max_concurrent: "),
        (json!({ "max_tasks_per_day": 0 }), "max_tasks_per_day: "),
        (json!({ "max_tasks_per_day": 1_000_001 }), "max_tasks_per_day: "),
        (json!({ "approval": "sometimes" }), "approval: "),
        (json!({ "queues": ["Not A Queue"] }), "queues: "),
        (
            json!({ "wake": { "adapter": "webhook", "url": "http://bot.example/", "auth": { "kind": "none" } } }),
            "wake.url: ",
        ),
        (json!({ "colour": "red" }), "unknown field `colour`"),
    ] {
        let (status, answer) = world.owner("PATCH", "/api/executors/bot", body.clone());
        assert_eq!((status, &answer["code"]), (400, &json!("bad_request")), "{body}: {answer}");
        assert!(answer["detail"].as_str().unwrap().contains(field), "{body}: {answer}");
    }
    let response = world.send(&request("PATCH", "/api/executors/cat", OWNER_TOKEN, &json!({ "paused": true })));
    assert_eq!(response.status, 404);
    assert_eq!(world.db.dump(), before);
}
