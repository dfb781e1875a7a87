//! Wakes (design §7): which are due, which are covered by another, and what became of them.
//!
//! A wake is a hint. It is written with the change that calls for it, sent after that has committed, and recorded when
//! its outcome is known. One that nobody records (the object died on the way) is due again after its time-out and goes
//! out a second time with the same id.

use serde_json::json;

use super::executors::executor_names;
use super::{Effects, Hub};
use crate::domain::lifecycle::{Event, step};
use crate::domain::limits::WAKES_PER_ROUND_MAX;
use crate::domain::task::{Address, Lane, Life, State, WaitingOn, WakeStatus};
use crate::domain::wake::Wake;
use crate::faults::{self, Fault};
use crate::outbound::OutboundRequest;
use crate::outbound::webhook::{self, WakeMessage};
use crate::store::database::DatabaseError;
use crate::store::events::Kind;
use crate::store::executors::{self, ExecutorRow};
use crate::store::tasks::{self, TaskHead};

/// The executors that a task at some address may go to.
#[derive(Clone, Debug, Default)]
pub(super) struct Consumers(Vec<ExecutorRow>);

impl Consumers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn any_is_sent(&self) -> bool {
        self.0.iter().any(|executor| wake_of(executor).is_sent())
    }
}

/// A wake to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakeOrder {
    /// The task it is for; none if the owner just wants the executor awake.
    pub task_id: Option<String>,
    /// The executor.
    pub executor: String,
    /// When it was ordered, in milliseconds.
    pub ordered_at: i64,
    /// The request to send.
    pub request: OutboundRequest,
}

/// What became of a wake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WakeOutcome {
    /// 2xx.
    Accepted,
    /// No answer in time.
    Unknown,
    /// Anything else, in a few words.
    Rejected(String),
}

impl WakeOutcome {
    fn status(&self) -> WakeStatus {
        match self {
            Self::Accepted => WakeStatus::Accepted,
            Self::Unknown => WakeStatus::Unknown,
            Self::Rejected(_) => WakeStatus::Rejected,
        }
    }
}

fn wake_of(executor: &ExecutorRow) -> Wake {
    serde_json::from_value(executor.wake.clone()).unwrap_or(Wake::Poll {})
}

/// Who may claim a task at this address.
pub(super) fn consumers(hub: &Hub<'_>, address: &Address) -> Result<Consumers, DatabaseError> {
    Ok(Consumers(match address {
        Address::Executor(name) => executors::by_name(hub.db, name)?.into_iter().collect(),
        Address::Queue(queue) => executors::serving(hub.db, queue)?,
    }))
}

/// Whether a task at this address calls for wakes.
pub(super) fn is_woken(hub: &Hub<'_>, address: &Address) -> Result<bool, DatabaseError> {
    Ok(consumers(hub, address)?.any_is_sent())
}

/// If a wake of this ready task is due, the life after it and the orders to send; otherwise the life as it is.
pub(super) fn plan(
    hub: &Hub<'_>,
    task_id: &str,
    life: Life,
    consumers: &Consumers,
) -> Result<(Life, Vec<WakeOrder>), DatabaseError> {
    if life.next_wake_at.is_none_or(|at| at > hub.now) {
        return Ok((life, vec![]));
    }
    let woken: Vec<&ExecutorRow> = consumers.0.iter().filter(|executor| wake_of(executor).is_sent()).collect();
    let is_resend = life.last_wake_status == Some(WakeStatus::Sent);
    // What the task was woken with before does not cover it again.
    let is_later = |sent_at: &i64| life.last_wake_at.is_none_or(|own| *sent_at > own);
    let covered_at = |executor: &ExecutorRow| covered_at(hub, executor).filter(|at| !is_resend && is_later(at));
    let mut uncovered: Vec<&ExecutorRow> = woken.iter().copied().filter(|e| covered_at(e).is_none()).collect();
    // Where there are more than one round may wake, those come first whose last wake is longest ago.
    uncovered.sort_by_key(|executor| executor.last_wake_at);
    let event = match (uncovered.is_empty(), woken.iter().filter_map(|e| covered_at(e)).max()) {
        (true, None) => return Ok((Life { next_wake_at: None, ..life }, vec![])),
        (true, Some(sent_at)) => Event::WakeCoalesced { sent_at },
        // Sent as often as permitted, and never recorded: the hub dies on every try. Give up rather than go on for ever.
        (false, _) if life.wake_attempts >= hub.settings.wake_attempts_max => Event::WakeEnded(WakeStatus::GivenUp),
        (false, _) => Event::WakeSent,
    };
    let refused = |_| DatabaseError::Refused("a ready task refused a wake".to_owned());
    let next = step(&life, &event, &hub.rules(true)).map_err(refused)?;
    let mut orders = Vec::new();
    if event == Event::WakeSent {
        for executor in uncovered.into_iter().take(WAKES_PER_ROUND_MAX) {
            orders.extend(order(hub, executor, Some((task_id, &next)))?);
        }
    }
    Ok((next, orders))
}

