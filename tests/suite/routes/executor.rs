//! `/executor/*`

use serde_json::{Value as Json, json};
use taskhub::http::message::{Outcome, Request, Topic};
use taskhub::http::router;

use super::{at_work, header, problem};
use crate::support::{World, request, task_for, task_in};

#[test]
fn the_main_job_end_to_end() {
    let world = World::new();
    let key = world.executor("bot", &["default"]);
    let id = world.submit(&task_for("bot"));
    let (status, claim) = world.call("POST", "/executor/claim", &key, json!({ "request_id": "one" }));
    assert_eq!(status, 200, "{claim}");
    assert_eq!(claim["task"]["id"], json!(id));
    let token = &claim["claim_token"];
    let body = json!({ "task_id": id, "claim_token": token, "note": "on it" });
    let (status, beat) = world.call("POST", "/executor/heartbeat", &key, body);
    assert_eq!(status, 200, "{beat}");
    let result = json!({ "task_id": id, "claim_token": token, "status": "completed", "result": "20:00" });
    let (status, ended) = world.call("POST", "/executor/result", &key, result.clone());
    assert_eq!((status, &ended["state"]), (200, &json!("completed")), "{ended}");
    let again = world.call("POST", "/executor/result", &key, result);
    assert_eq!(again, (200, ended), "the same result again is the same answer");
}

#[test]
fn nothing_to_claim_is_204_without_a_body() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let response = world.send(&request("POST", "/executor/claim", &key, &json!({})));
    assert_eq!((response.status, response.body.len()), (204, 0));
}

#[test]
fn answers_are_json_that_no_cache_keeps() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let response = world.send(&request("POST", "/executor/ping", &key, &json!({})));
    assert_eq!(header(&response, "content-type"), Some("application/json"));
    assert_eq!(header(&response, "cache-control"), Some("no-store"));
}

#[test]
fn the_claim_token_may_travel_in_a_header() {
    let (world, held) = at_work();
    let with_token = |token: &str, body: &Json| {
        let mut request = request("POST", "/executor/heartbeat", &held.key, body);
        request.headers.push(("x-claim-token".to_owned(), token.to_owned()));
        request
    };
    let body = json!({ "task_id": held.id });
    assert_eq!(world.send(&with_token(&held.token, &body)).status, 200);
    problem(&world.send(&with_token("clm_1.wrong", &body)), 409, "lease_lost");
    let both = json!({ "task_id": held.id, "claim_token": held.token });
    assert_eq!(world.send(&with_token("clm_1.wrong", &both)).status, 200, "the one in the body counts");
    let detail = problem(&world.send(&request("POST", "/executor/heartbeat", &held.key, &body)), 400, "bad_request");
    assert!(detail.contains("X-Claim-Token"), "{detail}");
    let mut in_url = request("POST", "/executor/heartbeat", &held.key, &body);
    in_url.query = format!("claim_token={}", held.token);
    problem(&world.send(&in_url), 400, "bad_request");
}

#[test]
fn every_refusal_says_what_to_do_next() {
    let (world, held) = at_work();
    let call = |verb: &str, more: Json| {
        let mut body = json!({ "task_id": held.id, "claim_token": held.token });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.send(&request("POST", &format!("/executor/{verb}"), &held.key, &body))
    };
    let unknown = json!({ "task_id": "t_000000000_0000000000000000" });
    assert!(problem(&call("heartbeat", unknown), 404, "task_not_found").contains("task_id"));
    assert!(problem(&call("heartbeat", json!({ "task_id": "nonsense" })), 404, "task_not_found").contains("t_"));
    let wrong = json!({ "claim_token": "clm_1.wrong" });
    assert!(problem(&call("heartbeat", wrong), 409, "lease_lost").contains("send the claim again"));

    world.does("heartbeat", &held, json!({ "question": "Which?" }));
    assert!(problem(&call("release", json!({})), 409, "not_working").contains("send a heartbeat"));
    world.pass_and_sweep(86_400_000);
    assert!(problem(&call("heartbeat", json!({})), 409, "already_finished").contains("claim the next one"));

    let canceled = world.working("bot", &held.key);
    world.cancel(&canceled.id).unwrap();
    let body = json!({ "task_id": canceled.id, "claim_token": canceled.token });
    let response = world.send(&request("POST", "/executor/heartbeat", &held.key, &body));
    assert!(problem(&response, 409, "canceled").contains("Stop working"));
}

