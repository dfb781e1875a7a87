//! Wakes that are spared because another covers them.

use taskhub::domain::task::{State, WakeStatus};
use taskhub::hub::{self, Delivery};

use super::{hook, only, wake_id};
use crate::support::{World, task_for, task_in};

const COALESCE_MS: i64 = 120_000;

#[test]
fn a_fresh_wake_covers_the_tasks_that_follow_it() {
    let world = World::new();
    world.webhook_executor("bot", &[], hook());
    let order = only(world.submit_with_effects(&task_for("bot")).1);
    let sent_at = world.now();
    world.record(&order, Delivery::Accepted);
    world.pass(COALESCE_MS - 1);
    let (id, effects) = world.submit_with_effects(&task_for("bot"));
    assert!(effects.outbox.is_empty());
    let life = world.life(&id);
    assert_eq!((life.last_wake_status, life.last_wake_at), (Some(WakeStatus::Coalesced), Some(sent_at)));
    assert_eq!(life.next_wake_at, Some(sent_at + 900_000), "if nobody comes, it is woken for like the other");
    world.pass(1);
    assert_eq!(world.submit_with_effects(&task_for("bot")).1.outbox.len(), 1, "at its very end it covers no more");
}

/// Otherwise nobody would be woken until the clock has caught up.
#[test]
fn a_wake_of_the_future_covers_nothing() {
    let world = World::new();
    world.webhook_executor("bot", &[], hook());
    let order = only(world.submit_with_effects(&task_for("bot")).1);
    world.record(&order, Delivery::Accepted);
    world.pass(-86_400_000);
    assert_eq!(world.submit_with_effects(&task_for("bot")).1.outbox.len(), 1);
    assert_eq!(world.submit_with_effects(&task_for("bot")).1.outbox.len(), 0, "that one covers as ever");
}

#[test]
fn a_wake_on_its_way_covers_too() {
    let world = World::new();
    world.webhook_executor("bot", &[], hook());
    only(world.submit_with_effects(&task_for("bot")).1);
    assert!(world.submit_with_effects(&task_for("bot")).1.outbox.is_empty());
}

#[test]
fn a_claim_since_the_wake_uses_it_up() {
    let world = World::new();
    let key = world.webhook_executor("bot", &[], hook());
    let order = only(world.submit_with_effects(&task_for("bot")).1);
    world.record(&order, Delivery::Accepted);
    world.pass(1_000);
    world.claim(&key);
    assert_eq!(world.submit_with_effects(&task_for("bot")).1.outbox.len(), 1);
}

#[test]
fn a_claim_in_the_millisecond_of_the_wake_uses_it_up() {
    let world = World::new();
    let key = world.webhook_executor("bot", &[], hook());
    only(world.submit_with_effects(&task_for("bot")).1);
    world.claim(&key);
    assert_eq!(world.submit_with_effects(&task_for("bot")).1.outbox.len(), 1, "one wake too many is harmless");
}

#[test]
fn a_wake_that_was_used_up_needs_no_other_claim_noted() {
    let world = World::new();
    let key = world.webhook_executor("bot", &[], hook());
    let claimed_at = |world: &World| {
        world.claim(&key);
        world.owner("GET", "/api/executors", serde_json::Value::Null).1["executors"][0]["last_claim_at"].clone()
    };
    only(world.submit_with_effects(&task_for("bot")).1);
    world.submit(&task_for("bot"));
    let woken_at = world.now();
    assert_eq!(claimed_at(&world), woken_at);
    world.pass(1_000);
    assert_eq!(claimed_at(&world), woken_at, "the wake and the claim are of the same millisecond");
}

#[test]
fn a_claim_before_the_wake_does_not_use_it_up() {
    let world = World::new();
    let key = world.webhook_executor("bot", &[], hook());
    only(world.submit_with_effects(&task_for("bot")).1);
    world.claim(&key);
    world.pass(COALESCE_MS);
    only(world.submit_with_effects(&task_for("bot")).1);
    assert!(world.submit_with_effects(&task_for("bot")).1.outbox.is_empty());
}

/// The time of a claim is written at most once a minute, but always when a wake waits for it.
#[test]
fn a_claim_that_answers_a_wake_is_always_noted() {
    let world = World::new();
    let key = world.webhook_executor("bot", &[], hook());
    only(world.submit_with_effects(&task_for("bot")).1);
    for _ in 0..3 {
        world.pass(1_000);
        world.claim(&key);
        world.pass(1_000);
        assert_eq!(world.submit_with_effects(&task_for("bot")).1.outbox.len(), 1);
    }
}

#[test]
fn a_refused_wake_covers_nothing() {
    let world = World::new();
    world.webhook_executor("bot", &[], hook());
    let order = only(world.submit_with_effects(&task_for("bot")).1);
    world.record(&order, Delivery::rejected("answered 500"));
    world.pass(1_000);
    assert_eq!(world.submit_with_effects(&task_for("bot")).1.outbox.len(), 1);
}

#[test]
fn a_wake_whose_outcome_is_unknown_covers() {
    let world = World::new();
    world.webhook_executor("bot", &[], hook());
    let order = only(world.submit_with_effects(&task_for("bot")).1);
    world.record(&order, Delivery::Unknown);
    world.pass(11_000);
    assert!(world.submit_with_effects(&task_for("bot")).1.outbox.is_empty());
}

