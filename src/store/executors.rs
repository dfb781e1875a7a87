//! Executors, the queues they serve, and their keys.

use serde_json::Value as Json;

use super::database::{Database, DatabaseError, Row, Value};
use super::row::Columns;

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

macro_rules! executor_columns {
    () => {
        "e.name, e.queues, e.max_concurrent, e.wake, e.created_at, e.last_claim_at, e.last_wake_at, e.last_wake_status"
    };
}

const INSERT: &str =
    "INSERT INTO executors (name, queues, max_concurrent, wake, created_at) VALUES (?1, ?2, ?3, ?4, ?5)";
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
  AND rank <= (SELECT max(rank) FROM executor_keys WHERE executor = ?1) - ?2";
const CLAIMED: &str = "UPDATE executors SET last_claim_at = ?2 WHERE name = ?1";
const WOKEN: &str = "UPDATE executors SET last_wake_at = ?2, last_wake_status = 'sent' WHERE name = ?1";
// Only of the latest wake: the outcome of an earlier one says nothing about it.
const WAKE_REFUSED: &str = "UPDATE executors SET last_wake_status = 'rejected' WHERE name = ?1 AND last_wake_at = ?2";

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
    ("executors::claimed", CLAIMED),
    ("executors::woken", WOKEN),
    ("executors::wake_refused", WAKE_REFUSED),
];

/// Writes a new executor and the queues it serves.
pub fn insert(db: &dyn Database, executor: &ExecutorRow) -> Result<(), DatabaseError> {
    let queues = Json::from(executor.queues.clone()).to_string();
    let parameters = [
        (&executor.name).into(),
        queues.into(),
        executor.max_concurrent.into(),
        executor.wake.to_string().into(),
        executor.created_at.into(),
    ];
    db.execute(INSERT, &parameters)?;
    for queue in &executor.queues {
        db.execute(INSERT_QUEUE, &[queue.into(), (&executor.name).into()])?;
    }
    Ok(())
}

/// The executor of this name.
pub fn by_name(db: &dyn Database, name: &str) -> Result<Option<ExecutorRow>, DatabaseError> {
    db.execute(BY_NAME, &[name.into()])?.pop().map(read).transpose()
}

/// The executor to which the key of this SHA-256 belongs.
pub fn by_key(db: &dyn Database, key_hash: &str) -> Result<Option<ExecutorRow>, DatabaseError> {
    db.execute(BY_KEY, &[key_hash.into()])?.pop().map(read).transpose()
}

/// All executors by name, at most `rows_max`.
pub fn all(db: &dyn Database, rows_max: usize) -> Result<Vec<ExecutorRow>, DatabaseError> {
    db.execute(ALL, &[Value::Integer(rows_max as i64)])?.into_iter().map(read).collect()
}

/// The executors that serve a queue, by name.
pub fn serving(db: &dyn Database, queue: &str) -> Result<Vec<ExecutorRow>, DatabaseError> {
    db.execute(SERVING, &[queue.into()])?.into_iter().map(read).collect()
}

/// Deletes an executor, its queues and its keys. `false`: there was none.
pub fn delete(db: &dyn Database, name: &str) -> Result<bool, DatabaseError> {
    Ok(!db.execute(DELETE, &[name.into()])?.is_empty())
}

/// Adds a key by its SHA-256 and keeps only the newest `keys_kept` keys of the executor.
pub fn add_key(db: &dyn Database, name: &str, key_hash: &str, now: i64, keys_kept: usize) -> Result<(), DatabaseError> {
    db.execute(INSERT_KEY, &[key_hash.into(), name.into(), now.into()])?;
    db.execute(DELETE_OLD_KEYS, &[name.into(), Value::Integer(keys_kept as i64)]).map(drop)
}

/// Records that it claimed a task.
pub fn claimed(db: &dyn Database, name: &str, now: i64) -> Result<(), DatabaseError> {
    db.execute(CLAIMED, &[name.into(), now.into()]).map(drop)
}

/// Records that a wake goes out.
pub fn woken(db: &dyn Database, name: &str, at: i64) -> Result<(), DatabaseError> {
    db.execute(WOKEN, &[name.into(), at.into()]).map(drop)
}

/// Records that the wake which went out at this time was refused, unless a later one has gone out since.
pub fn wake_refused(db: &dyn Database, name: &str, at: i64) -> Result<(), DatabaseError> {
    db.execute(WAKE_REFUSED, &[name.into(), at.into()]).map(drop)
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
    })
}
