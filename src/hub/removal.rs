//! An executor goes, and what becomes of its tasks: it stays as long as there are any, or they are canceled, or they move.
//!
//! Those are its tasks that are addressed to it, and those in queues that nobody else serves. It is disabled first, so that
//! nothing new comes. Then each task is changed in a transaction of its own, at most `LEFT_TASKS_MAX` in one call; what is
//! left is found by the next call, so a call that failed or did not get through is repeated.

use serde_json::json;

use super::cancel::{CancelRejected, cancel};
use super::executors::{ExecutorRejected, cut_off, leave_queue};
use super::unknown::{self, Unknown};
use super::{Effects, Hub, notices, owed, wakes};
use crate::domain::ledger::Loss;
use crate::domain::lifecycle::{Event, Rules, step};
use crate::domain::limits::LEFT_TASKS_MAX;
use crate::domain::task::{Address, Lane};
use crate::store::database::DatabaseError;
use crate::store::events::Kind;
use crate::store::executors::{self, ExecutorRow};
use crate::store::tasks::{self, Cursor, TaskHead};

/// Tasks that are read at a time.
const READ_MAX: usize = 50;
/// On whose behalf its tasks are changed.
const OWNER: &str = "owner";

/// What becomes of the tasks of an executor that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TasksLeft {
    /// Where there are any, it stays.
    Keep,
    /// They are canceled.
    Cancel,
    /// They go to this address.
    Move(Address),
}

/// What a call to delete an executor did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Whether it is gone. If not, it is disabled, and the call has to be repeated for the tasks that are left.
    pub deleted: bool,
    /// Tasks canceled.
    pub canceled: u32,
    /// Tasks moved.
    pub moved: u32,
    /// Tasks that it held, and that went back to a queue that others serve.
    pub given_back: u32,
}

/// Deletes an executor, and does as is said with its tasks.
pub fn delete_executor(hub: &Hub<'_>, name: &str, left: &TasksLeft) -> Result<Removal, ExecutorRejected> {
    let mut removal = Removal::default();
    if *left != TasksLeft::Keep {
        let executor = hub.command(|effects| disable(hub, effects, name, left))?;
        clear(hub, &executor, left, &mut removal)?;
    }
    let deleted = hub.command(|effects| {
        let executor = executors::by_name(hub.db, name)?.ok_or(ExecutorRejected::NotFound)?;
        match no_tasks_left(hub, &executor) {
            Err(ExecutorRejected::HasTasks | ExecutorRejected::QueueHasTasks { .. }) if *left != TasksLeft::Keep => {
                return Ok(false);
            }
            otherwise => otherwise?,
        }
        executors::delete(hub.db, name)?;
        cut_off(effects, &executor);
        Ok::<bool, ExecutorRejected>(true)
    })?;
    if deleted {
        hub.presence.forget(name);
    }
    Ok(Removal { deleted, ..removal })
}

fn no_tasks_left(hub: &Hub<'_>, executor: &ExecutorRow) -> Result<(), ExecutorRejected> {
    let own = Address::Executor(executor.name.clone()).to_string();
    let mut has_tasks = tasks::has_open(hub.db, Lane::Held, &executor.name)?;
    has_tasks |= tasks::has_open(hub.db, Lane::Held, &tasks::asked_key(&Address::Executor(executor.name.clone())))?;
    for lane in [Lane::Ready, Lane::Waiting] {
        has_tasks |= tasks::has_open(hub.db, lane, &own)?;
    }
    if has_tasks {
        return Err(ExecutorRejected::HasTasks);
    }
    executor.queues.iter().try_for_each(|queue| leave_queue(hub, &executor.name, queue))
}

fn disable(
    hub: &Hub<'_>,
    effects: &mut Effects,
    name: &str,
    left: &TasksLeft,
) -> Result<ExecutorRow, ExecutorRejected> {
    let executor = executors::by_name(hub.db, name)?.ok_or(ExecutorRejected::NotFound)?;
    if let TasksLeft::Move(to) = left {
        check_target(hub, &executor, to)?;
    }
    if executor.disabled_at.is_some() {
        return Ok(executor);
    }
    let disabled = ExecutorRow { disabled_at: Some(hub.now), ..executor };
    executors::change(hub.db, &disabled, false)?;
    cut_off(effects, &disabled);
    Ok(disabled)
}

fn check_target(hub: &Hub<'_>, executor: &ExecutorRow, to: &Address) -> Result<(), ExecutorRejected> {
    let rows = match to {
        Address::Executor(name) => executors::by_name(hub.db, name)?.into_iter().collect(),
        Address::Queue(queue) => executors::serving(hub.db, queue)?,
    };
    if rows.iter().any(|row| row.name != executor.name && row.disabled_at.is_none()) {
        return Ok(());
    }
    let detail = match to {
        Address::Executor(name) if *name == executor.name => {
            "It names the executor that is to go; name another.".to_owned()
        }
        Address::Executor(name) if rows.is_empty() => {
            format!("There is no executor {name}; GET /api/executors lists them.")
        }
        Address::Executor(name) => format!("The executor {name} is disabled; enable it first, or name another."),
        Address::Queue(queue) => {
            format!("No other executor that is enabled serves the queue {queue}; GET /api/executors shows the queues.")
        }
    };
    Err(ExecutorRejected::Invalid { field: "to", detail })
}

/// The places where its tasks are, and the queues that nobody else serves.
struct Estate {
    own: Address,
    orphaned: Vec<String>,
    places: Vec<(Lane, String)>,
}

