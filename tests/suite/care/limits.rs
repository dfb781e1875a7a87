//! How many tasks an executor may take at a time, and a day.

use serde_json::{Value as Json, json};
use taskhub::http::router;
use taskhub::hub::Delivery;

use super::{attention, change, claim_status, ping, shown};
use crate::support::{OWNER_TOKEN, World, request, task_for};

const DAY_MS: i64 = 86_400_000;

fn limited(max: u32) -> (World, String) {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    change(&world, "bot", json!({ "max_tasks_per_day": max }));
    (world, key)
}

fn midnight(world: &World) -> i64 {
    (world.now() / DAY_MS + 1) * DAY_MS
}

#[test]
fn an_executor_claims_as_many_tasks_a_day_as_it_may() {
    let (world, key) = limited(2);
    for count in 1..=2 {
        let held = world.working("bot", &key);
        assert_eq!(shown(&world, "bot")["tasks_today"], count);
        world.does("result", &held, json!({ "status": "completed" }));
    }
    let third = world.submit(&task_for("bot"));
    let goes_on_at = midnight(&world);
    assert_eq!(claim_status(&world, &key), 204);
    let pong = ping(&world, &key);
    assert_eq!((&pong["tasks_today"], &pong["claims_again_at"]), (&json!(2), &json!(goes_on_at)), "{pong}");
    assert!(pong["next"].as_str().unwrap().contains("as many tasks as it may today"), "{pong}");
    assert_eq!(shown(&world, "bot")["claims_again_at"], goes_on_at);
    let why = attention(&world, &third).expect("it is there, and may not");
    assert!(why.contains("bot has claimed as many tasks as it may today, and is there"), "{why}");
    assert!(why.contains("max_tasks_per_day"), "{why}");

    world.pass(goes_on_at - 1 - world.now());
    assert_eq!(claim_status(&world, &key), 204, "to the last millisecond of the day");
    world.pass(1);
    assert_eq!(ping(&world, &key)["claims_again_at"], Json::Null);
    assert_eq!(world.claim(&key).id, third);
    assert_eq!(shown(&world, "bot")["tasks_today"], 1);
}

#[test]
fn a_claim_that_is_repeated_counts_once_and_is_answered_beyond_the_limit() {
    let (world, key) = limited(1);
    world.submit(&task_for("bot"));
    let claim = |id: &str| world.call("POST", "/executor/claim", &key, json!({ "request_id": id }));
    let first = claim("a");
    assert_eq!(first.0, 200);
    let again = claim("a");
    assert_eq!((again.0, &again.1["claim_token"]), (200, &first.1["claim_token"]));
    assert_eq!(shown(&world, "bot")["tasks_today"], 1);
    world.submit(&task_for("bot"));
    assert_eq!(claim("b").0, 204);
}

#[test]
fn the_next_task_of_a_result_counts_too() {
    let (world, key) = limited(2);
    let held = world.working("bot", &key);
    world.submit(&task_for("bot"));
    world.submit(&task_for("bot"));
    let answer = world.does("result", &held, json!({ "status": "completed", "next": {} }));
    let second = crate::support::held(&key, &answer["next"]);
    let answer = world.does("result", &second, json!({ "status": "completed", "next": {} }));
    assert_eq!(answer["next"], Json::Null);
}

#[test]
fn a_limit_that_is_raised_or_lifted_counts_at_once() {
    let (world, key) = limited(1);
    world.working("bot", &key);
    for change in [json!({ "max_tasks_per_day": 2 }), json!({ "max_tasks_per_day": null })] {
        world.submit(&task_for("bot"));
        assert_eq!(claim_status(&world, &key), 204);
        super::change(&world, "bot", change);
        assert_eq!(claim_status(&world, &key), 200);
    }
    let view = super::change(&world, "bot", json!({ "max_tasks_per_day": 2 }));
    assert_eq!(view["tasks_today"], 2, "what was claimed under a limit is remembered that day");
}

#[test]
fn who_may_do_more_is_called_at_once() {
    let hook = json!({ "adapter": "webhook", "url": "https://bot.example/wake", "auth": { "kind": "none" } });
    for (less, more) in [
        (json!({ "max_tasks_per_day": 1 }), json!({ "max_tasks_per_day": 2 })),
        (json!({ "max_tasks_per_day": 1 }), json!({ "max_tasks_per_day": null })),
        (json!({ "max_concurrent": 1 }), json!({ "max_concurrent": 2 })),
    ] {
        let world = World::new();
        let key = world.webhook_executor("bot", &[], hook.clone());
        change(&world, "bot", less.clone());
        world.working("bot", &key);
        let (_, effects) = world.submit_with_effects(&task_for("bot"));
        for order in &effects.outbox {
            world.record(order, Delivery::Accepted);
        }
        assert_eq!(claim_status(&world, &key), 204, "{less}");
        let request = request("PATCH", "/api/executors/bot", OWNER_TOKEN, &more);
        let (_, effects) = world.run(|hub| router::handle(hub, &request));
        assert_eq!(effects.outbox.len(), 1, "{more}: a wake");
        assert!(effects.ready.contains(&"@bot".to_owned()), "{more}: and whoever waits looks");
        let request = self::request("PATCH", "/api/executors/bot", OWNER_TOKEN, &less);
        let (_, effects) = world.run(|hub| router::handle(hub, &request));
        assert!(effects.outbox.is_empty() && effects.ready.is_empty(), "{less}: nobody is called for less");
    }
}

/// Without a limit, a second claim within a minute leaves the executor's row alone.
#[test]
fn claims_are_counted_only_where_there_is_a_limit() {
    let row = |world: &World| world.db.rows("SELECT * FROM executors");
    let world = World::new();
    let key = world.executor("bot", &[]);
    world.working("bot", &key);
    let before = row(&world);
    world.pass(1_000);
    world.working("bot", &key);
    assert_eq!(row(&world), before);
    change(&world, "bot", json!({ "max_tasks_per_day": 9 }));
    let before = row(&world);
    world.working("bot", &key);
    assert_ne!(row(&world), before);
}

#[test]
fn a_limit_of_tasks_at_a_time_is_changed_while_it_works() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    world.submit(&task_for("bot"));
    change(&world, "bot", json!({ "max_concurrent": 1 }));
    assert_eq!(claim_status(&world, &key), 204);
    world.does("release", &held, json!({}));
    assert_eq!(claim_status(&world, &key), 200);
}

/// A wake costs money where it starts an agent, which could claim nothing.
#[test]
fn who_may_claim_nothing_more_today_is_woken_tomorrow() {
    let world = World::new();
    let hook = json!({ "adapter": "webhook", "url": "https://bot.example/wake", "auth": { "kind": "none" } });
    let key = world.webhook_executor("bot", &["q"], hook);
    change(&world, "bot", json!({ "max_tasks_per_day": 1 }));
    let held = world.working("bot", &key);
    world.does("result", &held, json!({ "status": "completed" }));
    world.pass(121_000);
    let (id, effects) = world.submit_with_effects(&task_for("bot"));
    let midnight = midnight(&world);
    assert!(effects.outbox.is_empty());
    assert_eq!(world.life(&id).next_wake_at, Some(midnight));
    while world.now() < midnight - 1 {
        let wait = (midnight - 1 - world.now()).min(3_600_000);
        assert!(world.pass_and_sweep(wait).outbox.is_empty());
    }
    assert_eq!(world.pass_and_sweep(1).outbox.len(), 1);
}
