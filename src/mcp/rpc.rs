//! JSON-RPC 2.0 answers, and the errors that are the protocol's own.
//!
//! Owns: the codes, and the HTTP status that each error has. Errors that a model can mend are not here: they are results
//! (`answer::ToolError`).

use serde_json::{Value as Json, json};

use crate::domain::scope::Scope;
use crate::domain::text::shorten;
use crate::http::message::Response;

/// Characters of what a caller sent that an error repeats.
const REPEATED_CHARS_MAX: usize = 200;

const PARSE_ERROR: i32 = -32_700;
const INVALID_REQUEST: i32 = -32_600;
const METHOD_NOT_FOUND: i32 = -32_601;
const INVALID_PARAMS: i32 = -32_602;
const REFUSED: i32 = -32_000;
const HEADER_MISMATCH: i32 = -32_020;
const UNSUPPORTED_VERSION: i32 = -32_022;

/// A fault of the protocol, with the HTTP status under which it travels.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// HTTP status; 200 for an error that belongs to one request and not to the POST.
    pub status: u16,
    /// The code.
    pub code: i32,
    /// What is wrong, for a person who reads a log.
    pub message: String,
    /// What a client may use to go on.
    pub data: Option<Json>,
}

impl RpcError {
    fn new(status: u16, code: i32, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), data: None }
    }

    /// The body is not JSON.
    pub fn parse_error(reason: &str) -> Self {
        Self::new(400, PARSE_ERROR, format!("Parse error: {reason}"))
    }

    /// The body is JSON but no message, or one that cannot be taken here.
    pub fn invalid_request(reason: &str) -> Self {
        Self::new(400, INVALID_REQUEST, format!("Invalid request: {reason}"))
    }

    /// The POST as such is refused, whatever it says.
    pub fn refused(status: u16, reason: &str) -> Self {
        Self::new(status, REFUSED, reason)
    }

    /// The caller's token lacks this scope.
    pub fn forbidden(scope: Scope) -> Self {
        let scope = scope.name();
        let reason = format!("Insufficient scope: this needs {scope}. Sign in anew and let the owner grant it.");
        Self::refused(403, &reason)
    }

    /// The per-request envelope lacks a key or has one of the wrong shape.
    pub fn invalid_envelope(key: &str, problem: &str) -> Self {
        let message = format!("Invalid params: _meta of protocol revision 2026-07-28: {key}: {problem}");
        let data = json!({ "envelope": { "key": key, "problem": problem } });
        Self { data: Some(data), ..Self::new(400, INVALID_PARAMS, message) }
    }

    /// Parameters of a method that cannot be what they are.
    pub fn invalid_params(reason: &str) -> Self {
        Self::new(200, INVALID_PARAMS, format!("Invalid params: {reason}"))
    }

    /// A header and the body disagree, or the header is absent.
    pub fn header_mismatch(header: &str, found: Option<&str>, body: &str) -> Self {
        let found = shorten(found.unwrap_or("(missing)"), REPEATED_CHARS_MAX);
        let body = shorten(body, REPEATED_CHARS_MAX);
        let message = format!("Header mismatch: {header} is {found}, but {body}");
        let data = json!({ "mismatch": { "header": found, "body": body } });
        Self { data: Some(data), ..Self::new(400, HEADER_MISMATCH, message) }
    }

    /// The envelope names a revision that this hub does not speak.
    pub fn unsupported_version(requested: &str, supported: &[&str]) -> Self {
        let requested = shorten(requested, REPEATED_CHARS_MAX);
        let message = format!("Unsupported protocol version: {requested}. Supported: {}", supported.join(", "));
        let data = json!({ "supported": supported, "requested": requested });
        Self { data: Some(data), ..Self::new(400, UNSUPPORTED_VERSION, message) }
    }

    /// There is no such method in this era.
    pub fn method_not_found(status: u16, method: &str) -> Self {
        let method = shorten(method, 100);
        Self::new(status, METHOD_NOT_FOUND, format!("Method not found: {method}"))
    }

    /// The message that carries it.
    pub fn message(&self, id: &Json) -> Json {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }

    /// The HTTP response that carries it alone.
    pub fn response(&self, id: &Json) -> Response {
        Response::json(self.status, &self.message(id))
    }
}

/// The message that carries a result.
pub fn result(id: &Json, result: Json) -> Json {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}
