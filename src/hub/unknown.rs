//! An attempt that is lost with an action begun: of a task whose submitter wants that, a person is asked what came of it before
//! another attempt begins. Here is what the change that loses the attempt needs for it.
//!
//! Invariant: the question is one event of the hub, written with that change.

use serde_json::{Value as Json, json};

use super::Hub;
use crate::domain::ledger::{self, Loss, Lost};
use crate::domain::lifecycle::Event;
use crate::domain::task::{Lane, Life, State, WaitingOn};
use crate::store::actions::{self, ActionRow};
use crate::store::database::DatabaseError;
use crate::store::events::{self, Kind, NewEvent};
use crate::store::tasks::TaskHead;

/// What an attempt would leave unknown if it were lost now.
pub(super) struct Unknown {
    actions: Vec<ActionRow>,
}

impl Unknown {
    /// What this event would leave unknown. Nothing is read for one that loses no attempt.
    pub(super) fn by(hub: &Hub<'_>, task: &TaskHead, event: &Event) -> Result<Self, DatabaseError> {
        let loses = match event {
            Event::Released(_) | Event::Failed { retryable: true, .. } => task.life.state == State::Working,
            Event::Time | Event::Answered | Event::Readdressed => task.life.state.lane() == Some(Lane::Held),
            _ => false,
        };
        let is_asked = task.life.is_asked_by_hub();
        let actions = if loses && !is_asked { actions::lost(hub.db, &task.id, task.life.attempt)? } else { vec![] };
        Ok(Self { actions })
    }

    /// Whether there is anything to ask.
    pub(super) fn is_any(&self) -> bool {
        !self.actions.is_empty()
    }

    /// The question, if this step of the task asks it.
    pub(super) fn question(&self, task: &TaskHead, next: &Life, loss: Loss) -> Option<String> {
        if !next.is_asked_by_hub() || task.life.is_asked_by_hub() || self.actions.is_empty() {
            return None;
        }
        let executor = task.life.claim.as_ref().map_or("its executor", |claim| claim.executor.as_str());
        let lost = self.actions.iter().map(|action| Lost {
            step_id: &action.step_id,
            tool: &action.tool,
            params: &action.params,
            key: &action.key,
            began_at: action.began_at,
        });
        let lost: Vec<Lost<'_>> = lost.collect();
        Some(ledger::question(&task.title, (task.life.attempt, executor), loss, &lost))
    }
}

/// How an attempt is lost by this event.
pub(super) fn loss(event: &Event) -> Loss {
    match event {
        Event::Released(_) => Loss::Released,
        Event::Failed { .. } => Loss::Failed,
        Event::Readdressed => Loss::TakenAway,
        _ => Loss::Silent,
    }
}

/// The line of the audit trail for a change that loses an attempt, if it asks this: the question with what would have stood
/// there otherwise.
pub(super) fn asked_instead(kind: Kind, mut data: Json, question: &str) -> (Kind, Json) {
    let ended = match kind {
        Kind::Retrying => json!("failed"),
        _ => data["reason"].clone(),
    };
    if !data.is_object() {
        data = json!({});
    }
    data["ended"] = ended;
    (Kind::Question, with_question(data, question))
}

fn with_question(mut data: Json, question: &str) -> Json {
    data["question"] = json!(question);
    data["waiting_on"] = json!(WaitingOn::Submitter.as_str());
    // Whoever's call it was that led to it: these are not their words.
    data["asked_by"] = json!("hub");
    data
}

/// The question as an event of its own, after the one that led to it.
pub(super) fn ask_after(
    hub: &Hub<'_>,
    task: &TaskHead,
    previous_seq: i64,
    question: &str,
    ended: Option<&str>,
) -> Result<i64, DatabaseError> {
    let data = ended.map_or(json!({}), |ended| json!({ "ended": ended, "note": task.note }));
    let event = NewEvent {
        task_id: &task.id,
        previous_seq: Some(previous_seq),
        at: hub.now,
        kind: Kind::Question,
        attempt: task.life.attempt,
        actor: "hub",
        request_key: None,
        data: with_question(data, question),
    };
    events::insert(hub.db, &event)
}
