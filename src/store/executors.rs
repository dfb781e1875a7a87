//! Executors, the queues they serve, and their keys.
//!
//! Every call asks for an executor, by its key, its name or a queue, so the answers are kept in memory (`Known`). Invariant:
//! whatever changes an executor, a key or a queue goes through `write`, which forgets them all, as does a database that undoes
//! a block. So a key that was rotated, and an executor that was deleted, is unknown at once.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::database::{Database, DatabaseError, Row, Value};
use super::row::Columns;
use crate::domain::executor::Approval;

/// An executor's account.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutorRow {
    /// Its name.
    pub name: String,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// How many tasks it may hold at a time.
    pub max_concurrent: u32,
    /// How it is woken, as `hub::executors::Wake` writes it.
    pub wake: Json,
    /// Milliseconds.
    pub created_at: i64,
    /// When it last claimed a task, as far as it was written (at most once a minute, and always after a wake).
    pub last_claim_at: Option<i64>,
    /// When a wake was last sent to it.
    pub last_wake_at: Option<i64>,
    /// Whether that is known to be refused (`rejected`) or not (`sent`): a `WakeStatus`. The task says more.
    pub last_wake_status: Option<String>,
    /// When it was last heard from, as far as it was written: later calls may be known in memory.
    pub last_seen_at: Option<i64>,
    /// Its version, as it says.
    pub version: Option<String>,
    /// What it can do, as it says.
    pub capabilities: Vec<String>,
    /// Since when the owner has it rest: it claims nothing new.
    pub paused_at: Option<i64>,
    /// Since when the owner has it shut out: its calls are refused.
    pub disabled_at: Option<i64>,
    /// Which of its tasks wait for the owner's word.
    pub approval: Approval,
    /// How many tasks it may claim a day, in UTC.
    pub max_tasks_per_day: Option<u32>,
    /// The day that `day_claims` counts, in days since 1970.
    pub day: Option<i64>,
    /// Tasks that it claimed on that day; counted only while there is a limit.
    pub day_claims: u32,
    /// When the owner was told that it is silent while tasks wait.
    pub silence_told_at: Option<i64>,
}

impl ExecutorRow {
    /// Whether the owner lets it take tasks.
    pub fn is_at_work(&self) -> bool {
        self.paused_at.is_none() && self.disabled_at.is_none()
    }
}

/// A key, without the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// SHA-256 of the key.
    pub hash: String,
    /// Milliseconds.
    pub created_at: i64,
}

/// What a claim leaves with its executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It called, and found nothing.
    Calling,
    /// It claimed a task.
    Claiming,
    /// It claimed a task that counts for this day.
    ClaimingOn(i64),
}

impl ExecutorRow {
    /// What is known of the latest wake: it was `rejected`, or `answered` by a claim, or else it was `sent`.
    pub fn wake_status(&self) -> Option<&str> {
        let answered = self.last_claim_at >= self.last_wake_at;
        match self.last_wake_status.as_deref()? {
            "sent" if answered => Some("answered"),
            status => Some(status),
        }
    }
}

