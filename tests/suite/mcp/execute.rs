//! The executor's tools: the executor API for agents that speak MCP only.

use serde_json::{Value as Json, json};
use taskhub::domain::scope::{Scope, Scopes};
use taskhub::domain::secret::sha256_base64url;
use taskhub::http::message::{Outcome, Request};
use taskhub::http::router;
use taskhub::hub::{self, ClientMetadata, Consent, Exchange};
use taskhub::mcp::schema::definition;
use taskhub::mcp::tools::Tool;
use taskhub::store::clients::AuthMethod;

use super::validate;
use crate::support::{OWNER_TOKEN, World, request};

const VERIFIER: &str = "a verifier of the tests that is long enough for RFC 7636";
const BACK: &str = "https://client.example/back";

/// An access token with these scopes, for this executor.
fn token(world: &World, scopes: Scopes, executor: Option<&str>) -> String {
    let hub = world.hub();
    let metadata = ClientMetadata {
        name: Some("An agent".to_owned()),
        uri: None,
        redirect_uris: vec![BACK.to_owned()],
        auth_method: AuthMethod::None,
    };
    let client = hub::register_client(&hub, &metadata).unwrap();
    let consent = Consent {
        client: &client,
        redirect_uri: BACK,
        code_challenge: &sha256_base64url(VERIFIER),
        scopes,
        executor,
        address: "local",
    };
    let code = hub::consent(&hub, &consent).unwrap();
    let exchange = Exchange { code: &code, client_id: &client.id, redirect_uri: Some(BACK), verifier: VERIFIER };
    hub::exchange(&hub, &exchange).map(|tokens| tokens.access).unwrap_or_else(|why| panic!("no tokens: {why:?}"))
}

fn rpc(bearer: &str, method: &str, params: &Json) -> Request {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut request = request("POST", "/mcp", bearer, &body);
    request.headers.push(("content-type".to_owned(), "application/json".to_owned()));
    request
}

/// Calls a tool and returns its data, which fit its schema, or the text of its error.
pub fn call(world: &World, bearer: &str, tool: Tool, arguments: Json) -> Result<Json, String> {
    let params = json!({ "name": tool.name(), "arguments": arguments });
    let response = world.send(&rpc(bearer, "tools/call", &params));
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
    assert!(response.body.len() <= taskhub::domain::limits::TOOL_RESULT_BYTES_MAX);
    let answer: Json = serde_json::from_slice(&response.body).unwrap();
    let result = &answer["result"];
    if result["isError"] == true {
        return Err(result["content"][0]["text"].as_str().unwrap().to_owned());
    }
    let data = result["structuredContent"].clone();
    assert_eq!(validate::faults(&definition(tool)["outputSchema"], &data), Vec::<String>::new());
    Ok(data)
}

/// A hub with the executor `bot`, and a token that works as it.
pub fn at_work() -> (World, String) {
    let world = World::new();
    world.executor("bot", &["q"]);
    let token = token(&world, Scopes::NONE.with(Scope::TasksExecute), Some("bot"));
    (world, token)
}

pub fn submit(world: &World, more: Json) -> String {
    let mut task = json!({ "executor": "bot", "title": "A task", "instructions": "Do it." });
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call(world, OWNER_TOKEN, Tool::SubmitTask, task).unwrap()["task_id"].as_str().unwrap().to_owned()
}

pub fn state(world: &World, id: &str) -> Json {
    call(world, OWNER_TOKEN, Tool::GetTask, json!({ "task_id": id })).unwrap()
}

