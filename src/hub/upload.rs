//! `upload`: a file comes in piece by piece, one transaction a piece, and is there when the last of them is.
//!
//! - **Pieces.** What has come so far travels in a value (`Receiving`) from piece to piece; the store has the pieces. Its row
//!   is written with the first piece, and all at once if that is the last.
//! - **Fence.** An attempt's right to write is checked at every piece. When it is lost, what came goes at once.
//! - **Repeating.** A file of the same name and content is the same file. Whatever else came of the same upload before,
//!   because it broke off, makes way.

use std::cell::Cell;

use serde_json::json;

use super::attempt::{self, AttemptCall, AttemptRejected};
use super::files::{FileView, TASK_ROWS_MAX};
use super::{Effects, Hub};
use crate::domain::file::{FileKind, Receiving, UNKNOWN_TYPE, clean_name, content_type};
use crate::domain::ids::FileId;
use crate::domain::limits::{CHUNK_BYTES, LOOSE_FILE_MS, TASK_FILES_MAX, TASK_UPLOADS_MAX, UPLOAD_MS};
use crate::faults::{self, Fault};
use crate::store::attachments::{self, FileRow, Stored};
use crate::store::database::DatabaseError;
use crate::store::events::Kind;
use crate::store::tasks::TaskHead;

/// A file that somebody brings.
#[derive(Clone, Debug)]
pub struct Upload<'u> {
    /// Where it goes.
    pub to: UploadTo<'u>,
    /// Its type, as the sender has it.
    pub content_type: Option<&'u str>,
    /// What its SHA-256 is to be, in lower-case hex.
    pub sha256: Option<&'u str>,
    /// How many bytes it is to have.
    pub size: Option<i64>,
}

/// Where a file goes.
#[derive(Clone, Copy, Debug)]
pub enum UploadTo<'u> {
    /// To the task that an attempt works on.
    Attempt {
        /// Whose attempt.
        call: AttemptCall<'u>,
        /// What the sender calls it.
        name: &'u str,
    },
    /// To where a link was given out for it.
    Link(&'u FileId),
}

/// Where an upload stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uploaded {
    /// The next piece is awaited.
    More(Receiving),
    /// The file is there.
    Done {
        /// It.
        file: FileView,
        /// Whether it had been before.
        existed: bool,
    },
}

/// Why a file is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRejected {
    /// The attempt may not write, or not any more.
    Attempt(AttemptRejected),
    /// Nothing is left of its name when that is made safe.
    NoName,
    /// It is longer than a file may be.
    TooLarge {
        /// What it may have, in bytes.
        bytes_max: i64,
    },
    /// The files of the task are longer than they may be together.
    TaskFull {
        /// What they may have, in bytes.
        bytes_max: i64,
        /// What they have without this one.
        bytes: i64,
    },
    /// The task has as many files as it may.
    TooMany {
        /// How many that are.
        files_max: usize,
    },
    /// As many files as there may be were uploaded, or are awaited, that no task has.
    TooManyLoose {
        /// How many that are.
        files_max: u32,
    },
    /// What came is not what was announced.
    WrongHash {
        /// The SHA-256 of what came.
        found: String,
    },
    /// Another upload of the same took this one's place, or it took too long.
    Displaced,
    /// There is no such file, or not any more.
    NotFound,
    /// The link was used, for a file of another content.
    Taken {
        /// The SHA-256 of that.
        sha256: String,
    },
    /// The database failed.
    Database(DatabaseError),
}

impl From<DatabaseError> for FileRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

impl From<AttemptRejected> for FileRejected {
    fn from(rejected: AttemptRejected) -> Self {
        match rejected {
            AttemptRejected::Database(error) => Self::Database(error),
            rejected => Self::Attempt(rejected),
        }
    }
}

/// A step inside a command. The inner error is a refusal, of which what was written is to stay.
type Step<T> = Result<Result<T, FileRejected>, FileRejected>;

/// Begins an upload, unless the file is there already. Nothing is written but evidence of a refusal.
pub fn begin_upload(hub: &Hub<'_>, upload: &Upload<'_>) -> Result<Uploaded, FileRejected> {
    hub.command(|_| match &upload.to {
        UploadTo::Attempt { call, name } => {
            let name = clean_name(name).ok_or(FileRejected::NoName)?;
            match attempt::writing(hub, call)? {
                Ok(task) => begin_for_task(hub, upload, &task, &name).map(Ok),
                Err(rejected) => Ok(Err(rejected.into())),
            }
        }
        UploadTo::Link(id) => begin_by_link(hub, upload, id).map(Ok),
    })?
}

