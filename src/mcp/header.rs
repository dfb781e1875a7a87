//! The headers that repeat what the body says, so that what stands between client and hub can route without parsing.
//!
//! Owns: `MCP-Protocol-Version`, `Mcp-Method` and `Mcp-Name`, and how the last one is encoded. They are never trusted: the
//! body decides, and a header that contradicts it is refused.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json};

use super::rpc::RpcError;
use crate::domain::text::shorten;
use crate::http::message::Request;

/// Whether a header must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// If it is there, it must be right.
    Optional,
    /// It must be there and right.
    Required,
}

/// The protocol version that the header names.
pub fn version(request: &Request) -> Option<&str> {
    request.header("mcp-protocol-version").filter(|version| !version.is_empty())
}

/// Refuses an `Mcp-Method` that is not the body's method.
pub fn check_method(request: &Request, method: &str, presence: Presence) -> Result<(), RpcError> {
    let found = request.header("mcp-method");
    let right = match found {
        Some(found) => found == method,
        None => presence == Presence::Optional,
    };
    let body = || format!("the body names method {}", shorten(method, 100));
    if right { Ok(()) } else { Err(RpcError::header_mismatch("Mcp-Method", found, &body())) }
}

/// Refuses an `Mcp-Name` that is not what the body's `params.name` (or its like) says.
pub fn check_name(request: &Request, method: &str, params: &Map<String, Json>) -> Result<(), RpcError> {
    let field = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return Ok(()),
    };
    let named = params.get(field).and_then(Json::as_str);
    let found = request.header("mcp-name");
    let right = match (found, named) {
        (Some(found), Some(named)) => decode(found).as_deref() == Some(named),
        (Some(found), None) => decode(found).is_some(),
        (None, named) => named.is_none(),
    };
    let body = || match named {
        Some(named) => format!("the body has params.{field} = {}", shorten(named, 100)),
        None => "it must be plain text or =?base64?…?= of UTF-8".to_owned(),
    };
    if right { Ok(()) } else { Err(RpcError::header_mismatch("Mcp-Name", found, &body())) }
}

/// The value of a header that may be wrapped as `=?base64?…?=`; `None` if it is wrapped badly.
fn decode(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(wrapped) => String::from_utf8(STANDARD.decode(wrapped).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}
