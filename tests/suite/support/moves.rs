//! What the people and machines around a hub do, in one call each; whatever is not expected is an error of the test.

use serde_json::{Value as Json, json};
use taskhub::domain::task::{Life, State};
use taskhub::hub::{self, Answer, Delivery, Effects, Order, Submit, Swept, TaskDetail};

use super::world::{OWNER_TOKEN, World};

/// What an executor knows of its claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub key: String,
    pub id: String,
    pub token: String,
    pub attempt: u64,
}

/// A task for one executor.
pub fn task_for(executor: &str) -> Submit {
    Submit {
        submitter: "owner".to_owned(),
        title: "book a table".to_owned(),
        instructions: "for two, at eight".to_owned(),
        executor: Some(executor.to_owned()),
        ..Submit::default()
    }
}

/// A task for a queue.
pub fn task_in(queue: &str) -> Submit {
    Submit { executor: None, queue: Some(queue.to_owned()), ..task_for("nobody") }
}

impl World {
    /// Calls the owner API.
    pub fn owner(&self, method: &str, path: &str, body: Json) -> (u16, Json) {
        self.call(method, path, OWNER_TOKEN, body)
    }

    /// Creates an executor that is woken by webhook, and returns its key.
    pub fn webhook_executor(&self, name: &str, queues: &[&str], wake: Json) -> String {
        let body = json!({ "name": name, "queues": queues, "wake": wake });
        let (status, answer) = self.owner("POST", "/api/executors", body);
        assert_eq!(status, 201, "{answer}");
        answer["key"].as_str().expect("a key").to_owned()
    }

    /// Submits a task and returns its id.
    pub fn submit(&self, input: &Submit) -> String {
        self.submit_with_effects(input).0
    }

    /// Submits a task and returns its id and what must happen outside.
    pub fn submit_with_effects(&self, input: &Submit) -> (String, Effects) {
        let (submitted, effects) = self.run(|hub| hub::submit(hub, input));
        (submitted.expect("the task is taken").id, effects)
    }

    /// Claims the next task with this key.
    pub fn claim(&self, key: &str) -> Held {
        let (status, claim) = self.call("POST", "/executor/claim", key, json!({}));
        assert_eq!(status, 200, "{claim}");
        held(key, &claim)
    }

    /// Submits a task for the executor of this key, and claims it.
    pub fn working(&self, executor: &str, key: &str) -> Held {
        let id = self.submit(&task_for(executor));
        let held = self.claim(key);
        assert_eq!(held.id, id);
        held
    }

    /// Makes a call under a claim, with `more` fields in its body.
    pub fn attempt(&self, verb: &str, held: &Held, more: Json) -> (u16, Json) {
        let mut body = json!({ "task_id": held.id, "claim_token": held.token });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        self.call("POST", &format!("/executor/{verb}"), &held.key, body)
    }

    /// Makes a call under a claim that is accepted.
    pub fn does(&self, verb: &str, held: &Held, more: Json) -> Json {
        let (status, answer) = self.attempt(verb, held, more);
        assert_eq!(status, 200, "{verb}: {answer}");
        answer
    }

    /// Makes a call under a claim that is refused with 409 and this code.
    pub fn is_refused(&self, verb: &str, held: &Held, more: Json, code: &str) {
        let (status, answer) = self.attempt(verb, held, more);
        assert_eq!((status, &answer["code"]), (409, &json!(code)), "{verb}: {answer}");
    }

    /// Answers what a task asks.
    pub fn answer(&self, id: &str, text: &str) -> Result<hub::Answered, hub::AnswerRejected> {
        let answer = Answer { submitter: "owner".to_owned(), task_id: id.to_owned(), text: text.to_owned() };
        self.run(|hub| hub::answer(hub, &answer)).0
    }

    /// Cancels a task.
    pub fn cancel(&self, id: &str) -> Result<hub::Canceled, hub::CancelRejected> {
        self.run(|hub| hub::cancel(hub, "owner", id, None)).0
    }

    /// Lets the clock do what is due, in one batch.
    pub fn sweep(&self) -> (Swept, Effects) {
        let (swept, effects) = self.run(hub::sweep);
        (swept.expect("the sweep runs"), effects)
    }

    /// Lets this much time pass, and then the clock do what is due.
    pub fn pass_and_sweep(&self, ms: i64) -> Effects {
        self.pass(ms);
        let (swept, effects) = self.sweep();
        assert_eq!(swept.trouble, [], "no task makes trouble");
        let (dispatched, mut sent) = self.run(|hub| hub::dispatch(hub, 100));
        assert_eq!(dispatched.expect("the outbox can be read").trouble, [], "no message makes trouble");
        sent.outbox.splice(0..0, effects.outbox);
        Effects { outbox: sent.outbox, ..effects }
    }

    /// Records what became of a wake.
    pub fn record(&self, order: &Order, outcome: Delivery) {
        self.run(|hub| hub::record_delivery(hub, order, &outcome)).0.expect("it is recorded");
    }

    /// The task with its history.
    pub fn detail(&self, id: &str) -> TaskDetail {
        self.run(|hub| hub::get_task(hub, id)).0.expect("the database answers").expect("the task is there")
    }

    /// What its life moves.
    pub fn life(&self, id: &str) -> Life {
        self.detail(id).full.head.life
    }

    /// Where it stands.
    pub fn state(&self, id: &str) -> State {
        self.life(id).state
    }

    /// The kinds of its events, oldest first.
    pub fn kinds(&self, id: &str) -> Vec<&'static str> {
        self.detail(id).events.iter().map(|event| event.kind).collect()
    }
}

/// What a claim's answer says.
pub fn held(key: &str, claim: &Json) -> Held {
    let text = |value: &Json| value.as_str().expect("a text").to_owned();
    let attempt = claim["attempt"].as_u64().expect("a number");
    Held { key: key.to_owned(), id: text(&claim["task"]["id"]), token: text(&claim["claim_token"]), attempt }
}