/// Executors that were found, by the statement and what it was asked for. Nothing is kept of a search in vain, so there are no
/// more entries than executors, keys and queues.
#[derive(Debug, Default)]
pub struct Known(RefCell<BTreeMap<(&'static str, String), Vec<ExecutorRow>>>);

impl Known {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Forgets them all: something may have changed.
    pub fn forget(&self) {
        self.0.borrow_mut().clear();
    }
}

macro_rules! executor_columns {
    () => {
        "e.name, e.queues, e.max_concurrent, e.wake, e.created_at, e.last_claim_at, e.last_wake_at, e.last_wake_status, \
         e.last_seen_at, e.version, e.capabilities, e.paused_at, e.disabled_at, e.approval, e.max_tasks_per_day, e.day, \
         e.day_claims, e.silence_told_at"
    };
}

const INSERT: &str =
    "INSERT INTO executors (name, queues, max_concurrent, wake, approval, max_tasks_per_day, paused_at, disabled_at, created_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const CHANGE: &str =
    "UPDATE executors SET queues = ?2, max_concurrent = ?3, wake = ?4, approval = ?5, max_tasks_per_day = ?6,
    paused_at = ?7, disabled_at = ?8 WHERE name = ?1";
const DELETE_QUEUES: &str = "DELETE FROM queue_executors WHERE executor = ?1";
const INSERT_QUEUE: &str = "INSERT INTO queue_executors (queue, executor) VALUES (?1, ?2)";
const BY_NAME: &str = concat!("SELECT ", executor_columns!(), " FROM executors e WHERE e.name = ?1");
const BY_KEY: &str = concat!(
    "SELECT ",
    executor_columns!(),
    " FROM executor_keys k JOIN executors e ON e.name = k.executor WHERE k.hash = +?1"
);
const ALL: &str = concat!("SELECT ", executor_columns!(), " FROM executors e ORDER BY e.name LIMIT +?1");
const SERVING: &str = concat!(
    "SELECT ",
    executor_columns!(),
    " FROM queue_executors q JOIN executors e ON e.name = q.executor WHERE q.queue = +?1 ORDER BY q.executor"
);
const DELETE: &str = "DELETE FROM executors WHERE name = ?1 RETURNING name";
const INSERT_KEY: &str = "INSERT INTO executor_keys (hash, executor, created_at, rank) VALUES (?1, ?2, ?3,
  (SELECT coalesce(max(rank), 0) + 1 FROM executor_keys WHERE executor = ?2))";
const DELETE_OLD_KEYS: &str = "DELETE FROM executor_keys WHERE executor = ?1
  AND rank <= (SELECT max(rank) FROM executor_keys WHERE executor = ?1) - ?2 RETURNING hash";
const KEYS: &str = "SELECT hash, created_at FROM executor_keys WHERE executor = ?1 ORDER BY rank";
const DELETE_KEY: &str = "DELETE FROM executor_keys WHERE hash = ?2 AND executor = ?1 RETURNING hash";
const SEEN: &str = "UPDATE executors SET last_seen_at = ?2 WHERE name = ?1";
const CLAIMED: &str = "UPDATE executors SET last_claim_at = ?2, last_seen_at = ?2 WHERE name = ?1";
const CLAIMED_ON: &str = "UPDATE executors SET last_claim_at = ?2, last_seen_at = ?2,
    day_claims = CASE WHEN day = ?3 THEN day_claims + 1 ELSE 1 END, day = ?3 WHERE name = ?1";
const INTRODUCED: &str = "UPDATE executors SET last_seen_at = ?2, version = ?3, capabilities = ?4 WHERE name = ?1";
const WOKEN: &str = "UPDATE executors SET last_wake_at = ?2, last_wake_status = 'sent' WHERE name = ?1";
// Only of the latest wake: the outcome of an earlier one says nothing about it.
const WAKE_REFUSED: &str = "UPDATE executors SET last_wake_status = 'rejected' WHERE name = ?1 AND last_wake_at = ?2";
const SILENCE_TOLD: &str = "UPDATE executors SET silence_told_at = ?2 WHERE name = ?1";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("executors::insert", INSERT),
    ("executors::insert_queue", INSERT_QUEUE),
    ("executors::by_name", BY_NAME),
    ("executors::by_key", BY_KEY),
    ("executors::all", ALL),
    ("executors::serving", SERVING),
    ("executors::delete", DELETE),
    ("executors::insert_key", INSERT_KEY),
    ("executors::delete_old_keys", DELETE_OLD_KEYS),
    ("executors::change", CHANGE),
    ("executors::delete_queues", DELETE_QUEUES),
    ("executors::keys", KEYS),
    ("executors::delete_key", DELETE_KEY),
    ("executors::seen", SEEN),
    ("executors::claimed", CLAIMED),
    ("executors::claimed_on", CLAIMED_ON),
    ("executors::introduced", INTRODUCED),
    ("executors::woken", WOKEN),
    ("executors::wake_refused", WAKE_REFUSED),
    ("executors::silence_told", SILENCE_TOLD),
];

