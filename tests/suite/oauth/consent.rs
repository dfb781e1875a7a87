//! The consent page: what it shows, what it takes, and what a forged or framed one is worth.

use serde_json::json;
use taskhub::http::message::{Request, Response};

use super::client::{
    CALLBACK, Page, asking, changed, form, get, header, hub, landed, page_of, text_of, tokens, with, written,
};
use crate::support::{OWNER_TOKEN, World};

const APPROVE: [(&str, &str); 3] = [("decision", "approve"), ("scope", "tasks:read"), ("passphrase", OWNER_TOKEN)];

/// The page that is shown again, with what is wrong in an element that a screen reader announces.
fn shown_again(response: &Response, status: u16) -> String {
    let text = text_of(response);
    assert_eq!(response.status, status, "{text}");
    assert!(text.contains("<form method=\"post\""), "{text}");
    let notice = text.split("<p class=\"notice\" id=\"notice\" role=\"alert\">").nth(1).expect("a notice");
    notice.split("</p>").next().expect("an end").to_owned()
}

fn stage(scope: &str) -> (World, Page) {
    let world = hub();
    let id = world.public_client();
    let page = world.page(&changed(&asking(&id), "scope", Some(scope)));
    (world, page)
}

fn is_checked(page: &str, scope: &str) -> Option<bool> {
    let input = page.split("<input").find(|input| input.contains(&format!("value=\"{scope}\"")))?;
    Some(input.split('>').next().expect("an end").contains(" checked"))
}

#[test]
fn the_page_says_who_asks_for_what_and_where_the_browser_goes() {
    let world = hub();
    let metadata = json!({
        "client_name": "Claude", "redirect_uris": ["https://claude.ai/api/mcp/auth_callback"],
        "token_endpoint_auth_method": "none",
    });
    let (id, _) = world.registers(&metadata);
    let page = world.page(&changed(&asking(&id), "redirect_uri", Some("https://claude.ai/api/mcp/auth_callback")));
    for words in [
        "<bdi>Claude</bdi> wants to use your taskhub",
        "<strong>claude.ai</strong>",
        "nobody vouches for it",
        "See tasks",
        HUB_WORDS,
    ] {
        assert!(page.text.contains(words), "{words}: {}", page.text);
    }
    assert!(!page.text.contains("class=\"warning\""), "no warning for a site");
    assert!(page.text.contains("<label for=\"passphrase\">") && page.text.contains("lang=\"en\""));
    assert!(page.text.contains("name=\"viewport\"") && !page.text.contains("<script"), "a phone, and no script");
}

const HUB_WORDS: &str = "Type it at <strong>https://hub.example</strong> only";

/// Every field has a label, and every note is tied to its field.
#[test]
fn every_field_of_the_page_has_a_label() {
    let (_, page) = stage("tasks:read tasks:execute hub:admin");
    let ids: Vec<&str> = page.text.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let referred = |attribute: &str| -> Vec<&str> {
        page.text.split(&format!("{attribute}=\"")).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    };
    let labels = referred(" for");
    let described = referred("aria-describedby");
    for id in labels.iter().chain(&described).flat_map(|ids| ids.split(' ')) {
        assert!(ids.contains(&id), "{id}");
    }
    for field in page.text.split("<input").skip(1).map(|rest| rest.split('>').next().expect("an end")) {
        let is_hidden = field.contains("type=\"hidden\"") || field.ends_with(" hidden");
        let id = field.split(" id=\"").nth(1).and_then(|rest| rest.split('"').next());
        assert!(is_hidden || id.is_some_and(|id| labels.contains(&id)), "{field}");
    }
}

