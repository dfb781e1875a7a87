//! When the clock has something to do next.
//!
//! Whatever sets a timer notes it here, so that the alarm can follow without a look at the tables: every function of the store
//! that writes a `due_at` or a `next_at`, and nobody else.

use std::cell::Cell;

use super::database::{Database, DatabaseError};
use super::row::Columns;

const NEXT_DUE: &str = "SELECT (SELECT due_at FROM tasks WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1),
  (SELECT next_at FROM outbox WHERE state = 'due' ORDER BY next_at LIMIT 1)";

pub(super) const STATEMENTS: &[(&str, &str)] = &[("timers::next_due", NEXT_DUE)];

/// The earliest timer that was set in a database since this was last asked.
#[derive(Debug, Default)]
pub struct Timers(Cell<Option<i64>>);

impl Timers {
    /// The earliest, in milliseconds; begins anew. It may have been undone since.
    pub fn take(&self) -> Option<i64> {
        self.0.take()
    }
}

/// Notes a timer that is being set.
pub(super) fn set(db: &dyn Database, at: Option<i64>) {
    let earliest = &db.timers().0;
    earliest.set(earliest.get().into_iter().chain(at).min());
}

/// The earliest timer of all tasks and of the outbox, in milliseconds.
pub fn next_due(db: &dyn Database) -> Result<Option<i64>, DatabaseError> {
    let mut row = Columns::of(db.execute(NEXT_DUE, &[])?.pop().ok_or(DatabaseError::Shape("next_due"))?);
    let (task, message) = (row.maybe_integer("due_at")?, row.maybe_integer("next_at")?);
    Ok(task.into_iter().chain(message).min())
}
