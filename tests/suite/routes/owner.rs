//! `/api/*`

use serde_json::{Value as Json, json};

use super::{at_work, problem};
use crate::support::{OWNER_TOKEN, World, request};

fn create(world: &World, body: &Json) -> taskhub::http::message::Response {
    world.send(&request("POST", "/api/executors", OWNER_TOKEN, body))
}

#[test]
fn an_executor_is_created_with_a_key() {
    let world = World::new();
    let hook = json!({
        "adapter": "webhook", "url": "https://Bot.Example/wake", "auth": { "kind": "bearer", "token": "t" },
        "body": { "go": true },
    });
    let body = json!({ "name": "bot", "queues": ["b", "a", "b"], "max_concurrent": 3, "wake": hook });
    let (status, mut created) = world.owner("POST", "/api/executors", body);
    let fields = created.as_object_mut().unwrap();
    let key = fields.remove("key").unwrap();
    assert!(fields.remove("key_id").unwrap().as_str().unwrap().starts_with("key_"));
    let (_, list) = world.owner("GET", "/api/executors", Json::Null);
    assert_eq!(created, list["executors"][0], "it is answered as the list shows it");
    created
        .as_object_mut()
        .unwrap()
        .retain(|name, _| ["name", "queues", "max_concurrent", "wake", "created_at"].contains(&name.as_str()));
    assert!(key.as_str().unwrap().starts_with("exk_bot."));
    let wake = json!({
        "adapter": "webhook", "url": "https://bot.example/wake", "auth": { "kind": "bearer" }, "body": { "go": true },
    });
    let right = json!({
        "name": "bot", "queues": ["a", "b"], "max_concurrent": 3, "wake": wake, "created_at": world.now(),
    });
    assert_eq!((status, created), (201, right));
    problem(&create(&world, &json!({ "name": "bot" })), 409, "executor_exists");
}

#[test]
fn an_executor_that_says_nothing_of_wakes_polls() {
    let world = World::new();
    for (name, wake) in [("a", Json::Null), ("b", json!({ "adapter": "poll" }))] {
        let (status, created) = world.owner("POST", "/api/executors", json!({ "name": name, "wake": wake }));
        assert_eq!((status, &created["wake"]), (201, &json!({ "adapter": "poll" })));
    }
}

#[test]
fn a_wrong_executor_is_refused_by_its_field() {
    let world = World::new();
    let before = world.db.dump();
    let hook = |changes: Json| {
        let mut hook = json!({ "adapter": "webhook", "url": "https://bot.example/", "auth": { "kind": "none" } });
        hook.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        json!({ "wake": hook })
    };
    let secret_of = |bytes: usize| format!("whsec_{}", "A".repeat(bytes * 4 / 3));
    for (change, field) in [
        (json!({ "name": "" }), "name: "),
        (json!({ "name": "No Name" }), "name: "),
        (json!({ "name": "a".repeat(41) }), "name: "),
        (json!({ "queues": ["Not A Queue"] }), "queues: "),
        (json!({ "queues": [""] }), "queues: "),
        (json!({ "queues": (0..17).map(|n| format!("q{n}")).collect::<Vec<_>>() }), "queues: "),
        (json!({ "max_concurrent": 0 }), "max_concurrent: "),
        (json!({ "max_concurrent": 1001 }), "max_concurrent: "),
        (json!({ "wake": { "adapter": "pigeon" } }), "wake"),
        (json!({ "wake": { "adapter": "poll", "url": "https://bot.example/" } }), "wake"),
        (json!({ "wake": { "adapter": "webhook", "url": "https://bot.example/" } }), "wake"),
        (hook(json!({ "url": "http://bot.example/" })), "wake.url: "),
        (hook(json!({ "url": "https://127.0.0.1/" })), "wake.url: "),
        (hook(json!({ "url": "https://a:b@bot.example/" })), "wake.url: "),
        (hook(json!({ "auth": { "kind": "bearer" } })), "wake"),
        (hook(json!({ "auth": { "kind": "bearer", "token": "" } })), "wake.auth.token"),
        (hook(json!({ "auth": { "kind": "bearer", "token": "a\nb" } })), "wake.auth.token"),
        (hook(json!({ "auth": { "kind": "bearer", "token": "a".repeat(1_001) } })), "wake.auth.token"),
        (hook(json!({ "auth": { "kind": "hmac", "secret": "plain" } })), "wake.auth.secret"),
        (hook(json!({ "auth": { "kind": "hmac", "secret": secret_of(21) } })), "wake.auth.secret"),
        (hook(json!({ "auth": { "kind": "none", "token": "t" } })), "wake"),
        (hook(json!({ "body": "x".repeat(4_095) })), "wake.body"),
    ] {
        let mut body = json!({ "name": "bot" });
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let detail = problem(&create(&world, &body), 400, "bad_request");
        assert!(detail.contains(field), "{change}: {detail}");
    }
    assert_eq!(world.db.dump(), before);
}

