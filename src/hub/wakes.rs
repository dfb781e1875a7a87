//! Wakes (design §7): which are due, which are covered by another, and what became of them.
//!
//! A wake is a hint. It goes through the outbox as every message does, but its waits and its bound are its task's: a wake
//! that was refused leaves the outbox, and the task calls for the next one. What was overtaken (the task was claimed, or
//! is in another round of wakes) is not sent again.

use serde_json::json;

use super::attendance::claims_again_at;
use super::executors::executor_names;
use super::outbox::{self, Delivery, Order};
use super::{Effects, Hub, owed};
use crate::domain::lifecycle::{Event, step};
use crate::domain::limits::WAKES_PER_ROUND_MAX;
use crate::domain::secret;
use crate::domain::task::{Address, Lane, Life, State, WaitingOn, WakeStatus};
use crate::domain::wake::Wake;
use crate::faults::{self, Fault};
use crate::outbound::OutboundRequest;
use crate::outbound::webhook::{self, Message};
use crate::store::database::DatabaseError;
use crate::store::events;
use crate::store::executors::{self, ExecutorRow};
use crate::store::outbox::{self as rows, Kind, OutboxRow};
use crate::store::tasks::{self, MoveWrites, TaskHead, Wishes};

/// The executors that a task at some address may go to.
#[derive(Clone, Debug, Default)]
pub(super) struct Consumers {
    executors: Vec<ExecutorRow>,
    /// Whether the address is a queue, at which several may be woken for one task.
    is_queue: bool,
}

impl Consumers {
    /// Whether nobody would ever take a task: a disabled executor does not count, a paused one does.
    pub(super) fn is_empty(&self) -> bool {
        self.executors.iter().all(|executor| executor.disabled_at.is_some())
    }

    pub(super) fn rows(&self) -> &[ExecutorRow] {
        &self.executors
    }

    pub(super) fn any_is_sent(&self) -> bool {
        self.executors.iter().any(|executor| wake_of(executor).is_sent())
    }
}

/// A wake that has yet to be written.
pub(super) type Wakes = Vec<(OutboxRow, OutboundRequest)>;

fn wake_of(executor: &ExecutorRow) -> Wake {
    // One that is paused or disabled is left in peace.
    let wake = executor.is_at_work().then(|| serde_json::from_value(executor.wake.clone()).ok()).flatten();
    wake.unwrap_or(Wake::Poll {})
}

/// Who may claim a task at this address.
pub(super) fn consumers(hub: &Hub<'_>, address: &Address) -> Result<Consumers, DatabaseError> {
    Ok(match address {
        Address::Executor(name) => {
            Consumers { executors: executors::by_name(hub.db, name)?.into_iter().collect(), is_queue: false }
        }
        Address::Queue(queue) => Consumers { executors: executors::serving(hub.db, queue)?, is_queue: true },
    })
}

/// Whether a task at this address calls for wakes.
pub(super) fn is_woken(hub: &Hub<'_>, address: &Address) -> Result<bool, DatabaseError> {
    Ok(consumers(hub, address)?.any_is_sent())
}

