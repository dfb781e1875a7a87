//! `purge`: finished tasks leave after their retention.

use serde_json::json;
use taskhub::domain::limits::PURGE_BATCH_MAX;
use taskhub::hub::{self, Submit, When};
use taskhub::store::database::Value;

use crate::support::{World, task_for};

const DAY_MS: i64 = 86_400_000;

fn purge(world: &World, after: &str) -> Option<String> {
    world.run(|hub| hub::purge(hub, after)).0.unwrap()
}

fn is_there(world: &World, id: &str) -> bool {
    world.run(|hub| hub::get_task(hub, id)).0.unwrap().is_some()
}

fn finished(world: &World, key: &str) -> String {
    let held = world.working("bot", key);
    world.does("result", &held, json!({ "status": "completed" }));
    held.id
}

fn events(world: &World) -> usize {
    world.db.rows("SELECT seq FROM task_events").len()
}

#[test]
fn a_task_leaves_with_its_events_after_its_retention() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let old = finished(&world, &key);
    world.pass(20 * DAY_MS);
    let young = finished(&world, &key);
    assert_eq!(purge(&world, ""), None);
    assert!(is_there(&world, &old), "it is kept for thirty days");
    world.pass(10 * DAY_MS);
    purge(&world, "");
    assert!(is_there(&world, &old), "exactly thirty days");
    world.pass(1);
    purge(&world, "");
    assert!(!is_there(&world, &old) && is_there(&world, &young));
    assert_eq!(events(&world), 3, "those of the young one");
}

#[test]
fn what_counts_is_the_end_not_the_beginning() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let deferred = world.working("bot", &key);
    world.does("defer", &deferred, json!({ "seconds": 604_800 }));
    let later = world.submit(&Submit { not_before: Some(When::In(60 * 86_400)), ..task_for("bot") });
    world.pass(40 * DAY_MS);
    purge(&world, "");
    assert!(is_there(&world, &deferred.id) && is_there(&world, &later), "an open task is never purged");
    world.cancel(&later).unwrap();
    world.pass(30 * DAY_MS);
    purge(&world, "");
    assert!(is_there(&world, &later), "it ended exactly thirty days ago");
    world.pass(1);
    purge(&world, "");
    assert!(!is_there(&world, &later));
}

/// `seq` is the number by which clients tell which events they have.
#[test]
fn event_numbers_are_never_used_again() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    finished(&world, &key);
    let newest = |world: &World| match world.db.rows("SELECT max(seq) FROM task_events")[0][0] {
        Value::Integer(seq) => seq,
        ref other => panic!("{other:?}"),
    };
    let before = newest(&world);
    world.pass(31 * DAY_MS);
    purge(&world, "");
    assert_eq!(world.db.rows("SELECT id FROM tasks").len(), 0);
    let id = world.submit(&task_for("bot"));
    assert!(world.detail(&id).events[0].seq > before);
}

#[test]
fn batches_are_bounded_and_say_where_to_go_on() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let tasks = 2 * PURGE_BATCH_MAX + 1;
    for _ in 0..tasks {
        finished(&world, &key);
        world.pass(1);
    }
    let left = |world: &World| world.db.rows("SELECT id FROM tasks").len();
    world.pass(31 * DAY_MS);
    let after = purge(&world, "").expect("there is more");
    assert_eq!(left(&world), PURGE_BATCH_MAX + 1);
    let after = purge(&world, &after).expect("there is more");
    assert_eq!(left(&world), 1);
    assert_eq!(purge(&world, &after), None);
    assert_eq!(left(&world), 0);
}

#[test]
fn a_batch_of_tasks_that_stay_is_stepped_over() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    for _ in 0..PURGE_BATCH_MAX {
        world.submit(&task_for("bot"));
        world.pass(1);
    }
    let old = world.submit(&Submit { priority: Some(9), ..task_for("bot") });
    let held = world.claim(&key);
    assert_eq!(held.id, old);
    world.does("result", &held, json!({ "status": "completed" }));
    world.pass(31 * DAY_MS);
    let after = purge(&world, "").expect("there is more");
    assert!(is_there(&world, &old));
    assert_eq!(purge(&world, &after), None);
    assert!(!is_there(&world, &old));
}

#[test]
fn a_key_is_free_again_when_its_task_is_gone() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let keyed = Submit { idempotency_key: Some("k".to_owned()), ..task_for("bot") };
    let first = world.submit(&keyed);
    let held = world.claim(&key);
    world.does("result", &held, json!({ "status": "completed" }));
    world.pass(31 * DAY_MS);
    purge(&world, "");
    assert_ne!(world.submit(&keyed), first);
    let (status, _) = world.attempt("heartbeat", &held, json!({}));
    assert_eq!(status, 404);
}

#[test]
fn a_claim_of_a_purged_task_is_over() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    world.submit(&task_for("bot"));
    let (_, claim) = world.call("POST", "/executor/claim", &key, json!({ "request_id": "r" }));
    let held = crate::support::held(&key, &claim);
    world.does("result", &held, json!({ "status": "completed" }));
    world.pass(31 * DAY_MS);
    purge(&world, "");
    let (status, _) = world.call("POST", "/executor/claim", &key, json!({ "request_id": "r" }));
    assert_eq!(status, 204, "the id is unknown again, and there is nothing to do");
}
