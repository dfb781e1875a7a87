//! `defer` and `release`: the task goes back, free of charge.

use serde_json::json;
use taskhub::domain::task::{State, WaitingOn};

use crate::support::{Held, World, task_in};

fn working(world: &World) -> Held {
    let key = world.executor("bot", &[]);
    world.working("bot", &key)
}

/// celery/celery#5935: a task that waits holds no lease, and no failure is counted.
#[test]
fn a_deferred_task_holds_nothing_and_costs_nothing() {
    let world = World::new();
    let held = working(&world);
    let more = json!({ "seconds": 3_600, "note": "the DNS is not there yet", "checkpoint": { "page": 2 } });
    let answer = world.does("defer", &held, more);
    let visible_at = world.now() + 3_600_000;
    assert_eq!(answer, json!({ "task_id": held.id, "state": "waiting", "visible_at": visible_at }));
    let life = world.life(&held.id);
    assert_eq!((life.waiting_on, life.visible_at), (Some(WaitingOn::External), Some(visible_at)));
    assert_eq!((life.lease_expires_at, life.attempt, life.failures), (None, 1, 0));
    let full = world.detail(&held.id).full;
    assert_eq!(
        (full.head.note.as_deref(), full.checkpoint),
        (Some("the DNS is not there yet"), Some(json!({ "page": 2 })))
    );
    for attempt in 2..=20 {
        world.pass_and_sweep(3_600_000);
        let next = world.claim(&held.key);
        assert_eq!(next.attempt, attempt);
        world.does("defer", &next, json!({ "seconds": 3_600 }));
    }
    assert_eq!(world.life(&held.id).failures, 0, "however often");
}

#[test]
fn the_limits_of_a_deferral() {
    let world = World::new();
    let held = working(&world);
    for seconds in [0, 604_801] {
        let (status, answer) = world.attempt("defer", &held, json!({ "seconds": seconds }));
        assert_eq!(status, 400, "{answer}");
        assert!(answer["detail"].as_str().unwrap().starts_with("seconds: "), "{answer}");
    }
    let (status, answer) = world.attempt("defer", &held, json!({}));
    assert_eq!(status, 400, "{answer}");
    world.does("defer", &held, json!({ "seconds": 604_800 }));
}

#[test]
fn the_same_deferral_again_is_the_same_answer() {
    let world = World::new();
    let held = working(&world);
    let first = world.does("defer", &held, json!({ "seconds": 60 }));
    world.pass(30_000);
    let before = world.db.dump();
    assert_eq!(world.does("defer", &held, json!({ "seconds": 60 })), first, "the time of the first stands");
    assert_eq!(world.db.dump(), before);
    world.is_refused("defer", &held, json!({ "seconds": 61 }), "lease_lost");
}

/// saltbo/agent-kanban#229: SIGTERM must not leave a task in work for ever.
#[test]
fn a_released_task_is_claimable_at_once() {
    let world = World::new();
    let bot = world.executor("bot", &["q"]);
    let ant = world.executor("ant", &["q"]);
    world.submit(&task_in("q"));
    let held = world.claim(&bot);
    let answer = world.does("release", &held, json!({ "note": "shutting down", "checkpoint": { "page": 2 } }));
    assert_eq!(answer, json!({ "task_id": held.id, "state": "submitted" }));
    assert_eq!(world.detail(&held.id).full.head.note.as_deref(), Some("shutting down"));
    assert_eq!((world.life(&held.id).next_wake_at, world.hub().next_due()), (None, Ok(None)), "both poll");
    let (_, claim) = world.call("POST", "/executor/claim", &ant, json!({}));
    assert_eq!((&claim["task"]["id"], &claim["attempt"]), (&json!(held.id), &json!(2)));
    assert_eq!(claim["task"]["failures"], json!(0));
    assert_eq!(claim["context"]["checkpoint"], json!({ "page": 2 }));
    assert_eq!(claim["context"]["notes"][0]["note"], "shutting down");
}

#[test]
fn the_same_release_again_is_the_same_answer() {
    let world = World::new();
    let held = working(&world);
    let first = world.does("release", &held, json!({}));
    let before = world.db.dump();
    assert_eq!(world.does("release", &held, json!({})), first);
    assert_eq!(world.db.dump(), before);
    assert_eq!(world.state(&held.id), State::Submitted);
}

#[test]
fn notes_and_checkpoints_have_limits() {
    let world = World::new();
    let held = working(&world);
    for (verb, base) in [("defer", json!({ "seconds": 60 })), ("release", json!({}))] {
        for (field, value) in [("note", json!("é".repeat(2_001))), ("checkpoint", json!("x".repeat(65_535)))] {
            let mut more = base.clone();
            more[field] = value;
            let (status, answer) = world.attempt(verb, &held, more);
            assert_eq!(status, 400, "{verb}: {answer}");
            assert!(answer["detail"].as_str().unwrap().starts_with(field), "{verb}: {answer}");
        }
    }
    assert_eq!(world.state(&held.id), State::Working);
}
