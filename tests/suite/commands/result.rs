//! `result`: how an attempt ends, once.

use serde_json::{Value as Json, json};
use taskhub::domain::task::{FailureCode, State, WaitingOn};
use taskhub::hub::{self, AttemptCall, AttemptRejected, Outcome, Report, Submit};

use crate::support::{Held, World, held, task_for, task_in};

fn working(world: &World) -> Held {
    let key = world.executor("bot", &[]);
    world.working("bot", &key)
}

#[test]
fn a_completed_task_keeps_all_that_was_brought() {
    let world = World::new();
    let held = working(&world);
    let report = json!({
        "status": "completed", "result": "booked ✓", "data": { "at": [20, 0] }, "external_actions": [{ "tool": "mail" }],
    });
    let ended = world.does("result", &held, report);
    assert_eq!(ended, json!({ "task_id": held.id, "state": "completed", "attempt": 1, "retry_at": null }));
    let full = world.detail(&held.id).full;
    assert_eq!((full.result.as_deref(), full.data), (Some("booked ✓"), Some(json!({ "at": [20, 0] }))));
    assert_eq!(full.external_actions, Some(json!([{ "tool": "mail" }])));
    assert_eq!(full.head.life.completed_at, Some(world.now()));
    assert_eq!(full.head.due_at, None);
    assert_eq!(world.kinds(&held.id), ["submitted", "claimed", "completed"]);
}

#[test]
fn a_failure_is_final_unless_it_is_called_retryable() {
    let world = World::new();
    let held = working(&world);
    let ended = world.does("result", &held, json!({ "status": "failed", "error": "no table left" }));
    assert_eq!((&ended["state"], &ended["retry_at"]), (&json!("failed"), &Json::Null));
    let full = world.detail(&held.id).full;
    assert_eq!((full.head.life.failure, full.head.life.failures), (Some(FailureCode::ExecutorFailed), 0));
    assert_eq!(full.error.as_deref(), Some("no table left"));
    let detail = world.detail(&held.id);
    let last = detail.events.last().unwrap();
    let (code, error) = (&last.data["code"], &last.data["error"]);
    assert_eq!((last.kind, code, error), ("failed", &json!("executor_failed"), &json!("no table left")));
    assert_eq!(detail.notes, [], "its outcome is its error, not a note for a next attempt");
}

#[test]
fn a_retryable_failure_comes_back_after_a_growing_pause() {
    let world = World::new();
    let held = working(&world);
    let mut attempt = held.clone();
    for (failures, least) in [(1, 15_000), (2, 30_000)] {
        let ended = world.does("result", &attempt, json!({ "status": "failed", "retryable": true, "error": "broke" }));
        let pause = ended["retry_at"].as_i64().unwrap() - world.now();
        assert_eq!(ended["state"], "waiting");
        assert!((least..least + least / 5).contains(&pause), "{pause}");
        let life = world.life(&held.id);
        assert_eq!((life.waiting_on, life.failures), (Some(WaitingOn::Time), failures));
        world.pass_and_sweep(pause - 1);
        assert_eq!(world.state(&held.id), State::Waiting);
        world.pass_and_sweep(1);
        attempt = world.claim(&held.key);
    }
    let ended = world.does("result", &attempt, json!({ "status": "failed", "retryable": true }));
    assert_eq!((&ended["state"], &ended["attempt"]), (&json!("failed"), &json!(3)));
    assert_eq!(world.life(&held.id).failures, 3);
}

/// Rule 4: the answer was lost, and the executor sends the same again.
#[test]
fn the_same_result_again_is_the_same_answer() {
    for report in [
        json!({ "status": "completed", "result": "done", "data": { "b": 1, "a": 2 } }),
        json!({ "status": "failed", "error": "no" }),
        json!({ "status": "failed", "error": "later", "retryable": true }),
        json!({ "status": "blocked", "question": "Which?" }),
    ] {
        let world = World::new();
        let held = working(&world);
        let first = world.does("result", &held, report.clone());
        world.pass(1_000);
        let before = world.db.dump();
        let again = world.does("result", &held, report.clone());
        assert_eq!(again, first);
        if report["status"] != "blocked" {
            assert_eq!(world.db.dump(), before, "{report}");
        }
    }
}

#[test]
fn another_result_after_the_first_is_refused() {
    let world = World::new();
    let held = working(&world);
    world.does("result", &held, json!({ "status": "completed", "result": "first" }));
    world.is_refused("result", &held, json!({ "status": "completed", "result": "second" }), "already_finished");
    world.is_refused("result", &held, json!({ "status": "failed" }), "already_finished");
    assert_eq!(world.detail(&held.id).full.result.as_deref(), Some("first"));
}

