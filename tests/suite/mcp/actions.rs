//! The ledger of outside actions over MCP: recording, and what the submitter and the next attempt are shown of it.

use serde_json::{Value as Json, json};
use taskhub::domain::limits::{ACTION_OUTCOME_BYTES_MAX, ACTION_PARAMS_BYTES_MAX};
use taskhub::mcp::tools::Tool;

use super::execute::{at_work, call, state, submit};
use crate::support::{OWNER_TOKEN, World};

/// Claims the next task and returns the answer with what every call under it needs.
fn claim(world: &World, bearer: &str, request_id: &str) -> (Json, Json) {
    let claimed = call(world, bearer, Tool::ClaimTask, json!({ "request_id": request_id })).unwrap();
    let own = json!({ "task_id": claimed["task_id"], "claim_token": claimed["claim_token"] });
    (claimed, own)
}

fn with(own: &Json, more: Json) -> Json {
    let mut all = own.clone();
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

fn pay(status: &str) -> Json {
    json!({ "step_id": "pay", "tool": "stripe", "params": { "sum": 12.5 }, "status": status })
}

#[test]
fn an_action_is_recorded_and_shown_to_everyone() {
    let (world, bearer) = at_work();
    let id = submit(&world, json!({}));
    let (claimed, own) = claim(&world, &bearer, "one");
    assert_eq!(claimed.get("actions"), None, "there are none");
    let begun = call(&world, &bearer, Tool::RecordAction, with(&own, pay("begin"))).unwrap();
    assert_eq!((&begun["first"], &begun["status"], &begun["attempt"]), (&json!(true), &json!("begun"), &json!(1)));
    assert_eq!(state(&world, &id)["actions"][0]["status"], "begun");
    let done = with(&with(&own, pay("done")), json!({ "outcome": { "receipt": 7 } }));
    let ended = call(&world, &bearer, Tool::RecordAction, done.clone()).unwrap();
    assert_eq!((&ended["status"], &ended["outcome"]), (&json!("done"), &json!({ "receipt": 7 })));
    assert_eq!(call(&world, &bearer, Tool::RecordAction, done).unwrap()["outcome"], json!({ "receipt": 7 }));
    let shown = &state(&world, &id)["actions"][0];
    assert_eq!((&shown["tool"], &shown["params"]), (&json!("stripe"), &json!({ "sum": 12.5 })));
    assert_eq!((&shown["status"], &shown["outcome"]), (&json!("done"), &json!({ "receipt": 7 })));
    assert_eq!(shown["idempotency_key"], begun["idempotency_key"]);
}

#[test]
fn a_wrong_record_says_what_to_do() {
    let (world, bearer) = at_work();
    submit(&world, json!({}));
    let (_, own) = claim(&world, &bearer, "one");
    for (more, code, words) in [
        (pay("done"), "action_not_begun", "send status \"begin\""),
        (with(&pay("begin"), json!({ "outcome": 1 })), "invalid_arguments", "leave it out of begin"),
        (with(&pay("begin"), json!({ "step_id": " " })), "bad_request", "step_id: It must have 1 to"),
        (with(&pay("begin"), json!({ "params": 9_007_199_254_740_993_u64 })), "bad_request", "send it as a text"),
        (with(&pay("begin"), json!({ "claim_token": "clm_1.x" })), "lease_lost", "claim token"),
    ] {
        let refused = call(&world, &bearer, Tool::RecordAction, with(&own, more)).unwrap_err();
        assert!(refused.starts_with(code) && refused.contains(words), "{refused}");
    }
}

/// The user is asked through Claude, and the next attempt gets the answer.
#[test]
fn a_person_is_asked_where_that_is_wanted() {
    let (world, bearer) = at_work();
    let wrong = json!({ "executor": "bot", "title": "t", "instructions": "i", "on_unknown_action": "maybe" });
    let refused = call(&world, OWNER_TOKEN, Tool::SubmitTask, wrong).unwrap_err();
    assert!(refused.contains("on_unknown_action must be one of retry, ask"), "{refused}");

    let id = submit(&world, json!({ "on_unknown_action": "ask" }));
    assert_eq!(state(&world, &id)["on_unknown_action"], "ask");
    let (_, own) = claim(&world, &bearer, "one");
    call(&world, &bearer, Tool::RecordAction, with(&own, pay("begin"))).unwrap();
    let failed = with(&own, json!({ "status": "failed", "retryable": true, "error": "the network is gone" }));
    let ended = call(&world, &bearer, Tool::FinishTask, failed).unwrap();
    assert_eq!(ended["state"], "input-required");
    assert!(ended["next"].as_str().unwrap().starts_with("The attempt is over"), "{ended}");

    let task = state(&world, &id);
    assert!(task["question"].as_str().unwrap().contains("Did it happen?"), "{task}");
    assert!(task["next"].as_str().unwrap().starts_with("An attempt was lost in the middle"), "{task}");
    assert_eq!((task.get("held_by"), &task["messages"][0]["from"]), (None, &json!("hub")));
    assert_eq!(task["actions"][0]["status"], "unknown");
    let refused = call(&world, &bearer, Tool::HeartbeatTask, own).unwrap_err();
    assert!(refused.starts_with("lease_lost: The attempt was given up"), "{refused}");

    let answer = json!({ "task_id": id, "answer": "It happened, receipt 7." });
    let answered = call(&world, OWNER_TOKEN, Tool::AnswerTask, answer).unwrap();
    assert_eq!(answered["state"], "submitted");
    let (claimed, own) = claim(&world, &bearer, "two");
    assert_eq!(claimed["actions"][0]["status"], "unknown");
    assert_eq!(claimed["messages"][1]["text"], "It happened, receipt 7.");
    let again = call(&world, &bearer, Tool::RecordAction, with(&own, pay("begin"))).unwrap();
    assert_eq!((&again["first"], &again["status"]), (&json!(false), &json!("unknown")));
}

/// An attempt had asked something itself and went silent: whoever answers that is told of the other question.
#[test]
fn an_answer_to_a_lost_attempt_leads_to_the_hubs_question() {
    let (world, bearer) = at_work();
    let id = submit(&world, json!({ "on_unknown_action": "ask" }));
    let (_, own) = claim(&world, &bearer, "one");
    call(&world, &bearer, Tool::RecordAction, with(&own, pay("begin"))).unwrap();
    call(&world, &bearer, Tool::HeartbeatTask, with(&own, json!({ "question": "Which colour?" }))).unwrap();
    world.pass(300_001);
    let answered = call(&world, OWNER_TOKEN, Tool::AnswerTask, json!({ "task_id": id, "answer": "Red." })).unwrap();
    assert_eq!(answered["state"], "input-required");
    assert!(answered["next"].as_str().unwrap().contains("answer that as well"), "{answered}");
}

/// Actions that are as long as they can be are read in pages, by both.
#[test]
fn a_long_ledger_is_read_in_pages() {
    const LONG: usize = 12;
    let (world, bearer) = at_work();
    let id = submit(&world, json!({}));
    let (_, own) = claim(&world, &bearer, "one");
    for n in 0..LONG {
        let params = "\\".repeat(ACTION_PARAMS_BYTES_MAX / 2 - 1);
        let act = json!({ "step_id": format!("s{n}"), "tool": "t", "params": params, "status": "begin" });
        call(&world, &bearer, Tool::RecordAction, with(&own, act.clone())).unwrap();
        let outcome = "o".repeat(ACTION_OUTCOME_BYTES_MAX - 2);
        let done = with(&act, json!({ "status": "done", "outcome": outcome }));
        call(&world, &bearer, Tool::RecordAction, with(&own, done)).unwrap();
    }
    let task = state(&world, &id);
    let (claimed, _) = claim(&world, &bearer, "one");
    for (shown, tool, ask, token) in [
        (task, Tool::GetTask, json!({ "task_id": id }), OWNER_TOKEN),
        (claimed, Tool::ClaimTask, json!({ "request_id": "one" }), bearer.as_str()),
    ] {
        assert_eq!(shown.get("actions"), None, "{}", tool.name());
        let truncated = shown["truncated"].as_array().unwrap().iter().find(|one| one["part"] == "actions").unwrap();
        let (mut text, mut offset) = (String::new(), truncated["next_offset"].as_u64());
        while let Some(at) = offset {
            let page = with(&ask, json!({ "part": "actions", "offset": at }));
            let page = call(&world, token, tool, page).unwrap()["page"].clone();
            text.push_str(page["text"].as_str().unwrap());
            offset = page["next_offset"].as_u64();
        }
        let actions: Vec<Json> = serde_json::from_str(&text).unwrap();
        assert_eq!(actions.len(), LONG, "{}", tool.name());
    }
}
