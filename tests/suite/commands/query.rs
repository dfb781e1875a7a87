//! Reading: one task with its history, and the hub at a glance.

use serde_json::{Value as Json, json};
use taskhub::domain::limits::{EVENTS_READ_MAX, MESSAGES_READ_MAX};
use taskhub::hub;

use crate::support::{World, task_for, task_in};

#[test]
fn the_events_of_a_task_are_a_chain_of_its_own() {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    let first = world.submit(&task_in("q"));
    let second = world.submit(&task_for("bot"));
    let held = world.claim(&key);
    let other = world.claim(&key);
    world.does("result", &other, json!({ "status": "completed" }));
    world.does("release", &held, json!({}));
    for id in [&first, &second] {
        let detail = world.detail(id);
        assert!(detail.events.windows(2).all(|pair| pair[0].seq < pair[1].seq));
        assert_eq!(detail.events.len(), 3);
        assert!(!detail.events_left_out);
        assert_eq!(detail.full.head.event_seq, detail.events[2].seq);
    }
    let seqs = world.db.rows("SELECT seq FROM task_events ORDER BY seq");
    assert_eq!(seqs.len(), 6);
}

#[test]
fn a_long_history_is_read_from_its_end() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    world.submit(&task_for("bot"));
    for _ in 0..100 {
        let held = world.claim(&key);
        world.does("defer", &held, json!({ "seconds": 1 }));
        world.pass_and_sweep(1_000);
    }
    let held = world.claim(&key);
    let detail = world.detail(&held.id);
    assert_eq!((detail.events.len(), detail.events_left_out), (EVENTS_READ_MAX, true));
    assert_eq!(detail.events.last().unwrap().kind, "claimed");
    let (_, answer) = world.owner("GET", &format!("/api/tasks/{}", held.id), Json::Null);
    assert_eq!(answer["events_left_out"], json!(true));
    world.does("result", &held, json!({ "status": "completed" }));
}

#[test]
fn only_the_newest_messages_are_handed_over() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    for index in 0..15 {
        world.does("heartbeat", &held, json!({ "question": format!("Question {index}?") }));
        world.answer(&held.id, &format!("Answer {index}.")).unwrap();
        world.does("heartbeat", &held, json!({}));
    }
    let messages = world.detail(&held.id).messages;
    assert_eq!(messages.len(), MESSAGES_READ_MAX);
    assert_eq!(messages.last().unwrap().text, "Answer 14.");
    assert!(messages.windows(2).all(|pair| pair[0].seq < pair[1].seq));
}

#[test]
fn the_revision_rises_with_what_somebody_may_wait_for() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let revision = |world: &World, id: &str| world.run(|hub| hub::revision(hub, id)).0.unwrap().unwrap().0;
    let id = world.submit(&task_for("bot"));
    let mut last = revision(&world, &id);
    let mut rises = |world: &World, why: &str| {
        let now = revision(world, &id);
        assert!(now > last, "{why}");
        last = now;
    };
    let held = world.claim(&key);
    rises(&world, "claimed");
    world.does("heartbeat", &held, json!({ "note": "news" }));
    rises(&world, "a note");
    world.does("heartbeat", &held, json!({ "question": "Which?" }));
    rises(&world, "a question");
    world.answer(&held.id, "This.").unwrap();
    rises(&world, "an answer");
    world.does("heartbeat", &held, json!({}));
    rises(&world, "resumed");
    world.does("result", &held, json!({ "status": "completed" }));
    rises(&world, "completed");
    assert_eq!(world.run(|hub| hub::revision(hub, "nonsense")).0, Ok(None));
}

#[test]
fn the_hub_at_a_glance() {
    let world = World::new();
    let key = world.executor("bot", &["a", "b"]);
    world.executor("ant", &["b"]);
    world.submit(&task_in("a"));
    world.submit(&task_in("b"));
    let held = world.claim(&key);
    world.submit(&task_for("bot"));
    let status = world.run(hub::hub_status).0.unwrap();
    assert_eq!(status.executors.iter().map(|e| e.row.name.as_str()).collect::<Vec<_>>(), ["ant", "bot"]);
    assert_eq!(status.executors[1].held, 1);
    let ready: u32 = status.queues.values().map(|(ready, _)| ready).sum();
    assert_eq!((status.queues.len(), ready), (2, 1));
    assert_eq!(status.next_due_at, world.life(&held.id).lease_expires_at);
    assert_eq!((status.schema, status.time), (taskhub::store::migrate::VERSION, world.now()));
}

#[test]
fn a_ping_says_who_and_what() {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    world.submit(&task_in("q"));
    world.submit(&task_in("q"));
    world.submit(&task_for("bot"));
    world.submit(&task_for("bot"));
    let body = json!({ "version": "1.0", "capabilities": ["shell"] });
    assert_eq!(world.call("POST", "/executor/ping", &key, json!({})).1["held"], json!(0));
    world.claim(&key);
    world.claim(&key);
    let (status, pong) = world.call("POST", "/executor/ping", &key, body);
    assert_eq!(status, 200);
    assert_eq!((&pong["executor"], &pong["held"]), (&json!("bot"), &json!(2)));
    assert_eq!(pong["server_time"], json!(world.now()));
    let ready: i64 = pong["queues"].as_array().unwrap().iter().map(|queue| queue["ready"].as_i64().unwrap()).sum();
    assert_eq!(ready, 2);
    for limit in
        ["lease_seconds", "heartbeat_every_seconds", "claim_wait_seconds_max", "result_bytes_max", "note_chars_max"]
    {
        assert!(pong["limits"][limit].is_u64(), "{limit}");
    }
}
