//! Executors' accounts: creating, listing and changing them. `keys` has their keys, `removal` how they go.
//!
//! A paused executor claims nothing new and is not woken; what it has it may finish. A disabled one is refused whatever it
//! calls: its leases run out, and its tasks go back.

use super::attendance::{claims_again_at, is_online, last_seen_at};
use super::keys::NewKey;
use super::{Effects, Hub, wakes};
use crate::domain::executor::Approval;
use crate::domain::ids::{is_executor_name, is_queue_name};
use crate::domain::limits::{
    EXECUTOR_DAY_TASKS_MAX, EXECUTOR_HELD_MAX, EXECUTOR_KEYS_MAX, EXECUTOR_QUEUES_MAX, EXECUTORS_MAX, RESUMED_TASKS_MAX,
};
use crate::domain::task::{Address, Lane, Life};
use crate::domain::wake::Wake;
use crate::store::database::DatabaseError;
use crate::store::executors::{self, ExecutorRow};
use crate::store::tasks::{self, Cursor, WakeDue};

/// Tasks counted at an address before the count says "at least".
const COUNT_MAX: u32 = 1_000;

/// What the owner says about an executor. What is left out stays as it is, or at its default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecutorChange {
    /// The queues it serves.
    pub queues: Option<Vec<String>>,
    /// How many tasks it may work on at a time.
    pub max_concurrent: Option<u32>,
    /// How many tasks it may claim a day, in UTC; `Some(None)` lifts the limit.
    pub max_tasks_per_day: Option<Option<u32>>,
    /// Which of its tasks wait for the owner's word. It counts for tasks that are submitted from then on.
    pub approval: Option<Approval>,
    /// How it is woken.
    pub wake: Option<Wake>,
    /// Whether it rests.
    pub paused: Option<bool>,
    /// Whether it is shut out.
    pub disabled: Option<bool>,
}

/// A new executor.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateExecutor {
    /// Its name.
    pub name: String,
    /// Everything else.
    pub account: ExecutorChange,
}

/// An executor with the key that is shown this once.
#[derive(Clone, Debug)]
pub struct CreatedExecutor {
    /// The account.
    pub executor: ExecutorView,
    /// The key.
    pub key: NewKey,
}

/// Why an executor was not created, changed or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecutorRejected {
    /// A field is wrong: its name, and what is right.
    Invalid {
        /// The field.
        field: &'static str,
        /// What is right, as a sentence.
        detail: String,
    },
    /// The name is taken.
    Exists,
    /// There are as many as there may be.
    TooMany,
    /// There is none of this name.
    NotFound,
    /// The owner has disabled it.
    Disabled,
    /// It has no such key.
    KeyNotFound,
    /// Open tasks are addressed to it, or held by it.
    HasTasks,
    /// Tasks wait in a queue that nobody else serves.
    QueueHasTasks {
        /// The queue.
        queue: String,
    },
    /// The database failed.
    Database(DatabaseError),
}

impl From<DatabaseError> for ExecutorRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// An executor with what goes on at its addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutorView {
    /// The account.
    pub row: ExecutorRow,
    /// How it is woken.
    pub wake: Wake,
    /// Whether it called within the last minute, or listens.
    pub online: bool,
    /// When it was last heard from, in milliseconds.
    pub last_seen_at: Option<i64>,
    /// Tasks that it could claim now; up to 1,000 are counted at each address.
    pub ready: u32,
    /// Tasks that it holds.
    pub held: u32,
}

/// Creates an executor with its first key.
pub fn create_executor(hub: &Hub<'_>, input: &CreateExecutor) -> Result<CreatedExecutor, ExecutorRejected> {
    let executor = account(hub, &input.name, &input.account)?;
    let key = NewKey::of(hub, &executor.name);
    hub.command(|_| {
        add(hub, &executor)?;
        key.keep(hub, &executor.name, EXECUTOR_KEYS_MAX)?;
        Ok(CreatedExecutor { executor: view(hub, executor.clone())?, key: key.clone() })
    })
}

/// A new account, every field checked.
pub(super) fn account(hub: &Hub<'_>, name: &str, given: &ExecutorChange) -> Result<ExecutorRow, ExecutorRejected> {
    if !is_executor_name(name) {
        let detail = "It must have 1 to 40 lower-case letters, digits and hyphens, and begin with a letter or digit.";
        return Err(invalid("name", detail));
    }
    changed(hub, blank(hub, name), given)
}

/// Writes a new account, in the transaction of a command.
pub(super) fn add(hub: &Hub<'_>, executor: &ExecutorRow) -> Result<(), ExecutorRejected> {
    if executors::by_name(hub.db, &executor.name)?.is_some() {
        return Err(ExecutorRejected::Exists);
    }
    if executors::all(hub.db, EXECUTORS_MAX)?.len() >= EXECUTORS_MAX {
        return Err(ExecutorRejected::TooMany);
    }
    Ok(executors::insert(hub.db, executor)?)
}

