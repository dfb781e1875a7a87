//! Access tokens in use (RFC 6750): what is refused where, and what each scope permits.

use serde_json::{Value as Json, json};
use taskhub::domain::scope::{Scope, Scopes};
use taskhub::domain::token::{self, Handle};
use taskhub::http::front;
use taskhub::http::message::{Request, Response};
use taskhub::mcp::tools::Tool;

use super::client::{Connected, header, hub, json_of, tokens};
use crate::mcp::client::{modern_request, post};
use crate::support::{OWNER_TOKEN, World, request};

const METADATA: &str = "resource_metadata=\"https://hub.example/.well-known/oauth-protected-resource/mcp\"";

fn list(bearer: &str) -> Request {
    let mut request = modern_request("tools/list", json!({}));
    request.headers.retain(|(name, _)| name != "authorization");
    request.headers.push(("authorization".to_owned(), format!("Bearer {bearer}")));
    request
}

/// A 401 that starts the sign-in of a client that follows RFC 9728.
fn challenged(response: &Response) -> String {
    assert_eq!((response.status, json_of(response)["code"].as_str()), (401, Some("unauthorized")));
    let challenge = header(response, "www-authenticate").expect("a challenge").to_owned();
    assert!(challenge.starts_with("Bearer ") && challenge.contains(METADATA), "{challenge}");
    assert!(challenge.contains("scope=\"tasks:read tasks:write\""), "{challenge}");
    challenge
}

/// Refused at the front, by form and MAC alone, and by the object all the same.
fn is_refused_at_the_edge(world: &World, bearer: &str) {
    for request in [list(bearer), request("GET", "/api/executors", bearer, &Json::Null)] {
        let by_front = front::refuse(&request, &world.settings, world.now()).expect("it does not reach the object");
        assert!(challenged(&by_front).contains("error=\"invalid_token\""), "{bearer}");
        assert_eq!(world.send(&request).body, by_front.body);
    }
}

/// RFC 6750 §3.1: no error where no token was sent.
#[test]
fn who_sends_no_token_is_told_where_to_begin() {
    let world = hub();
    for headers in [vec![], vec![("authorization", "Basic eDp5")], vec![("authorization", "")]] {
        let mut request = post(&headers, b"{}");
        if headers.is_empty() {
            request.headers.retain(|(name, _)| name != "authorization");
        }
        let by_front = front::refuse(&request, &world.settings, world.now()).expect("a refusal");
        assert!(!challenged(&by_front).contains("error="));
        assert_eq!(world.send(&request), by_front);
    }
}

/// RFC 6750 §2.3 and MCP: a token in the address is no token.
#[test]
fn a_token_in_the_address_is_no_token() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    for bearer in [&connected.access, OWNER_TOKEN] {
        let mut request = list("");
        request.headers.retain(|(name, _)| name != "authorization");
        request.query = format!("access_token={bearer}&token={bearer}&authorization=Bearer%20{bearer}");
        assert!(!challenged(&world.send(&request)).contains("error="));
        request.body = format!("access_token={bearer}").into_bytes();
        challenged(&world.send(&request));
    }
}

#[test]
fn junk_is_refused_at_the_edge() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    let [head, expires_at, mac] = connected.access.splitn(3, '.').collect::<Vec<_>>()[..] else {
        panic!("three parts")
    };
    let later = expires_at.parse::<i64>().unwrap() + 86_400;
    let before = world.db.dump();
    for junk in [
        "x",
        "tha_",
        "tha_..",
        "null",
        "undefined",
        head,
        &connected.refresh,
        &connected.access[1..],
        &format!("{}x", connected.access),
        &format!("{head}.{later}.{mac}"),
        &format!("{head}.0{expires_at}.{mac}"),
        &format!("{head}.+{expires_at}.{mac}"),
        &format!("{head}.{}.{mac}", i64::MAX),
        &format!("{head}.-1.{mac}"),
        &format!("{head}.{expires_at}.{}", mac.to_uppercase()),
        &format!("{head}.{expires_at}.{mac}.{mac}"),
        &connected.access.replace("tha_", "THA_"),
        &connected.access.replace("tha_", "thr_"),
        "\u{0}",
        &"x".repeat(10_000),
    ] {
        is_refused_at_the_edge(&world, junk);
    }
    assert_eq!(world.db.dump(), before);
    assert!(world.is_good(&connected.access));
}

