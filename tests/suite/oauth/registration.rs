//! `POST /register` (RFC 7591): what a client becomes, what is refused, and how long it is remembered.

use serde_json::{Value as Json, json};
use taskhub::hub;

use super::client::{CALLBACK, asking, from, get, hub, json_of, refused, registration, told, written};
use crate::support::World;

const DAY_MS: i64 = 86_400_000;

fn fields(body: &Json) -> Vec<&str> {
    body.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// RFC 7591 §3.2.1: all metadata that the client has now.
#[test]
fn a_registration_is_answered_with_what_the_client_is_now() {
    let world = hub();
    let response = world.send(&registration(&json!({
        "client_name": "Claude",
        "client_uri": "https://claude.ai",
        "redirect_uris": [CALLBACK],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": "tasks:read offline_access",
        "software_id": "x",
        "something_new": { "a": [1] },
    })));
    assert_eq!(response.status, 201);
    let mut body = json_of(&response);
    let id = body["client_id"].take();
    assert!(id.as_str().is_some_and(|id| id.starts_with("client-claude-") && id.len() > 30), "{id}");
    body.as_object_mut().unwrap().remove("client_id");
    let expected = json!({
        "client_id_issued_at": 1_800_000_000,
        "client_name": "Claude",
        "client_uri": "https://claude.ai",
        "redirect_uris": [CALLBACK],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    assert_eq!(body, expected);
}

/// RFC 7591 §2: without a method it is `client_secret_basic`; §3.2.1: a secret comes with its expiry.
#[test]
fn a_client_that_names_no_method_gets_a_secret() {
    let world = hub();
    for method in [Json::Null, json!("client_secret_basic"), json!("client_secret_post")] {
        let metadata = json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": method });
        let body = json_of(&world.send(&registration(&metadata)));
        let expected = method.as_str().unwrap_or("client_secret_basic");
        assert_eq!(
            (&body["token_endpoint_auth_method"], &body["client_secret_expires_at"]),
            (&json!(expected), &json!(0))
        );
        let secret = body["client_secret"].as_str().expect("a secret");
        assert!(secret.starts_with("ths_") && secret.len() >= 26, "{body}");
        assert!(!world.db.dump().join("\n").contains(secret), "it is stored nowhere");
    }
}

#[test]
fn what_a_client_has_not_is_left_out() {
    let world = hub();
    let metadata = json!({
        "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none", "client_name": "", "client_uri": "", "scope": null,
    });
    let body = json_of(&world.send(&registration(&metadata)));
    let expected = [
        "client_id",
        "client_id_issued_at",
        "grant_types",
        "redirect_uris",
        "response_types",
        "token_endpoint_auth_method",
    ];
    assert_eq!(fields(&body), expected);
    assert!(body.as_object().unwrap().values().all(|value| !value.is_null() && value != ""), "{body}");
}

#[test]
fn a_redirect_address_that_may_not_be_used_is_left_out_if_another_is_left() {
    let world = hub();
    let given = [
        "claude://callback",
        "javascript:alert(1)",
        CALLBACK,
        CALLBACK,
        "http://app.example/",
        "https://u@app.example/",
        "http://localhost:1234/callback",
    ];
    let body = json_of(&world.send(&registration(&json!({ "redirect_uris": given }))));
    assert_eq!(body["redirect_uris"], json!([CALLBACK, "http://localhost:1234/callback"]));
}

#[test]
fn a_client_without_a_usable_redirect_address_is_refused() {
    let world = hub();
    let before = world.db.dump();
    let eleven = vec![CALLBACK; 11];
    let long = format!("https://app.example/{}", "a".repeat(2_048));
    for given in [
        Json::Null,
        json!([]),
        json!(CALLBACK),
        json!([1, null, {}]),
        json!(eleven),
        json!([long]),
        json!(["/callback"]),
        json!(["claude://callback"]),
        json!(["http://app.example/"]),
        json!(["https://app.example/#x"]),
    ] {
        let response = world.send(&registration(&json!({ "redirect_uris": given })));
        refused(&response, 400, "invalid_redirect_uri");
    }
    let ten: Vec<String> = (0..10).map(|number| format!("{CALLBACK}/{number}")).collect();
    assert_eq!(world.db.dump(), before);
    assert_eq!(world.send(&registration(&json!({ "redirect_uris": ten }))).status, 201);
}

#[test]
fn metadata_that_cannot_be_met_are_refused() {
    let world = hub();
    let before = world.db.dump();
    for (field, value) in [
        ("token_endpoint_auth_method", json!("private_key_jwt")),
        ("token_endpoint_auth_method", json!("")),
        ("token_endpoint_auth_method", json!(["none"])),
        ("grant_types", json!(["client_credentials"])),
        ("grant_types", json!(["implicit"])),
        ("grant_types", json!("authorization_code")),
        ("response_types", json!(["token"])),
        ("response_types", json!(7)),
    ] {
        let mut metadata = json!({ "redirect_uris": [CALLBACK] });
        metadata[field] = value;
        refused(&world.send(&registration(&metadata)), 400, "invalid_client_metadata");
    }
    for body in ["", "null", "[]", "7", "\"x\"", "{", "redirect_uris=https%3A%2F%2Fapp.example"] {
        let mut request = registration(&Json::Null);
        request.body = body.as_bytes().to_vec();
        refused(&world.send(&request), 400, "invalid_client_metadata");
    }
    assert_eq!(world.db.dump(), before, "a refusal writes nothing and takes no try");
}

#[test]
fn names_are_one_short_line_and_home_pages_are_https() {
    let world = hub();
    let name = format!(" \u{0}Claude\r\n\t{} ", "x".repeat(500));
    for uri in ["javascript:alert(1)", "http://localhost/", "https://u:p@claude.ai", "claude.ai", "data:text/html,x"] {
        let metadata = json!({ "redirect_uris": [CALLBACK], "client_name": name, "client_uri": uri });
        let body = json_of(&world.send(&registration(&metadata)));
        let kept = body["client_name"].as_str().expect("a name");
        assert!(kept.starts_with("Claude") && kept.chars().count() <= 100, "{kept:?}");
        assert!(!kept.chars().any(char::is_control), "{kept:?}");
        assert_eq!(body.get("client_uri"), None, "{uri}");
    }
}

/// Marks that turn the direction of writing would let a name rewrite the sentence that it stands in.
#[test]
fn a_name_cannot_turn_the_text_around_it() {
    let world = hub();
    let name = "Claude\u{202e}elgooG\u{2066}\u{200f}\u{200b}\u{feff}";
    let (id, _) = world.registers(&json!({ "redirect_uris": [CALLBACK], "client_name": name }));
    let page = world.page(&asking(&id));
    for mark in [
        '\u{202a}', '\u{202b}', '\u{202d}', '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{200e}', '\u{200f}',
        '\u{200b}', '\u{feff}',
    ] {
        assert!(!page.text.contains(mark), "{mark:?}");
    }
    assert!(page.text.contains("Claude"));
}

#[test]
fn registrations_are_limited_by_address_and_in_total() {
    let world = hub();
    let register = |address: &str| world.send(&from(registration(&json!({ "redirect_uris": [CALLBACK] })), address));
    for _ in 0..20 {
        assert_eq!(register("192.0.2.1").status, 201);
    }
    let before = world.db.dump();
    for _ in 0..50 {
        let response = register("192.0.2.1");
        refused(&response, 429, "temporarily_unavailable");
        assert_eq!(super::client::header(&response, "retry-after"), Some("3600"));
    }
    assert_eq!(world.db.dump(), before, "what is refused writes nothing");
    for address in ["192.0.2.2", "2001:db8:1:2:3::4"] {
        (0..20).for_each(|_| assert_eq!(register(address).status, 201));
    }
    // One subscriber has all addresses of a /64.
    refused(&register("2001:db8:1:2:ffff::1"), 429, "temporarily_unavailable");
    refused(&register("192.0.2.3"), 429, "temporarily_unavailable");
    world.pass(3_600_000);
    assert_eq!(register("192.0.2.1").status, 201);
}

/// Whether the client is still known: asked at `/authorize`, which shows its page or says that it is not registered.
fn is_known(world: &World, id: &str) -> bool {
    let response = world.send(&get("/authorize", &written(&asking(id))));
    if response.status == 200 {
        return true;
    }
    assert!(told(&response, 400).contains("not registered"));
    false
}

#[test]
fn a_client_that_was_never_approved_is_forgotten_after_30_days() {
    let world = hub();
    let id = world.public_client();
    world.pass(30 * DAY_MS - 1);
    world.run(hub::purge_sign_in).0.unwrap();
    assert!(is_known(&world, &id));
    world.pass(1);
    assert!(!is_known(&world, &id), "whether or not it was swept away yet");
    refused(&world.refreshes(&id, "thr_x"), 401, "invalid_client");
    world.pass(1);
    world.run(hub::purge_sign_in).0.unwrap();
    assert!(!world.db.dump().join("\n").contains(&id));
}

#[test]
fn a_client_that_was_approved_is_never_forgotten() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    for _ in 0..5 {
        world.pass(1_000 * DAY_MS);
        world.run(hub::purge_sign_in).0.unwrap();
    }
    assert_eq!(world.grants(), Vec::<Json>::new(), "its grant is long over");
    assert!(is_known(&world, &connected.client_id));
    refused(&world.refreshes(&connected.client_id, &connected.refresh), 400, "invalid_grant");
}

/// A flood of registrations pushes out its own.
#[test]
fn of_clients_that_were_never_approved_the_newest_hundred_stay() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    let mut ids = Vec::new();
    for number in 0..120 {
        world.pass(60_000);
        let address = format!("192.0.2.{number}");
        let response = world.send(&from(registration(&json!({ "redirect_uris": [CALLBACK] })), &address));
        ids.push(json_of(&response)["client_id"].as_str().expect("an id").to_owned());
    }
    let known: Vec<bool> = ids.iter().map(|id| is_known(&world, id)).collect();
    assert_eq!(known, [vec![false; 20], vec![true; 100]].concat());
    assert!(is_known(&world, &connected.client_id));
}
