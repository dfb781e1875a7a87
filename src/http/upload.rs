//! What comes with the body of an upload, before any of it is read; for the front and the object alike.

use super::message::{Request, Response};
use super::problem::{self, Problem, bad_request};
use super::route::Route;
use crate::domain::file::parse_sha256;
use crate::domain::settings::Settings;

/// What an upload's headers say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// How many bytes it has, if it says so.
    pub size: Option<i64>,
    /// Its SHA-256 in lower-case hex, if it says so.
    pub sha256: Option<String>,
    /// Its type, if it says so.
    pub content_type: Option<String>,
}

/// The refusal of an upload that will not be taken whatever its body holds; `None` if it may be, and for other requests.
pub fn refuse(request: &Request, route: &Route, settings: &Settings) -> Option<Response> {
    let refusal = announced(request, settings).err().filter(|_| route.is_upload());
    refusal.map(|problem| problem.response())
}

/// Reads and checks these headers.
pub fn announced(request: &Request, settings: &Settings) -> Result<Announced, Problem> {
    let encoding = request.header("content-encoding").filter(|encoding| !encoding.eq_ignore_ascii_case("identity"));
    if encoding.is_some() {
        let detail = "The bytes are stored as they come, so they cannot be compressed on the way. Send the file itself, without \
                      Content-Encoding; one that is to stay compressed is sent under a name such as report.csv.gz.";
        return Err(Problem::new(415, "unsupported_encoding", "Encoded body", detail));
    }
    let content_type = request.header("content-type");
    // `curl -F` sends one, and its boundaries would be kept as part of the file.
    if content_type.is_some_and(|text| text.to_ascii_lowercase().starts_with("multipart/")) {
        return Err(bad_request(
            "The body is a form with a file in it; what is stored is the body itself. Send the file's bytes and nothing else: \
             curl -T FILE, or -X PUT --data-binary @FILE.",
        ));
    }
    let size = match request.header("transfer-encoding") {
        // Then a length does not count.
        Some(_) => None,
        None => request.header("content-length").and_then(|text| text.parse().ok()),
    };
    if size.is_some_and(|size: i64| size > settings.attachment_bytes_max) {
        return Err(problem::file_too_large(settings.attachment_bytes_max));
    }
    let sha256 = match request.header("x-sha256") {
        None => None,
        Some(text) => Some(parse_sha256(text).ok_or_else(|| {
            bad_request(
                "X-Sha256: it must be the SHA-256 of the whole file in 64 hexadecimal digits (sha256sum FILE prints it). Mend it \
                 or leave it out, and send the file again.",
            )
        })?),
    };
    Ok(Announced { size, sha256, content_type: content_type.map(str::to_owned) })
}
