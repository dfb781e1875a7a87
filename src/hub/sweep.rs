//! `sweep`: what the clock does by itself. `purge`: finished tasks leave after their retention.
//!
//! Each task is one transaction, so that one that cannot be stored does not hold up the others. Both work in bounded
//! batches and say whether there is more.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value as Json, json};

use super::files::TASK_ROWS_MAX;
use super::unknown::{self, Unknown};
use super::{Effects, Hub, owed, wakes};
use crate::domain::ids::TaskId;
use crate::domain::ledger::Loss;
use crate::domain::lifecycle::{Event, Rules, is_time, step};
use crate::domain::limits::{PURGE_BATCH_MAX, PURGE_FILE_BYTES_MAX, SWEEP_BATCH_MAX};
use crate::domain::task::{FailureCode, Life, State};
use crate::store::actions;
use crate::store::attachments::{self, FileRow};
use crate::store::database::DatabaseError;
use crate::store::events::{self, Kind};
use crate::store::tasks::{self, MoveWrites, OldTask, TaskHead};

/// A task that could not be handled is looked at again after this.
const TROUBLE_MS: i64 = 60_000;

/// What a batch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Tasks handled.
    pub handled: usize,
    /// Whether another batch may find more.
    pub more: bool,
    /// Tasks that could not be handled, with the reason; for the log.
    pub trouble: Vec<(String, DatabaseError)>,
}

/// Handles the timers that have run out, the most overdue first, in one bounded batch.
pub fn sweep(hub: &Hub<'_>) -> Result<Swept, DatabaseError> {
    let due = tasks::due(hub.db, hub.now, SWEEP_BATCH_MAX)?;
    let mut swept = Swept { more: due.len() == SWEEP_BATCH_MAX, ..Swept::default() };
    for task in &due {
        // Caught here, so that a task on which the hub panics does not keep the others waiting either.
        let handled = catch_unwind(AssertUnwindSafe(|| hub.command(|effects| sweep_one(hub, effects, task))));
        match handled.unwrap_or_else(|_| Err(DatabaseError::Refused("its sweep panicked".to_owned()))) {
            Ok(()) => swept.handled += 1,
            Err(error) => {
                let again_at = hub.now + TROUBLE_MS;
                swept.trouble.push((task.id.clone(), error));
                let put_off = tasks::rearm(hub.db, &task.id, (task.life.state, task.life.attempt), Some(again_at));
                swept.trouble.extend(put_off.err().map(|error| (task.id.clone(), error)));
            }
        }
    }
    Ok(swept)
}

fn sweep_one(hub: &Hub<'_>, effects: &mut Effects, task: &TaskHead) -> Result<(), DatabaseError> {
    if is_time(&task.life, &hub.rules(false)) {
        return expire(hub, effects, task);
    }
    if task.life.next_wake_at.is_some_and(|at| at <= hub.now) && wakes::send_due(hub, effects, task)? {
        return Ok(());
    }
    // The timer has moved on since `due_at` was written: a heartbeat renewed the lease.
    let due_at = task.life.due_at(hub.settings.lease_ms);
    tasks::rearm(hub.db, &task.id, (task.life.state, task.life.attempt), due_at)
}

fn expire(hub: &Hub<'_>, effects: &mut Effects, task: &TaskHead) -> Result<(), DatabaseError> {
    let consumers = wakes::consumers(hub, &task.address)?;
    let not_due = |_| DatabaseError::Refused("a due task refused the clock".to_owned());
    let unknown = Unknown::by(hub, task, &Event::Time)?;
    let rules = Rules { asks: unknown.is_any(), ..hub.rules(consumers.any_is_sent()) };
    let next = step(&task.life, &Event::Time, &rules).map_err(not_due)?;
    let (next, wakes_owed) = wakes::plan(hub, &task.id, next, &consumers)?;
    let question = unknown.question(task, &next, Loss::Silent);
    let (kind, data, error) = describe(task, &next);
    let (kind, data) = match &question {
        Some(question) => unknown::asked_instead(kind, data, question),
        None => (kind, data),
    };
    let seq = hub.record(task, kind, next.attempt, "hub", data)?;
    let due_at = next.due_at(hub.settings.lease_ms);
    let refused = || DatabaseError::Refused("the store refused the clock where the lifecycle does not".to_owned());
    let writes = MoveWrites { error, question: question.as_deref(), ..MoveWrites::default() };
    let wishes = tasks::move_on(hub.db, task, &next, due_at, seq, hub.now, writes)?.ok_or_else(refused)?;
    wakes::post(hub, effects, wakes_owed)?;
    owed::owe(hub, effects, task, &next, &wishes)?;
    effects.task_changed(&task.id, next.state, &task.address);
    Ok(())
}

fn describe(task: &TaskHead, next: &Life) -> (Kind, Json, Option<&'static str>) {
    if let Some(code) = next.failure {
        let error = match code {
            FailureCode::DeadlineExceeded => "The deadline passed before the task was done.",
            FailureCode::InputTimeout => "Nobody answered its question in time.",
            FailureCode::LeaseExpired => "The executor went silent in as many attempts as the task may fail.",
            FailureCode::DependencyFailed => "A task that it depends on failed or was canceled.",
            FailureCode::Denied => "The owner refused it.",
            FailureCode::ExecutorFailed => "The executor reported a failure.",
        };
        let data = json!({ "code": code.as_str(), "note": task.note, "question": task.question });
        return (Kind::Failed, data, Some(error));
    }
    let reason = match task.life.state {
        State::Working => "lease_expired",
        State::InputRequired => "silent",
        _ => "time",
    };
    (Kind::Requeued, json!({ "reason": reason, "note": task.note, "failures": next.failures }), None)
}

/// Deletes tasks that ended longer ago than the retention with all that they have, in one bounded batch of those older than
/// it, beginning after `after_id` (empty at first). Returns where the next batch begins, or `None` at the end.
pub fn purge(hub: &Hub<'_>, after_id: &str) -> Result<Option<String>, DatabaseError> {
    let cutoff = hub.now - hub.settings.retention_ms;
    let old = tasks::old(hub.db, after_id, &TaskId::time_prefix(cutoff), PURGE_BATCH_MAX)?;
    hub.command(|_| {
        let mut file_bytes = 0;
        for task in &old {
            if file_bytes >= PURGE_FILE_BYTES_MAX {
                return Ok(before(&old, task));
            }
            if task.completed_at.is_some_and(|at| at < cutoff) {
                file_bytes += delete(hub, task)?;
            }
        }
        Ok(if old.len() == PURGE_BATCH_MAX { old.last().map(|task| task.id.clone()) } else { None })
    })
}

/// The last task that was looked at when this one was left to the next batch.
fn before(old: &[OldTask], task: &OldTask) -> Option<String> {
    old.iter().take_while(|other| other.id != task.id).last().map(|other| other.id.clone())
}

/// Deletes a task with its events, actions and files, and says how many bytes these had.
fn delete(hub: &Hub<'_>, task: &OldTask) -> Result<i64, DatabaseError> {
    let files = attachments::of_task(hub.db, &task.id, TASK_ROWS_MAX)?;
    files.iter().try_for_each(|row| attachments::delete(hub.db, row))?;
    events::delete_chain(hub.db, task.event_seq)?;
    actions::delete(hub.db, &task.id)?;
    tasks::delete(hub.db, &task.id)?;
    Ok(files.iter().map(FileRow::size).sum())
}
