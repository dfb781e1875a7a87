//! The ledger of outside actions (design §4): what an executor is about to do outside that must not happen twice.
//!
//! Owns: an action's key, its standing, and the question about one whose outcome nobody knows. Invariants: a key depends on the
//! task, the step, the tool and the canonical parameters (RFC 8785), and on nothing else, so that the next attempt comes to
//! the same one; an action that was begun and whose attempt is over is `unknown`, whatever was meant by it. It refuses to know
//! what an action does.

use serde_json::{Value as Json, json};

use super::limits::{ASKED_ACTIONS_MAX, NUMBER_EXACT_MAX};
use super::moment::rfc3339;
use super::secret::sha256_hex;
use super::task::Life;
use super::text::shorten;
use crate::faults::{self, Fault};

/// How much of a title and of parameters a question shows, in characters.
const QUESTION_PIECE_CHARS_MAX: usize = 200;

/// What becomes of a task whose attempt is lost with an action begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnknownAction {
    /// The next attempt begins, and is told.
    #[default]
    Retry,
    /// A person is asked first.
    Ask,
}

impl OnUnknownAction {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Retry, Self::Ask];

    /// The name on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Ask => "ask",
        }
    }

    /// The one of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wish| wish.as_str() == text)
    }
}

/// What was recorded of an action last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// An attempt said that it begins it.
    Begun,
    /// It happened.
    Done,
    /// It did not happen.
    Failed,
}

impl Recorded {
    /// Every record.
    pub const ALL: [Self; 3] = [Self::Begun, Self::Done, Self::Failed];

    /// The name in the database and in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    /// The record of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|recorded| recorded.as_str() == text)
    }

    /// What that means now, if the attempt with this number began the action, for a task with this life.
    pub fn standing(self, attempt: u32, life: &Life, now: i64) -> Standing {
        match self {
            Self::Begun if attempt == life.attempt && life.is_held(now) => Standing::Begun,
            Self::Begun if faults::is_on(Fault::UnknownTakenForOwn) => Standing::Begun,
            Self::Begun => Standing::Unknown,
            Self::Done => Standing::Done,
            Self::Failed => Standing::Failed,
        }
    }
}

/// What is known of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The attempt that holds the task has begun it.
    Begun,
    /// An attempt began it that is over, and nobody said what came of it.
    Unknown,
    /// It happened.
    Done,
    /// It did not happen.
    Failed,
}

impl Standing {
    /// Every standing.
    pub const ALL: [Self; 4] = [Self::Begun, Self::Unknown, Self::Done, Self::Failed];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Unknown => "unknown",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// A number of the parameters that JSON does not carry everywhere as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inexact(pub String);

/// The parameters as RFC 8785 writes them. Numbers that differ and would look the same there are refused.
pub fn canonical(params: &Json) -> Result<String, Inexact> {
    check_numbers(params)?;
    Ok(written(params))
}

/// A number beyond is told apart from its neighbours by some programs, and by others not.
fn check_numbers(value: &Json) -> Result<(), Inexact> {
    match value {
        Json::Number(number) => {
            let is_exact = match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), _, _) => number <= NUMBER_EXACT_MAX,
                (None, Some(number), _) => number.unsigned_abs() <= NUMBER_EXACT_MAX,
                (None, None, number) => number.is_some_and(|number| number.abs() <= NUMBER_EXACT_MAX as f64),
            };
            if is_exact { Ok(()) } else { Err(Inexact(number.to_string())) }
        }
        Json::Array(items) => items.iter().try_for_each(check_numbers),
        Json::Object(fields) => fields.values().try_for_each(check_numbers),
        Json::Null | Json::Bool(_) | Json::String(_) => Ok(()),
    }
}

fn written(value: &Json) -> String {
    // It fails for maps whose keys are no texts, and for numbers that are not finite; a `Value` has neither.
    serde_json_canonicalizer::to_string(value).unwrap_or_else(|_| value.to_string())
}

/// The key of an action: SHA-256, in lower-case hex, of the list of task, step, tool and parameters as RFC 8785 writes it. An
/// executor can come to it by itself.
pub fn key(task_id: &str, step_id: &str, tool: &str, params: &Json) -> String {
    sha256_hex(&written(&json!([task_id, step_id, tool, params])))
}

/// How an attempt ended that left an action begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing was heard of it.
    Silent,
    /// It gave the task back.
    Released,
    /// It reported a failure that is worth another attempt.
    Failed,
    /// The owner took the task from its executor.
    TakenAway,
}

impl Loss {
    fn words(self) -> &'static str {
        match self {
            Self::Silent => "went silent",
            Self::Released => "gave the task back",
            Self::Failed => "failed",
            Self::TakenAway => "was called off",
        }
    }
}

/// An action that a question is about.
#[derive(Clone, Copy, Debug)]
pub struct Lost<'a> {
    /// Which step of the task.
    pub step_id: &'a str,
    /// With what.
    pub tool: &'a str,
    /// Its canonical parameters.
    pub params: &'a str,
    /// Its key.
    pub key: &'a str,
    /// When it was begun, in milliseconds.
    pub began_at: i64,
}

/// What a person is asked about the actions of an attempt that is lost: short enough for a phone, and complete enough that
/// somebody can look without knowing the executor.
pub fn question(title: &str, (attempt, executor): (u32, &str), loss: Loss, actions: &[Lost<'_>]) -> String {
    let title = shorten(title, QUESTION_PIECE_CHARS_MAX);
    let many = actions.len() > 1;
    let (what, it, them) = if many { ("outside actions", "they", "each") } else { ("an outside action", "it", "it") };
    let mut text = format!(
        "Attempt {attempt} of “{title}” ({executor}) began {what} and {} before it said what came of {}:",
        loss.words(),
        if many { "them" } else { "it" },
    );
    for action in actions.iter().take(ASKED_ACTIONS_MAX) {
        let with = match action.params {
            "null" | "{}" => String::new(),
            params => format!(", with {}", shorten(params, QUESTION_PIECE_CHARS_MAX)),
        };
        text.push_str(&format!(
            "\n– step {}, tool {}, begun at {}{with} (idempotency key {}…)",
            action.step_id,
            action.tool,
            rfc3339(action.began_at),
            action.key.get(..12).unwrap_or(action.key),
        ));
    }
    if let Some(more) = actions.len().checked_sub(ASKED_ACTIONS_MAX).filter(|more| *more > 0) {
        text.push_str(&format!("\n– and {more} more, which the task shows under actions"));
    }
    text.push_str(&format!(
        "\nDid {it} happen? Look where the tool acts, then say of {them}: it happened (and with what result), or it did not. Your \
         answer goes to the next attempt, which begins only then."
    ));
    text
}
