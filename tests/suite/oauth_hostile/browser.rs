//! The consent page against sites that forge its form, frame it, or write on it.

use serde_json::json;

use super::{
    CALLBACK, HUB, Page, asking, client, code, exchange, get, header, hub, registered, sent, text, with, written,
};
use crate::support::OWNER_TOKEN;

#[test]
fn clickjacking_every_page_forbids_frames_and_scripts() {
    let world = hub();
    let id = client(&world, &[CALLBACK]);
    let mut broken = asking(&id, CALLBACK);
    broken.push(("prompt", "none"));
    for query in [written(&asking(&id, CALLBACK)), "client_id=unknown".to_owned(), written(&broken)] {
        let response = world.send(&get("/authorize", &query));
        let policy = header(&response, "content-security-policy").expect("a policy");
        for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert_eq!(header(&response, "x-frame-options"), Some("DENY"));
        assert_eq!(header(&response, "access-control-allow-origin"), None);
        // Browsers apply it to the redirects that follow: with it, claude.ai could not send the browser on to claude:.
        assert_eq!(policy.contains("form-action"), !text(&response).contains("<form"));
    }
}

/// Even a site that can plant cookies for the hub's name has no form that the hub takes.
#[test]
fn csrf_a_form_counts_in_its_own_browser_from_its_own_page_only() {
    let world = hub();
    let id = client(&world, &[CALLBACK]);
    let owners = Page::open(&world, &asking(&id, CALLBACK));
    let evil = client(&world, &["https://evil.example/cb"]);
    let attackers = Page::open(&world, &asking(&evil, "https://evil.example/cb"));
    let before = world.db.dump();
    let right = || owners.approving(&["tasks:read"]);
    let mut expired = right();
    let old = [("form_token", "1.AAAAAAAAAAAAAAAAAAAAAA"), ("decision", "approve"), ("passphrase", OWNER_TOKEN)];
    expired.body = written(&old).into_bytes();
    let mut of_another_request = right();
    of_another_request.query.clone_from(&attackers.query);
    let mut longer = right();
    longer.query.push_str("&scope=hub:admin");
    let mut bare = right();
    bare.headers.retain(|(name, _)| name != "cookie");
    for (request, why) in [
        (with(right(), "cookie", &attackers.cookie), "the cookie of another browser"),
        (with(right(), "cookie", "taskhub_consent="), "an empty cookie"),
        (with(right(), "cookie", &format!("{}; {}", attackers.cookie, owners.cookie)), "a planted cookie goes first"),
        (with(attackers.approving(&["tasks:read"]), "origin", "https://evil.example"), "cookie and form planted"),
        (with(right(), "origin", "https://evil.example"), "another site"),
        (with(right(), "origin", "https://evil.hub.example"), "a sibling"),
        (with(right(), "origin", "http://hub.example"), "the same name without TLS"),
        (with(right(), "origin", "null"), "a frame without an origin"),
        (with(right(), "content-type", "text/plain"), "a form that needs no preflight"),
        (expired, "an old form"),
        (of_another_request, "the form of another request"),
        (longer, "a request that was changed"),
        (bare, "no cookie"),
    ] {
        let response = world.send(&request);
        assert_eq!((response.status, header(&response, "location")), (400, None), "{why}");
    }
    assert_eq!(world.db.dump(), before, "no try is counted either");
    assert_eq!(world.send(&right()).status, 303);
}

