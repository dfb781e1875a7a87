//! `GET /authorize`: each parameter missing, doubled and wrong, and who is told (OAuth 2.1 §4.1, RFC 7636, RFC 9207).

use serde_json::json;
use taskhub::http::message::Request;

use super::client::{
    CALLBACK, CHALLENGE, HUB, asking, changed, get, header, hub, landed, page_of, sent_back, told, written,
};
use crate::support::World;

fn look(world: &World, fields: &super::client::Fields<'_>) -> taskhub::http::message::Response {
    world.send(&get("/authorize", &written(fields)))
}

#[test]
fn what_is_wrong_before_the_redirect_address_is_known_is_told_on_a_page() {
    let world = hub();
    let id = world.public_client();
    let right = asking(&id);
    let before = world.db.dump();
    for (name, value, says) in [
        ("client_id", None, "which client it is from"),
        ("client_id", Some(""), "which client it is from"),
        ("client_id", Some("client-unknown"), "not registered"),
        ("client_id", Some("' OR 1=1 --"), "not registered"),
        ("redirect_uri", Some("https://app.example/other"), "not an address that this client has registered"),
        ("redirect_uri", Some("https://app.example/callback/"), "not an address that this client has registered"),
        ("redirect_uri", Some("https://app.example/callback?x=1"), "not an address that this client has registered"),
        ("redirect_uri", Some("https://APP.example/callback"), "not an address that this client has registered"),
        ("redirect_uri", Some("https://app.example:443/callback"), "not an address that this client has registered"),
        ("redirect_uri", Some("https://app.example/./callback"), "not an address that this client has registered"),
    ] {
        let text = told(&look(&world, &changed(&right, name, value)), 400);
        assert!(text.contains(says), "{name} {value:?}: {text}");
    }
    for name in ["client_id", "redirect_uri", "state"] {
        let mut doubled = right.clone();
        doubled.push((name, "x"));
        assert!(told(&look(&world, &doubled), 400).contains("more than once"), "{name}");
        let again = right.iter().find(|(found, _)| *found == name).copied().expect("it is there");
        doubled.pop();
        doubled.push(again);
        told(&look(&world, &doubled), 400);
    }
    assert_eq!(world.db.dump(), before);
}

/// Errors carry state and issuer as answers do (RFC 9207 §2).
#[test]
fn what_is_wrong_after_that_is_told_to_the_client() {
    let world = hub();
    let id = world.approved_client();
    let right = asking(&id);
    let before = world.db.dump();
    let long = "s".repeat(2_049);
    let longer = format!("{CHALLENGE}A");
    let wrong = [
        ("response_type", None, "invalid_request"),
        ("response_type", Some("token"), "unsupported_response_type"),
        ("response_type", Some("code token"), "unsupported_response_type"),
        ("response_type", Some("CODE"), "unsupported_response_type"),
        ("response_mode", Some("fragment"), "invalid_request"),
        ("response_mode", Some("form_post"), "invalid_request"),
        ("request", Some("eyJhbGciOiJub25lIn0.e30."), "invalid_request"),
        ("request_uri", Some("https://app.example/request"), "invalid_request"),
        ("code_challenge", None, "invalid_request"),
        ("code_challenge", Some(""), "invalid_request"),
        ("code_challenge", Some("short"), "invalid_request"),
        ("code_challenge", Some(longer.as_str()), "invalid_request"),
        ("code_challenge", Some("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw+cM"), "invalid_request"),
        ("code_challenge_method", None, "invalid_request"),
        ("code_challenge_method", Some("plain"), "invalid_request"),
        ("code_challenge_method", Some("s256"), "invalid_request"),
        ("resource", Some("https://other.example/mcp"), "invalid_target"),
        ("resource", Some("nonsense"), "invalid_target"),
        ("prompt", Some("none"), "interaction_required"),
    ];
    for (name, value, error) in wrong {
        let response = look(&world, &changed(&right, name, value));
        sent_back(&response, error);
        let landed = landed(&response);
        assert_eq!((landed.address.as_str(), landed.one("state")), (CALLBACK, Some("the state")), "{name}");
    }
    sent_back(&look(&world, &changed(&right, "state", Some(&long))), "invalid_request");
    for name in [
        "response_type",
        "code_challenge",
        "code_challenge_method",
        "scope",
        "response_mode",
        "prompt",
        "request",
        "request_uri",
    ] {
        let mut doubled = right.clone();
        doubled.extend([(name, "x"), (name, "x")]);
        assert!(sent_back(&look(&world, &doubled), "invalid_request").contains("more than once"), "{name}");
    }
    assert_eq!(world.db.dump(), before, "a look at the page, or an error, writes nothing");
}

/// RFC 7636 §4.3: without a method it would be `plain`, which is not taken. §4.4.1 wants `invalid_request`.
#[test]
fn there_is_no_way_around_pkce() {
    let world = hub();
    let id = world.approved_client();
    for (challenge, method) in [
        (None, None),
        (None, Some("S256")),
        (Some(CHALLENGE), None),
        (Some(CHALLENGE), Some("plain")),
        (Some(""), Some("S256")),
    ] {
        let fields = changed(&changed(&asking(&id), "code_challenge", challenge), "code_challenge_method", method);
        let response = look(&world, &fields);
        sent_back(&response, "invalid_request");
        assert_eq!(landed(&response).one("code"), None);
    }
}

