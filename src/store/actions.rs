//! The ledger of outside actions: one row an action of a task.
//!
//! Invariants: a row is written by the attempt that holds its task, in one block with the change of the task's own row, whose
//! WHERE is the fence (`tasks::beside`); an outcome, once there, is changed by nothing but a new beginning of what failed.

use serde_json::Value as Json;

use super::database::{Database, DatabaseError, Row};
use super::row::Columns;
use crate::domain::ledger::Recorded;

/// An action.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionRow {
    /// Its key.
    pub key: String,
    /// Its place among its task's actions, from 1.
    pub number: u32,
    /// What was recorded last.
    pub recorded: Recorded,
    /// The attempt that began it.
    pub attempt: u32,
    /// The latest attempt that spoke of it.
    pub last_attempt: u32,
    /// When it was begun, in milliseconds.
    pub began_at: i64,
    /// When its outcome was recorded, in milliseconds.
    pub ended_at: Option<i64>,
    /// Which step of the task.
    pub step_id: String,
    /// With what.
    pub tool: String,
    /// Its canonical parameters.
    pub params: String,
    /// What came of it.
    pub outcome: Option<Json>,
}

macro_rules! columns {
    () => {
        "key, number, recorded, attempt, last_attempt, began_at, ended_at, step_id, tool, params, outcome"
    };
}

const ONE: &str = concat!("SELECT ", columns!(), " FROM actions WHERE task_id = ?1 AND key = ?2");
const OF_TASK: &str = concat!("SELECT ", columns!(), " FROM actions WHERE task_id = ?1");
const LOST: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM actions WHERE task_id = ?1 AND recorded = 'begun' AND last_attempt = ?2
  AND EXISTS (SELECT 1 FROM tasks WHERE id = ?1 AND on_unknown_action = 'ask')"
);
const COUNT: &str = "SELECT count(*) FROM actions WHERE task_id = ?1";
const INSERT: &str = "INSERT INTO actions (
    task_id, key, number, recorded, attempt, last_attempt, began_at, step_id, tool, params)
  VALUES (?1, ?2, ?3, 'begun', ?4, ?4, ?5, ?6, ?7, ?8)";
const BEGIN_AGAIN: &str =
    "UPDATE actions SET recorded = 'begun', attempt = ?3, last_attempt = ?3, began_at = ?4, ended_at = NULL,
    outcome = NULL
  WHERE task_id = ?1 AND key = ?2 AND recorded = 'failed'";
const TAKE_UP: &str = "UPDATE actions SET last_attempt = ?3
  WHERE task_id = ?1 AND key = ?2 AND recorded = 'begun' AND last_attempt < ?3";
const HAND_ON: &str = "UPDATE actions SET last_attempt = ?2 + 1
  WHERE task_id = ?1 AND recorded = 'begun' AND last_attempt = ?2";
const END: &str = "UPDATE actions SET recorded = ?3, last_attempt = ?4, ended_at = ?5, outcome = ?6
  WHERE task_id = ?1 AND key = ?2 AND recorded = 'begun'";
const DELETE: &str = "DELETE FROM actions WHERE task_id = ?1";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("actions::one", ONE),
    ("actions::of_task", OF_TASK),
    ("actions::lost", LOST),
    ("actions::count", COUNT),
    ("actions::insert", INSERT),
    ("actions::begin_again", BEGIN_AGAIN),
    ("actions::take_up", TAKE_UP),
    ("actions::hand_on", HAND_ON),
    ("actions::end", END),
    ("actions::delete", DELETE),
];

/// The action of this key.
pub fn one(db: &dyn Database, task_id: &str, key: &str) -> Result<Option<ActionRow>, DatabaseError> {
    db.execute(ONE, &[task_id.into(), key.into()])?.pop().map(read).transpose()
}

/// A task's actions in the order in which they were first begun.
pub fn of_task(db: &dyn Database, task_id: &str) -> Result<Vec<ActionRow>, DatabaseError> {
    in_order(db.execute(OF_TASK, &[task_id.into()])?)
}

