//! `claim`: which task, for whom, how many, and once per request id.

use serde_json::{Value as Json, json};
use taskhub::hub::{Submit, When};

use crate::support::{World, held, task_for, task_in};

fn claim(world: &World, key: &str, body: Json) -> (u16, Json) {
    world.call("POST", "/executor/claim", key, body)
}

#[test]
fn the_most_urgent_task_comes_first_then_the_oldest() {
    let world = World::new();
    let key = world.executor("bot", &["a", "b"]);
    let with = |input: Submit, priority| {
        world.pass(10);
        world.submit(&Submit { priority: Some(priority), ..input })
    };
    let usual = with(task_for("bot"), 5);
    let last = with(task_in("a"), 0);
    let urgent_late = with(task_in("b"), 9);
    let urgent_later = with(task_for("bot"), 9);
    let usual_late = with(task_in("a"), 5);
    let order: Vec<String> = (0..5).map(|_| world.claim(&key).id).collect();
    assert_eq!(order, [urgent_late, urgent_later, usual, usual_late, last]);
    assert_eq!(claim(&world, &key, json!({})).0, 204);
}

#[test]
fn only_what_is_addressed_to_it_or_to_its_queues() {
    let world = World::new();
    let bot = world.executor("bot", &["a", "b"]);
    let ant = world.executor("ant", &["b"]);
    let for_bot = world.submit(&task_for("bot"));
    let in_a = world.submit(&task_in("a"));
    assert_eq!(claim(&world, &ant, json!({})).0, 204);
    let in_b = world.submit(&task_in("b"));
    assert_eq!(world.claim(&ant).id, in_b);
    let (status, answer) = claim(&world, &ant, json!({ "queues": ["a"] }));
    assert_eq!((status, &answer["code"]), (400, &json!("bad_request")));
    assert!(answer["detail"].as_str().unwrap().contains("It serves: b."), "{answer}");

    let (_, first) = claim(&world, &bot, json!({ "queues": [] }));
    assert_eq!(first["task"]["id"], json!(for_bot), "what is addressed to itself is always served");
    assert_eq!(claim(&world, &bot, json!({ "queues": ["b"] })).0, 204);
    let (_, second) = claim(&world, &bot, json!({ "queues": ["a"] }));
    assert_eq!((&second["task"]["id"], &second["task"]["queue"]), (&json!(in_a), &json!("a")));
    assert_eq!(second["task"]["executor"], Json::Null);
}

/// Rule 1 and gastownhall/beads#5998: two claimers, one task.
#[test]
fn many_claimers_never_share_a_task() {
    let world = World::new();
    let keys: Vec<String> = (0..8).map(|index| world.executor(&format!("bot{index}"), &["q"])).collect();
    let mut open: Vec<String> = (0..40).map(|_| world.submit(&task_in("q"))).collect();
    for round in 0.. {
        let (status, answer) = claim(&world, &keys[round % 8], json!({}));
        if status == 204 {
            break;
        }
        let id = answer["task"]["id"].as_str().unwrap();
        let index = open.iter().position(|other| other == id).expect("each task is taken once");
        open.remove(index);
    }
    assert!(open.is_empty());
}

#[test]
fn a_claim_says_all_that_an_attempt_needs() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let input = Submit {
        context: Some(json!({ "people": 2 })),
        deadline: Some(When::In(3_600)),
        max_attempts: Some(4),
        ..task_for("bot")
    };
    let id = world.submit(&input);
    world.pass(1_000);
    let (_, answer) = claim(&world, &key, json!({}));
    let token = answer["claim_token"].clone();
    let expected = json!({
        "task": {
            "id": id, "title": "book a table", "instructions": "for two, at eight", "context": { "people": 2 },
            "priority": 5, "executor": "bot", "queue": null, "attempt": 1, "failures": 0, "max_attempts": 4,
            "created_at": world.now() - 1_000, "deadline_at": world.now() + 3_599_000, "retry_of": null,
        },
        "attempt": 1, "claim_token": token, "lease_expires_at": world.now() + 300_000, "lease_seconds": 300,
        "heartbeat_every_seconds": 100,
        "context": {
            "checkpoint": null, "messages": [], "notes": [], "actions": [], "input_files": [],
            "files": [], "depends_on": [],
        },
    });
    assert_eq!(answer, expected);
    assert!(token.as_str().unwrap().starts_with("clm_1."));
}

