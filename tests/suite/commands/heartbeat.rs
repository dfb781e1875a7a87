//! `heartbeat`: the lease, what it brings, and what it gets to know.

use serde_json::json;
use taskhub::domain::task::{State, WaitingOn};
use taskhub::hub::{self, AttemptCall, Heartbeat};
use taskhub::store::database::Value;

use crate::support::{Held, World};

fn working(world: &World) -> Held {
    let key = world.executor("bot", &[]);
    world.working("bot", &key)
}

#[test]
fn it_renews_the_lease_from_now() {
    let world = World::new();
    let held = working(&world);
    for _ in 0..10 {
        world.pass(299_999);
        let beat = world.does("heartbeat", &held, json!({}));
        assert_eq!(beat["lease_expires_at"], json!(world.now() + 300_000));
        assert_eq!((&beat["state"], &beat["cancel_requested"]), (&json!("working"), &json!(false)));
        assert_eq!((&beat["heartbeat_every_seconds"], &beat["messages"]), (&json!(100), &json!([])));
    }
    let life = world.life(&held.id);
    assert_eq!((life.state, life.attempt, life.failures), (State::Working, 1, 0), "however long it takes");
}

/// Rows are the currency. The timer is an index of its own, and stays where it is unless it would be too late.
#[test]
fn it_writes_one_row() {
    let world = World::new();
    let held = working(&world);
    let written = |world: &World| match world.db.rows("SELECT total_changes()")[0][0] {
        Value::Integer(rows) => rows,
        ref other => panic!("{other:?}"),
    };
    for ms in [0, 1, 299_999] {
        world.pass(ms);
        let before = written(&world);
        world.does("heartbeat", &held, json!({ "note": "at it", "progress": 0.5, "checkpoint": { "page": 2 } }));
        assert_eq!(written(&world) - before, 1, "{ms} ms later");
    }
}

#[test]
fn it_keeps_what_it_brings_and_leaves_the_rest() {
    let world = World::new();
    let held = working(&world);
    world.does("heartbeat", &held, json!({ "note": "reading", "progress": 0.25, "checkpoint": { "page": 3 } }));
    world.does("heartbeat", &held, json!({ "progress": 1 }));
    world.does("heartbeat", &held, json!({}));
    let full = world.detail(&held.id).full;
    assert_eq!((full.head.note.as_deref(), full.head.progress), (Some("reading"), Some(1.0)));
    assert_eq!(full.checkpoint, Some(json!({ "page": 3 })));
    assert_eq!(world.kinds(&held.id), ["submitted", "claimed"], "an ordinary heartbeat leaves no event");
}

#[test]
fn only_news_is_told_to_those_who_wait() {
    let world = World::new();
    let held = working(&world);
    let beat = |input: Heartbeat| {
        let call = AttemptCall {
            executor: "bot",
            task_id: &held.id,
            claim_token: &held.token,
            verb: "heartbeat",
            brought: &json!({}),
        };
        let (beat, effects) = world.run(|hub| hub::heartbeat(hub, &call, &input));
        beat.unwrap();
        effects.changed.len()
    };
    let revision = |world: &World| world.detail(&held.id).full.head.revision;
    let first = revision(&world);
    assert_eq!(beat(Heartbeat::default()), 0);
    assert_eq!(beat(Heartbeat { checkpoint: Some(json!(1)), ..Heartbeat::default() }), 0);
    assert_eq!(revision(&world), first);
    assert_eq!(beat(Heartbeat { note: Some("news".to_owned()), ..Heartbeat::default() }), 1);
    assert_eq!(beat(Heartbeat { progress: Some(0.5), ..Heartbeat::default() }), 1);
    assert_eq!(revision(&world), first + 2);
}

