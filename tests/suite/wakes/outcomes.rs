//! What became of a wake, and what happens then.

use std::collections::BTreeSet;

use serde_json::json;
use taskhub::domain::task::{State, WakeStatus};
use taskhub::hub::{Delivery, Order};

use super::{hook, only, wake_id};
use crate::support::{World, task_for, task_in};

fn rejected() -> Delivery {
    Delivery::rejected("answered 503")
}

/// A hub with one webhook executor and one task, whose wake is on its way.
fn woken(world: &World) -> (String, String, Order) {
    let key = world.webhook_executor("bot", &[], hook());
    let (id, effects) = world.submit_with_effects(&task_for("bot"));
    (key, id, only(effects))
}

#[test]
fn accepted_or_unknown_means_dispatched_and_quiet_for_a_while() {
    for (outcome, status) in [(Delivery::Accepted, WakeStatus::Accepted), (Delivery::Unknown, WakeStatus::Unknown)] {
        let world = World::new();
        let (key, id, order) = woken(&world);
        world.pass(200);
        world.record(&order, outcome);
        let life = world.life(&id);
        assert_eq!((life.state, life.last_wake_status), (State::Dispatched, Some(status)));
        assert_eq!(life.next_wake_at, Some(world.now() + 900_000));
        assert_eq!(world.kinds(&id), ["submitted", "wake"]);
        assert!(world.pass_and_sweep(899_999).outbox.is_empty());
        assert_eq!(world.claim(&key).id, id);
        assert!(world.pass_and_sweep(1).outbox.is_empty(), "nobody is woken for a task that is in work");
    }
}

#[test]
fn an_unclaimed_task_is_woken_anew_under_a_new_id() {
    let world = World::new();
    let (_, id, first) = woken(&world);
    world.record(&first, Delivery::Accepted);
    let second = only(world.pass_and_sweep(900_000));
    assert_ne!(wake_id(&second), wake_id(&first));
    assert_eq!(world.state(&id), State::Dispatched, "the first was accepted, whatever becomes of this one");
    world.record(&second, rejected());
    let life = world.life(&id);
    assert_eq!((life.state, life.next_wake_at), (State::Dispatched, Some(world.now() + 60_000)));
}

#[test]
fn a_refused_wake_is_tried_again_ever_more_rarely_until_the_hub_gives_up() {
    let world = World::new();
    let (key, id, first) = woken(&world);
    let mut order = first.clone();
    for wait in [60_000, 300_000, 900_000, 3_600_000] {
        world.record(&order, rejected());
        let life = world.life(&id);
        assert_eq!((life.state, life.last_wake_status), (State::Submitted, Some(WakeStatus::Rejected)));
        assert_eq!(life.next_wake_at, Some(world.now() + wait));
        assert!(world.pass_and_sweep(wait - 1).outbox.is_empty());
        order = only(world.pass_and_sweep(1));
        assert_eq!(wake_id(&order), wake_id(&first));
    }
    world.record(&order, rejected());
    let life = world.life(&id);
    assert_eq!((life.state, life.next_wake_at), (State::Submitted, None));
    assert_eq!((life.last_wake_status, life.wake_attempts), (Some(WakeStatus::GivenUp), 5));
    assert_eq!(world.hub().next_due(), Ok(None));
    let detail = world.detail(&id);
    let last = detail.events.last().unwrap();
    assert_eq!(
        (last.kind, &last.data["status"], &last.data["detail"]),
        ("wake", &json!("given_up"), &json!("answered 503"))
    );
    assert_eq!(world.claim(&key).id, id, "it still waits for a poll");
}

#[test]
fn a_receiver_that_asks_to_be_left_alone_is_within_an_hour() {
    for (asked_ms, wait) in [(600_000, 600_000), (1_000, 60_000), (86_400_000, 3_600_000)] {
        let world = World::new();
        let (_, id, order) = woken(&world);
        let why = "answered 429".to_owned();
        world.record(&order, Delivery::Rejected { why, retry_after_ms: Some(asked_ms) });
        assert_eq!(world.life(&id).next_wake_at, Some(world.now() + wait));
    }
}

