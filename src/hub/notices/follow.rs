//! What the steps of a task's life are told as. Nothing is read for a notice that is not wanted.

use super::words::{self, About};
use super::{silence, tell};
use crate::domain::notice::NoticeEvent;
use crate::domain::task::{FailureCode, Lane, Life, State, WaitingOn, WakeStatus};
use crate::hub::wakes::{self, Consumers};
use crate::hub::{Effects, Hub};
use crate::store::database::DatabaseError;
use crate::store::events;
use crate::store::tasks::{self, TaskHead, Wishes};

/// A task was taken in, with this life.
pub(in crate::hub) fn submitted(
    hub: &Hub<'_>,
    effects: &mut Effects,
    (about, life): (About<'_>, &Life),
    (submitted_by, instructions): (&str, &str),
    consumers: &Consumers,
) -> Result<(), DatabaseError> {
    if life.waiting_on == Some(WaitingOn::Approval) {
        return tell(hub, effects, &words::approval(about, submitted_by, instructions));
    }
    if life.state.lane() == Some(Lane::Ready) { silence::expect(hub, consumers.rows()) } else { Ok(()) }
}

/// A task went from where it stood to its next life, which is stored by now.
pub(in crate::hub) fn follow(
    hub: &Hub<'_>,
    effects: &mut Effects,
    task: &TaskHead,
    next: &Life,
    wishes: &Wishes,
) -> Result<(), DatabaseError> {
    let Some(ntfy) = hub.settings.notices() else { return Ok(()) };
    let ready = Some(Lane::Ready);
    if next.state.lane() == ready && task.life.state.lane() != ready {
        silence::expect(hub, wakes::consumers(hub, &task.address)?.rows())?;
    }
    let Some(event) = event(&task.life, next) else { return Ok(()) };
    let wishes = wishes.notify.as_deref();
    if !ntfy.events.with_wish(wishes).has(event) {
        return Ok(());
    }
    let Some(now) = tasks::full(hub.db, &task.id)? else { return Ok(()) };
    let about = About::of(task, wishes);
    let by = next.claim.as_ref().map_or("The executor", |claim| claim.executor.as_str());
    let notice = match event {
        NoticeEvent::InputRequired => {
            let is_asked_already = task.life.state == State::InputRequired && now.head.question == task.question;
            if is_asked_already {
                return Ok(());
            }
            let question = now.head.question.as_deref().unwrap_or_default();
            if next.is_asked_by_hub() {
                return tell(hub, effects, &words::unknown_action(about, by, question));
            }
            let on = next.waiting_on.unwrap_or(WaitingOn::Submitter);
            words::asked(about, by, on, question)
        }
        NoticeEvent::Failed => {
            let code = next.failure.unwrap_or(FailureCode::ExecutorFailed);
            let said = now.error.as_deref().filter(|_| code == FailureCode::ExecutorFailed);
            words::failed(about, code, said.map(|words| (by, words)))
        }
        NoticeEvent::Completed => words::completed(about, by, now.result.as_deref().unwrap_or_default()),
        NoticeEvent::WakeGivenUp => {
            let last = events::chain(hub.db, now.head.event_seq, 1)?.pop();
            let why = last.filter(|event| event.kind == events::Kind::Wake);
            words::given_up(about, why.as_ref().and_then(|event| event.data["detail"].as_str()))
        }
        NoticeEvent::ApprovalRequired | NoticeEvent::ExecutorSilent | NoticeEvent::Security => return Ok(()),
    };
    tell(hub, effects, &notice)
}

/// What such a step may be told as.
fn event(from: &Life, to: &Life) -> Option<NoticeEvent> {
    let given_up = Some(WakeStatus::GivenUp);
    match to.state {
        // The owner denied it, and knows.
        State::Failed if to.failure == Some(FailureCode::Denied) => None,
        State::Failed => Some(NoticeEvent::Failed),
        State::Completed => Some(NoticeEvent::Completed),
        State::InputRequired => Some(NoticeEvent::InputRequired).filter(|_| to.answered_at.is_none()),
        _ if to.last_wake_status == given_up && from.last_wake_status != given_up => Some(NoticeEvent::WakeGivenUp),
        _ => None,
    }
}
