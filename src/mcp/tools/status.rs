//! `hub_status`.

use serde::{Deserialize, Serialize};

use crate::domain::executor::Approval;
use crate::domain::settings::Settings;
use crate::domain::text::shorten;
use crate::hub::{self, ExecutorView, HubStatus};
use crate::mcp::answer::{Given, ToolError, given};
use crate::mcp::budget;
use crate::mcp::dispatch::Caller;
use crate::mcp::moment::Moment;
use crate::store::outbox::{Kind, OutboxRow};

/// What the executors may cost, and the queues as much; the rest is for everything else.
const LIST_COST_MAX: usize = 12_000;
/// How much is shown of where a message was to go, in characters.
const SUBJECT_SHOWN_CHARS_MAX: usize = 100;
/// How much is shown of what a client calls itself, in characters.
const CLIENT_NAME_SHOWN_CHARS_MAX: usize = 40;
/// Troubles that are told.
const TROUBLES_MAX: usize = 10;

#[derive(Debug, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Input {}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct Output {
    /// The hub's clock.
    time: Moment,
    /// The hub's version.
    version: &'static str,
    /// The version of its database.
    schema: i64,
    /// What needs attention; empty if all is well.
    attention: Vec<String>,
    /// By name.
    executors: Vec<Executor>,
    /// Queues that somebody serves, those with tasks first.
    queues: Vec<Queue>,
    /// Whether executors or queues were left out for length; list_executors shows all.
    left_out: bool,
    /// What is stored.
    storage: Storage,
    /// When a timer runs out next.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_due_at: Option<Moment>,
    /// What to do now.
    next: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