/// Writes a new executor and the queues it serves.
pub fn insert(db: &dyn Database, executor: &ExecutorRow) -> Result<(), DatabaseError> {
    let mut parameters = account(executor);
    parameters.push(executor.created_at.into());
    write(db, INSERT, &parameters)?;
    insert_queues(db, executor)
}

/// Writes what the owner may change of an executor; `queues_changed` tells whether the queues are among it.
pub fn change(db: &dyn Database, executor: &ExecutorRow, queues_changed: bool) -> Result<(), DatabaseError> {
    write(db, CHANGE, &account(executor))?;
    if queues_changed {
        write(db, DELETE_QUEUES, &[(&executor.name).into()])?;
        insert_queues(db, executor)?;
    }
    Ok(())
}

fn account(executor: &ExecutorRow) -> Vec<Value> {
    vec![
        (&executor.name).into(),
        Json::from(executor.queues.clone()).to_string().into(),
        executor.max_concurrent.into(),
        executor.wake.to_string().into(),
        executor.approval.as_str().into(),
        executor.max_tasks_per_day.map(i64::from).into(),
        executor.paused_at.into(),
        executor.disabled_at.into(),
    ]
}

fn insert_queues(db: &dyn Database, executor: &ExecutorRow) -> Result<(), DatabaseError> {
    for queue in &executor.queues {
        write(db, INSERT_QUEUE, &[queue.into(), (&executor.name).into()])?;
    }
    Ok(())
}

/// The executor of this name.
pub fn by_name(db: &dyn Database, name: &str) -> Result<Option<ExecutorRow>, DatabaseError> {
    Ok(find(db, BY_NAME, name)?.pop())
}

/// The executor to which the key of this SHA-256 belongs.
pub fn by_key(db: &dyn Database, key_hash: &str) -> Result<Option<ExecutorRow>, DatabaseError> {
    Ok(find(db, BY_KEY, key_hash)?.pop())
}

/// The executors that a statement with this one parameter finds.
fn find(db: &dyn Database, sql: &'static str, parameter: &str) -> Result<Vec<ExecutorRow>, DatabaseError> {
    let question = (sql, parameter.to_owned());
    if let Some(known) = db.known_executors().0.borrow().get(&question) {
        return Ok(known.clone());
    }
    let found: Vec<ExecutorRow> =
        db.execute(sql, &[parameter.into()])?.into_iter().map(read).collect::<Result<_, _>>()?;
    if !found.is_empty() {
        db.known_executors().0.borrow_mut().insert(question, found.clone());
    }
    Ok(found)
}

/// Changes executors, their keys or their queues.
fn write(db: &dyn Database, sql: &'static str, parameters: &[Value]) -> Result<Vec<Row>, DatabaseError> {
    db.known_executors().forget();
    db.execute(sql, parameters)
}

/// All executors by name, at most `rows_max`.
pub fn all(db: &dyn Database, rows_max: usize) -> Result<Vec<ExecutorRow>, DatabaseError> {
    db.execute(ALL, &[Value::Integer(rows_max as i64)])?.into_iter().map(read).collect()
}

/// The executors that serve a queue, by name.
pub fn serving(db: &dyn Database, queue: &str) -> Result<Vec<ExecutorRow>, DatabaseError> {
    find(db, SERVING, queue)
}

/// Deletes an executor, its queues and its keys. `false`: there was none.
pub fn delete(db: &dyn Database, name: &str) -> Result<bool, DatabaseError> {
    Ok(!write(db, DELETE, &[name.into()])?.is_empty())
}

/// Adds a key by its SHA-256 and keeps only the newest `keys_kept` keys of the executor. Whether that ended any.
pub fn add_key(
    db: &dyn Database,
    name: &str,
    key_hash: &str,
    now: i64,
    keys_kept: usize,
) -> Result<bool, DatabaseError> {
    write(db, INSERT_KEY, &[key_hash.into(), name.into(), now.into()])?;
    Ok(!write(db, DELETE_OLD_KEYS, &[name.into(), Value::Integer(keys_kept as i64)])?.is_empty())
}

