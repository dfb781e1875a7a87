//! Presence: what is remembered, what is written, and who is told that nobody is there.

use serde_json::{Value as Json, json};
use taskhub::domain::moment::rfc3339;
use taskhub::hub::{Presence, Submit, When};

use super::{attention, change, claim_status, ping, shown};
use crate::mcp::client::call;
use crate::support::{World, task_for, task_in};

/// The stored moment of an executor's last call.
fn stored(world: &World) -> Json {
    let rows = world.db.rows("SELECT last_seen_at FROM executors WHERE name = 'bot'");
    match &rows[0][0] {
        taskhub::store::database::Value::Integer(at) => json!(at),
        _ => Json::Null,
    }
}

/// The object loses its memory.
fn forget(world: &mut World) {
    world.presence = Presence::default();
}

#[test]
fn an_executor_is_online_for_a_minute_after_its_last_call() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    assert_eq!((&shown(&world, "bot")["online"], &shown(&world, "bot")["last_seen_at"]), (&json!(false), &Json::Null));
    ping(&world, &key);
    let seen_at = world.now();
    world.pass(59_999);
    assert_eq!(
        (&shown(&world, "bot")["online"], &shown(&world, "bot")["last_seen_at"]),
        (&json!(true), &json!(seen_at))
    );
    world.pass(1);
    assert_eq!(
        (&shown(&world, "bot")["online"], &shown(&world, "bot")["last_seen_at"]),
        (&json!(false), &json!(seen_at))
    );
}

#[test]
fn a_claim_writes_presence_once_a_minute_and_it_outlives_the_memory() {
    let mut world = World::new();
    let key = world.executor("bot", &[]);
    let first = world.working("bot", &key);
    let claimed_at = world.now();
    assert_eq!(stored(&world), claimed_at);
    world.pass(59_999);
    world.working("bot", &key);
    assert_eq!(stored(&world), claimed_at, "not twice in a minute");
    forget(&mut world);
    assert_eq!(shown(&world, "bot")["last_seen_at"], claimed_at);
    assert_eq!(shown(&world, "bot")["online"], true, "by what is stored");
    world.pass(1);
    world.working("bot", &key);
    assert_eq!(stored(&world), world.now());
    let before = stored(&world);
    world.pass(100_000);
    world.does("heartbeat", &first, json!({ "note": "here" }));
    assert_eq!(stored(&world), before, "a heartbeat writes its own row only");
    assert_eq!(shown(&world, "bot")["online"], true, "and is remembered all the same");
}

#[test]
fn an_empty_claim_writes_four_times_an_hour_at_most() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let mut writes = 0;
    for _ in 0..240 {
        let before = world.db.dump();
        assert_eq!(claim_status(&world, &key), 204);
        writes += u32::from(world.db.dump() != before);
        world.pass(30_000);
    }
    assert!((6..=8).contains(&writes), "{writes} writes in two hours");
    ping(&world, &key);
    let before = world.db.dump();
    ping(&world, &key);
    assert_eq!(world.db.dump(), before, "nor does a ping that says nothing new");
}

#[test]
fn a_ping_says_what_the_executor_is_and_that_is_written_when_it_changes() {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    let said = json!({ "version": "relay 1.2", "capabilities": ["shell", "python"] });
    let (status, pong) = world.call("POST", "/executor/ping", &key, said.clone());
    assert_eq!(status, 200, "{pong}");
    for view in [&pong, &shown(&world, "bot")] {
        assert_eq!((&view["version"], &view["capabilities"]), (&said["version"], &said["capabilities"]));
    }
    let listed = call(&world, "list_executors", json!({})).unwrap();
    assert_eq!(listed["executors"][0]["version"], "relay 1.2");
    assert_eq!(listed["executors"][0]["capabilities"], json!(["shell", "python"]));
    let before = world.db.dump();
    world.pass(5_000);
    world.call("POST", "/executor/ping", &key, said);
    assert_eq!(world.db.dump(), before, "it said so before");
    let (_, pong) = world.call("POST", "/executor/ping", &key, json!({ "version": "relay 1.3" }));
    assert_eq!(pong["version"], "relay 1.3");
    assert_eq!(shown(&world, "bot")["capabilities"], json!(["shell", "python"]), "what is left out stays");
    assert_eq!(stored(&world), world.now());
    world.call("POST", "/executor/ping", &key, json!({ "capabilities": [] }));
    assert_eq!(shown(&world, "bot")["capabilities"], json!([]));
}

#[test]
fn what_an_executor_says_of_itself_is_bounded() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let before = world.db.dump();
    for (said, field) in [
        (json!({ "version": "" }), "version"),
        (json!({ "version": "v".repeat(101) }), "version"),
        (json!({ "capabilities": vec!["c"; 33] }), "capabilities"),
        (json!({ "capabilities": ["c".repeat(101)] }), "capabilities"),
        (json!({ "capabilities": [""] }), "capabilities"),
        (json!({ "capabilities": "shell" }), "capabilities"),
    ] {
        let (status, answer) = world.call("POST", "/executor/ping", &key, said);
        assert_eq!((status, &answer["code"]), (400, &json!("bad_request")), "{answer}");
        assert!(answer["detail"].as_str().unwrap().contains(field), "{answer}");
    }
    assert_eq!(world.db.dump(), before);
    let most = json!({ "version": "ä".repeat(100), "capabilities": vec!["c".repeat(100); 32] });
    assert_eq!(world.call("POST", "/executor/ping", &key, most).0, 200);
}

