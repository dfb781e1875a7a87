//! The only SQL.
//!
//! Owns: the schema, its migrations, every statement, and the rows they return. Invariants: statements are static text,
//! listed in `STATEMENTS`; every change of a task's state carries the expected state, attempt and lease in its WHERE; no
//! hot path scans. It refuses to know why a state changes: `domain::lifecycle` decided that before.
//!
//! On a hot path, a parameter of a LIMIT, or of an equality beside a join or an ORDER BY, is written `+?1`: SQLite plans by the
//! bound value of a plain one, and so would prepare the statement anew at every run.

pub mod actions;
pub mod attachments;
pub mod clients;
pub mod database;
pub mod enrolments;
pub mod events;
pub mod executors;
pub mod grants;
#[cfg(feature = "test-hooks")]
pub mod history;
pub mod migrate;
pub mod outbox;
pub mod owner;
mod row;
pub mod tasks;
pub mod timers;

pub use timers::next_due;

/// Every statement the hub runs, for the tests that prepare each and snapshot its plan.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    [
        tasks::STATEMENTS,
        actions::STATEMENTS,
        events::STATEMENTS,
        executors::STATEMENTS,
        enrolments::STATEMENTS,
        clients::STATEMENTS,
        grants::STATEMENTS,
        outbox::STATEMENTS,
        attachments::STATEMENTS,
        owner::STATEMENTS,
        timers::STATEMENTS,
        migrate::STATEMENTS,
    ]
    .concat()
}
