//! The ledger of outside actions: begun once ever, told to every later attempt, and never given a second outcome.

use serde_json::{Value as Json, json};
use taskhub::domain::ledger::key;
use taskhub::domain::limits::{
    ACTION_NAME_BYTES_MAX, ACTION_OUTCOME_BYTES_MAX, ACTION_PARAMS_BYTES_MAX, ACTIONS_MAX, EVENTS_READ_MAX,
};
use taskhub::hub;

use crate::support::{Held, World};

/// A payment, as an executor records it.
pub fn pay(status: &str) -> Json {
    json!({ "step_id": "pay-1", "tool": "stripe", "params": { "sum": 12.5, "to": "ACME" }, "status": status })
}

fn with(mut body: Json, field: &str, value: Json) -> Json {
    body[field] = value;
    body
}

fn at_work() -> (World, Held) {
    let world = World::new();
    let bearer = world.executor("bot", &["q"]);
    let held = world.working("bot", &bearer);
    (world, held)
}

/// What the answer says, without its advice.
fn essence(answer: &Json) -> (bool, &str, &Json, u64) {
    let text = answer["next"].as_str().expect("it says what to do next");
    assert!(text.len() > 20, "{answer}");
    let status = answer["status"].as_str().expect("a status");
    (answer["first"].as_bool().expect("first"), status, &answer["outcome"], answer["attempt"].as_u64().unwrap())
}

/// The attempt is lost without a word, and the next one begins.
fn next_attempt(world: &World, held: &Held) -> Held {
    world.pass_and_sweep(300_000);
    let next = world.claim(&held.key);
    assert_eq!((next.id.as_str(), next.attempt), (held.id.as_str(), held.attempt + 1));
    next
}

#[test]
fn what_is_begun_is_first_once_and_done_for_good() {
    let (world, held) = at_work();
    let first = world.does("action", &held, pay("begin"));
    assert_eq!(essence(&first), (true, "begun", &Json::Null, 1));
    assert_eq!(
        first["idempotency_key"],
        json!(key(&held.id, "pay-1", "stripe", &json!({ "to": "ACME", "sum": 12.5 })))
    );
    let again = world.does("action", &held, pay("begin"));
    assert_eq!(essence(&again), (false, "begun", &Json::Null, 1), "the answer was lost, and it is asked for again");
    assert!(again["next"].as_str().unwrap().contains("do it if you have not"), "{again}");

    let receipt = json!({ "receipt": 7 });
    let done = world.does("action", &held, with(pay("done"), "outcome", receipt.clone()));
    assert_eq!(essence(&done), (false, "done", &receipt, 1));
    for late in [pay("begin"), pay("done"), with(pay("done"), "outcome", json!("another")), pay("failed")] {
        let answer = world.does("action", &held, late.clone());
        assert_eq!(essence(&answer), (false, "done", &receipt, 1), "{late}");
    }
    assert_eq!(
        world.kinds(&held.id),
        ["submitted", "claimed", "action", "action"],
        "what changes nothing leaves no event"
    );
}

/// Must show 5 of the issue: an attempt that dies between `begin` and `done` never leads to a second `first: true`.
#[test]
fn what_a_lost_attempt_began_is_unknown_to_every_later_one() {
    let (world, held) = at_work();
    world.does("action", &held, pay("begin"));
    let second = next_attempt(&world, &held);
    for _ in 0..2 {
        let answer = world.does("action", &second, pay("begin"));
        assert_eq!(essence(&answer), (false, "unknown", &Json::Null, 1));
        assert!(answer["next"].as_str().unwrap().starts_with("Do not do it yet."), "{answer}");
    }
    world.is_refused("action", &held, with(pay("done"), "outcome", json!("it happened")), "lease_lost");
    let evidence = world.detail(&held.id).events.pop().expect("an event");
    assert!(evidence.data["brought"].as_str().unwrap().contains("it happened"), "{evidence:?}");
    let third = next_attempt(&world, &second);
    assert_eq!(essence(&world.does("action", &third, pay("begin"))), (false, "unknown", &Json::Null, 1));
    let done = world.does("action", &third, with(pay("done"), "outcome", json!("found it")));
    assert_eq!(essence(&done), (false, "done", &json!("found it"), 1));
}