/// Idempotent also when the task is in other hands by now.
#[test]
fn the_same_call_again_is_known_after_the_task_was_claimed_anew() {
    for (verb, more) in [
        ("result", json!({ "status": "failed", "retryable": true, "error": "broke" })),
        ("defer", json!({ "seconds": 5, "note": "not yet" })),
        ("release", json!({ "note": "bye" })),
    ] {
        let world = World::new();
        let key = world.executor("bot", &["q"]);
        let other = world.executor("ant", &["q"]);
        world.submit(&task_in("q"));
        let held = world.claim(&key);
        let first = world.does(verb, &held, more.clone());
        world.pass_and_sweep(20_000);
        let taken = world.claim(&other);
        assert_eq!((taken.id.as_str(), taken.attempt), (held.id.as_str(), 2));
        let before = world.db.dump();
        assert_eq!(world.does(verb, &held, more.clone()), first, "{verb}");
        assert_eq!(world.db.dump(), before, "{verb}");
        world.does("result", &taken, json!({ "status": "completed" }));
        assert_eq!(world.does(verb, &held, more), first, "{verb}: and after its end");
    }
}

#[test]
fn the_same_words_of_another_attempt_are_not_the_same_call() {
    for (verb, more) in [
        ("release", json!({})),
        ("defer", json!({ "seconds": 1 })),
        ("result", json!({ "status": "failed", "retryable": true })),
    ] {
        let world = World::new();
        let first = working(&world);
        world.does(verb, &first, more.clone());
        world.pass_and_sweep(60_000);
        let second = world.claim(&first.key);
        world.pass_and_sweep(300_000);
        world.is_refused(verb, &second, more.clone(), "lease_lost");
        world.does(verb, &first, more);
    }
}

#[test]
fn the_same_words_under_a_forged_token_are_not_the_same_call() {
    let world = World::new();
    let held = working(&world);
    let report = json!({ "status": "completed", "result": "done" });
    world.does("result", &held, report.clone());
    let forged = Held { token: format!("clm_1.{}", "A".repeat(22)), ..held.clone() };
    world.is_refused("result", &forged, report.clone(), "already_finished");
    let foreign = Held { key: world.executor("ant", &[]), ..held };
    world.is_refused("result", &foreign, report, "already_finished");
}

/// A token cannot be made again under another secret, but the task still has the hash of its own.
#[test]
fn the_same_call_again_is_known_after_the_hubs_secret_has_changed() {
    let mut world = World::new();
    let held = working(&world);
    let report = Report {
        outcome: Outcome::Completed,
        result: Some("done".to_owned()),
        data: None,
        error: None,
        external_actions: None,
        question: None,
    };
    let send = |world: &World, executor: &str, claim_token: &str| {
        let brought = json!({ "result": "done" });
        let call = AttemptCall { executor, task_id: &held.id, claim_token, verb: "result", brought: &brought };
        world.run(|hub| hub::report(hub, &call, &report)).0
    };
    let first = send(&world, "bot", &held.token);
    assert_eq!(first.as_ref().map(|ended| ended.state), Ok(State::Completed));
    world.settings.hub_secret = "another secret of the tests, long enough".to_owned();
    assert_eq!(send(&world, "bot", &held.token), first);
    let others = [("ant", held.token.clone()), ("bot", held.token.replacen("clm_1", "clm_2", 1))];
    for (executor, token) in others {
        assert_eq!(send(&world, executor, &token), Err(AttemptRejected::AlreadyFinished), "{executor} {token}");
    }
}

#[test]
fn a_result_may_claim_the_next_task() {
    let world = World::new();
    let held = working(&world);
    let second = world.submit(&task_for("bot"));
    world.pass(1);
    let third = world.submit(&task_for("bot"));
    let report = json!({ "status": "completed", "next": {} });
    let ended = world.does("result", &held, report.clone());
    assert_eq!(ended["state"], "completed");
    assert_eq!((&ended["next"]["task"]["id"], &ended["next"]["attempt"]), (&json!(second), &json!(1)));
    let before = world.db.dump();
    assert_eq!(world.does("result", &held, report.clone()), ended, "the same next claim, not another");
    assert_eq!(world.db.dump(), before);

    let next = crate::support::held(&held.key, &ended["next"]);
    let last = world.does("result", &next, json!({ "status": "completed", "next": { "request_id": "mine" } }));
    assert_eq!(last["next"]["task"]["id"], json!(third));
    let (_, same) = world.call("POST", "/executor/claim", &held.key, json!({ "request_id": "mine" }));
    assert_eq!(same["claim_token"], last["next"]["claim_token"]);
    let again = world.does("result", &held, report);
    assert_eq!(again["next"]["code"], "claim_ended", "the claim that came with it is over by now");
}

