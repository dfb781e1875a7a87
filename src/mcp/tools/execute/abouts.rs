//! What is said about the executor's tools to a model that works on tasks.

use super::super::About;
use super::attach::{AttachInput, AttachOutput};
use super::claimed::Claimed;
use super::record::{RecordInput, RecordOutput};
use super::{ClaimInput, DeferInput, EndOutput, FinishInput, HeartbeatInput, HeartbeatOutput};
use crate::mcp::schema::{input, output, words};

/// The schema of a state that a heartbeat may report.
pub(super) fn beat_states(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    words(["working", "input-required"])
}

/// The schema of a status of a result.
pub(super) fn statuses(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    words(["completed", "failed", "blocked"])
}

/// The schema of what is said of an action.
pub(super) fn records(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    words(["begin", "done", "failed"])
}

pub(in super::super) fn about_record() -> About {
    About {
        title: "Record an outside action",
        description: "Keeps what must not happen twice from happening twice, whatever becomes of you: a payment, a message, an order. \
                      Before you do such a thing, call this with status begin; do it only if the answer says so in next. Then call it \
                      with done or failed and the outcome. If first is false, read status: done gives the outcome of before; unknown \
                      means that an earlier attempt may have done it, so look first. Use the same step_id, tool and params for the same \
                      action in every attempt. It does not renew the lease.",
        reads_only: false,
        destroys: false,
        is_idempotent: true,
        reaches_out: false,
        input: input::<RecordInput>,
        output: output::<RecordOutput>,
    }
}

pub(in super::super) fn about_claim() -> About {
    About {
        title: "Claim a task",
        description: "Gives you the next task to work on, with a claim_token and a lease. Call it with a new request_id and \
                      wait_seconds 25. Then do what its instructions say, send heartbeat_task at least every \
                      heartbeat_every_seconds, and end with finish_task. If claimed is false, there is nothing to do: call it \
                      again later. Long texts come in pages: when truncated names a part, call again with the same request_id, \
                      part and offset before you begin.",
        reads_only: false,
        destroys: false,
        is_idempotent: true,
        reaches_out: false,
        input: input::<ClaimInput>,
        output: output::<Claimed>,
    }
}

pub(in super::super) fn about_heartbeat() -> About {
    About {
        title: "Keep a task alive",
        description: "Says that you are still at work, so that the task is not given to another attempt, and brings answers to your \
                      questions. Leave a checkpoint of what is done, for the next attempt if you stop. With a question, the \
                      task waits for its submitter: go on calling this with state input-required until messages holds the answer.",
        reads_only: false,
        destroys: false,
        is_idempotent: true,
        reaches_out: false,
        input: input::<HeartbeatInput>,
        output: output::<HeartbeatOutput>,
    }
}

pub(in super::super) fn about_finish() -> About {
    About {
        title: "Finish a task",
        description: "Ends your attempt: completed with its result, failed with the error and whether another attempt may help, or \
                      blocked with a question for a person. Sending the same again changes nothing, so repeat it when the answer \
                      was lost. Then call claim_task for the next task.",
        reads_only: false,
        destroys: true,
        is_idempotent: true,
        reaches_out: false,
        input: input::<FinishInput>,
        output: output::<EndOutput>,
    }
}

pub(in super::super) fn about_defer() -> About {
    About {
        title: "Put a task off",
        description: "Gives the task back until later because what it waits for is not ready yet; it costs no attempt. Leave a \
                      checkpoint, so that the next attempt need not begin anew. Then call claim_task for the next task.",
        reads_only: false,
        destroys: false,
        is_idempotent: true,
        reaches_out: false,
        input: input::<DeferInput>,
        output: output::<EndOutput>,
    }
}

pub(in super::super) fn about_attach() -> About {
    About {
        title: "Attach a file",
        description: "Keeps a small file with the task, for its submitter: a report, a table, a picture. Give its content as text, \
                      or in base64. Attach before finish_task. The same file under the same name is kept once, so repeat the \
                      call when the answer was lost.",
        reads_only: false,
        destroys: false,
        is_idempotent: true,
        reaches_out: false,
        input: input::<AttachInput>,
        output: output::<AttachOutput>,
    }
}