/// The keys of an executor, oldest first.
pub fn keys(db: &dyn Database, name: &str) -> Result<Vec<KeyRow>, DatabaseError> {
    let read = |row| {
        let mut columns = Columns::of(row);
        Ok(KeyRow { hash: columns.text("hash")?, created_at: columns.integer("created_at")? })
    };
    db.execute(KEYS, &[name.into()])?.into_iter().map(read).collect()
}

/// Ends one key of an executor. `false`: it has no such key.
pub fn delete_key(db: &dyn Database, name: &str, key_hash: &str) -> Result<bool, DatabaseError> {
    Ok(!write(db, DELETE_KEY, &[name.into(), key_hash.into()])?.is_empty())
}

/// Records that an executor called: one row.
pub fn seen(db: &dyn Database, name: &str, how: Seen, now: i64) -> Result<(), DatabaseError> {
    match how {
        Seen::Calling => write(db, SEEN, &[name.into(), now.into()]),
        Seen::Claiming => write(db, CLAIMED, &[name.into(), now.into()]),
        Seen::ClaimingOn(day) => write(db, CLAIMED_ON, &[name.into(), now.into(), day.into()]),
    }
    .map(drop)
}

/// Records that an executor called, and what it says of itself.
pub fn introduced(
    db: &dyn Database,
    name: &str,
    (version, capabilities): (Option<&str>, &[String]),
    now: i64,
) -> Result<(), DatabaseError> {
    let capabilities = (!capabilities.is_empty()).then(|| Json::from(capabilities).to_string());
    write(db, INTRODUCED, &[name.into(), now.into(), version.into(), capabilities.into()]).map(drop)
}

/// Records that a wake goes out.
pub fn woken(db: &dyn Database, name: &str, at: i64) -> Result<(), DatabaseError> {
    write(db, WOKEN, &[name.into(), at.into()]).map(drop)
}

/// Records that the wake which went out at this time was refused, unless a later one has gone out since.
pub fn wake_refused(db: &dyn Database, name: &str, at: i64) -> Result<(), DatabaseError> {
    write(db, WAKE_REFUSED, &[name.into(), at.into()]).map(drop)
}

/// Records that the owner was told of its silence.
pub fn silence_told(db: &dyn Database, name: &str, at: i64) -> Result<(), DatabaseError> {
    write(db, SILENCE_TOLD, &[name.into(), at.into()]).map(drop)
}

fn read(row: Row) -> Result<ExecutorRow, DatabaseError> {
    let mut columns = Columns::of(row);
    let name = columns.text("name")?;
    let queues = serde_json::from_str(&columns.text("queues")?).map_err(|_| DatabaseError::Shape("queues"))?;
    let max_concurrent = columns.count("max_concurrent")?;
    let wake = serde_json::from_str(&columns.text("wake")?).map_err(|_| DatabaseError::Shape("wake"))?;
    Ok(ExecutorRow {
        name,
        queues,
        max_concurrent,
        wake,
        created_at: columns.integer("created_at")?,
        last_claim_at: columns.maybe_integer("last_claim_at")?,
        last_wake_at: columns.maybe_integer("last_wake_at")?,
        last_wake_status: columns.maybe_text("last_wake_status")?,
        last_seen_at: columns.maybe_integer("last_seen_at")?,
        version: columns.maybe_text("version")?,
        capabilities: match columns.maybe_text("capabilities")? {
            Some(text) => serde_json::from_str(&text).map_err(|_| DatabaseError::Shape("capabilities"))?,
            None => vec![],
        },
        paused_at: columns.maybe_integer("paused_at")?,
        disabled_at: columns.maybe_integer("disabled_at")?,
        approval: columns.word("approval", Approval::parse)?,
        max_tasks_per_day: columns.maybe_count("max_tasks_per_day")?,
        day: columns.maybe_integer("day")?,
        day_claims: columns.count("day_claims")?,
        silence_told_at: columns.maybe_integer("silence_told_at")?,
    })
}
