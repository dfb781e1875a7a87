//! An executor goes, and what becomes of its tasks.

use serde_json::{Value as Json, json};
use taskhub::domain::limits::LEFT_TASKS_MAX;
use taskhub::domain::task::{Address, State, WaitingOn};
use taskhub::hub::{self, Submit, TasksLeft, When};
use taskhub::store::database::Database as _;

use super::{change, shown};
use crate::support::{Held, World, task_for, task_in};

/// Tasks of `bot` in every way in which one can be its own, and one that it holds of a queue that `ant` serves as well.
struct Estate {
    world: World,
    key: String,
    held: Held,
    asking: Held,
    shared: Held,
    ready: String,
    waiting: String,
    queued: String,
}

fn estate() -> Estate {
    let world = World::new();
    let key = world.executor("bot", &["own", "shared"]);
    world.executor("ant", &["shared", "other"]);
    let held = world.working("bot", &key);
    world.does("heartbeat", &held, json!({ "note": "half way", "checkpoint": { "page": 3 } }));
    let asking = world.working("bot", &key);
    world.does("heartbeat", &asking, json!({ "question": "Which?" }));
    world.submit(&task_in("shared"));
    let shared = world.claim(&key);
    let ready = world.submit(&task_for("bot"));
    let waiting = world.submit(&Submit { not_before: Some(When::In(60)), ..task_for("bot") });
    let queued = world.submit(&task_in("own"));
    Estate { world, key, held, asking, shared, ready, waiting, queued }
}

fn delete(world: &World, query: &str) -> (u16, Json) {
    let request = crate::support::request("DELETE", "/api/executors/bot", crate::support::OWNER_TOKEN, &Json::Null);
    let response = world.send(&taskhub::http::message::Request { query: query.to_owned(), ..request });
    (response.status, serde_json::from_slice(&response.body).unwrap())
}

#[test]
fn a_refusal_names_the_ways_out() {
    let estate = estate();
    let (status, answer) = delete(&estate.world, "");
    assert_eq!((status, &answer["code"]), (409, &json!("executor_has_tasks")));
    let detail = answer["detail"].as_str().unwrap();
    assert!(detail.contains("?tasks=cancel") && detail.contains("?tasks=move&to=NAME"), "{detail}");
    assert_eq!(shown(&estate.world, "bot")["disabled"], false, "and changes nothing");
}

#[test]
fn its_tasks_are_canceled_and_what_others_can_do_goes_back() {
    let Estate { world, key, held, asking, shared, ready, waiting, queued } = estate();
    let (status, answer) = delete(&world, "tasks=cancel");
    let right = json!({ "deleted": true, "name": "bot", "canceled": 5, "moved": 0, "given_back": 1 });
    assert_eq!((status, answer), (200, right));
    for id in [&held.id, &asking.id, &ready, &waiting, &queued] {
        assert_eq!(world.state(id), State::Canceled);
        let detail = world.detail(id);
        let event = detail.events.last().unwrap();
        assert_eq!((event.kind, event.actor.as_str()), ("canceled", "submitter:owner"));
        assert_eq!(event.data["reason"], "The executor bot was deleted.");
    }
    assert_eq!(world.state(&shared.id), State::Submitted, "ant serves its queue");
    let event = world.detail(&shared.id).events.pop().unwrap();
    assert_eq!((event.kind, &event.data["held_by"], &event.data["to"]), ("moved", &json!("bot"), &json!("shared")));
    assert_eq!(world.call("POST", "/executor/ping", &key, json!({})).0, 401);
}

