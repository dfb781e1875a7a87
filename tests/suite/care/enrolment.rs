//! Enrolment: codes that are good once, for ten minutes, and for the one who used them.

use serde_json::{Value as Json, json};
use taskhub::domain::enrolment::{self, CodeRefused};
use taskhub::domain::secret::sha256_hex;
use taskhub::http::front;

use crate::mcp::client::call;
use crate::support::{OWNER_TOKEN, World, request};

const NONCE: &str = "nonce-of-the-first-machine";
const OTHER: &str = "nonce-of-another-machine";

fn code(world: &World, name: &str) -> String {
    let (status, answer) = world.owner("POST", &format!("/api/executors/{name}/enroll"), json!({}));
    assert_eq!((status, &answer["executor"]), (201, &json!(name)), "{answer}");
    assert_eq!(answer["expires_at"], json!(world.now() + 601_000), "a code says whole seconds, and none is too short");
    answer["code"].as_str().expect("a code").to_owned()
}

/// Trades a code; there is no bearer.
fn enroll(world: &World, code: &str, nonce: &str) -> (u16, Json) {
    let body = json!({ "code": code, "nonce": nonce });
    let mut sent = request("POST", "/executor/enroll", "", &body);
    sent.headers.clear();
    let response = world.send(&sent);
    let answer: Json = serde_json::from_slice(&response.body).expect("JSON");
    let by_front = front::refuse(&sent, &world.settings, world.now())
        .or_else(|| front::refuse_body(&sent, &world.settings, world.now()));
    if let Some(refusal) = by_front {
        assert_eq!(refusal.body, response.body, "front and object say the same");
    }
    (response.status, answer)
}

fn refused(world: &World, code: &str, nonce: &str, status: u16, why: &str) -> String {
    let (found, answer) = enroll(world, code, nonce);
    assert_eq!((found, &answer["code"], &answer["retryable"]), (status, &json!(why), &json!(false)), "{answer}");
    answer["detail"].as_str().expect("a sentence").to_owned()
}

fn pings(world: &World, key: &str) -> u16 {
    world.call("POST", "/executor/ping", key, json!({})).0
}

#[test]
fn a_code_is_traded_for_a_key_that_works() {
    let world = World::new();
    world.executor("bot", &["q"]);
    let code = code(&world, "bot");
    assert!(code.starts_with("enr_bot.") && code.len() <= 120, "{code}");
    assert!(code.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)), "a shell takes it as it is");
    let (status, answer) = enroll(&world, &code, NONCE);
    assert_eq!((status, &answer["executor"], &answer["hub"]), (200, &json!("bot"), &json!("https://hub.example")));
    assert_eq!(pings(&world, answer["key"].as_str().unwrap()), 200);
    assert!(!world.db.dump().contains(&code), "the store has its hash");
}

#[test]
fn a_lost_answer_is_given_again_to_the_same_nonce_only() {
    let world = World::new();
    world.executor("bot", &[]);
    let code = code(&world, "bot");
    let (_, first) = enroll(&world, &code, NONCE);
    let keys = world.db.rows("SELECT hash FROM executor_keys").len();
    assert_eq!(enroll(&world, &code, NONCE).1, first, "word for word");
    assert_eq!(world.db.rows("SELECT hash FROM executor_keys").len(), keys, "and no second key");
    let detail = refused(&world, &code, OTHER, 409, "code_used");
    assert!(detail.contains("tell the hub's owner"), "{detail}");
    world.pass(601_000);
    refused(&world, &code, NONCE, 410, "code_expired");
    assert_eq!(pings(&world, first["key"].as_str().unwrap()), 200, "the key stays");
}

#[test]
fn a_code_is_good_for_ten_minutes() {
    let world = World::new();
    world.executor("bot", &[]);
    let code = code(&world, "bot");
    world.pass(600_999);
    let before = world.db.dump();
    world.pass(1);
    let detail = refused(&world, &code, NONCE, 410, "code_expired");
    assert!(detail.contains("ten minutes"), "{detail}");
    assert_eq!(world.db.dump(), before);
    world.pass(-1);
    assert_eq!(enroll(&world, &code, NONCE).0, 200, "until its last millisecond");
}

