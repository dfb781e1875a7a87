//! Reading files: what a task has, their bytes, the links by which they are fetched, and what all of them take.

use super::Hub;
use super::attempt::{self, AttemptCall, AttemptRejected};
use crate::domain::file::{FileKind, LinkPurpose, link_query};
use crate::domain::ids::{FileId, TaskId};
use crate::domain::limits::{CHUNK_BYTES, TASK_FILES_MAX, TASK_UPLOADS_MAX};
use crate::store::attachments::{self, FileRow};
use crate::store::database::DatabaseError;

/// Rows of one task at most: files that are there, and uploads.
pub(super) const TASK_ROWS_MAX: usize = TASK_FILES_MAX + TASK_UPLOADS_MAX;

/// A file that is all there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileView {
    /// The id.
    pub id: String,
    /// The task that has it; `None` for an input that no task has yet.
    pub task_id: Option<String>,
    /// Which way it goes.
    pub kind: FileKind,
    /// The name, safe as a file's name and in a header.
    pub name: String,
    /// The type.
    pub content_type: String,
    /// Bytes.
    pub size: i64,
    /// Their SHA-256 in lower-case hex.
    pub sha256: String,
    /// Which attempt brought it, if one did.
    pub attempt: Option<u32>,
    /// Milliseconds.
    pub created_at: i64,
}

impl FileView {
    /// The file of a row that is stored.
    pub(super) fn of(row: FileRow) -> Option<Self> {
        let stored = row.stored?;
        Some(Self {
            id: row.id,
            task_id: row.task_id,
            kind: row.kind,
            name: row.name,
            content_type: row.content_type,
            size: stored.size,
            sha256: stored.sha256,
            attempt: row.attempt,
            created_at: row.created_at,
        })
    }
}

/// A file with a link to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedFile {
    /// The file.
    pub file: FileView,
    /// Where it is fetched.
    pub url: String,
    /// Until when, in milliseconds.
    pub url_expires_at: i64,
}

/// A file as it is sent: where its bytes lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// The file.
    pub file: FileView,
    /// Under which id its pieces are found.
    pub content_id: String,
}

/// What is stored altogether.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageUse {
    /// Files of tasks, and those that wait for one.
    pub files: i64,
    /// Bytes of their contents; what several share counts once.
    pub file_bytes: i64,
    /// Bytes that the whole database occupies.
    pub database_bytes: i64,
}

/// The files that a task has, oldest first; none of a task that there is not.
pub fn attachments(hub: &Hub<'_>, task_id: &str) -> Result<Vec<FileView>, DatabaseError> {
    let Some(id) = TaskId::parse(task_id) else { return Ok(vec![]) };
    let mut rows = attachments::of_task(hub.db, id.as_str(), TASK_ROWS_MAX)?;
    // What came together came in no order, so its names make one.
    rows.sort_by(|left, right| (left.created_at, &left.name).cmp(&(right.created_at, &right.name)));
    Ok(rows.into_iter().filter_map(FileView::of).collect())
}

/// The files of a task with fresh links, for the attempt that holds it.
pub fn files_of_attempt(hub: &Hub<'_>, call: &AttemptCall<'_>) -> Result<Vec<LinkedFile>, AttemptRejected> {
    let task = attempt::reading(hub, call)?;
    Ok(attachments(hub, &task.id)?.into_iter().map(|file| linked(hub, file)).collect())
}

/// The file of this id, if it is all there.
pub fn file(hub: &Hub<'_>, id: &str) -> Result<Option<FileView>, DatabaseError> {
    Ok(stored_file(hub, id)?.map(|stored| stored.file))
}

/// The same, and where its bytes lie.
pub fn stored_file(hub: &Hub<'_>, id: &str) -> Result<Option<StoredFile>, DatabaseError> {
    let Some(id) = FileId::parse(id) else { return Ok(None) };
    let row = attachments::by_id(hub.db, id.as_str())?;
    Ok(row.and_then(|row| {
        let content_id = row.content_id.clone();
        FileView::of(row).map(|file| StoredFile { file, content_id })
    }))
}

/// At most `len` bytes of a file from `offset` on; fewer where it ends, none of a file that there is not. They are all
/// in memory, so whoever asks bounds them.
pub fn read_file(hub: &Hub<'_>, id: &str, offset: u64, len: usize) -> Result<Vec<u8>, DatabaseError> {
    let Some(stored) = stored_file(hub, id)? else { return Ok(vec![]) };
    let end = offset.saturating_add(len as u64).min(stored.file.size.unsigned_abs());
    let mut bytes = Vec::with_capacity(end.saturating_sub(offset) as usize);
    let chunk = CHUNK_BYTES as u64;
    let mut at = offset;
    while at < end {
        let (number, from) = (at / chunk, at % chunk);
        let wanted = (chunk - from).min(end - at);
        let number = u32::try_from(number).map_err(|_| DatabaseError::Shape("number"))?;
        let part = attachments::part(hub.db, &stored.content_id, number, (from as u32, wanted as u32))?;
        if part.len() as u64 != wanted {
            return Err(DatabaseError::Shape("bytes"));
        }
        bytes.extend(part);
        at += wanted;
    }
    Ok(bytes)
}

/// A link by which this file can be fetched without any credential, and when it ends, in milliseconds.
pub fn file_link(hub: &Hub<'_>, file: &FileView) -> (String, i64) {
    // Whole seconds, and never less than the setting says.
    let expires_at = (hub.now + hub.settings.file_link_ms + 999) / 1000;
    let query = link_query(&hub.settings.hub_secret, LinkPurpose::Download, &file.id, expires_at);
    (format!("{}/files/{}/{}?{query}", hub.origin, file.id, encoded(&file.name)), expires_at * 1000)
}

/// The file with a link to it.
pub fn linked(hub: &Hub<'_>, file: FileView) -> LinkedFile {
    let (url, url_expires_at) = file_link(hub, &file);
    LinkedFile { file, url, url_expires_at }
}

/// What files and database take.
pub fn storage_use(hub: &Hub<'_>) -> Result<StorageUse, DatabaseError> {
    let (files, file_bytes) = attachments::totals(hub.db)?;
    Ok(StorageUse { files, file_bytes, database_bytes: hub.db.size_bytes()? })
}

/// A name as one segment of a path: everything but RFC 3986's unreserved characters percent-encoded.
fn encoded(name: &str) -> String {
    let mut segment = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            segment.push(char::from(byte));
        } else {
            segment.push_str(&format!("%{byte:02X}"));
        }
    }
    segment
}
