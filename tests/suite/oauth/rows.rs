//! The ways in which real clients broke real servers (`docs/oauth.md`), as far as they concern signing in. `mcp::rows` has
//! those that concern the protocol. Each test is named after its row.

use serde_json::{Value as Json, json};
use taskhub::http::front;
use taskhub::http::message::{Fetched, Request};
use taskhub::store::grants as rows;

use super::client::{
    CALLBACK, Connected, asking, changed, exchange, form, get, header, hub, json_of, landed, page_of, refused,
    registration, text_of, tokens, told, with, written,
};
use crate::support::World;

const DAY_MS: i64 = 86_400_000;
const CLAUDE: &str = "https://claude.ai/oauth/mcp-oauth-client-metadata";
const CLAUDE_CALLBACK: &str = "https://claude.ai/api/mcp/auth_callback";

fn metadata(world: &World) -> Json {
    json_of(&world.send(&get("/.well-known/oauth-authorization-server", "")))
}

fn refreshed(world: &World, connected: &Connected) -> Connected {
    tokens(&connected.client_id, &world.refreshes(&connected.client_id, &connected.refresh))
}

#[test]
fn row_01_parallel_processes_may_use_one_refresh_token() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    let all: Vec<Connected> = (0..20).map(|_| refreshed(&world, &connected)).collect();
    // One of them moves on at once; those that come within two minutes still get what they need.
    let ahead = refreshed(&world, &all[0]);
    world.pass(120_000);
    let late = refreshed(&world, &connected);
    assert_eq!(refreshed(&world, &late).refresh, ahead.refresh);
    assert!(all.iter().chain([&ahead, &late]).all(|one| world.is_good(&one.access)));
}

#[test]
fn row_02_a_lost_answer_is_given_again() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    let first = refreshed(&world, &connected);
    let second = refreshed(&world, &connected);
    assert_eq!(first, second, "word for word");
}

#[test]
fn row_03_a_token_whose_successor_was_never_used_is_good_days_later() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    refreshed(&world, &connected);
    world.pass(4 * DAY_MS);
    assert!(world.is_good(&refreshed(&world, &connected).access));
    let moved_on = refreshed(&world, &refreshed(&world, &connected));
    world.pass(4 * DAY_MS);
    let status = world.refreshes(&connected.client_id, &connected.refresh);
    assert!(refused(&status, 400, "invalid_grant").contains("Sign in anew"));
    refused(&world.refreshes(&connected.client_id, &moved_on.refresh), 400, "invalid_grant");
}

/// One object, one transaction, and the expected generation in the WHERE.
#[test]
fn row_04_two_rotations_of_one_token_cannot_both_happen() {
    let world = hub();
    world.connected(&["tasks:read"]);
    let id = world.grants()[0]["id"].as_str().unwrap().to_owned();
    let rotated = |from: u32| rows::rotate(&world.db, &id, from, world.now(), world.now() + DAY_MS).unwrap();
    assert_eq!([rotated(1), rotated(1), rotated(2), rotated(1)], [true, false, true, false]);
}

/// So that a client which never refreshes reconnects once a day at most; the row of its grant is asked at each call anyway.
#[test]
fn row_05_an_access_token_lives_for_a_day_and_can_be_revoked_at_once() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    world.pass(DAY_MS - 1);
    assert!(world.is_good(&connected.access));
    world.owner("DELETE", "/api/grants", Json::Null);
    assert!(!world.is_good(&connected.access));
}

#[test]
fn row_06_a_refresh_token_is_issued_always() {
    let world = hub();
    assert!(metadata(&world)["scopes_supported"].as_array().unwrap().contains(&json!("offline_access")));
    for scope in [None, Some("tasks:read"), Some("tasks:read offline_access"), Some("offline_access")] {
        let id = world.public_client();
        let page = world.page(&changed(&asking(&id), "scope", scope));
        let code = landed(&world.send(&page.approval(&["tasks:read"]))).one("code").unwrap().to_owned();
        refreshed(&world, &tokens(&id, &world.exchanges(&id, &code)));
    }
}

#[test]
fn row_07_scopes_of_a_registration_do_not_cap_what_is_asked_for_later() {
    let world = hub();
    let metadata = json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none", "scope": "tasks:read" });
    let (id, _) = world.registers(&metadata);
    let page = world.page(&changed(&asking(&id), "scope", Some("tasks:read tasks:write offline_access")));
    let code = landed(&world.send(&page.approval(&["tasks:read", "tasks:write"]))).one("code").unwrap().to_owned();
    assert_eq!(json_of(&world.exchanges(&id, &code))["scope"], "tasks:read tasks:write");
}

#[test]
fn row_08_unknown_scopes_are_dropped() {
    let world = hub();
    let id = world.public_client();
    for scope in
        ["claudeai", "claudeai tasks:read", "openid profile email tasks:read", "TASKS:READ", "tasks:read,tasks:write"]
    {
        let page = world.page(&changed(&asking(&id), "scope", Some(scope)));
        let code = landed(&world.send(&page.approval(&["tasks:read"]))).one("code").unwrap().to_owned();
        tokens(&id, &world.exchanges(&id, &code));
    }
}