#[test]
fn a_token_shows_the_tools_of_its_scopes() {
    let (world, executes) = at_work();
    let reads = token(&world, Scopes::NONE.with(Scope::TasksRead), None);
    let names = |bearer: &str| -> Vec<String> {
        let response = world.send(&rpc(bearer, "tools/list", &json!({})));
        let answer: Json = serde_json::from_slice(&response.body).unwrap();
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let tools = ["claim_task", "heartbeat_task", "finish_task", "defer_task", "record_action", "attach_file"];
    assert_eq!(names(&executes), tools);
    assert_eq!(names(&reads), ["get_task", "get_attachment", "list_tasks", "list_executors", "hub_status"]);
    assert_eq!(names(OWNER_TOKEN).len(), 13, "the owner's token works on no tasks");
    for (bearer, tool, scopes) in
        [(&executes, "get_task", "tasks:read tasks:execute"), (&reads, "claim_task", "tasks:read tasks:execute")]
    {
        let response = world.send(&rpc(bearer, "tools/call", &json!({ "name": tool, "arguments": {} })));
        assert_eq!(response.status, 403);
        let challenge = response.headers.iter().find(|(name, _)| *name == "www-authenticate").unwrap().1.clone();
        assert!(challenge.contains(&format!("error=\"insufficient_scope\", scope=\"{scopes}\"")), "{challenge}");
    }
}

#[test]
fn a_task_is_claimed_kept_alive_and_finished() {
    let (world, bearer) = at_work();
    let id = submit(&world, json!({ "context": { "a": 1 } }));
    let claim = json!({ "request_id": "one" });
    let claimed = call(&world, &bearer, Tool::ClaimTask, claim.clone()).unwrap();
    assert_eq!((&claimed["claimed"], &claimed["task_id"]), (&json!(true), &json!(id)));
    assert_eq!((&claimed["instructions"], &claimed["context"]), (&json!("Do it."), &json!({ "a": 1 })));
    assert_eq!(call(&world, &bearer, Tool::ClaimTask, claim).unwrap(), claimed, "the same claim again");

    let own = json!({ "task_id": id, "claim_token": claimed["claim_token"] });
    let with = |more: Json| {
        let mut all = own.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let beat = with(json!({ "note": "under way", "progress": 0.5, "checkpoint": { "page": 3 } }));
    let beat = call(&world, &bearer, Tool::HeartbeatTask, beat).unwrap();
    assert_eq!(beat["state"], "working");
    assert_eq!(state(&world, &id)["note"], "under way");

    let asked = call(&world, &bearer, Tool::HeartbeatTask, with(json!({ "question": "Which?" }))).unwrap();
    assert_eq!(asked["state"], "input-required");
    call(&world, OWNER_TOKEN, Tool::AnswerTask, json!({ "task_id": id, "answer": "This." })).unwrap();
    let beat = call(&world, &bearer, Tool::HeartbeatTask, own.clone()).unwrap();
    assert_eq!(beat["messages"][0]["text"], "This.");

    let done = with(json!({ "status": "completed", "result": "Done.", "external_actions": ["wrote a letter"] }));
    let ended = call(&world, &bearer, Tool::FinishTask, done.clone()).unwrap();
    assert_eq!(ended["state"], "completed");
    assert_eq!(call(&world, &bearer, Tool::FinishTask, done).unwrap(), ended, "the same result again");
    let task = state(&world, &id);
    assert_eq!((&task["result"], &task["external_actions"]), (&json!("Done."), &json!(["wrote a letter"])));
    let nothing = call(&world, &bearer, Tool::ClaimTask, json!({ "request_id": "two" })).unwrap();
    assert_eq!(nothing["claimed"], false);
}

#[test]
fn a_task_is_put_off_and_comes_back_with_its_checkpoint() {
    let (world, bearer) = at_work();
    let id = submit(&world, json!({}));
    let claimed = call(&world, &bearer, Tool::ClaimTask, json!({ "request_id": "one" })).unwrap();
    let defer = json!({
        "task_id": id, "claim_token": claimed["claim_token"], "seconds": 60, "note": "not yet", "checkpoint": [1, 2],
    });
    assert_eq!(call(&world, &bearer, Tool::DeferTask, defer).unwrap()["state"], "waiting");
    world.pass(60_000);
    world.run(hub::sweep).0.unwrap();
    let again = call(&world, &bearer, Tool::ClaimTask, json!({ "request_id": "two" })).unwrap();
    assert_eq!((&again["attempt"], &again["checkpoint"]), (&json!(2), &json!([1, 2])));
    assert_eq!(again["earlier_attempts"][0]["note"], "not yet");
}

/// All of a long task can be read, in pages, before the work begins.
#[test]
fn a_long_task_comes_in_pages() {
    let (world, bearer) = at_work();
    let instructions: String = (0..6_000).map(|n| format!("{n}. \"Do\"\n")).collect();
    let context = json!({ "text": "ü".repeat(30_000) });
    submit(&world, json!({ "instructions": instructions.trim(), "context": context }));
    let claimed = call(&world, &bearer, Tool::ClaimTask, json!({ "request_id": "one" })).unwrap();
    assert!(claimed["next"].as_str().unwrap().starts_with("First read the rest"), "{}", claimed["next"]);
    for (part, right) in [("instructions", instructions.trim().to_owned()), ("context", context.to_string())] {
        let truncated = claimed["truncated"].as_array().unwrap().iter().find(|one| one["part"] == part).unwrap();
        let mut offset = truncated["next_offset"].as_u64();
        let beginning = right.chars().take(offset.unwrap() as usize).collect::<String>();
        assert!(part == "context" || claimed["instructions"] == json!(beginning));
        let mut read = beginning;
        while let Some(at) = offset {
            let arguments = json!({ "request_id": "one", "part": part, "offset": at });
            let page = call(&world, &bearer, Tool::ClaimTask, arguments).unwrap()["page"].clone();
            read.push_str(page["text"].as_str().unwrap());
            offset = page["next_offset"].as_u64();
        }
        assert!(read == right, "{part}");
    }
    let missing = call(&world, &bearer, Tool::ClaimTask, json!({ "request_id": "one", "part": "checkpoint" }));
    assert!(missing.unwrap_err().starts_with("no_such_part"));
}

#[test]
fn a_claim_waits_for_work() {
    let (world, bearer) = at_work();
    let params = json!({ "name": "claim_task", "arguments": { "request_id": "one", "wait_seconds": 25 } });
    let asked = rpc(&bearer, "tools/call", &params);
    let wait = world.send_waiting(&asked);
    assert_eq!(wait.until, world.now() + 25_000);
    submit(&world, json!({}));
    let resumed = Request { resumed: Some(wait), ..asked };
    let Outcome::Reply(response) = router::handle(&world.hub(), &resumed) else { panic!("it waits") };
    let answer: Json = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(answer["result"]["structuredContent"]["claimed"], true);
}

#[test]
fn another_executors_claim_is_out_of_reach() {
    let (world, bearer) = at_work();
    world.executor("other", &[]);
    let other = token(&world, Scopes::NONE.with(Scope::TasksExecute), Some("other"));
    let id = submit(&world, json!({}));
    let nothing = call(&world, &other, Tool::ClaimTask, json!({ "request_id": "one" })).unwrap();
    assert_eq!(nothing["claimed"], false);
    let claimed = call(&world, &bearer, Tool::ClaimTask, json!({ "request_id": "one" })).unwrap();
    let theft =
        json!({ "task_id": id, "claim_token": claimed["claim_token"], "status": "completed", "result": "mine" });
    let refused = call(&world, &other, Tool::FinishTask, theft).unwrap_err();
    assert!(refused.starts_with("lease_lost"), "{refused}");
    assert_eq!(state(&world, &id)["state"], "working");
}

#[test]
fn an_executor_that_was_deleted_works_no_more() {
    let (world, bearer) = at_work();
    let (status, _) = world.call("DELETE", "/api/executors/bot", OWNER_TOKEN, Json::Null);
    assert_eq!(status, 200);
    let refused = call(&world, &bearer, Tool::ClaimTask, json!({ "request_id": "one" })).unwrap_err();
    assert!(refused.starts_with("executor_not_found"), "{refused}");
}

/// A question that asks nothing would block the attempt, and nobody could answer it.
#[test]
fn a_question_that_asks_nothing_blocks_nobody() {
    let (world, bearer) = at_work();
    let id = submit(&world, json!({}));
    let claimed = call(&world, &bearer, Tool::ClaimTask, json!({ "request_id": "one" })).unwrap();
    let own = json!({ "task_id": id, "claim_token": claimed["claim_token"], "question": " \n" });
    let mut blocked = own.clone();
    blocked["status"] = json!("blocked");
    for (tool, arguments) in [(Tool::HeartbeatTask, own), (Tool::FinishTask, blocked)] {
        let refused = call(&world, &bearer, tool, arguments).unwrap_err();
        assert!(refused.contains("question: It is empty"), "{refused}");
    }
    assert_eq!(state(&world, &id)["state"], "working");
}

/// The token stays good, so that a switch that is turned back needs no signing in.
#[test]
fn an_executor_that_is_disabled_or_paused_is_told_so() {
    let (world, bearer) = at_work();
    let set = |change: Json| assert_eq!(world.owner("PATCH", "/api/executors/bot", change).0, 200);
    let id = submit(&world, json!({}));
    let claimed = call(&world, &bearer, Tool::ClaimTask, json!({ "request_id": "one" })).unwrap();
    let own = json!({ "task_id": id, "claim_token": claimed["claim_token"] });
    submit(&world, json!({}));
    set(json!({ "paused": true }));
    let nothing = call(&world, &bearer, Tool::ClaimTask, json!({ "request_id": "two" })).unwrap();
    assert_eq!(nothing["claimed"], false);
    assert!(nothing["next"].as_str().unwrap().contains("has paused this executor"), "{nothing}");
    call(&world, &bearer, Tool::HeartbeatTask, own.clone()).expect("what it holds it may finish");

    let params = json!({ "name": "claim_task", "arguments": { "request_id": "two", "wait_seconds": 25 } });
    let asked = rpc(&bearer, "tools/call", &params);
    let wait = world.send_waiting(&asked);
    set(json!({ "paused": false, "disabled": true }));
    let mut finish = own.clone();
    finish["status"] = json!("completed");
    for (tool, arguments) in [
        (Tool::ClaimTask, json!({ "request_id": "two" })),
        (Tool::HeartbeatTask, own.clone()),
        (Tool::FinishTask, finish),
        (Tool::DeferTask, json!({ "task_id": id, "claim_token": claimed["claim_token"], "seconds": 1 })),
        (
            Tool::RecordAction,
            json!({ "task_id": id, "claim_token": claimed["claim_token"], "step_id": "s", "tool": "t", "status": "begin" }),
        ),
    ] {
        let refused = call(&world, &bearer, tool, arguments).unwrap_err();
        assert!(refused.starts_with("executor_disabled"), "{refused}");
    }
    let response = world.send(&Request { resumed: Some(wait), ..asked });
    let answer: Json = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(answer["result"]["isError"], true, "a claim that waited gets nothing either: {answer}");
    set(json!({ "disabled": false }));
    call(&world, &bearer, Tool::HeartbeatTask, own).expect("its lease runs still");
}

#[test]
fn a_file_is_attached_under_the_claim_and_kept_once() {
    let (world, bearer) = at_work();
    let id = submit(&world, json!({}));
    let claimed = call(&world, &bearer, Tool::ClaimTask, json!({ "request_id": "one" })).unwrap();
    let attach = |more: Json| {
        let mut file = json!({ "task_id": id, "claim_token": claimed["claim_token"], "name": "report.md" });
        file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call(&world, &bearer, Tool::AttachFile, file)
    };
    let kept = attach(json!({ "text": "# Done" })).unwrap();
    assert_eq!((&kept["name"], &kept["size"]), (&json!("report.md"), &json!(6)));
    assert_eq!(attach(json!({ "base64": "IyBEb25l" })).unwrap()["file_id"], kept["file_id"]);
    let shown = state(&world, &id)["attachments"].clone();
    assert_eq!(shown.as_array().unwrap().len(), 1);
    assert_eq!((&shown[0]["kind"], &shown[0]["attempt"]), (&json!("output"), &json!(1)));
    assert!(attach(json!({})).unwrap_err().contains("Give text, or base64"));
    assert!(attach(json!({ "text": "a", "claim_token": "clm_1.x" })).unwrap_err().starts_with("lease_lost"));
    let done = json!({ "task_id": id, "claim_token": claimed["claim_token"], "status": "completed", "result": "r" });
    call(&world, &bearer, Tool::FinishTask, done).unwrap();
    assert!(attach(json!({ "text": "late" })).unwrap_err().starts_with("already_finished"));
}
