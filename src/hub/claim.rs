//! `claim`: the next task for an executor, exactly once.

use serde_json::json;

use super::attendance::{claims_again_at, note_claim, note_idle};
use super::files::{LinkedFile, attachments, linked};
use super::query::{TaskDetail, detail, with_events, without_events};
use super::{Effects, Hub};
use crate::domain::lifecycle::{Event, step};
use crate::domain::limits::{EXECUTOR_HELD_MAX, EXECUTOR_QUEUES_MAX, REQUEST_ID_BYTES_MAX};
use crate::domain::secret;
use crate::domain::task::{Address, State};
use crate::store::database::DatabaseError;
use crate::store::events::{self, EventRow, Kind, NewEvent};
use crate::store::executors::ExecutorRow;
use crate::store::tasks::{self, TaskHead};

/// What an executor asks for.
#[derive(Clone, Debug, Default)]
pub struct Claim {
    /// Names this claim, so that it can be asked for again when the answer was lost.
    pub request_id: Option<String>,
    /// Only these of its queues; all of them, and what is addressed to itself, if it names none.
    pub queues: Option<Vec<String>>,
}

/// A claimed task.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The task with its messages and notes; its events may be left out.
    pub task: TaskDetail,
    /// The number of this attempt.
    pub attempt: u32,
    /// What it must present with everything it does.
    pub claim_token: String,
    /// When the lease ends unless it is renewed, in milliseconds.
    pub lease_expires_at: Option<i64>,
    /// What the submitter gave to it, and what earlier attempts left.
    pub files: Vec<LinkedFile>,
}

/// Why nothing was claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimRejected {
    /// A claim was made under this request id, and it is over.
    Ended {
        /// The task that it claimed.
        task_id: String,
        /// Where that stands now, if it is still there.
        state: Option<State>,
    },
    /// The executor does not serve this queue.
    QueueNotServed {
        /// What it asked for.
        queue: String,
        /// What it serves.
        served: Vec<String>,
    },
    /// A field is wrong: its name, and what is right.
    Invalid {
        /// The field.
        field: &'static str,
        /// What is right, as a sentence.
        detail: String,
    },
    /// The database failed.
    Database(DatabaseError),
}

impl From<DatabaseError> for ClaimRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Claims the most urgent task at any of the executor's addresses; `None` if there is none, if it holds as many as it may or
/// claimed as many today as it may, or if it is paused. A claim that finds nothing writes nothing as a rule.
pub fn claim(hub: &Hub<'_>, executor: &ExecutorRow, input: &Claim) -> Result<Option<Claimed>, ClaimRejected> {
    let addresses = addresses(executor, input)?;
    let request_key = request_key(executor, input)?;
    hub.command(|effects| {
        if let Some(key) = &request_key
            && let Some(event) = events::by_request(hub.db, key)?
        {
            return again(hub, executor, &event).map(Some);
        }
        let Some(task) = free_next(hub, executor, &addresses)? else {
            note_idle(hub, executor)?;
            return Ok(None);
        };
        take(hub, effects, executor, &task, request_key.as_deref()).map(Some)
    })
}

/// The addresses at which an executor finds work, as text.
pub fn addresses(executor: &ExecutorRow, input: &Claim) -> Result<Vec<String>, ClaimRejected> {
    let queues = input.queues.as_ref().unwrap_or(&executor.queues);
    if queues.len() > EXECUTOR_QUEUES_MAX {
        let detail = format!("It must name at most {EXECUTOR_QUEUES_MAX} queues.");
        return Err(ClaimRejected::Invalid { field: "queues", detail });
    }
    if let Some(queue) = queues.iter().find(|queue| !executor.queues.contains(queue)) {
        let served = executor.queues.clone();
        return Err(ClaimRejected::QueueNotServed { queue: queue.clone(), served });
    }
    let own = Address::Executor(executor.name.clone()).to_string();
    Ok(std::iter::once(own).chain(queues.iter().cloned()).collect())
}

fn request_key(executor: &ExecutorRow, input: &Claim) -> Result<Option<String>, ClaimRejected> {
    let Some(id) = &input.request_id else { return Ok(None) };
    if id.is_empty() || id.len() > REQUEST_ID_BYTES_MAX {
        let detail = format!("It must have 1 to {REQUEST_ID_BYTES_MAX} bytes; a UUID will do.");
        return Err(ClaimRejected::Invalid { field: "request_id", detail });
    }
    Ok(Some(secret::sha256_hex(&json!(["claim", executor.name, id]).to_string())))
}

