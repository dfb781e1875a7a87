//! OAuth grants: one consent of the owner each, with its code and its generations of refresh tokens.

use super::database::{Database, DatabaseError, Row, Value};
use super::row::Columns;
use crate::domain::scope::Scopes;

/// Why a grant ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// The owner ended it.
    Owner,
    /// The client gave it back.
    Client,
    /// Its code was used a second time.
    CodeReplayed,
    /// A refresh token was used again long after its successor had been.
    RefreshReplayed,
}

impl Revocation {
    /// The word that is stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Client => "client",
            Self::CodeReplayed => "code_replayed",
            Self::RefreshReplayed => "refresh_replayed",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Owner, Self::Client, Self::CodeReplayed, Self::RefreshReplayed]
            .into_iter()
            .find(|reason| reason.name() == word)
    }
}

/// A grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRow {
    /// Derived from the hash of its handle; safe to show.
    pub id: String,
    /// To which client.
    pub client_id: String,
    /// What the client called itself then.
    pub client_name: Option<String>,
    /// What it may do.
    pub scopes: Scopes,
    /// As which executor, with `tasks:execute`.
    pub executor: Option<String>,
    /// Where the code was sent to.
    pub redirect_uri: String,
    /// SHA-256 of the verifier, as the client gave it.
    pub code_challenge: String,
    /// From which address the owner approved it.
    pub approved_from: String,
    /// Milliseconds, as all that follow.
    pub created_at: i64,
    /// Until when the code can be exchanged.
    pub code_expires_at: i64,
    /// When it was.
    pub exchanged_at: Option<i64>,
    /// The newest generation of refresh tokens; 0 before the exchange.
    pub generation: u32,
    /// When that was made, which is when the one before was first used.
    pub rotated_at: Option<i64>,
    /// When it ends by itself.
    pub expires_at: i64,
    /// When it was ended, and why.
    pub revoked: Option<(i64, Revocation)>,
}

macro_rules! grant_columns {
    () => {
        "id, client_id, client_name, scopes, executor, redirect_uri, code_challenge, approved_from, created_at, \
         code_expires_at, exchanged_at, generation, rotated_at, expires_at, revoked_at, revoked_because"
    };
}

const INSERT: &str =
    "INSERT INTO oauth_grants (id, client_id, client_name, scopes, executor, redirect_uri, code_challenge,
    approved_from, created_at, code_expires_at, expires_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)";
const BY_ID: &str = concat!("SELECT ", grant_columns!(), " FROM oauth_grants WHERE id = ?1");
const ALL: &str = concat!("SELECT ", grant_columns!(), " FROM oauth_grants ORDER BY expires_at DESC LIMIT ?1");
const REPLAYED: &str = concat!(
    "SELECT ",
    grant_columns!(),
    " FROM oauth_grants WHERE revoked_because IN ('code_replayed', 'refresh_replayed') AND revoked_at > ?1 \
     ORDER BY revoked_at DESC LIMIT ?2"
);
const COUNT: &str = "SELECT count(*) FROM (SELECT 1 FROM oauth_grants LIMIT ?1)";
const ROTATE: &str = "UPDATE oauth_grants
  SET generation = ?3, rotated_at = ?4, expires_at = ?5, exchanged_at = coalesce(exchanged_at, ?4)
  WHERE id = ?1 AND generation = ?2 AND revoked_at IS NULL RETURNING id";
const REVOKE: &str = "UPDATE oauth_grants SET revoked_at = ?2, revoked_because = ?3, expires_at = ?2
  WHERE id = ?1 AND revoked_at IS NULL RETURNING id";
const REVOKE_ALL: &str = "UPDATE oauth_grants SET revoked_at = ?1, revoked_because = 'owner', expires_at = ?1
  WHERE expires_at > ?1 AND revoked_at IS NULL RETURNING id";
const REVOKE_OF_CLIENT: &str = "UPDATE oauth_grants SET revoked_at = ?2, revoked_because = 'owner', expires_at = ?2
  WHERE client_id = ?1 AND revoked_at IS NULL RETURNING id";
const APPROVED_FROM: &str = "SELECT 1 FROM oauth_grants WHERE approved_from = ?1 AND exchanged_at IS NOT NULL LIMIT 1";
const DELETE_OLD: &str = "DELETE FROM oauth_grants WHERE expires_at < ?1";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("grants::insert", INSERT),
    ("grants::by_id", BY_ID),
    ("grants::all", ALL),
    ("grants::replayed", REPLAYED),
    ("grants::count", COUNT),
    ("grants::rotate", ROTATE),
    ("grants::revoke", REVOKE),
    ("grants::revoke_all", REVOKE_ALL),
    ("grants::revoke_of_client", REVOKE_OF_CLIENT),
    ("grants::approved_from", APPROVED_FROM),
    ("grants::delete_old", DELETE_OLD),
];