/// A form that was approved is worth nothing without the passphrase, and gives a code of its own with it.
#[test]
fn replay_of_an_approved_form_grants_nothing_by_itself() {
    let world = hub();
    let id = client(&world, &[CALLBACK]);
    let page = Page::open(&world, &asking(&id, CALLBACK));
    let first = sent(&world.send(&page.approving(&["tasks:read"])), "code").expect("a code");
    for fields in [
        vec![("decision", "approve"), ("scope", "tasks:read")],
        vec![("decision", "approve"), ("scope", "tasks:read"), ("passphrase", "")],
        vec![
            ("decision", "approve"),
            ("scope", "tasks:read"),
            ("passphrase", OWNER_TOKEN),
            ("passphrase", OWNER_TOKEN),
        ],
    ] {
        let response = world.send(&page.sending(&fields));
        assert_eq!((response.status, header(&response, "location")), (403, None));
    }
    let second = sent(&world.send(&page.approving(&["tasks:read"])), "code").expect("a code");
    assert_ne!(first, second);
    assert_eq!((exchange(&world, &id, &first).status, exchange(&world, &id, &second).status), (200, 200));
}

/// Otherwise a page that was opened late in the cookie's life could not be sent.
#[test]
fn the_cookie_lives_as_long_as_the_newest_page() {
    let world = hub();
    let id = client(&world, &[CALLBACK]);
    let page = Page::open(&world, &asking(&id, CALLBACK));
    let again = world.send(&with(get("/authorize", &page.query), "cookie", &page.cookie));
    let cookie = header(&again, "set-cookie").expect("it is set again");
    assert!(cookie.starts_with(&page.cookie) && cookie.contains("Max-Age=1800"), "{cookie}");
    assert!(cookie.contains("; HttpOnly; SameSite=Lax") && cookie.ends_with("; Secure"), "{cookie}");
}

#[test]
fn html_injection_nothing_that_a_client_says_becomes_markup() {
    let world = hub();
    let evil = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>";
    let metadata = json!({
        "client_name": evil,
        "client_uri": "https://evil.example/'onmouseover='alert(1)",
        "redirect_uris": ["https://app.example/cb?'onmouseover='alert(1)"],
        "token_endpoint_auth_method": "none",
    });
    let answer = registered(&world, &metadata);
    let (id, uri) = (answer["client_id"].as_str().expect("an id"), "https://app.example/cb?'onmouseover='alert(1)");
    let mut fields = asking(id, uri);
    fields.extend([("scope", evil), (evil, evil)]);
    let mut broken = fields.clone();
    broken.push(("response_mode", evil));
    for query in [written(&fields), written(&broken), written(&[("client_id", evil)]), format!("client_id={evil}")] {
        let page = world.send(&get("/authorize", &query));
        let text = text(&page);
        assert!(!text.contains("<script") && !text.contains("<img"), "{text}");
        // Attributes stand in double quotes, so a single one ends none.
        assert!(!text.contains("=\"\"'"), "{text}");
        assert!(text.contains("<title>"), "{text}");
    }
}

#[test]
fn scope_escalation_by_a_checkbox_that_was_not_there() {
    let world = hub();
    world.executor("bot", &[]);
    let id = client(&world, &[CALLBACK]);
    let all = ["tasks:read", "tasks:write", "tasks:execute", "hub:admin"];
    let page = Page::open(&world, &asking(&id, CALLBACK));
    let code = sent(&world.send(&page.approving(&all)), "code").expect("a code");
    let tokens = exchange(&world, &id, &code);
    assert_eq!(super::json_of(&tokens)["scope"], "tasks:read tasks:write");
    let mut fields = asking(&id, CALLBACK);
    fields.push(("scope", "hub:admin tasks:execute"));
    let asked = world.send(&get("/authorize", &written(&fields)));
    let is_checked = |scope: &str| {
        let input = text(&asked).split("<input").find(|input| input.contains(&format!("value=\"{scope}\"")));
        input.expect("a switch").split('>').next().expect("its end").contains("checked")
    };
    assert!(!is_checked("hub:admin"), "the owner's powers are never chosen beforehand");
    assert!(is_checked("tasks:execute"));
}