/// If a wake of this ready task is due, the life after it and the wakes to post; otherwise the life as it is.
pub(super) fn plan(
    hub: &Hub<'_>,
    task_id: &str,
    life: Life,
    consumers: &Consumers,
) -> Result<(Life, Wakes), DatabaseError> {
    if life.next_wake_at.is_none_or(|at| at > hub.now) {
        return Ok((life, vec![]));
    }
    // What may still be under way is overtaken by a new round: a wake of which nobody knows although it has had its time, and
    // those to others at a queue when one was refused.
    let is_overtaken = match life.last_wake_status {
        Some(WakeStatus::Sent) => true,
        Some(WakeStatus::Rejected) => consumers.is_queue,
        _ => false,
    };
    let life = Life { wake_round: life.wake_round + u32::from(is_overtaken), ..life };
    // Whoever has claimed as many tasks today as it may could claim none if it were woken.
    let sent_to = consumers.executors.iter().filter(|executor| wake_of(executor).is_sent());
    let (woken, done): (Vec<_>, Vec<_>) = sent_to.partition(|executor| claims_again_at(executor, hub.now).is_none());
    // What the task was woken with before does not cover it again.
    let is_later = |sent_at: &i64| life.last_wake_at.is_none_or(|own| *sent_at > own);
    let covered_at = |executor: &ExecutorRow| covered_at(hub, executor).filter(is_later);
    let mut uncovered: Vec<&ExecutorRow> = woken.iter().copied().filter(|e| covered_at(e).is_none()).collect();
    // Where there are more than one round may wake, those come first whose last wake is longest ago.
    uncovered.sort_by_key(|executor| executor.last_wake_at);
    let event = match (uncovered.is_empty(), woken.iter().filter_map(|e| covered_at(e)).max()) {
        (true, None) => {
            let next_wake_at = done.iter().filter_map(|executor| claims_again_at(executor, hub.now)).min();
            return Ok((Life { next_wake_at, ..life }, vec![]));
        }
        (true, Some(sent_at)) => Event::WakeCoalesced { sent_at },
        (false, _) if life.wake_attempts >= hub.settings.wake_attempts_max => Event::WakeEnded(WakeStatus::GivenUp),
        (false, _) => Event::WakeSent,
    };
    let next = stepped(hub, &life, &event)?;
    if event != Event::WakeSent {
        return Ok((next, vec![]));
    }
    // Whoever listens is told by its socket, which has taken the wake of a task that has just become ready. Should no claim
    // follow, the webhook is tried as well: a socket may be open to a machine that is gone.
    if life.last_wake_at.is_none() {
        uncovered.retain(|executor| !hub.presence.is_listening(&executor.name));
        if uncovered.is_empty() {
            return Ok((stepped(hub, &next, &Event::WakeEnded(WakeStatus::Accepted))?, vec![]));
        }
    }
    let mut wakes = Vec::new();
    for executor in uncovered.into_iter().take(WAKES_PER_ROUND_MAX) {
        wakes.extend(wake(hub, executor, Some((task_id, &next)))?);
    }
    if wakes.is_empty() {
        // Nothing can be sent as it is configured, which is a refusal as any other.
        return Ok((stepped(hub, &next, &Event::WakeEnded(WakeStatus::Rejected))?, wakes));
    }
    Ok((next, wakes))
}

fn stepped(hub: &Hub<'_>, life: &Life, event: &Event) -> Result<Life, DatabaseError> {
    let refused = |_| DatabaseError::Refused("a ready task refused a wake".to_owned());
    step(life, event, &hub.rules(true)).map_err(refused)
}

/// Writes wakes with the change that calls for them.
pub(super) fn post(hub: &Hub<'_>, effects: &mut Effects, wakes: Wakes) -> Result<(), DatabaseError> {
    wakes.into_iter().try_for_each(|(row, request)| outbox::post(hub, effects, row, request))
}

/// When the wake was sent that covers this executor: recent, not refused, and no claim since.
fn covered_at(hub: &Hub<'_>, executor: &ExecutorRow) -> Option<i64> {
    let sent_at = executor.last_wake_at?;
    let covers_ms = hub.settings.wake_coalesce_ms + i64::from(faults::is_on(Fault::CoalesceOneMore));
    // One of the future is none: the clock was set back.
    let recent = (0..covers_ms).contains(&(hub.now - sent_at));
    let refused = executor.last_wake_status.as_deref() == Some(WakeStatus::Rejected.as_str());
    let claimed_since = executor.last_claim_at.is_some_and(|at| at >= sent_at);
    let refused = refused && !faults::is_on(Fault::RefusedWakeCovers);
    (recent && !refused && !claimed_since).then_some(sent_at)
}