#[test]
fn the_limits_of_a_wake_are_permitted_themselves() {
    let world = World::new();
    let auth = json!({ "kind": "bearer", "token": "a".repeat(1_000) });
    let url = "https://bot.example/";
    let wake = json!({ "adapter": "webhook", "url": url, "auth": auth, "body": "x".repeat(4_094) });
    assert_eq!(create(&world, &json!({ "name": "bot", "max_concurrent": 1_000, "wake": wake })).status, 201);
}

#[test]
fn private_targets_are_for_local_use() {
    let hook = json!({ "adapter": "webhook", "url": "http://127.0.0.1:9000/", "auth": { "kind": "none" } });
    let body = json!({ "name": "bot", "wake": hook });
    let world = World::new();
    let detail = problem(&create(&world, &body), 400, "bad_request");
    assert!(detail.contains("https://"), "{detail}");
    let world = World::with(&[("ALLOW_PRIVATE_WEBHOOKS", "true")]);
    assert_eq!(create(&world, &body).status, 201);
}

#[test]
fn an_executor_that_is_not_there_is_said() {
    let world = World::new();
    for (method, path) in [
        ("DELETE", "/api/executors/bot"),
        ("POST", "/api/executors/bot/keys"),
        ("DELETE", "/api/executors/No%20Name"),
        ("POST", "/api/executors/No%20Name/keys"),
    ] {
        let response = world.send(&request(method, path, OWNER_TOKEN, &Json::Null));
        let detail = problem(&response, 404, "executor_not_found");
        assert!(detail.contains("GET /api/executors"), "{detail}");
    }
}

#[test]
fn a_task_is_shown_with_everything() {
    let (world, held) = at_work();
    world.does("heartbeat", &held, json!({ "note": "reading", "progress": 0.5, "checkpoint": [1] }));
    let (status, answer) = world.owner("GET", &format!("/api/tasks/{}", held.id), Json::Null);
    assert_eq!(status, 200);
    let task = answer["task"].as_object().unwrap();
    let right = json!({
        "id": held.id, "title": "book a table", "instructions": "for two, at eight", "context": null, "executor": "bot",
        "queue": null, "submitted_by": "owner", "retry_of": null, "priority": 5, "created_at": world.now(),
        "updated_at": world.now(), "progress": 0.5, "note": "reading", "question": null, "checkpoint": [1],
        "result": null, "data": null, "error": null, "external_actions": null, "on_unknown_action": "retry", "late_events": 0, "state": "working",
        "waiting_on": null, "attempt": 1, "failures": 0, "max_attempts": 3, "claimed_by": "bot",
        "heard_at": world.now(), "lease_expires_at": world.now() + 300_000, "input_expires_at": null,
        "answered_at": null, "visible_at": null, "deadline_at": null, "next_wake_at": null, "wake_attempts": 0,
        "last_wake_at": null, "last_wake_status": null, "error_code": null, "completed_at": null, "revision": 3,
    });
    assert_eq!(Json::Object(task.clone()), right);
    assert_eq!(answer["actions"], json!([]));
    let kinds: Vec<&str> = answer["events"].as_array().unwrap().iter().map(|e| e["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["submitted", "claimed"]);
    let event = &answer["events"][1];
    assert_eq!(
        (&event["actor"], &event["attempt"], &event["at"]),
        (&json!("executor:bot"), &json!(1), &json!(world.now()))
    );
    assert_eq!(answer["events_left_out"], json!(false));
}

#[test]
fn a_task_that_is_not_there_is_404() {
    let world = World::new();
    for id in ["nonsense", "t_000000000_0000000000000000", "%27%20OR%201"] {
        let response = world.send(&request("GET", &format!("/api/tasks/{id}"), OWNER_TOKEN, &Json::Null));
        problem(&response, 404, "task_not_found");
    }
}
