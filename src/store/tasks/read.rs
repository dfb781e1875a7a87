//! One task, by its id.

use serde_json::Value as Json;

use crate::domain::ledger::OnUnknownAction;
use crate::domain::limits::PRIORITY_MAX;
use crate::domain::task::{Address, Claim, FailureCode, Life, State, WaitingOn, WakeStatus};
use crate::store::database::{Database, DatabaseError, Row};
use crate::store::row::Columns;

/// A task without its long texts.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskHead {
    /// The id.
    pub id: String,
    /// What its life moves.
    pub life: Life,
    /// 0 (last) to 9 (first).
    pub priority: u8,
    /// When the sweep looks at it next; never later than its earliest timer.
    pub due_at: Option<i64>,
    /// Whom it is for.
    pub address: Address,
    /// Who submitted it.
    pub submitted_by: String,
    /// What was submitted, as a hash, so that a repeated key can be told from a reused one.
    pub submit_hash: String,
    /// The task that it repeats.
    pub retry_of: Option<String>,
    /// Rises with every change that somebody may wait for.
    pub revision: i64,
    /// Its newest event.
    pub event_seq: i64,
    /// Its newest message from a person.
    pub message_seq: Option<i64>,
    /// Refused calls kept as evidence.
    pub late_events: u32,
    /// Milliseconds.
    pub created_at: i64,
    /// Milliseconds.
    pub updated_at: i64,
    /// 0 to 1.
    pub progress: Option<f64>,
    /// The title.
    pub title: String,
    /// The attempt's latest note.
    pub note: Option<String>,
    /// The attempt's latest question.
    pub question: Option<String>,
}

/// A task with everything it carries.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFull {
    /// Everything but the long texts.
    pub head: TaskHead,
    /// What went wrong, in the executor's or the hub's words.
    pub error: Option<String>,
    /// Outside actions that the executor reported.
    pub external_actions: Option<Json>,
    /// What an attempt left for the next one.
    pub checkpoint: Option<Json>,
    /// What the submitter attached.
    pub context: Option<Json>,
    /// What to do.
    pub instructions: String,
    /// The result as text.
    pub result: Option<String>,
    /// The result as data.
    pub data: Option<Json>,
    /// What becomes of it when an attempt is lost with an action begun.
    pub on_unknown_action: OnUnknownAction,
}

pub(super) const HEAD: &str = concat!("SELECT ", super::head_columns!(), " FROM tasks WHERE id = ?1");
pub(super) const FULL: &str = concat!("SELECT ", super::full_columns!(), " FROM tasks WHERE id = ?1");

// Stands behind the long texts, so it is read only where it is needed.
pub(super) const NOT_BEFORE: &str = "SELECT not_before FROM tasks WHERE id = ?1";

/// When the task of this id may begin, if it waits for something else until then.
pub fn not_before(db: &dyn Database, id: &str) -> Result<Option<i64>, DatabaseError> {
    let Some(row) = db.execute(NOT_BEFORE, &[id.into()])?.pop() else { return Ok(None) };
    Columns::of(row).maybe_integer("not_before")
}

/// The task of this id without its long texts.
pub fn head(db: &dyn Database, id: &str) -> Result<Option<TaskHead>, DatabaseError> {
    db.execute(HEAD, &[id.into()])?.pop().map(head_row).transpose()
}

/// The task of this id.
pub fn full(db: &dyn Database, id: &str) -> Result<Option<TaskFull>, DatabaseError> {
    db.execute(FULL, &[id.into()])?.pop().map(full_row).transpose()
}

pub(super) fn full_row(row: Row) -> Result<TaskFull, DatabaseError> {
    let mut columns = Columns::of(row);
    let head = head_of(&mut columns)?;
    let error = columns.maybe_text("error")?;
    let external_actions = json(&mut columns, "external_actions")?;
    let checkpoint = json(&mut columns, "checkpoint")?;
    let context = json(&mut columns, "context")?;
    let instructions = columns.text("instructions")?;
    let result = columns.maybe_text("result")?;
    let data = json(&mut columns, "data")?;
    let on_unknown_action = columns.maybe_word("on_unknown_action", OnUnknownAction::parse)?.unwrap_or_default();
    Ok(TaskFull { head, error, external_actions, checkpoint, context, instructions, result, data, on_unknown_action })
}