#[test]
fn junk_is_refused_by_the_front() {
    let world = World::new();
    world.executor("bot", &[]);
    let right = code(&world, "bot");
    let (head, seal) = right.rsplit_once('.').unwrap();
    let foreign = enrolment::code("the secret of another hub, long enough", "bot", [1; 16], 1_900_000_000);
    let before = world.db.dump();
    for junk in [
        "",
        "enr_",
        "enr_bot",
        "enr_bot...",
        head,
        &format!("{head}."),
        &format!("{right}x"),
        &format!("{right}.x"),
        &format!(" {right}"),
        &format!("{head}.{}", seal.to_uppercase()),
        &right.replacen("bot", "ant", 1),
        &right.replacen("enr_", "exk_", 1),
        &foreign,
        &"é".repeat(200),
    ] {
        let sent = request("POST", "/executor/enroll", "", &json!({ "code": junk, "nonce": NONCE }));
        assert!(front::needs_body(&sent));
        assert!(front::refuse_body(&sent, &world.settings, world.now()).is_some(), "{junk}");
        refused(&world, junk, NONCE, 403, "code_invalid");
    }
    assert_eq!(world.db.dump(), before);
}

#[test]
fn every_change_of_a_code_ends_it() {
    let world = World::new();
    world.executor("bot", &[]);
    let right = code(&world, "bot");
    let secret = &world.settings.hub_secret;
    for index in 0..right.len() {
        let mut bytes = right.clone().into_bytes();
        bytes[index] = if bytes[index] == b'1' { b'2' } else { b'1' };
        let changed = String::from_utf8(bytes).unwrap();
        assert_eq!(enrolment::read(secret, &changed, world.now()), Err(CodeRefused::Foreign), "{changed}");
    }
}

#[test]
fn a_body_that_is_wrong_is_told_what_is_right() {
    let world = World::new();
    world.executor("bot", &[]);
    let code = code(&world, "bot");
    let before = world.db.dump();
    for (body, says) in [
        (json!({}), "code is missing"),
        (json!({ "code": 7, "nonce": NONCE }), "code is missing"),
        (json!({ "code": code }), "nonce"),
        (json!({ "code": code, "nonce": "short" }), "16 to 200"),
        (json!({ "code": code, "nonce": "n".repeat(201) }), "16 to 200"),
        (json!({ "code": code, "nonce": NONCE, "name": "bot" }), "name"),
    ] {
        let (status, answer) = world.call("POST", "/executor/enroll", "", body);
        let detail = answer["detail"].as_str().unwrap_or_default();
        assert!(status == 400 && detail.contains(says), "{answer}");
    }
    assert_eq!(world.db.dump(), before, "and the code is still good");
    assert_eq!(enroll(&world, &code, NONCE).0, 200);
}

#[test]
fn an_executor_that_is_disabled_gets_no_key_and_keeps_its_code() {
    let world = World::new();
    world.executor("bot", &[]);
    let before_it = code(&world, "bot");
    super::change(&world, "bot", json!({ "disabled": true }));
    let detail = refused(&world, &before_it, NONCE, 403, "executor_disabled");
    assert!(detail.contains("enable"), "{detail}");
    let (status, answer) = world.owner("POST", "/api/executors/bot/enroll", json!({}));
    assert_eq!((status, &answer["code"]), (409, &json!("executor_disabled")), "{answer}");
    super::refused(&world, "enroll_executor", json!({ "name": "bot" }), "executor_disabled");
    super::change(&world, "bot", json!({ "disabled": false }));
    assert_eq!(enroll(&world, &before_it, NONCE).0, 200);
}

#[test]
fn codes_go_with_their_executor() {
    let world = World::new();
    world.executor("bot", &[]);
    let gone = code(&world, "bot");
    world.owner("DELETE", "/api/executors/bot", Json::Null);
    let detail = refused(&world, &gone, NONCE, 410, "code_withdrawn");
    assert!(detail.contains("bot was deleted"), "{detail}");
    world.executor("bot", &[]);
    refused(&world, &gone, NONCE, 410, "code_withdrawn");
    let (status, answer) = world.owner("POST", "/api/executors/cat/enroll", json!({}));
    assert_eq!((status, &answer["code"]), (404, &json!("executor_not_found")));
}

#[test]
fn the_newest_five_codes_of_an_executor_are_good() {
    let world = World::new();
    world.executor("bot", &[]);
    let codes: Vec<String> = (0..6).map(|_| code(&world, "bot")).collect();
    refused(&world, &codes[0], NONCE, 410, "code_withdrawn");
    assert_eq!(world.db.rows("SELECT code_hash FROM enrolments").len(), 5);
    for (machine, code) in codes[1..].iter().enumerate() {
        assert_eq!(enroll(&world, code, &format!("{NONCE}-{machine}")).0, 200);
    }
}

