//! Input files: what a submission brings, what it was uploaded before, and what a retry shares with the task that it
//! repeats. All within the transaction that makes the task.

use serde_json::{Value as Json, json};

use super::Hub;
use super::attach::NewFile;
use super::files::TASK_ROWS_MAX;
use super::submit::{Submit, SubmitRejected};
use super::upload::{FileRejected, check_room};
use crate::domain::file::{FileKind, clean_name, content_type, sha256_of};
use crate::domain::ids::FileId;
use crate::domain::limits::CHUNK_BYTES;
use crate::store::attachments::{self, FileRow, Stored};
use crate::store::database::DatabaseError;

/// A file that a submission brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputFile {
    /// With all its bytes.
    Inline(NewFile),
    /// One that was uploaded, or that the same submitter gave to a task before.
    Uploaded {
        /// Its id.
        file_id: String,
    },
}

impl InputFile {
    /// What makes it the same as another, for telling one submission from the next.
    pub(super) fn mark(&self) -> Json {
        match self {
            Self::Inline(file) => json!([file.name, file.content_type, sha256_of(&file.bytes)]),
            Self::Uploaded { file_id } => json!(file_id),
        }
    }
}

/// Gives a task that is being made its files.
pub(super) fn give(hub: &Hub<'_>, input: &Submit, task_id: &str) -> Result<(), SubmitRejected> {
    let mut given: Vec<FileRow> = vec![];
    if let Some(repeated) = &input.retry_of {
        let files = attachments::of_task(hub.db, repeated, TASK_ROWS_MAX)?;
        for row in files.iter().filter(|row| row.kind == FileKind::Input && row.stored.is_some()) {
            given.push(share(hub, row, task_id)?);
        }
    }
    for file in &input.inputs {
        let row = match file {
            InputFile::Inline(file) => bring(hub, input, file, (task_id, &given))?,
            InputFile::Uploaded { file_id } => take(hub, input, file_id, (task_id, &given))?,
        };
        given.push(row);
    }
    Ok(())
}

fn share(hub: &Hub<'_>, row: &FileRow, task_id: &str) -> Result<FileRow, DatabaseError> {
    let id = FileId::new(hub.now, hub.random()).as_str().to_owned();
    let shared = FileRow { id, task_id: Some(task_id.to_owned()), expires_at: None, ..row.clone() };
    attachments::insert(hub.db, &shared, true)?;
    Ok(shared)
}

fn bring(
    hub: &Hub<'_>,
    input: &Submit,
    file: &NewFile,
    (task_id, given): (&str, &[FileRow]),
) -> Result<FileRow, SubmitRejected> {
    let rejected = |why: &FileRejected| invalid(&file.name, why);
    let name = clean_name(&file.name).ok_or_else(|| rejected(&FileRejected::NoName))?;
    let size = i64::try_from(file.bytes.len()).unwrap_or(i64::MAX);
    check_room(hub, given, size).map_err(|why| rejected(&why))?;
    let id = FileId::new(hub.now, hub.random()).as_str().to_owned();
    let row = FileRow {
        task_id: Some(task_id.to_owned()),
        kind: FileKind::Input,
        attempt: None,
        content_type: content_type(file.content_type.as_deref(), &name),
        name,
        stored: Some(Stored { size, sha256: sha256_of(&file.bytes) }),
        content_id: id.clone(),
        id,
        owner: input.submitter.clone(),
        created_at: hub.now,
        expires_at: None,
    };
    attachments::insert(hub.db, &row, false)?;
    for (number, bytes) in (0..).zip(file.bytes.chunks(CHUNK_BYTES)) {
        attachments::insert_chunk(hub.db, &row.content_id, number, bytes.to_vec())?;
    }
    Ok(row)
}

fn take(
    hub: &Hub<'_>,
    input: &Submit,
    file_id: &str,
    (task_id, given): (&str, &[FileRow]),
) -> Result<FileRow, SubmitRejected> {
    let id = FileId::parse(file_id);
    let row = id.map(|id| attachments::by_id(hub.db, id.as_str())).transpose()?.flatten();
    // Another submitter's file is no more there than none.
    let is_own = |row: &FileRow| row.kind == FileKind::Input && row.owner == input.submitter;
    let row = row.filter(is_own).ok_or_else(|| invalid(file_id, &FileRejected::NotFound))?;
    if row.stored.is_none() {
        let detail = format!(
            "The file {file_id} has not been uploaded yet. PUT it to the link that you got for it (curl -T FILE 'LINK'), then \
             submit again."
        );
        return Err(SubmitRejected::Invalid { field: "input_files", detail });
    }
    check_room(hub, given, row.size()).map_err(|why| invalid(&row.name, &why))?;
    if given.iter().any(|other| other.id == row.id) {
        return Ok(share(hub, &row, task_id)?);
    }
    if row.task_id.is_none() && attachments::take(hub.db, &row.id, task_id)? {
        return Ok(FileRow { task_id: Some(task_id.to_owned()), expires_at: None, ..row });
    }
    Ok(share(hub, &row, task_id)?)
}

/// Why a file of a submission is not taken, for who submits it.
fn invalid(file: &str, why: &FileRejected) -> SubmitRejected {
    let file = crate::domain::text::shorten(file, 80);
    let detail = match why {
        FileRejected::NoName => format!("\"{file}\" cannot be a file's name: nothing is left of it. Give it another."),
        FileRejected::TooLarge { bytes_max } => {
            format!(
                "{file} is longer than a file may be here, {bytes_max} bytes. Leave it out, or refer to it by a link."
            )
        }
        FileRejected::TaskFull { bytes_max, .. } => {
            format!("With {file}, the files of the task have more than {bytes_max} bytes. Leave some out.")
        }
        FileRejected::TooMany { files_max } => {
            format!("A task has at most {files_max} files. Leave some out, or put them into one archive.")
        }
        FileRejected::NotFound => format!(
            "There is no file {file} of yours that was uploaded: the id is mistyped, or it was not used within a day. Upload it \
             again by a new link."
        ),
        FileRejected::Database(error) => return SubmitRejected::Database(error.clone()),
        FileRejected::Attempt(_)
        | FileRejected::TooManyLoose { .. }
        | FileRejected::WrongHash { .. }
        | FileRejected::Displaced
        | FileRejected::Taken { .. } => format!("{file} was not taken. Submit the task again."),
    };
    SubmitRejected::Invalid { field: "input_files", detail }
}