/// Changes an executor and returns it as the list shows it. One that may work again, or do more, is called if tasks wait for
/// it.
pub fn change_executor(hub: &Hub<'_>, name: &str, change: &ExecutorChange) -> Result<ExecutorView, ExecutorRejected> {
    let (view, goes_to_work) = hub.command(|effects| {
        let before = executors::by_name(hub.db, name)?.ok_or(ExecutorRejected::NotFound)?;
        let after = changed(hub, before.clone(), change)?;
        let queues_changed = after.queues != before.queues;
        for queue in before.queues.iter().filter(|queue| !after.queues.contains(queue)) {
            leave_queue(hub, name, queue)?;
        }
        if after != before {
            executors::change(hub.db, &after, queues_changed)?;
        }
        if queues_changed || (after.disabled_at.is_some() && before.disabled_at.is_none()) {
            cut_off(effects, &before);
        }
        let may_more = after.max_concurrent > before.max_concurrent
            || (claims_again_at(&before, hub.now).is_some() && claims_again_at(&after, hub.now).is_none());
        let is_called = !before.is_at_work() || queues_changed || after.wake != before.wake || may_more;
        let goes_to_work = after.is_at_work() && is_called;
        if goes_to_work {
            call_for(hub, effects, &after)?;
        }
        Ok::<_, ExecutorRejected>((view(hub, after)?, goes_to_work))
    })?;
    // A hint only: should it fail, the tasks call for it by themselves.
    if goes_to_work && view.ready > 0 && wakes::wake_executor(hub, name, None).is_ok_and(|woken| woken.sent) {
        return Ok(find_executor(hub, name).ok().flatten().unwrap_or(view));
    }
    Ok(view)
}

/// All executors by name, with what goes on at their addresses.
pub fn list_executors(hub: &Hub<'_>) -> Result<Vec<ExecutorView>, DatabaseError> {
    executors::all(hub.db, EXECUTORS_MAX)?.into_iter().map(|row| view(hub, row)).collect()
}

/// The executor of this name with what goes on at its addresses.
pub fn find_executor(hub: &Hub<'_>, name: &str) -> Result<Option<ExecutorView>, DatabaseError> {
    executors::by_name(hub.db, name)?.map(|row| view(hub, row)).transpose()
}

/// The names of all executors, in order.
pub fn executor_names(hub: &Hub<'_>) -> Result<Vec<String>, DatabaseError> {
    Ok(executors::all(hub.db, EXECUTORS_MAX)?.into_iter().map(|row| row.name).collect())
}

/// Its own address and those of its queues, as text.
pub(super) fn places(executor: &ExecutorRow) -> Vec<String> {
    let own = Address::Executor(executor.name.clone()).to_string();
    std::iter::once(own).chain(executor.queues.iter().cloned()).collect()
}

/// Its sockets close, and its calls that wait look again at once.
pub(super) fn cut_off(effects: &mut Effects, executor: &ExecutorRow) {
    effects.cut_off.push(executor.name.clone());
    effects.ready.extend(places(executor));
}

/// Refuses to leave tasks in a queue that nobody else serves.
pub(super) fn leave_queue(hub: &Hub<'_>, name: &str, queue: &str) -> Result<(), ExecutorRejected> {
    let is_other = |row: &ExecutorRow| row.name != name && row.disabled_at.is_none();
    let alone = !executors::serving(hub.db, queue)?.iter().any(is_other);
    let asked = Address::queue(queue).map(|address| tasks::asked_key(&address)).unwrap_or_default();
    let waits = tasks::has_open(hub.db, Lane::Ready, queue)?
        || tasks::has_open(hub.db, Lane::Waiting, queue)?
        || tasks::has_open(hub.db, Lane::Held, &asked)?;
    if alone && waits { Err(ExecutorRejected::QueueHasTasks { queue: queue.to_owned() }) } else { Ok(()) }
}

fn invalid(field: &'static str, detail: &str) -> ExecutorRejected {
    ExecutorRejected::Invalid { field, detail: detail.to_owned() }
}

fn blank(hub: &Hub<'_>, name: &str) -> ExecutorRow {
    ExecutorRow {
        name: name.to_owned(),
        queues: vec![],
        max_concurrent: EXECUTOR_HELD_MAX,
        wake: serde_json::json!(Wake::Poll {}),
        created_at: hub.now,
        last_claim_at: None,
        last_wake_at: None,
        last_wake_status: None,
        last_seen_at: None,
        version: None,
        capabilities: vec![],
        paused_at: None,
        disabled_at: None,
        approval: Approval::Never,
        max_tasks_per_day: None,
        day: None,
        day_claims: 0,
        silence_told_at: None,
    }
}

