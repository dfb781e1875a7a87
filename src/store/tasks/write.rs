//! Changing tasks.

use serde_json::Value as Json;

use super::read::{TaskFull, TaskHead, full_row};
use crate::domain::ledger::OnUnknownAction;
use crate::domain::limits::PRIORITY_MAX;
use crate::domain::task::{Address, Lane, Life, State};
use crate::store::database::{Database, DatabaseError, Value};
use crate::store::row::Columns;
use crate::store::timers;

/// Whom a task's submitter wants told, which every change of its state returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// The events of which the owner is told beside those that the hub is set to, as a JSON list of their names; empty: of
    /// none at all.
    pub notify: Option<String>,
    /// Who is told of its end.
    pub callback_url: Option<String>,
}

/// A task to be written for the first time.
#[derive(Clone, Debug)]
pub struct NewTask<'t> {
    /// The id.
    pub id: &'t str,
    /// Its life at birth.
    pub life: &'t Life,
    /// 0 to 9.
    pub priority: u8,
    /// Its earliest timer.
    pub due_at: Option<i64>,
    /// Whom it is for.
    pub address: &'t Address,
    /// Who submits it.
    pub submitted_by: &'t str,
    /// Unique for its submitter, if given.
    pub idempotency_key: Option<&'t str>,
    /// Hash of what was submitted.
    pub submit_hash: &'t str,
    /// The task that it repeats.
    pub retry_of: Option<&'t str>,
    /// Its first event.
    pub event_seq: i64,
    /// Milliseconds.
    pub now: i64,
    /// The title.
    pub title: &'t str,
    /// What to do.
    pub instructions: &'t str,
    /// What the submitter attached.
    pub context: Option<&'t Json>,
    /// What an earlier task left.
    pub checkpoint: Option<&'t Json>,
    /// Whom to tell.
    pub wishes: &'t Wishes,
    /// When it may begin, if it waits for something else until then.
    pub not_before: Option<i64>,
    /// What becomes of it when an attempt is lost with an action begun.
    pub on_unknown_action: OnUnknownAction,
}

/// What is stored with a change that is not an attempt's. `None` leaves the column as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct MoveWrites<'w> {
    /// The event of a person's message.
    pub message_seq: Option<i64>,
    /// What went wrong.
    pub error: Option<&'w str>,
    /// What a person is asked.
    pub question: Option<&'w str>,
}

/// What an attempt leaves in its task beside its life. `None` leaves the column as it is.
#[derive(Clone, Debug, Default)]
pub struct AttemptWrites {
    /// Progress, 0 to 1.
    pub progress: Option<f64>,
    /// A note.
    pub note: Option<String>,
    /// A checkpoint.
    pub checkpoint: Option<Json>,
    /// A question.
    pub question: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// Outside actions.
    pub external_actions: Option<Json>,
    /// The result as text.
    pub result: Option<String>,
    /// The result as data.
    pub data: Option<Json>,
}

pub(super) const INSERT: &str = "INSERT INTO tasks (
    id, state, waiting_on, max_attempts, visible_at, deadline_at, next_wake_at, wake_attempts, wake_round, last_wake_at,
    last_wake_status, lane, lane_key, rank, due_at, executor, queue, submitted_by, idempotency_key, submit_hash,
    retry_of, event_seq, created_at, updated_at, title, instructions, context, checkpoint, notify, callback_url, not_before,
    on_unknown_action)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?23,
    ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31)";

/// The life after a step, and the row that it expects to find: parameters 1 to 27.
macro_rules! moved {
    ($more:literal, $fence:literal, $($returned:tt)+) => {
        concat!(
            "UPDATE tasks SET state = ?5, waiting_on = ?6, attempt = ?7, failures = ?8, claimed_by = ?9,
    claim_token_hash = ?10, heard_at = ?11, lease_expires_at = ?12, input_expires_at = ?13, answered_at = ?14,
    visible_at = ?15, next_wake_at = ?16, wake_attempts = ?17, last_wake_at = ?18, last_wake_status = ?19,
    error_code = ?20, completed_at = ?21, lane = ?22, lane_key = ?23, due_at = ?24, event_seq = ?25,
    updated_at = ?26, wake_round = ?27, revision = revision + 1",
            $more,
            " WHERE id = ?1 AND state = ?2 AND attempt = ?3 AND lease_expires_at IS ?4",
            $fence,
            " RETURNING ",
            $($returned)+
        )
    };
}

