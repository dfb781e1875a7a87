//! What a change of a task owes to the outside, beside wakes: written to the outbox with the change itself (design §3 rule 5).

use super::{Effects, Hub, callbacks, notices};
use crate::domain::task::Life;
use crate::faults::{self, Fault};
use crate::store::database::DatabaseError;
use crate::store::tasks::{TaskHead, Wishes};

/// Owes what follows from the step of a task from where it stood to its next life.
pub(super) fn owe(
    hub: &Hub<'_>,
    effects: &mut Effects,
    task: &TaskHead,
    next: &Life,
    wishes: &Wishes,
) -> Result<(), DatabaseError> {
    if next.state.is_terminal() && !faults::is_on(Fault::CallbackForgotten) {
        callbacks::owe(hub, effects, &task.id, next, wishes.callback_url.as_deref())?;
    }
    notices::follow(hub, effects, task, next, wishes)
}
