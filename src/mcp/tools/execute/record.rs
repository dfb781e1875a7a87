//! `record_action`: the ledger of outside actions.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

#[cfg(not(target_arch = "wasm32"))]
use super::abouts;
use super::{brought, executor, refused};
#[cfg(not(target_arch = "wasm32"))]
use crate::domain::limits::ACTION_NAME_BYTES_MAX;
use crate::executor::refusals;
use crate::executor::wire::ActionStatus;
use crate::hub::{self, Act, AttemptCall, Record};
use crate::mcp::answer::{Given, ToolError, given};
use crate::mcp::dispatch::Caller;
#[cfg(not(target_arch = "wasm32"))]
use crate::mcp::tools::view;

#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RecordInput {
    /// The task, as claim_task gave it.
    task_id: String,
    /// The claim_token that claim_task gave.
    claim_token: String,
    /// Which step of the task this is: a name that you would give it in every attempt, such as pay-invoice.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(min = 1, max = ACTION_NAME_BYTES_MAX)))]
    step_id: String,
    /// With what you do it: a tool, a service, a command.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(min = 1, max = ACTION_NAME_BYTES_MAX)))]
    tool: String,
    /// What tells this action from others of the same step and tool: amounts, recipients, ids; any JSON. Nothing that differs
    /// between attempts, such as the time.
    params: Option<Json>,
    /// begin: you are about to do it. done: it happened. failed: it did not.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "abouts::records"))]
    status: ActionStatus,
    /// What came of it, for done and failed: any JSON, such as the receipt's number.
    outcome: Option<Json>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(in super::super) struct RecordOutput {
    /// The action's key, the same in every attempt; pass it on where the other side takes one.
    idempotency_key: String,
    /// Whether it is begun now for the first time ever.
    first: bool,
    /// begun: by you, now. unknown: an earlier attempt began it, and nobody knows whether it happened. done and failed: as it says.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::standings"))]
    status: &'static str,
    /// What came of it, if it is done or failed.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::any"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Json>,
    /// The attempt that began it.
    attempt: u32,
    /// What to do now.
    next: String,
}

pub(in super::super) fn record(caller: &Caller<'_>, input: RecordInput) -> Result<Given, ToolError> {
    let executor = executor(caller)?;
    let brought = brought(&input);
    let record = match input.status {
        ActionStatus::Begin if input.outcome.is_some() => {
            return Err(ToolError::invalid_field("outcome", "It belongs to done or failed; leave it out of begin."));
        }
        ActionStatus::Begin => Record::Begin,
        ActionStatus::Done => Record::Done(input.outcome),
        ActionStatus::Failed => Record::Failed(input.outcome),
    };
    let call = AttemptCall {
        executor: &executor.name,
        task_id: &input.task_id,
        claim_token: &input.claim_token,
        verb: "action",
        brought: &brought,
    };
    let act = Act { step_id: input.step_id, tool: input.tool, params: input.params.unwrap_or_default(), record };
    let acted = hub::act(caller.hub, &call, &act).map_err(|rejected| refused(refusals::action(&rejected)))?;
    let next = refusals::after_action(&act.record, &acted);
    given(&RecordOutput {
        idempotency_key: acted.idempotency_key,
        first: acted.first,
        status: acted.standing.as_str(),
        outcome: acted.outcome,
        attempt: acted.attempt,
        next,
    })
}