/// A grant to work as an executor is not an executor's key, and opens nothing that reads or writes tasks.
#[test]
fn tasks_execute_alone_opens_nothing_else() {
    let world = hub();
    world.executor("bot", &[]);
    let id = client(&world, &[CALLBACK]);
    let mut fields = asking(&id, CALLBACK);
    fields.push(("scope", "tasks:execute"));
    let page = Page::open(&world, &fields);
    let mut approval = vec![("decision", "approve"), ("passphrase", OWNER_TOKEN), ("scope", "tasks:execute")];
    approval.push(("executor", "nobody"));
    assert_eq!(world.send(&page.sending(&approval)).status, 400, "an executor that is not there");
    approval.pop();
    assert_eq!(world.send(&page.sending(&approval)).status, 400, "no executor");
    approval.push(("executor", "bot"));
    let code = sent(&world.send(&page.sending(&approval)), "code").expect("a code");
    let access = super::access_of(&exchange(&world, &id, &code));
    for (method, path) in [("POST", "/executor/claim"), ("POST", "/executor/ping")] {
        assert_eq!(world.call(method, path, &access, json!({})).0, 401, "{path}");
    }
    assert_eq!(world.call("GET", "/api/executors", &access, json!(null)).0, 403);
    for tool in ["list_tasks", "submit_task", "list_executors"] {
        let body =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": {} } });
        let request = super::post("/mcp", "application/json", body.to_string());
        let response = world.send(&with(request, "authorization", &format!("Bearer {access}")));
        assert_eq!(response.status, 403, "{tool}: {}", text(&response));
    }
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let request = with(super::post("/mcp", "application/json", list), "authorization", &format!("Bearer {access}"));
    let tools = super::json_of(&world.send(&request))["result"]["tools"].clone();
    let names: Vec<&str> = tools.as_array().expect("a list").iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["claim_task", "heartbeat_task", "finish_task", "defer_task", "record_action", "attach_file"]);
}

/// Whoever worked as an executor that was deleted does not work as the next one of that name.
#[test]
fn a_deleted_executor_does_not_come_back_under_its_name() {
    let world = hub();
    world.executor("bot", &[]);
    let id = client(&world, &[CALLBACK]);
    let mut fields = asking(&id, CALLBACK);
    fields.push(("scope", "tasks:execute"));
    let page = Page::open(&world, &fields);
    let approval = page.sending(&[
        ("decision", "approve"),
        ("passphrase", OWNER_TOKEN),
        ("scope", "tasks:execute"),
        ("executor", "bot"),
    ]);
    let code = sent(&world.send(&approval), "code").expect("a code");
    let access = super::access_of(&exchange(&world, &id, &code));
    let claims = || {
        let params = json!({ "name": "claim_task", "arguments": { "request_id": "r" } });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
        let request = super::post("/mcp", "application/json", body);
        let answer = super::json_of(&world.send(&with(request, "authorization", &format!("Bearer {access}"))));
        answer["result"].clone()
    };
    assert_eq!(claims()["structuredContent"]["claimed"], false);
    world.call("DELETE", "/api/executors/bot", OWNER_TOKEN, json!(null));
    let gone = claims();
    assert!(gone.to_string().contains("executor_not_found"), "{gone}");
    world.pass(1);
    world.executor("bot", &[]);
    assert_eq!(claims(), gone);
}

#[test]
fn an_answer_names_the_issuer_so_that_no_other_server_can_take_its_place() {
    let world = hub();
    let id = client(&world, &[CALLBACK]);
    let page = Page::open(&world, &asking(&id, CALLBACK));
    for request in [page.approving(&["tasks:read"]), page.sending(&[("decision", "deny")])] {
        assert_eq!(sent(&world.send(&request), "iss").as_deref(), Some(HUB));
    }
    let metadata = super::json_of(&world.send(&get("/.well-known/oauth-authorization-server", "")));
    assert_eq!(
        (&metadata["issuer"], &metadata["authorization_response_iss_parameter_supported"]),
        (&json!(HUB), &json!(true))
    );
    code(&world, &id);
}