pub(super) const MOVE_ON: &str = moved!(
    ", message_seq = coalesce(?28, message_seq), error = coalesce(?29, error), question = coalesce(?30, question)",
    "",
    "notify, callback_url"
);
pub(super) const READDRESS: &str =
    moved!(", executor = ?28, queue = ?29, question = coalesce(?30, question)", "", "notify, callback_url");
pub(super) const CLAIM: &str = moved!(
    ", note = NULL, progress = NULL, question = NULL, error = NULL, result = NULL, data = NULL",
    " AND lane = 'ready' AND (deadline_at IS NULL OR deadline_at > ?26)",
    super::full_columns!()
);
pub(super) const FINISH: &str = moved!(
    ", progress = coalesce(?28, progress), note = coalesce(?29, note), checkpoint = coalesce(?30, checkpoint),
    question = CASE WHEN ?2 = 'working' AND ?5 = 'input-required' THEN ?31 ELSE coalesce(?31, question) END,
    error = coalesce(?32, error),
    external_actions = coalesce(?33, external_actions), result = coalesce(?34, result), data = coalesce(?35, data)",
    " AND lane = 'held' AND claim_token_hash = ?36 AND (lease_expires_at > ?26 OR input_expires_at > ?26)",
    "notify, callback_url"
);

// A heartbeat that finds the attempt working. It writes one row: no column of an index changes, and `due_at`, which is
// now too early, is put right when the sweep meets it.
pub(super) const RENEW: &str = "UPDATE tasks SET lease_expires_at = ?4, heard_at = ?5,
    progress = coalesce(?6, progress), note = coalesce(?7, note), checkpoint = coalesce(?8, checkpoint),
    revision = revision + ?9, updated_at = CASE WHEN ?9 > 0 THEN ?5 ELSE updated_at END
  WHERE id = ?1 AND state = 'working' AND attempt = ?2 AND claim_token_hash = ?3 AND lease_expires_at > ?5";

// What an attempt writes beside its task. No column of an index changes.
pub(super) const BESIDE: &str = "UPDATE tasks SET event_seq = ?5, revision = revision + 1, updated_at = ?4
  WHERE id = ?1 AND state = 'working' AND attempt = ?2 AND claim_token_hash = ?3 AND lease_expires_at > ?4";

/// Both states of a wake lie in the lane `ready`, so the index of open tasks need not be touched.
macro_rules! woken {
    ($more:literal) => {
        concat!(
            "UPDATE tasks SET state = ?4, next_wake_at = ?5, wake_attempts = ?6, last_wake_at = ?7,
    last_wake_status = ?8, event_seq = ?9, revision = revision + 1, updated_at = ?10, wake_round = ?11",
            $more,
            "
  WHERE id = ?1 AND state = ?2 AND attempt = ?3 AND lane = 'ready' RETURNING notify, callback_url"
        )
    };
}

pub(super) const WAKE: &str = woken!(", due_at = ?12");
pub(super) const WAKE_LATER: &str = woken!("");
pub(super) const WISHES: &str = "SELECT notify, callback_url FROM tasks WHERE id = ?1";
pub(super) const LATE: &str = "UPDATE tasks SET event_seq = ?2, late_events = late_events + 1 WHERE id = ?1";
pub(super) const REARM: &str = "UPDATE tasks SET due_at = ?4 WHERE id = ?1 AND state = ?2 AND attempt = ?3";
pub(super) const DELETE: &str = "DELETE FROM tasks WHERE id = ?1 AND lane IS NULL";

/// Writes a new task.
pub fn insert(db: &dyn Database, task: &NewTask<'_>) -> Result<(), DatabaseError> {
    let life = task.life;
    timers::set(db, task.due_at);
    let parameters = [
        task.id.into(),
        life.state.as_str().into(),
        life.waiting_on.map(|on| on.as_str()).into(),
        life.max_attempts.into(),
        life.visible_at.into(),
        life.deadline_at.into(),
        life.next_wake_at.into(),
        life.wake_attempts.into(),
        life.wake_round.into(),
        life.last_wake_at.into(),
        life.last_wake_status.map(|status| status.as_str()).into(),
        life.state.lane().map(Lane::as_str).into(),
        lane_key(life, task.address).into(),
        Value::Integer(i64::from(PRIORITY_MAX.saturating_sub(task.priority))),
        task.due_at.into(),
        task.address.executor_name().into(),
        task.address.queue_name().into(),
        task.submitted_by.into(),
        task.idempotency_key.into(),
        task.submit_hash.into(),
        task.retry_of.into(),
        task.event_seq.into(),
        task.now.into(),
        task.title.into(),
        task.instructions.into(),
        task.context.map(Json::to_string).into(),
        task.checkpoint.map(Json::to_string).into(),
        task.wishes.notify.as_deref().into(),
        task.wishes.callback_url.as_deref().into(),
        task.not_before.into(),
        Some(task.on_unknown_action).filter(|wish| *wish == OnUnknownAction::Ask).map(OnUnknownAction::as_str).into(),
    ];
    db.execute(INSERT, &parameters).map(drop)
}

