//! `list_tasks`.

use serde::{Deserialize, Serialize};

use super::view;
use crate::domain::limits::{PAGE_TASKS_DEFAULT, PAGE_TASKS_MAX};
use crate::domain::task::{Address, State};
use crate::domain::text::shorten;
use crate::hub::{self, List, ListRejected, TaskSummary};
use crate::mcp::answer::{Given, NOTICE, ToolError, given};
use crate::mcp::budget;
use crate::mcp::dispatch::Caller;
use crate::mcp::moment::Moment;

/// Characters of a note or a question that a list shows.
const EXCERPT_CHARS_MAX: usize = 120;
/// What everything but the tasks may cost.
const REST_COST_MAX: usize = 2_000;

#[derive(Debug, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// Only tasks in one of these states; all if left out. Open tasks are submitted, dispatched, waiting, working and
    /// input-required; those that need you are input-required.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::list_of_states"))]
    #[serde(default)]
    states: Vec<String>,
    /// Only tasks for this executor.
    executor: Option<String>,
    /// Only tasks for this queue.
    queue: Option<String>,
    /// Tasks on a page; 20 if left out.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(range(min = 1, max = PAGE_TASKS_MAX)))]
    page_size: Option<usize>,
    /// next_cursor of the page before, with the same other fields.
    cursor: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct Output {
    /// All tasks and finished ones come newest first, open ones in the order in which they will be claimed.
    tasks: Vec<Entry>,
    /// Where the next page begins; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// What to do now.
    next: String,
    /// How to take what executors wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
struct Entry {
    task_id: String,
    title: String,
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::states"))]
    state: &'static str,
    /// What it waits for.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::reasons"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_on: Option<&'static str>,
    /// The executor it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    executor: Option<String>,
    /// The queue it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    /// The executor that has it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_by: Option<String>,
    attempt: u32,
    /// 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<f64>,
    /// The beginning of what the attempt said last.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// The beginning of its open question.
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<String>,
    /// Why it failed.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(schema_with = "view::failure_codes"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'static str>,
    created_at: Moment,
    updated_at: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<Moment>,
    /// The task that it does again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_of: Option<String>,
}

#[cfg(not(target_arch = "wasm32"))]
pub(super) fn about() -> super::About {
    super::About {
        title: "List tasks",
        description: "Lists tasks, page by page: to find one whose id is not at hand, to see what is open, or what needs an \
                      answer (states [\"input-required\"]). It shows a line of each; get_task shows the whole. Results \
                      are not listed here.",
        reads_only: true,
        destroys: false,
        is_idempotent: true,
        reaches_out: false,
        input: crate::mcp::schema::input::<Input>,
        output: crate::mcp::schema::output::<Output>,
    }
}

pub(super) fn call(caller: &Caller<'_>, input: Input) -> Result<Given, ToolError> {
    let address = match (&input.executor, &input.queue) {
        (Some(_), Some(_)) => return Err(ToolError::invalid("Give executor or queue, not both.")),
        (Some(name), None) => Some(Address::executor(name).ok_or_else(|| no_name("executor", name))?),
        (None, Some(name)) => Some(Address::queue(name).ok_or_else(|| no_name("queue", name))?),
        (None, None) => None,
    };
    let states = input.states.iter().filter_map(|name| State::parse(name)).collect();
    let mut list = List { states, address, page_size: input.page_size, cursor: input.cursor };
    let mut page = hub::list_tasks(caller.hub, &list).map_err(|rejected| refused(&rejected))?;
    let entries: Vec<Entry> = page.tasks.iter().map(Entry::of).collect();
    let fitting = budget::fitting(&entries, budget::COST_MAX - REST_COST_MAX).max(1);
    if fitting < entries.len() {
        // The same page, as far as it fits into one answer, with its own cursor.
        list.page_size = Some(fitting);
        page = hub::list_tasks(caller.hub, &list).map_err(|rejected| refused(&rejected))?;
    }
    let tasks: Vec<Entry> = page.tasks.iter().map(Entry::of).collect();
    let is_quoted = tasks.iter().any(|task| task.note.is_some() || task.question.is_some());
    let next = next_step(&tasks, page.next_cursor.is_some(), &list);
    given(&Output { tasks, next_cursor: page.next_cursor, next, notice: is_quoted.then_some(NOTICE) })
}

impl Entry {
    fn of(task: &TaskSummary) -> Self {
        let life = &task.life;
        let excerpt = |text: &Option<String>| text.as_ref().map(|text| shorten(text, EXCERPT_CHARS_MAX));
        let is_asked = life.state == State::InputRequired;
        Self {
            task_id: task.id.clone(),
            title: task.title.clone(),
            state: life.state.as_str(),
            waiting_on: life.waiting_on.map(|on| on.as_str()),
            executor: task.address.executor_name().map(str::to_owned),
            queue: task.address.queue_name().map(str::to_owned),
            held_by: view::held_by(life).map(str::to_owned),
            attempt: life.attempt,
            progress: task.progress,
            note: excerpt(&task.note),
            question: excerpt(&task.question).filter(|_| is_asked),
            error_code: life.failure.map(|code| code.as_str()),
            created_at: Moment(task.created_at),
            updated_at: Moment(task.updated_at),
            completed_at: life.completed_at.map(Moment),
            retry_of: task.retry_of.clone(),
        }
    }
}

fn next_step(tasks: &[Entry], has_more: bool, list: &List) -> String {
    let asked = tasks.iter().filter(|task| task.state == State::InputRequired.as_str()).count();
    let mut next = match (tasks.len(), asked) {
        (0, _) if has_more => "No task of this part of the list matches.".to_owned(),
        (0, _) if list.states.is_empty() && list.address.is_none() => {
            "There are no tasks. submit_task submits one.".to_owned()
        }
        (0, _) => "No task matches. Leave fields out to see more.".to_owned(),
        (_, 0) => "Call get_task with a task_id to see a task whole.".to_owned(),
        (_, asked) => {
            format!("{asked} of these wait for an answer: call get_task for the whole question, then answer_task.")
        }
    };
    if has_more {
        next.push_str(" There are more: call list_tasks again with the same fields and cursor = next_cursor.");
    }
    next
}

fn no_name(field: &str, name: &str) -> ToolError {
    let shown = shorten(name, 60);
    ToolError::invalid_field(field, &format!("\"{shown}\" cannot be a name here; list_executors shows the names."))
}

fn refused(rejected: &ListRejected) -> ToolError {
    match rejected {
        ListRejected::CursorUnknown => {
            let sentence = "This cursor does not belong to this list. Call list_tasks without cursor to begin anew, and pass on \
                            next_cursor unchanged, with the same states, executor and queue.";
            ToolError::new("unknown_cursor", sentence)
        }
        ListRejected::PageSize => {
            let detail =
                format!("It must be a whole number from 1 to {PAGE_TASKS_MAX}; {PAGE_TASKS_DEFAULT} is usual.");
            ToolError::invalid_field("page_size", &detail)
        }
        ListRejected::Database(error) => error.clone().into(),
    }
}
