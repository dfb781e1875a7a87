//! `submit_task`.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{files, view};
use crate::domain::ledger::OnUnknownAction;
#[cfg(not(target_arch = "wasm32"))]
use crate::domain::limits::{ATTEMPTS_MAX, HORIZON_SECONDS_MAX, PRIORITY_MAX, REQUEST_ID_BYTES_MAX, TITLE_CHARS_MAX};
use crate::domain::task::WaitingOn;
use crate::domain::text::shorten;
use crate::hub::{self, Attendance, NewFile, Submit, SubmitRejected, Submitted, When};
use crate::mcp::answer::{Given, ToolError, given};
use crate::mcp::dispatch::Caller;
use crate::mcp::moment::Moment;

/// Names that a refusal lists before it says how many more there are.
const NAMES_SHOWN_MAX: usize = 40;

#[derive(Debug, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// What the task is, in one line.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(min = 1, max = TITLE_CHARS_MAX)))]
    title: String,
    /// Everything the executor needs: what to do, with what, what to bring back, what to avoid. It sees nothing of this
    /// conversation.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(min = 1)))]
    instructions: String,
    /// The executor that is to do it, by its name in list_executors. Give this or queue.
    executor: Option<String>,
    /// The queue it goes to; any executor that serves the queue may take it. Give this or executor.
    queue: Option<String>,
    /// Data for the executor, any JSON: ids, addresses, settings. No secrets that it need not know.
    context: Option<Json>,
    /// 9 is most urgent, 0 least; 5 if left out.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(range(min = 0, max = PRIORITY_MAX)))]
    priority: Option<u8>,
    /// When the task fails if it is not done: RFC 3339 with an offset, such as 2026-12-31T18:00:00+01:00. Give this or
    /// deadline_seconds.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(extend("format" = "date-time")))]
    deadline: Option<String>,
    /// The deadline as seconds from now.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(range(min = 1, max = HORIZON_SECONDS_MAX)))]
    deadline_seconds: Option<i64>,
    /// When the task may be begun at the earliest: RFC 3339 with an offset. Give this or delay_seconds.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(extend("format" = "date-time")))]
    not_before: Option<String>,
    /// The earliest begin as seconds from now.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(range(min = 0, max = HORIZON_SECONDS_MAX)))]
    delay_seconds: Option<i64>,
    /// A text of your choice that names this submission. The same key with the same fields returns the task that is there
    /// already, so a call whose answer was lost can be repeated safely.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(min = 1, max = REQUEST_ID_BYTES_MAX)))]
    idempotency_key: Option<String>,
    /// How many times executors may go silent or fail in a way that is worth a retry before the task fails; 3 if left
    /// out.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(range(min = 1, max = ATTEMPTS_MAX)))]
    max_attempts: Option<u32>,
    /// Files for the executor: small ones as they are, larger ones by the file_id of create_upload_link.
    #[serde(default)]
    input_files: Vec<InputFile>,
    /// A public https address that is told when the task ends: a POST in the way of Standard Webhooks, which says how it
    /// ended and not what came of it. Leave it out if you follow the task with get_task.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(extend("format" = "uri")))]
    callback_url: Option<String>,
    /// Of which of these events of the task the user is told on the phone beside those that the hub is set to: completed,
    /// input_required, approval_required, wake_given_up, failed. Name completed if the user wants to hear when it is done; []
    /// tells nothing of this task.
    notify: Option<Vec<String>>,
    /// What happens when an attempt is lost in the middle of something that must not be done twice (a payment, a message sent) and
    /// that it had recorded with the hub. retry, or leaving it out: the next attempt begins, is told, and looks for itself. ask:
    /// the task waits until a person has said whether it happened.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "wishes_on_unknown"))]
    #[serde(default)]
    on_unknown_action: Option<String>,
}

/// The schema of `on_unknown_action`.
#[cfg(not(target_arch = "wasm32"))]
fn wishes_on_unknown(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    crate::mcp::schema::words(OnUnknownAction::ALL.map(OnUnknownAction::as_str))
}

/// One file: file_id alone; or name, and text or base64.
#[derive(Debug, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct InputFile {
    /// A file that was uploaded, or that an earlier task of yours had.
    file_id: Option<String>,
    /// What the file is called, with its extension.
    name: Option<String>,
    /// Its media type; by the name if left out.
    content_type: Option<String>,
    /// Its content, of a text.
    text: Option<String>,
    /// Its content in base64.
    base64: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct Output {
    /// The task's id, for every other tool.
    task_id: String,
    /// Where it stands.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::states"))]
    state: &'static str,
    /// Whether it was there already, under the same idempotency_key.
    existed: bool,
    /// What to do now.
    next: String,
}

#[cfg(not(target_arch = "wasm32"))]
pub(super) fn about() -> super::About {
    super::About {
        title: "Submit a task",
        description: "Hands a piece of work to an executor (another agent, or a machine) and returns at once with a task_id. Use \
                      it when the user wants something done elsewhere or later: on another computer, by a bot, overnight. \
                      Name an executor or a queue; list_executors shows both. Write instructions that stand on their own. \
                      Then call get_task with the task_id and wait_seconds to follow it and to get the result. Give an \
                      idempotency_key if you may have to repeat the call.",
        reads_only: false,
        destroys: false,
        is_idempotent: false,
        reaches_out: true,
        input: crate::mcp::schema::input::<Input>,
        output: crate::mcp::schema::output::<Output>,
    }
}

