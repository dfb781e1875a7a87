//! The audit trail: one row an event, chained by task.

use serde_json::Value as Json;

use super::database::{Database, DatabaseError, Row, Value};
use super::row::Columns;

/// What an event records. The names are the wire's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The task was submitted.
    Submitted,
    /// An executor claimed it.
    Claimed,
    /// It became claimable again; `data.reason` says why.
    Requeued,
    /// The executor asks a person.
    Question,
    /// A person answered.
    Answer,
    /// The attempt went on after a question.
    Resumed,
    /// The attempt deferred it.
    Deferred,
    /// The attempt failed and it will be tried again.
    Retrying,
    /// The owner approved it.
    Approved,
    /// It was given another address.
    Moved,
    /// The attempt left a file; `data` names it.
    Attached,
    /// A wake ended; `data` says how.
    Wake,
    /// The attempt recorded an outside action; `data` says which, and what of it.
    Action,
    /// It is completed.
    Completed,
    /// It failed.
    Failed,
    /// It was canceled.
    Canceled,
    /// A call that was refused because its claim no longer holds, with the beginning of what it brought.
    Late,
}

impl Kind {
    const ALL: [Self; 17] = [
        Self::Submitted,
        Self::Claimed,
        Self::Requeued,
        Self::Question,
        Self::Answer,
        Self::Resumed,
        Self::Deferred,
        Self::Retrying,
        Self::Approved,
        Self::Moved,
        Self::Attached,
        Self::Wake,
        Self::Action,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
        Self::Late,
    ];

    /// The name on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Claimed => "claimed",
            Self::Requeued => "requeued",
            Self::Question => "question",
            Self::Answer => "answer",
            Self::Resumed => "resumed",
            Self::Deferred => "deferred",
            Self::Retrying => "retrying",
            Self::Approved => "approved",
            Self::Moved => "moved",
            Self::Attached => "attached",
            Self::Wake => "wake",
            Self::Action => "action",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Late => "late",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRow {
    /// The hub's event number.
    pub seq: i64,
    /// The task's event before this one.
    pub previous_seq: Option<i64>,
    /// The task.
    pub task_id: String,
    /// When, in milliseconds.
    pub at: i64,
    /// What.
    pub kind: Kind,
    /// In which attempt; 0 before the first.
    pub attempt: u32,
    /// Who: `executor:<name>`, `submitter:<id>`, or `hub`.
    pub actor: String,
    /// More about it; an object.
    pub data: Json,
}

/// An event to be written.
#[derive(Clone, Debug)]
pub struct NewEvent<'e> {
    /// The task.
    pub task_id: &'e str,
    /// The task's newest event so far.
    pub previous_seq: Option<i64>,
    /// When, in milliseconds.
    pub at: i64,
    /// What.
    pub kind: Kind,
    /// In which attempt.
    pub attempt: u32,
    /// Who.
    pub actor: &'e str,
    /// The key under which a repeated claim or retry finds this one.
    pub request_key: Option<&'e str>,
    /// More about it; an object, or null for nothing.
    pub data: Json,
}

const INSERT: &str = "INSERT INTO task_events (task_id, previous_seq, at, kind, attempt, actor, request_key, data)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) RETURNING seq";
const CHAIN: &str = "WITH RECURSIVE chain (seq, depth) AS (
    SELECT ?1, 1
    UNION ALL
    SELECT e.previous_seq, depth + 1 FROM chain JOIN task_events e ON e.seq = chain.seq
    WHERE e.previous_seq IS NOT NULL AND depth < ?2)
  SELECT e.seq, e.previous_seq, e.task_id, e.at, e.kind, e.attempt, e.actor, e.data
  FROM chain JOIN task_events e ON e.seq = chain.seq ORDER BY chain.depth";
const BY_REQUEST: &str = "SELECT seq, previous_seq, task_id, at, kind, attempt, actor, data
  FROM task_events WHERE request_key = ?1";
