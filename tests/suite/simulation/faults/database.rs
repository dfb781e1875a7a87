//! A database that makes one fault: it changes the text of a statement, forgets to roll back, or answers with what it
//! read the last time. The hub above it is the one that is deployed.

use std::cell::RefCell;
use std::collections::HashMap;

use taskhub::faults::{Fault, on};
use taskhub::store::database::{Database, DatabaseError, Row, RowsUsed, Value};
use taskhub::store::executors::Known;
use taskhub::store::timers::Timers;

use crate::support::NativeDatabase;

/// How the statements begin, or what only they contain.
const FINISH: &str = "claim_token_hash = ?36";
const RENEW: &str = "UPDATE tasks SET lease_expires_at = ?4";
const CLAIM: &str = "lane = 'ready' AND (deadline_at IS NULL OR deadline_at > ?26)";
const MOVE_ON: &str = "error = coalesce(?29, error)";
const WAKE: &str = "UPDATE tasks SET state = ?4, next_wake_at";
const NEXT_READY: &str = "WHERE lane = 'ready' AND lane_key = +?1 AND (deadline_at";
const BY_KEY: &str = "WHERE submitted_by = ?1 AND idempotency_key = ?2";
const BY_REQUEST: &str = "FROM task_events WHERE request_key = ?1";
const INSERT_EVENT: &str = "INSERT INTO task_events";
const COUNT_WORKING: &str = "WHERE lane = 'held' AND lane_key = ?1 AND state = 'working' LIMIT +?2";
const DELETE_CHAIN: &str = "DELETE FROM task_events WHERE seq IN";
const OLD: &str = "SELECT id, completed_at, event_seq FROM tasks";
const BESIDE: &str = "UPDATE tasks SET event_seq = ?5, revision";
const INSERT_ACTION: &str = "INSERT INTO actions";
const IS_NAMED: &str = "FROM attachments WHERE content_id = ?1 AND content_id <> id";
const ADD_TOTALS: &str = "UPDATE attachment_totals";
const END_ACTION: &str = "UPDATE actions SET recorded = ?3";
const DELETE: &str = "DELETE FROM tasks WHERE id = ?1";
const DUE: &str = "WHERE due_at IS NOT NULL AND due_at <= ?1 ORDER BY due_at LIMIT +?2";

/// In the statement of the first text, the second becomes the third.
type Change = (&'static str, &'static str, &'static str);

fn changes(fault: Fault) -> &'static [Change] {
    const UNEXPIRED: &str = " AND (lease_expires_at > ?26 OR input_expires_at > ?26)";
    match fault {
        Fault::FinishAnyAttempt => &[(FINISH, " AND attempt = ?3", "")],
        Fault::FinishAnyToken => &[(FINISH, " AND claim_token_hash = ?36", " AND ?36 IS NOT NULL")],
        Fault::FinishAnyState => &[(FINISH, " AND state = ?2", "")],
        Fault::FinishAfterLease => &[(FINISH, UNEXPIRED, "")],
        Fault::FinishAnyLease => &[(FINISH, " AND lease_expires_at IS ?4", "")],
        Fault::RenewAnyAttempt => &[(RENEW, " AND attempt = ?2", "")],
        Fault::RenewAnyToken => &[(RENEW, " AND claim_token_hash = ?3", "")],
        Fault::RenewAfterLease => &[(RENEW, " AND lease_expires_at > ?5", "")],
        Fault::ClaimAnyAttempt => &[(CLAIM, " AND attempt = ?3", "")],
        Fault::ClaimAnyState => &[(CLAIM, " AND state = ?2", "")],
        Fault::MoveOnAnyAttempt => &[(MOVE_ON, " AND attempt = ?3", "")],
        Fault::MoveOnAnyState => &[(MOVE_ON, " AND state = ?2", "")],
        Fault::WakeAnyAttempt => &[(WAKE, " AND attempt = ?3", "")],
        Fault::LeaseInclusive => &[
            (
                FINISH,
                "lease_expires_at > ?26 OR input_expires_at > ?26",
                "coalesce(lease_expires_at, input_expires_at) >= ?26",
            ),
            (RENEW, "lease_expires_at > ?5", "lease_expires_at >= ?5"),
        ],
        Fault::DeadlineUnseen => {
            &[(NEXT_READY, "deadline_at > ?2", "?2 IS NOT NULL"), (CLAIM, "deadline_at > ?26", "deadline_at > 0")]
        }
        Fault::DeferSpends => &[(FINISH, "failures = ?8,", "failures = ?8 + (?6 IS 'external'),")],
        Fault::ReleaseSpends => &[(FINISH, "failures = ?8,", "failures = ?8 + (?5 = 'submitted'),")],
        Fault::SecondOutcome => &[
            (FINISH, " AND lane = 'held'", ""),
            (FINISH, "(lease_expires_at > ?26", "(lane IS NULL OR lease_expires_at > ?26"),
        ],
        Fault::KeyUnscoped => &[(BY_KEY, "submitted_by = ?1", "?1 IS NOT NULL")],
        Fault::RequestForgotten => &[
            (BY_REQUEST, "request_key = ?1", "request_key = ?1 || '-'"),
            (INSERT_EVENT, "?7, ?8)", "nullif(?7, ?7), ?8)"),
        ],
        Fault::PriorityUnseen => &[(NEXT_READY, "ORDER BY rank, id", "ORDER BY id")],
        Fault::AddressUnseen => &[(NEXT_READY, "lane_key = +?1", "?1 IS NOT NULL")],
        Fault::HeldUnbounded => &[(COUNT_WORKING, "lane_key = ?1", "lane_key = ?1 || '-'")],
        Fault::BesideAnyToken => &[(BESIDE, " AND claim_token_hash = ?3", " AND ?3 IS NOT NULL")],
        Fault::BegunForgotten => &[(INSERT_ACTION, "INSERT INTO", "INSERT OR REPLACE INTO")],
        Fault::OutcomeOverwritten => &[(END_ACTION, " AND recorded = 'begun'", "")],
        Fault::SharedBytesGone => &[(IS_NAMED, "content_id = ?1 AND content_id <> id", "content_id = ?1 AND 0")],
        Fault::TotalsDrift => &[(ADD_TOTALS, "bytes = bytes + ?2", "bytes = bytes + max(?2, 0)")],
        Fault::EventNumberReused => &[(DELETE_CHAIN, " AND seq < (SELECT max(seq) FROM task_events)", "")],
        Fault::PurgeTakesOpen => {
            &[(OLD, "completed_at", "created_at AS completed_at"), (DELETE, " AND lane IS NULL", "")]
        }
        _ => &[],
    }
}

