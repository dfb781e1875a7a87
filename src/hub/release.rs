//! `release`: the executor gives the task back, because it shuts down. No failure is counted.

use serde_json::{Value as Json, json};

use super::Hub;
use super::attempt::{self, AttemptCall, AttemptRejected, Change};
use crate::domain::lifecycle::Event;
use crate::domain::limits::{CHECKPOINT_BYTES_MAX, NOTE_CHARS_MAX};
use crate::domain::secret;
use crate::domain::task::{Life, State};
use crate::store::events::Kind;
use crate::store::tasks::{AttemptWrites, TaskHead};

/// What a release says.
#[derive(Clone, Debug, Default)]
pub struct Release {
    /// Why.
    pub note: Option<String>,
    /// What the next attempt should know.
    pub checkpoint: Option<Json>,
}

/// The task is claimable again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// Its state then.
    pub state: State,
}

/// Gives the task back at once.
pub fn release(hub: &Hub<'_>, call: &AttemptCall<'_>, input: &Release) -> Result<Released, AttemptRejected> {
    attempt::check_chars("note", input.note.as_deref(), NOTE_CHARS_MAX)?;
    attempt::check_json("checkpoint", input.checkpoint.as_ref(), CHECKPOINT_BYTES_MAX)?;
    let note = input.note.clone();
    let record = |_: &TaskHead, _: &Life| Some((Kind::Requeued, json!({ "reason": "released", "note": note })));
    let writes =
        AttemptWrites { note: input.note.clone(), checkpoint: input.checkpoint.clone(), ..AttemptWrites::default() };
    let outcome = Some(secret::sha256_hex(&call.brought.to_string()));
    let event = Event::Released(call.fence());
    let ended = attempt::change(hub, call, &Change { event, writes, record: &record, outcome })?;
    Ok(Released { state: ended.state })
}
