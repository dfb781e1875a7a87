//! `approve_task`.

use serde::{Deserialize, Serialize};

use super::view;
#[cfg(not(target_arch = "wasm32"))]
use crate::domain::limits::NOTE_CHARS_MAX;
use crate::domain::task::State;
use crate::hub::{self, Approve, ApproveRejected, Approved};
use crate::mcp::answer::{Given, ToolError, given};
use crate::mcp::dispatch::Caller;
use crate::mcp::moment::Moment;

#[derive(Debug, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// The task that waits for approval.
    task_id: String,
    /// true: it may begin. false: it fails, with error_code denied.
    approve: bool,
    /// Why, in a sentence; it stays with the task.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(max = NOTE_CHARS_MAX)))]
    note: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct Output {
    task_id: String,
    /// Where the task stands now.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::states"))]
    state: &'static str,
    /// When it becomes claimable, if it waits for its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    visible_at: Option<Moment>,
    /// Whether the same had been said before, so that nothing changed.
    already: bool,
    /// What to do now.
    next: String,
}

#[cfg(not(target_arch = "wasm32"))]
pub(super) fn about() -> super::About {
    super::About {
        title: "Approve or deny a task",
        description: "Lets a task begin that waits for the owner's approval, or refuses it for good. Use it when get_task shows \
                      state waiting and waiting_on approval, and only with what your user decided: never decide for them. Saying \
                      the same twice is harmless. Then follow the task with get_task.",
        reads_only: false,
        destroys: true,
        is_idempotent: true,
        reaches_out: true,
        input: crate::mcp::schema::input::<Input>,
        output: crate::mcp::schema::output::<Output>,
    }
}

pub(super) fn call(caller: &Caller<'_>, input: Input) -> Result<Given, ToolError> {
    let word = Approve {
        submitter: caller.principal.submitter.clone(),
        task_id: input.task_id,
        approve: input.approve,
        note: input.note,
    };
    let approved = hub::approve(caller.hub, &word).map_err(|rejected| refused(&word.task_id, &rejected))?;
    let next = next(&approved, input.approve);
    given(&Output {
        task_id: approved.id,
        state: approved.state.as_str(),
        visible_at: approved.visible_at.map(Moment),
        already: approved.already,
        next,
    })
}

fn next(approved: &Approved, approve: bool) -> String {
    let follow =
        || format!("Call get_task with this task_id and wait_seconds {} to follow it.", view::WAIT_SECONDS_USUAL);
    match (approved.already, approve, approved.visible_at) {
        (true, true, _) => format!("It is approved already, and nothing changed. {}", follow()),
        (true, false, _) => "It is denied already, and nothing changed; nothing more is needed.".to_owned(),
        (false, true, Some(at)) => {
            format!("It is approved, and becomes claimable at {}, as was asked for when it was submitted.", Moment(at))
        }
        (false, true, None) => format!("It is approved, and can be claimed now. {}", follow()),
        (false, false, _) => "It is denied and has failed; retry_task would submit it again, as a new task.".to_owned(),
    }
}

fn refused(id: &str, rejected: &ApproveRejected) -> ToolError {
    match rejected {
        ApproveRejected::TaskNotFound => ToolError::task_not_found(id),
        ApproveRejected::ApprovedBefore { state } => {
            let sentence = format!(
                "The task was approved before, and is {state} now, so it cannot be denied any more. To call it off, call \
                 cancel_task."
            );
            ToolError::new("approved_before", sentence)
        }
        ApproveRejected::DeniedBefore => {
            let sentence = "The task was denied before, which is final. If your user wants it done after all, call retry_task, \
                            and approve the new task.";
            ToolError::new("denied_before", sentence)
        }
        ApproveRejected::NotAwaited { state } => {
            let what = match state {
                State::InputRequired => "It waits for an answer: call answer_task.",
                state if state.is_terminal() => "It is over: get_task shows its outcome.",
                _ => "It needs no approval: follow it with get_task; to call it off, call cancel_task.",
            };
            let sentence = format!("The task does not wait for approval: its state is {state}. {what}");
            ToolError::new("not_awaiting_approval", sentence)
        }
        ApproveRejected::Invalid { detail } => ToolError::invalid_field("note", detail),
        ApproveRejected::Database(error) => error.clone().into(),
    }
}
