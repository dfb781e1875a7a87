//! `heartbeat`: the attempt is alive, with what it wants to say; or it waits for a person.

use serde_json::{Value as Json, json};

use super::attempt::{self, AttemptCall, AttemptRejected, Change};
use super::query::{Message, messages_after_claim};
use super::{Effects, Hub};
use crate::domain::lifecycle::{Event, step};
use crate::domain::limits::{CHECKPOINT_BYTES_MAX, NOTE_CHARS_MAX};
use crate::domain::task::{Life, State, WaitingOn};
use crate::store::database::DatabaseError;
use crate::store::events::Kind;
use crate::store::tasks::{self, AttemptWrites, TaskHead};

/// What a heartbeat brings.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat {
    /// A line about what is going on.
    pub note: Option<String>,
    /// 0 to 1.
    pub progress: Option<f64>,
    /// What the next attempt should know if this one dies.
    pub checkpoint: Option<Json>,
    /// The attempt waits for a person instead of working.
    pub blocked: bool,
    /// What it asks the submitter; without one, it waits for its own user.
    pub question: Option<String>,
}

/// The hub's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Beat {
    /// `working` or `input-required`.
    pub state: State,
    /// When the lease ends, in milliseconds; none while the attempt waits for input.
    pub lease_expires_at: Option<i64>,
    /// Answers that people have given to this attempt, oldest first.
    pub messages: Vec<Message>,
}

/// Renews the lease, or reports that the attempt waits for a person.
pub fn heartbeat(hub: &Hub<'_>, call: &AttemptCall<'_>, input: &Heartbeat) -> Result<Beat, AttemptRejected> {
    attempt::check_chars("note", input.note.as_deref(), NOTE_CHARS_MAX)?;
    attempt::check_question(input.question.as_deref())?;
    attempt::check_json("checkpoint", input.checkpoint.as_ref(), CHECKPOINT_BYTES_MAX)?;
    if input.progress.is_some_and(|progress| !(0.0..=1.0).contains(&progress)) {
        let detail = "It must be a number from 0 to 1.".to_owned();
        return Err(AttemptRejected::Invalid { field: "progress", detail });
    }
    let writes = writes(input);
    hub.command(|effects| {
        let task = call.task(hub)?;
        if task.life.state == State::Working && !input.blocked {
            return match renew(hub, effects, call, &task, &writes)? {
                Ok(life) => beat(hub, &task, &life).map(Ok),
                Err(rejected) => Ok(Err(rejected)),
            };
        }
        let done = if input.blocked {
            block(hub, effects, call, &task, &writes)?
        } else {
            resume(hub, effects, call, &task, &writes)?
        };
        match done {
            Ok(()) => call.task(hub).and_then(|task| beat(hub, &task, &task.life)).map(Ok),
            Err(rejected) => Ok(Err(rejected)),
        }
    })?
}

fn writes(input: &Heartbeat) -> AttemptWrites {
    AttemptWrites {
        note: input.note.clone(),
        progress: input.progress,
        checkpoint: input.checkpoint.clone(),
        question: input.question.clone(),
        ..AttemptWrites::default()
    }
}

/// A step inside a command. The inner error is a refusal, whose evidence is to stay.
pub(super) type Done = Result<Result<(), AttemptRejected>, AttemptRejected>;

/// The way of almost every heartbeat: one row. Returns the task's life after it.
fn renew(
    hub: &Hub<'_>,
    effects: &mut Effects,
    call: &AttemptCall<'_>,
    task: &TaskHead,
    writes: &AttemptWrites,
) -> Result<Result<Life, AttemptRejected>, AttemptRejected> {
    let fence = call.fence();
    let next = match step(&task.life, &Event::Heartbeat(fence.clone()), &hub.rules(false)) {
        Ok(next) => next,
        Err(refused) => return attempt::refuse(hub, task, call, refused).map(Err),
    };
    if !tasks::renew(hub.db, &task.id, &next, hub.now, (&fence.token_hash, writes))? {
        let reason = "the store refused a heartbeat that the lifecycle allows".to_owned();
        return Err(DatabaseError::Refused(reason).into());
    }
    // `due_at` stays behind a lease that grows; it must not stay ahead of one that shrinks because its setting did.
    let due_at = next.due_at(hub.settings.lease_ms);
    if task.due_at.is_none() || due_at < task.due_at {
        tasks::rearm(hub.db, &task.id, (next.state, next.attempt), due_at)?;
    }
    if writes.note.is_some() || writes.progress.is_some() {
        effects.changed.push(task.id.clone());
    }
    Ok(Ok(next))
}

/// The attempt goes on after a question.
fn resume(
    hub: &Hub<'_>,
    effects: &mut Effects,
    call: &AttemptCall<'_>,
    task: &TaskHead,
    writes: &AttemptWrites,
) -> Done {
    let change = Change {
        event: Event::Heartbeat(call.fence()),
        writes: writes.clone(),
        record: &|_, _| Some((Kind::Resumed, json!({}))),
        outcome: None,
    };
    Ok(attempt::change_within(hub, effects, call, task, &change)?.map(drop))
}

/// The attempt waits for a person: the submitter if there is a question, otherwise its own user. Saying so again with
/// nothing new to ask only tells the hub that it is still there.
pub(super) fn block(
    hub: &Hub<'_>,
    effects: &mut Effects,
    call: &AttemptCall<'_>,
    task: &TaskHead,
    writes: &AttemptWrites,
) -> Done {
    let question = &writes.question;
    let on = if question.is_some() { WaitingOn::Submitter } else { WaitingOn::ExecutorUser };
    let is_new = task.life.state == State::Working || (question.is_some() && *question != task.question);
    let record = |_: &TaskHead, _: &Life| {
        is_new.then(|| (Kind::Question, json!({ "question": question, "waiting_on": on.as_str() })))
    };
    let event = Event::Blocked { fence: call.fence(), on, is_new };
    let change = Change { event, writes: writes.clone(), record: &record, outcome: None };
    Ok(attempt::change_within(hub, effects, call, task, &change)?.map(drop))
}

fn beat(hub: &Hub<'_>, task: &TaskHead, life: &Life) -> Result<Beat, AttemptRejected> {
    let messages = messages_after_claim(hub, task)?;
    Ok(Beat { state: life.state, lease_expires_at: life.lease_expires_at, messages })
}
