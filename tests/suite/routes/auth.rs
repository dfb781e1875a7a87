//! Credentials: what is refused, where, and how the refusal helps.

use serde_json::{Value as Json, json};
use taskhub::domain::secret::executor_key;
use taskhub::http::front;
use taskhub::http::message::Request;

use super::{header, problem};
use crate::support::{OWNER_TOKEN, World, request};

const EXECUTOR_PATHS: [&str; 6] = [
    "/executor/claim",
    "/executor/heartbeat",
    "/executor/result",
    "/executor/defer",
    "/executor/release",
    "/executor/ping",
];
const OWNER_PATHS: [(&str, &str); 7] = [
    ("GET", "/api/executors"),
    ("POST", "/api/executors"),
    ("DELETE", "/api/executors/bot"),
    ("POST", "/api/executors/bot/keys"),
    ("POST", "/api/executors/bot/enroll"),
    ("GET", "/api/tasks/t_000000000_0000000000000000"),
    ("POST", "/mcp"),
];

fn with_header(method: &str, path: &str, value: Option<&str>) -> Request {
    let headers = value.map(|value| ("authorization".to_owned(), value.to_owned()));
    Request { headers: headers.into_iter().collect(), ..request(method, path, "", &json!({})) }
}

/// Refused by the front, without the object; and by the object, whatever the front does.
fn refused(world: &World, request: &Request) -> (String, String) {
    let by_front = front::refuse(request, &world.settings, world.now()).expect("the front refuses it");
    let by_object = world.send(request);
    assert_eq!(by_front.body, by_object.body);
    let detail = problem(&by_front, 401, "unauthorized");
    (detail, header(&by_front, "www-authenticate").expect("a challenge").to_owned())
}

#[test]
fn an_executor_needs_a_key_of_this_hub() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let foreign = executor_key("the secret of another hub, long enough", "bot", [1; 24]);
    let before = world.db.dump();
    for path in EXECUTOR_PATHS {
        let (detail, challenge) = refused(&world, &with_header("POST", path, None));
        assert!(detail.contains("Authorization: Bearer exk_"), "{detail}");
        assert_eq!(challenge, "Bearer", "no error where no credential was sent");
        for value in [
            "Bearer",
            "Basic dXNlcjpwYXNz",
            &key,
            "Bearer junk",
            "Bearer exk_bot.x.y",
            &format!("Bearer {foreign}"),
            &format!("Bearer {OWNER_TOKEN}"),
            &format!("Bearer {key}x"),
            &format!("Bearer {key}, Bearer {key}"),
        ] {
            refused(&world, &with_header("POST", path, Some(value)));
        }
    }
    assert_eq!(world.db.dump(), before);
    for value in [format!("Bearer {key}"), format!("bearer {key}"), format!("BEARER   {key}")] {
        assert_eq!(world.send(&with_header("POST", "/executor/ping", Some(&value))).status, 200, "{value}");
    }
}

/// The front cannot know it; the object asks its registry with every call.
#[test]
fn a_revoked_key_stops_at_once() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    world.owner("POST", "/api/executors/bot/keys", json!({ "revoke_others": true }));
    for path in EXECUTOR_PATHS {
        let request = request("POST", path, &key, &json!({}));
        assert_eq!(front::refuse(&request, &world.settings, world.now()), None);
        let response = world.send(&request);
        let detail = problem(&response, 401, "unauthorized");
        assert!(detail.contains("revoked") && detail.contains("do not retry"), "{detail}");
        assert_eq!(header(&response, "www-authenticate"), Some("Bearer error=\"invalid_token\""));
    }
}

#[test]
fn a_challenge_names_the_public_url() {
    let world = World::with(&[("PUBLIC_URL", "https://public.example")]);
    let (_, challenge) = refused(&world, &with_header("POST", "/mcp", None));
    assert!(challenge.contains("\"https://public.example/.well-known/oauth-protected-resource/mcp\""), "{challenge}");
}

#[test]
fn the_owner_needs_the_owners_token() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let before = world.db.dump();
    let metadata = "resource_metadata=\"https://hub.example/.well-known/oauth-protected-resource/mcp\", \
                    scope=\"tasks:read tasks:write\"";
    for (method, path) in OWNER_PATHS {
        let (_, challenge) = refused(&world, &with_header(method, path, None));
        assert_eq!(challenge, format!("Bearer {metadata}"), "no error where no credential was sent");
        for value in [
            "Bearer junk".to_owned(),
            format!("Bearer {key}"),
            format!("Bearer {OWNER_TOKEN}x"),
            format!("Bearer {}", &OWNER_TOKEN[1..]),
            "Bearer ".to_owned(),
        ] {
            let (_, challenge) = refused(&world, &with_header(method, path, Some(&value)));
            assert!(challenge.starts_with("Bearer ") && challenge.ends_with(metadata), "{challenge}");
        }
    }
    assert_eq!(world.db.dump(), before);
}

#[test]
fn a_hub_without_an_owners_token_says_what_to_set() {
    let mut world = World::new();
    world.settings.owner_token = None;
    for value in [None, Some("Bearer "), Some("Bearer None"), Some("Bearer anything at all")] {
        let (detail, _) = refused(&world, &with_header("GET", "/api/executors", value));
        assert!(detail.contains("OWNER_TOKEN"), "{detail}");
    }
}

#[test]
fn credentials_in_a_url_do_not_count() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    for (method, path, token) in [("POST", "/executor/ping", key.as_str()), ("GET", "/api/executors", OWNER_TOKEN)] {
        let query = format!("access_token={token}&token={token}&key={token}");
        refused(&world, &Request { query, ..with_header(method, path, None) });
    }
}

#[test]
fn a_refusal_does_not_repeat_the_credential() {
    let world = World::new();
    let value = "Bearer exk_bot.s3cret-part.mac";
    let response = world.send(&with_header("POST", "/executor/ping", Some(value)));
    let body: Json = serde_json::from_slice(&response.body).unwrap();
    assert!(!body.to_string().contains("s3cret"), "{body}");
}
