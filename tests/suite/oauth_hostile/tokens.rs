//! Codes and tokens in the wrong hands.

use serde_json::json;
use taskhub::domain::token;
use taskhub::http::front;
use taskhub::http::message::Request;

use super::{
    CALLBACK, HUB, VERIFIER, access_of, calls, client, code, exchange, form, get, hub, json_of, post, refresh,
    refresh_of, with, written,
};
use crate::support::{OWNER_TOKEN, World};

const GRACE_MS: i64 = 120_000;
const DAY_MS: i64 = 86_400_000;

fn revoked_because(world: &World) -> Option<String> {
    let (_, grants) = world.call("GET", "/api/grants", OWNER_TOKEN, json!(null));
    grants["grants"][0]["revoked_because"].as_str().map(str::to_owned)
}

#[test]
fn code_injection_a_code_is_worth_nothing_to_another() {
    let world = hub();
    let (id, other) = (client(&world, &[CALLBACK]), client(&world, &[CALLBACK]));
    let code = code(&world, &id);
    let right = [
        ("grant_type", "authorization_code"),
        ("client_id", id.as_str()),
        ("code", code.as_str()),
        ("code_verifier", VERIFIER),
        ("redirect_uri", CALLBACK),
    ];
    let before = world.db.dump();
    let wrong_verifier = "a".repeat(43);
    for (name, value) in [
        ("client_id", Some(other.as_str())),
        ("code_verifier", Some(wrong_verifier.as_str())),
        ("code_verifier", Some(super::CHALLENGE)),
        ("code_verifier", Some("")),
        ("code_verifier", None),
        ("redirect_uri", Some("https://evil.example/cb")),
        ("redirect_uri", Some("https://app.example/cb/")),
        ("resource", Some("https://evil.example/mcp")),
    ] {
        let mut fields: Vec<_> = right.iter().copied().filter(|(found, _)| *found != name).collect();
        fields.extend(value.map(|value| (name, value)));
        let response = world.send(&form("/token", &fields));
        assert_eq!(response.status, 400, "{name} {value:?}");
        assert!(json_of(&response)["access_token"].is_null());
    }
    assert_eq!(world.db.dump(), before, "a wrong try spends nothing");
    assert_eq!(world.send(&form("/token", &right)).status, 200);
}

#[test]
fn a_code_that_comes_twice_takes_everything_with_it() {
    let world = hub();
    let id = client(&world, &[CALLBACK]);
    let code = code(&world, &id);
    let tokens = exchange(&world, &id, &code);
    let (access, first) = (access_of(&tokens), refresh_of(&tokens));
    let later = access_of(&refresh(&world, &id, &first));
    assert_eq!((calls(&world, &access), calls(&world, &later)), (200, 200));
    assert_eq!(exchange(&world, &id, &code).status, 400);
    assert_eq!((calls(&world, &access), calls(&world, &later)), (401, 401));
    assert_eq!(refresh(&world, &id, &first).status, 400);
    assert_eq!(revoked_because(&world).as_deref(), Some("code_replayed"));
}

/// Each order in which thief and owner of a refresh token can use it. Who is two steps behind ends the grant for both.
#[test]
fn a_stolen_refresh_token_ends_the_grant_once_one_of_both_is_two_steps_behind() {
    for (order, ends) in [
        // T: the thief uses the newest that it has; V: the victim does.
        ("TTV", true),
        ("VVT", true),
        ("TVVVT", true),
        ("VTTTV", true),
        ("TV", false),
        ("VT", false),
    ] {
        let world = hub();
        let id = client(&world, &[CALLBACK]);
        let stolen = refresh_of(&exchange(&world, &id, &code(&world, &id)));
        let mut held = [stolen.clone(), stolen];
        let mut last = 200;
        for who in order.chars() {
            world.pass(GRACE_MS + 1);
            let own = &mut held[usize::from(who == 'V')];
            let response = refresh(&world, &id, own);
            last = response.status;
            if last == 200 {
                *own = refresh_of(&response);
            }
        }
        assert_eq!(last == 400, ends, "{order}");
        assert_eq!(revoked_because(&world).as_deref(), ends.then_some("refresh_replayed"), "{order}");
        for token in &held {
            assert_eq!(refresh(&world, &id, token).status == 400, ends, "{order}: nobody is left signed in");
        }
    }
}

#[test]
fn a_refresh_token_of_another_client_says_nothing_and_ends_nothing() {
    let world = hub();
    let (id, other) = (client(&world, &[CALLBACK]), client(&world, &[CALLBACK]));
    let tokens = exchange(&world, &id, &code(&world, &id));
    let token = refresh_of(&tokens);
    for _ in 0..5 {
        assert_eq!(refresh(&world, &other, &token).status, 400);
        let revocation = form("/revoke", &[("client_id", other.as_str()), ("token", token.as_str())]);
        assert_eq!(world.send(&revocation).status, 400);
    }
    assert_eq!(calls(&world, &access_of(&tokens)), 200);
}

