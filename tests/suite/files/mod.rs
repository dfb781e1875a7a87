//! Files: names and links as values, the commands that bring, share and end them, and the two ways in over HTTP.

mod commands;
mod fence;
mod inputs;
mod names;

use serde_json::{Value as Json, json};
use taskhub::domain::limits::CHUNK_BYTES;
use taskhub::hub::{self, AttemptCall, FileRejected, FileView, Hub, Upload, UploadTo, Uploaded};

use crate::support::{Held, World};

/// What an attempt's upload brings as evidence.
pub fn brought() -> Json {
    json!({ "name": "a.txt" })
}

/// The call of an attempt of `bot`.
pub fn call<'c>(held: &'c Held, brought: &'c Json) -> AttemptCall<'c> {
    AttemptCall { executor: "bot", task_id: &held.id, claim_token: &held.token, verb: "attachment", brought }
}

/// An upload without any announcement.
pub fn upload<'u>(to: UploadTo<'u>) -> Upload<'u> {
    Upload { to, content_type: None, sha256: None, size: None }
}

/// Brings all of these bytes, as the edge does: piece by piece, each in a turn of its own.
pub fn bring(world: &World, upload: &Upload<'_>, bytes: &[u8]) -> Result<(FileView, bool), FileRejected> {
    let mut step = world.run(|hub| hub::begin_upload(hub, upload)).0?;
    let mut rest = bytes;
    loop {
        let receiving = match step {
            Uploaded::Done { file, existed } => return Ok((file, existed)),
            Uploaded::More(receiving) => receiving,
        };
        let (piece, left) = rest.split_at(rest.len().min(CHUNK_BYTES));
        // A body that ends with a whole piece ends with an empty one.
        let is_last = piece.len() < CHUNK_BYTES;
        rest = left;
        step = world.run(|hub| hub::take_piece(hub, upload, &receiving, piece.to_vec(), is_last)).0?;
    }
}

/// Brings a file to the task of an attempt.
pub fn attach(world: &World, held: &Held, name: &str, bytes: &[u8]) -> Result<(FileView, bool), FileRejected> {
    let brought = brought();
    bring(world, &upload(UploadTo::Attempt { call: call(held, &brought), name }), bytes)
}

/// All bytes of a file.
pub fn read(world: &World, id: &str) -> Vec<u8> {
    world.run(|hub| hub::read_file(hub, id, 0, usize::MAX / 2)).0.unwrap()
}

/// Rows of the two tables: files, and chunks.
pub fn rows(world: &World) -> (usize, usize) {
    let count = |sql| world.db.rows(sql).len();
    (count("SELECT id FROM attachments"), count("SELECT number FROM attachment_chunks"))
}

/// What the totals say, which must be what is there.
pub fn totals(world: &World) -> (i64, i64) {
    let (used, _) = world.run(hub::storage_use);
    let used = used.unwrap();
    let number = |sql| match world.db.rows(sql)[0][0] {
        taskhub::store::database::Value::Integer(number) => number,
        ref other => panic!("{other:?}"),
    };
    assert_eq!(used.files, number("SELECT count(*) FROM attachments WHERE state = 'stored'"));
    let contents =
        "SELECT coalesce(sum(size), 0) FROM (SELECT DISTINCT content_id, size FROM attachments WHERE state = 'stored')";
    assert_eq!(used.file_bytes, number(contents));
    assert!(used.database_bytes > 0);
    (used.files, used.file_bytes)
}

/// So many bytes, no two pieces of them alike.
pub fn noise(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at * 31) ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

/// Deletes what is over, uploads and tasks.
pub fn purge(world: &World) {
    world.run(hub::purge_files).0.unwrap();
    let mut after = String::new();
    while let Some(next) = world.run(|hub: &Hub<'_>| hub::purge(hub, &after)).0.unwrap() {
        after = next;
    }
}