const AFTER: &str = "SELECT seq, previous_seq, task_id, at, kind, attempt, actor, data
  FROM task_events WHERE seq > ?1 ORDER BY seq LIMIT +?2";
const NEWEST: &str = "SELECT max(seq) AS seq FROM task_events";
// The newest event of all stays, so that SQLite, which numbers a new row after the largest there is, never uses a number
// twice.
const DELETE_CHAIN: &str = "WITH RECURSIVE chain (seq) AS (
    SELECT ?1
    UNION ALL
    SELECT e.previous_seq FROM chain JOIN task_events e ON e.seq = chain.seq WHERE e.previous_seq IS NOT NULL)
  DELETE FROM task_events WHERE seq IN (SELECT seq FROM chain) AND seq < (SELECT max(seq) FROM task_events)";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("events::insert", INSERT),
    ("events::chain", CHAIN),
    ("events::by_request", BY_REQUEST),
    ("events::after", AFTER),
    ("events::newest", NEWEST),
    ("events::delete_chain", DELETE_CHAIN),
];

/// Writes one event and returns its number.
pub fn insert(db: &dyn Database, event: &NewEvent<'_>) -> Result<i64, DatabaseError> {
    let data = (!event.data.is_null()).then(|| event.data.to_string());
    let parameters = [
        event.task_id.into(),
        event.previous_seq.into(),
        event.at.into(),
        event.kind.as_str().into(),
        event.attempt.into(),
        event.actor.into(),
        event.request_key.into(),
        data.into(),
    ];
    let row = db.execute(INSERT, &parameters)?.pop().ok_or(DatabaseError::Shape("seq"))?;
    Columns::of(row).integer("seq")
}

/// The events of one task from its newest (`event_seq`) backwards, at most `events_max` of them.
pub fn chain(db: &dyn Database, event_seq: i64, events_max: usize) -> Result<Vec<EventRow>, DatabaseError> {
    let rows = db.execute(CHAIN, &[event_seq.into(), Value::Integer(events_max as i64)])?;
    rows.into_iter().map(read).collect()
}

/// The event that was written under this request key.
pub fn by_request(db: &dyn Database, request_key: &str) -> Result<Option<EventRow>, DatabaseError> {
    db.execute(BY_REQUEST, &[request_key.into()])?.pop().map(read).transpose()
}

/// The hub's events after `seq`, oldest first, at most `events_max` of them.
pub fn after(db: &dyn Database, seq: i64, events_max: usize) -> Result<Vec<EventRow>, DatabaseError> {
    let rows = db.execute(AFTER, &[seq.into(), Value::Integer(events_max as i64)])?;
    rows.into_iter().map(read).collect()
}

/// The number of the newest event; 0 if there is none.
pub fn newest(db: &dyn Database) -> Result<i64, DatabaseError> {
    let row = db.execute(NEWEST, &[])?.pop().ok_or(DatabaseError::Shape("seq"))?;
    Ok(Columns::of(row).maybe_integer("seq")?.unwrap_or(0))
}

/// Deletes the events of one task, but never the newest event of the hub.
pub fn delete_chain(db: &dyn Database, event_seq: i64) -> Result<(), DatabaseError> {
    db.execute(DELETE_CHAIN, &[event_seq.into()]).map(drop)
}

fn read(row: Row) -> Result<EventRow, DatabaseError> {
    let mut columns = Columns::of(row);
    Ok(EventRow {
        seq: columns.integer("seq")?,
        previous_seq: columns.maybe_integer("previous_seq")?,
        task_id: columns.text("task_id")?,
        at: columns.integer("at")?,
        kind: columns.word("kind", Kind::parse)?,
        attempt: columns.count("attempt")?,
        actor: columns.text("actor")?,
        data: match columns.maybe_text("data")? {
            Some(text) => serde_json::from_str(&text).map_err(|_| DatabaseError::Shape("data"))?,
            None => Json::Null,
        },
    })
}