#[test]
fn a_task_that_comes_back_is_woken_for_again() {
    let world = World::new();
    let (key, id, order) = woken(&world);
    world.record(&order, rejected());
    let held = world.claim(&key);
    let effects = world.pass_and_sweep(300_000);
    assert_ne!(wake_id(&only(effects)), wake_id(&order), "a lease that expired calls anew");
    assert_eq!(world.life(&id).wake_attempts, 1);
    world.is_refused("heartbeat", &held, json!({}), "lease_lost");
}

#[test]
fn the_end_of_a_wait_calls_for_a_wake() {
    let world = World::new();
    let (key, id, order) = woken(&world);
    world.record(&order, Delivery::Accepted);
    let held = world.claim(&key);
    world.does("defer", &held, json!({ "seconds": 600 }));
    assert!(world.pass_and_sweep(599_999).outbox.is_empty());
    let again = only(world.pass_and_sweep(1));
    assert_eq!((again.row.task_id.as_ref(), again.row.subject.as_str()), (Some(&id), "bot"));
    assert_ne!(wake_id(&again), wake_id(&order));
}

#[test]
fn a_released_task_lets_its_executor_shut_down_first() {
    let world = World::new();
    let (key, id, order) = woken(&world);
    world.record(&order, Delivery::Accepted);
    let held = world.claim(&key);
    world.does("release", &held, json!({}));
    assert_eq!(world.life(&id).next_wake_at, Some(world.now() + 60_000));
    assert!(world.pass_and_sweep(59_999).outbox.is_empty());
    only(world.pass_and_sweep(1));
}

/// Rule 5: the object may die between commit and send; the wake is durable.
#[test]
fn a_wake_that_nobody_recorded_goes_out_again_under_the_same_id() {
    let world = World::new();
    let (_, id, first) = woken(&world);
    assert_eq!(world.life(&id).last_wake_status, Some(WakeStatus::Sent));
    assert!(world.pass_and_sweep(14_999).outbox.is_empty(), "it may still be on its way");
    let second = only(world.pass_and_sweep(1));
    assert_eq!(wake_id(&second), wake_id(&first));
    world.record(&second, Delivery::Accepted);
    assert_eq!(world.state(&id), State::Dispatched);
}

#[test]
fn a_wake_on_which_the_hub_dies_every_time_is_given_up() {
    let world = World::new();
    let (_, id, _) = woken(&world);
    for _ in 0..4 {
        only(world.pass_and_sweep(15_000));
    }
    assert!(world.pass_and_sweep(15_000).outbox.is_empty());
    let life = world.life(&id);
    assert_eq!((life.last_wake_status, life.next_wake_at), (Some(WakeStatus::GivenUp), None));
}

#[test]
fn an_outcome_that_comes_too_late_changes_nothing() {
    let world = World::new();
    let (key, id, first) = woken(&world);
    let second = only(world.pass_and_sweep(15_000));
    world.record(&first, rejected());
    assert_eq!(world.life(&id).last_wake_status, Some(WakeStatus::Sent), "a later wake is on its way");
    let held = world.claim(&key);
    let before = world.life(&id);
    world.record(&second, Delivery::Accepted);
    assert_eq!(world.life(&id), before, "it has been claimed");
    world.does("result", &held, json!({ "status": "completed" }));
    world.record(&second, rejected());
    assert_eq!(world.state(&id), State::Completed);
}

#[test]
fn an_outcome_is_recorded_once() {
    let world = World::new();
    let (_, id, order) = woken(&world);
    world.record(&order, Delivery::Accepted);
    let before = world.db.dump();
    world.record(&order, Delivery::Accepted);
    world.record(&order, rejected());
    assert_eq!(world.db.dump(), before);
    assert_eq!(world.state(&id), State::Dispatched);
}

