//! How clients prove themselves at `/token` and `/revoke` (RFC 6749 §2.3, §3.2.1).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use taskhub::http::message::{Request, Response};

use super::client::{CALLBACK, changed, exchange, form, from, header, hub, refused, tokens, with, written};
use crate::support::World;

fn basic(request: Request, id: &str, secret: &str) -> Request {
    let encoded = |text: &str| written(&[("x", text)])["x=".len()..].to_owned();
    let credentials = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)));
    with(request, "authorization", &format!("Basic {credentials}"))
}

/// A confidential client of this method, with its secret.
fn confidential(world: &World, method: &str) -> (String, String) {
    let metadata = json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": method });
    let (id, secret) = world.registers(&metadata);
    (id, secret.expect("a secret"))
}

/// RFC 6749 §5.2: 401 with a challenge of the scheme that the client used.
fn refused_basic(response: &Response) -> String {
    assert_eq!(header(response, "www-authenticate"), Some("Basic realm=\"taskhub\""));
    refused(response, 401, "invalid_client")
}

#[test]
fn a_secret_goes_in_the_form_or_in_the_header() {
    for method in ["client_secret_post", "client_secret_basic"] {
        let world = hub();
        let (id, secret) = confidential(&world, method);
        let code = world.code(&id, &["tasks:read"]);
        let in_form = changed(&exchange(&id, &code), "client_secret", Some(&secret));
        let refresh = tokens(&id, &world.token(&in_form)).refresh;
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh.as_str())];
        tokens(&id, &world.send(&basic(form("/token", &fields), &id, &secret)));
        // The same id in the form beside it is no second proof.
        let fields = changed(&fields, "client_id", Some(&id));
        tokens(&id, &world.send(&basic(form("/token", &fields), &id, &secret)));
    }
}

#[test]
fn a_public_client_sends_its_id_alone() {
    let world = hub();
    let id = world.public_client();
    let code = world.code(&id, &["tasks:read"]);
    let with_secret = changed(&exchange(&id, &code), "client_secret", Some("made up"));
    refused(&world.token(&with_secret), 401, "invalid_client");
    // Some clients send an empty one, or an empty password.
    let empty = changed(&exchange(&id, &code), "client_secret", Some(""));
    let connected = tokens(&id, &world.token(&empty));
    let fields = [("grant_type", "refresh_token"), ("refresh_token", connected.refresh.as_str())];
    tokens(&id, &world.send(&basic(form("/token", &fields), &id, "")));
}

#[test]
fn a_confidential_client_must_prove_itself() {
    let world = hub();
    let (id, secret) = confidential(&world, "client_secret_basic");
    let (other, others) = confidential(&world, "client_secret_post");
    let code = world.code(&id, &["tasks:read"]);
    let right = exchange(&id, &code);
    refused(&world.token(&right), 401, "invalid_client");
    let wrong = ["x", "ths_", &others, &secret[1..], &format!("{secret}x"), &secret.to_uppercase(), " "];
    for (number, wrong) in wrong.into_iter().enumerate() {
        let address = format!("198.51.100.{number}");
        let in_form = form("/token", &changed(&right, "client_secret", Some(wrong)));
        refused(&world.send(&from(in_form, &address)), 401, "invalid_client");
        let in_header = basic(form("/token", &changed(&right, "client_id", None)), &id, wrong);
        refused_basic(&world.send(&from(in_header, &address)));
    }
    let response = world.send(&from(basic(form("/token", &right), &other, &secret), "192.0.2.1"));
    refused(&response, 400, "invalid_request");
    let fields = changed(&right, "client_secret", Some(&secret));
    tokens(&id, &world.send(&from(form("/token", &fields), "192.0.2.1")));
}

/// RFC 6749 §2.3: one method in one request.
#[test]
fn two_proofs_at_once_are_refused() {
    let world = hub();
    let (id, secret) = confidential(&world, "client_secret_basic");
    let fields = [("grant_type", "refresh_token"), ("refresh_token", "x"), ("client_secret", secret.as_str())];
    let description = refused(&world.send(&basic(form("/token", &fields), &id, &secret)), 400, "invalid_request");
    assert!(description.contains("two ways"), "{description}");
    let fields = [("grant_type", "refresh_token"), ("refresh_token", "x"), ("client_id", "another")];
    refused(&world.send(&basic(form("/token", &fields), &id, &secret)), 400, "invalid_request");
}

