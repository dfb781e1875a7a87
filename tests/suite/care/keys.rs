//! Keys: two at a time, changed without a gap, ended at once.

use serde_json::{Value as Json, json};
use taskhub::domain::secret::sha256_hex;
use taskhub::http::message::{Request, Topic};
use taskhub::hub;

use super::shown;
use crate::support::{OWNER_TOKEN, World, request, task_in};

fn status(world: &World, key: &str) -> u16 {
    world.call("POST", "/executor/ping", key, json!({})).0
}

fn keys(world: &World) -> Vec<(String, i64)> {
    let (status, answer) = world.owner("GET", "/api/executors/bot/keys", Json::Null);
    assert_eq!((status, &answer["name"]), (200, &json!("bot")), "{answer}");
    let key = |key: &Json| (key["id"].as_str().unwrap().to_owned(), key["created_at"].as_i64().unwrap());
    answer["keys"].as_array().unwrap().iter().map(key).collect()
}

fn rotate(world: &World) -> (String, String) {
    let (status, answer) = world.owner("POST", "/api/executors/bot/keys", json!({}));
    assert_eq!(status, 201, "{answer}");
    (answer["key_id"].as_str().unwrap().to_owned(), answer["key"].as_str().unwrap().to_owned())
}

#[test]
fn a_key_is_changed_without_a_gap() {
    let world = World::new();
    let old = world.executor("bot", &[]);
    let held = world.working("bot", &old);
    let made_at = world.now();
    world.pass(1_000);
    let (new_id, new) = rotate(&world);
    let listed = keys(&world);
    assert_eq!(listed.iter().map(|(_, at)| *at).collect::<Vec<_>>(), [made_at, made_at + 1_000], "oldest first");
    assert_eq!(listed[1].0, new_id);
    assert_eq!((status(&world, &old), status(&world, &new)), (200, 200), "while the executor changes over");
    let path = format!("/api/executors/bot/keys/{}", listed[0].0);
    let (answered, answer) = world.owner("DELETE", &path, Json::Null);
    assert_eq!((answered, &answer["revoked"], &answer["keys_left"]), (200, &json!(true), &json!(1)), "{answer}");
    assert_eq!((status(&world, &old), status(&world, &new)), (401, 200));
    world.does("heartbeat", &crate::support::Held { key: new, ..held }, json!({}));
    let (answered, answer) = world.owner("DELETE", &path, Json::Null);
    assert_eq!((answered, &answer["code"]), (404, &json!("key_not_found")), "{answer}");
}

#[test]
fn a_list_of_keys_holds_no_key() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let (_, answer) = world.owner("GET", "/api/executors/bot/keys", Json::Null);
    let text = answer.to_string();
    assert!(!text.contains("exk_") && !text.contains(&key) && !text.contains(&sha256_hex(&key)), "{text}");
    assert!(!shown(&world, "bot").to_string().contains("key_"));
}

#[test]
fn the_last_key_can_be_ended_and_another_be_made() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let [(id, _)] = keys(&world).try_into().unwrap();
    let (_, answer) = world.owner("DELETE", &format!("/api/executors/bot/keys/{id}"), Json::Null);
    assert_eq!(answer["keys_left"], 0);
    assert!(answer["next"].as_str().unwrap().contains("POST /api/executors/bot/keys"), "{answer}");
    assert_eq!((status(&world, &key), keys(&world).len()), (401, 0));
    let (_, new) = rotate(&world);
    assert_eq!(status(&world, &new), 200);
}

/// A claim that waits was let in with a key; the task comes after that has ended.
#[test]
fn a_claim_that_waits_gets_no_task_with_a_key_that_has_ended() {
    for by_rotation in [false, true] {
        let world = World::new();
        let key = world.executor("bot", &["q"]);
        let waits = request("POST", "/executor/claim", &key, &json!({ "wait_seconds": 25 }));
        let wait = world.send_waiting(&waits);
        let effects = if by_rotation {
            world.run(|hub| hub::rotate_key(hub, "bot", true).expect("a new key")).1
        } else {
            let id = keys(&world)[0].0.clone();
            world.run(|hub| hub::revoke_key(hub, "bot", &id).expect("it is there")).1
        };
        assert_eq!(effects.cut_off, ["bot"], "its sockets close");
        let Topic::Ready(places) = &wait.on else { panic!("it waits for work") };
        assert!(effects.ready.iter().any(|place| places.contains(place)), "it looks again at once");
        let id = world.submit(&task_in("q"));
        let resumed = Request { resumed: Some(wait), ..waits };
        assert_eq!(world.send(&resumed).status, 401);
        assert_eq!(world.life(&id).attempt, 0);
    }
}

#[test]
fn a_second_key_cuts_nobody_off_and_a_third_does() {
    let world = World::new();
    world.executor("bot", &[]);
    let rotate = |world: &World| world.run(|hub| hub::rotate_key(hub, "bot", false).unwrap()).1.cut_off;
    assert!(rotate(&world).is_empty());
    assert_eq!(rotate(&world), ["bot"], "the first key ends");
}

#[test]
fn keys_of_another_executor_are_not_ended() {
    let world = World::new();
    let bot = world.executor("bot", &[]);
    world.executor("ant", &[]);
    let id = keys(&world)[0].0.clone();
    for (path, code) in [
        (format!("/api/executors/ant/keys/{id}"), "key_not_found"),
        (format!("/api/executors/cat/keys/{id}"), "executor_not_found"),
        ("/api/executors/bot/keys/key_".to_owned(), "key_not_found"),
    ] {
        let (status, answer) = world.owner("DELETE", &path, Json::Null);
        assert_eq!((status, &answer["code"]), (404, &json!(code)), "{answer}");
    }
    assert_eq!(status(&world, &bot), 200);
    let response = world.send(&request("GET", "/api/executors/cat/keys", OWNER_TOKEN, &Json::Null));
    assert_eq!(response.status, 404);
}
