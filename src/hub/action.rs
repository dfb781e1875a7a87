//! `action`: the ledger of what attempts do outside and must not do twice (design §4).
//!
//! An attempt records an action before it begins it, and again with what came of it. Whoever begins the same action again, in
//! this attempt or a later one, is told what is known of it. Invariants: `first` is said once of a key; an outcome stays as it
//! was recorded first; nothing is recorded by an attempt that does not hold the task. A record does not renew the lease.

use serde_json::{Value as Json, json};

use super::attempt::{self, AttemptCall, AttemptRejected};
use super::{Effects, Hub};
use crate::domain::ledger::{self, Inexact, Recorded, Standing};
use crate::domain::limits::{ACTION_NAME_BYTES_MAX, ACTION_OUTCOME_BYTES_MAX, ACTION_PARAMS_BYTES_MAX, ACTIONS_MAX};
use crate::faults::{self, Fault};
use crate::store::actions::{self, ActionRow};
use crate::store::database::DatabaseError;
use crate::store::events::Kind;
use crate::store::tasks::TaskHead;

/// What an attempt says of an action.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// It is about to do it.
    Begin,
    /// It happened, with this outcome.
    Done(Option<Json>),
    /// It did not happen, for this reason.
    Failed(Option<Json>),
}

/// An action, and what is said of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Act {
    /// Which step of the task.
    pub step_id: String,
    /// With what.
    pub tool: String,
    /// Its parameters.
    pub params: Json,
    /// What is said of it.
    pub record: Record,
}

/// What is known of the action now.
#[derive(Clone, Debug, PartialEq)]
pub struct Acted {
    /// Its key, which an outside system may be given as well.
    pub idempotency_key: String,
    /// Whether it is begun now for the first time ever.
    pub first: bool,
    /// Where it stands.
    pub standing: Standing,
    /// What came of it.
    pub outcome: Option<Json>,
    /// The attempt that began it.
    pub attempt: u32,
}

/// An action of a task as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionView {
    /// Its key.
    pub idempotency_key: String,
    /// Which step of the task.
    pub step_id: String,
    /// With what.
    pub tool: String,
    /// Its parameters.
    pub params: Json,
    /// Where it stands.
    pub standing: Standing,
    /// What came of it.
    pub outcome: Option<Json>,
    /// The attempt that began it.
    pub attempt: u32,
    /// When, in milliseconds.
    pub began_at: i64,
    /// When its outcome was recorded, in milliseconds.
    pub ended_at: Option<i64>,
}

/// Why nothing was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionRejected {
    /// The attempt may not act, or a field is wrong.
    Attempt(AttemptRejected),
    /// An outcome was brought of an action that is not begun.
    NotBegun {
        /// Whether it was begun once, and has failed since.
        failed: bool,
    },
    /// The task has as many actions as it may.
    TooMany,
}

impl From<DatabaseError> for ActionRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Attempt(error.into())
    }
}

impl From<AttemptRejected> for ActionRejected {
    fn from(rejected: AttemptRejected) -> Self {
        Self::Attempt(rejected)
    }
}

/// Records what an attempt says of an action, and answers what is known of it.
pub fn act(hub: &Hub<'_>, call: &AttemptCall<'_>, input: &Act) -> Result<Acted, ActionRejected> {
    let params = check(input)?;
    hub.command(|effects| {
        let task = match attempt::writing(hub, call)? {
            Ok(task) => task,
            Err(rejected) => return Ok(Err(rejected.into())),
        };
        let key = ledger::key(&task.id, &input.step_id, &input.tool, &input.params);
        let known = actions::one(hub.db, &task.id, &key)?;
        let ledger = Ledger { hub, call, task: &task, key: &key, input };
        match &input.record {
            Record::Begin => ledger.begin(effects, known, params.clone()),
            Record::Done(outcome) => ledger.end(effects, known, Recorded::Done, outcome.as_ref()),
            Record::Failed(outcome) => ledger.end(effects, known, Recorded::Failed, outcome.as_ref()),
        }
    })?
}

/// The canonical parameters of an action whose fields are right.
fn check(input: &Act) -> Result<String, AttemptRejected> {
    for (field, text) in [("step_id", &input.step_id), ("tool", &input.tool)] {
        if text.trim().is_empty() || text.len() > ACTION_NAME_BYTES_MAX {
            let detail = format!("It must have 1 to {ACTION_NAME_BYTES_MAX} bytes, and say the same in every attempt.");
            return Err(AttemptRejected::Invalid { field, detail });
        }
    }
    let params = ledger::canonical(&input.params).map_err(|Inexact(number)| {
        let detail = format!(
            "The number {number} is beyond 2^53, where programs do not tell neighbours apart; send it as a text, in quotes."
        );
        AttemptRejected::Invalid { field: "params", detail }
    })?;
    if params.len() > ACTION_PARAMS_BYTES_MAX {
        let detail = format!(
            "They are longer than {ACTION_PARAMS_BYTES_MAX} bytes of JSON; send what tells this action from others, and a \
             digest of the rest."
        );
        return Err(AttemptRejected::Invalid { field: "params", detail });
    }
    let (Record::Done(outcome) | Record::Failed(outcome)) = &input.record else { return Ok(params) };
    attempt::check_json("outcome", outcome.as_ref(), ACTION_OUTCOME_BYTES_MAX)?;
    Ok(params)
}

