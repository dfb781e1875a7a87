//! Files, their chunks, and how much of both there is.
//!
//! A row names its chunks by `content_id`; those go with the last row that names them, and the totals with them. Reading a
//! file piece by piece is left to whoever sends it, by `CHUNK`.

use super::database::{Database, DatabaseError, Row, Value};
use super::row::Columns;
use crate::domain::file::FileKind;

/// A file, whether it is all there or on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
    /// The id.
    pub id: String,
    /// The task that has it; `None` for an input that no task has yet.
    pub task_id: Option<String>,
    /// Which way it goes.
    pub kind: FileKind,
    /// Which attempt brought it, if one did.
    pub attempt: Option<u32>,
    /// The name, safe.
    pub name: String,
    /// The type.
    pub content_type: String,
    /// What is stored of it; `None` while it is on its way.
    pub stored: Option<Stored>,
    /// Under which id its chunks lie.
    pub content_id: String,
    /// Who brought it.
    pub owner: String,
    /// Milliseconds.
    pub created_at: i64,
    /// When it ends by itself, in milliseconds, if it does.
    pub expires_at: Option<i64>,
}

/// What is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Bytes.
    pub size: i64,
    /// Their SHA-256 in lower-case hex.
    pub sha256: String,
}

impl FileRow {
    /// Its bytes, as far as it is stored.
    pub fn size(&self) -> i64 {
        self.stored.as_ref().map_or(0, |stored| stored.size)
    }
}

macro_rules! columns {
    () => {
        "id, task_id, kind, attempt, name, content_type, size, sha256, content_id, owner, created_at, expires_at"
    };
}

const INSERT: &str = concat!(
    "INSERT INTO attachments (",
    columns!(),
    ", state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, iif(?8 IS NULL, 'receiving', 'stored'))"
);
const BY_ID: &str = concat!("SELECT ", columns!(), " FROM attachments WHERE id = ?1");
const OF_TASK: &str = concat!("SELECT ", columns!(), " FROM attachments WHERE task_id = +?1 ORDER BY id LIMIT +?2");
const STORE: &str =
    "UPDATE attachments SET state = 'stored', size = ?3, sha256 = ?4, content_type = ?5, expires_at = ?6
  WHERE id = ?1 AND content_id = ?2 AND state = 'receiving'";
const REPLACE: &str =
    "UPDATE attachments SET content_id = ?3 WHERE id = ?1 AND content_id = ?2 AND state = 'receiving'";
const TAKE: &str = "UPDATE attachments SET task_id = ?2, expires_at = NULL
  WHERE id = ?1 AND task_id IS NULL AND state = 'stored'";
const DELETE: &str = "DELETE FROM attachments WHERE id = ?1";
const EXPIRED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM attachments WHERE kind = +?1 AND expires_at <= ?2 AND expires_at IS NOT NULL ORDER BY expires_at LIMIT +?3"
);
const COUNT_LOOSE: &str = "SELECT count(*) FROM (SELECT 1 FROM attachments
  WHERE kind = 'input' AND expires_at IS NOT NULL LIMIT +?1)";
// Rows under their own id are found by it, the others in an index.
const IS_NAMED: &str = "SELECT EXISTS (SELECT 1 FROM attachments WHERE content_id = ?1 AND content_id <> id)
  OR EXISTS (SELECT 1 FROM attachments WHERE id = ?1 AND content_id = ?1)";

const INSERT_CHUNK: &str = "INSERT INTO attachment_chunks (content_id, number, bytes) VALUES (?1, ?2, ?3)";
const DELETE_CHUNKS: &str = "DELETE FROM attachment_chunks WHERE content_id = ?1";
const PART: &str = "SELECT substr(bytes, ?3, ?4) FROM attachment_chunks WHERE content_id = ?1 AND number = ?2";
/// One piece of a content, by its id and number; for whoever sends it out.
pub const CHUNK: &str = "SELECT bytes FROM attachment_chunks WHERE content_id = ?1 AND number = ?2";

