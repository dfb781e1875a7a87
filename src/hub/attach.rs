//! `attach`: a small file of an attempt, in one call.

use super::Hub;
use super::attempt::AttemptCall;
use super::files::FileView;
use super::upload::{FileRejected, Upload, UploadTo, Uploaded, begin_upload, take_piece};
use crate::domain::limits::CHUNK_BYTES;
use crate::store::database::DatabaseError;

/// A file with all its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// What the sender calls it.
    pub name: String,
    /// Its type, as the sender has it.
    pub content_type: Option<String>,
    /// At most `CHUNK_BYTES`.
    pub bytes: Vec<u8>,
}

/// Stores a file of the attempt's task; one of the same name and content that is there is the same file.
pub fn attach(hub: &Hub<'_>, call: &AttemptCall<'_>, file: &NewFile) -> Result<FileView, FileRejected> {
    if file.bytes.len() > CHUNK_BYTES {
        return Err(FileRejected::TooLarge { bytes_max: CHUNK_BYTES as i64 });
    }
    let upload = Upload {
        to: UploadTo::Attempt { call: *call, name: &file.name },
        content_type: file.content_type.as_deref(),
        sha256: None,
        size: i64::try_from(file.bytes.len()).ok(),
    };
    // To begin writes nothing, so both are one.
    let begun = begin_upload(hub, &upload)?;
    let Uploaded::More(receiving) = begun else { return finished(begun) };
    finished(take_piece(hub, &upload, &receiving, file.bytes.clone(), true)?)
}

fn finished(uploaded: Uploaded) -> Result<FileView, FileRejected> {
    match uploaded {
        Uploaded::Done { file, .. } => Ok(file),
        Uploaded::More(_) => Err(DatabaseError::Shape("bytes").into()),
    }
}