/// When the wake was sent that covers this executor: recent, not refused, and no claim since.
fn covered_at(hub: &Hub<'_>, executor: &ExecutorRow) -> Option<i64> {
    let sent_at = executor.last_wake_at?;
    let covers_ms = hub.settings.wake_coalesce_ms + i64::from(faults::is_on(Fault::CoalesceOneMore));
    let recent = hub.now - sent_at < covers_ms;
    let refused = executor.last_wake_status.as_deref() == Some(WakeStatus::Rejected.as_str());
    let claimed_since = executor.last_claim_at.is_some_and(|at| at >= sent_at);
    let refused = refused && !faults::is_on(Fault::RefusedWakeCovers);
    (recent && !refused && !claimed_since).then_some(sent_at)
}

fn order(
    hub: &Hub<'_>,
    executor: &ExecutorRow,
    task: Option<(&str, &Life)>,
) -> Result<Option<WakeOrder>, DatabaseError> {
    let id = match task {
        Some((id, life)) => format!("wake_{id}_{}_{}", life.wake_round, executor.name),
        None => format!("wake_{}_{}", hub.now, executor.name),
    };
    let message = WakeMessage {
        id: &id,
        executor: &executor.name,
        hub: hub.origin(),
        now: hub.now,
        timeout_ms: hub.settings.wake_timeout_ms,
    };
    let Some(request) = webhook::build(&wake_of(executor), &message) else { return Ok(None) };
    executors::woken(hub.db, &executor.name, hub.now)?;
    let task_id = task.map(|(id, _)| id.to_owned());
    Ok(Some(WakeOrder { task_id, executor: executor.name.clone(), ordered_at: hub.now, request }))
}

/// Sends the wake of a ready task if one is due, outside any other change of it.
pub(super) fn send_due(hub: &Hub<'_>, effects: &mut Effects, task: &TaskHead) -> Result<bool, DatabaseError> {
    let (life, orders) = plan(hub, &task.id, task.life.clone(), &consumers(hub, &task.address)?)?;
    if life == task.life {
        return Ok(false);
    }
    store(hub, task, &life, task.event_seq)?;
    effects.wakes.extend(orders);
    Ok(true)
}

fn store(hub: &Hub<'_>, task: &TaskHead, life: &Life, event_seq: i64) -> Result<(), DatabaseError> {
    let due_at = life.due_at(hub.settings.lease_ms);
    if tasks::wake(hub.db, task, life, due_at, event_seq, hub.now)? {
        Ok(())
    } else {
        Err(DatabaseError::Refused("the store refused a wake that the lifecycle allows".to_owned()))
    }
}

/// Records what became of a wake. One that comes too late to matter changes nothing: the task was claimed meanwhile, or
/// a later wake is on its way, or another receiver of the same round has already accepted.
pub fn record_wake(hub: &Hub<'_>, order: &WakeOrder, outcome: &WakeOutcome) -> Result<(), DatabaseError> {
    hub.command(|effects| {
        executors::wake_ended(hub.db, &order.executor, order.ordered_at, outcome.status().as_str())?;
        let Some(id) = &order.task_id else { return Ok(()) };
        let Some(task) = tasks::head(hub.db, id)? else { return Ok(()) };
        let is_this = task.life.last_wake_at == Some(order.ordered_at);
        let settled = matches!(task.life.last_wake_status, Some(WakeStatus::Accepted | WakeStatus::Unknown));
        if task.life.state.lane() != Some(Lane::Ready) || !is_this || settled {
            return Ok(());
        }
        let ended = Event::WakeEnded(outcome.status());
        let refused = |_| DatabaseError::Refused("a ready task refused the end of its wake".to_owned());
        let next = step(&task.life, &ended, &hub.rules(true)).map_err(refused)?;
        let detail = match outcome {
            WakeOutcome::Rejected(why) => Some(why.as_str()),
            WakeOutcome::Accepted | WakeOutcome::Unknown => None,
        };
        let status = next.last_wake_status.map(|status| status.as_str());
        let seq = hub.record(
            &task,
            Kind::Wake,
            next.attempt,
            "hub",
            json!({ "executor": order.executor, "status": status, "detail": detail,
                "next_wake_at": next.next_wake_at }),
        )?;
        store(hub, &task, &next, seq)?;
        effects.changed.push(id.clone());
        Ok(())
    })
}