#[test]
fn its_tasks_move_and_old_claims_are_fenced_off() {
    for (to, is_executor) in [("ant", true), ("executor:ant", true), ("other", false), ("queue:other", false)] {
        let Estate { world, key, held, asking, shared, ready, waiting, queued } = estate();
        let (status, answer) = delete(&world, &format!("tasks=move&to={to}"));
        let right = json!({ "deleted": true, "name": "bot", "canceled": 0, "moved": 5, "given_back": 1 });
        assert_eq!((status, answer), (200, right), "{to}");
        let address = if is_executor { Address::executor("ant") } else { Address::queue("other") }.unwrap();
        for id in [&held.id, &asking.id, &ready, &queued] {
            assert_eq!((world.state(id), world.detail(id).full.head.address), (State::Submitted, address.clone()));
        }
        let life = world.life(&waiting);
        assert_eq!(
            (life.state, life.waiting_on),
            (State::Waiting, Some(WaitingOn::Time)),
            "it still waits for its time"
        );
        assert_eq!(world.detail(&waiting).full.head.address, address);
        let moved = world.detail(&held.id);
        assert_eq!(moved.full.checkpoint, Some(json!({ "page": 3 })), "what it left is kept");
        assert_eq!(world.life(&held.id).failures, 0, "nobody failed");
        let event = moved.events.last().unwrap();
        assert_eq!((event.kind, event.actor.as_str()), ("moved", "submitter:owner"));
        assert_eq!((&event.data["from"], &event.data["to"]), (&json!("@bot"), &json!(address.to_string())));
        assert_eq!(
            moved.notes.last().map(|note| (note.ended.as_str(), note.note.as_deref())),
            Some(("moved", Some("half way")))
        );

        // A new executor of the old name has none of the old claims.
        drop(key);
        let new = world.executor("bot", &[]);
        world.is_refused("result", &Held { key: new, ..held.clone() }, json!({ "status": "completed" }), "lease_lost");
        let (_, ant) = world.owner("POST", "/api/executors/ant/keys", json!({}));
        let ant = ant["key"].as_str().unwrap().to_owned();
        let claimed: Vec<String> = (0..5).map(|_| world.claim(&ant).id).collect();
        for id in [&held.id, &asking.id, &ready, &queued, &shared.id] {
            assert!(claimed.contains(id), "{to}: it can be done again");
        }
        world.pass_and_sweep(60_000);
        assert_eq!(world.claim(&ant).id, waiting);
    }
}

#[test]
fn a_target_must_be_there_to_take_them() {
    let estate = estate();
    let world = &estate.world;
    world.executor("other", &[]);
    world.executor("off", &["off-queue"]);
    change(world, "off", json!({ "disabled": true }));
    let before = world.db.dump();
    for (query, says) in [
        ("tasks=move", "to is missing"),
        ("tasks=move&to=", "to: it is not the name"),
        ("tasks=move&to=nobody", "to: it is not the name"),
        ("tasks=move&to=executor:nobody", "to: There is no executor nobody"),
        ("tasks=move&to=bot", "to: It names the executor that is to go"),
        ("tasks=move&to=own", "No other executor that is enabled serves the queue own"),
        ("tasks=move&to=off", "The executor off is disabled"),
        ("tasks=move&to=off-queue", "No other executor that is enabled"),
        ("tasks=move&to=other", "write to=executor:other or to=queue:other"),
        ("tasks=keep", "?tasks=cancel"),
        ("tasks=cancel&to=ant", "?tasks=cancel"),
        ("to=ant", "?tasks=cancel"),
        ("tasks=cancel&tasks=move", "give it once"),
        ("task=cancel", "The query may have tasks and to"),
    ] {
        let (status, answer) = delete(world, query);
        assert_eq!((status, &answer["code"]), (400, &json!("bad_request")), "{query}: {answer}");
        assert!(answer["detail"].as_str().unwrap().contains(says), "{query}: {answer}");
    }
    assert_eq!(world.db.dump(), before);
}

#[test]
fn an_executor_without_tasks_goes_whatever_is_said_of_them() {
    for query in ["", "tasks=cancel", "tasks=move&to=ant"] {
        let world = World::new();
        world.executor("bot", &[]);
        world.executor("ant", &[]);
        let (status, answer) = delete(&world, query);
        assert_eq!((status, &answer["deleted"]), (200, &json!(true)), "{query}: {answer}");
        assert_eq!(delete(&world, query).0, 404, "{query}");
    }
}

