//! `enroll_executor`: a code for a machine that is to work as an executor.

use serde::{Deserialize, Serialize};

use crate::domain::limits::EXECUTOR_KEYS_MAX;
use crate::domain::text::shorten;
use crate::hub::{self, Enrolment, ExecutorChange, ExecutorRejected, IssuedCode};
use crate::kit;
use crate::mcp::answer::{Given, ToolError, given};
use crate::mcp::dispatch::Caller;
use crate::mcp::moment::Moment;

#[derive(Debug, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct EnrollInput {
    /// The executor that the machine is to work as: 1 to 40 lower-case letters, digits and hyphens. A new name makes a new executor.
    name: String,
    /// The queues that a new executor is to serve; without any it gets only tasks that name it.
    queues: Option<Vec<String>>,
    /// How many tasks a new executor may work on at a time.
    max_concurrent: Option<u32>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub(super) struct EnrollOutput {
    /// What submit_task takes as executor.
    executor: String,
    /// Whether the executor is new.
    created: bool,
    /// The queues it serves.
    queues: Vec<String>,
    /// Good once, until expires_at. A secret until then.
    code: String,
    expires_at: Moment,
    /// The line that installs the relay, with the code.
    command: String,
    /// What to do now.
    next: String,
}

#[cfg(not(target_arch = "wasm32"))]
pub(super) fn about() -> super::About {
    super::About {
        title: "Enrol an executor",
        description: "Makes a one-time code with which a machine becomes an executor, and the one line that installs the relay there: \
                      for Linux and macOS, needing only python3 and curl. Use it when your user wants another machine or bot to \
                      take tasks. Give the line to your user, or run it if that machine is yours; the code is good for ten \
                      minutes. An executor of a new name is made; one that is there stays as it is and gets a further key.",
        reads_only: false,
        destroys: false,
        is_idempotent: false,
        reaches_out: false,
        input: crate::mcp::schema::input::<EnrollInput>,
        output: crate::mcp::schema::output::<EnrollOutput>,
    }
}

pub(super) fn call(caller: &Caller<'_>, input: EnrollInput) -> Result<Given, ToolError> {
    let wanted = input.queues.clone();
    let account =
        ExecutorChange { queues: input.queues, max_concurrent: input.max_concurrent, ..ExecutorChange::default() };
    let issued = hub::issue_code(caller.hub, &input.name, &Enrolment::Either(account))
        .map_err(|rejected| refused(&input.name, &rejected))?;
    let next = next(&issued, wanted);
    let row = issued.executor.row;
    given(&EnrollOutput {
        command: kit::install_line(caller.hub.origin(), &issued.code),
        executor: row.name,
        created: issued.created,
        queues: row.queues,
        code: issued.code,
        expires_at: Moment(issued.expires_at),
        next,
    })
}

fn next(issued: &IssuedCode, wanted: Option<Vec<String>>) -> String {
    let row = &issued.executor.row;
    let name = &row.name;
    let differs = !issued.created
        && wanted.is_some_and(|mut wanted| {
            wanted.sort();
            wanted.dedup();
            wanted != row.queues
        });
    let mut next = format!(
        "Have the command run on the machine that is to work as {name}; it says what it does. Then list_executors shows {name} as \
         online. The code is for nobody else, so put it nowhere but there."
    );
    if differs {
        next.push_str(&format!(
            " {name} was there before and keeps its queues; your user changes them by PATCH /api/executors/{name}."
        ));
    }
    if issued.keys >= EXECUTOR_KEYS_MAX {
        next.push_str(&format!(
            " {name} has {EXECUTOR_KEYS_MAX} keys, so the machine with the older one is cut off when the code is used; a further \
             machine is better an executor of its own."
        ));
    }
    next
}

fn refused(name: &str, rejected: &ExecutorRejected) -> ToolError {
    let name = shorten(name, 60);
    match rejected {
        ExecutorRejected::Invalid { field, detail } if detail.starts_with(field) => {
            ToolError::invalid(format!("{detail} Mend it and call the tool again."))
        }
        ExecutorRejected::Invalid { field, detail } => ToolError::invalid_field(field, detail),
        ExecutorRejected::Disabled => ToolError::new(
            "executor_disabled",
            format!(
                "The executor {name} is disabled. Tell your user, who can enable it: PATCH /api/executors/{name} with \
                 {{\"disabled\": false}}. Then call the tool again."
            ),
        ),
        ExecutorRejected::TooMany => ToolError::new(
            "too_many_executors",
            "This hub has as many executors as it may. Your user must delete one first.",
        ),
        ExecutorRejected::NotFound
        | ExecutorRejected::Exists
        | ExecutorRejected::KeyNotFound
        | ExecutorRejected::HasTasks
        | ExecutorRejected::QueueHasTasks { .. } => ToolError::new(
            "executor_changed",
            format!("The executor {name} was made, changed or deleted at the same moment. Call the tool again."),
        ),
        ExecutorRejected::Database(error) => error.clone().into(),
    }
}