#[test]
fn the_page_cannot_be_framed_scripted_or_kept() {
    let world = hub();
    let id = world.public_client();
    let response = world.send(&get("/authorize", &written(&asking(&id))));
    let trouble = world.send(&get("/authorize", ""));
    for response in [&response, &trouble] {
        let policy = header(response, "content-security-policy").expect("a policy");
        for rule in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "style-src 'sha256-"] {
            assert!(policy.contains(rule), "{policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("script-src"), "{policy}");
        assert_eq!(header(response, "x-frame-options"), Some("DENY"));
        assert_eq!(header(response, "x-content-type-options"), Some("nosniff"));
        assert_eq!(header(response, "cache-control"), Some("no-store"));
        assert_eq!(header(response, "referrer-policy"), Some("same-origin"));
        assert_eq!(header(response, "content-type"), Some("text/html; charset=utf-8"));
    }
    assert!(header(&trouble, "content-security-policy").unwrap().contains("form-action 'none'"));
    let cookie = header(&response, "set-cookie").expect("a cookie");
    for attribute in ["Path=/authorize", "HttpOnly", "SameSite=Lax", "Max-Age=1800", "Secure"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
}

#[test]
fn nothing_that_a_client_says_becomes_markup() {
    let world = hub();
    let name = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'&amp;\u{202e}";
    let uri = "http://localhost/cb?a=%22%3E%3Cscript%3E'()";
    let metadata = json!({ "client_name": name, "redirect_uris": [uri], "token_endpoint_auth_method": "none" });
    let (id, _) = world.registers(&metadata);
    let mut fields = changed(&asking(&id), "redirect_uri", Some(uri));
    fields.push(("x", "\"><script>alert(2)</script>"));
    let raw = format!("{}&y=\"><script>alert(3)</script>", written(&fields));
    for query in [written(&fields), raw] {
        let response = world.send(&get("/authorize", &query));
        let page = page_of(&response, &query);
        let again = world.send(&page.answer(&[
            ("decision", "approve"),
            ("scope", "\"><script>"),
            ("passphrase", "\"><script>"),
        ]));
        for text in [page.text.as_str(), text_of(&again)] {
            assert!(
                !text.contains("<script") && !text.contains("<img") && !text.contains("onerror=alert(1)>"),
                "{text}"
            );
            assert!(text.contains("&lt;script&gt;alert(1)"), "the name is shown as it is");
        }
    }
    for query in
        ["client_id=<script>", "client_id=x&client_id=<script>alert(1)</script>", "client_id=https://<script>/"]
    {
        assert!(!text_of(&world.send(&get("/authorize", query))).contains("<script"));
    }
}

/// The switches: what is asked for is on, but never the owner's own powers; reading and writing can always be added.
#[test]
fn the_owners_powers_are_never_chosen_beforehand() {
    let (_, page) = stage("tasks:read hub:admin");
    assert_eq!(is_checked(&page.text, "tasks:read"), Some(true));
    assert_eq!(is_checked(&page.text, "tasks:write"), Some(false));
    assert_eq!(is_checked(&page.text, "hub:admin"), Some(false));
    assert_eq!(is_checked(&page.text, "tasks:execute"), None);
    let (_, page) = stage("claudeai offline_access");
    assert_eq!((is_checked(&page.text, "tasks:read"), is_checked(&page.text, "tasks:write")), (Some(true), Some(true)));
    assert_eq!(is_checked(&page.text, "hub:admin"), None);
}

#[test]
fn what_was_not_offered_cannot_be_chosen() {
    let (world, page) = stage("tasks:read");
    let response = world.send(&page.approval(&["tasks:read", "hub:admin", "tasks:execute", "offline_access", "x"]));
    assert!(landed(&response).one("code").is_some());
    assert_eq!(world.grants()[0]["scopes"], json!(["tasks:read"]));
    let response = world.send(&page.approval(&["hub:admin"]));
    assert!(shown_again(&response, 400).contains("Nothing is switched on"));
    let response = world.send(&page.approval(&[]));
    assert!(shown_again(&response, 400).contains("Nothing is switched on"));
    assert_eq!(world.grants().len(), 1);
}

#[test]
fn the_owner_may_grant_less_or_more_than_was_asked_for() {
    for (asked, given) in
        [("tasks:read tasks:write", "tasks:read"), ("tasks:read", "tasks:write"), ("hub:admin", "hub:admin")]
    {
        let (world, page) = stage(asked);
        let code = landed(&world.send(&page.approval(&[given]))).one("code").unwrap().to_owned();
        let client_id = world.grants()[0]["client_id"].as_str().unwrap().to_owned();
        let response = world.exchanges(&client_id, &code);
        tokens(&client_id, &response);
        assert_eq!(super::client::json_of(&response)["scope"], given, "the client is told what it got");
    }
}

#[test]
fn working_on_tasks_needs_an_executor() {
    let (world, page) = stage("tasks:execute tasks:read");
    assert!(page.text.contains("There is no executor yet") && !page.text.contains("<select"));
    world.executor("bot", &[]);
    world.executor("ant", &[]);
    let shown = world.send(&with(get("/authorize", &page.query), "cookie", &page.cookie));
    assert!(text_of(&shown).contains("<option value=\"bot\">"), "{}", text_of(&shown));
    for executor in ["", "nobody", "Bot", "bot ", "bot' --"] {
        let fields = [&APPROVE[..], &[("scope", "tasks:execute"), ("executor", executor)]].concat();
        let response = world.send(&page.answer(&fields));
        assert!(shown_again(&response, 400).contains("needs one of your executors"), "{executor}");
    }
    assert_eq!(world.grants(), Vec::<serde_json::Value>::new());
    let fields = [&APPROVE[..], &[("scope", "tasks:execute"), ("executor", "bot")]].concat();
    assert!(landed(&world.send(&page.answer(&fields))).one("code").is_some());
    let fields = [&APPROVE[..], &[("executor", "bot")]].concat();
    assert!(landed(&world.send(&page.answer(&fields))).one("code").is_some());
    let mut granted: Vec<_> = world.grants().iter().map(|grant| grant["executor"].clone()).collect();
    granted.sort_by_key(|executor| executor.is_string());
    assert_eq!(granted, [json!(null), json!("bot")], "an executor counts only with the scope");
}

#[test]
fn a_refusal_is_told_to_the_client() {
    let (world, page) = stage("tasks:read");
    let before = world.db.dump();
    // Neither the passphrase nor a scope is needed to say no.
    let response = world.send(&page.answer(&[("decision", "deny")]));
    super::client::sent_back(&response, "access_denied");
    assert_eq!(landed(&response).address, CALLBACK);
    assert_eq!(world.db.dump(), before);
}

/// 303, so that the browser turns its POST into a GET; 307 would carry the passphrase on.
#[test]
fn the_browser_leaves_the_page_by_303() {
    let (world, page) = stage("tasks:read");
    for answer in [page.approval(&["tasks:read"]), page.answer(&[("decision", "deny")])] {
        let response = world.send(&answer);
        assert_eq!((response.status, response.body.len()), (303, 0));
        assert_eq!(header(&response, "referrer-policy"), Some("no-referrer"));
        assert!(!format!("{response:?}").contains(OWNER_TOKEN));
    }
}

/// Forms that are not this page's, in this browser, for this request, now: they are shown again, and nothing is granted.
#[test]
fn a_forged_form_grants_nothing() {
    let (world, page) = stage("tasks:read");
    let (id, other) = (world.public_client(), world.public_client());
    let elsewhere = world.page(&asking(&id));
    let right = page.answer(&APPROVE);
    let without = |name: &str| {
        let mut request = right.clone();
        request.headers.retain(|(found, _)| found != name);
        request
    };
    let with_form = |fields: &[(&str, &str)]| Request { body: written(fields).into_bytes(), ..right.clone() };
    let (expires_at, mac) = page.form_token.split_once('.').unwrap();
    let later = format!("{}.{mac}", expires_at.parse::<i64>().unwrap() + 1);
    let with_token = |token: &str| with_form(&[&[("form_token", token)], &APPROVE[..]].concat());
    let forged = [
        without("cookie"),
        with(without("cookie"), "cookie", &elsewhere.cookie),
        with(without("cookie"), "cookie", "taskhub_consent="),
        with(without("cookie"), "cookie", "taskhub_consent=AAAAAAAAAAAAAAAAAAAAAA"),
        with(without("origin"), "origin", "https://evil.example"),
        with(without("origin"), "origin", "null"),
        with(without("origin"), "origin", "http://hub.example"),
        with(without("origin"), "origin", "https://hub.example.evil.example"),
        with_form(&APPROVE),
        with_token(""),
        with_token("x"),
        with_token("9999999999999."),
        with_token(&later),
        with_token(&elsewhere.form_token),
        with_token(&format!("{}x", page.form_token)),
        with_form(&[&[("form_token", page.form_token.as_str()); 2], &APPROVE[..]].concat()),
        Request { query: written(&asking(&other)), ..right.clone() },
        Request { query: format!("{}&scope=hub:admin", page.query.replace("scope=", "x=")), ..right.clone() },
        Request { query: format!("{}&z=", page.query), ..right.clone() },
        with(without("content-type"), "content-type", "application/json"),
        with(without("content-type"), "content-type", "text/plain"),
        Request { body: vec![], ..right.clone() },
    ];
    let before = world.db.dump();
    for (number, request) in forged.into_iter().enumerate() {
        let response = world.send(&request);
        assert!(shown_again(&response, 400).contains("open for too long"), "{number}");
    }
    for decision in [
        vec![],
        vec![("decision", "")],
        vec![("decision", "Approve")],
        vec![("decision", "approve"), ("decision", "deny")],
    ] {
        let fields = [&decision[..], &APPROVE[1..]].concat();
        shown_again(&world.send(&page.answer(&fields)), 400);
    }
    assert_eq!(world.db.dump(), before, "nothing is granted, and no try is counted");
    assert_eq!(world.send(&right).status, 303);
    assert_eq!(world.send(&without("origin")).status, 303, "some browsers send no Origin");
}

#[test]
fn the_page_can_be_sent_for_half_an_hour() {
    let (world, page) = stage("tasks:read");
    world.pass(1_799_999);
    assert_eq!(world.send(&page.approval(&["tasks:read"])).status, 303);
    world.pass(1);
    let response = world.send(&page.approval(&["tasks:read"]));
    shown_again(&response, 400);
    // The page that comes instead can be sent at once, under the same cookie.
    let fresh = page_of(&response, &page.query);
    assert_eq!(fresh.cookie, page.cookie, "the browser keeps its cookie");
    assert_eq!(world.send(&fresh.approval(&["tasks:read"])).status, 303);
}

/// Two pages in one browser do not disturb each other.
#[test]
fn a_browser_may_have_several_pages_open() {
    let world = hub();
    let first = world.page(&asking(&world.public_client()));
    let query = written(&asking(&world.public_client()));
    let response = world.send(&with(get("/authorize", &query), "cookie", &format!("a=b; {}; c", first.cookie)));
    let cookie = header(&response, "set-cookie").expect("the same cookie for another half an hour");
    assert!(cookie.starts_with(&first.cookie), "{cookie}");
    let second = Page { cookie: first.cookie.clone(), ..page_of(&response, &query) };
    assert_eq!(world.send(&second.approval(&["tasks:read"])).status, 303);
    assert_eq!(world.send(&first.approval(&["tasks:read"])).status, 303);
}

#[test]
fn what_the_owner_chose_stays_after_a_mistake() {
    let (world, page) = stage("tasks:read tasks:execute");
    world.executor("bot", &[]);
    let fields = [
        ("decision", "approve"),
        ("scope", "tasks:write"),
        ("scope", "tasks:execute"),
        ("executor", "bot"),
        ("passphrase", "wrong one"),
    ];
    let response = world.send(&page.answer(&fields));
    assert!(shown_again(&response, 403).contains("This passphrase is wrong. 4 tries are left"));
    let text = text_of(&response);
    assert_eq!((is_checked(text, "tasks:read"), is_checked(text, "tasks:write")), (Some(false), Some(true)));
    assert!(text.contains("<option value=\"bot\" selected>"), "{text}");
    assert!(!text.contains("wrong one"), "the passphrase is not repeated");
}

/// A request without the page: the form alone, from a program, brings nothing.
#[test]
fn consent_takes_the_page() {
    let world = hub();
    let id = world.public_client();
    let request = Request { query: written(&asking(&id)), ..form("/authorize", &APPROVE) };
    shown_again(&world.send(&request), 400);
    assert_eq!(world.grants(), Vec::<serde_json::Value>::new());
}

/// A browser writes its origin in lower case and without the usual port, however the owner wrote it.
#[test]
fn the_public_url_may_be_written_in_any_way() {
    for public_url in ["https://Public.Example", "https://public.example:443/"] {
        let world = World::with(&[("PUBLIC_URL", public_url)]);
        let page = world.page(&asking(&world.public_client()));
        let mut request = page.approval(&["tasks:read"]);
        request.headers.retain(|(name, _)| name != "origin");
        let landed = landed(&world.send(&with(request, "origin", "https://public.example")));
        assert_eq!(landed.one("iss"), Some("https://public.example"), "{public_url}");
    }
}
