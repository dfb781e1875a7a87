//! `cancel` and `retry`.

use serde_json::json;
use taskhub::domain::task::State;
use taskhub::hub::{self, CancelRejected, Canceled, RetryRejected, Submit, Submitted, When};

use crate::support::{World, task_for};

fn retry(world: &World, submitter: &str, id: &str) -> Result<Submitted, RetryRejected> {
    world.run(|hub| hub::retry_task(hub, submitter, id)).0
}

#[test]
fn a_task_is_canceled_wherever_it_stands() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let working = world.working("bot", &key);
    let asking = world.working("bot", &key);
    world.does("heartbeat", &asking, json!({ "question": "Which?" }));
    let waiting = world.submit(&Submit { not_before: Some(When::In(60)), ..task_for("bot") });
    let ready = world.submit(&task_for("bot"));
    for (id, held) in [(&working.id, true), (&asking.id, true), (&waiting, false), (&ready, false)] {
        let was_held_by = held.then(|| "bot".to_owned());
        assert_eq!(world.cancel(id), Ok(Canceled { id: id.clone(), already: false, was_held_by }));
        assert_eq!(world.state(id), State::Canceled);
        assert_eq!(world.life(id).completed_at, Some(world.now()));
    }
    assert_eq!(world.hub().next_due(), Ok(None));
    assert_eq!(world.call("POST", "/executor/claim", &key, json!({})).0, 204);
}

/// hatchet-dev/hatchet#1147: the executor learns of it with its next call.
#[test]
fn an_attempt_learns_of_it_with_its_next_call() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    world.cancel(&held.id).unwrap();
    world.is_refused("heartbeat", &held, json!({}), "canceled");
}

#[test]
fn twice_is_the_same_as_once() {
    let world = World::new();
    world.executor("bot", &[]);
    let id = world.submit(&task_for("bot"));
    world.cancel(&id).unwrap();
    let before = world.db.dump();
    assert_eq!(world.cancel(&id), Ok(Canceled { id: id.clone(), already: true, was_held_by: None }));
    assert_eq!(world.db.dump(), before);
}

#[test]
fn what_is_over_is_not_canceled() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    world.does("result", &held, json!({ "status": "completed" }));
    assert_eq!(world.cancel(&held.id), Err(CancelRejected::AlreadyFinished { state: State::Completed }));
    assert_eq!(world.cancel("nonsense"), Err(CancelRejected::TaskNotFound));
    assert_eq!(world.cancel("t_000000000_0000000000000000"), Err(CancelRejected::TaskNotFound));
}

#[test]
fn a_reason_is_kept() {
    let world = World::new();
    world.executor("bot", &[]);
    let id = world.submit(&task_for("bot"));
    world.run(|hub| hub::cancel(hub, "client", &id, Some("changed my mind"))).0.unwrap();
    let detail = world.detail(&id);
    assert_eq!(detail.full.error.as_deref(), Some("changed my mind"));
    let event = detail.events.last().unwrap();
    assert_eq!((event.kind, event.actor.as_str()), ("canceled", "submitter:client"));
    assert_eq!(event.data["reason"], "changed my mind");
}

#[test]
fn a_reason_has_a_limit() {
    let world = World::new();
    world.executor("bot", &[]);
    let id = world.submit(&task_for("bot"));
    world.run(|hub| hub::cancel(hub, "owner", &id, Some(&"é".repeat(5_000)))).0.unwrap();
    assert_eq!(world.detail(&id).full.error, Some("é".repeat(2_000)));
}

/// Rule 3: retry makes a new task.
#[test]
fn a_retry_is_a_new_task_with_the_old_ones_work() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let input = Submit {
        context: Some(json!({ "people": 2 })),
        priority: Some(8),
        max_attempts: Some(2),
        deadline: Some(When::In(3_600)),
        ..task_for("bot")
    };
    world.submit(&input);
    let held = world.claim(&key);
    world.does("heartbeat", &held, json!({ "checkpoint": { "page": 9 } }));
    world.does("result", &held, json!({ "status": "failed", "error": "no" }));
    world.pass(1_000);
    let new = retry(&world, "owner", &held.id).unwrap();
    assert!(!new.existed && new.id != held.id);
    let (old, full) = (world.detail(&held.id).full, world.detail(&new.id).full);
    assert_eq!(full.head.retry_of.as_deref(), Some(held.id.as_str()));
    assert_eq!(
        (&full.head.title, &full.instructions, &full.context),
        (&old.head.title, &old.instructions, &old.context)
    );
    assert_eq!((full.head.priority, full.head.life.max_attempts), (8, 2));
    assert_eq!(full.checkpoint, Some(json!({ "page": 9 })), "what was reached is not lost");
    assert_eq!((full.head.life.attempt, full.head.life.failures), (0, 0));
    assert_eq!(full.head.life.deadline_at, None, "the old deadline may be past");
    assert_eq!((full.error, old.head.life.state), (None, State::Failed));
    let (_, claim) = world.call("POST", "/executor/claim", &key, json!({}));
    assert_eq!(claim["context"]["checkpoint"], json!({ "page": 9 }));
    assert_eq!(claim["task"]["retry_of"], json!(held.id));
}

#[test]
fn retried_twice_is_one_task_and_a_retry_can_be_retried() {
    let world = World::new();
    world.executor("bot", &[]);
    let id = world.submit(&task_for("bot"));
    world.cancel(&id).unwrap();
    let first = retry(&world, "owner", &id).unwrap();
    let before = world.db.dump();
    let again = retry(&world, "owner", &id).unwrap();
    assert_eq!((again.id.as_str(), again.existed), (first.id.as_str(), true));
    assert_eq!(world.db.dump(), before);
    world.cancel(&first.id).unwrap();
    let third = retry(&world, "owner", &first.id).unwrap();
    assert_ne!(third.id, first.id);
    let other = retry(&world, "client", &id).unwrap();
    assert_eq!((other.id, other.existed), (first.id, true), "whoever asks");
}

#[test]
fn what_is_open_or_unknown_is_not_retried() {
    let world = World::new();
    world.executor("bot", &[]);
    let id = world.submit(&task_for("bot"));
    assert_eq!(retry(&world, "owner", &id), Err(RetryRejected::NotFinished { state: State::Submitted }));
    assert_eq!(retry(&world, "owner", "nonsense"), Err(RetryRejected::TaskNotFound));
}

#[test]
fn a_retry_for_an_executor_that_is_gone_names_those_there_are() {
    let world = World::new();
    world.executor("bot", &[]);
    let id = world.submit(&task_for("bot"));
    world.cancel(&id).unwrap();
    world.owner("DELETE", "/api/executors/bot", json!(null));
    assert!(matches!(retry(&world, "owner", &id), Err(RetryRejected::Submit(hub::SubmitRejected::NoConsumer { .. }))));
}
