//! Enrolment codes that were handed out, by their SHA-256, and who used them.

use super::database::{Database, DatabaseError, Value};
use super::row::Columns;

/// A code, without the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnrolmentRow {
    /// The executor that it is for.
    pub executor: String,
    /// SHA-256 of the nonce under which it was used, if it was.
    pub nonce_hash: Option<String>,
}

const INSERT: &str =
    "INSERT INTO enrolments (code_hash, executor, created_at, expires_at, rank) VALUES (?1, ?2, ?3, ?4,
  (SELECT coalesce(max(rank), 0) + 1 FROM enrolments WHERE executor = ?2))";
const DELETE_OLD: &str = "DELETE FROM enrolments WHERE executor = ?1
  AND rank <= (SELECT max(rank) FROM enrolments WHERE executor = ?1) - ?2";
const BY_CODE: &str = "SELECT executor, nonce_hash FROM enrolments WHERE code_hash = ?1";
const SPEND: &str = "UPDATE enrolments SET nonce_hash = ?2, used_at = ?3
  WHERE code_hash = ?1 AND nonce_hash IS NULL AND expires_at > ?3";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("enrolments::insert", INSERT),
    ("enrolments::delete_old", DELETE_OLD),
    ("enrolments::by_code", BY_CODE),
    ("enrolments::spend", SPEND),
];

/// Adds a code by its SHA-256 and keeps only the newest `codes_kept` codes of the executor.
pub fn insert(
    db: &dyn Database,
    executor: &str,
    code_hash: &str,
    (now, expires_at): (i64, i64),
    codes_kept: usize,
) -> Result<(), DatabaseError> {
    db.execute(INSERT, &[code_hash.into(), executor.into(), now.into(), expires_at.into()])?;
    db.execute(DELETE_OLD, &[executor.into(), Value::Integer(codes_kept as i64)]).map(drop)
}

/// The code of this SHA-256, if it is one that was handed out.
pub fn by_code(db: &dyn Database, code_hash: &str) -> Result<Option<EnrolmentRow>, DatabaseError> {
    let Some(row) = db.execute(BY_CODE, &[code_hash.into()])?.pop() else { return Ok(None) };
    let mut columns = Columns::of(row);
    Ok(Some(EnrolmentRow { executor: columns.text("executor")?, nonce_hash: columns.maybe_text("nonce_hash")? }))
}

/// Records that a code is used, by whom. `false`: it was used before, or its time is over.
pub fn spend(db: &dyn Database, code_hash: &str, nonce_hash: &str, now: i64) -> Result<bool, DatabaseError> {
    db.change(SPEND, &[code_hash.into(), nonce_hash.into(), now.into()])
}