fn wake(
    hub: &Hub<'_>,
    executor: &ExecutorRow,
    task: Option<(&str, &Life)>,
) -> Result<Option<(OutboxRow, OutboundRequest)>, DatabaseError> {
    let Some(body) = webhook::wake_body(&wake_of(executor), &executor.name, hub.origin()) else { return Ok(None) };
    // Where the same round has another body, such as another name of the hub, it is another message.
    let digest = secret::sha256_hex(&body);
    let digest = digest.get(..8).unwrap_or_default();
    let id = match task {
        Some((id, life)) => format!("wake_{id}_{}_{}_{digest}", life.wake_round, executor.name),
        None => format!("wake_{}_{}_{digest}", executor.name, hub.random_text::<9>()),
    };
    let Some(request) = request(hub, executor, &id, &body) else { return Ok(None) };
    executors::woken(hub.db, &executor.name, hub.now)?;
    let row = OutboxRow {
        state: rows::State::Due,
        next_at: hub.now,
        id,
        kind: Kind::Wake,
        subject: executor.name.clone(),
        task_id: task.map(|(id, _)| id.to_owned()),
        wake_round: task.map(|(_, life)| life.wake_round),
        count: 1,
        attempts: task.map_or(1, |(_, life)| life.wake_attempts),
        last_status: None,
        created_at: hub.now,
        body,
    };
    Ok(Some((row, request)))
}

fn request(hub: &Hub<'_>, executor: &ExecutorRow, id: &str, body: &str) -> Option<OutboundRequest> {
    let message = Message { id, body, now: hub.now, timeout_ms: hub.settings.wake_timeout_ms };
    webhook::wake(&wake_of(executor), &message)
}

/// The task that a wake is for, as long as it waits in the same round of wakes.
fn waiting_task(hub: &Hub<'_>, row: &OutboxRow) -> Result<Option<TaskHead>, DatabaseError> {
    let Some(id) = &row.task_id else { return Ok(None) };
    let waits =
        |task: &TaskHead| task.life.state.lane() == Some(Lane::Ready) && Some(task.life.wake_round) == row.wake_round;
    Ok(tasks::head(hub.db, id)?.filter(waits))
}

/// A wake whose outcome nobody recorded: the request that carries it once more, or `None` if it is not wanted any more.
pub(super) fn again(
    hub: &Hub<'_>,
    effects: &mut Effects,
    row: &OutboxRow,
) -> Result<Option<OutboundRequest>, DatabaseError> {
    let task = waiting_task(hub, row)?;
    let attempts_max = hub.settings.wake_attempts_max;
    if task.is_none() && (row.task_id.is_some() || row.attempts >= attempts_max) {
        return Ok(None);
    }
    let executor = executors::by_name(hub.db, &row.subject)?;
    let request = executor.as_ref().and_then(|executor| request(hub, executor, &row.id, &row.body));
    let Some(task) = task else {
        if request.is_some() {
            executors::woken(hub.db, &row.subject, hub.now)?;
        }
        return Ok(request);
    };
    if row.attempts >= attempts_max {
        // Sent as often as permitted, and never recorded: the hub dies on every try. Give up rather than go on for ever.
        let why = Some("it was never recorded what became of it");
        settle(hub, effects, &task, row, (WakeStatus::GivenUp, why), 0)?;
        return Ok(None);
    }
    if request.is_none() {
        let why = Some("the executor cannot be woken any more");
        settle(hub, effects, &task, row, (WakeStatus::Rejected, why), 0)?;
        return Ok(None);
    }
    executors::woken(hub.db, &row.subject, hub.now)?;
    // All that went out in one round count once.
    if task.life.wake_attempts == row.attempts {
        store(hub, &task, &stepped(hub, &task.life, &Event::WakeSent)?, task.event_seq)?;
    }
    Ok(request)
}

/// Sends the wake of a ready task if one is due, outside any other change of it.
pub(super) fn send_due(hub: &Hub<'_>, effects: &mut Effects, task: &TaskHead) -> Result<bool, DatabaseError> {
    let (life, wakes) = plan(hub, &task.id, task.life.clone(), &consumers(hub, &task.address)?)?;
    if life == task.life {
        return Ok(false);
    }
    let wishes = store(hub, task, &life, task.event_seq)?;
    post(hub, effects, wakes)?;
    owed::owe(hub, effects, task, &life, &wishes)?;
    Ok(true)
}

fn store(hub: &Hub<'_>, task: &TaskHead, life: &Life, event_seq: i64) -> Result<Wishes, DatabaseError> {
    let due_at = life.due_at(hub.settings.lease_ms);
    // A timer that moves on may stay where it is, which spares a row: the sweep that meets it too early moves it.
    let stays = matches!((task.due_at, due_at), (Some(is), Some(shall_be)) if is <= shall_be);
    let refused = || DatabaseError::Refused("the store refused a wake that the lifecycle allows".to_owned());
    let due_at = if stays { tasks::WakeDue::Stays } else { tasks::WakeDue::At(due_at) };
    tasks::wake(hub.db, task, life, due_at, event_seq, hub.now)?.ok_or_else(refused)
}

