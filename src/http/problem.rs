//! Errors on the wire: RFC 9457 `application/problem+json` with a stable code, a sentence that says what to do, and
//! whether a retry helps.

use serde_json::json;

use super::message::Response;
use crate::domain::storage::StorageFailure;

/// One error as a caller sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// HTTP status.
    pub status: u16,
    /// Stable name of the error.
    pub code: &'static str,
    /// The same for every error of this code.
    pub title: &'static str,
    /// What is the matter and what to do next; a sentence or two.
    pub detail: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// When to try again, if it is known.
    pub retry_after_seconds: Option<u32>,
}

impl Problem {
    /// An error that the same call would meet again.
    pub fn new(status: u16, code: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, title, detail: detail.into(), retryable: false, retry_after_seconds: None }
    }

    /// The same, but worth trying again after this many seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        Self { retryable: true, retry_after_seconds: Some(seconds), ..self }
    }

    /// The response that carries it.
    pub fn response(&self) -> Response {
        let mut body = json!({
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "retryable": self.retryable,
        });
        if let Some(seconds) = self.retry_after_seconds {
            body["retry_after_seconds"] = json!(seconds);
        }
        let response = Response::bytes(self.status, "application/problem+json", body.to_string().into_bytes());
        match self.retry_after_seconds {
            Some(seconds) => response.with("retry-after", seconds.to_string()),
            None => response,
        }
    }
}

/// A request that cannot be read: broken JSON, a missing or wrong field.
pub fn bad_request(detail: impl Into<String>) -> Problem {
    Problem::new(400, "bad_request", "Bad request", detail)
}

/// What there is for executors, the owner, and everybody.
const EXECUTOR_PATHS: &str = "An executor calls POST /executor/claim, heartbeat, result, defer, release, action and ping, always with the \
                              task's id in the body; PUT /executor/attachment; and the WebSocket /executor/listen. \
                              POST /executor/enroll trades a code of the owner for a key. GET /kit/SKILL.md says how to use them.";
const OWNER_PATHS: &str = "The owner API is /api/executors, /api/executors/{name}, and below that /enroll, /keys and /keys/{id}; \
                           /api/tasks/{id}, and below that /approve and /deny; /api/clients, /api/grants, /api/outbox, \
                           /api/passphrase, /api/callbacks/secret, /api/notify/test, and the WebSocket /api/events.";
const OTHER_PATHS: &str = "Tasks are submitted and listed by the tools of MCP, at /mcp. A machine becomes an executor by \
                           /kit/install.sh (and /kit/relay.py, /kit/SKILL.md, /kit/SHA256SUMS). Files are below /files/, by the \
                           links that the hub gives. GET /healthz says whether the hub is well.";

/// There is no such route: what there is for whoever asks like this.
pub fn not_found(path: &str) -> Problem {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    let paths = match first {
        "api" => format!("{OWNER_PATHS} {OTHER_PATHS}"),
        "kit" | "files" => OTHER_PATHS.to_owned(),
        _ => format!("{EXECUTOR_PATHS} {OTHER_PATHS} {OWNER_PATHS}"),
    };
    Problem::new(404, "not_found", "Not found", format!("There is nothing at this path. {paths}"))
}

/// A file that is longer than one may be.
pub fn file_too_large(bytes_max: i64) -> Problem {
    let detail = format!(
        "The file has more than {bytes_max} bytes, which is the most that a file may have here, and nothing of it is kept. Send a \
         smaller one: compress it, split it, or put it elsewhere and send its address instead."
    );
    Problem::new(413, "file_too_large", "File too large", detail)
}

/// The path exists, but not with this method.
pub fn method_not_allowed(allowed: &'static str) -> Response {
    let detail = format!("Use {allowed} for this path.");
    Problem::new(405, "method_not_allowed", "Method not allowed", detail).response().with("allow", allowed)
}

/// No credential, or one that does not hold.
pub fn unauthorized(detail: &str, challenge: String) -> Response {
    Problem::new(401, "unauthorized", "Unauthorized", detail).response().with("www-authenticate", challenge)
}

/// The database failed. The reason is logged, not told, unless it is one that the owner can mend.
pub fn storage_failed(failure: StorageFailure) -> Problem {
    match failure {
        StorageFailure::Full => {
            let detail = "The hub's storage is full, so this call was not stored and nothing was changed. What was stored before \
                          is safe and can be read. Tell the owner to make room where the hub keeps its data; then repeat the \
                          same call.";
            Problem::new(503, "storage_full", "Storage full", detail).retry_after(30)
        }
        StorageFailure::ReadOnly => {
            let detail = "The hub's storage can be read but not written, so nothing was changed. Tell the owner to make the \
                          directory of the hub's data and the files in it writable, and to restart the hub; then repeat the \
                          same call.";
            Problem::new(503, "storage_read_only", "Storage read-only", detail).retry_after(30)
        }
        StorageFailure::Other => {
            let detail = "The hub's storage failed, and nothing was changed. Repeat the same call after a few seconds; if it \
                          fails again, tell the owner to look into the Worker's log.";
            Problem::new(500, "internal", "Internal error", detail).retry_after(5)
        }
    }
}
