//! `submit`: checks, addresses, holds, and the idempotency key.

use serde_json::json;
use taskhub::domain::task::State;
use taskhub::hub::{self, Submit, SubmitRejected, Submitted, When};

use crate::support::{World, task_for, task_in};

fn submit(world: &World, input: &Submit) -> Result<Submitted, SubmitRejected> {
    world.run(|hub| hub::submit(hub, input)).0
}

fn keyed(key: &str) -> Submit {
    Submit { idempotency_key: Some(key.to_owned()), ..task_for("bot") }
}

/// Rule 4: the same key, the same task; another body, a conflict.
#[test]
fn a_key_makes_one_task() {
    let world = World::new();
    world.executor("bot", &[]);
    let first = submit(&world, &keyed("k")).unwrap();
    assert!(!first.existed);
    world.pass(5_000);
    let before = world.db.dump();
    let again = submit(&world, &keyed("k")).unwrap();
    assert_eq!((again.id.as_str(), again.existed), (first.id.as_str(), true));
    let other = Submit { title: "another".to_owned(), ..keyed("k") };
    assert_eq!(submit(&world, &other), Err(SubmitRejected::IdempotencyConflict { task_id: first.id }));
    assert_eq!(world.db.dump(), before, "neither has changed anything");
}

#[test]
fn every_field_of_a_body_tells_it_from_another() {
    let world = World::new();
    world.executor("bot", &["q"]);
    submit(&world, &keyed("k")).unwrap();
    let others = [
        Submit { instructions: "else".to_owned(), ..keyed("k") },
        Submit { executor: None, queue: Some("q".to_owned()), ..keyed("k") },
        Submit { context: Some(json!({})), ..keyed("k") },
        Submit { priority: Some(5), ..keyed("k") },
        Submit { deadline: Some(When::In(60)), ..keyed("k") },
        Submit { not_before: Some(When::In(60)), ..keyed("k") },
        Submit { max_attempts: Some(3), ..keyed("k") },
    ];
    for other in others {
        let rejected = submit(&world, &other);
        assert!(matches!(rejected, Err(SubmitRejected::IdempotencyConflict { .. })), "{other:?}");
    }
}

#[test]
fn a_key_belongs_to_its_submitter() {
    let world = World::new();
    world.executor("bot", &[]);
    let mine = submit(&world, &keyed("k")).unwrap();
    let theirs = submit(&world, &Submit { submitter: "client".to_owned(), ..keyed("k") }).unwrap();
    assert!(!theirs.existed && theirs.id != mine.id);
}

#[test]
fn a_repeated_key_tells_how_far_the_task_has_come() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    submit(&world, &keyed("k")).unwrap();
    let held = world.claim(&key);
    assert_eq!(submit(&world, &keyed("k")).unwrap().state, State::Working);
    world.does("result", &held, json!({ "status": "completed" }));
    assert_eq!(submit(&world, &keyed("k")).unwrap().state, State::Completed);
}

/// A call repeated after its deadline must find its task, not be told that the deadline is past.
#[test]
fn a_repeated_key_is_found_before_the_body_is_judged_again() {
    let world = World::new();
    world.executor("bot", &[]);
    let dated = Submit { deadline: Some(When::At(world.now() + 1_000)), ..keyed("k") };
    let first = submit(&world, &dated).unwrap();
    world.pass(2_000);
    assert_eq!(submit(&world, &dated).unwrap().id, first.id);
    let relative = Submit { deadline: Some(When::In(60)), ..keyed("in a minute") };
    let first = submit(&world, &relative).unwrap();
    world.pass(30_000);
    assert_eq!(submit(&world, &relative).unwrap().id, first.id, "in a minute, said twice, is the same");
}

#[test]
fn a_task_that_nobody_would_do_is_refused_with_the_names_there_are() {
    let world = World::new();
    world.executor("bot", &["ops", "slow"]);
    world.executor("ant", &["ops"]);
    let names = |asked: &str| SubmitRejected::NoConsumer {
        asked: asked.to_owned(),
        executors: vec!["ant".to_owned(), "bot".to_owned()],
        queues: vec!["ops".to_owned(), "slow".to_owned()],
        disabled: vec![],
    };
    assert_eq!(submit(&world, &task_for("cat")), Err(names("the executor \"cat\"")));
    assert_eq!(submit(&world, &task_in("fast")), Err(names("the queue \"fast\"")));
    let nowhere = Submit { executor: None, ..task_for("") };
    assert_eq!(submit(&world, &nowhere), Err(names("neither an executor nor a queue")));
    assert_eq!(submit(&world, &task_for("No Name!")), Err(names("the executor \"No Name!\"")));
    assert!(submit(&world, &task_in("slow")).is_ok());
}

