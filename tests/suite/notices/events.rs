//! Which steps of a task are told, to whom it is said what to do, and what a task's submitter and the owner may choose.

use serde_json::{Value as Json, json};
use taskhub::hub::{self, Delivery, Entropy, Submit};

use super::{notices, only, said, telling};
use crate::support::{World, task_for};

/// Chance that gives nothing but zeros.
struct Nothing;

impl Entropy for Nothing {
    fn fill(&self, _bytes: &mut [u8]) {}
}

fn text<'s>(said: &'s Json, field: &str) -> &'s str {
    said[field].as_str().unwrap_or_default()
}

fn labels(said: &Json) -> Vec<&str> {
    said["actions"].as_array().into_iter().flatten().filter_map(|action| action["label"].as_str()).collect()
}

#[test]
fn a_question_is_told_with_its_words_and_once() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    let ask = json!({ "question": "Which table?", "state": "input-required" });
    let said = said(&only(&world.attempt_with_effects("heartbeat", &held, ask.clone())));
    assert_eq!(text(&said, "title"), "Question: book a table");
    assert!(text(&said, "message").contains("bot wrote: “Which table?”"), "{said}");
    assert!(text(&said, "message").contains("answer_task"), "{said}");
    assert_eq!(
        (labels(&said), &said["priority"], &said["tags"]),
        (vec!["Cancel task"], &json!(4), &json!(["question"]))
    );
    let owed = world.owed();
    assert_eq!(notices(&world.attempt_with_effects("heartbeat", &held, ask)), [], "the same question again");
    assert_eq!(world.owed(), owed);
}

#[test]
fn an_executor_that_waits_for_its_own_user_says_so() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    let said = said(&only(&world.attempt_with_effects("result", &held, json!({ "status": "blocked" }))));
    assert!(text(&said, "message").contains("waits for its own user"), "{said}");
}

#[test]
fn a_failure_is_told_with_its_reason_and_a_button() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    let more = json!({ "status": "failed", "error": "The restaurant is closed: https://evil.example" });
    let said = said(&only(&world.attempt_with_effects("result", &held, more)));
    assert_eq!(text(&said, "title"), "Failed: book a table");
    assert!(text(&said, "message").contains("bot wrote: “The restaurant is closed: "), "{said}");
    assert!(!said.to_string().contains("https://evil.example"), "{said}");
    assert_eq!(labels(&said), ["Retry"]);
    let click = text(&said, "click");
    assert!(click.starts_with(&format!("https://hub.example/act/look.{}.", held.id)), "{click}");
}

#[test]
fn what_the_clock_ends_is_told_too() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    let id = world.submit(&Submit { max_attempts: Some(1), ..task_for("bot") });
    assert_eq!(world.claim(&key).id, id);
    let said = said(&only(&world.pass_and_sweep(300_001)));
    assert!(text(&said, "message").contains("went silent"), "{said}");
}

#[test]
fn a_retryable_failure_with_budget_left_and_a_cancellation_are_not_told() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    let more = json!({ "status": "failed", "error": "no", "retryable": true });
    assert_eq!(notices(&world.attempt_with_effects("result", &held, more)), []);
    let (canceled, effects) = world.run(|hub| hub::cancel(hub, "owner", &held.id, None));
    assert!(canceled.is_ok() && notices(&effects).is_empty());
}

#[test]
fn a_wake_that_was_given_up_is_told_with_what_the_receiver_said() {
    let world = telling(&[("WAKE_MAX_ATTEMPTS", "1")]);
    let wake = json!({ "adapter": "webhook", "url": "https://bot.example/", "auth": { "kind": "none" } });
    world.webhook_executor("bot", &[], wake);
    let (_, effects) = world.submit_with_effects(&task_for("bot"));
    let (_, effects) = {
        let order = effects.outbox.first().expect("a wake").clone();
        world.run(|hub| hub::record_delivery(hub, &order, &Delivery::rejected("answered 500")).unwrap())
    };
    let said = said(&only(&effects));
    assert_eq!(text(&said, "title"), "Cannot wake bot: book a table");
    assert!(text(&said, "message").contains("answered 500") && text(&said, "message").contains("wake_executor"));
}

/// However that can be: a wake that the outbox has lost is not waited for without end.
#[test]
fn a_wake_that_left_no_trace_is_given_up_and_told() {
    let world = telling(&[("WAKE_MAX_ATTEMPTS", "1")]);
    let wake = json!({ "adapter": "webhook", "url": "https://bot.example/", "auth": { "kind": "none" } });
    world.webhook_executor("bot", &[], wake);
    let id = world.submit(&task_for("bot"));
    world.db.connection().execute("DELETE FROM outbox", []).unwrap();
    let said = said(&only(&world.pass_and_sweep(900_000)));
    assert_eq!(text(&said, "title"), "Cannot wake bot: book a table");
    assert_eq!(world.life(&id).next_wake_at, None);
}

