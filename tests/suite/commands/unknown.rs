//! A task whose submitter wants to be asked (`on_unknown_action: ask`): an attempt that is lost with an action begun leads to a
//! question of the hub, and to the next attempt only when a person has answered.

use serde_json::{Value as Json, json};
use taskhub::domain::ledger::OnUnknownAction;
use taskhub::domain::limits::ANSWER_REPEAT_MS;
use taskhub::domain::task::{FailureCode, State, WaitingOn};
use taskhub::hub::{self, Submit, TasksLeft};

use super::actions::pay;
use crate::support::{Held, World, task_for, task_in};

fn asking_task() -> Submit {
    Submit { on_unknown_action: Some(OnUnknownAction::Ask), ..task_for("bot") }
}

/// An attempt that has begun a payment.
fn paying() -> (World, Held) {
    paying_for(asking_task())
}

fn paying_for(task: Submit) -> (World, Held) {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    world.submit(&task);
    let held = world.claim(&key);
    world.does("action", &held, pay("begin"));
    (world, held)
}

type Lose = fn(&World, &Held);

/// The ways in which an attempt is lost that are worth another one, with the word that the question has for it.
const LOSSES: [(&str, Lose); 3] = [
    ("went silent", |world, _| drop(world.pass_and_sweep(300_000))),
    ("gave the task back", |world, held| drop(world.does("release", held, json!({ "note": "shutting down" })))),
    ("failed", |world, held| {
        drop(world.does("result", held, json!({ "status": "failed", "retryable": true, "error": "oops" })));
    }),
];

fn is_asked(world: &World, held: &Held) {
    let life = world.life(&held.id);
    assert_eq!((life.state, life.waiting_on), (State::InputRequired, Some(WaitingOn::Submitter)));
    assert_eq!(life.input_expires_at, Some(world.now() + 86_400_000));
    assert!(life.is_asked_by_hub());
}

#[test]
fn a_lost_attempt_is_asked_about_before_the_next_begins() {
    for (words, lose) in LOSSES {
        let (world, held) = paying();
        lose(&world, &held);
        is_asked(&world, &held);
        let failures = u32::from(words != "gave the task back");
        assert_eq!(world.life(&held.id).failures, failures, "{words}: counted as usual");
        assert_eq!(world.call("POST", "/executor/claim", &held.key, json!({})).0, 204, "{words}: nothing to claim");

        let detail = world.detail(&held.id);
        let question = detail.full.head.question.clone().expect("a question");
        for piece in
            ["Attempt 1", "book a table", "(bot)", words, "pay-1", "stripe", "ACME", "Did it happen?", "2027-01-15T"]
        {
            assert!(question.contains(piece), "{piece}: {question}");
        }
        let message = detail.messages.last().expect("a message");
        assert_eq!((message.from.as_str(), &message.text), ("hub", &question), "{words}");
        assert_eq!(detail.notes.last().expect("how it ended").attempt, 1);

        for (verb, more) in [
            ("heartbeat", json!({})),
            ("result", json!({ "status": "completed", "result": "late" })),
            ("action", pay("done")),
            ("defer", json!({ "seconds": 5 })),
        ] {
            let (status, answer) = world.attempt(verb, &held, more);
            assert_eq!((status, &answer["code"]), (409, &json!("lease_lost")), "{words}, {verb}");
            let why = "The attempt was given up with an action begun";
            assert!(answer["detail"].as_str().unwrap().starts_with(why), "{words}, {verb}: {answer}");
        }
        assert_eq!(world.detail(&held.id).full.head.late_events, 4, "what they brought is kept");

        let answered = world.answer(&held.id, "It happened, receipt 7.").unwrap();
        assert_eq!((answered.state, answered.asks_more), (State::Submitted, false), "{words}");
        let (status, claim) = world.call("POST", "/executor/claim", &held.key, json!({}));
        assert_eq!((status, &claim["attempt"]), (200, &json!(2)), "{words}: at once");
        assert_eq!(claim["context"]["actions"][0]["status"], json!("unknown"));
        let messages = claim["context"]["messages"].as_array().unwrap();
        assert_eq!(messages.last().unwrap()["text"], json!("It happened, receipt 7."));
    }
}