fn json(columns: &mut Columns, column: &'static str) -> Result<Option<Json>, DatabaseError> {
    let Some(text) = columns.maybe_text(column)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|_| DatabaseError::Shape(column))
}

pub(super) fn head_row(row: Row) -> Result<TaskHead, DatabaseError> {
    head_of(&mut Columns::of(row))
}

fn head_of(columns: &mut Columns) -> Result<TaskHead, DatabaseError> {
    let id = columns.text("id")?;
    let life = life_of(columns)?;
    let rank = columns.count("rank")?;
    let priority = u8::try_from(rank).ok().and_then(|rank| PRIORITY_MAX.checked_sub(rank));
    let due_at = columns.maybe_integer("due_at")?;
    let (executor, queue) = (columns.maybe_text("executor")?, columns.maybe_text("queue")?);
    let address = match (executor, queue) {
        (Some(name), None) => Address::Executor(name),
        (None, Some(name)) => Address::Queue(name),
        _ => return Err(DatabaseError::Shape("executor")),
    };
    Ok(TaskHead {
        id,
        life,
        priority: priority.ok_or(DatabaseError::Shape("rank"))?,
        due_at,
        address,
        submitted_by: columns.text("submitted_by")?,
        submit_hash: columns.text("submit_hash")?,
        retry_of: columns.maybe_text("retry_of")?,
        revision: columns.integer("revision")?,
        event_seq: columns.integer("event_seq")?,
        message_seq: columns.maybe_integer("message_seq")?,
        late_events: columns.count("late_events")?,
        created_at: columns.integer("created_at")?,
        updated_at: columns.integer("updated_at")?,
        progress: columns.maybe_real("progress")?,
        title: columns.text("title")?,
        note: columns.maybe_text("note")?,
        question: columns.maybe_text("question")?,
    })
}

fn life_of(columns: &mut Columns) -> Result<Life, DatabaseError> {
    let state = columns.word("state", State::parse)?;
    let waiting_on = columns.maybe_word("waiting_on", WaitingOn::parse)?;
    let attempt = columns.count("attempt")?;
    let failures = columns.count("failures")?;
    let max_attempts = columns.count("max_attempts")?;
    let claimed_by = columns.maybe_text("claimed_by")?;
    let token_hash = columns.maybe_text("claim_token_hash")?;
    let heard_at = columns.maybe_integer("heard_at")?;
    let claim = match (claimed_by, token_hash, heard_at) {
        (Some(executor), Some(token_hash), Some(heard_at)) => Some(Claim { executor, token_hash, heard_at }),
        (None, None, None) => None,
        _ => return Err(DatabaseError::Shape("claimed_by")),
    };
    Ok(Life {
        state,
        waiting_on,
        attempt,
        failures,
        max_attempts,
        claim,
        lease_expires_at: columns.maybe_integer("lease_expires_at")?,
        input_expires_at: columns.maybe_integer("input_expires_at")?,
        answered_at: columns.maybe_integer("answered_at")?,
        visible_at: columns.maybe_integer("visible_at")?,
        deadline_at: columns.maybe_integer("deadline_at")?,
        next_wake_at: columns.maybe_integer("next_wake_at")?,
        wake_attempts: columns.count("wake_attempts")?,
        wake_round: columns.count("wake_round")?,
        last_wake_at: columns.maybe_integer("last_wake_at")?,
        last_wake_status: columns.maybe_word("last_wake_status", WakeStatus::parse)?,
        failure: columns.maybe_word("error_code", FailureCode::parse)?,
        completed_at: columns.maybe_integer("completed_at")?,
    })
}