#[test]
fn a_task_says_who_could_do_it_and_why_nobody_does() {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    let next =
        |id: &str| call(&world, "get_task", json!({ "task_id": id })).unwrap()["next"].as_str().unwrap().to_owned();
    let submitted = call(&world, "submit_task", json!({ "title": "A", "instructions": "B", "queue": "q" })).unwrap();
    let id = submitted["task_id"].as_str().unwrap().to_owned();
    let never = "Nobody is there to do it now: bot has never been seen. bot only polls, so nothing can call it: tell your user \
                 to start it.";
    assert_eq!(attention(&world, &id).as_deref(), Some(never));
    assert!(next(&id).contains(never), "{}", next(&id));
    assert!(submitted["next"].as_str().unwrap().contains(never), "{submitted}");

    ping(&world, &key);
    assert_eq!(attention(&world, &id), None);
    assert!(next(&id).contains("its executor is there"), "{}", next(&id));
    let submitted = call(&world, "submit_task", json!({ "title": "A", "instructions": "B", "queue": "q" })).unwrap();
    assert!(!submitted["next"].as_str().unwrap().contains("Nobody"), "{submitted}");

    let seen_at = rfc3339(world.now());
    world.pass(60_000);
    let away = attention(&world, &id).expect("it is away");
    assert!(away.contains(&format!("bot was last seen at {seen_at}")), "{away}");
    // Of several, the one that may soonest do it is first, and called for.
    world.webhook_executor(
        "ant",
        &["q"],
        json!({ "adapter": "webhook", "url": "https://ant.example/", "auth": { "kind": "none" } }),
    );
    change(&world, "bot", json!({ "paused": true }));
    let both = attention(&world, &id).expect("nobody is there");
    let right = format!(
        "Nobody is there to do it now: ant has never been seen; bot is paused by the owner, and was last seen at {seen_at}. The \
         tool wake_executor with executor \"ant\" calls it once more."
    );
    assert_eq!(both, right);
    change(&world, "ant", json!({ "disabled": true }));
    let paused = attention(&world, &id).expect("nobody may");
    assert!(paused.contains("PATCH /api/executors/bot with {\"paused\": false}"), "{paused}");
    change(&world, "bot", json!({ "disabled": true }));
    let disabled = attention(&world, &id).expect("nobody may");
    assert!(disabled.contains("with {\"disabled\": false}"), "{disabled}");
}

#[test]
fn a_task_that_waits_says_so_too_and_one_that_is_held_or_over_does_not() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let later = world.submit(&Submit { not_before: Some(When::In(3_600)), ..task_for("bot") });
    assert!(attention(&world, &later).is_some());
    let next = call(&world, "get_task", json!({ "task_id": later })).unwrap()["next"].as_str().unwrap().to_owned();
    assert!(next.contains("It waits until") && next.contains("Nobody is there"), "{next}");
    let held = world.working("bot", &key);
    world.pass(70_000);
    assert_eq!(attention(&world, &held.id), None);
    world.does("result", &held, json!({ "status": "completed" }));
    assert_eq!(attention(&world, &held.id), None);
}

#[test]
fn a_task_whose_address_nobody_serves_any_more_says_so() {
    let world = World::new();
    let bot = world.executor("bot", &["q"]);
    world.executor("ant", &["q"]);
    let id = world.submit(&task_in("q"));
    let held = world.claim(&bot);
    change(&world, "ant", json!({ "queues": [] }));
    change(&world, "bot", json!({ "queues": [] }));
    world.does("release", &held, json!({}));
    let alone = attention(&world, &id).expect("nobody serves it");
    assert!(alone.contains("Nobody serves its address any more"), "{alone}");
}

#[test]
fn the_whole_hub_shows_who_is_there() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    world.submit(&task_for("bot"));
    ping(&world, &key);
    let status = call(&world, "hub_status", json!({})).unwrap();
    assert_eq!((&status["executors"][0]["online"], &status["attention"]), (&json!(true), &json!([])));
    change(&world, "bot", json!({ "paused": true }));
    change(&world, "bot", json!({ "approval": "always", "max_concurrent": 2, "max_tasks_per_day": 9 }));
    world.call("POST", "/executor/ping", &key, json!({ "version": "1.2", "capabilities": ["shell"] }));
    let status = call(&world, "hub_status", json!({})).unwrap();
    let right = json!({
        "name": "bot", "online": true, "last_seen_at": rfc3339(world.now()), "paused": true, "version": "1.2",
        "capabilities": ["shell"], "approval": "always", "max_concurrent": 2, "max_tasks_per_day": 9, "ready": 1, "held": 0,
    });
    assert_eq!(status["executors"][0], right);
    let attention = status["attention"][0].as_str().unwrap();
    assert!(attention.contains("1 task waits for bot, which is there. The owner has paused it"), "{attention}");
}
