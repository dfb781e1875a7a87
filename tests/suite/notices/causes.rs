//! One message for a cause, a storm in two, the right count, and what happens where ntfy does not answer.

use serde_json::json;
use taskhub::hub::{self, Delivery, Order, Submit, When};
use taskhub::store::outbox::State;

use super::{notices, only, said, telling};
use crate::support::{World, task_for, task_in};

/// Fails a new task for the bot and returns the notices that this sends.
fn fail(world: &World, key: &str, title: &str) -> Vec<Order> {
    world.submit(&Submit { title: title.to_owned(), ..task_for("bot") });
    let held = world.claim(key);
    notices(&world.attempt_with_effects("result", &held, json!({ "status": "failed", "error": "no" })))
}

fn text(world: &World, sql: &str) -> Vec<String> {
    world.db.rows(sql).iter().map(|row| format!("{row:?}")).collect()
}

#[test]
fn a_storm_is_two_messages_with_the_right_count() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    let first = fail(&world, &key, "task 1").remove(0);
    for number in 2..=200 {
        assert_eq!(fail(&world, &key, &format!("task {number}")), []);
        if number == 100 {
            world.delivered(&first, &Delivery::Accepted);
        }
    }
    assert_eq!(world.owed(), 2, "one that was told, one that collects");
    assert_eq!(notices(&world.dispatch()), [], "the window is open still");
    world.pass(300_001);
    let second = only(&world.dispatch());
    let said = said(&second);
    assert_eq!((said["title"].as_str(), second.row.count), (Some("199 tasks for bot failed"), 199));
    let message = said["message"].as_str().unwrap();
    assert!(message.contains("– task 2\n") && message.contains("– task 6\n") && message.contains("and 194 more"));
    assert!(said.get("actions").is_none() && said.get("click").is_none(), "{said}");
    world.delivered(&second, &Delivery::Accepted);
    assert_eq!(world.owed(), 1);
    world.pass(300_001);
    assert_eq!(fail(&world, &key, "later").len(), 1, "the storm is over");
    assert_eq!(world.owed(), 1, "what was told before is forgotten");
}

#[test]
fn one_that_was_collected_alone_is_told_like_any_other() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    let first = fail(&world, &key, "first").remove(0);
    world.delivered(&first, &Delivery::Accepted);
    fail(&world, &key, "second");
    world.pass(300_001);
    let said = said(&only(&world.dispatch()));
    assert_eq!((said["title"].as_str(), said["actions"][0]["label"].as_str()), (Some("Failed: second"), Some("Retry")));
}

#[test]
fn other_causes_are_told_at_once() {
    let world = telling(&[]);
    let (key, other) = (world.executor("bot", &["q"]), world.executor("ant", &[]));
    let told = |told: Vec<Order>, what: &str| {
        assert_eq!(told.len(), 1, "{what}");
        world.delivered(&told[0], &Delivery::Accepted);
    };
    told(fail(&world, &key, "a"), "the first");
    let held = world.working("ant", &other);
    let more = json!({ "status": "failed", "error": "no" });
    told(notices(&world.attempt_with_effects("result", &held, more.clone())), "another executor");
    world.submit(&task_in("q"));
    let held = world.claim(&key);
    told(notices(&world.attempt_with_effects("result", &held, more)), "another queue");
    world.submit(&Submit { deadline: Some(When::In(60)), ..task_for("bot") });
    told(notices(&world.pass_and_sweep(60_001)), "another reason");
}

#[test]
fn a_question_that_was_answered_meanwhile_is_not_told() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    let ask = |title: &str| {
        world.submit(&Submit { title: title.to_owned(), ..task_for("bot") });
        let held = world.claim(&key);
        let more = json!({ "question": title, "state": "input-required" });
        (held.id.clone(), notices(&world.attempt_with_effects("heartbeat", &held, more)))
    };
    let (_, mut first) = ask("one?");
    world.delivered(&first.remove(0), &Delivery::Accepted);
    let (second, told) = ask("two?");
    assert_eq!(told, []);
    world.answer(&second, "yes").unwrap();
    world.pass(60_001);
    assert_eq!(notices(&world.dispatch()), []);
    assert_eq!(text(&world, "SELECT state FROM outbox WHERE state = 'due' AND body <> '{}'").len(), 0);
}