/// The actions that this attempt leaves begun, of a task whose submitter wants to be asked about them.
pub fn lost(db: &dyn Database, task_id: &str, attempt: u32) -> Result<Vec<ActionRow>, DatabaseError> {
    in_order(db.execute(LOST, &[task_id.into(), attempt.into()])?)
}

fn in_order(rows: Vec<Row>) -> Result<Vec<ActionRow>, DatabaseError> {
    let mut actions = rows.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    actions.sort_by_key(|action| action.number);
    Ok(actions)
}

/// How many actions a task has.
pub fn count(db: &dyn Database, task_id: &str) -> Result<u32, DatabaseError> {
    let row = db.execute(COUNT, &[task_id.into()])?.pop().ok_or(DatabaseError::Shape("count"))?;
    Columns::of(row).count("count")
}

/// Writes an action that is begun for the first time.
pub fn insert(db: &dyn Database, task_id: &str, action: &ActionRow) -> Result<(), DatabaseError> {
    let parameters = [
        task_id.into(),
        (&action.key).into(),
        action.number.into(),
        action.attempt.into(),
        action.began_at.into(),
        (&action.step_id).into(),
        (&action.tool).into(),
        (&action.params).into(),
    ];
    db.execute(INSERT, &parameters).map(drop)
}

/// Begins again what had failed. `false`: it had not, and nothing changed.
pub fn begin_again(
    db: &dyn Database,
    (task_id, key): (&str, &str),
    attempt: u32,
    now: i64,
) -> Result<bool, DatabaseError> {
    db.change(BEGIN_AGAIN, &[task_id.into(), key.into(), attempt.into(), now.into()])
}

/// Notes that a later attempt has to do with an action that an earlier one left begun. `false`: nothing changed.
pub fn take_up(db: &dyn Database, (task_id, key): (&str, &str), attempt: u32) -> Result<bool, DatabaseError> {
    db.change(TAKE_UP, &[task_id.into(), key.into(), attempt.into()])
}

/// Leaves what an attempt has begun to the next one, which answers for it then.
pub fn hand_on(db: &dyn Database, task_id: &str, attempt: u32) -> Result<(), DatabaseError> {
    db.change(HAND_ON, &[task_id.into(), attempt.into()]).map(drop)
}

/// Records what came of an action that is begun. `false`: it is not, and nothing changed.
pub fn end(
    db: &dyn Database,
    (task_id, key): (&str, &str),
    recorded: Recorded,
    attempt: u32,
    now: i64,
    outcome: Option<&Json>,
) -> Result<bool, DatabaseError> {
    let outcome = outcome.map(Json::to_string);
    let parameters = [task_id.into(), key.into(), recorded.as_str().into(), attempt.into(), now.into(), outcome.into()];
    db.change(END, &parameters)
}

/// Deletes the actions of a task that leaves.
pub fn delete(db: &dyn Database, task_id: &str) -> Result<(), DatabaseError> {
    db.execute(DELETE, &[task_id.into()]).map(drop)
}

fn read(row: Row) -> Result<ActionRow, DatabaseError> {
    let mut columns = Columns::of(row);
    Ok(ActionRow {
        key: columns.text("key")?,
        number: columns.count("number")?,
        recorded: columns.word("recorded", Recorded::parse)?,
        attempt: columns.count("attempt")?,
        last_attempt: columns.count("last_attempt")?,
        began_at: columns.integer("began_at")?,
        ended_at: columns.maybe_integer("ended_at")?,
        step_id: columns.text("step_id")?,
        tool: columns.text("tool")?,
        params: columns.text("params")?,
        outcome: match columns.maybe_text("outcome")? {
            Some(text) => Some(serde_json::from_str(&text).map_err(|_| DatabaseError::Shape("outcome"))?),
            None => None,
        },
    })
}