/// Takes the next piece of an upload; of `CHUNK_BYTES`, unless it is the last.
pub fn take_piece(
    hub: &Hub<'_>,
    upload: &Upload<'_>,
    receiving: &Receiving,
    bytes: Vec<u8>,
    is_last: bool,
) -> Result<Uploaded, FileRejected> {
    if bytes.len() > CHUNK_BYTES || (bytes.len() < CHUNK_BYTES && !is_last) {
        return Err(DatabaseError::Shape("bytes").into());
    }
    let piece = TakenPiece { before: receiving, after: receiving.with(&bytes), bytes: Cell::new(bytes), is_last };
    hub.command(|effects| match &upload.to {
        UploadTo::Attempt { call, name } => {
            let name = clean_name(name).ok_or(FileRejected::NoName)?;
            match attempt::writing(hub, call)? {
                Ok(task) => piece_for_task(hub, effects, upload, (call, &task, &name), &piece),
                Err(rejected) => {
                    discard(hub, receiving)?;
                    Ok(Err(rejected.into()))
                }
            }
        }
        UploadTo::Link(id) => piece_by_link(hub, upload, id, &piece),
    })?
}

/// Ends an upload that will not go on: nothing is left of it.
pub fn abandon_upload(hub: &Hub<'_>, receiving: &Receiving) -> Result<(), FileRejected> {
    hub.command(|_| discard(hub, receiving).map_err(FileRejected::from))
}

/// A piece with what had come before it.
struct TakenPiece<'p> {
    before: &'p Receiving,
    after: Receiving,
    bytes: Cell<Vec<u8>>,
    is_last: bool,
}

impl TakenPiece<'_> {
    /// Stores the piece, once its row is there.
    fn keep(&self, hub: &Hub<'_>) -> Result<(), DatabaseError> {
        let bytes = self.bytes.take();
        if bytes.is_empty() {
            return Ok(());
        }
        attachments::insert_chunk(hub.db, &self.before.content_id, self.before.pieces, bytes)
    }

    fn stored(&self) -> Stored {
        Stored { size: self.after.size, sha256: self.after.sha256() }
    }

    fn check_hash(&self, upload: &Upload<'_>) -> Result<(), FileRejected> {
        match upload.sha256 {
            Some(sha256) if self.is_last && sha256 != self.after.sha256() => {
                Err(FileRejected::WrongHash { found: self.after.sha256() })
            }
            _ => Ok(()),
        }
    }
}

/// Deletes what has come of an upload. The row of a link stays, for the link is still good.
fn discard(hub: &Hub<'_>, receiving: &Receiving) -> Result<(), DatabaseError> {
    if receiving.pieces == 0 || !receiving.is_kept {
        return Ok(());
    }
    match attachments::by_id(hub.db, receiving.file_id.as_str())? {
        Some(row) if row.stored.is_some() && row.content_id == receiving.content_id => Ok(()),
        Some(row) if row.stored.is_none() && row.kind == FileKind::Output => attachments::delete(hub.db, &row),
        _ => attachments::delete_chunks(hub.db, &receiving.content_id),
    }
}

/// The file of a task that has this name and content.
fn same(files: &[FileRow], name: &str, sha256: &str) -> Option<FileView> {
    let is_same = |row: &&FileRow| {
        !faults::is_on(Fault::FileKeptTwice)
            && row.name == name
            && row.kind == FileKind::Output
            && row.stored.as_ref().is_some_and(|stored| stored.sha256 == sha256)
    };
    files.iter().find(is_same).cloned().and_then(FileView::of)
}

/// How many bytes one more file may have, if a task with these files may have one.
pub(super) fn room(hub: &Hub<'_>, files: &[FileRow]) -> Result<i64, FileRejected> {
    if files.iter().filter(|row| row.stored.is_some()).count() >= TASK_FILES_MAX {
        return Err(FileRejected::TooMany { files_max: TASK_FILES_MAX });
    }
    let bytes: i64 = files.iter().map(FileRow::size).sum();
    let bytes_max = hub.settings.task_attachments_bytes_max;
    if bytes >= bytes_max {
        return Err(FileRejected::TaskFull { bytes_max, bytes });
    }
    Ok((bytes_max - bytes).min(hub.settings.attachment_bytes_max))
}

