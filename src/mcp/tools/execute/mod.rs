//! The executor's tools: `claim_task`, `heartbeat_task`, `finish_task`, `defer_task`, `record_action`, `attach_file`, for agents
//! that speak MCP but cannot run HTTP calls. They are the executor API in other clothes, and refuse in its words.
//!
//! The executor is the one for which the owner granted `tasks:execute`; no argument names another.

mod attach;
mod claimed;
mod record;

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

#[cfg(not(target_arch = "wasm32"))]
use super::view;
#[cfg(not(target_arch = "wasm32"))]
use crate::domain::limits::{
    CLAIM_WAIT_SECONDS_MAX, DEFER_SECONDS_MAX, ERROR_CHARS_MAX, MESSAGE_CHARS_MAX, NOTE_CHARS_MAX, REQUEST_ID_BYTES_MAX,
};
use crate::domain::task::State;
use crate::executor::refusals;
use crate::executor::wire::{BeatState, ResultStatus, heartbeat_every_seconds};
use crate::http::message::{Topic, Wait};
use crate::http::problem::Problem;
use crate::hub::{self, AttemptCall, AttemptRejected, Claim, ClaimRejected, Defer, Heartbeat, Report};
use crate::mcp::answer::{Given, ToolError, given};
use crate::mcp::dispatch::Caller;
use crate::mcp::moment::Moment;
use crate::store::executors::ExecutorRow;
use claimed::{Claimed, Part};
pub(super) use record::record;

#[derive(Debug, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimInput {
    /// Any text of your own that names this claim, new for each task you ask for. The same again gives the same task, so
    /// a lost answer costs nothing.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(min = 1, max = REQUEST_ID_BYTES_MAX)))]
    request_id: String,
    /// Only these of the executor's queues.
    queues: Option<Vec<String>>,
    /// How long to wait for work, in seconds.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(range(min = 0, max = CLAIM_WAIT_SECONDS_MAX)))]
    wait_seconds: Option<u32>,
    /// One part of the claimed task to read on its own, from offset on: for texts that truncated names.
    part: Option<Part>,
    /// The character at which to begin reading the part: 0, or the next_offset of the page before.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(range(min = 0)))]
    offset: Option<u64>,
}