impl Estate {
    fn of(hub: &Hub<'_>, executor: &ExecutorRow) -> Result<Self, DatabaseError> {
        let own = Address::Executor(executor.name.clone());
        let is_other = |row: &ExecutorRow| row.name != executor.name && row.disabled_at.is_none();
        let mut orphaned = vec![];
        for queue in &executor.queues {
            if !executors::serving(hub.db, queue)?.iter().any(is_other) {
                orphaned.push(queue.clone());
            }
        }
        let mut places = vec![(Lane::Held, executor.name.clone())];
        for address in std::iter::once(own.clone()).chain(orphaned.iter().cloned().map(Address::Queue)) {
            let (key, asked) = (address.to_string(), tasks::asked_key(&address));
            places.extend([(Lane::Ready, key.clone()), (Lane::Waiting, key), (Lane::Held, asked)]);
        }
        Ok(Self { own, orphaned, places })
    }

    /// Whether a task is nobody else's. What it holds of a queue that others serve is theirs as well.
    fn has(&self, task: &TaskHead) -> bool {
        let is_orphan = |queue: &str| self.orphaned.iter().any(|orphan| orphan == queue);
        task.address == self.own || task.address.queue_name().is_some_and(is_orphan)
    }
}

fn clear(
    hub: &Hub<'_>,
    executor: &ExecutorRow,
    left: &TasksLeft,
    removal: &mut Removal,
) -> Result<(), ExecutorRejected> {
    let estate = Estate::of(hub, executor)?;
    let mut budget = LEFT_TASKS_MAX;
    for (lane, key) in &estate.places {
        while budget > 0 {
            let tasks = batch(hub, *lane, key, READ_MAX.min(budget))?;
            if tasks.is_empty() {
                break;
            }
            budget -= tasks.len();
            for task in &tasks {
                settle(hub, executor, left, (task, estate.has(task)), removal)?;
            }
        }
    }
    Ok(())
}

/// One task of an executor that goes.
fn settle(
    hub: &Hub<'_>,
    executor: &ExecutorRow,
    left: &TasksLeft,
    (task, is_its): (&TaskHead, bool),
    removal: &mut Removal,
) -> Result<(), ExecutorRejected> {
    match left {
        TasksLeft::Cancel if is_its => {
            let reason = format!("The executor {} was deleted.", executor.name);
            match cancel(hub, OWNER, &task.id, Some(&reason)) {
                Ok(_) => removal.canceled += 1,
                Err(CancelRejected::Database(error)) => return Err(error.into()),
                Err(CancelRejected::TaskNotFound | CancelRejected::AlreadyFinished { .. }) => {}
            }
        }
        TasksLeft::Move(to) if is_its => {
            hub.command(|effects| readdress(hub, effects, task, to))?;
            removal.moved += 1;
        }
        TasksLeft::Keep | TasksLeft::Cancel | TasksLeft::Move(_) => {
            hub.command(|effects| readdress(hub, effects, task, &task.address))?;
            removal.given_back += 1;
        }
    }
    Ok(())
}

fn batch(hub: &Hub<'_>, lane: Lane, key: &str, tasks_max: usize) -> Result<Vec<TaskHead>, DatabaseError> {
    let after = Cursor { lane_key: key.to_owned(), ..Cursor::default() };
    let page = tasks::page_open(hub.db, lane, &after, tasks_max)?;
    Ok(page.into_iter().take_while(|(at, _)| at.lane_key == key).map(|(_, task)| task).collect())
}

/// A task goes to an address, which may be its own; a claim of it is fenced off.
fn readdress(hub: &Hub<'_>, effects: &mut Effects, task: &TaskHead, to: &Address) -> Result<(), DatabaseError> {
    let consumers = wakes::consumers(hub, to)?;
    let refused = |_| DatabaseError::Refused("an open task refused another address".to_owned());
    let unknown = Unknown::by(hub, task, &Event::Readdressed)?;
    let rules = Rules { asks: unknown.is_any(), ..hub.rules(consumers.any_is_sent()) };
    let next = step(&task.life, &Event::Readdressed, &rules).map_err(refused)?;
    let (next, wakes_owed) = wakes::plan(hub, &task.id, next, &consumers)?;
    let is_held = task.life.state.lane() == Some(Lane::Held) && !task.life.is_asked_by_hub();
    let held_by = task.life.claim.as_ref().filter(|_| is_held);
    let data = json!({
        "from": task.address.to_string(),
        "to": to.to_string(),
        "held_by": held_by.map(|claim| &claim.executor),
        "note": task.note,
    });
    let seq = hub.record(task, Kind::Moved, next.attempt, &format!("submitter:{OWNER}"), data)?;
    let question = unknown.question(task, &next, Loss::TakenAway);
    let seq = match &question {
        Some(question) => unknown::ask_after(hub, task, seq, question, None)?,
        None => seq,
    };
    let due_at = next.due_at(hub.settings.lease_ms);
    let refused = || DatabaseError::Refused("the store refused to move a task".to_owned());
    let moved = tasks::readdress(hub.db, task, (&next, to), due_at, seq, hub.now, question.as_deref())?;
    let wishes = moved.ok_or_else(refused)?;
    wakes::post(hub, effects, wakes_owed)?;
    if question.is_some() {
        owed::owe(hub, effects, task, &next, &wishes)?;
    }
    if next.state.lane() == Some(Lane::Ready) {
        notices::expect(hub, consumers.rows())?;
    }
    effects.task_changed(&task.id, next.state, to);
    Ok(())
}
