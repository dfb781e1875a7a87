//! The outbox: what is owed to the outside (design §3 rule 5), one row a message.
//!
//! Rows are found by when they are due, so a message that is sent at once costs one row to write and one to delete. Whoever
//! sends a row has moved its `next_at` to the end of its claim before; a row that is found due is nobody's.

use super::database::{Database, DatabaseError, Row, Value};
use super::row::Columns;
use super::timers;

/// What kind of message a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tells an executor that there is work.
    Wake,
    /// Tells the owner.
    Notice,
    /// Tells a submitter that a task ended.
    Callback,
}

/// Where a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// To be sent, or being sent.
    Due,
    /// A notice that was sent a moment ago; what follows from the same cause is collected until `next_at`.
    Told,
    /// Given up.
    Dead,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    /// Where it stands.
    pub state: State,
    /// When it may be sent (again); of others, when that ends or ended. Milliseconds.
    pub next_at: i64,
    /// Travels with it; the same at every try.
    pub id: String,
    /// Its kind.
    pub kind: Kind,
    /// The executor to wake, the cause of a notice, or where a callback goes.
    pub subject: String,
    /// The task it is about.
    pub task_id: Option<String>,
    /// The round of wakes of that task which it belongs to.
    pub wake_round: Option<u32>,
    /// How many events it tells of.
    pub count: u32,
    /// How often sending it was begun. At 0 its body may still change.
    pub attempts: u32,
    /// What became of the last try, in a few words.
    pub last_status: Option<String>,
    /// Milliseconds.
    pub created_at: i64,
    /// What is sent, byte for byte; at 0 attempts, what it will be made of.
    pub body: String,
}

impl OutboxRow {
    /// When it is to be sent (again).
    fn due_at(&self) -> Option<i64> {
        (self.state == State::Due).then_some(self.next_at)
    }
}

impl Kind {
    /// The word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wake => "wake",
            Self::Notice => "notice",
            Self::Callback => "callback",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Wake, Self::Notice, Self::Callback].into_iter().find(|kind| kind.as_str() == word)
    }
}

impl State {
    /// The word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Told => "told",
            Self::Dead => "dead",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Due, Self::Told, Self::Dead].into_iter().find(|state| state.as_str() == word)
    }
}

macro_rules! columns {
    () => {
        "state, next_at, id, kind, subject, task_id, wake_round, count, attempts, last_status, created_at, body"
    };
}

const INSERT: &str =
    concat!("INSERT INTO outbox (", columns!(), ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)");
const DUE: &str =
    concat!("SELECT ", columns!(), " FROM outbox WHERE state = 'due' AND next_at <= ?1 ORDER BY next_at LIMIT +?2");
const OF_CAUSE: &str = concat!("SELECT ", columns!(), " FROM outbox WHERE subject = ?1 AND kind = 'notice'");
const PAGE: &str = concat!("SELECT ", columns!(), " FROM outbox WHERE state = +?1 ORDER BY next_at DESC LIMIT +?2");
const MOVE: &str = "UPDATE outbox SET state = ?4, next_at = ?5, count = ?6, attempts = ?7, last_status = ?8, body = ?9
  WHERE state = ?1 AND next_at = ?2 AND id = ?3 RETURNING id";
const DELETE: &str = "DELETE FROM outbox WHERE state = ?1 AND next_at = ?2 AND id = ?3 RETURNING id";
const DELETE_OLD: &str = "DELETE FROM outbox WHERE state = ?1 AND next_at < ?2";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("outbox::insert", INSERT),
    ("outbox::due", DUE),
    ("outbox::of_cause", OF_CAUSE),
    ("outbox::page", PAGE),
    ("outbox::move_to", MOVE),
    ("outbox::delete", DELETE),
    ("outbox::delete_old", DELETE_OLD),
];

/// Writes a message.
pub fn insert(db: &dyn Database, row: &OutboxRow) -> Result<(), DatabaseError> {
    timers::set(db, row.due_at());
    let parameters = [
        row.state.as_str().into(),
        row.next_at.into(),
        (&row.id).into(),
        row.kind.as_str().into(),
        (&row.subject).into(),
        row.task_id.clone().into(),
        row.wake_round.into(),
        row.count.into(),
        row.attempts.into(),
        row.last_status.clone().into(),
        row.created_at.into(),
        (&row.body).into(),
    ];
    db.execute(INSERT, &parameters).map(drop)
}

/// Messages that nobody is sending and whose time has come, the longest overdue first.
pub fn due(db: &dyn Database, now: i64, rows_max: usize) -> Result<Vec<OutboxRow>, DatabaseError> {
    db.execute(DUE, &[now.into(), Value::Integer(rows_max as i64)])?.into_iter().map(read).collect()
}

/// The notices of a cause: told, collected, being sent, given up.
pub fn of_cause(db: &dyn Database, cause: &str) -> Result<Vec<OutboxRow>, DatabaseError> {
    db.execute(OF_CAUSE, &[cause.into()])?.into_iter().map(read).collect()
}

/// Messages in this state, the latest first.
pub fn page(db: &dyn Database, state: State, rows_max: usize) -> Result<Vec<OutboxRow>, DatabaseError> {
    db.execute(PAGE, &[state.as_str().into(), Value::Integer(rows_max as i64)])?.into_iter().map(read).collect()
}

/// Changes a message from what was read to what it shall be. `false`: somebody has changed it since.
pub fn move_to(db: &dyn Database, row: &OutboxRow, next: &OutboxRow) -> Result<bool, DatabaseError> {
    timers::set(db, next.due_at());
    let parameters = [
        row.state.as_str().into(),
        row.next_at.into(),
        (&row.id).into(),
        next.state.as_str().into(),
        next.next_at.into(),
        next.count.into(),
        next.attempts.into(),
        next.last_status.clone().into(),
        (&next.body).into(),
    ];
    Ok(!db.execute(MOVE, &parameters)?.is_empty())
}

/// Deletes a message that was read. `false`: somebody has changed it since.
pub fn delete(db: &dyn Database, row: &OutboxRow) -> Result<bool, DatabaseError> {
    let parameters = [row.state.as_str().into(), row.next_at.into(), (&row.id).into()];
    Ok(!db.execute(DELETE, &parameters)?.is_empty())
}

/// Deletes what has been in this state since before a time.
pub fn delete_old(db: &dyn Database, state: State, before: i64) -> Result<(), DatabaseError> {
    db.execute(DELETE_OLD, &[state.as_str().into(), before.into()]).map(drop)
}

fn read(row: Row) -> Result<OutboxRow, DatabaseError> {
    let mut columns = Columns::of(row);
    let maybe_count = |number: Option<i64>| match number {
        None => Ok(None),
        Some(number) => u32::try_from(number).map(Some).map_err(|_| DatabaseError::Shape("wake_round")),
    };
    Ok(OutboxRow {
        state: columns.word("state", State::parse)?,
        next_at: columns.integer("next_at")?,
        id: columns.text("id")?,
        kind: columns.word("kind", Kind::parse)?,
        subject: columns.text("subject")?,
        task_id: columns.maybe_text("task_id")?,
        wake_round: maybe_count(columns.maybe_integer("wake_round")?)?,
        count: columns.count("count")?,
        attempts: columns.count("attempts")?,
        last_status: columns.maybe_text("last_status")?,
        created_at: columns.integer("created_at")?,
        body: columns.text("body")?,
    })
}