/// Refuses a file of this size that a task with these files has no room for.
pub(super) fn check_room(hub: &Hub<'_>, files: &[FileRow], size: i64) -> Result<(), FileRejected> {
    let bytes_max = hub.settings.attachment_bytes_max;
    if size > bytes_max {
        return Err(FileRejected::TooLarge { bytes_max });
    }
    if size > room(hub, files)? {
        let bytes = files.iter().map(FileRow::size).sum();
        return Err(FileRejected::TaskFull { bytes_max: hub.settings.task_attachments_bytes_max, bytes });
    }
    Ok(())
}

fn begin_for_task(hub: &Hub<'_>, upload: &Upload<'_>, task: &TaskHead, name: &str) -> Result<Uploaded, FileRejected> {
    let files = attachments::of_task(hub.db, &task.id, TASK_ROWS_MAX)?;
    if let Some(file) = upload.sha256.and_then(|sha256| same(&files, name, sha256)) {
        return Ok(Uploaded::Done { file, existed: true });
    }
    // Where there is no room, what comes may still be what is there.
    let namesakes = files.iter().filter(|row| row.name == name && row.stored.is_some());
    let (bytes_max, is_kept) = match (room(hub, &files), namesakes.map(FileRow::size).max()) {
        (Ok(bytes_max), _) => (bytes_max, true),
        (Err(_), Some(size)) => (size, false),
        (Err(rejected), None) => return Err(rejected),
    };
    if let Some(size) = upload.size.filter(|size| *size > bytes_max) {
        check_room(hub, &files, size)?;
    }
    let file_id = FileId::new(hub.now, hub.random());
    let content_id = file_id.as_str().to_owned();
    Ok(Uploaded::More(Receiving::begin(file_id, content_id, hub.now, bytes_max, is_kept)))
}

