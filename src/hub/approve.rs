//! `approve`: the owner lets a task begin that waits for that, or refuses it.

use serde_json::json;

use super::{Effects, Hub, owed, wakes};
use crate::domain::ids::TaskId;
use crate::domain::lifecycle::{Event, step};
use crate::domain::limits::{EVENTS_READ_MAX, NOTE_CHARS_MAX};
use crate::domain::task::{FailureCode, State, WaitingOn};
use crate::store::database::DatabaseError;
use crate::store::events::{self, Kind};
use crate::store::tasks::{self, MoveWrites, TaskHead};

/// The owner's word.
#[derive(Clone, Debug)]
pub struct Approve {
    /// Who gives it.
    pub submitter: String,
    /// The task.
    pub task_id: String,
    /// Whether it may begin; otherwise it fails.
    pub approve: bool,
    /// Why, in a sentence or two.
    pub note: Option<String>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approved {
    /// The task.
    pub id: String,
    /// Where it stands now: `submitted`, `waiting` for its time, or `failed`; wherever it is, if this had been said before.
    pub state: State,
    /// When it becomes claimable, if it waits for that.
    pub visible_at: Option<i64>,
    /// Whether the same had been said before.
    pub already: bool,
}

/// Why nothing did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApproveRejected {
    /// There is no such task, or not any more.
    TaskNotFound,
    /// It was approved before, so it cannot be refused any more.
    ApprovedBefore {
        /// Where it stands.
        state: State,
    },
    /// It was refused before, so it cannot be approved any more.
    DeniedBefore,
    /// It does not wait for this.
    NotAwaited {
        /// Where it stands.
        state: State,
    },
    /// The note is too long.
    Invalid {
        /// What is right, as a sentence.
        detail: String,
    },
    /// The database failed.
    Database(DatabaseError),
}

impl From<DatabaseError> for ApproveRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Lets a task begin that waits for approval, or makes it fail. Saying the same twice is the same as once.
pub fn approve(hub: &Hub<'_>, input: &Approve) -> Result<Approved, ApproveRejected> {
    if input.note.as_ref().is_some_and(|note| note.chars().nth(NOTE_CHARS_MAX).is_some()) {
        return Err(ApproveRejected::Invalid { detail: format!("It must have at most {NOTE_CHARS_MAX} characters.") });
    }
    let id = TaskId::parse(&input.task_id).ok_or(ApproveRejected::TaskNotFound)?;
    hub.command(|effects| {
        let task = tasks::head(hub.db, id.as_str())?.ok_or(ApproveRejected::TaskNotFound)?;
        match (task.life.waiting_on, input.approve) {
            (Some(WaitingOn::Approval), true) => begin(hub, effects, input, &task),
            (Some(WaitingOn::Approval), false) => deny(hub, effects, input, &task),
            _ => said_before(hub, input, &task),
        }
    })
}

fn begin(hub: &Hub<'_>, effects: &mut Effects, input: &Approve, task: &TaskHead) -> Result<Approved, ApproveRejected> {
    let consumers = wakes::consumers(hub, &task.address)?;
    let event = Event::Approved { until: tasks::not_before(hub.db, &task.id)? };
    let refused = |_| DatabaseError::Refused("a task that waits for approval refused it".to_owned());
    let next = step(&task.life, &event, &hub.rules(consumers.any_is_sent())).map_err(refused)?;
    let (next, wakes_owed) = wakes::plan(hub, &task.id, next, &consumers)?;
    let actor = format!("submitter:{}", input.submitter);
    let seq = hub.record(task, Kind::Approved, next.attempt, &actor, json!({ "note": input.note }))?;
    let due_at = next.due_at(hub.settings.lease_ms);
    let refused = || DatabaseError::Refused("the store refused an approval".to_owned());
    let wishes =
        tasks::move_on(hub.db, task, &next, due_at, seq, hub.now, MoveWrites::default())?.ok_or_else(refused)?;
    wakes::post(hub, effects, wakes_owed)?;
    owed::owe(hub, effects, task, &next, &wishes)?;
    effects.task_changed(&task.id, next.state, &task.address);
    Ok(Approved { id: task.id.clone(), state: next.state, visible_at: next.visible_at, already: false })
}

fn deny(hub: &Hub<'_>, effects: &mut Effects, input: &Approve, task: &TaskHead) -> Result<Approved, ApproveRejected> {
    let refused = |_| DatabaseError::Refused("a task that waits for approval refused its refusal".to_owned());
    let next = step(&task.life, &Event::Denied, &hub.rules(false)).map_err(refused)?;
    let said = input.note.as_deref().map(str::trim).filter(|note| !note.is_empty());
    let error = match said {
        Some(note) => format!("The owner refused it: {note}"),
        None => "The owner refused it.".to_owned(),
    };
    let actor = format!("submitter:{}", input.submitter);
    let code = FailureCode::Denied.as_str();
    let seq = hub.record(task, Kind::Failed, next.attempt, &actor, json!({ "code": code, "note": input.note }))?;
    let refused = || DatabaseError::Refused("the store refused a refusal".to_owned());
    let writes = MoveWrites { error: Some(&error), ..MoveWrites::default() };
    let wishes = tasks::move_on(hub.db, task, &next, None, seq, hub.now, writes)?.ok_or_else(refused)?;
    owed::owe(hub, effects, task, &next, &wishes)?;
    effects.task_changed(&task.id, next.state, &task.address);
    Ok(Approved { id: task.id.clone(), state: next.state, visible_at: None, already: false })
}

/// It waits for no approval: because that was given, or refused, or was never asked for.
fn said_before(hub: &Hub<'_>, input: &Approve, task: &TaskHead) -> Result<Approved, ApproveRejected> {
    let state = task.life.state;
    let was_denied = task.life.failure == Some(FailureCode::Denied);
    let was_approved = || -> Result<bool, DatabaseError> {
        let events = events::chain(hub.db, task.event_seq, EVENTS_READ_MAX)?;
        Ok(events.iter().any(|event| event.kind == Kind::Approved))
    };
    let already = Approved { id: task.id.clone(), state, visible_at: task.life.visible_at, already: true };
    match input.approve {
        true if was_denied => Err(ApproveRejected::DeniedBefore),
        false if was_denied => Ok(already),
        true if was_approved()? => Ok(already),
        false if was_approved()? => Err(ApproveRejected::ApprovedBefore { state }),
        _ => Err(ApproveRejected::NotAwaited { state }),
    }
}
