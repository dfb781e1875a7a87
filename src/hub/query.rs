//! Reading one task with its history.

use serde_json::Value as Json;

use super::Hub;
use super::action::{ActionView, views};
use crate::domain::ids::TaskId;
use crate::domain::limits::{EVENTS_READ_MAX, EVENTS_SEARCHED_MAX, MESSAGES_READ_MAX, NOTES_READ_MAX};
use crate::domain::task::{Life, State};
use crate::store::database::DatabaseError;
use crate::store::events::{self, EventRow, Kind};
use crate::store::tasks::{self, TaskFull, TaskHead};

/// A task with everything that is known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskDetail {
    /// The task itself.
    pub full: TaskFull,
    /// Questions and answers, oldest first; the newest `MESSAGES_READ_MAX`.
    pub messages: Vec<Message>,
    /// What each earlier attempt said last, oldest first; the newest `NOTES_READ_MAX`.
    pub notes: Vec<Note>,
    /// The outside actions that its attempts recorded, in the order in which they were first begun.
    pub actions: Vec<ActionView>,
    /// The audit trail, oldest first; the newest `EVENTS_READ_MAX`.
    pub events: Vec<EventView>,
    /// Whether older events were left out.
    pub events_left_out: bool,
}

/// A question of an executor, or a person's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its event number; a message that is seen twice has the same.
    pub seq: i64,
    /// When, in milliseconds.
    pub at: i64,
    /// Who: `executor:<name>`, `submitter:<id>`, or `hub` where it asks about an attempt that is lost.
    pub from: String,
    /// The text.
    pub text: String,
}

/// What an earlier attempt left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The attempt.
    pub attempt: u32,
    /// When it ended, in milliseconds.
    pub at: i64,
    /// How: `lease_expired`, `released`, `deferred`, `failed`, `silent`, `moved`.
    pub ended: String,
    /// Its last note or error.
    pub note: Option<String>,
}

/// One line of the audit trail.
#[derive(Clone, Debug, PartialEq)]
pub struct EventView {
    /// The hub's event number.
    pub seq: i64,
    /// When, in milliseconds.
    pub at: i64,
    /// What.
    pub kind: &'static str,
    /// In which attempt; 0 before the first.
    pub attempt: u32,
    /// Who: `executor:<name>`, `submitter:<id>` or `hub`.
    pub actor: String,
    /// More about it; an object or null.
    pub data: Json,
}

/// The task of this id; `None` if there is none.
pub fn get_task(hub: &Hub<'_>, id: &str) -> Result<Option<TaskDetail>, DatabaseError> {
    match TaskId::parse(id) {
        Some(id) => detail(hub, id.as_str()),
        None => Ok(None),
    }
}

/// The number that rises with every change of this task, and where it stands; `None` if there is none. One row read.
pub fn revision(hub: &Hub<'_>, id: &str) -> Result<Option<(i64, Life)>, DatabaseError> {
    let Some(id) = TaskId::parse(id) else { return Ok(None) };
    Ok(tasks::head(hub.db, id.as_str())?.map(|task| (task.revision, task.life)))
}

pub(super) fn detail(hub: &Hub<'_>, id: &str) -> Result<Option<TaskDetail>, DatabaseError> {
    tasks::full(hub.db, id)?.map(|full| with_events(hub, full)).transpose()
}

/// A task with its history.
pub(super) fn with_events(hub: &Hub<'_>, full: TaskFull) -> Result<TaskDetail, DatabaseError> {
    let mut chain = events::chain(hub.db, full.head.event_seq, EVENTS_SEARCHED_MAX)?;
    chain.reverse();
    let mut messages: Vec<Message> = chain.iter().filter_map(message).collect();
    messages.drain(..messages.len().saturating_sub(MESSAGES_READ_MAX));
    let mut notes: Vec<Note> = chain.iter().filter_map(note).collect();
    notes.drain(..notes.len().saturating_sub(NOTES_READ_MAX));
    chain.drain(..chain.len().saturating_sub(EVENTS_READ_MAX));
    let events_left_out = chain.first().is_some_and(|event| event.previous_seq.is_some());
    let events = chain.into_iter().map(view).collect();
    let actions = views(hub, &full.head)?;
    Ok(TaskDetail { full, messages, notes, actions, events, events_left_out })
}

/// A task whose first attempt begins: none has left a note, asked or begun anything, so neither its events nor its actions are
/// read.
pub(super) fn without_events(full: TaskFull) -> TaskDetail {
    TaskDetail { full, messages: vec![], notes: vec![], actions: vec![], events: vec![], events_left_out: true }
}

/// The answers that people have given since the present attempt began, oldest first.
pub(super) fn messages_after_claim(hub: &Hub<'_>, task: &TaskHead) -> Result<Vec<Message>, DatabaseError> {
    if task.message_seq.is_none() {
        return Ok(vec![]);
    }
    let chain = events::chain(hub.db, task.event_seq, EVENTS_SEARCHED_MAX)?;
    let in_attempt = chain.iter().take_while(|event| event.kind != Kind::Claimed);
    let answers = in_attempt.filter(|event| event.kind == Kind::Answer).filter_map(message);
    let mut messages: Vec<Message> = answers.take(MESSAGES_READ_MAX).collect();
    messages.reverse();
    Ok(messages)
}

fn message(event: &EventRow) -> Option<Message> {
    let text = match event.kind {
        Kind::Question => event.data["question"].as_str()?,
        Kind::Answer => event.data["text"].as_str()?,
        _ => return None,
    };
    let from = event.data["asked_by"].as_str().unwrap_or(&event.actor).to_owned();
    Some(Message { seq: event.seq, at: event.at, from, text: text.to_owned() })
}

fn note(event: &EventRow) -> Option<Note> {
    let ended = match event.kind {
        Kind::Deferred => "deferred",
        Kind::Retrying => "failed",
        // The hub asks what an attempt left behind, whose end is no event of its own then.
        Kind::Question => event.data["ended"].as_str()?,
        Kind::Moved if event.data["held_by"].is_string() => "moved",
        // The end of a wait is no end of an attempt.
        Kind::Requeued => event.data["reason"].as_str().filter(|reason| !matches!(*reason, "time" | "woken"))?,
        Kind::Answer if event.data["state"] == State::Submitted.as_str() => "silent",
        _ => return None,
    };
    if event.attempt == 0 {
        return None;
    }
    let text = event.data["error"].as_str().or_else(|| event.data["note"].as_str());
    Some(Note { attempt: event.attempt, at: event.at, ended: ended.to_owned(), note: text.map(str::to_owned) })
}

fn view(event: EventRow) -> EventView {
    let EventRow { seq, at, kind, attempt, actor, data, .. } = event;
    EventView { seq, at, kind: kind.as_str(), attempt, actor, data }
}