/// A MAC of one purpose is none of another, although all carry the same handle.
#[test]
fn no_credential_is_made_of_another() {
    let world = hub();
    let id = client(&world, &[CALLBACK]);
    let code = code(&world, &id);
    let tokens = exchange(&world, &id, &code);
    let (access, token) = (access_of(&tokens), refresh_of(&tokens));
    let mac_of = |text: &str| text.rsplit('.').next().expect("a MAC").to_owned();
    let handle = code.trim_start_matches("thc_").split('.').next().expect("a handle");
    let expires = access.split('.').nth(1).expect("a time");
    for mac in [mac_of(&code), mac_of(&access), mac_of(&token)] {
        for forged in [format!("tha_{handle}.9999999999.{mac}"), format!("tha_{handle}.1.{mac}")] {
            assert_eq!(calls(&world, &forged), 401);
        }
        assert_eq!(
            format!("tha_{handle}.{expires}.{mac}") == access,
            calls(&world, &format!("tha_{handle}.{expires}.{mac}")) == 200
        );
        for generation in ["0", "2", "3", "01", "+1", "4294967295"] {
            assert_eq!(refresh(&world, &id, &format!("thr_{handle}.{generation}.{mac}")).status, 400);
        }
    }
    for wrong in [&code, &token] {
        assert_eq!(calls(&world, wrong), 401);
    }
    assert_eq!(refresh(&world, &id, &access).status, 400);
    assert_eq!(calls(&world, &access), 200, "and no try has ended the grant");
}

#[test]
fn a_token_in_an_address_counts_for_nothing() {
    let world = hub();
    let id = client(&world, &[CALLBACK]);
    let tokens = exchange(&world, &id, &code(&world, &id));
    let (access, token) = (access_of(&tokens), refresh_of(&tokens));
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    for name in ["access_token", "token", "authorization", "bearer"] {
        let query = written(&[(name, access.as_str())]);
        let request = Request { query, ..post("/mcp", "application/json", ping.clone()) };
        assert_eq!(front::refuse(&request, &world.settings, world.now()).map(|response| response.status), Some(401));
        assert_eq!(world.send(&request).status, 401);
    }
    let in_body = form("/mcp", &[("access_token", access.as_str())]);
    assert_eq!(world.send(&in_body).status, 401);
    let fields = [("grant_type", "refresh_token"), ("client_id", id.as_str()), ("refresh_token", token.as_str())];
    let request = Request { query: written(&fields), ..form("/token", &[]) };
    assert_eq!(world.send(&request).status, 401);
    let request = Request { method: "GET".to_owned(), ..get("/token", &written(&fields)) };
    assert_eq!(world.send(&request).status, 405);
}

#[test]
fn a_token_is_good_at_the_address_only_for_which_it_was_issued() {
    let world = hub();
    let id = client(&world, &[CALLBACK]);
    let access = access_of(&exchange(&world, &id, &code(&world, &id)));
    let at = |origin: &str| {
        let request =
            with(post("/mcp", "application/json", "{}".to_owned()), "authorization", &format!("Bearer {access}"));
        front::refuse(&Request { origin: origin.to_owned(), ..request }, &world.settings, world.now())
    };
    assert_eq!(at(HUB), None);
    for origin in
        ["http://hub.example", "https://other.example", "https://hub.example:8443", "https://hub.example.evil.example"]
    {
        assert_eq!(at(origin).map(|response| response.status), Some(401), "{origin}");
    }
    let secret = &world.settings.hub_secret;
    let handle = access.trim_start_matches("tha_").split('.').next().expect("a handle");
    assert!(token::read_access(secret, &token::resource(HUB), &access, world.now()).is_ok());
    assert!(token::read_access(secret, handle, &access, world.now()).is_err());
    assert!(token::read_access("another secret, which is long enough too", &token::resource(HUB), &access, 0).is_err());
}

/// Between any two steps of a client, the owner can end it.
#[test]
fn revocation_wins_every_race() {
    let end_all = |world: &World| world.call("DELETE", "/api/grants", OWNER_TOKEN, json!(null));
    let world = hub();
    let id = client(&world, &[CALLBACK]);
    let pending = code(&world, &id);
    assert_eq!(end_all(&world).1["grants_revoked"], 1);
    assert_eq!(exchange(&world, &id, &pending).status, 400, "a code on its way");
    let tokens = exchange(&world, &id, &code(&world, &id));
    let (access, token) = (access_of(&tokens), refresh_of(&tokens));
    end_all(&world);
    assert_eq!(calls(&world, &access), 401);
    assert_eq!(refresh(&world, &id, &token).status, 400);
    assert_eq!(revoked_because(&world).as_deref(), Some("owner"), "a later replay does not change the reason");
    let pending = code(&world, &id);
    world.call("DELETE", &format!("/api/clients/{id}"), OWNER_TOKEN, json!(null));
    assert_eq!(exchange(&world, &id, &pending).status, 401, "a client that is gone");
    world.pass(DAY_MS);
    assert_eq!(refresh(&world, &id, &token).status, 401);
}