/// What the owner's call did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Woken {
    /// Whether a wake is on its way; an executor that only polls gets none.
    pub sent: bool,
    /// The waiting task that was made claimable, if one was named.
    pub task_id: Option<String>,
}

/// Why nobody was woken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WakeRejected {
    /// There is no such executor.
    ExecutorNotFound {
        /// The executors there are.
        executors: Vec<String>,
    },
    /// There is no such task.
    TaskNotFound,
    /// The task does not wait for time or the outside.
    TaskNotWaiting {
        /// Where it stands.
        state: State,
    },
    /// The task is not for this executor.
    TaskElsewhere,
    /// The database failed.
    Database(DatabaseError),
}

impl From<DatabaseError> for WakeRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Wakes an executor now, whatever was sent before; and makes a task of its claimable that waits for time or the outside.
pub fn wake_executor(hub: &Hub<'_>, name: &str, task_id: Option<&str>) -> Result<Woken, WakeRejected> {
    hub.command(|effects| {
        let Some(executor) = executors::by_name(hub.db, name)? else {
            return Err(WakeRejected::ExecutorNotFound { executors: executor_names(hub)? });
        };
        if let Some(id) = task_id {
            make_ready(hub, effects, &executor, id)?;
        }
        let first = first_ready(hub, &executor)?;
        let order = match &first {
            Some(task) => {
                let fresh = Life { wake_round: task.life.wake_round + 1, wake_attempts: 0, ..task.life.clone() };
                let refused = |_| DatabaseError::Refused("a ready task refused a wake".to_owned());
                let next = step(&fresh, &Event::WakeSent, &hub.rules(true)).map_err(refused)?;
                let order = order(hub, &executor, Some((&task.id, &next)))?;
                if order.is_some() {
                    store(hub, task, &next, task.event_seq)?;
                }
                order
            }
            None => order(hub, &executor, None)?,
        };
        let sent = order.is_some();
        effects.wakes.extend(order);
        Ok(Woken { sent, task_id: task_id.map(str::to_owned) })
    })
}

fn first_ready(hub: &Hub<'_>, executor: &ExecutorRow) -> Result<Option<TaskHead>, DatabaseError> {
    let own = Address::Executor(executor.name.clone()).to_string();
    for address in std::iter::once(&own).chain(&executor.queues) {
        if let Some(task) = tasks::next_ready(hub.db, address, hub.now)? {
            return Ok(Some(task));
        }
    }
    Ok(None)
}

fn make_ready(hub: &Hub<'_>, effects: &mut Effects, executor: &ExecutorRow, id: &str) -> Result<(), WakeRejected> {
    let task = tasks::head(hub.db, id)?.ok_or(WakeRejected::TaskNotFound)?;
    let is_for = match &task.address {
        Address::Executor(name) => *name == executor.name,
        Address::Queue(queue) => executor.queues.contains(queue),
    };
    if !is_for {
        return Err(WakeRejected::TaskElsewhere);
    }
    if task.life.state.lane() == Some(Lane::Ready) {
        return Ok(());
    }
    if !matches!(task.life.waiting_on, Some(WaitingOn::Time | WaitingOn::External)) {
        return Err(WakeRejected::TaskNotWaiting { state: task.life.state });
    }
    let not_waiting = |_| WakeRejected::TaskNotWaiting { state: task.life.state };
    let rules = hub.rules(is_woken(hub, &task.address)?);
    let next = step(&task.life, &Event::Ready, &rules).map_err(not_waiting)?;
    let seq = hub.record(&task, Kind::Requeued, next.attempt, "submitter:owner", json!({ "reason": "woken" }))?;
    let due_at = next.due_at(hub.settings.lease_ms);
    if !tasks::move_on(hub.db, &task, &next, due_at, seq, hub.now, (None, None))? {
        return Err(DatabaseError::Refused("the store refused to make a waiting task ready".to_owned()).into());
    }
    effects.task_changed(id, next.state, &task.address);
    Ok(())
}
