//! What the calls of an attempt have in common: the fence, the answer to a call that comes twice, and the
//! evidence that a refused one leaves.

use serde_json::{Value as Json, json};

use super::unknown::{self, Unknown};
use super::{Effects, Hub, owed};
use crate::domain::ids::TaskId;
use crate::domain::lifecycle::{Event, Fence, Refused, Rules, may_write, step};
use crate::domain::limits::{
    EVENTS_READ_MAX, LATE_EVENTS_MAX, LATE_EVIDENCE_BYTES_MAX, LATE_HEARTBEAT_EVENTS_MAX, MESSAGE_CHARS_MAX,
};
use crate::domain::secret;
use crate::domain::task::{Life, State};
use crate::domain::text::cut_bytes;
use crate::faults::{self, Fault};
use crate::store::actions;
use crate::store::database::DatabaseError;
use crate::store::events::{self, EventRow, Kind};
use crate::store::tasks::{self, AttemptWrites, TaskHead};

/// A call that an attempt makes.
#[derive(Clone, Copy, Debug)]
pub struct AttemptCall<'c> {
    /// The executor whose key came with it.
    pub executor: &'c str,
    /// The task's id as the caller wrote it.
    pub task_id: &'c str,
    /// The claim token.
    pub claim_token: &'c str,
    /// Which call, in one word, for the audit trail.
    pub verb: &'static str,
    /// What it brought, kept in part if it is refused.
    pub brought: &'c Json,
}

/// Why an attempt's call changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptRejected {
    /// There is no such task, or not any more.
    TaskNotFound,
    /// The claim is over, or was never this caller's.
    LeaseLost {
        /// What is the case instead, as a sentence.
        why: &'static str,
    },
    /// The caller holds the task, and sent another token than the one of its claim.
    TokenMismatch,
    /// The task was canceled.
    Canceled,
    /// The task is completed or failed.
    AlreadyFinished,
    /// The task waits for input; it can be resumed by a heartbeat or ended by a result, nothing else.
    NotWorking,
    /// A field is wrong: its name, and what is right.
    Invalid {
        /// The field.
        field: &'static str,
        /// What is right, as a sentence.
        detail: String,
    },
    /// The database failed.
    Database(DatabaseError),
}

impl From<DatabaseError> for AttemptRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// The line of the audit trail for a change, from the task before and its life after it.
pub(super) type Record<'c> = dyn Fn(&TaskHead, &Life) -> Option<(Kind, Json)> + 'c;

/// How an attempt changes its task.
pub(super) struct Change<'c> {
    /// What the call asks for.
    pub event: Event,
    /// What is stored with it.
    pub writes: AttemptWrites,
    /// Names the call in the audit trail, given the task before and its life after it; `None` if it is not worth a line.
    pub record: &'c Record<'c>,
    /// Hash of what the call brought, if it may come twice.
    pub outcome: Option<String>,
}

/// Where a call left its task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ended {
    pub state: State,
    pub attempt: u32,
    pub visible_at: Option<i64>,
}

impl AttemptCall<'_> {
    pub(super) fn fence(&self) -> Fence {
        Fence {
            executor: self.executor.to_owned(),
            // No claim has attempt 0, so a token without the right form is refused like a wrong one.
            attempt: secret::attempt_of_token(self.claim_token).unwrap_or(0),
            token_hash: secret::sha256_hex(self.claim_token),
        }
    }

    pub(super) fn actor(&self) -> String {
        format!("executor:{}", self.executor)
    }

    pub(super) fn task(&self, hub: &Hub<'_>) -> Result<TaskHead, AttemptRejected> {
        let id = TaskId::parse(self.task_id).ok_or(AttemptRejected::TaskNotFound)?;
        tasks::head(hub.db, id.as_str())?.ok_or(AttemptRejected::TaskNotFound)
    }
}