#[test]
fn a_body_that_does_not_fit_is_refused_in_words_of_json() {
    let (world, held) = at_work();
    let why =
        |path: &str, body: Json| problem(&world.send(&request("POST", path, &held.key, &body)), 400, "bad_request");
    assert!(why("/executor/claim", json!({ "wait_seconds": -1 })).contains("expected a whole number from 0 on."));
    assert!(why("/executor/claim", json!({ "queues": [null] })).contains("leave the field out"));
    assert!(why("/executor/claim", json!({ "queues": "errands" })).contains("expected an array."));
    let beat = json!({ "task_id": held.id, "claim_token": held.token, "progress": "50%" });
    assert!(why("/executor/heartbeat", beat).contains("expected a number."));
    let result = json!({ "task_id": held.id, "claim_token": held.token, "status": "completed", "next": true });
    assert!(why("/executor/result", result).contains("expected an object."));
}

#[test]
fn a_lost_lease_says_why() {
    let (world, held) = at_work();
    let why = |world: &World| {
        let body = json!({ "task_id": held.id, "claim_token": held.token });
        problem(&world.send(&request("POST", "/executor/heartbeat", &held.key, &body)), 409, "lease_lost")
    };
    world.pass(300_000);
    assert!(why(&world).starts_with("The lease has expired"));
    world.pass_and_sweep(0);
    assert!(why(&world).starts_with("The attempt is over"));
    world.claim(&held.key);
    assert!(why(&world).starts_with("The claim token is of an earlier attempt"));
}

#[test]
fn a_storage_that_fails_is_500_and_worth_a_retry() {
    let (world, held) = at_work();
    for statement in 0..4 {
        world.db.fail_in(Some(statement));
        let body = json!({ "task_id": held.id, "claim_token": held.token });
        let response = world.send(&request("POST", "/executor/heartbeat", &held.key, &body));
        if world.db.call_off() {
            assert_eq!(response.status, 200);
            return;
        }
        let detail = problem(&response, 500, "internal");
        assert!(!detail.contains("a test asked"), "the inner reason is for the log: {detail}");
        assert_eq!(header(&response, "retry-after"), Some("5"));
    }
}

fn claim(key: &str, body: Json) -> Request {
    request("POST", "/executor/claim", key, &body)
}

#[test]
fn a_claim_that_waits_is_answered_when_work_comes() {
    let world = World::new();
    let key = world.executor("bot", &["a", "b"]);
    let mut request = claim(&key, json!({ "wait_seconds": 25 }));
    let wait = world.send_waiting(&request);
    let addresses = ["@bot", "a", "b"].map(str::to_owned).to_vec();
    assert_eq!((wait.until, &wait.on), (world.now() + 25_000, &Topic::Ready(addresses)));

    world.pass(10_000);
    request.resumed = Some(wait.clone());
    assert_eq!(world.send_waiting(&request), wait, "called for nothing, it waits on to the same end");
    let (id, effects) = world.submit_with_effects(&task_in("b"));
    assert_eq!(effects.ready, ["b"], "this is what wakes it");
    let response = world.send(&request);
    let body: Json = serde_json::from_slice(&response.body).unwrap();
    assert_eq!((response.status, &body["task"]["id"]), (200, &json!(id)));
}