/// An executor has two keys; a third machine takes the place of the first, which is said before and after.
#[test]
fn a_third_key_ends_the_first() {
    let world = World::new();
    let first = world.executor("bot", &[]);
    let (_, answer) = world.owner("POST", "/api/executors/bot/enroll", json!({}));
    assert!(!answer["next"].as_str().unwrap().contains("older"), "{answer}");
    let (_, second) = enroll(&world, answer["code"].as_str().unwrap(), NONCE);
    assert!(!second["next"].as_str().unwrap().contains("ended"), "{second}");
    let (_, answer) = world.owner("POST", "/api/executors/bot/enroll", json!({}));
    assert!(answer["next"].as_str().unwrap().contains("the older one ends"), "{answer}");
    let third = answer["code"].as_str().unwrap().to_owned();
    let (enrolled, effects) = world.run(|hub| taskhub::hub::enroll(hub, &third, OTHER).unwrap());
    assert!(enrolled.ended_a_key);
    assert_eq!(effects.cut_off, ["bot"], "the sockets of the machine that has no key any more close");
    let second = second["key"].as_str().unwrap();
    assert_eq!([&first, second, &enrolled.key].map(|key| pings(&world, key)), [401, 200, 200]);
}

#[test]
fn a_key_that_was_ended_is_not_given_again() {
    let world = World::new();
    world.executor("bot", &[]);
    let code = code(&world, "bot");
    let (_, answer) = enroll(&world, &code, NONCE);
    let id = format!("key_{}", &sha256_hex(answer["key"].as_str().unwrap())[..16]);
    let (status, _) = world.owner("DELETE", &format!("/api/executors/bot/keys/{id}"), Json::Null);
    assert_eq!(status, 200);
    let detail = refused(&world, &code, NONCE, 409, "code_used");
    assert!(detail.contains("ended since"), "{detail}");
}

#[test]
fn an_executor_is_made_with_a_code_in_place_of_a_key() {
    let world = World::new();
    let body = json!({ "name": "bot", "queues": ["q"], "enroll": true });
    let (status, answer) = world.owner("POST", "/api/executors", body.clone());
    assert_eq!((status, &answer["name"], &answer["queues"]), (201, &json!("bot"), &json!(["q"])), "{answer}");
    assert!(answer.get("key").is_none() && answer.get("key_id").is_none(), "{answer}");
    let code = answer["code"].as_str().unwrap();
    let line = format!("curl -fsSL https://hub.example/kit/install.sh | sh -s -- --enroll {code}");
    assert_eq!(answer["command"], json!(line));
    let (_, keys) = world.owner("GET", "/api/executors/bot/keys", Json::Null);
    assert_eq!(keys["keys"], json!([]));
    assert_eq!(enroll(&world, code, NONCE).0, 200);
    let (status, answer) = world.owner("POST", "/api/executors", body);
    assert_eq!((status, &answer["code"]), (409, &json!("executor_exists")));
    let (status, answer) = world.owner("PATCH", "/api/executors/bot", json!({ "enroll": true }));
    assert!(status == 400 && answer["detail"].as_str().unwrap().contains("/api/executors/bot/enroll"), "{answer}");
}

#[test]
fn a_model_enrols_a_machine() {
    let world = World::new();
    let made = call(&world, "enroll_executor", json!({ "name": "bot", "queues": ["q"] })).unwrap();
    assert_eq!((&made["created"], &made["queues"]), (&json!(true), &json!(["q"])), "{made}");
    let code = made["code"].as_str().unwrap();
    assert!(made["command"].as_str().unwrap().ends_with(&format!("| sh -s -- --enroll {code}")), "{made}");
    assert_eq!(enroll(&world, code, NONCE).0, 200);
    let again = call(&world, "enroll_executor", json!({ "name": "bot", "queues": ["r"] })).unwrap();
    assert_eq!((&again["created"], &again["queues"]), (&json!(false), &json!(["q"])), "{again}");
    assert!(again["next"].as_str().unwrap().contains("PATCH /api/executors/bot"), "{again}");
    let text = super::refused(&world, "enroll_executor", json!({ "name": "No Name" }), "invalid_arguments");
    assert!(text.contains("lower-case"), "{text}");
    super::refused(&world, "enroll_executor", json!({ "name": "c", "queues": ["No"] }), "invalid_arguments");
}

/// Without the owner's token nobody gets a code.
#[test]
fn codes_are_the_owners_to_give() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let code = code(&world, "bot");
    let (status, answer) = world.call("POST", "/executor/claim", &code, json!({}));
    assert!(status == 401 && answer["detail"].as_str().unwrap().contains("POST /executor/enroll"), "{answer}");
    for bearer in [&key, &code, "", "junk"] {
        assert_eq!(world.call("POST", "/api/executors/bot/enroll", bearer, json!({})).0, 401);
    }
    assert_eq!(world.call("POST", "/api/executors/bot/enroll", OWNER_TOKEN, json!({})).0, 201);
}
