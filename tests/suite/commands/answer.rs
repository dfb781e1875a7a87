//! `answer`: to the attempt that asked, or to the next one.

use serde_json::json;
use taskhub::domain::task::{State, WaitingOn};
use taskhub::hub::{self, AnswerRejected, Answered};

use crate::support::{Held, World};

fn asking(world: &World) -> Held {
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    world.does("heartbeat", &held, json!({ "question": "Window or aisle?" }));
    held
}

fn answered(held: &Held, state: State, already: bool) -> Result<Answered, AnswerRejected> {
    Ok(Answered { id: held.id.clone(), state, already, asks_more: false })
}

#[test]
fn the_attempt_that_asked_gets_the_answer_with_its_next_heartbeat() {
    let world = World::new();
    let held = asking(&world);
    assert_eq!(world.answer(&held.id, "Window."), answered(&held, State::InputRequired, false));
    let beat = world.does("heartbeat", &held, json!({}));
    assert_eq!(beat["state"], "working");
    assert_eq!(beat["messages"][0]["text"], "Window.");
    assert_eq!(beat["messages"][0]["from"], "submitter:owner");
    assert_eq!(world.life(&held.id).answered_at, None);
    assert_eq!(world.kinds(&held.id), ["submitted", "claimed", "question", "answer", "resumed"]);
    assert_eq!(world.detail(&held.id).notes, [], "no attempt has ended");
}

#[test]
fn a_silent_attempt_is_fenced_off_and_the_next_one_gets_the_answer() {
    let world = World::new();
    let held = asking(&world);
    world.pass(300_001);
    assert_eq!(world.answer(&held.id, "Window."), answered(&held, State::Submitted, false));
    world.is_refused("result", &held, json!({ "status": "completed" }), "lease_lost");
    let (_, claim) = world.call("POST", "/executor/claim", &held.key, json!({}));
    assert_eq!(claim["attempt"], 2);
    let texts: Vec<&str> =
        claim["context"]["messages"].as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["Window or aisle?", "Window."]);
    assert_eq!(claim["context"]["notes"][0]["ended"], "silent");
    assert_eq!(world.life(&held.id).failures, 0, "silence after a question is no failure");
}

#[test]
fn an_answer_that_goes_to_the_next_attempt_wakes_it() {
    let world = World::new();
    let hook = json!({ "adapter": "webhook", "url": "https://bot.example/", "auth": { "kind": "none" } });
    let key = world.webhook_executor("bot", &[], hook);
    let held = world.working("bot", &key);
    world.does("result", &held, json!({ "status": "blocked", "question": "Which?" }));
    world.pass(3_600_000);
    let answer = hub::Answer { submitter: "owner".to_owned(), task_id: held.id.clone(), text: "This one.".to_owned() };
    let (answered, effects) = world.run(|hub| hub::answer(hub, &answer));
    assert_eq!(answered.unwrap().state, State::Submitted);
    assert_eq!((effects.outbox.len(), effects.ready), (1, vec!["@bot".to_owned()]));
}

/// Rule 4: a double click changes nothing, whatever has happened between the two.
#[test]
fn the_same_answer_twice_is_one_answer() {
    let world = World::new();
    let held = asking(&world);
    world.answer(&held.id, "Window.").unwrap();
    let before = world.db.dump();
    assert_eq!(world.answer(&held.id, "Window."), answered(&held, State::InputRequired, true));
    assert_eq!(world.db.dump(), before);

    world.does("heartbeat", &held, json!({}));
    let before = world.db.dump();
    assert_eq!(world.answer(&held.id, "Window."), answered(&held, State::Working, true), "the attempt went on");
    assert_eq!(world.db.dump(), before);
}

#[test]
fn the_same_words_for_another_question_are_another_answer() {
    let world = World::new();
    let held = asking(&world);
    world.answer(&held.id, "Yes.").unwrap();
    world.does("heartbeat", &held, json!({}));
    world.does("heartbeat", &held, json!({ "question": "Really?" }));
    assert_eq!(world.answer(&held.id, "Yes."), answered(&held, State::InputRequired, false));
}

#[test]
fn a_second_question_without_a_pause_waits_for_its_own_answer() {
    let world = World::new();
    let held = asking(&world);
    world.answer(&held.id, "Window.").unwrap();
    world.pass(1_000);
    world.does("heartbeat", &held, json!({ "question": "Which row?" }));
    let life = world.life(&held.id);
    assert_eq!((life.state, life.answered_at), (State::InputRequired, None));
    world.pass_and_sweep(300_001);
    assert_eq!(world.state(&held.id), State::InputRequired, "it is not given to another attempt unanswered");
    assert_eq!(world.detail(&held.id).full.head.question.as_deref(), Some("Which row?"));
}

#[test]
fn another_answer_before_the_attempt_came_is_added() {
    let world = World::new();
    let held = asking(&world);
    world.answer(&held.id, "Window.").unwrap();
    world.answer(&held.id, "No, aisle.").unwrap();
    let beat = world.does("heartbeat", &held, json!({}));
    let texts: Vec<&str> = beat["messages"].as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["Window.", "No, aisle."]);
}

#[test]
fn what_is_not_asked_cannot_be_answered() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    assert_eq!(world.answer(&held.id, "Yes."), Err(AnswerRejected::NotAsked { state: State::Working }));
    world.does("result", &held, json!({ "status": "completed" }));
    assert_eq!(world.answer(&held.id, "Yes."), Err(AnswerRejected::NotAsked { state: State::Completed }));
    assert_eq!(world.answer("t_000000000_0000000000000000", "Yes."), Err(AnswerRejected::TaskNotFound));
    assert_eq!(world.answer("nonsense", "Yes."), Err(AnswerRejected::TaskNotFound));
    for text in ["", " \n", &"x".repeat(8_001)] {
        assert!(matches!(world.answer(&held.id, text), Err(AnswerRejected::Invalid { .. })), "{}", text.len());
    }
}

#[test]
fn blocked_without_a_question_waits_for_the_executors_own_user() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    world.does("heartbeat", &held, json!({ "question": "Window or aisle?" }));
    world.does("heartbeat", &held, json!({}));
    world.does("heartbeat", &held, json!({ "state": "input-required", "note": "sign in, please" }));
    let detail = world.detail(&held.id);
    assert_eq!(detail.full.head.life.waiting_on, Some(WaitingOn::ExecutorUser));
    assert_eq!(detail.full.head.question, None, "the question of before is not asked again");
}

#[test]
fn saying_again_that_it_waits_is_one_question() {
    let world = World::new();
    let held = asking(&world);
    let limit = world.life(&held.id).input_expires_at;
    world.pass(100_000);
    world.does("heartbeat", &held, json!({ "question": "Window or aisle?" }));
    world.does("heartbeat", &held, json!({ "state": "input-required" }));
    let life = world.life(&held.id);
    assert_eq!((life.input_expires_at, life.claim.unwrap().heard_at), (limit, world.now()));
    assert_eq!(world.kinds(&held.id), ["submitted", "claimed", "question"]);
    assert_eq!(world.detail(&held.id).full.head.question.as_deref(), Some("Window or aisle?"));
}