#[test]
fn a_result_that_asks_for_more_where_there_is_none_gets_null() {
    let world = World::new();
    let held = working(&world);
    let ended = world.does("result", &held, json!({ "status": "completed", "next": {} }));
    assert_eq!(ended["next"], Json::Null);
    assert!(ended.as_object().unwrap().contains_key("next"));
    let without = world.working("bot", &held.key);
    let ended = world.does("result", &without, json!({ "status": "completed" }));
    assert!(!ended.as_object().unwrap().contains_key("next"), "what was not asked for is not answered");
}

#[test]
fn a_result_stands_whatever_becomes_of_its_next_claim() {
    let world = World::new();
    let held = working(&world);
    let ended = world.does("result", &held, json!({ "status": "completed", "next": { "queues": ["nonsense"] } }));
    assert_eq!((&ended["state"], &ended["next"]["code"]), (&json!("completed"), &json!("bad_request")));
    assert_eq!(world.state(&held.id), State::Completed);
}

#[test]
fn a_blocked_result_waits_for_the_person_it_asks() {
    for (question, on) in [(Some("Which?"), WaitingOn::Submitter), (None, WaitingOn::ExecutorUser)] {
        let world = World::new();
        let held = working(&world);
        let ended = world.does("result", &held, json!({ "status": "blocked", "question": question }));
        assert_eq!((&ended["state"], &ended["attempt"]), (&json!("input-required"), &json!(1)));
        assert_eq!(world.life(&held.id).waiting_on, Some(on));
    }
}

#[test]
fn an_attempt_that_waits_may_still_end_it() {
    for (report, state, failures) in [
        (json!({ "status": "completed" }), State::Completed, 0),
        (json!({ "status": "failed" }), State::Failed, 0),
        (json!({ "status": "failed", "retryable": true }), State::Failed, 0),
    ] {
        let world = World::new();
        let held = working(&world);
        world.does("heartbeat", &held, json!({ "question": "Which?" }));
        world.does("result", &held, report);
        let life = world.life(&held.id);
        assert_eq!((life.state, life.failures), (state, failures));
    }
}

#[test]
fn the_limits_of_what_it_brings() {
    let world = World::with(&[("RESULT_MAX_BYTES", "1024")]);
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    for (more, field) in [
        (json!({ "status": "completed", "result": "x".repeat(1_025) }), "result"),
        (json!({ "status": "completed", "data": "x".repeat(1_023) }), "data"),
        (json!({ "status": "completed", "external_actions": ["x".repeat(32_768)] }), "external_actions"),
        (json!({ "status": "failed", "error": "é".repeat(8_001) }), "error"),
        (json!({ "status": "blocked", "question": "é".repeat(8_001) }), "question"),
        (json!({ "status": "completed", "error": "but" }), "error"),
        (json!({ "status": "completed", "retryable": true }), "error"),
        (json!({ "status": "completed", "question": "Which?" }), "question"),
    ] {
        let (status, answer) = world.attempt("result", &held, more);
        assert_eq!((status, &answer["code"]), (400, &json!("bad_request")), "{field}: {answer}");
        assert!(answer["detail"].as_str().unwrap().starts_with(field), "{answer}");
    }
    assert_eq!(world.state(&held.id), State::Working);
    world.does(
        "result",
        &held,
        json!({ "status": "completed", "result": "x".repeat(1_024), "data": "x".repeat(1_022) }),
    );
}

/// Cloudflare limits a row to 2 MB; what the settings permit at most must fit into one.
#[test]
fn the_largest_task_fits_its_row() {
    let world = World::with(&[("RESULT_MAX_BYTES", "393216"), ("INSTRUCTIONS_MAX_BYTES", "262144")]);
    let key = world.executor("bot", &[]);
    let input = Submit {
        title: "😀".repeat(200),
        instructions: "x".repeat(262_144),
        context: Some(json!("x".repeat(65_534))),
        ..task_for("bot")
    };
    world.submit(&input);
    let held = world.claim(&key);
    let (note, question) = ("😀".repeat(2_000), "😀".repeat(8_000));
    let beat = json!({ "note": note, "checkpoint": "x".repeat(65_534), "question": question });
    world.does("heartbeat", &held, beat);
    let report = json!({
        "status": "failed", "error": "😀".repeat(8_000), "result": "x".repeat(393_216), "data": "x".repeat(393_214),
        "external_actions": ["x".repeat(32_764)],
    });
    world.does("result", &held, report);
    assert_eq!(world.detail(&held.id).full.result.map(|result| result.len()), Some(393_216));
}

#[test]
fn those_who_wait_are_told() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    world.submit(&task_for("bot"));
    let (_, claim) = world.call("POST", "/executor/claim", &key, json!({}));
    let held = held(&key, &claim);
    let revision = world.detail(&held.id).full.head.revision;
    world.does("result", &held, json!({ "status": "completed" }));
    assert!(world.detail(&held.id).full.head.revision > revision);
}
