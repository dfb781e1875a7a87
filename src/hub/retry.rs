//! `retry`: a finished task is done again, as a new one.

use super::Hub;
use super::submit::{Submit, SubmitRejected, Submitted, submit};
use crate::domain::ids::TaskId;
use crate::domain::ledger::OnUnknownAction;
use crate::domain::notice::NoticeEvents;
use crate::domain::task::State;
use crate::store::database::DatabaseError;
use crate::store::tasks;

/// Why there is no new task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryRejected {
    /// There is no such task, or not any more.
    TaskNotFound,
    /// It is not over yet.
    NotFinished {
        /// Where it stands.
        state: State,
    },
    /// The new task cannot be submitted.
    Submit(SubmitRejected),
    /// The database failed.
    Database(DatabaseError),
}

impl From<DatabaseError> for RetryRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Submits the same work again under `retry_of`, with the old task's checkpoint. A task has one retry: asking twice, or
/// after somebody else has asked, returns the same one; to try once more, retry the retry.
pub fn retry_task(hub: &Hub<'_>, submitter: &str, id: &str) -> Result<Submitted, RetryRejected> {
    let id = TaskId::parse(id).ok_or(RetryRejected::TaskNotFound)?;
    let task = tasks::full(hub.db, id.as_str())?.ok_or(RetryRejected::TaskNotFound)?;
    let head = task.head;
    let wishes = tasks::wishes_of(hub.db, &head.id)?;
    if !head.life.state.is_terminal() {
        return Err(RetryRejected::NotFinished { state: head.life.state });
    }
    let input = Submit {
        submitter: submitter.to_owned(),
        title: head.title,
        instructions: task.instructions,
        executor: head.address.executor_name().map(str::to_owned),
        queue: head.address.queue_name().map(str::to_owned),
        context: task.context,
        priority: Some(head.priority),
        deadline: None,
        not_before: None,
        idempotency_key: Some(format!("retry_of:{}", head.id)),
        max_attempts: Some(head.life.max_attempts),
        callback_url: wishes.callback_url,
        notify: wishes.notify.as_deref().and_then(NoticeEvents::of_wish).map(NoticeEvents::names),
        on_unknown_action: Some(task.on_unknown_action).filter(|wish| *wish != OnUnknownAction::default()),
        retry_of: Some(head.id),
        checkpoint: task.checkpoint,
        inputs: vec![],
    };
    submit(hub, &input).map_err(RetryRejected::Submit)
}