#[test]
fn it_is_tried_again_with_the_same_id_and_body_and_what_follows_waits() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    let first = fail(&world, &key, "first").remove(0);
    let mut order = first.clone();
    for number in 2..=8 {
        world.delivered(&order, &Delivery::rejected("answered 500"));
        assert_eq!(fail(&world, &key, &format!("task {number}")), []);
        for _ in 0..2_000 {
            world.pass(60_000);
            if let [again] = notices(&world.dispatch()).as_slice() {
                order = again.clone();
                break;
            }
        }
        assert_eq!((&order.row.id, &order.request.body), (&first.row.id, &first.request.body), "try {number}");
        assert!(world.owed() <= 2, "one is tried, one collects");
    }
    world.delivered(&order, &Delivery::rejected("answered 500"));
    let dead = world.run(hub::list_outbox).0.unwrap().1;
    assert_eq!((dead.len(), dead[0].state, dead[0].last_status.as_deref()), (1, State::Dead, Some("answered 500")));
    // The others go out once the first is given up.
    world.pass(300_001);
    let next = only(&world.dispatch());
    assert_eq!((next.row.count, said(&next)["title"].as_str()), (7, Some("7 tasks for bot failed")));
}

#[test]
fn a_server_that_asks_for_time_gets_it() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    let order = fail(&world, &key, "first").remove(0);
    let busy = Delivery::Rejected { why: "answered 429".to_owned(), retry_after_ms: Some(900_000) };
    world.delivered(&order, &busy);
    world.pass(899_999);
    assert_eq!(notices(&world.dispatch()), []);
    world.pass(1);
    assert_eq!(only(&world.dispatch()).row.id, order.row.id);
}

#[test]
fn one_that_was_given_back_untried_goes_out_as_it_was() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    let order = fail(&world, &key, "first").remove(0);
    world.delivered(&order, &Delivery::NotTried);
    assert_eq!(fail(&world, &key, "second"), [], "it is under way still");
    world.pass(5_000);
    let again = only(&world.dispatch());
    assert_eq!((&again.row.id, &again.request.body), (&order.row.id, &order.request.body));
}

#[test]
fn nothing_is_sent_once_ntfy_is_switched_off() {
    let mut world = telling(&[]);
    let key = world.executor("bot", &[]);
    let order = fail(&world, &key, "first").remove(0);
    world.delivered(&order, &Delivery::rejected("answered 500"));
    world.settings = crate::support::settings(&[]);
    world.pass(3_600_000);
    assert_eq!(notices(&world.dispatch()), []);
    assert_eq!(world.owed(), 0);
}

#[test]
fn what_was_delivered_keeps_no_link_that_acts() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    let order = fail(&world, &key, "first").remove(0);
    assert!(order.row.body.contains("/act/retry."));
    world.delivered(&order, &Delivery::Accepted);
    assert_eq!(text(&world, "SELECT id FROM outbox WHERE body NOT IN ('', '{}')").len(), 0);
}

/// The notice is written with the change, or neither is.
#[test]
fn a_notice_that_cannot_be_written_takes_the_change_with_it() {
    for by_panic in [false, true] {
        for at in 0..200 {
            let world = telling(&[]);
            let key = world.executor("bot", &[]);
            let held = world.working("bot", &key);
            let before = world.db.dump();
            if by_panic {
                world.db.panic_in(at)
            } else {
                world.db.fail_in(Some(at))
            }
            let more = json!({ "status": "failed", "error": "no" });
            let request = std::panic::AssertUnwindSafe(|| world.attempt("result", &held, more.clone()));
            let status = std::panic::catch_unwind(request).map(|(status, _)| status).unwrap_or(500);
            if world.db.call_off() {
                assert_eq!((status, world.owed()), (200, 1));
                return;
            }
            assert_eq!(status, 500, "statement {at}");
            assert_eq!(world.db.dump(), before, "statement {at}");
        }
    }
    panic!("it never went well");
}