/// Writes a new grant, whose code has not been exchanged.
pub fn insert(db: &dyn Database, grant: &GrantRow) -> Result<(), DatabaseError> {
    let parameters = [
        (&grant.id).into(),
        (&grant.client_id).into(),
        grant.client_name.as_deref().into(),
        grant.scopes.to_string().into(),
        grant.executor.as_deref().into(),
        (&grant.redirect_uri).into(),
        (&grant.code_challenge).into(),
        (&grant.approved_from).into(),
        grant.created_at.into(),
        grant.code_expires_at.into(),
    ];
    db.execute(INSERT, &parameters).map(drop)
}

/// The grant of this id.
pub fn by_id(db: &dyn Database, id: &str) -> Result<Option<GrantRow>, DatabaseError> {
    db.execute(BY_ID, &[id.into()])?.pop().map(read).transpose()
}

/// All grants, those that last longest first, at most `rows_max`.
pub fn all(db: &dyn Database, rows_max: usize) -> Result<Vec<GrantRow>, DatabaseError> {
    db.execute(ALL, &[Value::Integer(rows_max as i64)])?.into_iter().map(read).collect()
}

/// Grants that were ended after this moment because a code or token of theirs came back, the latest first.
pub fn replayed(db: &dyn Database, after: i64, rows_max: usize) -> Result<Vec<GrantRow>, DatabaseError> {
    db.execute(REPLAYED, &[after.into(), Value::Integer(rows_max as i64)])?.into_iter().map(read).collect()
}

/// How many there are, counted up to `rows_max`.
pub fn count(db: &dyn Database, rows_max: usize) -> Result<usize, DatabaseError> {
    let row = db.execute(COUNT, &[Value::Integer(rows_max as i64)])?.pop().ok_or(DatabaseError::Shape("count"))?;
    Ok(Columns::of(row).count("count")? as usize)
}

/// Makes the next generation of a grant that is alive and of this generation. `false`: it is not.
pub fn rotate(db: &dyn Database, id: &str, from: u32, now: i64, expires_at: i64) -> Result<bool, DatabaseError> {
    let parameters = [id.into(), from.into(), (from + 1).into(), now.into(), expires_at.into()];
    Ok(!db.execute(ROTATE, &parameters)?.is_empty())
}

/// Ends a grant. `false`: it had been ended before, or there is none.
pub fn revoke(db: &dyn Database, id: &str, now: i64, why: Revocation) -> Result<bool, DatabaseError> {
    Ok(!db.execute(REVOKE, &[id.into(), now.into(), why.name().into()])?.is_empty())
}

/// Ends every grant that is alive, on the owner's behalf. Returns how many.
pub fn revoke_all(db: &dyn Database, now: i64) -> Result<usize, DatabaseError> {
    Ok(db.execute(REVOKE_ALL, &[now.into()])?.len())
}

/// Ends every grant of a client, on the owner's behalf. Returns how many.
pub fn revoke_of_client(db: &dyn Database, client_id: &str, now: i64) -> Result<usize, DatabaseError> {
    Ok(db.execute(REVOKE_OF_CLIENT, &[client_id.into(), now.into()])?.len())
}

/// Whether the owner approved something from this address that a client then took up.
pub fn is_approved_from(db: &dyn Database, address: &str) -> Result<bool, DatabaseError> {
    Ok(!db.execute(APPROVED_FROM, &[address.into()])?.is_empty())
}

/// Deletes the grants that ended before this moment.
pub fn delete_old(db: &dyn Database, before: i64) -> Result<(), DatabaseError> {
    db.execute(DELETE_OLD, &[before.into()]).map(drop)
}

fn read(row: Row) -> Result<GrantRow, DatabaseError> {
    let mut columns = Columns::of(row);
    Ok(GrantRow {
        id: columns.text("id")?,
        client_id: columns.text("client_id")?,
        client_name: columns.maybe_text("client_name")?,
        scopes: Scopes::parse(&columns.text("scopes")?),
        executor: columns.maybe_text("executor")?,
        redirect_uri: columns.text("redirect_uri")?,
        code_challenge: columns.text("code_challenge")?,
        approved_from: columns.text("approved_from")?,
        created_at: columns.integer("created_at")?,
        code_expires_at: columns.integer("code_expires_at")?,
        exchanged_at: columns.maybe_integer("exchanged_at")?,
        generation: columns.count("generation")?,
        rotated_at: columns.maybe_integer("rotated_at")?,
        expires_at: columns.integer("expires_at")?,
        revoked: match columns.maybe_integer("revoked_at")? {
            Some(at) => Some((at, columns.word("revoked_because", Revocation::parse)?)),
            None => None,
        },
    })
}