fn lands_on(known: &str, given: &str) {
    let world = hub();
    let (id, _) = world.registers(&json!({ "redirect_uris": [known], "token_endpoint_auth_method": "none" }));
    let page = world.page(&changed(&asking(&id), "redirect_uri", Some(given)));
    let landed = landed(&world.send(&page.approval(&["tasks:read"])));
    assert_eq!(landed.address, given);
    let code = landed.one("code").unwrap();
    tokens(&id, &world.token(&changed(&exchange(&id, code), "redirect_uri", Some(given))));
}

#[test]
fn row_09_the_port_of_a_loopback_redirect_is_ignored() {
    for known in ["http://localhost/callback", "http://localhost:1/callback"] {
        lands_on(known, "http://localhost:52428/callback");
    }
}

#[test]
fn row_10_localhost_and_127_0_0_1_are_one() {
    lands_on("http://localhost/callback", "http://127.0.0.1:52428/callback");
    lands_on("http://127.0.0.1:9/callback", "http://localhost:52428/callback");
}

#[test]
fn row_11_a_scheme_of_an_app_is_refused_with_words() {
    let world = hub();
    let response = world.send(&registration(&json!({ "redirect_uris": ["claude://claude.ai/callback"] })));
    assert!(refused(&response, 400, "invalid_redirect_uri").contains("claude://"));
    let id = world.public_client();
    let query = written(&changed(&asking(&id), "redirect_uri", Some("claude://claude.ai/callback")));
    assert!(told(&world.send(&get("/authorize", &query)), 400).contains("claude://"));
}

#[test]
fn row_12_a_client_document_that_cannot_be_read_does_no_harm() {
    let fields = changed(&asking(CLAUDE), "redirect_uri", Some(CLAUDE_CALLBACK));
    let request = get("/authorize", &written(&fields));
    for fetched in [
        Fetched::Failed("its address answers 403".to_owned()),
        Fetched::Failed("its address answers 404".to_owned()),
        Fetched::Document(b"<!doctype html>".to_vec()),
    ] {
        let world = hub();
        let (url, response) = world.send_with_document(&request, fetched.clone());
        assert_eq!((url.as_deref(), response.status), (Some(CLAUDE), 200), "Claude's own are known");
        let (_, response) =
            world.send_with_document(&get("/authorize", &written(&asking("https://x.example/c"))), fetched);
        told(&response, 400);
        assert_eq!(
            world.send(&registration(&json!({ "redirect_uris": [CALLBACK] }))).status,
            201,
            "registration stays"
        );
    }
}

#[test]
fn row_13_clients_without_a_secret_are_advertised() {
    let metadata = metadata(&hub());
    assert_eq!(metadata["client_id_metadata_document_supported"], true);
    assert!(metadata["token_endpoint_auth_methods_supported"].as_array().unwrap().contains(&json!("none")));
    assert!(metadata["registration_endpoint"].is_string());
}

#[test]
fn row_14_both_ways_of_becoming_a_client_are_open() {
    let world = hub();
    let by_registration = world.connected(&["tasks:read"]);
    let id = "https://app.example/client.json";
    let document = json!({ "client_id": id, "client_name": "x", "redirect_uris": [CALLBACK] }).to_string().into_bytes();
    let query = written(&asking(id));
    let (_, response) = world.send_with_document(&get("/authorize", &query), Fetched::Document(document));
    let code =
        landed(&world.send(&page_of(&response, &query).approval(&["tasks:read"]))).one("code").unwrap().to_owned();
    let by_document = tokens(id, &world.exchanges(id, &code));
    assert!(world.is_good(&by_registration.access) && world.is_good(&by_document.access));
}

#[test]
fn row_15_a_client_that_was_used_stays_and_an_unknown_one_is_told_what_to_do() {
    let world = hub();
    let used = world.connected(&["tasks:read"]);
    let unused = world.public_client();
    world.pass(80 * DAY_MS);
    world.run(taskhub::hub::purge_sign_in).0.unwrap();
    refreshed(&world, &used);
    refused(&world.refreshes(&unused, &used.refresh), 401, "invalid_client");
    let text = told(&world.send(&get("/authorize", &written(&asking(&unused)))), 400);
    assert!(text.contains("Remove the connection in the client and add it again"), "{text}");
}

#[test]
fn row_16_absent_fields_of_a_registration_are_absent() {
    let world = hub();
    let metadata = json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none" });
    let body = json_of(&world.send(&registration(&metadata)));
    for (field, value) in body.as_object().unwrap() {
        assert!(!value.is_null() && value != "" && value != &json!([]), "{field}");
    }
    for field in
        ["client_uri", "logo_uri", "tos_uri", "policy_uri", "client_name", "client_secret", "scope", "jwks_uri"]
    {
        assert!(body.get(field).is_none(), "{field}");
    }
}

