//! Authorization codes: once, soon, and only to whom they were sent (OAuth 2.1 §4.1.3, RFC 7636 §4.6).

use serde_json::json;
use taskhub::domain::token::{Handle, code};

use super::client::{
    CALLBACK, VERIFIER, asking, changed, exchange, form, header, hub, json_of, landed, refused, tokens, with, written,
};
use crate::support::World;

/// A hub, a client, and its code.
fn stage() -> (World, String, String) {
    let world = hub();
    let id = world.public_client();
    let code = world.code(&id, &["tasks:read", "tasks:write"]);
    (world, id, code)
}

#[test]
fn a_code_brings_tokens() {
    let (world, id, code) = stage();
    let response = world.exchanges(&id, &code);
    let body = json_of(&response);
    let connected = tokens(&id, &response);
    assert_eq!((&body["expires_in"], &body["scope"]), (&json!(86_400), &json!("tasks:read tasks:write")));
    assert_eq!(body.as_object().map(serde_json::Map::len), Some(5), "nothing more: {body}");
    assert!(connected.access.starts_with("tha_") && connected.refresh.starts_with("thr_"));
    assert!(world.is_good(&connected.access));
    assert_eq!(world.grants()[0]["active"], true);
}

/// RFC 6749 §4.1.2: a second use is refused, and ends what came of the first, whoever makes it.
#[test]
fn a_code_that_is_used_again_ends_what_came_of_it() {
    type Changed = Vec<(&'static str, String)>;
    let others: [fn(&World, &str, &str) -> Changed; 3] = [
        |_, id, _| vec![("client_id", id.to_owned()), ("code_verifier", VERIFIER.to_owned())],
        |_, id, _| vec![("client_id", id.to_owned()), ("code_verifier", "wrong".to_owned())],
        |world, _, _| vec![("client_id", world.public_client()), ("code_verifier", VERIFIER.to_owned())],
    ];
    for other in others {
        let (world, id, code) = stage();
        let connected = tokens(&id, &world.exchanges(&id, &code));
        let renewed = tokens(&id, &world.refreshes(&id, &connected.refresh));
        world.pass(86_000_000);
        let mut fields = vec![("grant_type", "authorization_code".to_owned()), ("code", code.clone())];
        fields.extend(other(&world, &id, &code));
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert!(refused(&world.token(&fields), 400, "invalid_grant").contains("used before"));
        for access in [&connected.access, &renewed.access] {
            assert!(!world.is_good(access), "it stops at once");
        }
        refused(&world.refreshes(&id, &renewed.refresh), 400, "invalid_grant");
        let grant = &world.grants()[0];
        assert_eq!((&grant["active"], &grant["revoked_because"]), (&json!(false), &json!("code_replayed")));
        refused(&world.exchanges(&id, &code), 400, "invalid_grant");
    }
}

#[test]
fn a_code_lives_for_a_minute() {
    let (world, id, code) = stage();
    world.pass(59_999);
    tokens(&id, &world.exchanges(&id, &code));
    let (world, id, code) = stage();
    world.pass(60_000);
    assert!(refused(&world.exchanges(&id, &code), 400, "invalid_grant").contains("expired"));
    assert_eq!(world.grants()[0]["active"], false);
}

/// What is wrong with an exchange does not use the code up, so nobody can spoil it for the client that it belongs to.
#[test]
fn a_wrong_exchange_does_not_use_the_code_up() {
    let (world, id, code) = stage();
    let other = world.public_client();
    let right = exchange(&id, &code);
    let before = world.db.dump();
    let too_long = "a".repeat(100_000);
    for (name, value, error) in [
        ("client_id", Some(other.as_str()), "invalid_grant"),
        ("redirect_uri", Some("https://app.example/other"), "invalid_grant"),
        ("redirect_uri", Some("https://app.example/callback/"), "invalid_grant"),
        ("code_verifier", Some("another-verifier-that-is-long-enough-to-be-one"), "invalid_grant"),
        ("code_verifier", Some(super::client::CHALLENGE), "invalid_grant"),
        ("code_verifier", Some(too_long.as_str()), "invalid_grant"),
        ("code_verifier", None, "invalid_request"),
        ("code_verifier", Some(""), "invalid_request"),
        ("resource", Some("https://other.example/mcp"), "invalid_target"),
    ] {
        refused(&world.token(&changed(&right, name, value)), 400, error);
        assert_eq!(world.db.dump(), before, "{name}");
    }
    tokens(&id, &world.token(&right));
}

/// OAuth 2.1 dropped it from the exchange; clients of RFC 6749 send it.
#[test]
fn an_exchange_may_leave_the_redirect_address_out() {
    let (world, id, code) = stage();
    tokens(&id, &world.token(&changed(&exchange(&id, &code), "redirect_uri", None)));
}

/// On loopback, the exchange repeats the address with the port that the browser was sent to.
#[test]
fn an_exchange_repeats_the_loopback_address_to_the_letter() {
    let world = hub();
    let metadata = json!({ "redirect_uris": ["http://localhost/cb"], "token_endpoint_auth_method": "none" });
    let (id, _) = world.registers(&metadata);
    let page = world.page(&changed(&asking(&id), "redirect_uri", Some("http://127.0.0.1:4711/cb")));
    let code = landed(&world.send(&page.approval(&["tasks:read"]))).one("code").unwrap().to_owned();
    let right = exchange(&id, &code);
    for address in ["http://localhost/cb", "http://localhost:4711/cb", "http://127.0.0.1:4712/cb", CALLBACK] {
        refused(&world.token(&changed(&right, "redirect_uri", Some(address))), 400, "invalid_grant");
    }
    tokens(&id, &world.token(&changed(&right, "redirect_uri", Some("http://127.0.0.1:4711/cb"))));
}

#[test]
fn what_is_no_code_is_refused() {
    let (world, id, code_text) = stage();
    let connected = world.connected(&["tasks:read"]);
    let foreign = code("the secret of another hub, long enough", &Handle::new([3; 16]));
    let unknown = code(&world.settings.hub_secret, &Handle::new([3; 16]));
    let (handle, mac) = code_text.split_once('.').unwrap();
    for junk in [
        "x",
        "thc_",
        "thc_.",
        &foreign,
        &unknown,
        handle,
        &format!("{handle}."),
        &format!("{code_text}x"),
        &code_text[1..],
        &format!("{handle}.{}", mac.to_uppercase()),
        &format!(" {code_text}"),
        &connected.refresh,
        &connected.access,
        &code_text.replace("thc_", "thr_"),
        "\u{0}",
        &"x".repeat(100_000),
    ] {
        refused(&world.exchanges(&id, junk), 400, "invalid_grant");
    }
    tokens(&id, &world.exchanges(&id, &code_text));
}

/// RFC 9700 §4.5: a code that an attacker puts into somebody else's session does not fit the verifier there.
#[test]
fn an_injected_code_brings_nothing() {
    let world = hub();
    let id = world.public_client();
    // The attacker's own code, of the same client, made for another challenge.
    let theirs = changed(&asking(&id), "code_challenge", Some("47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"));
    let injected = landed(&world.send(&world.page(&theirs).approval(&["tasks:read"]))).one("code").unwrap().to_owned();
    assert!(refused(&world.exchanges(&id, &injected), 400, "invalid_grant").contains("code_verifier"));
    assert!(world.grants().iter().all(|grant| grant["active"] == false));
}

/// RFC 9207 §1: a client that talks to several servers tells by `iss` whose answer it holds; it is the metadata's issuer.
#[test]
fn a_mix_up_shows_by_the_issuer() {
    let world = hub();
    let id = world.public_client();
    let issuer =
        json_of(&world.send(&super::client::get("/.well-known/oauth-authorization-server", "")))["issuer"].clone();
    let page = world.page(&asking(&id));
    for answer in [page.approval(&["tasks:read"]), page.answer(&[("decision", "deny")])] {
        assert_eq!(json!(landed(&world.send(&answer)).one("iss")), issuer);
    }
    let response =
        world.send(&super::client::get("/authorize", &written(&changed(&asking(&id), "scope", Some("x x")))));
    assert_eq!(response.status, 200);
}

#[test]
fn a_request_for_tokens_that_is_not_one_is_refused() {
    let (world, id, code) = stage();
    let right = exchange(&id, &code);
    let before = world.db.dump();
    for (name, value, status, error) in [
        ("grant_type", None, 400, "invalid_request"),
        ("grant_type", Some(""), 400, "invalid_request"),
        ("grant_type", Some("client_credentials"), 400, "unsupported_grant_type"),
        ("grant_type", Some("password"), 400, "unsupported_grant_type"),
        ("grant_type", Some("implicit"), 400, "unsupported_grant_type"),
        ("grant_type", Some("AUTHORIZATION_CODE"), 400, "unsupported_grant_type"),
        ("grant_type", Some("refresh_token"), 400, "invalid_request"),
        ("code", None, 400, "invalid_request"),
        ("code", Some(""), 400, "invalid_request"),
        ("client_id", None, 401, "invalid_client"),
        ("client_id", Some("nobody"), 401, "invalid_client"),
    ] {
        refused(&world.token(&changed(&right, name, value)), status, error);
    }
    for name in ["grant_type", "code", "client_id", "redirect_uri", "code_verifier", "client_secret"] {
        let mut doubled = right.clone();
        let value = right.iter().find(|(found, _)| *found == name).map_or("x", |(_, value)| *value);
        doubled.push((name, value));
        if name == "client_secret" {
            doubled.push((name, value));
        }
        assert!(refused(&world.token(&doubled), 400, "invalid_request").contains("more than once"), "{name}");
    }
    for content_type in
        ["application/json", "text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded2", ""]
    {
        let mut request = form("/token", &right);
        request.headers.clear();
        let description = refused(&world.send(&with(request, "content-type", content_type)), 400, "invalid_request");
        assert!(description.contains("application/x-www-form-urlencoded"), "{description}");
    }
    let mut json = form("/token", &[]);
    json.body = json!({ "grant_type": "authorization_code", "code": code, "client_id": id }).to_string().into_bytes();
    refused(&world.send(&json), 401, "invalid_client");
    assert_eq!(world.db.dump(), before);
    let mut request = form("/token", &right);
    request.headers = vec![("content-type".to_owned(), "Application/X-WWW-Form-Urlencoded; Charset=UTF-8".to_owned())];
    tokens(&id, &world.send(&request));
}

/// Parameters in the address do not count: a log would keep them.
#[test]
fn a_code_in_the_address_does_not_count() {
    let (world, id, code) = stage();
    let mut request = form("/token", &[]);
    request.query = written(&exchange(&id, &code));
    refused(&world.send(&request), 401, "invalid_client");
    assert_eq!(header(&world.exchanges(&id, &code), "cache-control"), Some("no-store"));
}