fn lane_key(life: &Life, address: &Address) -> Option<String> {
    match life.state.lane()? {
        Lane::Held if life.is_asked_by_hub() => Some(asked_key(address)),
        Lane::Held => life.claim.as_ref().map(|claim| claim.executor.clone()),
        Lane::Ready | Lane::Waiting => Some(address.to_string()),
    }
}

/// The key, in the lane of what is held, of the tasks of this address that nobody has and that wait for a person's word on an
/// action. No executor has such a name.
pub fn asked_key(address: &Address) -> String {
    format!("?{address}")
}

fn moved_parameters(task: &TaskHead, next: &Life, due_at: Option<i64>, event_seq: i64, now: i64) -> Vec<Value> {
    vec![
        (&task.id).into(),
        task.life.state.as_str().into(),
        task.life.attempt.into(),
        task.life.lease_expires_at.into(),
        next.state.as_str().into(),
        next.waiting_on.map(|on| on.as_str()).into(),
        next.attempt.into(),
        next.failures.into(),
        next.claim.as_ref().map(|claim| claim.executor.as_str()).into(),
        next.claim.as_ref().map(|claim| claim.token_hash.as_str()).into(),
        next.claim.as_ref().map(|claim| claim.heard_at).into(),
        next.lease_expires_at.into(),
        next.input_expires_at.into(),
        next.answered_at.into(),
        next.visible_at.into(),
        next.next_wake_at.into(),
        next.wake_attempts.into(),
        next.last_wake_at.into(),
        next.last_wake_status.map(|status| status.as_str()).into(),
        next.failure.map(|code| code.as_str()).into(),
        next.completed_at.into(),
        next.state.lane().map(Lane::as_str).into(),
        lane_key(next, &task.address).into(),
        due_at.into(),
        event_seq.into(),
        now.into(),
        next.wake_round.into(),
    ]
}

/// `None`: nothing happened, because the row was no longer as read.
fn wishes(db: &dyn Database, sql: &'static str, parameters: &[Value]) -> Result<Option<Wishes>, DatabaseError> {
    let Some(row) = db.execute(sql, parameters)?.pop() else { return Ok(None) };
    let mut columns = Columns::of(row);
    let notify = columns.maybe_text("notify")?;
    Ok(Some(Wishes { notify, callback_url: columns.maybe_text("callback_url")? }))
}

/// Moves a task from the life that was read to the next one, for reasons that are not an attempt's: the clock, a person.
/// `None`: it was no longer as read, and nothing changed.
pub fn move_on(
    db: &dyn Database,
    task: &TaskHead,
    next: &Life,
    due_at: Option<i64>,
    event_seq: i64,
    now: i64,
    writes: MoveWrites<'_>,
) -> Result<Option<Wishes>, DatabaseError> {
    timers::set(db, due_at);
    let mut parameters = moved_parameters(task, next, due_at, event_seq, now);
    parameters.extend([writes.message_seq.into(), writes.error.into(), writes.question.into()]);
    wishes(db, MOVE_ON, &parameters)
}

/// Moves a task to another address; a question goes with it where a person has to be asked first. `None`: it was no longer as
/// read, and nothing changed.
pub fn readdress(
    db: &dyn Database,
    task: &TaskHead,
    (next, to): (&Life, &Address),
    due_at: Option<i64>,
    event_seq: i64,
    now: i64,
    question: Option<&str>,
) -> Result<Option<Wishes>, DatabaseError> {
    timers::set(db, due_at);
    let task = TaskHead { address: to.clone(), ..task.clone() };
    let mut parameters = moved_parameters(&task, next, due_at, event_seq, now);
    parameters.extend([to.executor_name().into(), to.queue_name().into(), question.into()]);
    wishes(db, READDRESS, &parameters)
}

/// Moves a ready task into an executor's hands and returns it as it is then. `None`: it was no longer as read.
pub fn claim(
    db: &dyn Database,
    task: &TaskHead,
    next: &Life,
    due_at: Option<i64>,
    event_seq: i64,
    now: i64,
) -> Result<Option<TaskFull>, DatabaseError> {
    timers::set(db, due_at);
    db.execute(CLAIM, &moved_parameters(task, next, due_at, event_seq, now))?.pop().map(full_row).transpose()
}

