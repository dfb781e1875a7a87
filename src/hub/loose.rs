//! Files that no task has: `open_upload` gives out a link by which one comes, `purge_files` ends those that stay alone, and
//! what is left of uploads that nobody ended.

use super::Hub;
use super::upload::FileRejected;
use crate::domain::file::{FileKind, LinkPurpose, clean_name, content_type, link_query};
use crate::domain::ids::FileId;
use crate::domain::limits::{LOOSE_FILES_MAX, PURGE_FILES_MAX, UPLOAD_MS};
use crate::store::attachments::{self, FileRow};
use crate::store::database::DatabaseError;

/// A link by which one file can be brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadLink {
    /// The file's id, under which a submission names it once it is there.
    pub file_id: String,
    /// Its name, safe.
    pub name: String,
    /// Its type.
    pub content_type: String,
    /// Where it is sent, by PUT.
    pub url: String,
    /// Until when the upload may begin, in milliseconds.
    pub expires_at: i64,
    /// What it may have, in bytes.
    pub bytes_max: i64,
}

/// Makes room for a file that this submitter will bring, and says where to.
pub fn open_upload(
    hub: &Hub<'_>,
    submitter: &str,
    name: &str,
    given_type: Option<&str>,
) -> Result<UploadLink, FileRejected> {
    let name = clean_name(name).ok_or(FileRejected::NoName)?;
    let content_type = content_type(given_type, &name);
    let expires_at = (hub.now + UPLOAD_MS) / 1000;
    let id = FileId::new(hub.now, hub.random());
    hub.command(|_| {
        if is_full(hub)? {
            // What is over takes nobody's place, whenever the purge comes to it.
            let over = attachments::expired(hub.db, FileKind::Input, hub.now, PURGE_FILES_MAX)?;
            over.iter().try_for_each(|row| attachments::delete(hub.db, row))?;
            if is_full(hub)? {
                return Err(FileRejected::TooManyLoose { files_max: LOOSE_FILES_MAX });
            }
        }
        let row = FileRow {
            id: id.as_str().to_owned(),
            task_id: None,
            kind: FileKind::Input,
            attempt: None,
            name: name.clone(),
            content_type: content_type.clone(),
            stored: None,
            content_id: id.as_str().to_owned(),
            owner: submitter.to_owned(),
            created_at: hub.now,
            // An upload that begins at the last moment has its hour.
            expires_at: Some(expires_at * 1000 + UPLOAD_MS),
        };
        attachments::insert(hub.db, &row, false).map_err(FileRejected::from)
    })?;
    let query = link_query(&hub.settings.hub_secret, LinkPurpose::Upload, id.as_str(), expires_at);
    Ok(UploadLink {
        url: format!("{}/files/{}?{query}", hub.origin, id.as_str()),
        file_id: id.as_str().to_owned(),
        name,
        content_type,
        expires_at: expires_at * 1000,
        bytes_max: hub.settings.attachment_bytes_max,
    })
}

fn is_full(hub: &Hub<'_>) -> Result<bool, DatabaseError> {
    Ok(attachments::count_loose(hub.db, LOOSE_FILES_MAX)? >= LOOSE_FILES_MAX)
}

/// Deletes uploads that nobody ended and files that no task took, when their time is over; a few at a time, each in a
/// transaction of its own. Says whether there may be more.
pub fn purge_files(hub: &Hub<'_>) -> Result<bool, DatabaseError> {
    let mut more = false;
    for kind in [FileKind::Input, FileKind::Output] {
        let over = attachments::expired(hub.db, kind, hub.now, PURGE_FILES_MAX)?;
        more |= over.len() == PURGE_FILES_MAX;
        over.iter().try_for_each(|row| hub.command(|_| attachments::delete(hub.db, row)))?;
    }
    Ok(more)
}