const TOTALS: &str = "SELECT files, bytes FROM attachment_totals WHERE one = 1";
const ADD_TOTALS: &str = "UPDATE attachment_totals SET files = files + ?1, bytes = bytes + ?2 WHERE one = 1";
const FIRST_TOTALS: &str = "INSERT INTO attachment_totals (one, files, bytes) VALUES (1, ?1, ?2)";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("attachments::insert", INSERT),
    ("attachments::by_id", BY_ID),
    ("attachments::of_task", OF_TASK),
    ("attachments::store", STORE),
    ("attachments::replace", REPLACE),
    ("attachments::take", TAKE),
    ("attachments::delete", DELETE),
    ("attachments::expired", EXPIRED),
    ("attachments::count_loose", COUNT_LOOSE),
    ("attachments::is_named", IS_NAMED),
    ("attachments::insert_chunk", INSERT_CHUNK),
    ("attachments::delete_chunks", DELETE_CHUNKS),
    ("attachments::part", PART),
    ("attachments::chunk", CHUNK),
    ("attachments::totals", TOTALS),
    ("attachments::add_totals", ADD_TOTALS),
    ("attachments::first_totals", FIRST_TOTALS),
];

/// Writes a row. Of one that is stored already, the chunks are there: `is_shared` says whether others have them too.
pub fn insert(db: &dyn Database, row: &FileRow, is_shared: bool) -> Result<(), DatabaseError> {
    let stored = row.stored.as_ref();
    let parameters = [
        (&row.id).into(),
        row.task_id.as_deref().into(),
        row.kind.as_str().into(),
        row.attempt.into(),
        (&row.name).into(),
        (&row.content_type).into(),
        stored.map(|stored| stored.size).into(),
        stored.map(|stored| stored.sha256.as_str()).into(),
        (&row.content_id).into(),
        (&row.owner).into(),
        row.created_at.into(),
        row.expires_at.into(),
    ];
    db.execute(INSERT, &parameters)?;
    match stored {
        Some(stored) => add(db, 1, if is_shared { 0 } else { stored.size }),
        None => Ok(()),
    }
}

/// The file of this id.
pub fn by_id(db: &dyn Database, id: &str) -> Result<Option<FileRow>, DatabaseError> {
    db.execute(BY_ID, &[id.into()])?.pop().map(file_row).transpose()
}

/// The files of a task, oldest first, those on their way included.
pub fn of_task(db: &dyn Database, task_id: &str, rows_max: usize) -> Result<Vec<FileRow>, DatabaseError> {
    let rows = db.execute(OF_TASK, &[task_id.into(), Value::Integer(rows_max as i64)])?;
    rows.into_iter().map(file_row).collect()
}

/// Ends an upload: its chunks are all there. `false`: another upload took its place, or it has ended, and nothing changed.
pub fn store(db: &dyn Database, row: &FileRow, stored: &Stored) -> Result<bool, DatabaseError> {
    let parameters = [
        (&row.id).into(),
        (&row.content_id).into(),
        stored.size.into(),
        (&stored.sha256).into(),
        (&row.content_type).into(),
        row.expires_at.into(),
    ];
    let has_ended = db.change(STORE, &parameters)?;
    if has_ended {
        add(db, 1, stored.size)?;
    }
    Ok(has_ended)
}

/// Lets another upload of the same file take the place of the one that it has; what came of that goes.
pub fn replace(db: &dyn Database, row: &FileRow, content_id: &str) -> Result<bool, DatabaseError> {
    let is_replaced = db.change(REPLACE, &[(&row.id).into(), (&row.content_id).into(), content_id.into()])?;
    if is_replaced {
        delete_chunks(db, &row.content_id)?;
    }
    Ok(is_replaced)
}

/// Gives a file that is stored to a task. `false`: a task has it already.
pub fn take(db: &dyn Database, id: &str, task_id: &str) -> Result<bool, DatabaseError> {
    db.change(TAKE, &[id.into(), task_id.into()])
}

