//! Tasks: reading them (`read`), changing them (`write`), finding and listing them (`find`).
//!
//! Every change of state carries the expected state, attempt and lease in its WHERE, and where an attempt causes it, the
//! hash of its token and a lease that has not run out; what comes back says whether it happened.

mod find;
mod read;
mod write;

pub use find::{
    Cursor, OldTask, Page, by_idempotency_key, count_lane, count_working, due, has_open, next_ready, old, page_open,
    page_unhappy, page_whole,
};
pub use read::{TaskFull, TaskHead, full, head, not_before};
pub use write::{
    AttemptWrites, MoveWrites, NewTask, WakeDue, Wishes, asked_key, beside, claim, delete, finish, insert, late,
    move_on, readdress, rearm, renew, wake, wishes_of,
};

/// Columns of `TaskHead`, in the order in which `read::head_of` takes them.
macro_rules! head_columns {
    () => {
        "id, state, waiting_on, attempt, failures, max_attempts, claimed_by, claim_token_hash, heard_at, \
         lease_expires_at, input_expires_at, answered_at, visible_at, deadline_at, next_wake_at, wake_attempts, \
         wake_round, last_wake_at, last_wake_status, error_code, completed_at, rank, due_at, executor, queue, submitted_by, \
         submit_hash, retry_of, revision, event_seq, message_seq, late_events, created_at, updated_at, \
         progress, title, note, question"
    };
}
use head_columns;

/// Columns of `TaskFull`, in the order in which `read::full_row` takes them.
macro_rules! full_columns {
    () => {
        concat!(
            super::head_columns!(),
            ", error, external_actions, checkpoint, context, instructions, result, data, on_unknown_action"
        )
    };
}
use full_columns;

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("tasks::head", read::HEAD),
    ("tasks::full", read::FULL),
    ("tasks::not_before", read::NOT_BEFORE),
    ("tasks::insert", write::INSERT),
    ("tasks::move_on", write::MOVE_ON),
    ("tasks::readdress", write::READDRESS),
    ("tasks::wake", write::WAKE),
    ("tasks::wake_later", write::WAKE_LATER),
    ("tasks::claim", write::CLAIM),
    ("tasks::renew", write::RENEW),
    ("tasks::finish", write::FINISH),
    ("tasks::beside", write::BESIDE),
    ("tasks::late", write::LATE),
    ("tasks::rearm", write::REARM),
    ("tasks::wishes", write::WISHES),
    ("tasks::delete", write::DELETE),
    ("tasks::by_idempotency_key", find::BY_IDEMPOTENCY_KEY),
    ("tasks::next_ready", find::NEXT_READY),
    ("tasks::due", find::DUE),
    ("tasks::count_lane", find::COUNT_LANE),
    ("tasks::count_working", find::COUNT_WORKING),
    ("tasks::has_open", find::HAS_OPEN),
    ("tasks::old", find::OLD),
    ("tasks::page_whole", find::PAGE_WHOLE),
    ("tasks::page_open", find::PAGE_OPEN),
    ("tasks::page_unhappy", find::PAGE_UNHAPPY),
];