/// Takes over what became of a wake; whatever that is, the wake leaves the outbox. For the task it may come too late to matter:
/// it was claimed meanwhile, or it is in a later round, as it is when another receiver of this round has already accepted.
pub(super) fn ended(
    hub: &Hub<'_>,
    effects: &mut Effects,
    order: &Order,
    delivery: &Delivery,
) -> Result<(), DatabaseError> {
    let (status, why) = match delivery {
        Delivery::Accepted => (WakeStatus::Accepted, None),
        Delivery::Unknown => (WakeStatus::Unknown, None),
        Delivery::Rejected { why, .. } => (WakeStatus::Rejected, Some(why.as_str())),
        Delivery::NotTried => return Ok(()),
    };
    let asked_ms = delivery.asked_ms();
    if !rows::delete(hub.db, &order.row)? {
        return Ok(());
    }
    if status == WakeStatus::Rejected {
        executors::wake_refused(hub.db, &order.row.subject, order.claimed_at)?;
    }
    let Some(task) = waiting_task(hub, &order.row)? else { return Ok(()) };
    settle(hub, effects, &task, &order.row, (status, why), asked_ms)
}

/// Moves the task on with the outcome of its wake; the receiver asked to be left alone for `asked_ms`.
fn settle(
    hub: &Hub<'_>,
    effects: &mut Effects,
    task: &TaskHead,
    row: &OutboxRow,
    (status, why): (WakeStatus, Option<&str>),
    asked_ms: i64,
) -> Result<(), DatabaseError> {
    let next = stepped(hub, &task.life, &Event::WakeEnded(status))?;
    let next = Life { next_wake_at: next.next_wake_at.map(|at| at.max(hub.now + asked_ms)), ..next };
    let data = json!({
        "executor": row.subject,
        "status": next.last_wake_status.map(|status| status.as_str()),
        "detail": why,
        "next_wake_at": next.next_wake_at,
    });
    let seq = hub.record(task, events::Kind::Wake, next.attempt, "hub", data)?;
    let wishes = store(hub, task, &next, seq)?;
    owed::owe(hub, effects, task, &next, &wishes)?;
    effects.changed.push(task.id.clone());
    Ok(())
}

/// What the owner's call did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Woken {
    /// Whether a wake is on its way, by webhook or by the socket on which it listens; an executor that only polls gets none.
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
        let wakes: Wakes = match &first {
            Some(task) => {
                let fresh = Life { wake_round: task.life.wake_round + 1, wake_attempts: 0, ..task.life.clone() };
                let next = stepped(hub, &fresh, &Event::WakeSent)?;
                let wakes: Wakes = wake(hub, &executor, Some((&task.id, &next)))?.into_iter().collect();
                if !wakes.is_empty() {
                    store(hub, task, &next, task.event_seq)?;
                }
                wakes
            }
            None => wake(hub, &executor, None)?.into_iter().collect(),
        };
        let is_told = executor.is_at_work() && hub.presence.is_listening(name);
        let sent = !wakes.is_empty() || is_told;
        post(hub, effects, wakes)?;
        let own = Address::Executor(name.to_owned()).to_string();
        if executor.is_at_work() && !effects.ready.contains(&own) {
            effects.ready.push(own);
        }
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
    let seq =
        hub.record(&task, events::Kind::Requeued, next.attempt, "submitter:owner", json!({ "reason": "woken" }))?;
    let due_at = next.due_at(hub.settings.lease_ms);
    let refused = || DatabaseError::Refused("the store refused to make a waiting task ready".to_owned());
    let wishes =
        tasks::move_on(hub.db, &task, &next, due_at, seq, hub.now, MoveWrites::default())?.ok_or_else(refused)?;
    owed::owe(hub, effects, &task, &next, &wishes)?;
    effects.task_changed(id, next.state, &task.address);
    Ok(())
}
