//! `answer_task`, `cancel_task` and `retry_task`.

use serde::{Deserialize, Serialize};

use super::{submit, view};
#[cfg(not(target_arch = "wasm32"))]
use crate::domain::limits::{MESSAGE_CHARS_MAX, NOTE_CHARS_MAX};
use crate::domain::task::State;
use crate::hub::{self, Answer, AnswerRejected, CancelRejected, RetryRejected};
use crate::mcp::answer::{Given, ToolError, given};
use crate::mcp::dispatch::Caller;

#[derive(Debug, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerInput {
    /// The task that asks.
    task_id: String,
    /// The answer, for the executor to read.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(min = 1, max = MESSAGE_CHARS_MAX)))]
    answer: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct AnswerOutput {
    task_id: String,
    /// input-required while the attempt that asked may come for the answer, submitted if another attempt will.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::states"))]
    state: &'static str,
    /// Whether this very answer was there already.
    already: bool,
    /// What to do now.
    next: String,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct CancelInput {
    /// The task to call off.
    task_id: String,
    /// Why, in a sentence; it stays with the task.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(max = NOTE_CHARS_MAX)))]
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct CancelOutput {
    task_id: String,
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::states"))]
    state: &'static str,
    /// Whether it was canceled before.
    already: bool,
    /// The executor that was at work on it, and that learns of this with its next heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    was_held_by: Option<String>,
    /// What to do now.
    next: String,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct RetryInput {
    /// The task to do again; it must be completed, failed or canceled.
    task_id: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct RetryOutput {
    /// The new task.
    task_id: String,
    /// The old one.
    retry_of: String,
    /// Where the new task stands.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::states"))]
    state: &'static str,
    /// Whether the old task had been retried before, so that the new one was there already.
    existed: bool,
    /// What to do now.
    next: String,
}

#[cfg(not(target_arch = "wasm32"))]
pub(super) fn about_answer() -> super::About {
    super::About {
        title: "Answer a task's question",
        description: "Answers what an executor asked, so that the work goes on. Use it when get_task shows state \
                      input-required. Ask your user first unless the answer is certain from what they said. Then follow the \
                      task with get_task.",
        reads_only: false,
        destroys: false,
        is_idempotent: true,
        reaches_out: true,
        input: crate::mcp::schema::input::<AnswerInput>,
        output: crate::mcp::schema::output::<AnswerOutput>,
    }
}

#[cfg(not(target_arch = "wasm32"))]
pub(super) fn about_cancel() -> super::About {
    super::About {
        title: "Cancel a task",
        description: "Calls a task off, for good; whatever its executor brings afterwards is refused. Use it when the work is no \
                      longer wanted. What has already been done outside is not undone. Canceling twice is harmless.",
        reads_only: false,
        destroys: true,
        is_idempotent: true,
        reaches_out: false,
        input: crate::mcp::schema::input::<CancelInput>,
        output: crate::mcp::schema::output::<CancelOutput>,
    }
}

#[cfg(not(target_arch = "wasm32"))]
pub(super) fn about_retry() -> super::About {
    super::About {
        title: "Retry a finished task",
        description: "Does a finished task again, as a new task with the same instructions, for the same executor or queue, \
                      without the old deadline. Use it when a task failed for a reason that has gone, or was canceled by \
                      mistake; with other instructions, use submit_task. A task has one retry: calling this twice returns the \
                      same new task. Then follow the new task_id with get_task.",
        reads_only: false,
        destroys: false,
        is_idempotent: true,
        reaches_out: true,
        input: crate::mcp::schema::input::<RetryInput>,
        output: crate::mcp::schema::output::<RetryOutput>,
    }
}

fn follow() -> String {
    format!("Call get_task with this task_id and wait_seconds {} to follow it.", view::WAIT_SECONDS_USUAL)
}

pub(super) fn answer(caller: &Caller<'_>, input: AnswerInput) -> Result<Given, ToolError> {
    let id = input.task_id.clone();
    let answer = Answer { submitter: caller.principal.submitter.clone(), task_id: input.task_id, text: input.answer };
    let answered = hub::answer(caller.hub, &answer).map_err(|rejected| match rejected {
        AnswerRejected::TaskNotFound => ToolError::task_not_found(&id),
        AnswerRejected::NotAsked { state } => not_asked(state),
        AnswerRejected::Invalid { detail } => ToolError::invalid_field("answer", &detail),
        AnswerRejected::Database(error) => error.into(),
    })?;
    let said = match (answered.already, answered.state) {
        (_, State::InputRequired) if answered.asks_more => {
            "The attempt that asked is lost, and had begun an outside action; before the next one begins and gets the answer, the \
             hub asks whether that happened: read question in get_task, and answer that as well."
        }
        (true, _) => "This answer was there already.",
        (false, State::InputRequired) => "The attempt that asked gets the answer with its next call.",
        (false, _) => "The attempt that asked has gone silent; the next one gets the answer.",
    };
    let next = format!("{said} {}", follow());
    given(&AnswerOutput { task_id: answered.id, state: answered.state.as_str(), already: answered.already, next })
}

fn not_asked(state: State) -> ToolError {
    let what = if state.is_terminal() {
        "It is over. To add something, submit a new task, or call retry_task."
    } else {
        "There is nothing to answer now. Call get_task with wait_seconds to see when it asks; to change what it is to do, \
         cancel it and submit a new task."
    };
    ToolError::new("not_asked", format!("The task waits for no answer: its state is {state}. {what}"))
}

pub(super) fn cancel(caller: &Caller<'_>, input: CancelInput) -> Result<Given, ToolError> {
    let reason = input.reason.as_deref().filter(|reason| !reason.trim().is_empty());
    let canceled = hub::cancel(caller.hub, &caller.principal.submitter, &input.task_id, reason);
    let canceled = canceled.map_err(|rejected| match rejected {
        CancelRejected::TaskNotFound => ToolError::task_not_found(&input.task_id),
        CancelRejected::AlreadyFinished { state } => {
            let sentence =
                format!("The task is {state}, which is final, so it cannot be canceled. get_task shows its outcome.");
            ToolError::new("already_finished", sentence)
        }
        CancelRejected::Database(error) => error.into(),
    })?;
    let next = match (&canceled.was_held_by, canceled.already) {
        (_, true) => "It was canceled before; nothing more is needed.".to_owned(),
        (Some(executor), false) => format!(
            "{executor} was at work on it and stops when it next calls; what it has done outside so far is not undone."
        ),
        (None, false) => "Nobody was at work on it; nothing more is needed.".to_owned(),
    };
    given(&CancelOutput {
        task_id: canceled.id,
        state: State::Canceled.as_str(),
        already: canceled.already,
        was_held_by: canceled.was_held_by,
        next,
    })
}

pub(super) fn retry(caller: &Caller<'_>, input: RetryInput) -> Result<Given, ToolError> {
    let retried = hub::retry_task(caller.hub, &caller.principal.submitter, &input.task_id);
    let retried = retried.map_err(|rejected| match rejected {
        RetryRejected::TaskNotFound => ToolError::task_not_found(&input.task_id),
        RetryRejected::NotFinished { state } => {
            let sentence = format!(
                "The task is {state}, not finished, so there is nothing to do again. Follow it with get_task; if it shall begin \
                 anew, call cancel_task first."
            );
            ToolError::new("not_finished", sentence)
        }
        RetryRejected::Submit(rejected) => submit::refused(&rejected),
        RetryRejected::Database(error) => error.into(),
    })?;
    let known = if retried.existed { "It had been retried before; this is that task. " } else { "" };
    given(&RetryOutput {
        task_id: retried.id,
        retry_of: input.task_id,
        state: retried.state.as_str(),
        existed: retried.existed,
        next: format!("{known}{}", follow()),
    })
}
