//! `POST /revoke` (RFC 7009), and what the owner ends.

use serde_json::{Value as Json, json};
use taskhub::hub;

use super::client::{CALLBACK, Connected, form, header, hub as new_hub, refused, tokens, with};
use crate::support::{OWNER_TOKEN, World};

fn revokes(world: &World, fields: &super::client::Fields<'_>) -> taskhub::http::message::Response {
    world.send(&form("/revoke", fields))
}

fn is_signed_in(world: &World, client: &Connected) -> bool {
    let is_good = world.is_good(&client.access);
    let active =
        world.grants().iter().any(|grant| grant["client_id"] == client.client_id.as_str() && grant["active"] == true);
    assert_eq!(is_good, active);
    is_good
}

/// RFC 7009 §2.1: with either token, the grant ends with all that came of it. The hint is a hint.
#[test]
fn a_client_gives_back_either_token() {
    for by_access in [true, false] {
        for hint in [None, Some("access_token"), Some("refresh_token"), Some("nonsense")] {
            let world = new_hub();
            let (client, other) = (world.connected(&["tasks:read"]), world.connected(&["tasks:read"]));
            let token = if by_access { &client.access } else { &client.refresh };
            let mut fields = vec![("token", token.as_str()), ("client_id", client.client_id.as_str())];
            fields.extend(hint.map(|hint| ("token_type_hint", hint)));
            let response = revokes(&world, &fields);
            assert_eq!((response.status, response.body.len()), (200, 0));
            assert_eq!(header(&response, "cache-control"), Some("no-store"));
            assert!(!is_signed_in(&world, &client) && is_signed_in(&world, &other));
            refused(&world.refreshes(&client.client_id, &client.refresh), 400, "invalid_grant");
            assert_eq!(world.grants().iter().filter(|grant| grant["revoked_because"] == "client").count(), 1);
            let before = world.db.dump();
            assert_eq!(revokes(&world, &fields).status, 200, "once more is the same");
            assert_eq!(world.db.dump(), before);
        }
    }
}

/// RFC 7009 §2.2: what is no token, or is no more, counts as given back; and writes nothing.
#[test]
fn what_is_no_token_counts_as_given_back() {
    let world = new_hub();
    let client = world.connected(&["tasks:read"]);
    let before = world.db.dump();
    let foreign = client.access.replace("tha_", "thx_");
    for token in
        ["x", "thr_", "tha_..", OWNER_TOKEN, &foreign, &format!("{}x", client.refresh), "\u{0}", &"x".repeat(100_000)]
    {
        for fields in [vec![("token", token)], vec![("token", token), ("client_id", client.client_id.as_str())]] {
            assert_eq!(revokes(&world, &fields).status, 200);
        }
    }
    assert_eq!(world.db.dump(), before);
    assert!(is_signed_in(&world, &client));
}

#[test]
fn a_token_of_another_client_stays() {
    let world = new_hub();
    let (client, other) = (world.connected(&["tasks:read"]), world.connected(&["tasks:read"]));
    for token in [&client.access, &client.refresh] {
        refused(&revokes(&world, &[("token", token), ("client_id", &other.client_id)]), 400, "invalid_grant");
    }
    assert!(is_signed_in(&world, &client));
}

/// Whoever holds a token may end it; who names a client must be it.
#[test]
fn a_client_that_names_itself_proves_itself() {
    let world = new_hub();
    let client = world.connected(&["tasks:read"]);
    refused(&revokes(&world, &[("token", &client.refresh), ("client_id", "nobody")]), 401, "invalid_client");
    let (confidential, _) = world.registers(&json!({ "redirect_uris": [CALLBACK] }));
    refused(&revokes(&world, &[("token", &client.refresh), ("client_id", &confidential)]), 401, "invalid_client");
    let request = with(form("/revoke", &[("token", &client.refresh)]), "authorization", "Bearer x");
    refused(&world.send(&request), 401, "invalid_client");
    assert!(is_signed_in(&world, &client));
    assert_eq!(revokes(&world, &[("token", &client.refresh)]).status, 200);
    assert!(!is_signed_in(&world, &client));
}

#[test]
fn a_request_without_a_token_is_refused() {
    let world = new_hub();
    let client = world.connected(&["tasks:read"]);
    refused(&revokes(&world, &[]), 400, "invalid_request");
    refused(&revokes(&world, &[("token", "")]), 400, "invalid_request");
    refused(&revokes(&world, &[("token", &client.access), ("token", &client.access)]), 400, "invalid_request");
    let mut request = form("/revoke", &[("token", &client.access)]);
    request.headers.clear();
    refused(&world.send(&request), 400, "invalid_request");
    assert!(is_signed_in(&world, &client));
}