/// The next task, if the executor may claim any.
fn free_next(hub: &Hub<'_>, executor: &ExecutorRow, addresses: &[String]) -> Result<Option<TaskHead>, DatabaseError> {
    if !executor.is_at_work() || claims_again_at(executor, hub.now).is_some() {
        return Ok(None);
    }
    let Some(task) = next(hub, addresses)? else { return Ok(None) };
    let is_full = held(hub, executor)? >= executor.max_concurrent.min(EXECUTOR_HELD_MAX);
    Ok((!is_full).then_some(task))
}

/// The most urgent ready task: by priority, then by age, whatever its address.
fn next(hub: &Hub<'_>, addresses: &[String]) -> Result<Option<TaskHead>, DatabaseError> {
    let mut ready = Vec::new();
    for address in addresses {
        ready.extend(tasks::next_ready(hub.db, address, hub.now)?);
    }
    Ok(ready.into_iter().min_by_key(|task| (std::cmp::Reverse(task.priority), task.id.clone())))
}

fn held(hub: &Hub<'_>, executor: &ExecutorRow) -> Result<u32, DatabaseError> {
    tasks::count_working(hub.db, &executor.name, executor.max_concurrent)
}

fn take(
    hub: &Hub<'_>,
    effects: &mut Effects,
    executor: &ExecutorRow,
    task: &TaskHead,
    request_key: Option<&str>,
) -> Result<Claimed, ClaimRejected> {
    let attempt = task.life.attempt + 1;
    let claim_token = secret::claim_token(&hub.settings.hub_secret, &task.id, attempt, &executor.name);
    let event = Event::Claim { executor: executor.name.clone(), token_hash: secret::sha256_hex(&claim_token) };
    let refused = |_| DatabaseError::Refused("a ready task refused a claim".to_owned());
    let next = step(&task.life, &event, &hub.rules(false)).map_err(refused)?;
    let actor = format!("executor:{}", executor.name);
    let event = NewEvent {
        task_id: &task.id,
        previous_seq: Some(task.event_seq),
        at: hub.now,
        kind: Kind::Claimed,
        attempt,
        actor: &actor,
        request_key,
        data: json!(null),
    };
    let seq = events::insert(hub.db, &event)?;
    let due_at = next.due_at(hub.settings.lease_ms);
    let refused = || DatabaseError::Refused("the store refused a claim that the lifecycle allows".to_owned());
    let full = tasks::claim(hub.db, task, &next, due_at, seq, hub.now)?.ok_or_else(refused)?;
    note_claim(hub, executor)?;
    effects.task_changed(&task.id, next.state, &task.address);
    let detail = if attempt == 1 { without_events(full) } else { with_events(hub, full)? };
    claimed(hub, detail, claim_token)
}

/// The claim that was made under this request id before, as long as it lives.
fn again(hub: &Hub<'_>, executor: &ExecutorRow, event: &EventRow) -> Result<Claimed, ClaimRejected> {
    let task = tasks::head(hub.db, &event.task_id)?;
    let alive = task.as_ref().is_some_and(|task| task.life.attempt == event.attempt && task.life.is_held(hub.now));
    let token = secret::claim_token(&hub.settings.hub_secret, &event.task_id, event.attempt, &executor.name);
    let same_token = task
        .as_ref()
        .and_then(|task| task.life.claim.as_ref())
        .is_some_and(|claim| claim.token_hash == secret::sha256_hex(&token));
    if alive && same_token {
        let gone = || DatabaseError::Refused("a claimed task is gone".to_owned());
        return claimed(hub, detail(hub, &event.task_id)?.ok_or_else(gone)?, token);
    }
    let state = task.map(|task| task.life.state);
    Err(ClaimRejected::Ended { task_id: event.task_id.clone(), state })
}

fn claimed(hub: &Hub<'_>, task: TaskDetail, claim_token: String) -> Result<Claimed, ClaimRejected> {
    let life = &task.full.head.life;
    let (attempt, lease_expires_at) = (life.attempt, life.lease_expires_at);
    let files = attachments(hub, &task.full.head.id)?.into_iter().map(|file| linked(hub, file)).collect();
    Ok(Claimed { attempt, claim_token, lease_expires_at, files, task })
}