/// A later attempt that has looked need not begin first.
#[test]
fn a_later_attempt_may_say_at_once_what_came_of_it() {
    let (world, held) = at_work();
    world.does("action", &held, pay("begin"));
    let second = next_attempt(&world, &held);
    let done = world.does("action", &second, with(pay("done"), "outcome", json!("found it")));
    assert_eq!(essence(&done), (false, "done", &json!("found it"), 1));
    let events = world.detail(&held.id).events;
    let actions: Vec<_> = events.iter().filter(|event| event.kind == "action").collect();
    assert_eq!(actions.iter().map(|event| event.attempt).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(actions[1].data["status"], json!("done"));
}

#[test]
fn what_failed_may_be_begun_again() {
    let (world, held) = at_work();
    world.does("action", &held, pay("begin"));
    let failed = world.does("action", &held, with(pay("failed"), "outcome", json!("declined")));
    assert_eq!(essence(&failed), (false, "failed", &json!("declined"), 1));
    let again = world.does("action", &held, pay("failed"));
    assert_eq!(essence(&again), (false, "failed", &json!("declined"), 1));
    world.is_refused("action", &held, pay("done"), "action_not_begun");
    let second = next_attempt(&world, &held);
    let begun = world.does("action", &second, pay("begin"));
    assert_eq!(essence(&begun), (false, "begun", &Json::Null, 2), "it is the second attempt's now");
    assert_eq!(essence(&world.does("action", &second, pay("begin"))), (false, "begun", &Json::Null, 2));
    let third = next_attempt(&world, &second);
    assert_eq!(essence(&world.does("action", &third, pay("begin"))), (false, "unknown", &Json::Null, 2));
}

#[test]
fn an_outcome_without_a_beginning_is_refused() {
    let (world, held) = at_work();
    let before = world.db.dump();
    for status in ["done", "failed"] {
        let (code, answer) = world.attempt("action", &held, pay(status));
        assert_eq!((code, &answer["code"], &answer["retryable"]), (409, &json!("action_not_begun"), &json!(false)));
        assert!(answer["detail"].as_str().unwrap().contains("\"begin\""), "{answer}");
    }
    assert_eq!(world.db.dump(), before);
}

/// The key is the action's: not of the order of its parameters, nor of how a number is written, nor of the attempt.
#[test]
fn the_same_action_in_other_words_is_the_same() {
    let (world, held) = at_work();
    let act = |params: Json| json!({ "step_id": "s", "tool": "t", "params": params, "status": "begin" });
    let same: [Json; 3] = [
        json!({ "a": 1, "b": [true, 1e3] }),
        serde_json::from_str(r#"{ "b": [true, 1000.0], "a": 1.0 }"#).unwrap(),
        serde_json::from_str(r#"{"\u0061":10e-1,"b":[true,1000]}"#).unwrap(),
    ];
    assert_eq!(world.does("action", &held, act(same[0].clone()))["first"], json!(true));
    for params in same {
        assert_eq!(world.does("action", &held, act(params.clone()))["first"], json!(false), "{params}");
    }
    let other =
        [json!({ "a": 1, "b": [1000, true] }), json!({ "a": 2, "b": [true, 1000] }), json!({}), Json::Null, json!("")];
    for params in other {
        assert_eq!(world.does("action", &held, act(params.clone()))["first"], json!(true), "{params}");
    }
    let without = world.does("action", &held, json!({ "step_id": "s", "tool": "t", "status": "begin" }));
    assert_eq!(without["first"], json!(false), "no parameters are null");
    // Nothing of one part can pass for a piece of another.
    for (step, tool) in [("s", "t "), ("s ", "t"), ("st", "t"), ("s\",\"t", "t"), ("s", "s")] {
        let begun = world.does("action", &held, json!({ "step_id": step, "tool": tool, "status": "begin" }));
        assert_eq!(begun["first"], json!(true), "{step} {tool}");
    }
}

#[test]
fn a_wrong_field_is_named() {
    let (world, held) = at_work();
    let long = "x".repeat(ACTION_NAME_BYTES_MAX + 1);
    let big = json!("x".repeat(ACTION_PARAMS_BYTES_MAX - 1));
    for (field, value) in [
        ("step_id", json!("")),
        ("step_id", json!(" \n")),
        ("step_id", json!(long)),
        ("tool", json!("")),
        ("tool", json!(long)),
        ("params", big),
        ("params", json!({ "id": 9_007_199_254_740_993_u64 })),
        ("params", json!([-9_007_199_254_740_992_i64])),
        ("params", json!({ "deep": [{ "n": 1e16 }] })),
        ("outcome", json!("a beginning has none")),
        ("status", json!("started")),
        ("steps", json!(1)),
    ] {
        let (status, answer) = world.attempt("action", &held, with(pay("begin"), field, value.clone()));
        assert_eq!((status, &answer["code"]), (400, &json!("bad_request")), "{field} {value}");
        assert!(answer["detail"].as_str().unwrap().contains(field) || field == "status", "{answer}");
    }
    world.does("action", &held, pay("begin"));
    let outcome = json!("x".repeat(ACTION_OUTCOME_BYTES_MAX - 1));
    let (status, answer) = world.attempt("action", &held, with(pay("done"), "outcome", outcome));
    assert_eq!(status, 400, "{answer}");
    let most = json!("x".repeat(ACTION_OUTCOME_BYTES_MAX - 2));
    assert_eq!(world.does("action", &held, with(pay("done"), "outcome", most.clone()))["outcome"], most);
    let edge = json!({
        "step_id": "s".repeat(ACTION_NAME_BYTES_MAX), "tool": "t".repeat(ACTION_NAME_BYTES_MAX), "status": "begin",
        "params": "p".repeat(ACTION_PARAMS_BYTES_MAX - 2),
    });
    assert_eq!(world.does("action", &held, edge)["first"], json!(true));
    let exact = json!({ "step_id": "s", "tool": "t", "params": 9_007_199_254_740_991_u64, "status": "begin" });
    assert_eq!(world.does("action", &held, exact)["first"], json!(true));
}

#[test]
fn a_ledger_is_bounded_and_what_is_in_it_still_ends() {
    let (world, held) = at_work();
    let act = |n: u32, status: &str| json!({ "step_id": format!("s{n}"), "tool": "t", "status": status });
    for n in 0..ACTIONS_MAX {
        assert_eq!(world.does("action", &held, act(n, "begin"))["first"], json!(true));
    }
    world.is_refused("action", &held, act(ACTIONS_MAX, "begin"), "too_many_actions");
    assert_eq!(world.does("action", &held, act(0, "begin"))["status"], json!("begun"));
    for n in 0..ACTIONS_MAX {
        world.does("action", &held, act(n, "done"));
    }
    let detail = world.detail(&held.id);
    assert_eq!((detail.actions.len(), detail.events.len()), (ACTIONS_MAX as usize, EVENTS_READ_MAX));
    let steps: Vec<String> = (0..ACTIONS_MAX).map(|n| format!("s{n}")).collect();
    assert_eq!(detail.actions.iter().map(|action| action.step_id.clone()).collect::<Vec<_>>(), steps, "in their order");
}

/// What people said long ago is not crowded out by what was recorded since.
#[test]
fn many_records_do_not_hide_a_persons_answer() {
    let (world, held) = at_work();
    world.does("heartbeat", &held, json!({ "question": "Which?" }));
    world.answer(&held.id, "The red one.").unwrap();
    world.does("heartbeat", &held, json!({}));
    for n in 0..ACTIONS_MAX {
        world.does("action", &held, json!({ "step_id": format!("s{n}"), "tool": "t", "status": "begin" }));
        world.does("action", &held, json!({ "step_id": format!("s{n}"), "tool": "t", "status": "done" }));
    }
    let beat = world.does("heartbeat", &held, json!({}));
    assert_eq!(beat["messages"][0]["text"], json!("The red one."));
    let second = next_attempt(&world, &held);
    let texts: Vec<String> = world.detail(&second.id).messages.into_iter().map(|message| message.text).collect();
    assert_eq!(texts, ["Which?", "The red one."]);
}

#[test]
fn nothing_is_recorded_while_a_person_is_waited_for() {
    let (world, held) = at_work();
    world.does("action", &held, pay("begin"));
    world.does("heartbeat", &held, json!({ "question": "Which?" }));
    let before = world.db.dump();
    for status in ["begin", "done", "failed"] {
        world.is_refused("action", &held, pay(status), "not_working");
    }
    assert_eq!(world.db.dump(), before);
    world.does("heartbeat", &held, json!({}));
    world.does("action", &held, pay("done"));
}

#[test]
fn a_record_does_not_renew_the_lease() {
    let (world, held) = at_work();
    let lease = world.life(&held.id).lease_expires_at;
    world.pass(10_000);
    world.does("action", &held, pay("begin"));
    assert_eq!(world.life(&held.id).lease_expires_at, lease);
}

/// The next attempt, the submitter and the owner see the same.
#[test]
fn everyone_is_shown_the_actions() {
    let (world, held) = at_work();
    let act = |step: &str, status: &str| json!({ "step_id": step, "tool": "t", "params": [1], "status": status });
    for step in ["a", "b", "c"] {
        world.does("action", &held, act(step, "begin"));
        world.pass(1);
    }
    world.does("action", &held, with(act("a", "done"), "outcome", json!({ "id": 1 })));
    world.does("action", &held, with(act("b", "failed"), "outcome", json!("no")));
    let seen = |actions: &Json| -> Vec<(String, String, Json)> {
        let text = |action: &Json, field: &str| action[field].as_str().unwrap().to_owned();
        let all = actions.as_array().unwrap_or_else(|| panic!("{actions}"));
        all.iter().map(|one| (text(one, "step_id"), text(one, "status"), one["outcome"].clone())).collect()
    };
    let rows = |last: &str| {
        vec![
            ("a".to_owned(), "done".to_owned(), json!({ "id": 1 })),
            ("b".to_owned(), "failed".to_owned(), json!("no")),
            ("c".to_owned(), last.to_owned(), Json::Null),
        ]
    };
    let shown = |world: &World| world.owner("GET", &format!("/api/tasks/{}", held.id), Json::Null).1["actions"].clone();
    assert_eq!(seen(&shown(&world)), rows("begun"));
    world.pass(299_997);
    assert_eq!(seen(&shown(&world)), rows("unknown"), "the lease is over, whether it was swept or not");
    world.pass_and_sweep(0);
    assert_eq!(seen(&shown(&world)), rows("unknown"));
    let (status, claim) = world.call("POST", "/executor/claim", &held.key, json!({}));
    assert_eq!(status, 200);
    let actions = &claim["context"]["actions"];
    assert_eq!(seen(actions), rows("unknown"));
    let began_at = world.now() - 300_000;
    let first = json!({
        "step_id": "a", "tool": "t", "params": [1], "idempotency_key": key(&held.id, "a", "t", &json!([1])), "status": "done",
        "outcome": { "id": 1 }, "attempt": 1, "began_at": began_at, "ended_at": began_at + 3,
    });
    assert_eq!(actions[0], first);
}

/// A task that records nothing is not shown anything, and pays nothing for it.
#[test]
fn a_first_claim_reads_no_ledger() {
    let (world, held) = at_work();
    let (_, claim) = world.call("POST", "/executor/claim", &held.key, json!({}));
    assert_eq!(claim, Json::Null);
    let id = world.submit(&crate::support::task_for("bot"));
    let (_, claim) = world.call("POST", "/executor/claim", &held.key, json!({}));
    assert_eq!((&claim["task"]["id"], &claim["context"]["actions"]), (&json!(id), &json!([])));
}

#[test]
fn the_actions_leave_with_their_task() {
    let (world, held) = at_work();
    world.does("action", &held, pay("begin"));
    let other = world.working("bot", &held.key);
    world.does("action", &other, pay("begin"));
    world.does("result", &held, json!({ "status": "completed" }));
    world.pass(31 * 86_400_000);
    world.run(|hub| hub::purge(hub, "")).0.unwrap();
    let left = world.db.rows("SELECT task_id FROM actions");
    assert_eq!(left, [vec![other.id.as_str().into()]]);
}

/// The same work, done again as a new task, is other work: the submitter wants it once more.
#[test]
fn a_retried_task_has_a_ledger_of_its_own() {
    let (world, held) = at_work();
    world.does("action", &held, pay("begin"));
    world.does("result", &held, json!({ "status": "failed", "error": "no" }));
    world.run(|hub| hub::retry_task(hub, "owner", &held.id)).0.unwrap();
    let retried = world.claim(&held.key);
    assert_eq!(world.does("action", &retried, pay("begin"))["first"], json!(true));
}
