//! Answers that the edge gives by itself.

use crate::domain::limits::REQUEST_BODY_BYTES_MAX;
use crate::domain::settings::SettingError;
use crate::domain::storage::StorageFailure;
use crate::http::message::Response;
use crate::http::problem::{Problem, storage_failed};

/// A panic was caught.
pub fn internal() -> Response {
    let detail = "The hub failed while it handled this request, and changed nothing. Repeat the same call once; if it fails \
                  again, tell the owner to look into the Worker's log.";
    Problem::new(500, "internal", "Internal error", detail).retry_after(5).response()
}

/// The object failed, as the runtime has it. A write for which there is no room fails when it is committed, and then the
/// runtime ends the object with all calls in it, also those whose own commit went well and whose answer was on its way. So
/// nothing is promised here about what was changed.
pub fn object_failed(message: &str) -> Response {
    match StorageFailure::of(message) {
        StorageFailure::Full => {
            let detail = "The hub's storage is full. Most likely this call was not stored and nothing was changed, which a full \
                          hub cannot promise. What was acknowledged is safe and can be read. Tell the owner to make room where \
                          the hub keeps its data; then repeat the same call with the same request_id or idempotency_key, and it \
                          is done once. Without one, look first whether it was done.";
            Problem::new(503, "storage_full", "Storage full", detail).retry_after(30).response()
        }
        StorageFailure::ReadOnly => storage_failed(StorageFailure::ReadOnly).response(),
        StorageFailure::Other => {
            let detail = "The hub failed before it could answer. Whether it did what was asked is unknown: repeat the same \
                          call, with the same request_id or idempotency_key, after a few seconds. If it fails again, tell the \
                          owner to look into the Worker's log, and whether there is room on its disk.";
            Problem::new(503, "unavailable", "Hub unavailable", detail).retry_after(5).response()
        }
    }
}

/// The object did not answer in time.
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