/// One record. The inner error is a refusal, which undoes nothing.
struct Ledger<'l> {
    hub: &'l Hub<'l>,
    call: &'l AttemptCall<'l>,
    task: &'l TaskHead,
    key: &'l str,
    input: &'l Act,
}

type Kept = Result<Result<Acted, ActionRejected>, ActionRejected>;

impl Ledger<'_> {
    fn begin(&self, effects: &mut Effects, known: Option<ActionRow>, params: String) -> Kept {
        let (hub, attempt) = (self.hub, self.task.life.attempt);
        let place = (self.task.id.as_str(), self.key);
        let Some(known) = known.filter(|_| !faults::is_on(Fault::BegunForgotten)) else {
            return self.begin_first(effects, params);
        };
        if known.recorded == Recorded::Failed {
            self.note(effects, "begun")?;
            self.expect(actions::begin_again(hub.db, place, attempt, hub.now)?)?;
            return Ok(Ok(self.acted(&ActionRow { recorded: Recorded::Begun, attempt, outcome: None, ..known })));
        }
        if known.recorded == Recorded::Begun && known.last_attempt < attempt {
            self.note(effects, "unknown")?;
            self.expect(actions::take_up(hub.db, place, attempt)?)?;
        }
        Ok(Ok(self.acted(&known)))
    }

    fn begin_first(&self, effects: &mut Effects, params: String) -> Kept {
        let (hub, attempt) = (self.hub, self.task.life.attempt);
        let count = actions::count(hub.db, &self.task.id)?;
        if count >= ACTIONS_MAX {
            return Ok(Err(ActionRejected::TooMany));
        }
        let action = ActionRow {
            key: self.key.to_owned(),
            number: count + 1,
            recorded: Recorded::Begun,
            attempt,
            last_attempt: attempt,
            began_at: hub.now,
            ended_at: None,
            step_id: self.input.step_id.clone(),
            tool: self.input.tool.clone(),
            params,
            outcome: None,
        };
        self.note(effects, "begun")?;
        actions::insert(hub.db, &self.task.id, &action)?;
        Ok(Ok(Acted { first: true, ..self.acted(&action) }))
    }

    /// An outcome that was recorded before stays, whatever is brought now.
    fn end(&self, effects: &mut Effects, known: Option<ActionRow>, recorded: Recorded, outcome: Option<&Json>) -> Kept {
        let (hub, attempt) = (self.hub, self.task.life.attempt);
        let Some(known) = known else { return Ok(Err(ActionRejected::NotBegun { failed: false })) };
        match (known.recorded, recorded) {
            (Recorded::Begun, _) => {}
            (Recorded::Done, Recorded::Done) if faults::is_on(Fault::OutcomeOverwritten) => {}
            (Recorded::Failed, Recorded::Done) => return Ok(Err(ActionRejected::NotBegun { failed: true })),
            (Recorded::Done | Recorded::Failed, _) => return Ok(Ok(self.acted(&known))),
        }
        self.note(effects, recorded.as_str())?;
        let place = (self.task.id.as_str(), self.key);
        self.expect(actions::end(hub.db, place, recorded, attempt, hub.now, outcome)?)?;
        Ok(Ok(self.acted(&ActionRow { recorded, outcome: outcome.cloned(), ..known })))
    }

    fn acted(&self, action: &ActionRow) -> Acted {
        Acted {
            idempotency_key: self.key.to_owned(),
            first: false,
            standing: action.recorded.standing(action.attempt, &self.task.life, self.hub.now),
            outcome: action.outcome.clone(),
            attempt: action.attempt,
        }
    }

    /// The line of the audit trail, under the fence of the claim.
    fn note(&self, effects: &mut Effects, what: &str) -> Result<(), DatabaseError> {
        let input = self.input;
        let data = json!({ "status": what, "step_id": input.step_id, "tool": input.tool, "idempotency_key": self.key });
        attempt::witness(self.hub, effects, self.call, self.task, (Kind::Action, data))
    }

    /// The rows were read in this very transaction.
    fn expect(&self, is_written: bool) -> Result<(), DatabaseError> {
        let refused = || DatabaseError::Refused("the store refused a record that the ledger allows".to_owned());
        is_written.then_some(()).ok_or_else(refused)
    }
}

/// The actions of a task.
pub(super) fn views(hub: &Hub<'_>, task: &TaskHead) -> Result<Vec<ActionView>, DatabaseError> {
    let view = |action: ActionRow| {
        let standing = action.recorded.standing(action.attempt, &task.life, hub.now);
        Ok(ActionView {
            standing,
            idempotency_key: action.key,
            step_id: action.step_id,
            tool: action.tool,
            params: serde_json::from_str(&action.params).map_err(|_| DatabaseError::Shape("params"))?,
            outcome: action.outcome,
            attempt: action.attempt,
            began_at: action.began_at,
            ended_at: action.ended_at,
        })
    };
    let mut rows = if task.life.attempt == 0 { vec![] } else { actions::of_task(hub.db, &task.id)? };
    if faults::is_on(Fault::LostActionHidden) {
        rows.retain(|action| action.recorded != Recorded::Begun || action.attempt == task.life.attempt);
    }
    rows.into_iter().map(view).collect()
}