#[test]
fn success_is_told_only_if_somebody_asked_for_it() {
    let end = |world: &World, notify: Option<&[&str]>| {
        let key = world.executor("bot", &[]);
        let notify = notify.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        world.submit(&Submit { notify, ..task_for("bot") });
        let held = world.claim(&key);
        notices(&world.attempt_with_effects("result", &held, json!({ "status": "completed", "result": "At eight." })))
    };
    assert_eq!(end(&telling(&[]), None), []);
    let told = end(&telling(&[]), Some(&["completed"]));
    let said = said(&told[0]);
    assert_eq!((text(&said, "title"), &said["priority"]), ("Done: book a table", &json!(3)));
    assert!(text(&said, "message").contains("bot wrote: “At eight.”"), "{said}");
    assert_eq!(end(&telling(&[("NTFY_EVENTS", "completed")]), None).len(), 1);
}

#[test]
fn a_task_adds_to_what_the_owner_chose_or_wants_nothing_told() {
    let fail = |world: &World, notify: &[&str]| {
        let key = world.executor("bot", &[]);
        world.submit(&Submit { notify: Some(notify.iter().map(|n| (*n).to_owned()).collect()), ..task_for("bot") });
        let held = world.claim(&key);
        notices(&world.attempt_with_effects("result", &held, json!({ "status": "failed", "error": "no" }))).len()
    };
    assert_eq!(fail(&telling(&[]), &[]), 0, "none at all");
    assert_eq!(fail(&telling(&[("NTFY_EVENTS", "none")]), &["failed"]), 1);
    assert_eq!(fail(&telling(&[]), &["completed"]), 1, "whoever asks for its end still hears of the rest");
    assert_eq!(fail(&telling(&[("NTFY_EVENTS", "none")]), &["completed"]), 0);
    assert_eq!(fail(&World::new(), &["failed"]), 0, "nothing is configured");
}

#[test]
fn a_wish_that_is_none_is_refused_with_those_there_are() {
    let world = telling(&[]);
    world.executor("bot", &[]);
    let input = Submit { notify: Some(vec!["done".to_owned()]), ..task_for("bot") };
    let (rejected, _) = world.run(|hub| hub::submit(hub, &input));
    let Err(hub::SubmitRejected::Invalid { field: "notify", detail }) = rejected else { panic!("{rejected:?}") };
    assert!(detail.contains("\"done\"") && detail.contains("completed"), "{detail}");
}

#[test]
fn a_hub_that_does_not_know_where_it_is_reached_makes_no_links() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    world.submit(&Submit { max_attempts: Some(1), ..task_for("bot") });
    world.claim(&key);
    world.pass(300_001);
    let nowhere = hub::Hub::new(&world.db, &world.settings, &world.presence, &Nothing, world.now(), "");
    hub::sweep(&nowhere).unwrap();
    let said = said(&only(&nowhere.take_effects()));
    assert!(said.get("click").is_none() && said.get("actions").is_none(), "{said}");
}

#[test]
fn a_changed_passphrase_and_too_many_wrong_ones_are_told() {
    let world = telling(&[("OWNER_PASSPHRASE", "a long passphrase of the owner")]);
    let (changed, effects) = world.run(|hub| hub::change_passphrase(hub, "another long passphrase", false));
    assert!(changed.is_ok());
    let told = said(&only(&effects));
    assert_eq!((text(&told, "title"), &told["priority"]), ("Security of your task hub", &json!(5)));
    assert!(text(&told, "message").contains("passphrase was changed"));
    for number in 1..=6 {
        let (_, effects) = world.run(|hub| hub::sign_in(hub, "wrong", "192.0.2.7").unwrap());
        assert_eq!(notices(&effects).len(), usize::from(number == 5), "try {number}");
    }
}

/// The hub's own question is told as such, once, with what the executor named in quotes; its answer is awaited on the phone's owner.
#[test]
fn an_action_that_nobody_knows_of_is_asked_about() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    let ask = Some(taskhub::domain::ledger::OnUnknownAction::Ask);
    for lose in ["silence", "release", "failure", "an answer"] {
        let id = world.submit(&Submit { on_unknown_action: ask, title: format!("after {lose}"), ..task_for("bot") });
        let held = world.claim(&key);
        assert_eq!(held.id, id);
        world.does("action", &held, json!({ "step_id": "pay", "tool": "https://evil.example/", "status": "begin" }));
        let effects = match lose {
            "silence" => world.pass_and_sweep(300_000),
            "release" => world.attempt_with_effects("release", &held, json!({})),
            "failure" => world.attempt_with_effects("result", &held, json!({ "status": "failed", "retryable": true })),
            _ => {
                world.does("heartbeat", &held, json!({ "question": "Which?" }));
                world.pass(400_000);
                let answer =
                    hub::Answer { submitter: "owner".to_owned(), task_id: id.clone(), text: "This.".to_owned() };
                world.run(|hub| hub::answer(hub, &answer)).1
            }
        };
        let order = only(&effects);
        let notice = said(&order);
        assert_eq!(notice["title"], json!(format!("Question: after {lose}")));
        let text = notice["message"].as_str().unwrap();
        assert!(text.starts_with("bot was lost in the middle of something outside"), "{text}");
        assert!(text.contains("Did it happen?") && text.contains("step pay"), "{text}");
        assert!(!text.contains("https://evil.example"), "no link of an executor: {text}");
        world.delivered(&order, &Delivery::Accepted);
        world.cancel(&id).unwrap();
        world.pass_and_sweep(700_000);
    }
}