thread_local! {
    static CHANGED: RefCell<HashMap<(u32, usize), &'static str>> = RefCell::default();
    static LAST_DUE: RefCell<Vec<Row>> = const { RefCell::new(Vec::new()) };
}

/// The statement as this fault has it. The changed text lives as long as the process, as the original does.
fn changed(sql: &'static str, fault: Fault) -> &'static str {
    let key = (fault as u32, sql.as_ptr() as usize);
    let known = CHANGED.with_borrow(|all| all.get(&key).copied());
    known.unwrap_or_else(|| {
        let mut text = sql.to_owned();
        for (_, from, to) in changes(fault).iter().filter(|(of, _, _)| sql.contains(of)) {
            assert!(text.contains(from), "{fault:?} finds no \"{from}\" in {sql}");
            text = text.replacen(from, to, 1);
        }
        let text = if text == sql { sql } else { &*text.leak() };
        CHANGED.with_borrow_mut(|all| all.insert(key, text));
        text
    })
}

/// The changes of every fault find their statement and their place in it; a fault that changes nothing is never caught.
#[test]
fn every_change_finds_its_statement() {
    let statements = taskhub::store::statements();
    for fault in Fault::ALL {
        for (of, from, _) in changes(*fault) {
            let found = statements.iter().any(|(_, sql)| sql.contains(of) && sql.contains(from));
            assert!(found, "{fault:?} finds no statement with {of} and {from}");
        }
    }
    assert!(statements.iter().any(|(_, sql)| sql.contains(DUE)));
}

/// Forgets what an earlier world read.
pub fn forget() {
    LAST_DUE.take();
}

pub struct FaultyDatabase<'d>(pub &'d NativeDatabase);

impl Database for FaultyDatabase<'_> {
    fn execute(&self, sql: &'static str, parameters: &[Value]) -> Result<Vec<Row>, DatabaseError> {
        let Some(fault) = on() else { return self.0.execute(sql, parameters) };
        let mut rows = self.0.execute(changed(sql, fault), parameters)?;
        if fault == Fault::SweepOldSnapshot && sql.contains(DUE) {
            let before = LAST_DUE.replace(rows.clone());
            let is_old = |row: &Row| !rows.iter().any(|now| now[0] == row[0]);
            let old: Vec<Row> = before.into_iter().filter(is_old).collect();
            rows.extend(old);
        }
        Ok(rows)
    }

    fn change(&self, sql: &'static str, parameters: &[Value]) -> Result<bool, DatabaseError> {
        self.0.change(on().map_or(sql, |fault| changed(sql, fault)), parameters)
    }

    fn atomically(&self, body: &mut dyn FnMut() -> Result<(), DatabaseError>) -> Result<(), DatabaseError> {
        if on() != Some(Fault::NoRollback) {
            return self.0.atomically(body);
        }
        let mut outcome = Ok(());
        self.0.atomically(&mut || {
            outcome = body();
            Ok(())
        })?;
        outcome
    }

    fn rows_used(&self) -> RowsUsed {
        self.0.rows_used()
    }

    fn size_bytes(&self) -> Result<i64, DatabaseError> {
        self.0.size_bytes()
    }

    fn known_executors(&self) -> &Known {
        self.0.known_executors()
    }

    fn timers(&self) -> &Timers {
        self.0.timers()
    }
}