#[test]
fn an_attempt_is_told_what_earlier_ones_left() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let first = world.working("bot", &key);
    world.does("heartbeat", &first, json!({ "note": "half done", "checkpoint": { "page": 7 } }));
    world.does("result", &first, json!({ "status": "failed", "retryable": true, "error": "the line broke" }));
    world.pass_and_sweep(60_000);
    let second = world.claim(&key);
    world.does("release", &second, json!({ "note": "shutting down" }));
    let (_, answer) = claim(&world, &key, json!({}));
    assert_eq!(answer["context"]["checkpoint"], json!({ "page": 7 }));
    let notes: Vec<_> = answer["context"]["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| (&n["attempt"], &n["ended"], &n["note"]))
        .collect();
    let expected =
        [(json!(1), json!("failed"), json!("the line broke")), (json!(2), json!("released"), json!("shutting down"))];
    assert_eq!(notes, expected.iter().map(|(a, b, c)| (a, b, c)).collect::<Vec<_>>());
    assert_eq!((&answer["attempt"], &answer["task"]["failures"]), (&json!(3), &json!(1)));
}

/// What one attempt reported must not look like the outcome of the next.
#[test]
fn an_attempt_begins_without_the_outcome_of_the_one_before() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let first = world.working("bot", &key);
    let report = json!({ "status": "failed", "retryable": true, "error": "broke", "result": "half", "data": [1] });
    world.does("heartbeat", &first, json!({ "note": "at work", "progress": 0.5 }));
    world.does("result", &first, report);
    assert_eq!(world.detail(&first.id).full.error.as_deref(), Some("broke"), "while it waits, it tells why");
    world.pass_and_sweep(60_000);
    let second = world.claim(&key);
    world.does("result", &second, json!({ "status": "completed" }));
    let full = world.detail(&first.id).full;
    assert_eq!((full.error, full.result, full.data), (None, None, None));
    assert_eq!((full.head.note, full.head.progress), (None, None));
}

#[test]
fn an_executor_works_on_as_many_tasks_as_it_may() {
    let world = World::new();
    let body = json!({ "name": "bot", "max_concurrent": 2 });
    let key = world.owner("POST", "/api/executors", body).1["key"].as_str().unwrap().to_owned();
    for _ in 0..4 {
        world.submit(&task_for("bot"));
    }
    let first = world.claim(&key);
    let second = world.claim(&key);
    assert_eq!(claim(&world, &key, json!({})).0, 204);
    world.does("heartbeat", &first, json!({ "question": "Which?" }));
    world.claim(&key);
    assert_eq!(claim(&world, &key, json!({})).0, 204, "what waits for a person does not count");
    world.does("result", &second, json!({ "status": "completed" }));
    world.claim(&key);
}

/// Rule 4: the answer was lost, the same request id gets it again.
#[test]
fn a_request_id_claims_once() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    world.submit(&task_for("bot"));
    world.submit(&task_for("bot"));
    let (_, first) = claim(&world, &key, json!({ "request_id": "r" }));
    let before = world.db.dump();
    world.pass(1_000);
    let (status, again) = claim(&world, &key, json!({ "request_id": "r" }));
    assert_eq!((status, &again), (200, &first));
    assert_eq!(world.db.dump(), before);
    let (_, other) = claim(&world, &key, json!({ "request_id": "s" }));
    assert_ne!(other["task"]["id"], first["task"]["id"]);
}

#[test]
fn a_repeated_claim_shows_the_lease_as_it_is_now() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    world.submit(&task_for("bot"));
    let (_, first) = claim(&world, &key, json!({ "request_id": "r" }));
    world.pass(100_000);
    world.does("heartbeat", &held(&key, &first), json!({}));
    let (_, again) = claim(&world, &key, json!({ "request_id": "r" }));
    assert_eq!(again["claim_token"], first["claim_token"]);
    assert_eq!(again["lease_expires_at"], json!(world.now() + 300_000));
}

