//! `wake_executor`: the owner or a model wants an executor awake now.

use serde_json::json;
use taskhub::domain::task::{State, WakeStatus};
use taskhub::hub::{self, Delivery, Effects, Submit, WakeRejected, When, Woken};

use super::{hook, only, wake_id};
use crate::support::{World, task_for, task_in};

fn wake(world: &World, name: &str, task: Option<&str>) -> (Result<Woken, WakeRejected>, Effects) {
    world.run(|hub| hub::wake_executor(hub, name, task))
}

#[test]
fn a_wake_goes_out_whatever_was_sent_before() {
    let world = World::new();
    world.webhook_executor("bot", &[], hook());
    let first = only(world.submit_with_effects(&task_for("bot")).1);
    world.record(&first, Delivery::Accepted);
    let (woken, effects) = wake(&world, "bot", None);
    assert_eq!(woken, Ok(Woken { sent: true, task_id: None }));
    assert_ne!(wake_id(&only(effects)), wake_id(&first), "a new call for attention");
}

#[test]
fn it_is_a_new_wake_also_while_another_is_refused_or_on_its_way() {
    for outcome in [None, Some(Delivery::rejected("answered 500"))] {
        let world = World::new();
        world.webhook_executor("bot", &[], hook());
        let (id, effects) = world.submit_with_effects(&task_for("bot"));
        let first = only(effects);
        if let Some(outcome) = outcome {
            world.record(&first, outcome);
        }
        world.pass(1);
        let second = only(wake(&world, "bot", None).1);
        assert_ne!(wake_id(&second), wake_id(&first));
        assert_eq!(world.life(&id).wake_attempts, 1, "the count begins again");
    }
}

#[test]
fn an_executor_with_nothing_to_do_can_be_woken() {
    let world = World::new();
    world.webhook_executor("bot", &[], hook());
    let (woken, effects) = wake(&world, "bot", None);
    assert!(woken.unwrap().sent);
    let order = only(effects);
    assert_eq!(order.row.task_id, None);
    world.record(&order, Delivery::Accepted);
}

#[test]
fn an_executor_that_polls_is_not_sent_anything() {
    let world = World::new();
    world.executor("bot", &[]);
    world.submit(&task_for("bot"));
    let before = world.db.dump();
    let (woken, effects) = wake(&world, "bot", None);
    assert_eq!((woken, effects.outbox.len()), (Ok(Woken { sent: false, task_id: None }), 0));
    assert_eq!(world.db.dump(), before);
}

#[test]
fn a_hub_that_had_given_up_tries_again() {
    let world = World::with(&[("WAKE_MAX_ATTEMPTS", "1")]);
    world.webhook_executor("bot", &[], hook());
    let (id, effects) = world.submit_with_effects(&task_for("bot"));
    world.record(&only(effects), Delivery::rejected("answered 500"));
    assert_eq!(world.life(&id).last_wake_status, Some(WakeStatus::GivenUp));
    let order = only(wake(&world, "bot", None).1);
    world.record(&order, Delivery::Accepted);
    assert_eq!(world.state(&id), State::Dispatched);
}

#[test]
fn a_task_that_waits_for_time_is_made_claimable() {
    let world = World::new();
    let key = world.webhook_executor("bot", &[], hook());
    let id = world.submit(&Submit { not_before: Some(When::In(3_600)), ..task_for("bot") });
    let (woken, effects) = wake(&world, "bot", Some(&id));
    assert_eq!(woken, Ok(Woken { sent: true, task_id: Some(id.clone()) }));
    assert_eq!(effects.ready, ["@bot"]);
    only(effects);
    assert_eq!(world.claim(&key).id, id);
}

#[test]
fn a_deferred_task_is_made_claimable() {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    let id = world.submit(&task_in("q"));
    let held = world.claim(&key);
    world.does("defer", &held, json!({ "seconds": 3_600 }));
    assert_eq!(wake(&world, "bot", Some(&id)).0, Ok(Woken { sent: false, task_id: Some(id.clone()) }));
    assert_eq!(world.state(&id), State::Submitted);
    let notes: Vec<_> = world.detail(&id).notes.into_iter().map(|note| note.ended).collect();
    assert_eq!(notes, ["deferred"]);
}

/// The wake is for the executor; a task that is not its first must not be forgotten because of that.
#[test]
fn a_task_that_is_not_the_first_keeps_a_wake_of_its_own() {
    let world = World::new();
    world.webhook_executor("bot", &[], hook());
    world.submit(&Submit { priority: Some(9), ..task_for("bot") });
    let id = world.submit(&Submit { not_before: Some(When::In(3_600)), ..task_for("bot") });
    let (_, effects) = wake(&world, "bot", Some(&id));
    let order = only(effects);
    world.record(&order, Delivery::Accepted);
    assert!(world.pass_and_sweep(0).outbox.is_empty(), "the wake just sent covers it");
    let life = world.life(&id);
    assert_eq!(life.last_wake_status, Some(WakeStatus::Coalesced));
    assert_eq!(life.next_wake_at, Some(order.claimed_at + 900_000));
}

#[test]
fn what_cannot_be_woken_is_said() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    world.executor("ant", &[]);
    let names = vec!["ant".to_owned(), "bot".to_owned()];
    assert_eq!(wake(&world, "cat", None).0, Err(WakeRejected::ExecutorNotFound { executors: names }));
    assert_eq!(wake(&world, "bot", Some("nonsense")).0, Err(WakeRejected::TaskNotFound));
    let id = world.submit(&task_for("bot"));
    assert_eq!(wake(&world, "ant", Some(&id)).0, Err(WakeRejected::TaskElsewhere));
    assert!(wake(&world, "bot", Some(&id)).0.is_ok(), "a task that is ready is as it should be");
    world.claim(&key);
    let rejected = WakeRejected::TaskNotWaiting { state: State::Working };
    assert_eq!(wake(&world, "bot", Some(&id)).0, Err(rejected));
}