/// Ends, blocks, defers or resumes an attempt, and stores what it brings. `None`: the claim no longer holds.
pub fn finish(
    db: &dyn Database,
    task: &TaskHead,
    next: &Life,
    due_at: Option<i64>,
    event_seq: i64,
    now: i64,
    (token_hash, writes): (&str, &AttemptWrites),
) -> Result<Option<Wishes>, DatabaseError> {
    timers::set(db, due_at);
    let mut parameters = moved_parameters(task, next, due_at, event_seq, now);
    parameters.extend([
        writes.progress.into(),
        writes.note.as_deref().into(),
        writes.checkpoint.as_ref().map(Json::to_string).into(),
        writes.question.as_deref().into(),
        writes.error.as_deref().into(),
        writes.external_actions.as_ref().map(Json::to_string).into(),
        writes.result.as_deref().into(),
        writes.data.as_ref().map(Json::to_string).into(),
        token_hash.into(),
    ]);
    wishes(db, FINISH, &parameters)
}

/// Renews the lease of a working attempt, and stores what the heartbeat brings. `false`: the claim no longer holds.
pub fn renew(
    db: &dyn Database,
    id: &str,
    next: &Life,
    now: i64,
    (token_hash, writes): (&str, &AttemptWrites),
) -> Result<bool, DatabaseError> {
    let is_news = writes.progress.is_some() || writes.note.is_some();
    let parameters = [
        id.into(),
        next.attempt.into(),
        token_hash.into(),
        next.lease_expires_at.into(),
        now.into(),
        writes.progress.into(),
        writes.note.as_deref().into(),
        writes.checkpoint.as_ref().map(Json::to_string).into(),
        Value::Integer(i64::from(is_news)),
    ];
    db.change(RENEW, &parameters)
}

/// Notes an event of a working attempt that leaves its task where it stands. `false`: the claim no longer holds.
pub fn beside(
    db: &dyn Database,
    task: &TaskHead,
    token_hash: &str,
    event_seq: i64,
    now: i64,
) -> Result<bool, DatabaseError> {
    let parameters = [(&task.id).into(), task.life.attempt.into(), token_hash.into(), now.into(), event_seq.into()];
    db.change(BESIDE, &parameters)
}

/// What a step of a wake does to `due_at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeDue {
    /// It may stay: it is early enough.
    Stays,
    /// It is set.
    At(Option<i64>),
}

/// Records a step of a ready task's wake. `None`: it is no longer as read.
pub fn wake(
    db: &dyn Database,
    task: &TaskHead,
    next: &Life,
    due: WakeDue,
    event_seq: i64,
    now: i64,
) -> Result<Option<Wishes>, DatabaseError> {
    let mut parameters = vec![
        (&task.id).into(),
        task.life.state.as_str().into(),
        task.life.attempt.into(),
        next.state.as_str().into(),
        next.next_wake_at.into(),
        next.wake_attempts.into(),
        next.last_wake_at.into(),
        next.last_wake_status.map(|status| status.as_str()).into(),
        event_seq.into(),
        now.into(),
        next.wake_round.into(),
    ];
    match due {
        WakeDue::Stays => wishes(db, WAKE_LATER, &parameters),
        WakeDue::At(due_at) => {
            timers::set(db, due_at);
            parameters.push(due_at.into());
            wishes(db, WAKE, &parameters)
        }
    }
}

/// Whom the submitter of this task wants told.
pub fn wishes_of(db: &dyn Database, id: &str) -> Result<Wishes, DatabaseError> {
    Ok(wishes(db, WISHES, &[id.into()])?.unwrap_or_default())
}

/// Notes that a refused call left this event.
pub fn late(db: &dyn Database, id: &str, event_seq: i64) -> Result<(), DatabaseError> {
    db.execute(LATE, &[id.into(), event_seq.into()]).map(drop)
}

/// Puts `due_at` right for a task whose timers have moved on since it was written.
pub fn rearm(
    db: &dyn Database,
    id: &str,
    (state, attempt): (State, u32),
    due_at: Option<i64>,
) -> Result<(), DatabaseError> {
    timers::set(db, due_at);
    db.execute(REARM, &[id.into(), state.as_str().into(), attempt.into(), due_at.into()]).map(drop)
}

/// Deletes a task that is over. An open one stays.
pub fn delete(db: &dyn Database, id: &str) -> Result<(), DatabaseError> {
    db.execute(DELETE, &[id.into()]).map(drop)
}
