//! Answers that the edge gives by itself.

use crate::domain::limits::REQUEST_BODY_BYTES_MAX;
use crate::domain::settings::SettingError;
use crate::http::message::Response;
use crate::http::problem::Problem;

/// A panic was caught.
pub fn internal() -> Response {
    let detail = "The hub failed while it handled this request, and changed nothing. Repeat the same call once; if it fails \
                  again, tell the owner to look into the Worker's log.";
    Problem::new(500, "internal", "Internal error", detail).retry_after(5).response()
}

/// The object did not answer in time, or cannot be reached.
pub fn unavailable() -> Response {
    let detail = "The hub did not answer in time. Whether it did what was asked is unknown: repeat the same call, with the \
                  same request_id or idempotency_key, after a few seconds.";
    Problem::new(503, "unavailable", "Hub unavailable", detail).retry_after(5).response()
}

/// The database cannot be opened.
pub fn cannot_open(reason: &str) -> Response {
    let detail = format!("The hub's database cannot be used: {reason}. The owner must mend this.");
    Problem::new(503, "unavailable", "Hub unavailable", detail).retry_after(10).response()
}

/// The settings are wrong: every one of them, and what to do.
pub fn misconfigured(errors: &[SettingError]) -> Response {
    let list: Vec<String> = errors.iter().map(|error| format!("{} {}.", error.name, error.detail)).collect();
    let detail = format!("The owner must mend the hub's settings first: {}", list.join(" "));
    Problem::new(503, "misconfigured", "Hub misconfigured", detail).response()
}

/// The body is over the limit.
pub fn too_large() -> Response {
    let detail = format!("The request body is longer than {REQUEST_BODY_BYTES_MAX} bytes; send less.");
    Problem::new(413, "too_large", "Body too large", detail).response()
}

/// The body broke off.
pub fn broken_body() -> Response {
    crate::http::problem::bad_request("The request body broke off; send it again, whole.").response()
}