#[test]
fn a_field_that_is_wrong_is_named() {
    let world = World::new();
    world.executor("bot", &["q"]);
    let now = world.now();
    let year_ms = 31_536_000_000;
    let wrong = [
        ("title", Submit { title: " ".to_owned(), ..task_for("bot") }),
        ("title", Submit { title: "é".repeat(201), ..task_for("bot") }),
        ("instructions", Submit { instructions: "\n".to_owned(), ..task_for("bot") }),
        ("instructions", Submit { instructions: "x".repeat(65_537), ..task_for("bot") }),
        ("context", Submit { context: Some(json!("x".repeat(65_535))), ..task_for("bot") }),
        ("priority", Submit { priority: Some(10), ..task_for("bot") }),
        ("max_attempts", Submit { max_attempts: Some(0), ..task_for("bot") }),
        ("max_attempts", Submit { max_attempts: Some(101), ..task_for("bot") }),
        ("deadline", Submit { deadline: Some(When::At(now)), ..task_for("bot") }),
        ("deadline", Submit { deadline: Some(When::In(0)), ..task_for("bot") }),
        ("deadline", Submit { deadline: Some(When::In(-5)), ..task_for("bot") }),
        ("deadline", Submit { deadline: Some(When::At(now + year_ms + 1)), ..task_for("bot") }),
        ("deadline", Submit { deadline: Some(When::In(i64::MAX)), ..task_for("bot") }),
        ("not_before", Submit { not_before: Some(When::In(31_536_001)), ..task_for("bot") }),
        ("not_before", Submit { not_before: Some(When::In(60)), deadline: Some(When::In(60)), ..task_for("bot") }),
        ("executor", Submit { queue: Some("q".to_owned()), ..task_for("bot") }),
        ("idempotency_key", keyed("")),
        ("idempotency_key", keyed(&"k".repeat(201))),
    ];
    let before = world.db.dump();
    for (right, input) in wrong {
        match submit(&world, &input) {
            Err(SubmitRejected::Invalid { field, detail }) => {
                assert_eq!(field, right, "{detail}");
                assert!(detail.ends_with('.'), "{detail}");
            }
            other => panic!("{right}: {other:?}"),
        }
    }
    assert_eq!(world.db.dump(), before);
}

#[test]
fn the_limits_themselves_are_permitted() {
    let world = World::new();
    world.executor("bot", &[]);
    let largest = Submit {
        title: "é".repeat(200),
        instructions: "x".repeat(65_536),
        context: Some(json!("x".repeat(65_534))),
        priority: Some(9),
        max_attempts: Some(100),
        deadline: Some(When::In(31_536_000)),
        idempotency_key: Some("k".repeat(200)),
        ..task_for("bot")
    };
    let id = world.submit(&largest);
    let full = world.detail(&id).full;
    assert_eq!((full.head.priority, full.head.life.max_attempts), (9, 100));
    assert_eq!(full.head.title.chars().count(), 200);
    assert_eq!(full.context, largest.context);
}

#[test]
fn a_task_for_later_waits_and_one_for_before_does_not() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let later = world.submit(&Submit { not_before: Some(When::In(60)), ..task_for("bot") });
    assert_eq!(world.state(&later), State::Waiting);
    let (status, _) = world.call("POST", "/executor/claim", &key, json!({}));
    assert_eq!(status, 204);
    world.pass_and_sweep(60_000);
    assert_eq!(world.claim(&key).id, later);
    let before = world.submit(&Submit { not_before: Some(When::At(-5)), ..task_for("bot") });
    assert_eq!(world.state(&before), State::Submitted);
}

#[test]
fn tasks_of_the_same_millisecond_have_different_ids() {
    let world = World::new();
    world.executor("bot", &[]);
    let ids: std::collections::BTreeSet<String> = (0..50).map(|_| world.submit(&task_for("bot"))).collect();
    assert_eq!(ids.len(), 50);
}

#[test]
fn whoever_waits_for_work_there_is_told() {
    let world = World::new();
    world.executor("bot", &["q"]);
    let (id, effects) = world.submit_with_effects(&task_in("q"));
    assert_eq!((effects.changed, effects.ready), (vec![id], vec!["q".to_owned()]));
    let (id, effects) = world.submit_with_effects(&task_for("bot"));
    assert_eq!((effects.changed, effects.ready), (vec![id], vec!["@bot".to_owned()]));
    let held = Submit { not_before: Some(When::In(60)), ..task_for("bot") };
    assert!(world.submit_with_effects(&held).1.ready.is_empty());
}
