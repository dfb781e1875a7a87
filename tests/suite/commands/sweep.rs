//! `sweep`: what the clock does by itself.

use serde_json::json;
use taskhub::domain::limits::SWEEP_BATCH_MAX;
use taskhub::domain::task::{FailureCode, State};
use taskhub::hub::{Submit, When};

use crate::support::{World, task_for};

fn due_at(world: &World, id: &str) -> Option<i64> {
    world.detail(id).full.head.due_at
}

#[test]
fn a_lease_that_expires_gives_the_task_back_until_the_budget_is_spent() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let id = world.submit(&task_for("bot"));
    for attempt in 1..=3 {
        let held = world.claim(&key);
        assert_eq!((held.id.as_str(), held.attempt), (id.as_str(), attempt));
        world.does("heartbeat", &held, json!({ "note": format!("try {attempt}") }));
        world.pass_and_sweep(299_999);
        assert_eq!(world.state(&id), State::Working, "one millisecond before");
        let effects = world.pass_and_sweep(1);
        assert_eq!(effects.changed, std::slice::from_ref(&id));
        assert_eq!(effects.ready.len(), usize::from(attempt < 3), "whoever waits for work is told");
    }
    let detail = world.detail(&id);
    let life = &detail.full.head.life;
    assert_eq!((life.state, life.failure, life.failures), (State::Failed, Some(FailureCode::LeaseExpired), 3));
    assert!(detail.full.error.as_deref().is_some_and(|error| error.contains("silent")));
    let kinds = world.kinds(&id);
    assert_eq!(kinds, ["submitted", "claimed", "requeued", "claimed", "requeued", "claimed", "failed"]);
    let notes: Vec<_> =
        detail.notes.iter().map(|note| (note.attempt, note.ended.as_str(), note.note.as_deref())).collect();
    assert_eq!(notes, [(1, "lease_expired", Some("try 1")), (2, "lease_expired", Some("try 2"))]);
}

#[test]
fn a_deadline_ends_a_task_wherever_it_stands() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let dated = || Submit { deadline: Some(When::In(60)), ..task_for("bot") };
    let claimed = |world: &World| {
        let id = world.submit(&dated());
        let held = world.claim(&key);
        assert_eq!(held.id, id);
        held
    };
    let working = claimed(&world);
    let asking = claimed(&world);
    world.does("heartbeat", &asking, json!({ "question": "Which?" }));
    let deferred = claimed(&world);
    world.does("defer", &deferred, json!({ "seconds": 3600 }));
    let retrying = claimed(&world);
    world.does("result", &retrying, json!({ "status": "failed", "retryable": true }));
    let later = world.submit(&Submit { not_before: Some(When::In(59)), ..dated() });
    let ready = world.submit(&dated());

    world.pass_and_sweep(59_000);
    assert_eq!(world.state(&later), State::Submitted, "its time came before its deadline");
    world.pass_and_sweep(1_000);
    for id in [&working.id, &asking.id, &deferred.id, &retrying.id, &later, &ready] {
        let life = world.life(id);
        assert_eq!((life.state, life.failure), (State::Failed, Some(FailureCode::DeadlineExceeded)));
        assert_eq!((life.completed_at, due_at(&world, id)), (Some(world.now()), None));
    }
    assert_eq!(world.life(&working.id).failures, 0, "a deadline spends no budget");
    world.is_refused("result", &working, json!({ "status": "completed" }), "already_finished");
    assert_eq!(world.hub().next_due(), Ok(None));
}

#[test]
fn a_task_past_its_deadline_is_not_handed_out_before_the_sweep() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    world.submit(&Submit { deadline: Some(When::In(60)), priority: Some(9), ..task_for("bot") });
    let undated = world.submit(&task_for("bot"));
    world.pass(60_000);
    assert_eq!(world.claim(&key).id, undated);
}

#[test]
fn a_call_between_the_deadline_and_the_sweep_comes_too_late() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    world.submit(&Submit { deadline: Some(When::In(60)), ..task_for("bot") });
    let held = world.claim(&key);
    world.pass(60_000);
    world.is_refused("result", &held, json!({ "status": "completed" }), "lease_lost");
    world.pass_and_sweep(0);
    assert_eq!(world.life(&held.id).failure, Some(FailureCode::DeadlineExceeded));
}

#[test]
fn a_question_that_nobody_answers_fails() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    world.does("result", &held, json!({ "status": "blocked", "question": "Which?" }));
    world.pass_and_sweep(86_399_999);
    assert_eq!(world.state(&held.id), State::InputRequired);
    world.pass_and_sweep(1);
    let life = world.life(&held.id);
    assert_eq!((life.state, life.failure), (State::Failed, Some(FailureCode::InputTimeout)));
    assert_eq!(life.failures, 0);
}

#[test]
fn a_wait_ends_at_its_time() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    let answer = world.does("defer", &held, json!({ "seconds": 90, "note": "not yet" }));
    assert_eq!(answer["visible_at"], json!(world.now() + 90_000));
    let effects = world.pass_and_sweep(89_999);
    assert!(effects.changed.is_empty());
    let effects = world.pass_and_sweep(1);
    assert_eq!((effects.changed, effects.ready), (vec![held.id.clone()], vec!["@bot".to_owned()]));
    let next = world.claim(&key);
    assert_eq!((next.id, next.attempt), (held.id.clone(), 2));
    let notes: Vec<_> = world.detail(&held.id).notes.into_iter().map(|note| (note.attempt, note.ended)).collect();
    assert_eq!(notes, [(1, "deferred".to_owned())], "the end of the wait is no end of an attempt");
}

