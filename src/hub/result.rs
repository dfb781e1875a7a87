//! `result`: the attempt is over, or it is blocked.

use serde_json::{Value as Json, json};

use super::Hub;
use super::attempt::{self, AttemptCall, AttemptRejected, Change};
use super::heartbeat;
use crate::domain::lifecycle::Event;
use crate::domain::limits::{ERROR_CHARS_MAX, EXTERNAL_ACTIONS_BYTES_MAX};
use crate::domain::secret;
use crate::domain::task::{Life, State};
use crate::store::events::Kind;
use crate::store::tasks::{AttemptWrites, TaskHead};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did what was asked.
    Completed,
    /// It did not.
    Failed {
        /// Whether another attempt may.
        retryable: bool,
    },
    /// It needs a person before it can go on.
    Blocked,
}

/// What an attempt reports.
#[derive(Clone, Debug)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// The result as text.
    pub result: Option<String>,
    /// The result as data.
    pub data: Option<Json>,
    /// What went wrong.
    pub error: Option<String>,
    /// What it did outside.
    pub external_actions: Option<Json>,
    /// What it asks, if it is blocked.
    pub question: Option<String>,
}

/// Where the task stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The state.
    pub state: State,
    /// The attempt that reported.
    pub attempt: u32,
    /// When the next attempt may begin, in milliseconds, if there is to be one.
    pub retry_at: Option<i64>,
}

/// Ends the attempt. The same report again by the same attempt gets the same answer and changes nothing.
pub fn report(hub: &Hub<'_>, call: &AttemptCall<'_>, input: &Report) -> Result<Ended, AttemptRejected> {
    check(hub, input)?;
    let writes = AttemptWrites {
        result: input.result.clone(),
        data: input.data.clone(),
        error: input.error.clone(),
        external_actions: input.external_actions.clone(),
        question: input.question.clone(),
        ..AttemptWrites::default()
    };
    let event = match input.outcome {
        Outcome::Blocked => {
            hub.command(|effects| {
                let task = call.task(hub)?;
                heartbeat::block(hub, effects, call, &task, &writes)
            })??;
            let attempt = call.fence().attempt;
            return Ok(Ended { state: State::InputRequired, attempt, retry_at: None });
        }
        Outcome::Completed => Event::Completed(call.fence()),
        Outcome::Failed { retryable } => {
            let [jitter] = hub.random();
            Event::Failed { fence: call.fence(), retryable, jitter }
        }
    };
    let error = input.error.clone();
    let record = |task: &TaskHead, next: &Life| {
        Some(match next.state {
            State::Completed => (Kind::Completed, json!({})),
            State::Failed => (Kind::Failed, json!({ "code": "executor_failed", "error": error })),
            _ => {
                let (failures, note) = (next.failures, &task.note);
                (Kind::Retrying, json!({ "error": error, "failures": failures, "note": note }))
            }
        })
    };
    let outcome = Some(secret::sha256_hex(&call.brought.to_string()));
    let ended = attempt::change(hub, call, &Change { event, writes, record: &record, outcome })?;
    Ok(Ended { state: ended.state, attempt: ended.attempt, retry_at: ended.visible_at })
}

fn check(hub: &Hub<'_>, input: &Report) -> Result<(), AttemptRejected> {
    let result_bytes_max = hub.settings.result_bytes_max;
    if input.result.as_ref().is_some_and(|result| result.len() > result_bytes_max) {
        let detail = format!("It is longer than {result_bytes_max} bytes; send the essence of it.");
        return Err(AttemptRejected::Invalid { field: "result", detail });
    }
    attempt::check_json("data", input.data.as_ref(), result_bytes_max)?;
    attempt::check_json("external_actions", input.external_actions.as_ref(), EXTERNAL_ACTIONS_BYTES_MAX)?;
    attempt::check_chars("error", input.error.as_deref(), ERROR_CHARS_MAX)?;
    attempt::check_question(input.question.as_deref())
}