/// The task, if the attempt may write beside it. The inner error says that the call was refused, and its evidence stays.
pub(super) fn writing(
    hub: &Hub<'_>,
    call: &AttemptCall<'_>,
) -> Result<Result<TaskHead, AttemptRejected>, AttemptRejected> {
    let task = call.task(hub)?;
    match may_write(&task.life, &call.fence(), hub.now) {
        Ok(()) => Ok(Ok(task)),
        Err(_) if faults::is_on(Fault::ActionUnfenced) => Ok(Ok(task)),
        Err(refused) => refuse(hub, &task, call, refused).map(Err),
    }
}

/// The task, if the attempt holds it, whether it works or waits for a person. Nothing is changed, so a refusal leaves no evidence.
pub(super) fn reading(hub: &Hub<'_>, call: &AttemptCall<'_>) -> Result<TaskHead, AttemptRejected> {
    let task = call.task(hub)?;
    match may_write(&task.life, &call.fence(), hub.now) {
        Ok(()) | Err(Refused::WrongState) => Ok(task),
        Err(refused) => Err(explain(hub, &task, call, refused)),
    }
}

/// Records what an attempt that may write left beside its task.
pub(super) fn witness(
    hub: &Hub<'_>,
    effects: &mut Effects,
    call: &AttemptCall<'_>,
    task: &TaskHead,
    (kind, data): (Kind, Json),
) -> Result<(), DatabaseError> {
    let fence = call.fence();
    let seq = hub.record(task, kind, fence.attempt, &call.actor(), data)?;
    if !tasks::beside(hub.db, task, &fence.token_hash, seq, hub.now)? {
        return Err(DatabaseError::Refused("the store refused a write that the lifecycle allows".to_owned()));
    }
    effects.changed.push(task.id.clone());
    Ok(())
}

/// Runs one call of an attempt that changes its task's state: in one transaction, either the change with its event, or
/// the evidence that it was refused.
pub(super) fn change(hub: &Hub<'_>, call: &AttemptCall<'_>, change: &Change<'_>) -> Result<Ended, AttemptRejected> {
    hub.command(|effects| change_within(hub, effects, call, &call.task(hub)?, change))?
}

/// The same inside a transaction that does more. The outer error undoes it; the inner one says that the call was refused,
/// and its evidence stays.
pub(super) fn change_within(
    hub: &Hub<'_>,
    effects: &mut Effects,
    call: &AttemptCall<'_>,
    task: &TaskHead,
    change: &Change<'_>,
) -> Result<Result<Ended, AttemptRejected>, AttemptRejected> {
    let unknown = Unknown::by(hub, task, &change.event)?;
    let rules = Rules { asks: unknown.is_any(), ..rules_for(hub, task, &change.event)? };
    match step(&task.life, &change.event, &rules) {
        Ok(next) => {
            let question = unknown.question(task, &next, unknown::loss(&change.event));
            apply(hub, effects, call, task, next, (change, question)).map(Ok)
        }
        Err(refused) => match repeated(hub, task, call, change)? {
            Some(ended) => Ok(Ok(ended)),
            None => refuse(hub, task, call, refused).map(Err),
        },
    }
}

/// Whether consumers must be looked up: only a release makes a task claimable at once.
fn rules_for<'h>(hub: &'h Hub<'_>, task: &TaskHead, event: &Event) -> Result<Rules<'h>, DatabaseError> {
    let wakes = match event {
        Event::Released(_) => super::wakes::is_woken(hub, &task.address)?,
        _ => false,
    };
    Ok(hub.rules(wakes))
}