#[test]
fn a_request_id_belongs_to_its_executor() {
    let world = World::new();
    let (bot, ant) = (world.executor("bot", &["q"]), world.executor("ant", &["q"]));
    world.submit(&task_in("q"));
    world.submit(&task_in("q"));
    let (_, one) = claim(&world, &bot, json!({ "request_id": "r" }));
    let (_, two) = claim(&world, &ant, json!({ "request_id": "r" }));
    assert_ne!(one["task"]["id"], two["task"]["id"]);
}

#[test]
fn a_request_id_is_over_when_its_claim_is() {
    type End = (&'static str, &'static str, fn(&World, &crate::support::Held));
    let ends: [End; 6] = [
        ("completed", "completed", |world, held| drop(world.does("result", held, json!({ "status": "completed" })))),
        ("released", "submitted", |world, held| drop(world.does("release", held, json!({})))),
        ("canceled", "canceled", |world, held| drop(world.cancel(&held.id).unwrap())),
        ("expired", "working", |world, _| world.pass(300_000)),
        ("swept", "submitted", |world, _| drop(world.pass_and_sweep(300_000))),
        ("out of its input limit", "input-required", |world, held| {
            world.does("heartbeat", held, json!({ "question": "Which?" }));
            world.pass(86_400_000);
        }),
    ];
    for (name, state, end) in ends {
        let world = World::new();
        let key = world.executor("bot", &[]);
        world.submit(&task_for("bot"));
        let (_, first) = claim(&world, &key, json!({ "request_id": "r" }));
        end(&world, &held(&key, &first));
        let before = world.db.dump();
        let (status, answer) = claim(&world, &key, json!({ "request_id": "r" }));
        assert_eq!((status, &answer["code"]), (409, &json!("claim_ended")), "{name}: {answer}");
        let detail = answer["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("is {state})")) && detail.contains("new request_id"), "{name}: {detail}");
        assert_eq!(world.db.dump(), before, "{name}");
    }
}

#[test]
fn a_request_id_is_over_at_the_deadline() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    world.submit(&Submit { deadline: Some(When::In(60)), ..task_for("bot") });
    claim(&world, &key, json!({ "request_id": "r" }));
    world.pass(59_999);
    assert_eq!(claim(&world, &key, json!({ "request_id": "r" })).0, 200);
    world.pass(1);
    assert_eq!(claim(&world, &key, json!({ "request_id": "r" })).1["code"], "claim_ended");
}

#[test]
fn a_claim_that_waits_for_a_person_is_still_the_same() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    world.submit(&task_for("bot"));
    let (_, first) = claim(&world, &key, json!({ "request_id": "r" }));
    world.does("heartbeat", &held(&key, &first), json!({ "question": "Which?" }));
    let (status, again) = claim(&world, &key, json!({ "request_id": "r" }));
    assert_eq!((status, &again["claim_token"]), (200, &first["claim_token"]));
    assert_eq!(again["lease_expires_at"], Json::Null);
}

/// Rows are the currency: when an executor claimed last is written once a minute.
#[test]
fn the_time_of_a_claim_is_noted_once_a_minute() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let noted_after = |ms: i64| {
        world.pass(ms);
        world.working("bot", &key);
        let (_, list) = world.owner("GET", "/api/executors", Json::Null);
        world.now() - list["executors"][0]["last_claim_at"].as_i64().unwrap()
    };
    assert_eq!([0, 1, 59_998, 1].map(noted_after), [0, 1, 59_999, 0]);
}

#[test]
fn nothing_found_is_nothing_kept() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let before = world.db.dump();
    assert_eq!(claim(&world, &key, json!({ "request_id": "r" })).0, 204);
    assert_eq!(world.db.dump(), before, "an empty poll writes nothing");
    world.submit(&task_for("bot"));
    assert_eq!(claim(&world, &key, json!({ "request_id": "r" })).0, 200, "the id is still good");
}

#[test]
fn a_request_id_and_queues_have_limits() {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    for body in [
        json!({ "request_id": "" }),
        json!({ "request_id": "r".repeat(201) }),
        json!({ "queues": vec!["q"; 17] }),
        json!({ "queues": ["nonsense"] }),
    ] {
        let (status, answer) = claim(&world, &key, body);
        assert_eq!((status, &answer["code"]), (400, &json!("bad_request")), "{answer}");
    }
    let largest = json!({ "request_id": "r".repeat(200), "queues": vec!["q"; 16] });
    assert_eq!(claim(&world, &key, largest).0, 204);
}
