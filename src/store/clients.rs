//! OAuth clients: those that registered, and those whose id is the address of a document.

use serde_json::Value as Json;

use super::database::{Database, DatabaseError, Row, Value};
use super::row::Columns;

/// How a client made itself known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// It registered (RFC 7591).
    Registered,
    /// Its id is the address of its metadata document.
    Document,
}

impl ClientKind {
    /// The word that is stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::Document => "document",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Registered, Self::Document].into_iter().find(|kind| kind.name() == word)
    }
}

/// How a client proves itself at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMethod {
    /// It has no secret.
    None,
    /// Its secret is a field of the form.
    Post,
    /// Its secret is in the header `Authorization`.
    Basic,
}

impl AuthMethod {
    /// Every method.
    pub const ALL: [Self; 3] = [Self::None, Self::Post, Self::Basic];

    /// The method's name in RFC 7591.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Post => "client_secret_post",
            Self::Basic => "client_secret_basic",
        }
    }

    /// The method of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRow {
    /// Its id.
    pub id: String,
    /// How it made itself known.
    pub kind: ClientKind,
    /// What it calls itself.
    pub name: Option<String>,
    /// Its home page.
    pub uri: Option<String>,
    /// Where the owner may be sent back to.
    pub redirect_uris: Vec<String>,
    /// How it proves itself.
    pub auth_method: AuthMethod,
    /// Milliseconds.
    pub created_at: i64,
    /// When its document was last read; `None` for one that registered.
    pub fetched_at: Option<i64>,
    /// When the owner first approved it.
    pub used_at: Option<i64>,
}

macro_rules! client_columns {
    () => {
        "id, kind, name, uri, redirect_uris, auth_method, created_at, fetched_at, used_at"
    };
}

const UPSERT: &str =
    "INSERT INTO oauth_clients (id, kind, name, uri, redirect_uris, auth_method, created_at, fetched_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
  ON CONFLICT (id) DO UPDATE SET name = excluded.name, uri = excluded.uri, redirect_uris = excluded.redirect_uris,
    fetched_at = excluded.fetched_at";
const BY_ID: &str = concat!("SELECT ", client_columns!(), " FROM oauth_clients WHERE id = ?1");
const ALL: &str = concat!("SELECT ", client_columns!(), " FROM oauth_clients ORDER BY id LIMIT ?1");
const USED: &str = "UPDATE oauth_clients SET used_at = ?2 WHERE id = ?1 AND used_at IS NULL";
const DELETE: &str = "DELETE FROM oauth_clients WHERE id = ?1 RETURNING id";
const DELETE_UNUSED: &str = "DELETE FROM oauth_clients WHERE used_at IS NULL AND created_at < ?1";
const DELETE_OLDEST_UNUSED: &str = "DELETE FROM oauth_clients WHERE id IN (
  SELECT id FROM oauth_clients WHERE used_at IS NULL ORDER BY created_at DESC LIMIT -1 OFFSET ?1)";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("clients::upsert", UPSERT),
    ("clients::by_id", BY_ID),
    ("clients::all", ALL),
    ("clients::used", USED),
    ("clients::delete", DELETE),
    ("clients::delete_unused", DELETE_UNUSED),
    ("clients::delete_oldest_unused", DELETE_OLDEST_UNUSED),
];

/// Writes a client, or what a document says now about one that is there. Of clients that were never approved, only the
/// newest `unused_kept` stay.
pub fn upsert(db: &dyn Database, client: &ClientRow, unused_kept: usize) -> Result<(), DatabaseError> {
    let redirect_uris = Json::from(client.redirect_uris.clone()).to_string();
    let parameters = [
        (&client.id).into(),
        client.kind.name().into(),
        client.name.as_deref().into(),
        client.uri.as_deref().into(),
        redirect_uris.into(),
        client.auth_method.name().into(),
        client.created_at.into(),
        client.fetched_at.into(),
    ];
    db.execute(UPSERT, &parameters)?;
    db.execute(DELETE_OLDEST_UNUSED, &[Value::Integer(unused_kept as i64)]).map(drop)
}

/// The client of this id.
pub fn by_id(db: &dyn Database, id: &str) -> Result<Option<ClientRow>, DatabaseError> {
    db.execute(BY_ID, &[id.into()])?.pop().map(read).transpose()
}

/// All clients by id, at most `rows_max`.
pub fn all(db: &dyn Database, rows_max: usize) -> Result<Vec<ClientRow>, DatabaseError> {
    db.execute(ALL, &[Value::Integer(rows_max as i64)])?.into_iter().map(read).collect()
}

/// Records that the owner approved it, the first time.
pub fn used(db: &dyn Database, id: &str, now: i64) -> Result<(), DatabaseError> {
    db.execute(USED, &[id.into(), now.into()]).map(drop)
}

/// Deletes a client. `false`: there was none.
pub fn delete(db: &dyn Database, id: &str) -> Result<bool, DatabaseError> {
    Ok(!db.execute(DELETE, &[id.into()])?.is_empty())
}

/// Deletes the clients that were created before this moment and never approved.
pub fn delete_unused(db: &dyn Database, before: i64) -> Result<(), DatabaseError> {
    db.execute(DELETE_UNUSED, &[before.into()]).map(drop)
}

fn read(row: Row) -> Result<ClientRow, DatabaseError> {
    let mut columns = Columns::of(row);
    let id = columns.text("id")?;
    let kind = columns.word("kind", ClientKind::parse)?;
    let name = columns.maybe_text("name")?;
    let uri = columns.maybe_text("uri")?;
    let redirect_uris = columns.text("redirect_uris")?;
    Ok(ClientRow {
        id,
        kind,
        name,
        uri,
        redirect_uris: serde_json::from_str(&redirect_uris).map_err(|_| DatabaseError::Shape("redirect_uris"))?,
        auth_method: columns.word("auth_method", AuthMethod::parse)?,
        created_at: columns.integer("created_at")?,
        fetched_at: columns.maybe_integer("fetched_at")?,
        used_at: columns.maybe_integer("used_at")?,
    })
}
