//! Executors' accounts and keys.

use serde_json::{Value as Json, json};
use taskhub::domain::limits::EXECUTORS_MAX;

use crate::support::{World, task_for, task_in};

fn ping(world: &World, key: &str) -> u16 {
    world.call("POST", "/executor/ping", key, json!({})).0
}

fn rotate(world: &World, name: &str, body: Json) -> String {
    let (status, answer) = world.owner("POST", &format!("/api/executors/{name}/keys"), body);
    assert_eq!(status, 201, "{answer}");
    answer["key"].as_str().unwrap().to_owned()
}

#[test]
fn a_key_is_shown_once_and_stored_as_a_hash() {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    assert_eq!(ping(&world, &key), 200);
    assert!(!world.db.dump().concat().contains(&key));
    assert!(!world.owner("GET", "/api/executors", Json::Null).1.to_string().contains("exk_"));
}

#[test]
fn two_keys_are_valid_at_a_time() {
    let world = World::new();
    let first = world.executor("bot", &[]);
    let second = rotate(&world, "bot", json!({}));
    assert_eq!((ping(&world, &first), ping(&world, &second)), (200, 200));
    let third = rotate(&world, "bot", json!({}));
    assert_eq!((ping(&world, &first), ping(&world, &second), ping(&world, &third)), (401, 200, 200));
    let fourth = rotate(&world, "bot", json!({ "revoke_others": true }));
    assert_eq!((ping(&world, &second), ping(&world, &third), ping(&world, &fourth)), (401, 401, 200));
    let fifth = rotate(&world, "bot", json!({}));
    assert_eq!((ping(&world, &fourth), ping(&world, &fifth)), (200, 200));
}

#[test]
fn a_claim_survives_the_rotation_of_its_key() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    let new = rotate(&world, "bot", json!({ "revoke_others": true }));
    assert_eq!(world.attempt("heartbeat", &held, json!({})).0, 401);
    world.does("heartbeat", &crate::support::Held { key: new, ..held }, json!({}));
}

#[test]
fn an_executor_with_work_stays() {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    let delete = |world: &World| world.owner("DELETE", "/api/executors/bot", Json::Null);
    let refused = |world: &World, why: &str| {
        let (status, answer) = delete(world);
        assert_eq!((status, &answer["code"]), (409, &json!("executor_has_tasks")), "{why}: {answer}");
    };
    let addressed = world.submit(&task_for("bot"));
    refused(&world, "a task is addressed to it");
    let held = world.claim(&key);
    assert_eq!(held.id, addressed);
    refused(&world, "it holds a task");
    world.does("defer", &held, json!({ "seconds": 60 }));
    refused(&world, "a task of its waits");
    world.cancel(&addressed).unwrap();
    let queued = world.submit(&task_in("q"));
    refused(&world, "a task waits in a queue that only it serves");
    world.executor("ant", &["q"]);
    assert_eq!(delete(&world), (200, json!({ "deleted": true, "name": "bot" })));
    assert_eq!(ping(&world, &key), 401);
    assert_eq!(world.life(&queued).attempt, 0);
    assert_eq!(delete(&world).0, 404);
}

#[test]
fn a_name_that_is_free_again_has_nothing_of_its_predecessor() {
    let world = World::new();
    let old = world.executor("bot", &["q"]);
    ping(&world, &old);
    world.owner("DELETE", "/api/executors/bot", Json::Null);
    let new = world.executor("bot", &[]);
    let (_, list) = world.owner("GET", "/api/executors", Json::Null);
    assert_eq!(list["executors"][0]["last_seen_at"], Json::Null, "it has not called yet");
    assert_eq!((ping(&world, &old), ping(&world, &new)), (401, 200));
    let (status, _) = world.call("POST", "/executor/claim", &new, json!({ "queues": ["q"] }));
    assert_eq!(status, 400, "it does not serve its predecessor's queue");
    for table in ["executor_keys", "queue_executors"] {
        let rows = world.db.rows(&format!("SELECT * FROM {table}"));
        assert_eq!(rows.len(), usize::from(table == "executor_keys"), "{table}");
    }
}

#[test]
fn an_executor_serves_sixteen_queues_at_most() {
    let world = World::new();
    let queues: Vec<String> = (0..17).map(|index| format!("q-{index:02}")).collect();
    let (status, _) = world.owner("POST", "/api/executors", json!({ "name": "bot", "queues": queues[..16] }));
    assert_eq!(status, 201);
    let (status, answer) = world.owner("POST", "/api/executors", json!({ "name": "ant", "queues": queues }));
    assert_eq!((status, &answer["code"]), (400, &json!("bad_request")), "{answer}");
}

#[test]
fn there_are_only_so_many() {
    let world = World::new();
    for index in 0..EXECUTORS_MAX {
        world.executor(&format!("bot-{index}"), &[]);
    }
    let (status, answer) = world.owner("POST", "/api/executors", json!({ "name": "one-more" }));
    assert_eq!((status, &answer["code"]), (409, &json!("too_many_executors")));
}

#[test]
fn the_list_shows_what_goes_on() {
    let world = World::new();
    let bot = world.executor("bot", &["q", "p", "q"]);
    world.executor("ant", &[]);
    let created_at = world.now();
    world.submit(&task_for("bot"));
    world.submit(&task_in("q"));
    world.submit(&task_in("p"));
    world.pass(5_000);
    world.claim(&bot);
    world.pass(5_000);
    ping(&world, &bot);
    let (_, list) = world.owner("GET", "/api/executors", Json::Null);
    let ant = json!({
        "name": "ant", "queues": [], "max_concurrent": 1000, "wake": { "adapter": "poll" }, "created_at": created_at,
        "last_seen_at": null, "last_claim_at": null, "last_wake_at": null, "last_wake_status": null, "ready": 0, "held": 0,
        "online": false, "version": null, "capabilities": [], "paused": false, "paused_at": null, "disabled": false,
        "disabled_at": null, "approval": "never", "max_tasks_per_day": null, "tasks_today": null, "claims_again_at": null,
    });
    let mut bot = ant.clone();
    let seen = json!({
        "name": "bot", "queues": ["p", "q"], "last_seen_at": world.now(), "last_claim_at": world.now() - 5_000,
        "ready": 2, "held": 1, "online": true,
    });
    bot.as_object_mut().unwrap().extend(seen.as_object().unwrap().clone());
    assert_eq!(list, json!({ "executors": [ant, bot] }));
}
