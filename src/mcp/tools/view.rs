//! What several tools show of a task in the same way, and the hints on what to do next.

use crate::domain::task::{Address, FailureCode, Life, State, WaitingOn};
use crate::hub::{ExecutorView, TaskSummary};
use crate::mcp::moment::Moment;

/// The wait that hints suggest, in seconds: long enough to save calls, short enough for clients with a tight time limit.
pub(super) const WAIT_SECONDS_USUAL: u32 = 25;
/// How long after its last call an executor counts as there, in milliseconds (design §11).
pub(super) const SEEN_LATELY_MS: i64 = 60_000;

/// The schema of a state.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn states(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    crate::mcp::schema::words(State::ALL.map(State::as_str))
}

/// The schema of a list of states.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn list_of_states(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let states = states(generator);
    schemars::json_schema!({ "type": "array", "items": states })
}

/// The schema of what a task waits for.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn reasons(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    crate::mcp::schema::words(WaitingOn::ALL.map(WaitingOn::as_str))
}

/// The schema of why a task failed.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn failure_codes(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    crate::mcp::schema::words(FailureCode::ALL.map(FailureCode::as_str))
}

/// The schema of any JSON.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn any(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({})
}

/// Whether an executor has called within the last minute.
pub(super) fn is_seen_lately(last_seen_at: Option<i64>, now: i64) -> bool {
    last_seen_at.is_some_and(|at| now - at <= SEEN_LATELY_MS)
}

/// The executor that has a task now.
pub(super) fn held_by(life: &Life) -> Option<&str> {
    let held = matches!(life.state, State::Working | State::InputRequired);
    life.claim.as_ref().filter(|_| held).map(|claim| claim.executor.as_str())
}

/// Whether an executor would take tasks of this address.
pub(super) fn serves(executor: &ExecutorView, address: &Address) -> bool {
    match address {
        Address::Executor(name) => executor.row.name == *name,
        Address::Queue(queue) => executor.row.queues.contains(queue),
    }
}

fn follow() -> String {
    format!("Call get_task again with wait_seconds {WAIT_SECONDS_USUAL} to wait for a change.")
}

/// What to do about a task where it stands. `consumers` are the executors that may claim it, where that matters.
pub(super) fn next_step(task: &TaskSummary, consumers: &[ExecutorView], now: i64) -> String {
    let life = &task.life;
    let holder = held_by(life).unwrap_or("The executor");
    match life.state {
        State::Submitted | State::Dispatched => unclaimed(consumers, now),
        State::Waiting => waiting(task),
        State::Working => format!("{holder} is working on it. {}", follow()),
        State::InputRequired if life.answered_at.is_some() => {
            format!("It was answered; {holder}, or the next attempt, will go on with the answer. {}", follow())
        }
        State::InputRequired => asked(task, holder),
        State::Completed => "It is done; nothing more is needed. Report the result to your user.".to_owned(),
        State::Failed => failed(life),
        State::Canceled => "It was canceled; retry_task would do it again, as a new task.".to_owned(),
    }
}

fn unclaimed(consumers: &[ExecutorView], now: i64) -> String {
    let seen = |executor: &&ExecutorView| is_seen_lately(executor.last_seen_at, now);
    if consumers.iter().any(|executor| seen(&executor)) {
        return format!("It waits to be claimed, and its executor is there. {}", follow());
    }
    let last = consumers.iter().max_by_key(|executor| executor.last_seen_at);
    match last {
        None => {
            "Nobody serves its address any more: cancel_task, or tell your user to add an executor for it.".to_owned()
        }
        Some(executor) => {
            let name = &executor.row.name;
            let when = match executor.last_seen_at {
                Some(at) => format!("was last seen at {}", Moment(at)),
                None => "has not been seen".to_owned(),
            };
            let remedy = if executor.wake.is_sent() {
                format!("wake_executor with executor \"{name}\" calls it once more")
            } else {
                format!("{name} only polls, so nothing can call it: tell your user to start it")
            };
            format!("It waits to be claimed; {name} {when}. {remedy}. {}", follow())
        }
    }
}

fn waiting(task: &TaskSummary) -> String {
    let life = &task.life;
    let until = life.visible_at.map(|at| format!(" until {}", Moment(at))).unwrap_or_default();
    let executor = match &task.address {
        Address::Executor(name) => format!("executor \"{name}\""),
        Address::Queue(queue) => format!("an executor of the queue {queue}"),
    };
    match life.waiting_on {
        Some(WaitingOn::Time) => format!(
            "It waits{until}, and becomes claimable then. wake_executor with {executor} and this task_id makes it claimable \
             at once."
        ),
        Some(WaitingOn::External) => format!(
            "Its executor found that something outside is not ready, and looks again later: it waits{until}. wake_executor \
             with {executor} and this task_id makes it claimable at once."
        ),
        Some(WaitingOn::Tasks) => format!("It waits for other tasks. {}", follow()),
        Some(WaitingOn::Approval) => format!("It waits for the owner's approval. {}", follow()),
        Some(WaitingOn::ExecutorUser | WaitingOn::Submitter) | None => follow(),
    }
}

fn asked(task: &TaskSummary, holder: &str) -> String {
    let limit = task.life.input_expires_at.map(|at| format!(" It fails at {} if nobody does.", Moment(at)));
    let limit = limit.unwrap_or_default();
    match task.life.waiting_on {
        Some(WaitingOn::ExecutorUser) => format!(
            "{holder} waits for its own user, who answers there; tell your user. answer_task passes an answer from here as \
             well.{limit}"
        ),
        _ => format!(
            "It waits for your answer: read question, ask your user unless you know, and call answer_task with task_id and \
             answer.{limit}"
        ),
    }
}

fn failed(life: &Life) -> String {
    let why = match life.failure {
        Some(FailureCode::ExecutorFailed) | None => "The executor reported a failure: read error and note.",
        Some(FailureCode::LeaseExpired) => {
            "Its executor went silent as often as max_attempts allows; see list_executors."
        }
        Some(FailureCode::DeadlineExceeded) => "Its deadline passed before it was done.",
        Some(FailureCode::InputTimeout) => "Nobody answered its question in time.",
        Some(FailureCode::DependencyFailed) => "A task that it depends on failed or was canceled.",
        Some(FailureCode::Denied) => "The owner refused it.",
    };
    format!("{why} retry_task does it again, as a new task; submit_task with better instructions is the alternative.")
}
