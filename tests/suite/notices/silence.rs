//! Executors that are not there while tasks wait: told once, until they were back.

use serde_json::json;
use taskhub::domain::task::{Address, State};
use taskhub::hub::{self, Effects};

use super::{notices, only, said, telling};
use crate::support::{World, task_for, task_in};

const SILENT_MS: i64 = 900_000;

fn watch(world: &World) -> Effects {
    let (done, effects) = world.run(hub::watch_silence);
    done.expect("it looks at all of them");
    effects
}

/// The executor asks for work that it does not take: none is there for it.
fn seen(world: &World, key: &str) {
    assert_eq!(world.call("POST", "/executor/ping", key, json!({})).0, 200);
}

#[test]
fn a_timer_rings_for_a_poll_executor_that_is_not_there() {
    let world = telling(&[]);
    world.executor("bot", &[]);
    world.pass(SILENT_MS);
    world.submit(&task_for("bot"));
    world.submit(&task_for("bot"));
    assert_eq!(world.timers(), 1, "one timer an executor");
    let due = world.run(|hub| hub.next_due()).0.unwrap();
    assert_eq!(due, Some(world.now() + SILENT_MS), "the alarm rings for it");
    assert_eq!(notices(&world.dispatch()), []);
    world.pass(SILENT_MS);
    let told = only(&world.dispatch());
    let said = said(&told);
    assert_eq!(said["title"], "bot is silent");
    let message = said["message"].as_str().unwrap();
    assert!(message.contains("2 tasks wait for bot") && message.contains("30 minutes"), "{message}");
    world.delivered(&told, &hub::Delivery::Accepted);
    for _ in 0..10 {
        world.pass(SILENT_MS);
        world.submit(&task_for("bot"));
        assert_eq!(notices(&watch(&world)), []);
        assert_eq!(notices(&world.dispatch()), [], "it is told once");
    }
}

#[test]
fn it_is_told_again_after_it_was_back() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    world.pass(SILENT_MS);
    world.submit(&task_for("bot"));
    world.pass(SILENT_MS);
    let told = only(&world.dispatch());
    world.delivered(&told, &hub::Delivery::Accepted);
    world.pass(1);
    seen(&world, &key);
    world.pass(SILENT_MS - 1);
    assert_eq!(notices(&watch(&world)), []);
    world.pass(1);
    assert_eq!(notices(&watch(&world)).len(), 1);
    assert_eq!(notices(&watch(&world)), []);
}

#[test]
fn a_timer_is_put_off_while_it_is_there_and_falls_away_with_the_tasks() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    world.pass(SILENT_MS);
    world.submit(&task_for("bot"));
    world.pass(SILENT_MS - 60_000);
    seen(&world, &key);
    world.pass(60_000);
    assert_eq!(notices(&world.dispatch()), []);
    assert_eq!(world.run(|hub| hub.next_due()).0.unwrap(), Some(world.now() + SILENT_MS - 60_000));
    world.claim(&key);
    world.pass(SILENT_MS - 60_000);
    assert_eq!(notices(&world.dispatch()), []);
    assert_eq!(world.timers(), 0);
}

#[test]
fn an_answer_that_comes_too_late_for_its_attempt_expects_another() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    seen(&world, &key);
    let held = world.working("bot", &key);
    world.does("heartbeat", &held, json!({ "question": "Which?" }));
    world.pass(SILENT_MS);
    assert_eq!(world.timers(), 0, "it waits for a person");
    let text = "That one.".to_owned();
    let answer = hub::Answer { submitter: "owner".to_owned(), task_id: held.id.clone(), text };
    world.run(|hub| hub::answer(hub, &answer)).0.unwrap();
    assert_eq!((world.state(&held.id), world.timers()), (State::Submitted, 1));
}

#[test]
fn who_is_given_the_tasks_of_another_is_expected() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    world.executor("ant", &[]);
    seen(&world, &key);
    world.submit(&task_for("bot"));
    assert_eq!(world.timers(), 0);
    let to = hub::TasksLeft::Move(Address::executor("ant").unwrap());
    assert!(world.run(|hub| hub::delete_executor(hub, "bot", &to)).0.unwrap().deleted);
    let subjects = world.db.rows("SELECT subject FROM outbox WHERE body = '{}'");
    assert_eq!(format!("{subjects:?}"), r#"[[Text("executor_silent/ant/")]]"#);
}

#[test]
fn nothing_is_expected_of_one_that_is_there_or_woken_or_not_alone() {
    let world = telling(&[]);
    let key = world.executor("bot", &["q"]);
    seen(&world, &key);
    world.submit(&task_for("bot"));
    assert_eq!(world.timers(), 0, "it is there");
    world.pass(100_000);
    let ant = world.executor("ant", &["q"]);
    seen(&world, &ant);
    world.submit(&task_in("q"));
    assert_eq!(world.timers(), 0, "another is there");
    let wake = json!({ "adapter": "webhook", "url": "https://bee.example/", "auth": { "kind": "none" } });
    world.webhook_executor("bee", &[], wake);
    world.pass(100_000);
    world.submit(&task_for("bee"));
    assert_eq!((world.owed(), world.timers()), (1, 0), "its wake alone");
}

#[test]
fn the_sweep_finds_one_that_is_woken_and_does_not_come() {
    let world = telling(&[]);
    let wake = json!({ "adapter": "webhook", "url": "https://bee.example/", "auth": { "kind": "none" } });
    world.webhook_executor("bee", &["q"], wake);
    world.submit(&task_in("q"));
    world.pass(SILENT_MS - 1);
    assert_eq!(notices(&watch(&world)), []);
    world.pass(1);
    assert_eq!(said(&only(&watch(&world)))["title"], "bee is silent");
}

/// A heartbeat writes no presence, and what memory knows is lost whenever the object leaves it.
#[test]
fn one_that_is_at_work_is_not_silent() {
    let mut world = telling(&[]);
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    world.submit(&task_for("bot"));
    for _ in 0..20 {
        world.pass(100_000);
        world.does("heartbeat", &held, json!({}));
        world.presence = hub::Presence::default();
        world.pass(90_000);
        assert_eq!((notices(&watch(&world)), notices(&world.dispatch())), (vec![], vec![]));
    }
    world.pass(SILENT_MS - 90_000 - 1);
    assert_eq!(notices(&watch(&world)), []);
    world.pass(1);
    let told = said(&only(&watch(&world)));
    assert!(told["message"].as_str().unwrap().contains("not been heard of for 15 minutes"), "{told}");
}

#[test]
fn one_without_tasks_may_be_silent() {
    let world = telling(&[]);
    world.executor("bot", &["q"]);
    world.pass(10 * SILENT_MS);
    assert_eq!(notices(&watch(&world)), []);
}

#[test]
fn nothing_is_expected_where_nobody_wants_to_know() {
    for world in [telling(&[("NTFY_EVENTS", "failed")]), World::new()] {
        world.executor("bot", &[]);
        world.pass(SILENT_MS);
        world.submit(&task_for("bot"));
        world.pass(SILENT_MS);
        assert_eq!((notices(&watch(&world)), world.timers()), (vec![], 0));
    }
}
