//! Tasks in bulk, for the measurements: finished ones, because nothing may depend on how much history there is; open ones;
//! and ones whose leases have run out. Only in a build with `test-hooks`.

use super::database::{Database, DatabaseError, Value};
use super::row::Columns;
use super::timers;
use crate::domain::ids::TaskId;

/// The executor to which they are addressed.
pub const EXECUTOR: &str = "history";

/// Tasks of one statement. Their ids begin with the same moment and end with their number.
const BATCH: u64 = 1_000;
/// How far in the past the first of them were submitted, and how much later each batch was.
const BEGAN_MS: i64 = 20 * 86_400_000;
const BATCH_MS: i64 = 100_000;
/// The lease of a claimed one ended so long ago.
const EXPIRED_MS: i64 = 1_000;
/// What each finished task has gone through.
const STEPS: u64 = 3;

/// What the tasks are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Over; one in twenty failed.
    Finished,
    /// Ready to be claimed.
    Ready,
    /// Claimed, with a lease that has run out.
    Expired,
}

impl Fill {
    /// By its name.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "finished" => Some(Self::Finished),
            "ready" => Some(Self::Ready),
            "expired" => Some(Self::Expired),
            _ => None,
        }
    }

    fn statements(self) -> (&'static str, &'static str) {
        match self {
            Self::Finished => (FINISHED, FINISHED_EVENTS),
            Self::Ready => (READY, READY_EVENTS),
            Self::Expired => (EXPIRED, EXPIRED_EVENTS),
        }
    }
}

const LAST: &str = "SELECT coalesce(max(seq), 0) AS seq FROM task_events";

// Parameters: ?1 what the ids begin with, ?2 when they were submitted, ?3 the number of the first event, ?4 how many.
macro_rules! tasks {
    ($columns:literal, $values:literal) => {
        concat!(
            "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?4)
  INSERT INTO tasks (id, rank, executor, submitted_by, submit_hash, max_attempts, created_at, title, instructions, ",
            $columns,
            ") SELECT ?1 || '_' || printf('%016d', ?3 + i * 3), 4, 'history', 'history', '', 3, ?2, 'A task of the measurement',
    'Read the three newest reports, compare their figures, and say in five sentences what changed.', ",
            $values,
            " FROM n"
        )
    };
}
macro_rules! events {
    ($steps:literal) => {
        concat!(
            "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?4)
  INSERT INTO task_events (seq, task_id, previous_seq, at, kind, attempt, actor, data)
  SELECT ?3 + i * 3 + step.key, ?1 || '_' || printf('%016d', ?3 + i * 3),
    CASE step.key WHEN 0 THEN NULL ELSE ?3 + i * 3 + step.key - 1 END,
    ?2 + step.key * 450, step.value, min(step.key, 1), 'hub', '{}' FROM n CROSS JOIN json_each('",
            $steps,
            "') step"
        )
    };
}

const FINISHED: &str = tasks!(
    "state, error_code, attempt, event_seq, updated_at, completed_at, result",
    "iif(i % 20 = 0, 'failed', 'completed'), iif(i % 20 = 0, 'executor_failed', NULL), 1, ?3 + i * 3 + 2, ?2 + 900, ?2 + 900,
    'It is done.'"
);
const FINISHED_EVENTS: &str = events!("[\"submitted\", \"claimed\", \"completed\"]");
const READY: &str =
    tasks!("state, lane, lane_key, event_seq, updated_at", "'submitted', 'ready', '@history', ?3 + i * 3, ?2");
const READY_EVENTS: &str = events!("[\"submitted\"]");
const EXPIRED: &str = tasks!(
    "state, lane, lane_key, attempt, claimed_by, claim_token_hash, heard_at, lease_expires_at, due_at, event_seq, updated_at",
    "'working', 'held', 'history', 1, 'history', 'of no token', ?2, ?2, ?2, ?3 + i * 3 + 1, ?2"
);
const EXPIRED_EVENTS: &str = events!("[\"submitted\", \"claimed\"]");

/// Adds this many tasks with their events. They were submitted in the past, the first of them first.
pub fn add(db: &dyn Database, now: i64, fill: Fill, tasks: u64) -> Result<(), DatabaseError> {
    let (task_sql, event_sql) = fill.statements();
    let mut added = 0;
    while added < tasks {
        let count = BATCH.min(tasks - added);
        db.atomically(&mut || {
            let row = db.execute(LAST, &[])?.pop().ok_or(DatabaseError::Shape("seq"))?;
            let first = Columns::of(row).integer("seq")? + 1;
            let batch = first / i64::try_from(BATCH * STEPS).unwrap_or(i64::MAX);
            let at = match fill {
                Fill::Expired => now - EXPIRED_MS,
                Fill::Finished | Fill::Ready => (now - BEGAN_MS + batch * BATCH_MS).min(now),
            };
            let prefix = TaskId::time_prefix(at).into();
            let parameters =
                [prefix, at.into(), first.into(), Value::Integer(i64::try_from(count).unwrap_or_default())];
            timers::set(db, (fill == Fill::Expired).then_some(at));
            db.execute(task_sql, &parameters)?;
            db.execute(event_sql, &parameters).map(drop)
        })?;
        added += count;
    }
    Ok(())
}