#[test]
fn a_claim_that_waits_in_vain_is_204_at_its_end() {
    let world = World::new();
    let key = world.executor("bot", &["a", "b"]);
    let mut request = claim(&key, json!({ "wait_seconds": 5, "queues": ["a"] }));
    let before = world.db.dump();
    let wait = world.send_waiting(&request);
    assert_eq!(wait.on, Topic::Ready(vec!["@bot".to_owned(), "a".to_owned()]));
    world.pass(4_999);
    request.resumed = Some(wait);
    assert!(matches!(router::handle(&world.hub(), &request), Outcome::Wait(_)));
    world.pass(1);
    assert_eq!(world.send(&request).status, 204);
    assert_eq!(world.db.dump(), before, "waiting writes nothing");
}

#[test]
fn a_wait_ends_with_its_key() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let mut request = claim(&key, json!({ "wait_seconds": 25 }));
    request.resumed = Some(world.send_waiting(&request));
    for _ in 0..2 {
        world.owner("POST", "/api/executors/bot/keys", json!({}));
    }
    problem(&world.send(&request), 401, "unauthorized");
}

#[test]
fn a_wait_has_a_limit() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let detail = problem(&world.send(&claim(&key, json!({ "wait_seconds": 26 }))), 400, "bad_request");
    assert!(detail.starts_with("wait_seconds"), "{detail}");
    assert_eq!(world.send(&claim(&key, json!({ "wait_seconds": 0 }))).status, 204);
}

#[test]
fn a_question_that_asks_nothing_blocks_nobody() {
    let (world, held) = at_work();
    for blank in ["", "  \n"] {
        for (call, body) in [
            ("heartbeat", json!({ "task_id": held.id, "claim_token": held.token, "question": blank })),
            (
                "result",
                json!({ "task_id": held.id, "claim_token": held.token, "status": "blocked", "question": blank }),
            ),
        ] {
            let (status, answer) = world.call("POST", &format!("/executor/{call}"), &held.key, body);
            assert_eq!((status, &answer["code"]), (400, &json!("bad_request")), "{answer}");
            assert!(answer["detail"].as_str().unwrap().contains("leave it out"), "{answer}");
        }
    }
    assert_eq!(world.state(&held.id).as_str(), "working");
}

#[test]
fn a_field_that_is_null_counts_as_left_out() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let id = world.submit(&task_for("bot"));
    let all_null = json!({ "request_id": null, "queues": null, "wait_seconds": null });
    let (status, claim) = world.call("POST", "/executor/claim", &key, all_null);
    assert_eq!(status, 200, "{claim}");
    let body = json!({
        "task_id": id, "claim_token": claim["claim_token"], "status": "completed", "result": "done", "data": null,
        "error": null, "retryable": null, "external_actions": null, "question": null, "next": null,
    });
    let (status, ended) = world.call("POST", "/executor/result", &key, body);
    assert_eq!(status, 200, "{ended}");
}

#[test]
fn a_mistyped_token_of_a_living_claim_does_not_say_that_the_work_is_lost() {
    let (world, held) = at_work();
    let mistyped = format!("{}x", &held.token[..held.token.len() - 1]);
    let body = json!({ "task_id": held.id, "claim_token": mistyped });
    let (status, answer) = world.call("POST", "/executor/heartbeat", &held.key, body);
    assert_eq!((status, &answer["code"]), (409, &json!("lease_lost")), "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("exactly as you got it"), "{answer}");
    assert!(!answer["detail"].as_str().unwrap().contains("discard"), "{answer}");
}

#[test]
fn a_heartbeat_that_waits_for_an_answer_is_told_how_to_wait_on() {
    let (world, held) = at_work();
    let body = json!({ "task_id": held.id, "claim_token": held.token, "question": "Which?" });
    let (_, beat) = world.call("POST", "/executor/heartbeat", &held.key, body);
    assert_eq!(beat["state"], json!("input-required"));
    assert!(beat["next"].as_str().unwrap().contains("withdraws the question"), "{beat}");
}