struct Executor {
    name: String,
    /// Whether it called within the last minute, or listens.
    online: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seen_at: Option<Moment>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    capabilities: Vec<String>,
    /// always: its tasks wait for the owner's word.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<&'static str>,
    max_concurrent: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tasks_per_day: Option<u32>,
    /// Tasks it could claim now.
    ready: u32,
    /// Tasks it has now.
    held: u32,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
struct Queue {
    name: String,
    /// Tasks to be claimed, counted up to 1,000.
    ready: u32,
    /// Tasks that wait for time, tasks, approval or something outside, counted up to 1,000.
    waiting: u32,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
struct Storage {
    files: i64,
    /// Bytes of the files; what tasks share counts once.
    file_bytes: i64,
    /// Bytes that the whole database takes.
    database_bytes: i64,
}

#[cfg(not(target_arch = "wasm32"))]
pub(super) fn about() -> super::About {
    super::About {
        title: "Look at the whole hub",
        description: "Shows the hub at a glance: which executors are there, what waits and what is being worked on, and what needs \
                      attention. Use it to find out why nothing moves. list_tasks and list_executors show the details.",
        reads_only: true,
        destroys: false,
        is_idempotent: true,
        reaches_out: false,
        input: crate::mcp::schema::input::<Input>,
        output: crate::mcp::schema::output::<Output>,
    }
}

pub(super) fn call(caller: &Caller<'_>, _: Input) -> Result<Given, ToolError> {
    let status = hub::hub_status(caller.hub)?;
    let attention = attention(&status, caller.hub.settings());
    let mut executors: Vec<Executor> = status.executors.iter().map(executor).collect();
    let queue = |(name, (ready, waiting)): (&String, &(u32, u32))| Queue {
        name: name.clone(),
        ready: *ready,
        waiting: *waiting,
    };
    let mut queues: Vec<Queue> = status.queues.iter().map(queue).collect();
    queues.sort_by_key(|queue| queue.ready + queue.waiting == 0);
    let shown = (budget::fitting(&executors, LIST_COST_MAX), budget::fitting(&queues, LIST_COST_MAX));
    let left_out = shown.0 < executors.len() || shown.1 < queues.len();
    executors.truncate(shown.0);
    queues.truncate(shown.1);
    let next = if status.executors.is_empty() {
        "Tell your user to create an executor (POST /api/executors) and to start it; nothing can be done without one."
    } else if attention.is_empty() {
        "Nothing needs attention. list_tasks shows the tasks, submit_task submits one."
    } else {
        "See attention; list_tasks with states [\"submitted\", \"dispatched\"] shows what is not picked up."
    };
    given(&Output {
        time: Moment(status.time),
        version: status.version,
        schema: status.schema,
        attention,
        executors,
        queues,
        left_out,
        storage: Storage {
            files: status.storage.files,
            file_bytes: status.storage.file_bytes,
            database_bytes: status.storage.database_bytes,
        },
        next_due_at: status.next_due_at.map(Moment),
        next: next.to_owned(),
    })
}

fn executor(executor: &ExecutorView) -> Executor {
    let row = &executor.row;
    Executor {
        name: row.name.clone(),
        online: executor.online,
        last_seen_at: executor.last_seen_at.map(Moment),
        paused: row.paused_at.is_some(),
        disabled: row.disabled_at.is_some(),
        version: row.version.clone(),
        capabilities: row.capabilities.clone(),
        approval: (row.approval != Approval::Never).then(|| row.approval.as_str()),
        max_concurrent: row.max_concurrent,
        max_tasks_per_day: row.max_tasks_per_day,
        ready: executor.ready,
        held: executor.held,
    }
}

/// What was to be told outside, and could not be.
fn given_up(status: &HubStatus) -> Option<String> {
    let latest = status.dead.first()?;
    let (count, kind) = (status.dead.len(), latest.kind.as_str());
    let to = shorten(addressee(latest), SUBJECT_SHOWN_CHARS_MAX);
    let why = latest.last_status.as_deref().unwrap_or("it is not known why");
    Some(format!(
        "Messages that could not be delivered: {count}; the latest is a {kind} to {to} ({why}). GET /api/outbox lists them, POST \
         /api/outbox/ID/retry sends one again, DELETE /api/outbox/ID forgets it."
    ))
}

/// To whom a message is, in words for everybody who may look: the rest of a callback's address may be a credential of another
/// client.
fn addressee(row: &OutboxRow) -> &str {
    if row.kind != Kind::Callback {
        return &row.subject;
    }
    let host = row.subject.split_once("://").map_or("", |(_, rest)| rest);
    host.split(['/', '?', '#']).next().unwrap_or_default()
}

/// Notices that cannot be sent, messages that were given up, executors for which tasks wait and that are not there, and clients
/// of whose credentials somebody has a copy.
fn attention(status: &HubStatus, settings: &Settings) -> Vec<String> {
    let ntfy = match (&settings.ntfy, &status.notice_refused) {
        (Err(words), _) => Some(format!(
            "The user is not told of anything by ntfy, for its configuration is wrong: {words} Tell your user."
        )),
        (Ok(_), Some(why)) => Some(format!(
            "Notices to the user's phone do not get through ({why}) and are tried again. POST /api/notify/test says what to mend."
        )),
        (Ok(_), None) => None,
    };
    let replayed = status.replayed.iter().map(|grant| {
        let name = shorten(grant.client_name.as_deref().unwrap_or(&grant.client_id), CLIENT_NAME_SHOWN_CHARS_MAX);
        let at = grant.revoked.map_or_else(String::new, |(at, _)| format!(" at {}", Moment(at)));
        format!(
            "The client that calls itself \"{name}\" was signed out{at}: a code or refresh token of it was used a second time, so somebody may have a \
             copy. Tell your user; signing in anew is safe."
        )
    });
    let idle = |executor: &&ExecutorView| executor.ready > 0 && (!executor.online || !executor.row.is_at_work());
    ntfy.into_iter()
        .chain(replayed)
        .chain(given_up(status))
        .chain(status.executors.iter().filter(idle).take(TROUBLES_MAX).map(idle_told))
        .collect()
}

/// An executor for which tasks wait, and that does not take them.
fn idle_told(executor: &ExecutorView) -> String {
    let (name, ready) = (&executor.row.name, executor.ready);
    let seen = match (executor.online, executor.last_seen_at) {
        (true, _) => "is there".to_owned(),
        (false, Some(at)) => format!("was last seen at {}", Moment(at)),
        (false, None) => "has not been seen".to_owned(),
    };
    let switch = |how: &str, field: &str| {
        format!("The owner has {how} it; PATCH /api/executors/{name} with {{\"{field}\": false}} ends that.")
    };
    let remedy = match (executor.row.disabled_at, executor.row.paused_at) {
        (Some(_), _) => switch("disabled", "disabled"),
        (None, Some(_)) => switch("paused", "paused"),
        (None, None) if executor.wake.is_sent() => "wake_executor calls it.".to_owned(),
        (None, None) => "It only polls: is it running?".to_owned(),
    };
    let tasks = if ready == 1 { "1 task waits".to_owned() } else { format!("{ready} tasks wait") };
    format!("{tasks} for {name}, which {seen}. {remedy}")
}