/// Ten thousand of them, and nobody asks the database.
#[test]
fn ten_thousand_junk_bearers_never_reach_the_object() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    let mut junk = connected.access.clone().into_bytes();
    for number in 0..10_000_usize {
        let at = 4 + number % (junk.len() - 4);
        let right = junk[at];
        junk[at] = if right == b'x' { b'y' } else { b'x' };
        let text = String::from_utf8(junk.clone()).unwrap();
        let refusal = front::refuse(&list(&text), &world.settings, world.now()).expect("the front refuses it");
        assert_eq!(refusal.status, 401);
        junk[at] = right;
    }
    assert!(front::refuse(&list(&connected.access), &world.settings, world.now()).is_none());
}

#[test]
fn an_expired_token_is_refused_at_the_edge_and_says_so() {
    let world = World::with(&[("ACCESS_TOKEN_SECONDS", "60"), ("OWNER_PASSPHRASE", super::client::PASSPHRASE)]);
    let connected = world.connected(&["tasks:read"]);
    world.pass(59_999);
    assert!(world.is_good(&connected.access));
    world.pass(1);
    is_refused_at_the_edge(&world, &connected.access);
    let detail = json_of(&world.send(&list(&connected.access)))["detail"].to_string();
    assert!(detail.contains("expired") && detail.contains("refresh"), "{detail}");
    let renewed = tokens(&connected.client_id, &world.refreshes(&connected.client_id, &connected.refresh));
    assert!(world.is_good(&renewed.access));
}

/// RFC 8707 §2, MCP: what another hub issued, or this one for another address, is not for here.
#[test]
fn a_token_for_another_audience_is_refused_at_the_edge() {
    let mut world = hub();
    let connected = world.connected(&["tasks:read"]);
    let secret = world.settings.hub_secret.clone();
    let handle = || Handle::new([5; 16]);
    let at = world.now() / 1000 + 1_000;
    for audience in ["https://other.example/mcp", "https://hub.example", "https://hub.example/mcp/", ""] {
        is_refused_at_the_edge(&world, &token::access(&secret, audience, &handle(), at));
    }
    is_refused_at_the_edge(
        &world,
        &token::access("the secret of another hub, long enough", "https://hub.example/mcp", &handle(), at),
    );
    // A right MAC with a handle that nobody was given is left to the object's registry.
    let unknown = token::access(&secret, "https://hub.example/mcp", &handle(), at);
    assert!(front::refuse(&list(&unknown), &world.settings, world.now()).is_none());
    assert!(challenged(&world.send(&list(&unknown))).contains("error=\"invalid_token\""));
    world.settings.public_url = Some("https://public.example".to_owned());
    let refusal = front::refuse(&list(&connected.access), &world.settings, world.now()).expect("a refusal");
    assert_eq!(refusal.status, 401, "a hub that moved issues tokens for its new address");
    let moved = tokens(&connected.client_id, &world.refreshes(&connected.client_id, &connected.refresh));
    assert!(front::refuse(&list(&moved.access), &world.settings, world.now()).is_none(), "which a refresh brings");
}

#[test]
fn a_revoked_token_stops_at_once() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    assert!(world.is_good(&connected.access));
    world.owner("DELETE", "/api/grants", Json::Null);
    assert!(front::refuse(&list(&connected.access), &world.settings, world.now()).is_none(), "the front cannot know");
    let response = world.send(&list(&connected.access));
    assert!(challenged(&response).contains("error=\"invalid_token\""));
    assert!(json_of(&response)["detail"].as_str().unwrap().contains("revoked"));
}

