//! Finding tasks: the next to claim, the next that is due, and pages of lists.

use super::read::{TaskHead, head_row};
use crate::domain::task::{Lane, State};
use crate::store::database::{Database, DatabaseError, Value};
use crate::store::row::Columns;

/// Where a page of a list begins: after this row, in the list's own order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The lane's key; empty outside lists of open tasks.
    pub lane_key: String,
    /// The rank; 0 outside lists of open tasks.
    pub rank: u32,
    /// The id; empty at the beginning.
    pub id: String,
}

/// Rows of a list, with the cursor of each.
pub type Page = Vec<(Cursor, TaskHead)>;

/// A task that is old enough for the purge to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldTask {
    /// The id.
    pub id: String,
    /// When it ended, in milliseconds; `None` while it is open.
    pub completed_at: Option<i64>,
    /// Its newest event.
    pub event_seq: i64,
}

pub(super) const BY_IDEMPOTENCY_KEY: &str =
    concat!("SELECT ", super::head_columns!(), " FROM tasks WHERE submitted_by = ?1 AND idempotency_key = ?2");
pub(super) const NEXT_READY: &str = concat!(
    "SELECT ",
    super::head_columns!(),
    " FROM tasks WHERE lane = 'ready' AND lane_key = +?1 AND (deadline_at IS NULL OR deadline_at > ?2)
  ORDER BY rank, id LIMIT 1"
);
pub(super) const DUE: &str = concat!(
    "SELECT ",
    super::head_columns!(),
    " FROM tasks WHERE due_at IS NOT NULL AND due_at <= ?1 ORDER BY due_at LIMIT +?2"
);
pub(super) const COUNT_LANE: &str =
    "SELECT count(*) FROM (SELECT 1 FROM tasks WHERE lane = ?1 AND lane_key = ?2 LIMIT +?3)";
pub(super) const COUNT_WORKING: &str = "SELECT count(*) FROM (SELECT 1 FROM tasks
  WHERE lane = 'held' AND lane_key = ?1 AND state = 'working' LIMIT +?2)";
pub(super) const HAS_OPEN: &str = "SELECT 1 FROM tasks WHERE lane = ?1 AND lane_key = ?2 LIMIT 1";
pub(super) const OLD: &str =
    "SELECT id, completed_at, event_seq FROM tasks WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT +?3";
pub(super) const PAGE_WHOLE: &str =
    concat!("SELECT ", super::head_columns!(), " FROM tasks WHERE id < ?1 ORDER BY id DESC LIMIT +?2");
pub(super) const PAGE_OPEN: &str = concat!(
    "SELECT ",
    super::head_columns!(),
    ", lane_key FROM tasks WHERE lane = +?1 AND (lane_key, rank, id) > (?2, ?3, ?4) ORDER BY lane_key, rank, id LIMIT +?5"
);
pub(super) const PAGE_UNHAPPY: &str = concat!(
    "SELECT ",
    super::head_columns!(),
    " FROM tasks WHERE state = +?1 AND state IN ('failed', 'canceled') AND id < ?2 ORDER BY id DESC LIMIT +?3"
);

/// Sorts after every task id.
const AFTER_EVERY_ID: &str = "u";

fn limit(rows_max: usize) -> Value {
    Value::Integer(rows_max as i64)
}

/// The task that this submitter submitted under this key.
pub fn by_idempotency_key(db: &dyn Database, submitted_by: &str, key: &str) -> Result<Option<TaskHead>, DatabaseError> {
    db.execute(BY_IDEMPOTENCY_KEY, &[submitted_by.into(), key.into()])?.pop().map(head_row).transpose()
}

/// The task at this address that is to be claimed first: by priority, then by age.
pub fn next_ready(db: &dyn Database, address: &str, now: i64) -> Result<Option<TaskHead>, DatabaseError> {
    db.execute(NEXT_READY, &[address.into(), now.into()])?.pop().map(head_row).transpose()
}