#[test]
fn the_owner_ends_one_grant_a_client_or_all() {
    let world = new_hub();
    let all: Vec<Connected> = (0..4).map(|_| world.connected(&["tasks:read"])).collect();
    let first =
        world.grants().iter().find(|grant| grant["client_id"] == all[0].client_id.as_str()).unwrap()["id"].clone();
    let path = format!("/api/grants/{}", first.as_str().unwrap());
    assert_eq!(world.owner("DELETE", &path, Json::Null).1["revoked"], true);
    let (status, body) = world.owner("DELETE", &path, Json::Null);
    assert_eq!((status, &body["code"]), (404, &json!("grant_not_found")));
    let signed_in = || all.iter().map(|client| is_signed_in(&world, client)).collect::<Vec<_>>();
    assert_eq!(signed_in(), [false, true, true, true]);
    let path = format!("/api/clients/{}", all[1].client_id);
    assert_eq!(world.owner("DELETE", &path, Json::Null).1["grants_revoked"], 1);
    assert_eq!(signed_in(), [false, false, true, true]);
    refused(&world.refreshes(&all[1].client_id, &all[1].refresh), 401, "invalid_client");
    assert_eq!(world.owner("DELETE", "/api/grants", Json::Null).1["grants_revoked"], 2);
    assert_eq!(signed_in(), [false; 4]);
    assert_eq!(world.owner("DELETE", "/api/grants", Json::Null).1["grants_revoked"], 0);
    let (status, body) = world.owner("DELETE", &path, Json::Null);
    assert_eq!((status, &body["code"]), (404, &json!("client_not_found")));
}

/// The ids of clients that are known by a document are addresses, percent-encoded in the path.
#[test]
fn a_client_is_listed_and_deleted_by_its_id() {
    let world = new_hub();
    let id = "https://app.example/client.json?a=b+c&d=%20";
    let document = json!({ "client_id": id, "redirect_uris": [CALLBACK] }).to_string().into_bytes();
    let look = super::client::get("/authorize", &super::client::written(&super::client::asking(id)));
    world.send_with_document(&look, taskhub::http::message::Fetched::Document(document));
    let clients = world.owner("GET", "/api/clients", Json::Null).1["clients"].clone();
    assert_eq!((&clients[0]["id"], &clients[0]["kind"]), (&json!(id), &json!("document")));
    let encoded: String = id.bytes().map(|b| format!("%{b:02X}")).collect();
    assert_eq!(world.owner("DELETE", &format!("/api/clients/{encoded}"), Json::Null).1["id"], id);
    let (status, body) = world.owner("DELETE", &format!("/api/clients/{encoded}"), Json::Null);
    assert_eq!((status, &body["code"]), (404, &json!("client_not_found")));
    assert_eq!(world.owner("GET", "/api/clients", Json::Null).1["clients"], json!([]));
}

#[test]
fn grants_show_what_the_owner_needs_to_know() {
    let world = new_hub();
    let client = world.connected(&["tasks:read"]);
    world.pass(1_000);
    tokens(&client.client_id, &world.refreshes(&client.client_id, &client.refresh));
    let mut grant = world.grants()[0].clone();
    assert!(grant["id"].take().as_str().is_some_and(|id| id.len() == 32));
    let expected = json!({
        "id": null, "client_id": client.client_id, "client_name": null, "scopes": ["tasks:read"], "executor": null,
        "approved_from": "local", "created_at": 1_800_000_000_000_i64, "last_refreshed_at": 1_800_000_001_000_i64,
        "expires_at": 1_807_776_001_000_i64, "active": true, "revoked_at": null, "revoked_because": null,
    });
    assert_eq!(grant, expected);
}

/// A grant that ended is remembered for 30 days, so that the owner can look.
#[test]
fn what_ended_is_remembered_for_a_while() {
    let world = new_hub();
    let client = world.connected(&["tasks:read"]);
    revokes(&world, &[("token", &client.refresh)]);
    for (ms, left) in [(2_592_000_000, 1), (1, 0)] {
        world.pass(ms);
        world.run(hub::purge_sign_in).0.unwrap();
        assert_eq!(world.grants().len(), left);
    }
    refused(&world.refreshes(&client.client_id, &client.refresh), 400, "invalid_grant");
}