#[test]
fn every_consumer_of_a_queue_is_woken_and_one_that_accepts_will_do() {
    for (first, second, state) in [
        (Delivery::Accepted, rejected(), State::Dispatched),
        (rejected(), Delivery::Accepted, State::Dispatched),
        (rejected(), rejected(), State::Submitted),
    ] {
        let world = World::new();
        world.webhook_executor("ant", &["q"], hook());
        world.webhook_executor("bot", &["q"], hook());
        world.executor("cat", &["q"]);
        let (id, effects) = world.submit_with_effects(&task_in("q"));
        let names: Vec<&str> = effects.outbox.iter().map(|order| order.row.subject.as_str()).collect();
        assert_eq!(names, ["ant", "bot"]);
        assert_ne!(wake_id(&effects.outbox[0]), wake_id(&effects.outbox[1]));
        world.record(&effects.outbox[0], first);
        world.record(&effects.outbox[1], second);
        assert_eq!(world.state(&id), state);
        assert_eq!(world.life(&id).wake_attempts, u32::from(state == State::Submitted), "one round, one attempt");
    }
}

#[test]
fn where_one_round_cannot_wake_all_the_rest_follows_in_the_next() {
    let world = World::new();
    for index in 0..20 {
        world.webhook_executor(&format!("bot-{index:02}"), &["q"], hook());
    }
    let (_, effects) = world.submit_with_effects(&task_in("q"));
    assert_eq!(effects.outbox.len(), 16);
    let mut names: BTreeSet<String> = effects.outbox.iter().map(|order| order.row.subject.clone()).collect();
    for order in &effects.outbox {
        world.record(order, Delivery::Accepted);
    }
    names.extend(world.pass_and_sweep(900_000).outbox.into_iter().map(|order| order.row.subject));
    assert_eq!(names.len(), 20);
}

#[test]
fn where_nobody_is_left_to_wake_nothing_is_due() {
    let world = World::new();
    world.webhook_executor("ant", &["q"], hook());
    let key = world.executor("bot", &["q"]);
    let (id, effects) = world.submit_with_effects(&task_in("q"));
    only(effects);
    assert_eq!(world.owner("DELETE", "/api/executors/ant", json!(null)).0, 200);
    assert!(world.pass_and_sweep(15_000).outbox.is_empty());
    assert_eq!(world.life(&id).last_wake_status, Some(WakeStatus::Rejected), "it cannot be woken any more");
    assert!(world.pass_and_sweep(60_000).outbox.is_empty());
    assert_eq!((world.life(&id).next_wake_at, world.hub().next_due()), (None, Ok(None)));
    assert_eq!(world.claim(&key).id, id);
}

#[test]
fn the_owner_sees_what_became_of_the_last_wake() {
    let world = World::new();
    let (key, _, order) = woken(&world);
    let status = |world: &World| {
        let (_, list) = world.owner("GET", "/api/executors", json!(null));
        (list["executors"][0]["last_wake_at"].clone(), list["executors"][0]["last_wake_status"].clone())
    };
    let sent_at = json!(world.now());
    assert_eq!(status(&world), (sent_at.clone(), json!("sent")));
    world.pass(300);
    world.record(&order, Delivery::Accepted);
    assert_eq!(status(&world), (sent_at.clone(), json!("sent")), "nothing is wrong with it so far");
    world.claim(&key);
    assert_eq!(status(&world), (sent_at, json!("answered")));
}

#[test]
fn the_owner_sees_that_the_last_wake_was_refused() {
    let world = World::new();
    let (_, _, order) = woken(&world);
    world.record(&order, rejected());
    let (_, list) = world.owner("GET", "/api/executors", json!(null));
    assert_eq!(list["executors"][0]["last_wake_status"], "rejected");
}

#[test]
fn an_outcome_finds_its_executor_or_task_gone() {
    let world = World::new();
    let (_, id, order) = woken(&world);
    world.cancel(&id).unwrap();
    world.owner("DELETE", "/api/executors/bot", json!(null));
    world.record(&order, Delivery::Accepted);
    assert_eq!(world.state(&id), State::Canceled);
    world.record(&order, rejected());
}
