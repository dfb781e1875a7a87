//! `attach_file`.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{executor, refused};
#[cfg(not(target_arch = "wasm32"))]
use crate::domain::limits::FILE_NAME_BYTES_MAX;
use crate::executor::refusals;
use crate::hub::{self, AttemptCall, NewFile};
use crate::mcp::answer::{Given, ToolError, given};
use crate::mcp::dispatch::Caller;
use crate::mcp::tools::files;

#[derive(Debug, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in super::super) struct AttachInput {
    /// The task, as claim_task gave it.
    task_id: String,
    /// The claim_token that claim_task gave.
    claim_token: String,
    /// What the file is called, with its extension.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(min = 1, max = FILE_NAME_BYTES_MAX)))]
    name: String,
    /// Its media type; by the name if left out.
    content_type: Option<String>,
    /// Its content, of a text. Give this or base64.
    text: Option<String>,
    /// Its content in base64.
    base64: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct AttachOutput {
    file_id: String,
    /// As it is kept: without what no file may be called.
    name: String,
    content_type: String,
    /// In bytes.
    size: i64,
    sha256: String,
    /// What to do now.
    next: &'static str,
}

pub(in super::super) fn attach(caller: &Caller<'_>, input: AttachInput) -> Result<Given, ToolError> {
    let executor = executor(caller)?;
    let bytes = files::content("", input.text, input.base64.as_deref())?;
    let brought = json!({ "name": input.name, "size": bytes.len() });
    let call = AttemptCall {
        executor: &executor.name,
        task_id: &input.task_id,
        claim_token: &input.claim_token,
        verb: "attachment",
        brought: &brought,
    };
    let file = NewFile { name: input.name, content_type: input.content_type, bytes };
    let kept = hub::attach(caller.hub, &call, &file).map_err(|rejected| refused(refusals::file(&rejected)))?;
    given(&AttachOutput {
        file_id: kept.id,
        name: kept.name,
        content_type: kept.content_type,
        size: kept.size,
        sha256: kept.sha256,
        next: "It is kept with the task. Go on, or end with finish_task.",
    })
}
