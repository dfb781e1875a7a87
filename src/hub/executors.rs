//! Executors' accounts: creating, listing and deleting them, their keys, and who a key belongs to.

use super::Hub;
use crate::domain::ids::{is_executor_name, is_queue_name};
use crate::domain::limits::{EXECUTOR_HELD_MAX, EXECUTOR_KEYS_MAX, EXECUTOR_QUEUES_MAX, EXECUTORS_MAX};
use crate::domain::secret;
use crate::domain::task::{Address, Lane};
use crate::domain::wake::Wake;
use crate::store::database::DatabaseError;
use crate::store::executors::{self, ExecutorRow};
use crate::store::tasks;

/// Tasks counted at an address before the count says "at least".
const COUNT_MAX: u32 = 1_000;

/// A new executor.
#[derive(Clone, Debug)]
pub struct CreateExecutor {
    /// Its name.
    pub name: String,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// How many tasks it may work on at a time.
    pub max_concurrent: Option<u32>,
    /// How it is woken.
    pub wake: Wake,
}

/// An executor with the key that is shown this once.
#[derive(Clone, Debug)]
pub struct CreatedExecutor {
    /// The account.
    pub executor: ExecutorRow,
    /// The key.
    pub key: String,
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
    /// When it last called, in milliseconds, as far as the hub remembers.
    pub last_seen_at: Option<i64>,
    /// Tasks that it could claim now; up to 1,000 are counted at each address.
    pub ready: u32,
    /// Tasks that it holds.
    pub held: u32,
}

/// Creates an executor with its first key.
pub fn create_executor(hub: &Hub<'_>, input: &CreateExecutor) -> Result<CreatedExecutor, ExecutorRejected> {
    let executor = checked(hub, input)?;
    let key = secret::executor_key(&hub.settings.hub_secret, &executor.name, hub.random());
    hub.command(|_| {
        if executors::by_name(hub.db, &executor.name)?.is_some() {
            return Err(ExecutorRejected::Exists);
        }
        if executors::all(hub.db, EXECUTORS_MAX)?.len() >= EXECUTORS_MAX {
            return Err(ExecutorRejected::TooMany);
        }
        executors::insert(hub.db, &executor)?;
        let hash = secret::sha256_hex(&key);
        executors::add_key(hub.db, &executor.name, &hash, hub.now, EXECUTOR_KEYS_MAX)?;
        Ok(CreatedExecutor { executor: executor.clone(), key: key.clone() })
    })
}

fn checked(hub: &Hub<'_>, input: &CreateExecutor) -> Result<ExecutorRow, ExecutorRejected> {
    let invalid = |field, detail: String| ExecutorRejected::Invalid { field, detail };
    if !is_executor_name(&input.name) {
        let detail = "It must have 1 to 40 lower-case letters, digits and hyphens, and begin with a letter or digit.";
        return Err(invalid("name", detail.to_owned()));
    }
    let mut queues = input.queues.clone();
    queues.sort();
    queues.dedup();
    if queues.len() > EXECUTOR_QUEUES_MAX {
        return Err(invalid("queues", format!("It must name at most {EXECUTOR_QUEUES_MAX} queues.")));
    }
    if let Some(queue) = queues.iter().find(|queue| !is_queue_name(queue)) {
        let queue = crate::domain::text::shorten(queue, 80);
        let rule =
            "1 to 64 lower-case letters, digits, hyphens, dots and underscores, beginning with a letter or digit";
        return Err(invalid("queues", format!("\"{queue}\" is not a queue name: {rule}.")));
    }
    let max_concurrent = input.max_concurrent.unwrap_or(EXECUTOR_HELD_MAX);
    if !(1..=EXECUTOR_HELD_MAX).contains(&max_concurrent) {
        let detail = format!("It must be a whole number from 1 to {EXECUTOR_HELD_MAX}.");
        return Err(invalid("max_concurrent", detail));
    }
    let wake = input.wake.clone().checked(hub.settings.targets).map_err(|detail| invalid("wake", detail))?;
    let wake = serde_json::to_value(&wake).map_err(|_| invalid("wake", "It cannot be stored.".to_owned()))?;
    Ok(ExecutorRow {
        name: input.name.clone(),
        queues,
        max_concurrent,
        wake,
        created_at: hub.now,
        last_claim_at: None,
        last_wake_at: None,
        last_wake_status: None,
    })
}