/// How many tasks this lane holds under this key, counted up to `count_max`.
pub fn count_lane(db: &dyn Database, lane: Lane, key: &str, count_max: u32) -> Result<u32, DatabaseError> {
    let parameters = [lane.as_str().into(), key.into(), count_max.into()];
    let row = db.execute(COUNT_LANE, &parameters)?.pop().ok_or(DatabaseError::Shape("count"))?;
    Columns::of(row).count("count")
}

/// How many tasks this executor works on, counted up to `count_max`. One that waits for input does not count.
pub fn count_working(db: &dyn Database, executor: &str, count_max: u32) -> Result<u32, DatabaseError> {
    let row = db.execute(COUNT_WORKING, &[executor.into(), count_max.into()])?.pop();
    Columns::of(row.ok_or(DatabaseError::Shape("count"))?).count("count")
}

/// Whether this lane holds any task under this key.
pub fn has_open(db: &dyn Database, lane: Lane, key: &str) -> Result<bool, DatabaseError> {
    Ok(!db.execute(HAS_OPEN, &[lane.as_str().into(), key.into()])?.is_empty())
}

/// Tasks whose timers may have run out, the most overdue first.
pub fn due(db: &dyn Database, now: i64, rows_max: usize) -> Result<Vec<TaskHead>, DatabaseError> {
    db.execute(DUE, &[now.into(), limit(rows_max)])?.into_iter().map(head_row).collect()
}

/// Tasks with ids between the two, oldest first.
pub fn old(db: &dyn Database, after: &str, before: &str, rows_max: usize) -> Result<Vec<OldTask>, DatabaseError> {
    let rows = db.execute(OLD, &[after.into(), before.into(), limit(rows_max)])?;
    rows.into_iter()
        .map(|row| {
            let mut columns = Columns::of(row);
            let id = columns.text("id")?;
            let completed_at = columns.maybe_integer("completed_at")?;
            Ok(OldTask { id, completed_at, event_seq: columns.integer("event_seq")? })
        })
        .collect()
}

fn by_id(rows: Vec<Vec<Value>>) -> Result<Page, DatabaseError> {
    let with_cursor = |task: TaskHead| (Cursor { id: task.id.clone(), ..Cursor::default() }, task);
    rows.into_iter().map(|row| head_row(row).map(with_cursor)).collect()
}

/// All tasks, newest first.
pub fn page_whole(db: &dyn Database, after: &Cursor, rows_max: usize) -> Result<Page, DatabaseError> {
    by_id(db.execute(PAGE_WHOLE, &[before_id(after), limit(rows_max)])?)
}

/// Failed or canceled tasks, newest first.
pub fn page_unhappy(db: &dyn Database, state: State, after: &Cursor, rows_max: usize) -> Result<Page, DatabaseError> {
    by_id(db.execute(PAGE_UNHAPPY, &[state.as_str().into(), before_id(after), limit(rows_max)])?)
}

fn before_id(after: &Cursor) -> Value {
    if after.id.is_empty() { AFTER_EVERY_ID.into() } else { (&after.id).into() }
}

/// The open tasks of a lane, by its key, then in the order in which they would be claimed.
pub fn page_open(db: &dyn Database, lane: Lane, after: &Cursor, rows_max: usize) -> Result<Page, DatabaseError> {
    let parameters =
        [lane.as_str().into(), (&after.lane_key).into(), after.rank.into(), (&after.id).into(), limit(rows_max)];
    let rows = db.execute(PAGE_OPEN, &parameters)?;
    rows.into_iter()
        .map(|mut row| {
            let lane_key = row.pop().ok_or(DatabaseError::Shape("lane_key"))?;
            let Value::Text(lane_key) = lane_key else { return Err(DatabaseError::Shape("lane_key")) };
            let task = head_row(row)?;
            let rank = u32::from(crate::domain::limits::PRIORITY_MAX.saturating_sub(task.priority));
            Ok((Cursor { lane_key, rank, id: task.id.clone() }, task))
        })
        .collect()
}
