//! `answer`: a person answers what an attempt asked.

use serde_json::json;

use super::unknown::{self, Unknown};
use super::{Hub, owed, wakes};
use crate::domain::ids::TaskId;
use crate::domain::ledger::Loss;
use crate::domain::lifecycle::{Event, Rules, step};
use crate::domain::limits::{ANSWER_REPEAT_MS, MESSAGE_CHARS_MAX};
use crate::domain::task::State;
use crate::store::database::DatabaseError;
use crate::store::events::{self, EventRow, Kind};
use crate::store::tasks::{self, MoveWrites, TaskHead};

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Who answers.
    pub submitter: String,
    /// The task.
    pub task_id: String,
    /// What they say.
    pub text: String,
}

/// The answer is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The task.
    pub id: String,
    /// `input-required` while the attempt that asked may come for it, `submitted` if another attempt gets it.
    pub state: State,
    /// Whether the very same answer was there already.
    pub already: bool,
    /// Whether the hub itself has asked something since: what came of an action of the attempt that had asked.
    pub asks_more: bool,
}

/// Why it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerRejected {
    /// There is no such task, or not any more.
    TaskNotFound,
    /// It does not wait for an answer.
    NotAsked {
        /// Where it stands.
        state: State,
    },
    /// The answer is empty or too long.
    Invalid {
        /// What is right, as a sentence.
        detail: String,
    },
    /// The database failed.
    Database(DatabaseError),
}

impl From<DatabaseError> for AnswerRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Gives the answer to the attempt that asked, or, if that has been silent for more than one lease, to the next one.
pub fn answer(hub: &Hub<'_>, input: &Answer) -> Result<Answered, AnswerRejected> {
    if input.text.trim().is_empty() || input.text.chars().nth(MESSAGE_CHARS_MAX).is_some() {
        let detail = format!("The answer must have 1 to {MESSAGE_CHARS_MAX} characters.");
        return Err(AnswerRejected::Invalid { detail });
    }
    let id = TaskId::parse(&input.task_id).ok_or(AnswerRejected::TaskNotFound)?;
    hub.command(|effects| {
        let task = tasks::head(hub.db, id.as_str())?.ok_or(AnswerRejected::TaskNotFound)?;
        if is_repeated(hub, &task, &input.text)? {
            let asks_more = task.life.is_asked_by_hub();
            return Ok(Answered { id: task.id, state: task.life.state, already: true, asks_more });
        }
        let consumers = wakes::consumers(hub, &task.address)?;
        let unknown = Unknown::by(hub, &task, &Event::Answered)?;
        let rules = Rules { asks: unknown.is_any(), ..hub.rules(consumers.any_is_sent()) };
        let not_asked = |_| AnswerRejected::NotAsked { state: task.life.state };
        let next = step(&task.life, &Event::Answered, &rules).map_err(not_asked)?;
        let (next, wakes_owed) = wakes::plan(hub, &task.id, next, &consumers)?;
        let actor = format!("submitter:{}", input.submitter);
        let seq = hub.record(
            &task,
            Kind::Answer,
            next.attempt,
            &actor,
            json!({ "text": input.text, "state": next.state.as_str(), "note": task.note }),
        )?;
        let due_at = next.due_at(hub.settings.lease_ms);
        let refused = || DatabaseError::Refused("the store refused an answer".to_owned());
        let question = unknown.question(&task, &next, Loss::Silent);
        let newest_seq = match &question {
            Some(question) => unknown::ask_after(hub, &task, seq, question, Some("silent"))?,
            None => seq,
        };
        let writes = MoveWrites { message_seq: Some(seq), question: question.as_deref(), ..MoveWrites::default() };
        let moved = tasks::move_on(hub.db, &task, &next, due_at, newest_seq, hub.now, writes)?;
        let wishes = moved.ok_or_else(refused)?;
        wakes::post(hub, effects, wakes_owed)?;
        owed::owe(hub, effects, &task, &next, &wishes)?;
        effects.task_changed(&task.id, next.state, &task.address);
        Ok(Answered { id: task.id, state: next.state, already: false, asks_more: question.is_some() })
    })
}

/// A double click: no question is open, and the newest answer is this very one. A question with which the hub itself followed a
/// moment ago is not answered by it.
fn is_repeated(hub: &Hub<'_>, task: &TaskHead, text: &str) -> Result<bool, DatabaseError> {
    let is_open = task.life.state == State::InputRequired && task.life.answered_at.is_none();
    let is_hubs = task.life.is_asked_by_hub();
    let Some(seq) = task.message_seq.filter(|_| !is_open || is_hubs) else { return Ok(false) };
    let newest = events::chain(hub.db, seq, 1)?.pop();
    let is_same = |event: &EventRow| event.kind == Kind::Answer && event.data["text"] == json!(text);
    Ok(newest.is_some_and(|event| is_same(&event) && (!is_open || hub.now - event.at < ANSWER_REPEAT_MS)))
}
