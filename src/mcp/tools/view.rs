//! What several tools show of a task in the same way, and the hints on what to do next.

use serde::Serialize;
use serde_json::Value as Json;

#[cfg(not(target_arch = "wasm32"))]
use crate::domain::ledger::Standing;
use crate::domain::task::{Address, FailureCode, Life, State, WaitingOn};
use crate::hub::{ActionView, Attendance, TaskSummary};
use crate::mcp::moment::Moment;

/// The wait that hints suggest, in seconds: long enough to save calls, short enough for clients with a tight time limit.
pub(super) const WAIT_SECONDS_USUAL: u32 = 25;
/// What to do about a task that waits for the owner's word.
pub(super) const AWAITS_APPROVAL: &str = "It waits for the owner's approval: ask your user, and pass on their decision with \
                                          approve_task.";

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

/// The schema of what is known of an action.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn standings(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    crate::mcp::schema::words(Standing::ALL.map(Standing::as_str))
}

/// An outside action that an attempt recorded.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct Action {
    step_id: String,
    tool: String,
    /// What it was to be done with.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "any"))]
    params: Json,
    idempotency_key: String,
    /// begun: under way. unknown: its attempt was lost, and it may have happened or not. done and failed: as it says.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "standings"))]
    status: &'static str,
    /// What came of it.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "any"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Json>,
    /// The attempt that began it.
    attempt: u32,
    began_at: Moment,
}

impl From<&ActionView> for Action {
    fn from(action: &ActionView) -> Self {
        Self {
            step_id: action.step_id.clone(),
            tool: action.tool.clone(),
            params: action.params.clone(),
            idempotency_key: action.idempotency_key.clone(),
            status: action.standing.as_str(),
            outcome: action.outcome.clone(),
            attempt: action.attempt,
            began_at: Moment(action.began_at),
        }
    }
}

/// The executor that has a task now.
pub(super) fn held_by(life: &Life) -> Option<&str> {
    let held = matches!(life.state, State::Working | State::InputRequired) && !life.is_asked_by_hub();
    life.claim.as_ref().filter(|_| held).map(|claim| claim.executor.as_str())
}

fn follow() -> String {
    format!("Call get_task again with wait_seconds {WAIT_SECONDS_USUAL} to wait for a change.")
}

/// What to do about a task where it stands. `attendance`: who may claim it, where that matters.
pub(super) fn next_step(task: &TaskSummary, attendance: &Attendance) -> String {
    let life = &task.life;
    let holder = held_by(life).unwrap_or("The executor");
    match life.state {
        State::Submitted | State::Dispatched => match attendance.absence() {
            None => format!("It waits to be claimed, and its executor is there. {}", follow()),
            Some(absence) => format!("It waits to be claimed. {absence} {}", follow()),
        },
        State::Waiting => match attendance.absence() {
            None => waiting(task),
            Some(absence) => format!("{} {absence}", waiting(task)),
        },
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
        Some(WaitingOn::Approval) => format!("{AWAITS_APPROVAL} {}", follow()),
        Some(WaitingOn::ExecutorUser | WaitingOn::Submitter) | None => follow(),
    }
}

fn asked(task: &TaskSummary, holder: &str) -> String {
    let limit = task.life.input_expires_at.map(|at| format!(" It fails at {} if nobody does.", Moment(at)));
    let limit = limit.unwrap_or_default();
    match task.life.waiting_on {
        _ if task.life.is_asked_by_hub() => format!(
            "An attempt was lost in the middle of an outside action, and the next one waits until a person has said whether it \
             happened: read question, ask your user to look, and call answer_task with task_id and what they found.{limit}"
        ),
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