#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct HeartbeatInput {
    /// The task, as claim_task gave it.
    task_id: String,
    /// The claim_token that claim_task gave.
    claim_token: String,
    /// A line about what is going on.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(max = NOTE_CHARS_MAX)))]
    note: Option<String>,
    /// How far you are, from 0 to 1.
    progress: Option<f64>,
    /// What the next attempt should know if you stop: any JSON.
    checkpoint: Option<Json>,
    /// input-required while you wait for an answer; working, or left out, otherwise.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "abouts::beat_states"))]
    #[serde(default)]
    state: Option<BeatState>,
    /// What you must know from the submitter before you can go on.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(min = 1, max = MESSAGE_CHARS_MAX)))]
    question: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct HeartbeatOutput {
    /// working, or input-required while a question is open.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::states"))]
    state: &'static str,
    /// When the task is given to another attempt unless you send a heartbeat before; absent while a question is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_expires_at: Option<Moment>,
    /// How often to send one, in seconds.
    heartbeat_every_seconds: i64,
    /// Answers to your questions, oldest first.
    messages: Vec<claimed::Message>,
    /// What to do now.
    next: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct FinishInput {
    /// The task, as claim_task gave it.
    task_id: String,
    /// The claim_token that claim_task gave.
    claim_token: String,
    /// completed: done. failed: not done. blocked: a person is needed; ask in question.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "abouts::statuses"))]
    status: ResultStatus,
    /// The result as text, for completed.
    result: Option<String>,
    /// The result as data, for completed: any JSON.
    data: Option<Json>,
    /// What went wrong, for failed.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(max = ERROR_CHARS_MAX)))]
    error: Option<String>,
    /// Whether another attempt may help, for failed.
    retryable: Option<bool>,
    /// What you must know, for blocked.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(min = 1, max = MESSAGE_CHARS_MAX)))]
    question: Option<String>,
    /// What you did outside that must not happen twice, one text each.
    external_actions: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct DeferInput {
    /// The task, as claim_task gave it.
    task_id: String,
    /// The claim_token that claim_task gave.
    claim_token: String,
    /// After how many seconds the task is to be looked at again.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(range(min = 1, max = DEFER_SECONDS_MAX)))]
    seconds: u32,
    /// Why it is put off, in a line.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(max = NOTE_CHARS_MAX)))]
    note: Option<String>,
    /// What the next attempt should know: any JSON.
    checkpoint: Option<Json>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct EndOutput {
    task_id: String,
    /// Where the task stands now.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::states"))]
    state: &'static str,
    /// When it is handed out again, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    again_at: Option<Moment>,
    /// What to do now.
    next: String,
}

#[cfg(not(target_arch = "wasm32"))]
mod abouts;
#[cfg(not(target_arch = "wasm32"))]
pub(super) use abouts::{about_attach, about_claim, about_defer, about_finish, about_heartbeat, about_record};
pub(super) use attach::attach;

const AFTER_THE_END: &str =
    "The attempt is over: forget its claim_token. Call claim_task with a new request_id for the next task.";

const ASKED: &str = "A person has been asked. Go on calling heartbeat_task with state input-required until messages holds the answer; \
                     without that state it withdraws the question and goes on working. Or stop: the task is handed out again when \
                     it is answered.";

/// The executor that this token works as.
fn executor(caller: &Caller<'_>) -> Result<ExecutorRow, ToolError> {
    let name = caller.principal.executor.as_deref().unwrap_or_default();
    let executor = hub::executor_at_work(caller.hub, name)?.ok_or_else(|| {
        let sentence = "The executor for which this token was granted is not there any more. Tell your user; signing in anew lets \
                        them choose another.";
        ToolError::new("executor_not_found", sentence)
    })?;
    if executor.disabled_at.is_some() {
        return Err(refused(refusals::disabled(&executor.name)));
    }
    Ok(executor)
}

impl From<AttemptRejected> for ToolError {
    fn from(rejected: AttemptRejected) -> Self {
        refused(refusals::attempt(&rejected))
    }
}

impl From<ClaimRejected> for ToolError {
    fn from(rejected: ClaimRejected) -> Self {
        refused(refusals::claim(&rejected))
    }
}

fn refused(problem: Problem) -> ToolError {
    ToolError::new(problem.code, problem.detail)
}

/// What to do after a heartbeat or a result that left the task in this state.
fn next(state: State) -> &'static str {
    match state {
        State::Working => "Go on working, and call heartbeat_task again in time.",
        State::InputRequired => ASKED,
        _ => AFTER_THE_END,
    }
}

/// What a call brought, without the token: evidence must not hold a credential.
fn brought<T: Serialize>(input: &T) -> Json {
    let mut brought = serde_json::to_value(input).unwrap_or_default();
    if let Some(fields) = brought.as_object_mut() {
        fields.retain(|name, value| name != "claim_token" && !value.is_null());
    }
    brought
}

pub(super) fn claim(caller: &Caller<'_>, input: ClaimInput) -> Result<Given, ToolError> {
    let executor = executor(caller)?;
    let request = Claim { request_id: Some(input.request_id), queues: input.queues };
    let found = hub::claim(caller.hub, &executor, &request)?;
    if let Some(found) = found {
        return match input.part {
            Some(part) => given(&claimed::paged(&found, caller.hub, part, input.offset.unwrap_or_default())?),
            None => given(&claimed::filled(&found, caller.hub)),
        };
    }
    let until = match caller.resumed {
        Some(wait) => wait.until,
        None => caller.hub.now() + i64::from(input.wait_seconds.unwrap_or_default()) * 1000,
    };
    if until <= caller.hub.now() || !caller.may_wait {
        return given(&Claimed::nothing(refusals::rest(&executor, caller.hub.now())));
    }
    let addresses = hub::addresses(&executor, &request)?;
    Ok(Given::Wait(Wait { until, on: Topic::Ready(addresses), since: 0 }))
}

pub(super) fn heartbeat(caller: &Caller<'_>, input: HeartbeatInput) -> Result<Given, ToolError> {
    let executor = executor(caller)?;
    if input.question.is_some() && input.state == Some(BeatState::Working) {
        return Err(ToolError::invalid_field("question", "A working attempt asks nothing; leave state out."));
    }
    let brought = brought(&input);
    let call = AttemptCall {
        executor: &executor.name,
        task_id: &input.task_id,
        claim_token: &input.claim_token,
        verb: "heartbeat",
        brought: &brought,
    };
    let beat = Heartbeat {
        blocked: input.state == Some(BeatState::InputRequired) || input.question.is_some(),
        note: input.note,
        progress: input.progress,
        checkpoint: input.checkpoint,
        question: input.question,
    };
    let beat = hub::heartbeat(caller.hub, &call, &beat)?;
    given(&HeartbeatOutput {
        state: beat.state.as_str(),
        lease_expires_at: beat.lease_expires_at.map(Moment),
        heartbeat_every_seconds: heartbeat_every_seconds(caller.hub.settings()),
        messages: beat.messages.iter().map(claimed::Message::from).collect(),
        next: next(beat.state).to_owned(),
    })
}

pub(super) fn finish(caller: &Caller<'_>, input: FinishInput) -> Result<Given, ToolError> {
    let executor = executor(caller)?;
    let retryable = input.retryable.unwrap_or_default();
    if input.status != ResultStatus::Failed && (retryable || input.error.is_some()) {
        return Err(ToolError::invalid_field("error and retryable", "They belong to status failed."));
    }
    if input.status != ResultStatus::Blocked && input.question.is_some() {
        return Err(ToolError::invalid_field("question", "It belongs to status blocked."));
    }
    let brought = brought(&input);
    let call = AttemptCall {
        executor: &executor.name,
        task_id: &input.task_id,
        claim_token: &input.claim_token,
        verb: "result",
        brought: &brought,
    };
    let report = Report {
        outcome: match input.status {
            ResultStatus::Completed => hub::Outcome::Completed,
            ResultStatus::Failed => hub::Outcome::Failed { retryable },
            ResultStatus::Blocked => hub::Outcome::Blocked,
        },
        result: input.result,
        data: input.data,
        error: input.error,
        external_actions: input.external_actions.map(|actions| json!(actions)),
        question: input.question,
    };
    let ended = hub::report(caller.hub, &call, &report)?;
    let (state, again_at) = (ended.state.as_str(), ended.retry_at.map(Moment));
    let next = match (input.status, ended.state) {
        // The hub asks about an action; this attempt is over all the same.
        (ResultStatus::Completed | ResultStatus::Failed, State::InputRequired) => AFTER_THE_END,
        (_, state) => next(state),
    };
    given(&EndOutput { task_id: input.task_id, state, again_at, next: next.to_owned() })
}

pub(super) fn defer(caller: &Caller<'_>, input: DeferInput) -> Result<Given, ToolError> {
    let executor = executor(caller)?;
    let brought = brought(&input);
    let call = AttemptCall {
        executor: &executor.name,
        task_id: &input.task_id,
        claim_token: &input.claim_token,
        verb: "defer",
        brought: &brought,
    };
    let defer = Defer { seconds: input.seconds, note: input.note, checkpoint: input.checkpoint };
    let deferred = hub::defer(caller.hub, &call, &defer)?;
    let (state, again_at) = (State::Waiting.as_str(), Some(Moment(deferred.visible_at)));
    given(&EndOutput { task_id: input.task_id, state, again_at, next: next(State::Waiting).to_owned() })
}