#[test]
fn nobody_is_asked_without_a_reason() {
    type Case = (&'static str, Lose, Submit);
    let end = |status: &'static str| -> Lose {
        match status {
            "done" => |world, held| drop(world.does("action", held, pay("done"))),
            _ => |world, held| drop(world.does("action", held, pay("failed"))),
        }
    };
    let cases: [Case; 4] = [
        ("it is done", end("done"), asking_task()),
        ("it failed", end("failed"), asking_task()),
        ("nobody wants to be asked", |_, _| (), task_for("bot")),
        (
            "nobody wants to be asked, and says so",
            |_, _| (),
            Submit { on_unknown_action: Some(OnUnknownAction::Retry), ..task_for("bot") },
        ),
    ];
    for (why, prepare, task) in cases {
        for (words, lose) in LOSSES {
            let (world, held) = paying_for(task.clone());
            prepare(&world, &held);
            lose(&world, &held);
            let state = if words == "failed" { State::Waiting } else { State::Submitted };
            assert_eq!(world.state(&held.id), state, "{why}: {words}");
        }
    }
    let (world, held) = paying();
    world.does("defer", &held, json!({ "seconds": 60 }));
    assert_eq!(world.state(&held.id), State::Waiting, "what is put off is not lost");
}

#[test]
fn what_is_put_off_and_then_lost_is_asked_about() {
    let (world, held) = paying();
    for _ in 0..2 {
        let held = if world.state(&held.id) == State::Working { held.clone() } else { world.claim(&held.key) };
        world.does("defer", &held, json!({ "seconds": 60 }));
        world.pass_and_sweep(60_000);
        assert_eq!(world.state(&held.id), State::Submitted);
    }
    world.claim(&held.key);
    world.pass_and_sweep(300_000);
    assert_eq!(world.state(&held.id), State::InputRequired, "nobody ever said what came of it");
    world.answer(&held.id, "It went through.").unwrap();
    world.claim(&held.key);
    world.pass_and_sweep(300_000);
    assert_eq!(world.state(&held.id), State::Submitted, "what was asked once is not asked again");
}

#[test]
fn a_budget_that_is_spent_is_spent() {
    for (words, lose) in LOSSES {
        let (world, held) = paying_for(Submit { max_attempts: Some(1), ..asking_task() });
        lose(&world, &held);
        let state = if words == "gave the task back" { State::InputRequired } else { State::Failed };
        assert_eq!(world.state(&held.id), state, "{words}");
    }
}

#[test]
fn silence_of_the_person_ends_the_task() {
    let (world, held) = paying();
    world.pass_and_sweep(300_000);
    world.pass_and_sweep(86_399_999);
    assert_eq!(world.state(&held.id), State::InputRequired);
    world.pass_and_sweep(1);
    let life = world.life(&held.id);
    assert_eq!((life.state, life.failure), (State::Failed, Some(FailureCode::InputTimeout)));
}

#[test]
fn a_task_that_waits_for_a_word_takes_nobodys_place() {
    let world = World::new();
    let body = json!({ "name": "bot", "queues": [], "max_concurrent": 1 });
    let key = world.owner("POST", "/api/executors", body).1["key"].as_str().unwrap().to_owned();
    world.submit(&asking_task());
    let held = world.claim(&key);
    world.does("action", &held, pay("begin"));
    world.pass_and_sweep(300_000);
    is_asked(&world, &held);
    let ping = world.call("POST", "/executor/ping", &key, json!({})).1;
    assert_eq!(ping["held"], json!(0), "{ping}");
    let other = world.working("bot", &key);
    assert_ne!(other.id, held.id);
    let (_, shown) = world.owner("GET", &format!("/api/tasks/{}", held.id), Json::Null);
    assert_eq!(shown["task"]["claimed_by"], Json::Null);
}

#[test]
fn each_lost_attempt_asks_for_itself() {
    let (world, held) = paying();
    world.pass_and_sweep(300_000);
    world.answer(&held.id, "I cannot tell.").unwrap();
    let second = world.claim(&held.key);
    world.does("release", &second, json!({}));
    assert_eq!(world.state(&held.id), State::Submitted, "the second attempt had nothing to do with it");
    let third = world.claim(&held.key);
    assert_eq!(world.does("action", &third, pay("begin"))["status"], json!("unknown"));
    world.does("release", &third, json!({}));
    is_asked(&world, &held);
    let question = world.detail(&held.id).full.head.question.unwrap();
    assert!(question.starts_with("Attempt 3 "), "{question}");
}

/// An attempt may go silent with a question of its own open. Its answer is kept for the next attempt, and the hub asks as well.
#[test]
fn an_attempt_that_went_silent_over_a_question_is_asked_about() {
    let (world, held) = paying();
    world.does("heartbeat", &held, json!({ "question": "Which colour?" }));
    world.pass(300_001);
    let answered = world.answer(&held.id, "Red.").unwrap();
    assert_eq!((answered.state, answered.asks_more, answered.already), (State::InputRequired, true, false));
    is_asked(&world, &held);
    let twice = world.answer(&held.id, "Red.").unwrap();
    assert_eq!((twice.already, twice.asks_more), (true, true), "a double click answers no other question");
    is_asked(&world, &held);
    world.pass(ANSWER_REPEAT_MS);
    assert_eq!(
        world.answer(&held.id, "Red.").unwrap().state,
        State::Submitted,
        "later, it is an answer like any other"
    );
    let texts: Vec<String> = world.detail(&held.id).messages.into_iter().map(|message| message.text).collect();
    assert_eq!((texts[0].as_str(), texts[1].as_str(), texts[3].as_str()), ("Which colour?", "Red.", "Red."));
    assert!(texts[2].contains("Did it happen?"), "{texts:?}");
}