/// RFC 6749 §3.1: parameters that mean nothing here are ignored, and empty ones count as left out.
#[test]
fn what_means_nothing_or_is_empty_is_ignored() {
    let world = hub();
    let id = world.public_client();
    let mut fields = asking(&id);
    fields.extend([
        ("nonce", "n"),
        ("login_hint", "me"),
        ("display", "popup"),
        ("max_age", "0"),
        ("ui_locales", "de"),
        ("claims", "{}"),
        ("access_type", "offline"),
        ("audience", "x"),
        ("scope", ""),
        ("resource", ""),
        ("prompt", "consent"),
        ("response_mode", "query"),
        ("nonce", "twice"),
    ]);
    assert_eq!(look(&world, &fields).status, 200);
}

#[test]
fn state_and_issuer_come_back_with_a_code_and_with_a_refusal() {
    let world = hub();
    let id = world.public_client();
    for state in ["x", "a b+c%20&d=e#f?g", "zürich ✓", "\r\nset-cookie: a=b", &"s".repeat(2_048)] {
        let fields = changed(&asking(&id), "state", Some(state));
        let page = world.page(&fields);
        for (answer, has_code) in
            [(page.approval(&["tasks:read"]), true), (page.answer(&[("decision", "deny")]), false)]
        {
            let landed = landed(&world.send(&answer));
            assert_eq!((landed.one("state"), landed.one("iss")), (Some(state), Some(HUB)));
            assert_eq!(landed.one("code").is_some(), has_code);
            assert_eq!(landed.one("error"), (!has_code).then_some("access_denied"));
        }
    }
    for fields in [changed(&asking(&id), "state", None), changed(&asking(&id), "state", Some(""))] {
        let landed = landed(&world.send(&world.page(&fields).approval(&["tasks:read"])));
        assert_eq!(landed.one("state"), None, "what was not sent does not come back");
    }
}

#[test]
fn a_client_with_one_address_need_not_repeat_it() {
    let world = hub();
    let id = world.public_client();
    let fields = changed(&asking(&id), "redirect_uri", None);
    assert_eq!(landed(&world.send(&world.page(&fields).approval(&["tasks:read"]))).address, CALLBACK);
    let two = [CALLBACK, "https://app.example/other"];
    let (id, _) = world.registers(&json!({ "redirect_uris": two, "token_endpoint_auth_method": "none" }));
    let response = look(&world, &changed(&asking(&id), "redirect_uri", None));
    assert!(told(&response, 400).contains("redirect_uri is missing"));
}

/// What a client's address has of its own stays, and is told apart from what is added.
#[test]
fn a_query_of_the_redirect_address_stays() {
    let world = hub();
    let address = "https://app.example/callback?tenant=a%26b&x";
    let (id, _) = world.registers(&json!({ "redirect_uris": [address], "token_endpoint_auth_method": "none" }));
    let fields = changed(&asking(&id), "redirect_uri", Some(address));
    let landed = landed(&world.send(&world.page(&fields).approval(&["tasks:read"])));
    assert_eq!(
        (landed.one("tenant"), landed.one("x"), landed.one("state")),
        (Some("a&b"), Some(""), Some("the state"))
    );
    assert!(landed.one("code").is_some());
}

#[test]
fn an_unknown_client_is_never_answered_with_a_fault_of_the_hub() {
    let world = hub();
    for id in ["\u{0}", "../../etc/passwd", "%", "\u{202e}", &"x".repeat(100_000), "client-", "{}", "null", "0"] {
        assert!(told(&look(&world, &changed(&asking("x"), "client_id", Some(id))), 400).len() > 100);
    }
    for query in ["", "&", "=", "&&&===", "client_id", "%zz=%", "client_id=%ff%fe", "a[]=1", ";client_id=x"] {
        told(&world.send(&get("/authorize", query)), 400);
    }
}

#[test]
fn head_and_a_slash_at_the_end_are_the_same_page() {
    let world = hub();
    let id = world.public_client();
    let query = written(&asking(&id));
    for request in [get("/authorize/", &query), Request { method: "HEAD".to_owned(), ..get("/authorize", &query) }] {
        assert_eq!(world.send(&request).status, 200);
    }
    for method in ["PUT", "DELETE", "PATCH"] {
        let response = world.send(&Request { method: method.to_owned(), ..get("/authorize", &query) });
        assert_eq!((response.status, header(&response, "allow")), (405, Some("GET, POST")));
    }
}

/// A token or a passphrase in the address of the page counts for nothing.
#[test]
fn credentials_in_the_query_count_for_nothing() {
    let world = hub();
    let id = world.public_client();
    let mut fields = asking(&id);
    fields.extend([
        ("passphrase", super::client::PASSPHRASE),
        ("decision", "approve"),
        ("access_token", crate::support::OWNER_TOKEN),
    ]);
    let response = look(&world, &fields);
    assert_eq!(response.status, 200);
    let page = page_of(&response, &written(&fields));
    let response = world.send(&page.answer(&[("decision", "approve"), ("scope", "tasks:read")]));
    assert_eq!(response.status, 403, "the passphrase is missing from the form");
}
