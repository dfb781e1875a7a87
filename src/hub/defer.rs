//! `defer`: the attempt looked, and what it waits for is not ready. The task comes back later, free of charge.

use serde_json::{Value as Json, json};

use super::Hub;
use super::attempt::{self, AttemptCall, AttemptRejected, Change};
use crate::domain::lifecycle::Event;
use crate::domain::limits::{CHECKPOINT_BYTES_MAX, DEFER_SECONDS_MAX, NOTE_CHARS_MAX};
use crate::domain::secret;
use crate::domain::task::Life;
use crate::store::events::Kind;
use crate::store::tasks::{AttemptWrites, TaskHead};

/// What a deferral says.
#[derive(Clone, Debug, Default)]
pub struct Defer {
    /// After how many seconds the task is claimable again: 1 to `DEFER_SECONDS_MAX`.
    pub seconds: u32,
    /// Why.
    pub note: Option<String>,
    /// What the next attempt should know.
    pub checkpoint: Option<Json>,
}

/// The task waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deferred {
    /// Until then, in milliseconds.
    pub visible_at: i64,
}

/// Puts the task off. No failure is counted, and no lease is held meanwhile.
pub fn defer(hub: &Hub<'_>, call: &AttemptCall<'_>, input: &Defer) -> Result<Deferred, AttemptRejected> {
    attempt::check_chars("note", input.note.as_deref(), NOTE_CHARS_MAX)?;
    attempt::check_json("checkpoint", input.checkpoint.as_ref(), CHECKPOINT_BYTES_MAX)?;
    if !(1..=DEFER_SECONDS_MAX).contains(&input.seconds) {
        let detail = format!("It must be a whole number from 1 to {DEFER_SECONDS_MAX}.");
        return Err(AttemptRejected::Invalid { field: "seconds", detail });
    }
    let visible_at = hub.now + i64::from(input.seconds) * 1000;
    let note = input.note.clone();
    let record = |_: &TaskHead, _: &Life| Some((Kind::Deferred, json!({ "note": note })));
    let writes =
        AttemptWrites { note: input.note.clone(), checkpoint: input.checkpoint.clone(), ..AttemptWrites::default() };
    let outcome = Some(secret::sha256_hex(&call.brought.to_string()));
    let event = Event::Deferred(call.fence(), visible_at);
    let ended = attempt::change(hub, call, &Change { event, writes, record: &record, outcome })?;
    Ok(Deferred { visible_at: ended.visible_at.unwrap_or(visible_at) })
}