#[test]
fn more_tasks_than_one_call_handles_are_left_to_the_next() {
    let world = World::new();
    world.executor("bot", &["own"]);
    world.executor("ant", &[]);
    for _ in 0..LEFT_TASKS_MAX {
        world.submit(&task_for("bot"));
    }
    for _ in 0..3 {
        world.submit(&task_in("own"));
    }
    let (status, answer) = delete(&world, "tasks=move&to=ant");
    assert_eq!((status, &answer["deleted"]), (202, &json!(false)), "{answer}");
    assert_eq!(answer["moved"], LEFT_TASKS_MAX);
    assert!(answer["next"].as_str().unwrap().contains("Repeat the same call"), "{answer}");
    assert_eq!(shown(&world, "bot")["disabled"], true, "nothing new comes meanwhile");
    let refused = world.run(|hub| hub::submit(hub, &task_in("own"))).0;
    assert!(refused.is_err(), "nothing new comes meanwhile");
    let (status, answer) = delete(&world, "tasks=move&to=ant");
    assert_eq!((status, &answer["moved"], &answer["deleted"]), (200, &json!(3), &json!(true)), "{answer}");
    assert_eq!(shown(&world, "ant")["ready"], LEFT_TASKS_MAX + 3);
}

/// Wherever the database fails, repeating the call comes to the same end, and no task is lost or half moved.
#[test]
fn a_call_that_failed_half_way_is_repeated() {
    for (left, state) in
        [(TasksLeft::Cancel, State::Canceled), (TasksLeft::Move(Address::executor("ant").unwrap()), State::Submitted)]
    {
        for n in (0..200).step_by(3) {
            let Estate { world, held, ready, .. } = estate();
            world.db.fail_in(Some(n));
            let first = world.run(|hub| hub::delete_executor(hub, "bot", &left)).0;
            let is_over = world.db.call_off();
            assert_eq!(first.is_ok(), is_over, "statement {n}");
            if !is_over {
                let second = world.run(|hub| hub::delete_executor(hub, "bot", &left)).0;
                assert!(second.is_ok_and(|removal| removal.deleted), "statement {n}");
            }
            assert_eq!((world.state(&held.id), world.state(&ready)), (state, state), "statement {n}");
            assert!(world.db.rows("SELECT name FROM executors WHERE name = 'bot'").is_empty());
            if is_over {
                break;
            }
            assert!(n < 190, "it does not end");
        }
    }
}

#[test]
fn who_is_moved_to_is_woken() {
    let world = World::new();
    world.executor("bot", &[]);
    world.webhook_executor(
        "ant",
        &[],
        json!({ "adapter": "webhook", "url": "https://ant.example/", "auth": { "kind": "none" } }),
    );
    let id = world.submit(&task_for("bot"));
    world.submit(&task_for("bot"));
    let to = TasksLeft::Move(Address::executor("ant").unwrap());
    let (removal, effects) = world.run(|hub| hub::delete_executor(hub, "bot", &to));
    assert_eq!(removal.unwrap().moved, 2);
    assert_eq!(effects.outbox.len(), 1, "one wake for both");
    assert_eq!(effects.cut_off, ["bot", "bot"]);
    assert!(world.life(&id).next_wake_at.is_some());
}

/// Its socket takes the wake, so no message goes out whose timer would make the alarm ring.
#[test]
fn the_alarm_follows_a_task_that_moved_to_one_that_listens() {
    let world = World::new();
    world.executor("bot", &[]);
    world.webhook_executor(
        "ant",
        &[],
        json!({ "adapter": "webhook", "url": "https://ant.example/", "auth": { "kind": "none" } }),
    );
    world.presence.set_listening("ant", true);
    let id = world.submit(&task_for("bot"));
    assert_eq!(world.db.timers().take(), None, "who polls is waited for without a timer");
    let to = TasksLeft::Move(Address::executor("ant").unwrap());
    let (removal, effects) = world.run(|hub| hub::delete_executor(hub, "bot", &to));
    assert!(removal.unwrap().deleted && effects.outbox.is_empty());
    assert_eq!(world.life(&id).next_wake_at, Some(world.now() + world.settings.rewake_after_ms));
}