#[test]
fn the_limits_of_what_it_brings() {
    let world = World::new();
    let held = working(&world);
    for (more, field) in [
        (json!({ "note": "é".repeat(2_001) }), "note"),
        (json!({ "progress": 1.001 }), "progress"),
        (json!({ "progress": -0.001 }), "progress"),
        (json!({ "checkpoint": "x".repeat(65_535) }), "checkpoint"),
        (json!({ "question": "é".repeat(8_001) }), "question"),
    ] {
        let (status, answer) = world.attempt("heartbeat", &held, more);
        assert_eq!((status, &answer["code"]), (400, &json!("bad_request")), "{field}: {answer}");
        assert!(answer["detail"].as_str().unwrap().starts_with(field), "{answer}");
    }
    world.does("heartbeat", &held, json!({ "note": "é".repeat(2_000), "checkpoint": "x".repeat(65_534) }));
    world.does("heartbeat", &held, json!({ "question": "é".repeat(8_000) }));
}

#[test]
fn a_question_stops_the_lease_and_starts_the_limit() {
    let world = World::with(&[("INPUT_TIMEOUT_SECONDS", "600")]);
    let held = working(&world);
    let more = json!({ "question": "Which?", "note": "stuck", "progress": 0.5, "checkpoint": { "page": 2 } });
    let beat = world.does("heartbeat", &held, more);
    assert_eq!((&beat["state"], &beat["lease_expires_at"]), (&json!("input-required"), &json!(null)));
    let full = world.detail(&held.id).full;
    assert_eq!((full.head.note.as_deref(), full.head.progress), (Some("stuck"), Some(0.5)));
    assert_eq!(full.checkpoint, Some(json!({ "page": 2 })));
    let life = world.life(&held.id);
    assert_eq!(life.waiting_on, Some(WaitingOn::Submitter));
    assert_eq!((life.lease_expires_at, life.input_expires_at), (None, Some(world.now() + 600_000)));
    world.pass_and_sweep(599_999);
    assert_eq!(world.state(&held.id), State::InputRequired, "no lease runs out meanwhile");
}

#[test]
fn the_attempt_may_go_on_without_an_answer() {
    let world = World::new();
    let held = working(&world);
    world.does("heartbeat", &held, json!({ "question": "Which?" }));
    world.pass(3_600_000);
    let beat = world.does("heartbeat", &held, json!({ "note": "found it" }));
    assert_eq!((&beat["state"], &beat["lease_expires_at"]), (&json!("working"), &json!(world.now() + 300_000)));
    assert_eq!(world.kinds(&held.id), ["submitted", "claimed", "question", "resumed"]);
    assert_eq!(world.detail(&held.id).full.head.note.as_deref(), Some("found it"));
}

#[test]
fn a_question_belongs_to_an_attempt_that_waits() {
    let world = World::new();
    let held = working(&world);
    let (status, answer) = world.attempt("heartbeat", &held, json!({ "state": "working", "question": "Which?" }));
    assert_eq!(status, 400, "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("input-required"));
}

#[test]
fn messages_are_those_of_the_present_attempt() {
    let world = World::new();
    let held = working(&world);
    world.does("heartbeat", &held, json!({ "question": "Which?" }));
    world.answer(&held.id, "This one.").unwrap();
    assert_eq!(world.does("heartbeat", &held, json!({}))["messages"].as_array().unwrap().len(), 1);
    assert_eq!(
        world.does("heartbeat", &held, json!({}))["messages"].as_array().unwrap().len(),
        1,
        "they stay, by their seq"
    );
    world.does("release", &held, json!({}));
    let next = world.claim(&held.key);
    assert_eq!(world.does("heartbeat", &next, json!({}))["messages"], json!([]), "the claim handed over the earlier");
}

#[test]
fn a_task_that_waits_can_be_neither_deferred_nor_released() {
    let world = World::new();
    let held = working(&world);
    world.does("heartbeat", &held, json!({ "question": "Which?" }));
    let before = world.db.dump();
    world.is_refused("defer", &held, json!({ "seconds": 60 }), "not_working");
    world.is_refused("release", &held, json!({}), "not_working");
    assert_eq!(world.db.dump(), before, "and it is no evidence of anything");
}
