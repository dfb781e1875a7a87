//! `/healthz` and `/.well-known/*`

use serde_json::{Value as Json, json};
use taskhub::http::message::Request;
use taskhub::store::migrate::VERSION;

use super::problem;
use crate::support::{World, request};

fn anonymous(method: &str, path: &str) -> Request {
    Request { headers: vec![], ..request(method, path, "", &Json::Null) }
}

#[test]
fn a_hub_that_answers_says_so_to_everyone() {
    let world = World::new();
    let response = world.send(&anonymous("GET", "/healthz"));
    let body: Json = serde_json::from_slice(&response.body).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let right =
        json!({ "ok": true, "version": version, "schema": VERSION, "time": world.now(), "notifications": "off" });
    assert_eq!((response.status, body), (200, right));
    assert_eq!(world.send(&anonymous("HEAD", "/healthz")).status, 200);
}

#[test]
fn a_hub_whose_database_fails_does_not_say_ok() {
    let world = World::new();
    world.db.fail_in(Some(0));
    problem(&world.send(&anonymous("GET", "/healthz")), 500, "internal");
}

#[test]
fn a_client_learns_what_this_resource_is() {
    for (vars, origin) in
        [(vec![], "https://hub.example"), (vec![("PUBLIC_URL", "https://tasks.example")], "https://tasks.example")]
    {
        let world = World::with(&vars);
        for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
            let response = world.send(&anonymous("GET", path));
            let body: Json = serde_json::from_slice(&response.body).unwrap();
            assert_eq!((response.status, &body["resource"]), (200, &json!(format!("{origin}/mcp"))));
            assert_eq!(body["bearer_methods_supported"], json!(["header"]));
        }
    }
}
