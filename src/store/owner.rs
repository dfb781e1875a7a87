//! The owner's sign-in: the hash of the passphrase, and how often what is limited was tried.

use super::database::{Database, DatabaseError};
use super::row::Columns;

/// The address under which all tries of a kind are counted.
pub const EVERYWHERE: &str = "*";

/// The passphrase as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassphraseRow {
    /// Its slow hash.
    pub hash: String,
    /// A MAC of the `OWNER_PASSPHRASE` that was set when the hash was made.
    pub bootstrap: String,
    /// Milliseconds.
    pub changed_at: i64,
}

/// Tries of a kind from one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tries {
    /// How many.
    pub count: u32,
    /// Since when, in milliseconds.
    pub since: i64,
}

const READ: &str = "SELECT hash, bootstrap, changed_at FROM owner_passphrase WHERE one = 1";
const WRITE: &str = "INSERT INTO owner_passphrase (one, hash, bootstrap, changed_at) VALUES (1, ?1, ?2, ?3)
  ON CONFLICT (one) DO UPDATE SET hash = excluded.hash, bootstrap = excluded.bootstrap, changed_at = excluded.changed_at";
const TRIES: &str = "SELECT count, since FROM auth_tries WHERE kind = ?1 AND address = ?2";
// A row whose window is over begins anew.
const TRIED: &str = "INSERT INTO auth_tries (kind, address, count, since) VALUES (?1, ?2, 1, ?3)
  ON CONFLICT (kind, address) DO UPDATE SET
    count = CASE WHEN since <= ?4 THEN 1 ELSE count + 1 END,
    since = CASE WHEN since <= ?4 THEN ?3 ELSE since END";
const COUNT: &str = "SELECT count(*) FROM auth_tries WHERE kind = ?1";
const FORGET: &str = "DELETE FROM auth_tries WHERE kind = ?1 AND address = ?2";
const FORGET_OLD: &str = "DELETE FROM auth_tries WHERE kind = ?1 AND since <= ?2";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("owner::read", READ),
    ("owner::write", WRITE),
    ("owner::tries", TRIES),
    ("owner::tried", TRIED),
    ("owner::count", COUNT),
    ("owner::forget", FORGET),
    ("owner::forget_old", FORGET_OLD),
];

/// The passphrase, if one was ever used.
pub fn passphrase(db: &dyn Database) -> Result<Option<PassphraseRow>, DatabaseError> {
    let Some(row) = db.execute(READ, &[])?.pop() else { return Ok(None) };
    let mut columns = Columns::of(row);
    Ok(Some(PassphraseRow {
        hash: columns.text("hash")?,
        bootstrap: columns.text("bootstrap")?,
        changed_at: columns.integer("changed_at")?,
    }))
}

/// Writes the passphrase.
pub fn set_passphrase(db: &dyn Database, row: &PassphraseRow) -> Result<(), DatabaseError> {
    db.execute(WRITE, &[(&row.hash).into(), (&row.bootstrap).into(), row.changed_at.into()]).map(drop)
}

/// The tries of a kind from an address, if any are counted.
pub fn tries(db: &dyn Database, kind: &str, address: &str) -> Result<Option<Tries>, DatabaseError> {
    let Some(row) = db.execute(TRIES, &[kind.into(), address.into()])?.pop() else { return Ok(None) };
    let mut columns = Columns::of(row);
    Ok(Some(Tries { count: columns.count("count")?, since: columns.integer("since")? }))
}

/// Counts one more, from `now` on if what was counted began at `over` or before.
pub fn tried(db: &dyn Database, kind: &str, address: &str, now: i64, over: i64) -> Result<(), DatabaseError> {
    db.execute(TRIED, &[kind.into(), address.into(), now.into(), over.into()]).map(drop)
}

/// How many addresses of a kind are counted.
pub fn addresses(db: &dyn Database, kind: &str) -> Result<usize, DatabaseError> {
    let row = db.execute(COUNT, &[kind.into()])?.pop().ok_or(DatabaseError::Shape("count"))?;
    Ok(Columns::of(row).count("count")? as usize)
}

/// Forgets what was counted of a kind from an address.
pub fn forget(db: &dyn Database, kind: &str, address: &str) -> Result<(), DatabaseError> {
    db.execute(FORGET, &[kind.into(), address.into()]).map(drop)
}

/// Forgets what began to be counted at this moment or before.
pub fn forget_old(db: &dyn Database, kind: &str, since: i64) -> Result<(), DatabaseError> {
    db.execute(FORGET_OLD, &[kind.into(), since.into()]).map(drop)
}