#[test]
fn an_attempt_that_does_not_come_for_its_answer_is_asked_about() {
    let (world, held) = paying();
    world.does("heartbeat", &held, json!({ "question": "Which colour?" }));
    world.answer(&held.id, "Red.").unwrap();
    world.pass_and_sweep(300_001);
    is_asked(&world, &held);
    let notes = world.detail(&held.id).notes;
    assert_eq!((notes.len(), notes[0].ended.as_str()), (1, "silent"));
}

/// A call whose answer was lost is answered as the first one was.
#[test]
fn a_release_that_is_repeated_is_answered_as_before() {
    let (world, held) = paying();
    let first = world.does("release", &held, json!({ "note": "bye" }));
    assert_eq!(first["state"], json!("input-required"));
    assert!(first["notice"].as_str().unwrap().starts_with("The attempt is over."), "{first}");
    assert_eq!(world.does("release", &held, json!({ "note": "bye" })), first);
    let (world, held) = paying();
    let failed = json!({ "status": "failed", "retryable": true, "error": "oops" });
    let first = world.does("result", &held, failed.clone());
    assert!(first["notice"].as_str().unwrap().starts_with("The attempt is over."), "{first}");
    assert_eq!(world.does("result", &held, failed), first);
}

#[test]
fn the_wish_is_kept_by_a_retry_and_told_apart_by_a_key() {
    let (world, held) = paying();
    world.does("result", &held, json!({ "status": "failed", "error": "no" }));
    let retried = world.run(|hub| hub::retry_task(hub, "owner", &held.id)).0.unwrap();
    assert_eq!(world.detail(&retried.id).full.on_unknown_action, OnUnknownAction::Ask);
    let keyed = |wish| Submit { idempotency_key: Some("k".to_owned()), on_unknown_action: wish, ..task_for("bot") };
    let id = world.submit(&keyed(None));
    assert_eq!(world.submit(&keyed(None)), id);
    let other = world.run(|hub| hub::submit(hub, &keyed(Some(OnUnknownAction::Ask)))).0;
    assert_eq!(other, Err(hub::SubmitRejected::IdempotencyConflict { task_id: id }));
}

/// The executor goes; the person's word is still wanted, and the task waits for it elsewhere.
#[test]
fn a_task_that_moves_goes_on_waiting_for_the_word() {
    let (world, held) = paying_for(Submit { on_unknown_action: Some(OnUnknownAction::Ask), ..task_in("q") });
    world.executor("other", &["q"]);
    let (removal, _) = world.run(|hub| hub::delete_executor(hub, "bot", &TasksLeft::Cancel));
    assert_eq!(removal.unwrap().given_back, 1);
    is_asked(&world, &held);
    assert!(world.detail(&held.id).full.head.question.unwrap().contains("was called off"));

    let (world, held) = paying();
    let other = world.executor("other", &["q"]);
    world.pass_and_sweep(300_000);
    let (kept, _) = world.run(|hub| hub::delete_executor(hub, "bot", &TasksLeft::Keep));
    assert_eq!(kept, Err(hub::ExecutorRejected::HasTasks));
    let to = TasksLeft::Move(taskhub::domain::task::Address::executor("other").unwrap());
    let (removal, _) = world.run(|hub| hub::delete_executor(hub, "bot", &to));
    let removal = removal.unwrap();
    assert_eq!((removal.deleted, removal.moved), (true, 1));
    assert_eq!(world.state(&held.id), State::InputRequired);
    world.answer(&held.id, "It did not.").unwrap();
    assert_eq!(world.claim(&other).id, held.id);
}

/// Canceling says who is at work on it: nobody.
#[test]
fn it_can_be_canceled_and_listed_while_it_waits() {
    let (world, held) = paying();
    world.pass_and_sweep(300_000);
    let list = hub::List { states: vec![State::InputRequired], page_size: Some(1), ..hub::List::default() };
    let page = world.run(|hub| hub::list_tasks(hub, &list)).0.unwrap();
    assert_eq!(page.tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), [held.id.as_str()]);
    let next = hub::List { cursor: page.next_cursor, ..list };
    assert_eq!(world.run(|hub| hub::list_tasks(hub, &next)).0.unwrap().tasks, []);
    assert_eq!(world.cancel(&held.id).unwrap().was_held_by, None);
}
