//! Finished tasks in bulk, for the measurements that must not depend on how much history there is. Only in a build with
//! `test-hooks`.

use serde_json::{Value as Json, json};

use super::database::{Database, DatabaseError, Value};
use super::row::Columns;
use crate::domain::ids::TaskId;

/// Tasks that were made in the same second.
const TASKS_A_SECOND: u64 = 10;

const LAST: &str = "SELECT coalesce(max(seq), 0) AS seq FROM task_events";
const TASKS: &str = "INSERT INTO tasks (id, state, attempt, max_attempts, error_code, rank, executor, submitted_by, submit_hash,
    event_seq, created_at, updated_at, completed_at, title, instructions, result)
  SELECT value ->> 'id', value ->> 'state', 1, 3, value ->> 'error_code', 4, 'history', 'history', '', value ->> 'seq' + 2,
    value ->> 'at', value ->> 'at' + 900, value ->> 'at' + 900, 'A finished task', 'Something to do.', 'Done.'
  FROM json_each(?1)";
const EVENTS: &str = "INSERT INTO task_events (seq, task_id, previous_seq, at, kind, attempt, actor, data)
  SELECT task.value ->> 'seq' + step.key, task.value ->> 'id',
    CASE step.key WHEN 0 THEN NULL ELSE task.value ->> 'seq' + step.key - 1 END,
    task.value ->> 'at' + step.key * 450, step.value, min(step.key, 1), 'hub', '{}'
  FROM json_each(?1) task, json_each('[\"submitted\", \"claimed\", \"completed\"]') step";

/// Adds this many finished tasks with three events each, in the past; one in twenty failed.
pub fn add_finished(db: &dyn Database, now: i64, tasks: u64) -> Result<(), DatabaseError> {
    db.atomically(&mut || {
        let row = db.execute(LAST, &[])?.pop().ok_or(DatabaseError::Shape("seq"))?;
        let last = Columns::of(row).integer("seq")?.unsigned_abs();
        let list: Vec<Json> = (0..tasks).map(|index| finished(now, last + 1 + index * 3)).collect();
        let list = Value::Text(Json::Array(list).to_string());
        db.execute(TASKS, std::slice::from_ref(&list))?;
        db.execute(EVENTS, &[list]).map(drop)
    })
}

fn finished(now: i64, seq: u64) -> Json {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&seq.to_be_bytes());
    let at = now - 60_000 - i64::try_from(seq / TASKS_A_SECOND).unwrap_or_default() * 1000;
    let failed = (seq / 3).is_multiple_of(20);
    json!({
        "id": TaskId::new(at, random).as_str(), "seq": seq, "at": at,
        "state": if failed { "failed" } else { "completed" },
        "error_code": failed.then_some("executor_failed"),
    })
}