fn apply(
    hub: &Hub<'_>,
    effects: &mut Effects,
    call: &AttemptCall<'_>,
    task: &TaskHead,
    next: Life,
    (change, question): (&Change<'_>, Option<String>),
) -> Result<Ended, AttemptRejected> {
    let line = (change.record)(task, &next).map(|(kind, data)| match &question {
        Some(question) => unknown::asked_instead(kind, data, question),
        None => (kind, data),
    });
    let seq = match line {
        Some((kind, data)) => hub.record(task, kind, next.attempt, &call.actor(), with_outcome(data, change, &next))?,
        None => task.event_seq,
    };
    let due_at = next.due_at(hub.settings.lease_ms);
    let token_hash = secret::sha256_hex(call.claim_token);
    // The row was read in this very transaction, so the WHERE can only disagree if `step` and the SQL do.
    let refused = || DatabaseError::Refused("the store refused a step that the lifecycle allows".to_owned());
    let own = &change.writes;
    let writes = AttemptWrites { question: question.or_else(|| own.question.clone()), ..own.clone() };
    let writes = (token_hash.as_str(), &writes);
    let wishes = tasks::finish(hub.db, task, &next, due_at, seq, hub.now, writes)?.ok_or_else(refused)?;
    if matches!(change.event, Event::Deferred(..)) {
        actions::hand_on(hub.db, &task.id, next.attempt)?;
    }
    owed::owe(hub, effects, task, &next, &wishes)?;
    effects.task_changed(&task.id, next.state, &task.address);
    Ok(Ended { state: next.state, attempt: next.attempt, visible_at: next.visible_at })
}

/// What a repeated call needs to find, so that it can be answered as the first one was.
fn with_outcome(mut data: Json, change: &Change<'_>, next: &Life) -> Json {
    if let (Some(outcome), Some(object)) = (&change.outcome, data.as_object_mut()) {
        object.insert("outcome".to_owned(), json!(outcome));
        object.insert("state".to_owned(), json!(next.state.as_str()));
        object.insert("visible_at".to_owned(), json!(next.visible_at));
    }
    data
}

/// The first answer, if this very call has been made before by this very attempt.
fn repeated(
    hub: &Hub<'_>,
    task: &TaskHead,
    call: &AttemptCall<'_>,
    change: &Change<'_>,
) -> Result<Option<Ended>, DatabaseError> {
    let Some(outcome) = &change.outcome else { return Ok(None) };
    let fence = call.fence();
    let own_token = secret::claim_token(&hub.settings.hub_secret, &task.id, fence.attempt, call.executor);
    let current_token = task.life.claim.as_ref().is_some_and(|claim| {
        claim.executor == call.executor
            && task.life.attempt == fence.attempt
            && secret::equal(&claim.token_hash, &fence.token_hash)
    });
    if !current_token && !secret::equal(&own_token, call.claim_token) {
        return Ok(None);
    }
    let actor = call.actor();
    let same = |event: &EventRow| {
        event.attempt == fence.attempt && event.actor == actor && event.data["outcome"] == json!(outcome)
    };
    let found = events::chain(hub.db, task.event_seq, EVENTS_READ_MAX)?.into_iter().find(same);
    Ok(found.and_then(|event| {
        let state = event.data["state"].as_str().and_then(State::parse)?;
        Some(Ended { state, attempt: event.attempt, visible_at: event.data["visible_at"].as_i64() })
    }))
}

/// Leaves evidence of a refused call, within bounds, and says why it was refused.
pub(super) fn refuse(
    hub: &Hub<'_>,
    task: &TaskHead,
    call: &AttemptCall<'_>,
    refused: Refused,
) -> Result<AttemptRejected, AttemptRejected> {
    let rejected = explain(hub, task, call, refused);
    if refused == Refused::WrongState {
        return Ok(rejected);
    }
    let events_max = if call.verb == "heartbeat" { LATE_HEARTBEAT_EVENTS_MAX } else { LATE_EVENTS_MAX };
    if task.late_events < events_max {
        let brought = call.brought.to_string();
        let code = match refused {
            Refused::Canceled => "canceled",
            Refused::AlreadyFinished => "already_finished",
            Refused::LeaseLost | Refused::WrongState => "lease_lost",
        };
        let brought = cut_bytes(&brought, LATE_EVIDENCE_BYTES_MAX);
        let data = json!({ "call": call.verb, "refused": code, "brought": brought });
        let seq = hub.record(task, Kind::Late, call.fence().attempt, &call.actor(), data)?;
        tasks::late(hub.db, &task.id, seq)?;
    }
    Ok(rejected)
}

fn explain(hub: &Hub<'_>, task: &TaskHead, call: &AttemptCall<'_>, refused: Refused) -> AttemptRejected {
    let fence = call.fence();
    let life = &task.life;
    let why = match refused {
        Refused::Canceled => return AttemptRejected::Canceled,
        Refused::AlreadyFinished => return AttemptRejected::AlreadyFinished,
        Refused::WrongState => return AttemptRejected::NotWorking,
        Refused::LeaseLost if life.attempt == 0 => "The task has not been claimed yet; claim it first.",
        Refused::LeaseLost if is_given_up(call, &fence, life) => {
            "The attempt was given up with an action begun of which nobody knew whether it happened, and a person was asked. The \
             answer goes to the next attempt."
        }
        Refused::LeaseLost if life.claim.as_ref().is_some_and(|claim| claim.executor != call.executor) => {
            "The task is, or was last, held by another executor."
        }
        Refused::LeaseLost if fence.attempt != 0 && fence.attempt < life.attempt => {
            "The claim token is of an earlier attempt; the task has been claimed again since."
        }
        Refused::LeaseLost
            if life.is_held(hub.now)
                && life.claim.as_ref().is_some_and(|claim| claim.token_hash != fence.token_hash) =>
        {
            return AttemptRejected::TokenMismatch;
        }
        Refused::LeaseLost if life.claim.as_ref().is_none_or(|claim| claim.token_hash != fence.token_hash) => {
            "The claim token is not the one that the claim returned."
        }
        Refused::LeaseLost if life.deadline_at.is_some_and(|at| at <= hub.now) => "The task's deadline has passed.",
        Refused::LeaseLost if life.lease_expires_at.is_some() => {
            "The lease has expired: the last heartbeat is longer ago than the lease lasts."
        }
        Refused::LeaseLost if life.state == State::InputRequired => "The task waited too long for input.",
        Refused::LeaseLost => "The attempt is over: the task has gone back to its queue.",
    };
    AttemptRejected::LeaseLost { why }
}

/// Whether this very attempt's claim was taken back because of an action that it had begun.
fn is_given_up(call: &AttemptCall<'_>, fence: &Fence, life: &Life) -> bool {
    fence.attempt == life.attempt
        && life.claim.as_ref().is_some_and(|claim| claim.is_void() && claim.executor == call.executor)
}

/// Refuses a text with more characters than the field may have.
pub(super) fn check_chars(field: &'static str, text: Option<&str>, chars_max: usize) -> Result<(), AttemptRejected> {
    match text {
        Some(text) if text.chars().nth(chars_max).is_some() => Err(AttemptRejected::Invalid {
            field,
            detail: format!("It has more than {chars_max} characters; shorten it and send the call again."),
        }),
        _ => Ok(()),
    }
}

/// Refuses a question that is too long, and one that nobody can answer because it asks nothing: it would block the attempt.
pub(super) fn check_question(question: Option<&str>) -> Result<(), AttemptRejected> {
    check_chars("question", question, MESSAGE_CHARS_MAX)?;
    match question {
        Some(text) if text.trim().is_empty() => Err(AttemptRejected::Invalid {
            field: "question",
            detail: "It is empty; leave it out if you ask nothing, or say what you need to know.".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Refuses JSON that is longer than the field may be.
pub(super) fn check_json(field: &'static str, value: Option<&Json>, bytes_max: usize) -> Result<(), AttemptRejected> {
    match value {
        Some(value) if value.to_string().len() > bytes_max => Err(AttemptRejected::Invalid {
            field,
            detail: format!("It is longer than {bytes_max} bytes of JSON; send less, or a reference to it."),
        }),
        _ => Ok(()),
    }
}