/// RFC 6749 §2.3.1: id and secret are form-encoded before they are put together; an id that is an address shows it.
#[test]
fn the_header_is_form_encoded_inside() {
    let world = hub();
    let id = "https://app.example/client.json?a=b+c";
    let request = basic(form("/token", &[("grant_type", "refresh_token"), ("refresh_token", "x")]), id, "");
    assert!(refused_basic(&world.send(&request)).contains("not registered"), "the id could be read");
    let (id, secret) = confidential(&world, "client_secret_basic");
    let percent = |text: &str| text.bytes().map(|b| format!("%{b:02X}")).collect::<String>();
    let credentials = STANDARD.encode(format!("{}:{}", percent(&id), percent(&secret)));
    let request = form("/token", &[("grant_type", "refresh_token"), ("refresh_token", "x")]);
    for scheme in ["Basic", "basic", "BASIC"] {
        let request = with(request.clone(), "authorization", &format!("{scheme} {credentials}"));
        refused(&world.send(&request), 400, "invalid_grant");
    }
}

#[test]
fn a_header_that_cannot_be_read_is_refused() {
    let world = hub();
    let id = world.public_client();
    let no_utf8 = STANDARD.encode([0xff, b':', 0xfe]);
    for value in
        ["Basic", "Basic ", "Basic !!!", "Basic eA==", "Bearer x", "Digest x", "x", "", &format!("Basic {no_utf8}")]
    {
        let fields = [("grant_type", "refresh_token"), ("client_id", id.as_str()), ("refresh_token", "x")];
        refused_basic(&world.send(&with(form("/token", &fields), "authorization", value)));
    }
}

/// Upon this answer clients register anew; the scheme that was used is named.
#[test]
fn an_unknown_client_is_told_to_register_anew() {
    let world = hub();
    let fields = [("grant_type", "refresh_token"), ("refresh_token", "x"), ("client_id", "client-gone")];
    let response = world.token(&fields);
    assert!(refused(&response, 401, "invalid_client").contains("Register it anew"));
    assert_eq!(header(&response, "www-authenticate"), None, "no scheme was used");
    let response = world.send(&basic(form("/token", &fields[..2]), "client-gone", "x"));
    assert!(refused_basic(&response).contains("Register it anew"));
}

#[test]
fn wrong_secrets_are_limited_by_address_and_in_total() {
    let world = hub();
    let (id, secret) = confidential(&world, "client_secret_post");
    let with_secret = |secret: &str, address: &str| {
        let fields =
            [("grant_type", "refresh_token"), ("refresh_token", "x"), ("client_id", &id), ("client_secret", secret)];
        world.send(&from(form("/token", &fields), address))
    };
    for _ in 0..10 {
        refused(&with_secret("wrong", "192.0.2.1"), 401, "invalid_client");
    }
    let before = world.db.dump();
    for _ in 0..50 {
        let response = with_secret("wrong", "192.0.2.1");
        refused(&response, 429, "temporarily_unavailable");
        assert_eq!(header(&response, "retry-after"), Some("3600"));
    }
    assert_eq!(world.db.dump(), before, "a flood writes no rows");
    for address in ["192.0.2.1", "192.0.2.2"] {
        refused(&with_secret(&secret, address), 400, "invalid_grant");
    }
    for number in 2..11 {
        (0..10).for_each(|_| drop(refused(&with_secret("wrong", &format!("192.0.2.{number}")), 401, "invalid_client")));
    }
    refused(&with_secret("wrong", "192.0.2.99"), 429, "temporarily_unavailable");
    refused(&with_secret(&secret, "192.0.2.99"), 400, "invalid_grant");
    world.pass(3_600_000);
    refused(&with_secret("wrong", "192.0.2.99"), 401, "invalid_client");
}

/// A public client has no secret to guess, so wrong ones of it cost no try and write nothing.
#[test]
fn public_clients_go_on_while_secrets_are_guessed() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    let (id, _) = confidential(&world, "client_secret_post");
    let fields =
        [("grant_type", "refresh_token"), ("refresh_token", "x"), ("client_id", &id), ("client_secret", "wrong")];
    (0..12).for_each(|_| drop(world.token(&fields)));
    tokens(&connected.client_id, &world.refreshes(&connected.client_id, &connected.refresh));
}

/// Two secrets are compared in constant time by `domain::secret::equal`; that nothing else decides is shown by the
/// answers, which are the same whatever the first difference is.
#[test]
fn a_wrong_secret_tells_nothing_about_the_right_one() {
    let world = hub();
    let (id, secret) = confidential(&world, "client_secret_post");
    let mut answers = Vec::new();
    for length in [0, 1, 10, 20, secret.len() - 1] {
        let wrong = format!("{}!", &secret[..length]);
        let fields =
            [("grant_type", "refresh_token"), ("refresh_token", "x"), ("client_id", &id), ("client_secret", &wrong)];
        answers.push(world.token(&fields));
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}