/// A code that was approved, but not taken up, is worth nothing as a token.
#[test]
fn a_grant_that_was_not_taken_up_has_no_tokens() {
    let world = hub();
    let id = world.public_client();
    let code = world.code(&id, &["tasks:read"]);
    let handle = code.strip_prefix("thc_").unwrap().split('.').next().unwrap();
    let random: [u8; 16] =
        base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, handle).unwrap().try_into().unwrap();
    let early = token::access(
        &world.settings.hub_secret,
        "https://hub.example/mcp",
        &Handle::new(random),
        world.now() / 1000 + 60,
    );
    challenged(&world.send(&list(&early)));
}

fn names(response: &Response) -> Vec<String> {
    let body = json_of(response);
    assert_eq!(response.status, 200, "{body}");
    let tools = body["result"]["tools"].as_array().expect("tools");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

const SCOPES: [&str; 4] = ["tasks:read", "tasks:write", "hub:admin", "tasks:execute"];

fn with_scopes(world: &World, scopes: &[&str]) -> Connected {
    world.connected_asking("tasks:read tasks:write hub:admin", scopes)
}

/// Every set of scopes against every tool: the list shows just what may be called, and a call of the rest is 403.
#[test]
fn the_list_shows_what_may_be_called_and_a_call_of_the_rest_is_forbidden() {
    let world = hub();
    for held in [
        vec!["tasks:read"],
        vec!["tasks:write"],
        vec!["hub:admin"],
        vec!["tasks:read", "hub:admin"],
        SCOPES[..3].to_vec(),
    ] {
        let connected = with_scopes(&world, &held);
        let shown = names(&world.send(&list(&connected.access)));
        for tool in Tool::ALL {
            let permits = |scope: &&str| match tool.scope() {
                Scope::TasksRead => ["tasks:read", "tasks:write", "hub:admin"].contains(scope),
                Scope::TasksWrite => ["tasks:write", "hub:admin"].contains(scope),
                Scope::HubAdmin => *scope == "hub:admin",
                Scope::TasksExecute => false,
            };
            let may = held.iter().any(permits);
            assert_eq!(shown.iter().any(|name| name == tool.name()), may, "{held:?} {}", tool.name());
            let response = world.tool(&connected.access, tool.name(), json!({}));
            assert_eq!(response.status, if may { 200 } else { 403 }, "{held:?} {}", tool.name());
            if !may {
                forbidden(&response, &held, tool.scope());
            }
        }
    }
}

/// RFC 6750 §3.1 and MCP: all scopes that are needed, with those that the client has, and where to ask for them.
fn forbidden(response: &Response, held: &[&str], needed: Scope) {
    let all = Scopes::parse(&held.join(" ")).with(needed);
    let expected = format!("Bearer error=\"insufficient_scope\", scope=\"{all}\", {METADATA}");
    assert_eq!(header(response, "www-authenticate"), Some(expected.as_str()));
    let body = json_of(response);
    assert!(body["error"]["message"].as_str().is_some_and(|message| message.contains(needed.name())), "{body}");
}

#[test]
fn a_tool_that_is_forbidden_changes_nothing() {
    let world = hub();
    world.executor("bot", &[]);
    let connected = with_scopes(&world, &["tasks:read"]);
    let before = world.db.dump();
    let task = json!({ "title": "t", "instructions": "i", "executor": "bot" });
    assert_eq!(world.tool(&connected.access, "submit_task", task.clone()).status, 403);
    assert_eq!(world.db.dump(), before);
    let connected = with_scopes(&world, &["tasks:write"]);
    assert_eq!(world.tool(&connected.access, "submit_task", task).status, 200);
}

/// In a batch of 2025-03-26 each call is answered for itself.
#[test]
fn a_batch_is_no_way_around_the_scopes() {
    let world = hub();
    world.executor("bot", &[]);
    let connected = with_scopes(&world, &["tasks:read"]);
    let call = |id: u8, name: &str, arguments: Json| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": arguments } });
    let task = json!({ "title": "t", "instructions": "i", "executor": "bot" });
    let body = json!([call(1, "hub_status", json!({})), call(2, "submit_task", task)]).to_string();
    let bearer = format!("Bearer {}", connected.access);
    let before = world.db.dump();
    let response = world.send(&post(&[("authorization", &bearer)], body.as_bytes()));
    let answers = json_of(&response);
    assert!(answers[0]["result"].is_object() && answers[1]["error"].is_object(), "{answers}");
    assert_eq!(world.db.dump(), before);
}

#[test]
fn the_owners_api_takes_the_owners_scope() {
    let world = hub();
    for held in [vec!["tasks:read"], vec!["tasks:read", "tasks:write"]] {
        let connected = with_scopes(&world, &held);
        let before = world.db.dump();
        for (method, path) in [
            ("GET", "/api/executors"),
            ("POST", "/api/executors"),
            ("DELETE", "/api/executors/bot"),
            ("GET", "/api/clients"),
            ("DELETE", "/api/clients/x"),
            ("GET", "/api/grants"),
            ("DELETE", "/api/grants"),
            ("DELETE", "/api/grants/x"),
            ("PUT", "/api/passphrase"),
            ("GET", "/api/tasks/t_000000000_0000000000000000"),
        ] {
            let response = world.send(&request(method, path, &connected.access, &json!({})));
            assert_eq!(
                (response.status, json_of(&response)["code"].as_str()),
                (403, Some("insufficient_scope")),
                "{path}"
            );
            let challenge = header(&response, "www-authenticate").expect("a challenge");
            assert_eq!(
                challenge,
                format!("Bearer error=\"insufficient_scope\", scope=\"{} hub:admin\", {METADATA}", held.join(" "))
            );
        }
        assert_eq!(world.db.dump(), before);
    }
    let admin = with_scopes(&world, &["hub:admin"]);
    assert_eq!(world.call("GET", "/api/clients", &admin.access, Json::Null).0, 200);
    assert_eq!(world.call("POST", "/api/executors", &admin.access, json!({ "name": "bot" })).0, 201);
}

/// Working on tasks stands alone: it shows no tool of a submitter, and an executor's calls take an executor's key.
#[test]
fn working_on_tasks_is_not_handing_them_out() {
    let world = hub();
    world.executor("bot", &[]);
    let connected = world.connected_as("bot");
    let (works, submits): (Vec<Tool>, Vec<Tool>) =
        Tool::ALL.iter().partition(|tool| tool.scope() == Scope::TasksExecute);
    let shown = names(&world.send(&list(&connected.access)));
    assert_eq!(shown, works.iter().map(|tool| tool.name()).collect::<Vec<_>>());
    for tool in submits {
        assert_eq!(world.tool(&connected.access, tool.name(), json!({})).status, 403);
    }
    assert_eq!(world.call("POST", "/executor/claim", &connected.access, json!({})).0, 401);
    assert_eq!(world.call("GET", "/api/grants", &connected.access, Json::Null).0, 403);
}

/// A client's tasks carry its id, so idempotency keys of two clients do not meet.
#[test]
fn a_client_submits_in_its_own_name() {
    let world = hub();
    world.executor("bot", &[]);
    let task = json!({ "title": "t", "instructions": "i", "executor": "bot", "idempotency_key": "k" });
    let mut ids = Vec::new();
    for _ in 0..2 {
        let connected = with_scopes(&world, &["tasks:write"]);
        for _ in 0..2 {
            let body = json_of(&world.tool(&connected.access, "submit_task", task.clone()));
            ids.push(body["result"]["structuredContent"]["task_id"].as_str().expect("an id").to_owned());
        }
    }
    assert!(ids[0] == ids[1] && ids[2] == ids[3] && ids[1] != ids[2], "{ids:?}");
}
