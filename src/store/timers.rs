//! When the clock has something to do next.

use super::database::{Database, DatabaseError};
use super::row::Columns;

const NEXT_DUE: &str = "SELECT (SELECT due_at FROM tasks WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1),
  (SELECT next_at FROM outbox WHERE state = 'due' ORDER BY next_at LIMIT 1)";

pub(super) const STATEMENTS: &[(&str, &str)] = &[("timers::next_due", NEXT_DUE)];

/// The earliest timer of all tasks and of the outbox, in milliseconds.
pub fn next_due(db: &dyn Database) -> Result<Option<i64>, DatabaseError> {
    let mut row = Columns::of(db.execute(NEXT_DUE, &[])?.pop().ok_or(DatabaseError::Shape("next_due"))?);
    let (task, message) = (row.maybe_integer("due_at")?, row.maybe_integer("next_at")?);
    Ok(task.into_iter().chain(message).min())
}
