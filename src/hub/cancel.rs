//! `cancel`: the submitter or the owner calls a task off.

use serde_json::json;

use super::{Hub, owed};
use crate::domain::ids::TaskId;
use crate::domain::lifecycle::{Event, Refused, step};
use crate::domain::limits::NOTE_CHARS_MAX;
use crate::domain::task::State;
use crate::domain::text::cut_chars;
use crate::store::database::DatabaseError;
use crate::store::events::Kind;
use crate::store::tasks::{self, MoveWrites};

/// The task is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canceled {
    /// The task.
    pub id: String,
    /// Whether it was so before.
    pub already: bool,
    /// The executor that was working on it and learns of this with its next heartbeat.
    pub was_held_by: Option<String>,
}

/// Why it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelRejected {
    /// There is no such task, or not any more.
    TaskNotFound,
    /// It is over already.
    AlreadyFinished {
        /// How.
        state: State,
    },
    /// The database failed.
    Database(DatabaseError),
}

impl From<DatabaseError> for CancelRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Cancels a task wherever it stands. Canceling twice is the same as once. Of a reason, `NOTE_CHARS_MAX` characters are
/// kept.
pub fn cancel(hub: &Hub<'_>, submitter: &str, id: &str, reason: Option<&str>) -> Result<Canceled, CancelRejected> {
    let id = TaskId::parse(id).ok_or(CancelRejected::TaskNotFound)?;
    let reason = reason.map(|reason| cut_chars(reason, NOTE_CHARS_MAX));
    hub.command(|effects| {
        let task = tasks::head(hub.db, id.as_str())?.ok_or(CancelRejected::TaskNotFound)?;
        let next = match step(&task.life, &Event::Cancel, &hub.rules(false)) {
            Ok(next) => next,
            Err(Refused::Canceled) => return Ok(Canceled { id: task.id, already: true, was_held_by: None }),
            Err(Refused::AlreadyFinished | Refused::LeaseLost | Refused::WrongState) => {
                return Err(CancelRejected::AlreadyFinished { state: task.life.state });
            }
        };
        let actor = format!("submitter:{submitter}");
        let seq =
            hub.record(&task, Kind::Canceled, next.attempt, &actor, json!({ "reason": reason, "note": task.note }))?;
        let refused = || DatabaseError::Refused("the store refused a cancellation".to_owned());
        let writes = MoveWrites { error: reason, ..MoveWrites::default() };
        let wishes = tasks::move_on(hub.db, &task, &next, None, seq, hub.now, writes)?.ok_or_else(refused)?;
        owed::owe(hub, effects, &task, &next, &wishes)?;
        effects.task_changed(&task.id, next.state, &task.address);
        let held = matches!(task.life.state, State::Working | State::InputRequired) && !task.life.is_asked_by_hub();
        let was_held_by = task.life.claim.filter(|_| held).map(|claim| claim.executor);
        Ok(Canceled { id: task.id, already: false, was_held_by })
    })
}