/// The account after a change, every field checked.
fn changed(hub: &Hub<'_>, mut row: ExecutorRow, change: &ExecutorChange) -> Result<ExecutorRow, ExecutorRejected> {
    if let Some(queues) = &change.queues {
        row.queues = checked_queues(queues)?;
    }
    if let Some(max) = change.max_concurrent {
        if !(1..=EXECUTOR_HELD_MAX).contains(&max) {
            let detail = format!("It must be a whole number from 1 to {EXECUTOR_HELD_MAX}.");
            return Err(invalid("max_concurrent", &detail));
        }
        row.max_concurrent = max;
    }
    if let Some(max) = change.max_tasks_per_day {
        if max.is_some_and(|max| !(1..=EXECUTOR_DAY_TASKS_MAX).contains(&max)) {
            let detail = format!(
                "It must be a whole number from 1 to {EXECUTOR_DAY_TASKS_MAX}, or null for no limit; to have it claim nothing, \
                 pause it."
            );
            return Err(invalid("max_tasks_per_day", &detail));
        }
        row.max_tasks_per_day = max;
    }
    if let Some(wake) = &change.wake {
        let wake = wake.clone().checked(hub.settings.targets).map_err(|detail| invalid("wake", &detail))?;
        row.wake = serde_json::to_value(&wake).map_err(|_| invalid("wake", "It cannot be stored."))?;
    }
    let since = |on: Option<bool>, before: Option<i64>| match on {
        Some(true) => before.or(Some(hub.now)),
        Some(false) => None,
        None => before,
    };
    row.approval = change.approval.unwrap_or(row.approval);
    row.paused_at = since(change.paused, row.paused_at);
    row.disabled_at = since(change.disabled, row.disabled_at);
    Ok(row)
}

fn checked_queues(given: &[String]) -> Result<Vec<String>, ExecutorRejected> {
    let mut queues = given.to_vec();
    queues.sort();
    queues.dedup();
    if queues.len() > EXECUTOR_QUEUES_MAX {
        return Err(invalid("queues", &format!("It must name at most {EXECUTOR_QUEUES_MAX} queues.")));
    }
    if let Some(queue) = queues.iter().find(|queue| !is_queue_name(queue)) {
        let queue = crate::domain::text::shorten(queue, 80);
        let rule =
            "1 to 64 lower-case letters, digits, hyphens, dots and underscores, beginning with a letter or digit";
        return Err(invalid("queues", &format!("\"{queue}\" is not a queue name: {rule}.")));
    }
    Ok(queues)
}

/// Tasks that became claimable while nobody could be called wait for a wake again; and whoever waits for work looks now.
fn call_for(hub: &Hub<'_>, effects: &mut Effects, executor: &ExecutorRow) -> Result<(), DatabaseError> {
    effects.ready.extend(places(executor));
    if !serde_json::from_value(executor.wake.clone()).is_ok_and(|wake: Wake| wake.is_sent()) {
        return Ok(());
    }
    let mut left = RESUMED_TASKS_MAX;
    for place in places(executor) {
        let after = Cursor { lane_key: place.clone(), ..Cursor::default() };
        let ready = tasks::page_open(hub.db, Lane::Ready, &after, left)?;
        for (_, task) in ready.into_iter().filter(|(at, _)| at.lane_key == place) {
            left -= 1;
            if task.life.next_wake_at.is_some() {
                continue;
            }
            let wake_round = task.life.wake_round + 1;
            let life = Life { next_wake_at: Some(hub.now), wake_attempts: 0, wake_round, ..task.life.clone() };
            let due_at = life.due_at(hub.settings.lease_ms);
            let due_at = WakeDue::At(due_at);
            if tasks::wake(hub.db, &task, &life, due_at, task.event_seq, hub.now)?.is_none() {
                return Err(DatabaseError::Refused("a ready task refused to be woken for".to_owned()));
            }
        }
    }
    Ok(())
}

pub(super) fn view(hub: &Hub<'_>, row: ExecutorRow) -> Result<ExecutorView, DatabaseError> {
    let mut ready = 0;
    for address in places(&row) {
        ready += tasks::count_lane(hub.db, Lane::Ready, &address, COUNT_MAX)?;
    }
    let held = tasks::count_lane(hub.db, Lane::Held, &row.name, COUNT_MAX)?;
    let wake = serde_json::from_value(row.wake.clone()).unwrap_or(Wake::Poll {});
    let (online, last_seen_at) = (is_online(hub, &row), last_seen_at(hub, &row));
    Ok(ExecutorView { wake, online, last_seen_at, ready, held, row })
}
