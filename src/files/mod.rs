//! `/files/…`: files by signed links, out and in.
//!
//! Owns what a browser and every other client is told of a file (`headers`), and which part of it is sent (`range`).
//! Invariants: a link is the only credential, good for one file and one purpose; whatever a file contains, no browser runs it
//! here or takes it for something else; bytes never pass through this library on their way out. It refuses to know SQL, and
//! how a body is sent.

mod headers;
mod range;

use crate::domain::ids::FileId;
use crate::executor::{receive, refusals};
use crate::http::message::{Outcome, Request, Response, Slice};
use crate::http::problem::storage_failed;
use crate::http::upload;
use crate::hub::{self, FileRejected, Hub, StoredFile, Upload, UploadTo};
use range::Part;

/// Sends a file, or a part of it, or says that the client has it. Whether the link is good was looked at before.
pub fn download(hub: &Hub<'_>, request: &Request, id: &str) -> Outcome {
    let StoredFile { file, content_id } = match hub::stored_file(hub, id) {
        Ok(Some(stored)) => stored,
        Ok(None) => return Outcome::Reply(refusals::file(&FileRejected::NotFound).response()),
        Err(error) => return Outcome::Reply(storage_failed(error.failure()).response()),
    };
    let size = file.size.unsigned_abs();
    let etag = headers::etag(&file);
    if let Some(response) = headers::precondition(request, &file, &etag) {
        return Outcome::Reply(response);
    }
    let (status, from, bytes) = match range::part(request, size, &etag) {
        Part::Whole => (200, 0, size),
        Part::Bytes { from, bytes } => (206, from, bytes),
        Part::Unsatisfiable => return Outcome::Reply(headers::unsatisfiable(&etag, size)),
    };
    let response = headers::describe(Response::empty(status), &file, &etag).with("content-length", bytes.to_string());
    let response = match status {
        206 => response.with("content-range", format!("bytes {from}-{}/{size}", from + bytes - 1)),
        _ => response,
    };
    if request.method == "HEAD" || bytes == 0 {
        return Outcome::Reply(response);
    }
    Outcome::Download(response, Slice { content_id, from, bytes })
}

/// Takes a file by a link that was given out for it.
pub fn bring(hub: &Hub<'_>, request: &Request, id: &str) -> Outcome {
    let Some(id) = FileId::parse(id) else {
        return Outcome::Reply(refusals::file(&FileRejected::NotFound).response());
    };
    let announced = match upload::announced(request, hub.settings()) {
        Ok(announced) => announced,
        Err(problem) => return Outcome::Reply(problem.response()),
    };
    let upload = Upload {
        to: UploadTo::Link(&id),
        content_type: announced.content_type.as_deref(),
        sha256: announced.sha256.as_deref(),
        size: announced.size,
    };
    let next = "Name its id among the files of submit_task within a day; a file that no task takes is deleted then.";
    receive(hub, request, &upload, next)
}