fn piece_for_task(
    hub: &Hub<'_>,
    effects: &mut Effects,
    upload: &Upload<'_>,
    (call, task, name): (&AttemptCall<'_>, &TaskHead, &str),
    piece: &TakenPiece<'_>,
) -> Step<Uploaded> {
    let receiving = piece.before;
    let refused = |rejected: FileRejected| {
        discard(hub, receiving)?;
        Ok(Err(rejected))
    };
    let is_begun = receiving.is_kept && receiving.pieces > 0;
    if is_begun && attachments::by_id(hub.db, receiving.file_id.as_str())?.is_none() {
        return Ok(Err(FileRejected::Displaced));
    }
    if !piece.is_last && !receiving.is_kept && piece.after.size <= receiving.bytes_max {
        return Ok(Ok(Uploaded::More(piece.after.clone())));
    }
    let needs_all = piece.is_last || !is_begun || piece.after.size > receiving.bytes_max;
    let files = if needs_all { attachments::of_task(hub.db, &task.id, TASK_ROWS_MAX)? } else { vec![] };
    if piece.after.size > receiving.bytes_max {
        return refused(check_room(hub, &files, piece.after.size).err().unwrap_or(FileRejected::Displaced));
    }
    if let Err(rejected) = piece.check_hash(upload) {
        return refused(rejected);
    }
    if piece.is_last {
        if let Some(file) = same(&files, name, &piece.after.sha256()) {
            discard(hub, receiving)?;
            return Ok(Ok(Uploaded::Done { file, existed: true }));
        }
        if let Err(rejected) = check_room(hub, &files, piece.after.size) {
            return refused(rejected);
        }
    }
    let row = FileRow {
        id: receiving.file_id.as_str().to_owned(),
        task_id: Some(task.id.clone()),
        kind: FileKind::Output,
        attempt: Some(task.life.attempt),
        name: name.to_owned(),
        content_type: content_type(upload.content_type, name),
        stored: piece.is_last.then(|| piece.stored()),
        content_id: receiving.content_id.clone(),
        owner: call.executor.to_owned(),
        created_at: receiving.began_at,
        expires_at: (!piece.is_last).then_some(hub.now + UPLOAD_MS),
    };
    if !is_begun {
        make_way(hub, &files, name)?;
        attachments::insert(hub.db, &row, false)?;
    }
    piece.keep(hub)?;
    let Some(stored) = &row.stored else { return Ok(Ok(Uploaded::More(piece.after.clone()))) };
    if is_begun && !attachments::store(hub.db, &row, stored)? {
        return Err(FileRejected::Displaced);
    }
    let data = json!({ "file_id": row.id, "name": name, "size": stored.size, "sha256": stored.sha256 });
    attempt::witness(hub, effects, call, task, (Kind::Attached, data))?;
    done(row)
}

fn done(row: FileRow) -> Step<Uploaded> {
    let file = FileView::of(row).ok_or(DatabaseError::Shape("size"))?;
    Ok(Ok(Uploaded::Done { file, existed: false }))
}

/// Uploads that nobody ended make way: those of the same name, and the oldest where there are too many.
fn make_way(hub: &Hub<'_>, files: &[FileRow], name: &str) -> Result<(), DatabaseError> {
    let (namesakes, others): (Vec<_>, Vec<_>) =
        files.iter().filter(|row| row.stored.is_none()).partition(|row| row.name == name);
    let too_many = (others.len() + 1).saturating_sub(TASK_UPLOADS_MAX);
    namesakes.into_iter().chain(others.into_iter().take(too_many)).try_for_each(|row| attachments::delete(hub.db, row))
}

fn begin_by_link(hub: &Hub<'_>, upload: &Upload<'_>, id: &FileId) -> Result<Uploaded, FileRejected> {
    let row = attachments::by_id(hub.db, id.as_str())?.ok_or(FileRejected::NotFound)?;
    let content_id = FileId::new(hub.now, hub.random()).as_str().to_owned();
    let begin =
        |bytes_max, is_kept| Uploaded::More(Receiving::begin(id.clone(), content_id, hub.now, bytes_max, is_kept));
    match (&row.stored, upload.sha256) {
        (Some(stored), Some(sha256)) if stored.sha256 == sha256 => arrived(row),
        (Some(stored), Some(_)) => Err(FileRejected::Taken { sha256: stored.sha256.clone() }),
        (Some(stored), None) => Ok(begin(stored.size, false)),
        (None, _) => {
            let bytes_max = hub.settings.attachment_bytes_max;
            match upload.size {
                Some(size) if size > bytes_max => Err(FileRejected::TooLarge { bytes_max }),
                _ => Ok(begin(bytes_max, true)),
            }
        }
    }
}

/// The file was there before.
fn arrived(row: FileRow) -> Result<Uploaded, FileRejected> {
    let file = FileView::of(row).ok_or(FileRejected::NotFound)?;
    Ok(Uploaded::Done { file, existed: true })
}

fn piece_by_link(hub: &Hub<'_>, upload: &Upload<'_>, id: &FileId, piece: &TakenPiece<'_>) -> Step<Uploaded> {
    let receiving = piece.before;
    let refused = |rejected: FileRejected| {
        discard(hub, receiving)?;
        Ok(Err(rejected))
    };
    let Some(row) = attachments::by_id(hub.db, id.as_str())? else { return refused(FileRejected::NotFound) };
    if let Some(stored) = &row.stored {
        // Another upload got there first, or this one repeats it.
        let is_same = piece.after.sha256() == stored.sha256;
        return match (piece.is_last, is_same) {
            (false, _) if piece.after.size <= stored.size => Ok(Ok(Uploaded::More(piece.after.clone()))),
            (true, true) => {
                discard(hub, receiving)?;
                arrived(row).map(Ok)
            }
            _ => refused(FileRejected::Taken { sha256: stored.sha256.clone() }),
        };
    }
    let is_first = receiving.pieces == 0;
    if !receiving.is_kept || (!is_first && row.content_id != receiving.content_id) {
        return Ok(Err(FileRejected::Displaced));
    }
    if piece.after.size > receiving.bytes_max {
        return refused(FileRejected::TooLarge { bytes_max: receiving.bytes_max });
    }
    if let Err(rejected) = piece.check_hash(upload) {
        return refused(rejected);
    }
    if is_first && !attachments::replace(hub.db, &row, &receiving.content_id)? {
        return Err(FileRejected::Displaced);
    }
    piece.keep(hub)?;
    if !piece.is_last {
        return Ok(Ok(Uploaded::More(piece.after.clone())));
    }
    let content_type = match row.content_type.as_str() {
        UNKNOWN_TYPE => content_type(upload.content_type, &row.name),
        known => known.to_owned(),
    };
    let (stored, expires_at) = (Some(piece.stored()), Some(hub.now + LOOSE_FILE_MS));
    let row = FileRow { stored, expires_at, content_type, content_id: receiving.content_id.clone(), ..row };
    match &row.stored {
        Some(stored) if attachments::store(hub.db, &row, stored)? => done(row),
        _ => Err(FileRejected::Displaced),
    }
}