pub(super) fn call(caller: &Caller<'_>, input: Input) -> Result<Given, ToolError> {
    let deadline = when(("deadline", input.deadline), ("deadline_seconds", input.deadline_seconds))?;
    let not_before = when(("not_before", input.not_before), ("delay_seconds", input.delay_seconds))?;
    // The schema knows no other words.
    let on_unknown_action = input.on_unknown_action.as_deref().and_then(OnUnknownAction::parse);
    let files = input.input_files.into_iter().enumerate();
    let inputs = files.map(|(index, file)| input_file(index, file)).collect::<Result<_, _>>()?;
    let submit = Submit {
        submitter: caller.principal.submitter.clone(),
        title: input.title,
        instructions: input.instructions,
        executor: input.executor,
        queue: input.queue,
        context: input.context,
        priority: input.priority,
        deadline,
        not_before,
        idempotency_key: input.idempotency_key,
        max_attempts: input.max_attempts,
        callback_url: input.callback_url,
        notify: input.notify,
        on_unknown_action,
        inputs,
        ..Submit::default()
    };
    let submitted = hub::submit(caller.hub, &submit).map_err(|rejected| refused(&rejected))?;
    let next = next(&submitted);
    given(&Output { task_id: submitted.id, state: submitted.state.as_str(), existed: submitted.existed, next })
}

/// One file, as it stands at this place of the list.
fn input_file(index: usize, file: InputFile) -> Result<hub::InputFile, ToolError> {
    let field = format!("input_files[{index}].");
    match (file.file_id, file.name) {
        (Some(file_id), None) if file.text.is_none() && file.base64.is_none() && file.content_type.is_none() => {
            Ok(hub::InputFile::Uploaded { file_id })
        }
        (None, Some(name)) => {
            let bytes = files::content(&field, file.text, file.base64.as_deref())?;
            Ok(hub::InputFile::Inline(NewFile { name, content_type: file.content_type, bytes }))
        }
        _ => Err(ToolError::invalid_field(&format!("{field}name"), "Give file_id alone; or name, and text or base64.")),
    }
}

fn next(submitted: &Submitted) -> String {
    if submitted.state.is_terminal() {
        return "This task was submitted before under the same idempotency_key and is over: call get_task with the task_id to \
                read how it ended."
            .to_owned();
    }
    let mut sentences = Vec::new();
    if submitted.waiting_on == Some(WaitingOn::Approval) {
        sentences.push(view::AWAITS_APPROVAL.to_owned());
    }
    sentences.extend(submitted.attendance.as_ref().and_then(Attendance::absence));
    let seconds = view::WAIT_SECONDS_USUAL;
    sentences.push(format!("Call get_task with this task_id and wait_seconds {seconds} to follow it."));
    sentences.join(" ")
}

/// A moment that may be given in one of two ways.
fn when(at: (&str, Option<String>), after: (&str, Option<i64>)) -> Result<Option<When>, ToolError> {
    match (at.1, after.1) {
        (None, None) => Ok(None),
        (None, Some(seconds)) => Ok(Some(When::In(seconds))),
        (Some(text), None) => match Moment::parse(&text) {
            Some(Moment(ms)) => Ok(Some(When::At(ms))),
            None => {
                let shown = shorten(&text, 60);
                let detail = format!(
                    "\"{shown}\" is not a time in RFC 3339. It needs date, time and offset: 2026-12-31T18:00:00Z, or \
                     2026-12-31T18:00:00+01:00; or give {} instead.",
                    after.0
                );
                Err(ToolError::invalid_field(at.0, &detail))
            }
        },
        (Some(_), Some(_)) => Err(ToolError::invalid(format!("Give {} or {}, not both.", at.0, after.0))),
    }
}

/// What a submitter is told when nothing was created.
pub(super) fn refused(rejected: &SubmitRejected) -> ToolError {
    match rejected {
        SubmitRejected::Invalid { field, detail } => ToolError::invalid_field(field, detail),
        SubmitRejected::IdempotencyConflict { task_id } => {
            let sentence = format!(
                "This idempotency_key was used for task {task_id}, which was submitted with other fields. To read that one, \
                 call get_task. To submit a new task, use a new idempotency_key."
            );
            ToolError::new("idempotency_conflict", sentence)
        }
        SubmitRejected::NoConsumer { asked, executors, queues, disabled } => {
            no_consumer(asked, (executors, queues), disabled)
        }
        SubmitRejected::Database(error) => error.clone().into(),
    }
}

fn no_consumer(asked: &str, (executors, queues): (&[String], &[String]), disabled: &[String]) -> ToolError {
    let sentence = if let Some(first) = disabled.first() {
        let others = if executors.is_empty() {
            "There is no other executor.".to_owned()
        } else {
            format!("The others are the executors {}, and the queues {}.", names(executors), names(queues))
        };
        format!(
            "Nobody would do this task now: you named {}, and {} disabled by the owner. Tell your user, who can enable it \
             (PATCH /api/executors/{first} with {{\"disabled\": false}}); or submit the task elsewhere. {others}",
            shorten(asked, 100),
            if disabled.len() == 1 { format!("{first} is") } else { format!("{} are", names(disabled)) },
        )
    } else if executors.is_empty() {
        "This hub has no executor yet, so nobody could do the task. Tell your user to create one (POST /api/executors) and \
         to start it; then submit the task."
            .to_owned()
    } else {
        format!(
            "Nobody would do this task: you named {}. This hub has the executors {}, and the queues {}. Call submit_task \
             again with one of these as executor or as queue.",
            shorten(asked, 100),
            names(executors),
            names(queues),
        )
    };
    ToolError::new("no_consumer", sentence)
}

fn names(all: &[String]) -> String {
    let shown = all.iter().take(NAMES_SHOWN_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len() {
        0 => "none".to_owned(),
        count if count > NAMES_SHOWN_MAX => {
            format!("{shown} and {} more (see list_executors)", count - NAMES_SHOWN_MAX)
        }
        _ => shown,
    }
}