#[test]
fn row_17_a_client_may_register_twice() {
    let world = hub();
    let metadata = json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none" });
    let ids: Vec<String> = (0..10).map(|_| world.registers(&metadata).0).collect();
    for id in [&ids[0], &ids[9]] {
        let code = world.code(id, &["tasks:read"]);
        tokens(id, &world.exchanges(id, &code));
    }
}

#[test]
fn row_18_a_resource_with_a_slash_is_the_same_resource() {
    let world = hub();
    let names = ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"]
        .map(|path| json_of(&world.send(&get(path, "")))["resource"].clone());
    assert_eq!(names, ["https://hub.example/mcp", "https://hub.example/mcp"]);
    for resource in
        ["https://hub.example/mcp", "https://hub.example/mcp/", "https://hub.example", "https://hub.example/"]
    {
        let id = world.public_client();
        let page = world.page(&changed(&asking(&id), "resource", Some(resource)));
        let code = landed(&world.send(&page.approval(&["tasks:read"]))).one("code").unwrap().to_owned();
        let connected = tokens(&id, &world.token(&changed(&exchange(&id, &code), "resource", Some(resource))));
        assert!(world.is_good(&connected.access));
    }
}

#[test]
fn row_19_consent_is_followed_by_303() {
    let world = hub();
    let page = world.page(&asking(&world.public_client()));
    assert_eq!(world.send(&page.approval(&["tasks:read"])).status, 303);
    assert_eq!(world.send(&page.answer(&[("decision", "deny")])).status, 303);
}

/// What a zone's rules drop never arrives here, so only the README can tell; the hub itself looks at no user agent.
#[test]
fn row_20_every_user_agent_is_answered_alike_and_the_readme_names_the_zones_rules() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    let requests = [
        get("/.well-known/oauth-protected-resource/mcp", ""),
        get("/authorize", ""),
        form("/token", &[]),
        form("/mcp", &[]),
        with(form("/mcp", &[]), "authorization", &format!("Bearer {}", connected.access)),
    ];
    for request in requests {
        for agent in ["Claude-User", "claude-code/2.1.233", "python-httpx/0.28", "ClaudeBot/1.0", ""] {
            assert_eq!(world.send(&with(request.clone(), "user-agent", agent)), world.send(&request), "{agent}");
        }
    }
    let readme = std::fs::read_to_string(crate::support::root().join("README.md")).expect("there is a README");
    assert!(readme.contains("Block AI bots") && readme.contains("AI Crawl Control"));
}

#[test]
fn row_30_a_browser_may_call_everything_that_a_client_needs() {
    let world = hub();
    for path in ["/mcp", "/token", "/register", "/revoke", "/.well-known/oauth-authorization-server"] {
        let question = Request { method: "OPTIONS".to_owned(), ..get(path, "") };
        let question = with(question, "origin", "http://localhost:6274");
        let answer = front::refuse(&question, &world.settings, world.now()).expect("the front answers");
        assert_eq!((answer.status, header(&answer, "access-control-allow-origin")), (204, Some("*")), "{path}");
        let response = world.send(&with(form(path, &[]), "origin", "http://localhost:6274"));
        assert!(header(&response, "access-control-expose-headers").unwrap().contains("WWW-Authenticate"), "{path}");
    }
}

#[test]
fn row_31_what_is_not_there_is_said_in_json() {
    let world = hub();
    for path in [
        "/.well-known/openid-configuration",
        "/.well-known/openid-configuration/mcp",
        "/mcp/.well-known/openid-configuration",
        "/.well-known/oauth-authorization-server/other",
        "/nothing",
        "/",
    ] {
        let response = world.send(&get(path, ""));
        assert_eq!((response.status, json_of(&response)["code"].as_str()), (404, Some("not_found")), "{path}");
    }
    for path in ["/token", "/register", "/revoke"] {
        assert!(json_of(&world.send(&form(path, &[])))["error"].is_string(), "{path}");
    }
}

#[test]
fn row_32_tokens_come_with_their_time() {
    let world = hub();
    let id = world.public_client();
    let code = world.code(&id, &["tasks:read"]);
    let response = world.exchanges(&id, &code);
    assert_eq!(json_of(&response)["expires_in"], 86_400);
    let connected = tokens(&id, &response);
    world.pass(1_000);
    for _ in 0..2 {
        // A repeated answer too names the time that is left of what it brings.
        assert_eq!(json_of(&world.refreshes(&id, &connected.refresh))["expires_in"], 86_400);
    }
}

#[test]
fn row_33_writing_can_be_granted_at_the_first_consent() {
    let world = hub();
    let id = world.public_client();
    let page = world.page(&changed(&asking(&id), "scope", Some("tasks:read")));
    assert!(page.text.contains("value=\"tasks:write\""), "it is offered though it was not asked for");
    let code = landed(&world.send(&page.approval(&["tasks:read", "tasks:write"]))).one("code").unwrap().to_owned();
    let connected = tokens(&id, &world.exchanges(&id, &code));
    world.executor("bot", &[]);
    let task = json!({ "title": "t", "instructions": "i", "executor": "bot" });
    let response = world.tool(&connected.access, "submit_task", task);
    assert_eq!(response.status, 200, "{}", text_of(&response));
}
