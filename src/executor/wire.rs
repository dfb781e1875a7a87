//! What travels between executors and the hub. Times are milliseconds of Unix time.

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::refusals;
use crate::domain::file::FileKind;
use crate::domain::limits;
use crate::domain::settings::Settings;
use crate::domain::task::Address;
use crate::hub::{ActionView, Claimed, FileView, LinkedFile, Message, Note, claims_again_at, claims_today};
use crate::store::executors::ExecutorRow;

/// Body of `POST /executor/claim`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimBody {
    /// Names this claim, so that it can be repeated.
    pub request_id: Option<String>,
    /// Only these of the executor's queues.
    pub queues: Option<Vec<String>>,
    /// How long to wait for work, 0 to 25.
    #[serde(default)]
    pub wait_seconds: u32,
}

/// Body of `POST /executor/heartbeat`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatBody {
    /// The task.
    pub task_id: String,
    /// The claim token, unless it is in `X-Claim-Token`.
    pub claim_token: Option<String>,
    /// A line about what is going on.
    pub note: Option<String>,
    /// 0 to 1.
    pub progress: Option<f64>,
    /// What the next attempt should know if this one dies.
    pub checkpoint: Option<Json>,
    /// `working` (default) or `input-required`.
    pub state: Option<BeatState>,
    /// What the submitter is asked; implies `input-required`.
    pub question: Option<String>,
}

/// The states that a heartbeat may report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BeatState {
    /// At work.
    Working,
    /// Waiting for a person.
    InputRequired,
}

/// Body of `POST /executor/result`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultBody {
    /// The task.
    pub task_id: String,
    /// The claim token, unless it is in `X-Claim-Token`.
    pub claim_token: Option<String>,
    /// How the attempt ended.
    pub status: ResultStatus,
    /// The result as text.
    pub result: Option<String>,
    /// The result as data.
    pub data: Option<Json>,
    /// What went wrong.
    pub error: Option<String>,
    /// Whether another attempt may help; false if it is not said.
    #[serde(default)]
    pub retryable: bool,
    /// What was done outside.
    pub external_actions: Option<Vec<Json>>,
    /// What the submitter is asked, if the attempt is blocked.
    pub question: Option<String>,
    /// Claims the next task in the same call.
    pub next: Option<NextBody>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    /// Done.
    Completed,
    /// Not done.
    Failed,
    /// A person is needed.
    Blocked,
}

/// The claim in a result.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NextBody {
    /// Names the claim; without one, the result's own claim token does.
    pub request_id: Option<String>,
    /// Only these of the executor's queues.
    pub queues: Option<Vec<String>>,
}

/// Body of `POST /executor/defer`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeferBody {
    /// The task.
    pub task_id: String,
    /// The claim token, unless it is in `X-Claim-Token`.
    pub claim_token: Option<String>,
    /// After how many seconds the task comes back.
    pub seconds: u32,
    /// Why.
    pub note: Option<String>,
    /// What the next attempt should know.
    pub checkpoint: Option<Json>,
}

/// Body of `POST /executor/release`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseBody {
    /// The task.
    pub task_id: String,
    /// The claim token, unless it is in `X-Claim-Token`.
    pub claim_token: Option<String>,
    /// Why.
    pub note: Option<String>,
    /// What the next attempt should know.
    pub checkpoint: Option<Json>,
}

/// Body of `POST /executor/action`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionBody {
    /// The task.
    pub task_id: String,
    /// The claim token, unless it is in `X-Claim-Token`.
    pub claim_token: Option<String>,
    /// Which step of the task the action belongs to, by a name that every attempt gives it.
    pub step_id: String,
    /// With what it is done.
    pub tool: String,
    /// What tells it from other actions of this step and tool.
    #[serde(default)]
    pub params: Json,
    /// What is said of it.
    pub status: ActionStatus,
    /// What came of it, for `done` and `failed`.
    pub outcome: Option<Json>,
}

/// What is said of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionStatus {
    /// It is about to be done.
    Begin,
    /// It happened.
    Done,
    /// It did not happen.
    Failed,
}

/// Body of `POST /executor/ping`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PingBody {
    /// The executor's version.
    pub version: Option<String>,
    /// What it can do.
    pub capabilities: Option<Vec<String>>,
}

/// Body of `POST /executor/enroll`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnrollBody {
    /// What the owner handed out.
    pub code: String,
    /// Names the machine, so that it alone can ask again.
    pub nonce: String,
}

/// A message as executors see it.
#[derive(Clone, Debug, Serialize)]
pub struct MessageOut {
    seq: i64,
    at: i64,
    from: String,
    text: String,
}

impl From<&Message> for MessageOut {
    fn from(message: &Message) -> Self {
        let Message { seq, at, from, text } = message.clone();
        Self { seq, at, from, text }
    }
}

fn note(note: &Note) -> Json {
    json!({ "attempt": note.attempt, "at": note.at, "ended": note.ended, "note": note.note })
}

/// An action as executors and the owner see it.
pub fn action(action: &ActionView) -> Json {
    json!({
        "step_id": action.step_id,
        "tool": action.tool,
        "params": action.params,
        "idempotency_key": action.idempotency_key,
        "status": action.standing.as_str(),
        "outcome": action.outcome,
        "attempt": action.attempt,
        "began_at": action.began_at,
        "ended_at": action.ended_at,
    })
}