#[test]
fn an_answer_that_nobody_came_for_goes_to_the_next_attempt() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    world.does("heartbeat", &held, json!({ "question": "Which?" }));
    world.pass(200_000);
    world.answer(&held.id, "This one.").unwrap();
    world.pass_and_sweep(100_000);
    assert_eq!(world.state(&held.id), State::InputRequired, "exactly one lease of silence");
    world.pass_and_sweep(1);
    assert_eq!(world.state(&held.id), State::Submitted);
    assert_eq!(world.kinds(&held.id).last(), Some(&"requeued"));
    let notes: Vec<_> = world.detail(&held.id).notes.into_iter().map(|note| (note.attempt, note.ended)).collect();
    assert_eq!(notes, [(1, "silent".to_owned())]);
    world.is_refused("heartbeat", &held, json!({}), "lease_lost");
}

#[test]
fn a_heartbeat_leaves_the_timer_and_the_sweep_puts_it_right() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    let first = due_at(&world, &held.id);
    world.pass(100_000);
    world.does("heartbeat", &held, json!({}));
    assert_eq!(due_at(&world, &held.id), first, "a heartbeat writes one row");
    let (swept, effects) = {
        world.pass(200_000);
        world.sweep()
    };
    assert_eq!((swept.handled, effects.changed.len()), (1, 0));
    assert_eq!(due_at(&world, &held.id), Some(first.unwrap() + 100_000));
    assert_eq!(world.state(&held.id), State::Working);
    assert_eq!(world.sweep().0.handled, 0, "it is not due again");
}

/// A lease setting that is lowered while attempts run must not leave a timer behind its lease.
#[test]
fn a_lease_that_shrinks_takes_its_timer_along() {
    let mut world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    world.settings.lease_ms = 10_000;
    world.does("heartbeat", &held, json!({}));
    assert_eq!(due_at(&world, &held.id), Some(world.now() + 10_000));
    world.pass_and_sweep(10_000);
    assert_eq!(world.state(&held.id), State::Submitted);
}

#[test]
fn batches_are_bounded_and_go_on_until_nothing_is_due() {
    let world = World::new();
    world.executor("bot", &[]);
    let tasks = SWEEP_BATCH_MAX + 5;
    for index in 0..tasks {
        let not_before = Some(When::In(60 + index as i64));
        world.submit(&Submit { not_before, ..task_for("bot") });
    }
    world.pass(10_000_000);
    let (first, _) = world.sweep();
    assert_eq!((first.handled, first.more), (SWEEP_BATCH_MAX, true));
    let (second, _) = world.sweep();
    assert_eq!((second.handled, second.more), (5, false));
    assert_eq!(world.hub().next_due(), Ok(None));
}

/// Makes every change of this task's state fail, as a row that cannot be stored would.
fn poison(world: &World, id: &str) {
    let sql = format!(
        "CREATE TRIGGER poison BEFORE UPDATE ON tasks WHEN OLD.id = '{id}' AND NEW.state <> OLD.state
         BEGIN SELECT RAISE(ABORT, 'poison'); END"
    );
    world.db.connection().execute_batch(&sql).unwrap();
}

#[test]
fn a_task_that_makes_trouble_does_not_stop_the_others() {
    let world = World::new();
    world.executor("bot", &[]);
    let dated = |seconds| Submit { deadline: Some(When::In(seconds)), ..task_for("bot") };
    let poisoned = world.submit(&dated(1));
    let sound = world.submit(&dated(2));
    poison(&world, &poisoned);
    world.pass(10_000);
    let (swept, effects) = world.sweep();
    assert_eq!((swept.handled, swept.trouble.len(), &swept.trouble[0].0), (1, 1, &poisoned));
    assert_eq!(effects.changed, std::slice::from_ref(&sound));
    assert_eq!((world.state(&sound), world.state(&poisoned)), (State::Failed, State::Submitted));
    assert_eq!(world.kinds(&poisoned), ["submitted"], "nothing of the attempt to handle it is left");
    assert_eq!(due_at(&world, &poisoned), Some(world.now() + 60_000), "it is looked at again later");

    world.db.connection().execute_batch("DROP TRIGGER poison").unwrap();
    world.pass_and_sweep(60_000);
    assert_eq!(world.state(&poisoned), State::Failed);
}

#[test]
fn a_task_on_which_the_hub_panics_does_not_stop_the_others() {
    let world = World::new();
    world.executor("bot", &[]);
    let dated = |seconds| Submit { deadline: Some(When::In(seconds)), ..task_for("bot") };
    let (unlucky, sound) = (world.submit(&dated(1)), world.submit(&dated(2)));
    world.pass(10_000);
    // The first statement finds what is due; the second belongs to the first task.
    world.db.panic_in(1);
    let (swept, _) = world.sweep();
    assert_eq!((swept.handled, swept.trouble.len(), &swept.trouble[0].0), (1, 1, &unlucky));
    assert_eq!((world.state(&sound), world.state(&unlucky)), (State::Failed, State::Submitted));
    world.pass_and_sweep(60_000);
    assert_eq!(world.state(&unlucky), State::Failed, "it is looked at again later");
}

#[test]
fn nothing_due_changes_nothing() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    world.working("bot", &key);
    world.submit(&task_for("bot"));
    let before = world.db.dump();
    assert_eq!(world.sweep().0.handled, 0);
    assert_eq!(world.db.dump(), before);
}