/// Makes a new key. The one before stays valid unless `revoke_others`; older ones end.
pub fn rotate_key(hub: &Hub<'_>, name: &str, revoke_others: bool) -> Result<String, ExecutorRejected> {
    if !is_executor_name(name) {
        return Err(ExecutorRejected::NotFound);
    }
    let key = secret::executor_key(&hub.settings.hub_secret, name, hub.random());
    hub.command(|_| {
        executors::by_name(hub.db, name)?.ok_or(ExecutorRejected::NotFound)?;
        let keys_kept = if revoke_others { 1 } else { EXECUTOR_KEYS_MAX };
        executors::add_key(hub.db, name, &secret::sha256_hex(&key), hub.now, keys_kept)?;
        Ok(key.clone())
    })
}

/// Deletes an executor, unless that would leave a task that nobody can do.
pub fn delete_executor(hub: &Hub<'_>, name: &str) -> Result<(), ExecutorRejected> {
    hub.command(|_| {
        let executor = executors::by_name(hub.db, name)?.ok_or(ExecutorRejected::NotFound)?;
        let own = Address::Executor(name.to_owned()).to_string();
        let mut has_tasks = tasks::has_open(hub.db, Lane::Held, name)?;
        for lane in [Lane::Ready, Lane::Waiting] {
            has_tasks |= tasks::has_open(hub.db, lane, &own)?;
        }
        if has_tasks {
            return Err(ExecutorRejected::HasTasks);
        }
        for queue in &executor.queues {
            let alone = executors::serving(hub.db, queue)?.len() == 1;
            let waits = tasks::has_open(hub.db, Lane::Ready, queue)? || tasks::has_open(hub.db, Lane::Waiting, queue)?;
            if alone && waits {
                return Err(ExecutorRejected::QueueHasTasks { queue: queue.clone() });
            }
        }
        executors::delete(hub.db, name)?;
        Ok(())
    })?;
    hub.presence.forget(name);
    Ok(())
}

/// All executors by name, with what goes on at their addresses.
pub fn list_executors(hub: &Hub<'_>) -> Result<Vec<ExecutorView>, DatabaseError> {
    executors::all(hub.db, EXECUTORS_MAX)?.into_iter().map(|row| view(hub, row)).collect()
}

/// The names of all executors, in order.
pub fn executor_names(hub: &Hub<'_>) -> Result<Vec<String>, DatabaseError> {
    Ok(executors::all(hub.db, EXECUTORS_MAX)?.into_iter().map(|row| row.name).collect())
}

fn view(hub: &Hub<'_>, row: ExecutorRow) -> Result<ExecutorView, DatabaseError> {
    let own = Address::Executor(row.name.clone()).to_string();
    let mut ready = 0;
    for address in std::iter::once(&own).chain(&row.queues) {
        ready += tasks::count_lane(hub.db, Lane::Ready, address, COUNT_MAX)?;
    }
    let held = tasks::count_lane(hub.db, Lane::Held, &row.name, COUNT_MAX)?;
    let last_seen_at = hub.presence.last_seen_at(&row.name).max(row.last_claim_at);
    let wake = serde_json::from_value(row.wake.clone()).unwrap_or(Wake::Poll {});
    Ok(ExecutorView { wake, last_seen_at, ready, held, row })
}

/// The executor of this name, which calls through a client of its own; it counts as seen.
pub fn executor_at_work(hub: &Hub<'_>, name: &str) -> Result<Option<ExecutorRow>, DatabaseError> {
    let executor = executors::by_name(hub.db, name)?;
    if executor.is_some() {
        hub.presence.seen(name, hub.now);
    }
    Ok(executor)
}

/// The executor that this key belongs to, if it is valid now; it counts as seen.
pub fn authenticate(hub: &Hub<'_>, key: &str) -> Result<Option<ExecutorRow>, DatabaseError> {
    if secret::executor_of_key(&hub.settings.hub_secret, key).is_none() {
        return Ok(None);
    }
    let executor = executors::by_key(hub.db, &secret::sha256_hex(key))?;
    if let Some(executor) = &executor {
        hub.presence.seen(&executor.name, hub.now);
    }
    Ok(executor)
}