/// Deletes a file, and its chunks unless others have them too.
pub fn delete(db: &dyn Database, row: &FileRow) -> Result<(), DatabaseError> {
    db.execute(DELETE, &[(&row.id).into()])?;
    let named = db.execute(IS_NAMED, &[(&row.content_id).into()])?.pop().ok_or(DatabaseError::Shape("named"))?;
    let is_named = Columns::of(named).integer("named")? != 0;
    if !is_named {
        delete_chunks(db, &row.content_id)?;
    }
    match &row.stored {
        Some(stored) => add(db, -1, if is_named { 0 } else { -stored.size }),
        None => Ok(()),
    }
}

/// Deletes what came of an upload.
pub fn delete_chunks(db: &dyn Database, content_id: &str) -> Result<(), DatabaseError> {
    db.execute(DELETE_CHUNKS, &[content_id.into()]).map(drop)
}

/// Files of a kind that ended by themselves, the first to end first.
pub fn expired(db: &dyn Database, kind: FileKind, now: i64, rows_max: usize) -> Result<Vec<FileRow>, DatabaseError> {
    let rows = db.execute(EXPIRED, &[kind.as_str().into(), now.into(), Value::Integer(rows_max as i64)])?;
    rows.into_iter().map(file_row).collect()
}

/// How many inputs no task has, counted up to `count_max`.
pub fn count_loose(db: &dyn Database, count_max: u32) -> Result<u32, DatabaseError> {
    let row = db.execute(COUNT_LOOSE, &[count_max.into()])?.pop().ok_or(DatabaseError::Shape("count"))?;
    Columns::of(row).count("count")
}

/// Adds a piece.
pub fn insert_chunk(db: &dyn Database, content_id: &str, number: u32, bytes: Vec<u8>) -> Result<(), DatabaseError> {
    db.execute(INSERT_CHUNK, &[content_id.into(), number.into(), Value::Blob(bytes)]).map(drop)
}

/// So many bytes of a piece from `offset` on; fewer where it ends.
pub fn part(
    db: &dyn Database,
    content_id: &str,
    number: u32,
    (offset, bytes): (u32, u32),
) -> Result<Vec<u8>, DatabaseError> {
    // SQLite counts from 1.
    let parameters = [content_id.into(), number.into(), (offset + 1).into(), bytes.into()];
    match db.execute(PART, &parameters)?.pop().and_then(|mut row| row.pop()) {
        Some(Value::Blob(bytes)) => Ok(bytes),
        Some(Value::Null | Value::Integer(_) | Value::Real(_) | Value::Text(_)) | None => {
            Err(DatabaseError::Shape("bytes"))
        }
    }
}

/// Files, and bytes of all contents.
pub fn totals(db: &dyn Database) -> Result<(i64, i64), DatabaseError> {
    let Some(row) = db.execute(TOTALS, &[])?.pop() else { return Ok((0, 0)) };
    let mut columns = Columns::of(row);
    Ok((columns.integer("files")?, columns.integer("bytes")?))
}

fn add(db: &dyn Database, files: i64, bytes: i64) -> Result<(), DatabaseError> {
    let parameters = [files.into(), bytes.into()];
    if !db.change(ADD_TOTALS, &parameters)? {
        db.execute(FIRST_TOTALS, &parameters)?;
    }
    Ok(())
}

fn file_row(row: Row) -> Result<FileRow, DatabaseError> {
    let mut columns = Columns::of(row);
    let (id, task_id) = (columns.text("id")?, columns.maybe_text("task_id")?);
    let kind = columns.word("kind", FileKind::parse)?;
    let attempt = columns.maybe_count("attempt")?;
    let (name, content_type) = (columns.text("name")?, columns.text("content_type")?);
    let (size, sha256) = (columns.maybe_integer("size")?, columns.maybe_text("sha256")?);
    let stored = size.zip(sha256).map(|(size, sha256)| Stored { size, sha256 });
    Ok(FileRow {
        id,
        task_id,
        kind,
        attempt,
        name,
        content_type,
        stored,
        content_id: columns.text("content_id")?,
        owner: columns.text("owner")?,
        created_at: columns.integer("created_at")?,
        expires_at: columns.maybe_integer("expires_at")?,
    })
}
