//! The tools, one file a group.
//!
//! Each group owns the types of its arguments and answers, what is said about its tools to a model that has never seen
//! the hub, and the mapping from the hub's refusals to sentences; exhaustive on purpose. A tool calls one command.

mod approve;
mod change;
mod enroll;
mod execute;
mod executors;
mod files;
mod get;
mod list;
mod status;
mod submit;
mod view;

use serde_json::{Map, Value as Json};

use super::answer::{Given, ToolError};
use super::arguments::read;
use super::dispatch::Caller;
use crate::domain::scope::Scope;

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `submit_task`
    SubmitTask,
    /// `get_task`
    GetTask,
    /// `list_tasks`
    ListTasks,
    /// `answer_task`
    AnswerTask,
    /// `approve_task`
    ApproveTask,
    /// `cancel_task`
    CancelTask,
    /// `retry_task`
    RetryTask,
    /// `wake_executor`
    WakeExecutor,
    /// `list_executors`
    ListExecutors,
    /// `enroll_executor`
    EnrollExecutor,
    /// `hub_status`
    HubStatus,
    /// `get_attachment`
    GetAttachment,
    /// `create_upload_link`
    CreateUploadLink,
    /// `claim_task`
    ClaimTask,
    /// `heartbeat_task`
    HeartbeatTask,
    /// `finish_task`
    FinishTask,
    /// `defer_task`
    DeferTask,
    /// `record_action`
    RecordAction,
    /// `attach_file`
    AttachFile,
}

/// What is said about a tool.
#[cfg(not(target_arch = "wasm32"))]
pub struct About {
    /// For people.
    pub title: &'static str,
    /// For the model: what it does, when to use it, what comes next.
    pub description: &'static str,
    /// It changes nothing.
    pub reads_only: bool,
    /// It may undo or end something.
    pub destroys: bool,
    /// Calling it twice with the same arguments is the same as once.
    pub is_idempotent: bool,
    /// It sets something going outside the hub.
    pub reaches_out: bool,
    /// The schema of its arguments.
    pub input: fn() -> Json,
    /// The schema of its answer.
    pub output: fn() -> Json,
}

impl Tool {
    /// Every tool, in the order in which a model reads them.
    pub const ALL: [Self; 19] = [
        Self::SubmitTask,
        Self::GetTask,
        Self::GetAttachment,
        Self::CreateUploadLink,
        Self::ListTasks,
        Self::AnswerTask,
        Self::ApproveTask,
        Self::CancelTask,
        Self::RetryTask,
        Self::WakeExecutor,
        Self::ListExecutors,
        Self::EnrollExecutor,
        Self::HubStatus,
        Self::ClaimTask,
        Self::HeartbeatTask,
        Self::FinishTask,
        Self::DeferTask,
        Self::RecordAction,
        Self::AttachFile,
    ];

    /// The tool's name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::SubmitTask => "submit_task",
            Self::GetTask => "get_task",
            Self::ListTasks => "list_tasks",
            Self::AnswerTask => "answer_task",
            Self::ApproveTask => "approve_task",
            Self::CancelTask => "cancel_task",
            Self::RetryTask => "retry_task",
            Self::WakeExecutor => "wake_executor",
            Self::ListExecutors => "list_executors",
            Self::EnrollExecutor => "enroll_executor",
            Self::HubStatus => "hub_status",
            Self::ClaimTask => "claim_task",
            Self::HeartbeatTask => "heartbeat_task",
            Self::FinishTask => "finish_task",
            Self::DeferTask => "defer_task",
            Self::RecordAction => "record_action",
            Self::GetAttachment => "get_attachment",
            Self::CreateUploadLink => "create_upload_link",
            Self::AttachFile => "attach_file",
        }
    }

    /// The tool of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// The scope that calling it takes.
    pub fn scope(self) -> Scope {
        match self {
            Self::GetTask | Self::GetAttachment | Self::ListTasks => Scope::TasksRead,
            Self::ListExecutors | Self::HubStatus => Scope::TasksRead,
            Self::SubmitTask | Self::CreateUploadLink | Self::AnswerTask | Self::ApproveTask => Scope::TasksWrite,
            Self::CancelTask | Self::RetryTask | Self::WakeExecutor => Scope::TasksWrite,
            Self::ClaimTask | Self::HeartbeatTask | Self::FinishTask | Self::DeferTask => Scope::TasksExecute,
            Self::RecordAction | Self::AttachFile => Scope::TasksExecute,
            // It hands out a credential.
            Self::EnrollExecutor => Scope::HubAdmin,
        }
    }

    /// What is said about it.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn about(self) -> About {
        match self {
            Self::SubmitTask => submit::about(),
            Self::GetTask => get::about(),
            Self::ListTasks => list::about(),
            Self::AnswerTask => change::about_answer(),
            Self::ApproveTask => approve::about(),
            Self::CancelTask => change::about_cancel(),
            Self::RetryTask => change::about_retry(),
            Self::WakeExecutor => executors::about_wake(),
            Self::ListExecutors => executors::about_list(),
            Self::EnrollExecutor => enroll::about(),
            Self::HubStatus => status::about(),
            Self::ClaimTask => execute::about_claim(),
            Self::HeartbeatTask => execute::about_heartbeat(),
            Self::FinishTask => execute::about_finish(),
            Self::DeferTask => execute::about_defer(),
            Self::RecordAction => execute::about_record(),
            Self::GetAttachment => files::about_get(),
            Self::CreateUploadLink => files::about_upload(),
            Self::AttachFile => execute::about_attach(),
        }
    }

    /// Calls it.
    pub(super) fn call(self, caller: &Caller<'_>, arguments: Map<String, Json>) -> Result<Given, ToolError> {
        match self {
            Self::SubmitTask => submit::call(caller, read(self, arguments)?),
            Self::GetTask => get::call(caller, read(self, arguments)?),
            Self::ListTasks => list::call(caller, read(self, arguments)?),
            Self::AnswerTask => change::answer(caller, read(self, arguments)?),
            Self::ApproveTask => approve::call(caller, read(self, arguments)?),
            Self::CancelTask => change::cancel(caller, read(self, arguments)?),
            Self::RetryTask => change::retry(caller, read(self, arguments)?),
            Self::WakeExecutor => executors::wake(caller, read(self, arguments)?),
            Self::ListExecutors => executors::list(caller, read(self, arguments)?),
            Self::EnrollExecutor => enroll::call(caller, read(self, arguments)?),
            Self::HubStatus => status::call(caller, read(self, arguments)?),
            Self::ClaimTask => execute::claim(caller, read(self, arguments)?),
            Self::HeartbeatTask => execute::heartbeat(caller, read(self, arguments)?),
            Self::FinishTask => execute::finish(caller, read(self, arguments)?),
            Self::DeferTask => execute::defer(caller, read(self, arguments)?),
            Self::RecordAction => execute::record(caller, read(self, arguments)?),
            Self::GetAttachment => files::get(caller, read(self, arguments)?),
            Self::CreateUploadLink => files::open_upload(caller, read(self, arguments)?),
            Self::AttachFile => execute::attach(caller, read(self, arguments)?),
        }
    }
}