/// A file as executors see it.
pub fn file(file: &FileView) -> Json {
    json!({
        "id": file.id,
        "task_id": file.task_id,
        "kind": file.kind.as_str(),
        "name": file.name,
        "content_type": file.content_type,
        "size": file.size,
        "sha256": file.sha256,
        "attempt": file.attempt,
        "created_at": file.created_at,
    })
}

/// Those of these files that go this way, each with its link.
pub fn linked_files(files: &[LinkedFile], kind: FileKind) -> Vec<Json> {
    files.iter().filter(|linked| linked.file.kind == kind).map(linked_file).collect()
}

fn linked_file(linked: &LinkedFile) -> Json {
    let mut shown = file(&linked.file);
    shown["url"] = json!(linked.url);
    shown["url_expires_at"] = json!(linked.url_expires_at);
    shown
}

/// How often a heartbeat is due, in seconds: a third of the lease.
pub fn heartbeat_every_seconds(settings: &Settings) -> i64 {
    (settings.lease_ms / 3000).max(1)
}

/// The answer to a claim.
pub fn claimed(claimed: &Claimed, settings: &Settings) -> Json {
    let full = &claimed.task.full;
    let head = &full.head;
    let (executor, queue) = (head.address.executor_name(), head.address.queue_name());
    let messages: Vec<MessageOut> = claimed.task.messages.iter().map(MessageOut::from).collect();
    let notes: Vec<Json> = claimed.task.notes.iter().map(note).collect();
    let actions: Vec<Json> = claimed.task.actions.iter().map(action).collect();
    json!({
        "task": {
            "id": head.id,
            "title": head.title,
            "instructions": full.instructions,
            "context": full.context,
            "priority": head.priority,
            "executor": executor,
            "queue": queue,
            "attempt": claimed.attempt,
            "failures": head.life.failures,
            "max_attempts": head.life.max_attempts,
            "created_at": head.created_at,
            "deadline_at": head.life.deadline_at,
            "retry_of": head.retry_of,
        },
        "attempt": claimed.attempt,
        "claim_token": claimed.claim_token,
        "lease_expires_at": claimed.lease_expires_at,
        "lease_seconds": settings.lease_ms / 1000,
        "heartbeat_every_seconds": heartbeat_every_seconds(settings),
        "context": {
            "checkpoint": full.checkpoint,
            "messages": messages,
            "notes": notes,
            "actions": actions,
            "input_files": linked_files(&claimed.files, FileKind::Input),
            "files": linked_files(&claimed.files, FileKind::Output),
            "depends_on": [],
        },
    })
}

/// The answer to a ping. An executor that gets one is online, and not disabled.
pub fn pong(executor: &ExecutorRow, queues: &[(String, u32)], held: u32, now: i64, settings: &Settings) -> Json {
    let name = &executor.name;
    let ready: u32 = queues.iter().map(|(_, ready)| ready).sum();
    let next = match refusals::rest(executor, now) {
        Some(rest) => rest,
        None if ready > 0 => "Tasks are waiting: claim one.".to_owned(),
        None => "Nothing is waiting; claim with wait_seconds to be given the next task as soon as it comes.".to_owned(),
    };
    let queues: Vec<Json> = queues
        .iter()
        .map(|(address, ready)| match Address::parse(address) {
            Some(Address::Queue(queue)) => json!({ "name": queue, "ready": ready }),
            _ => json!({ "name": null, "ready": ready, "addressed_to": name }),
        })
        .collect();
    json!({
        "executor": name,
        "version": executor.version,
        "capabilities": executor.capabilities,
        "queues": queues,
        "held": held,
        "paused": executor.paused_at.is_some(),
        "approval": executor.approval.as_str(),
        "tasks_today": executor.max_tasks_per_day.map(|_| claims_today(executor, now)),
        "claims_again_at": claims_again_at(executor, now),
        "next": next,
        "server_time": now,
        "hub_version": env!("CARGO_PKG_VERSION"),
        "limits": {
            "max_concurrent": executor.max_concurrent,
            "max_tasks_per_day": executor.max_tasks_per_day,
            "lease_seconds": settings.lease_ms / 1000,
            "heartbeat_every_seconds": heartbeat_every_seconds(settings),
            "claim_wait_seconds_max": limits::CLAIM_WAIT_SECONDS_MAX,
            "defer_seconds_max": limits::DEFER_SECONDS_MAX,
            "result_bytes_max": settings.result_bytes_max,
            "attachment_bytes_max": settings.attachment_bytes_max,
            "task_attachments_bytes_max": settings.task_attachments_bytes_max,
            "task_files_max": limits::TASK_FILES_MAX,
            "checkpoint_bytes_max": limits::CHECKPOINT_BYTES_MAX,
            "note_chars_max": limits::NOTE_CHARS_MAX,
            "question_chars_max": limits::MESSAGE_CHARS_MAX,
            "error_chars_max": limits::ERROR_CHARS_MAX,
            "actions_max": limits::ACTIONS_MAX,
            "action_params_bytes_max": limits::ACTION_PARAMS_BYTES_MAX,
            "action_outcome_bytes_max": limits::ACTION_OUTCOME_BYTES_MAX,
            "request_body_bytes_max": limits::REQUEST_BODY_BYTES_MAX,
        },
    })
}