#[test]
fn the_end_of_an_earlier_wake_says_nothing_of_a_later_one() {
    let world = World::new();
    let key = world.webhook_executor("bot", &[], hook());
    let first = only(world.submit_with_effects(&task_for("bot")).1);
    world.pass(1_000);
    world.claim(&key);
    world.pass(1);
    let second = only(world.submit_with_effects(&task_for("bot")).1);
    world.record(&second, Delivery::Accepted);
    world.record(&first, Delivery::rejected("answered 500"));
    assert!(world.submit_with_effects(&task_for("bot")).1.outbox.is_empty(), "the second still covers");
}

#[test]
fn only_the_consumers_that_nothing_covers_are_woken() {
    let world = World::new();
    world.webhook_executor("ant", &["q"], hook());
    world.webhook_executor("bot", &["q"], hook());
    only(world.submit_with_effects(&task_for("ant")).1);
    world.pass(1_000);
    let order = only(world.submit_with_effects(&task_in("q")).1);
    assert_eq!(order.row.subject, "bot");
}

#[test]
fn tasks_that_were_woken_for_together_are_woken_for_again_together() {
    let world = World::new();
    world.webhook_executor("bot", &[], hook());
    let order = only(world.submit_with_effects(&task_for("bot")).1);
    world.record(&order, Delivery::Accepted);
    for _ in 0..5 {
        world.pass(1_000);
        world.submit(&task_for("bot"));
    }
    let again = only(world.pass_and_sweep(900_000));
    assert_ne!(wake_id(&again), wake_id(&order));
}

/// What a task was woken with before does not cover it again, however short the owner's times are.
#[test]
fn a_short_rewake_is_not_swallowed_by_a_long_cover() {
    let world = World::with(&[("REWAKE_AFTER_SECONDS", "5"), ("WAKE_COALESCE_SECONDS", "120")]);
    world.webhook_executor("bot", &[], hook());
    let order = only(world.submit_with_effects(&task_for("bot")).1);
    world.record(&order, Delivery::Accepted);
    let again = only(world.pass_and_sweep(5_000));
    assert_ne!(wake_id(&again), wake_id(&order));
    world.record(&again, Delivery::Accepted);
    assert!(world.pass_and_sweep(4_999).outbox.is_empty());
    only(world.pass_and_sweep(1));
}

#[test]
fn a_covered_task_is_never_due_again_at_once() {
    let world = World::with(&[("REWAKE_AFTER_SECONDS", "1"), ("WAKE_COALESCE_SECONDS", "120")]);
    world.webhook_executor("bot", &[], hook());
    for _ in 0..3 {
        world.submit(&task_for("bot"));
        world.pass(300);
    }
    let mut sweeps = 0;
    let end = world.now() + 60_000;
    while let Some(due) = world.hub().next_due().unwrap().filter(|due| *due < end) {
        world.pass((due - world.now()).max(0));
        for order in world.pass_and_sweep(0).outbox {
            world.record(&order, Delivery::Accepted);
        }
        sweeps += 1;
        assert!(sweeps < 400, "three tasks, one rewake a second each: no more");
    }
}

#[test]
fn no_cover_at_all_if_the_owner_wants_none() {
    let world = World::with(&[("WAKE_COALESCE_SECONDS", "0")]);
    world.webhook_executor("bot", &[], hook());
    for _ in 0..3 {
        assert_eq!(world.submit_with_effects(&task_for("bot")).1.outbox.len(), 1);
    }
}

/// What listens has been told by its socket, before any webhook could be.
#[test]
fn an_executor_that_listens_gets_no_webhook_unless_no_claim_follows() {
    let world = World::new();
    let key = world.webhook_executor("bot", &[], hook());
    world.presence.set_listening("bot", true);
    let (id, effects) = world.submit_with_effects(&task_for("bot"));
    assert!(effects.outbox.is_empty());
    assert_eq!(effects.ready, ["@bot"], "its socket is told");
    assert_eq!((world.state(&id), world.life(&id).last_wake_status), (State::Dispatched, Some(WakeStatus::Accepted)));
    assert!(world.pass_and_sweep(899_999).outbox.is_empty());
    only(world.pass_and_sweep(1));
    assert_eq!(world.claim(&key).id, id);
    world.presence.set_listening("bot", false);
    only(world.submit_with_effects(&task_for("bot")).1);
}

#[test]
fn of_the_executors_of_a_queue_those_that_do_not_listen_get_the_webhook() {
    let world = World::new();
    for name in ["ant", "bot"] {
        world.webhook_executor(name, &["q"], hook());
    }
    world.presence.set_listening("ant", true);
    let order = only(world.submit_with_effects(&task_in("q")).1);
    assert_eq!(order.row.subject, "bot");
}

#[test]
fn whom_the_owner_wakes_is_told_by_its_socket_as_well() {
    let world = World::new();
    world.executor("bot", &[]);
    let wake = || world.run(|hub| hub::wake_executor(hub, "bot", None));
    assert!(!wake().0.unwrap().sent, "it only polls");
    world.presence.set_listening("bot", true);
    let (woken, effects) = wake();
    assert_eq!((woken.unwrap().sent, effects.ready), (true, vec!["@bot".to_owned()]));
}
