//! From a POST to messages: JSON-RPC shapes, and which era of the protocol a message belongs to.
//!
//! Owns: the ladder of checks that a message climbs before a method is looked at; the order of its rungs is the reference
//! implementation's, so that a client which fails several of them gets the answer that it is tested against. The era comes
//! from the body: a request that names a protocol version in `params._meta` is modern (2026-07-28), every other is legacy
//! (2025-03-26 to 2025-11-25). Headers only confirm it. It refuses to know methods, but for `initialize`, which belongs to
//! the legacy era by definition.

use serde_json::{Map, Value as Json};

use super::header;
use super::rpc::RpcError;
use crate::domain::limits::RPC_BATCH_MAX;
use crate::http::message::Request;

/// Revisions that begin with `initialize`, newest first.
pub const LEGACY_VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
/// Revisions that name themselves in every request, newest first.
pub const MODERN_VERSIONS: [&str; 1] = ["2026-07-28"];
/// The only revision that has batches.
const BATCH_VERSION: &str = "2025-03-26";

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";

/// The two ways in which the protocol is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// 2025-03-26, 2025-06-18, 2025-11-25: a handshake first.
    Legacy,
    /// 2026-07-28: every request stands for itself.
    Modern,
}

/// A request that wants an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Its id, to be echoed.
    pub id: Json,
    /// Its method.
    pub method: String,
    /// Its parameters; empty if it has none.
    pub params: Map<String, Json>,
    /// The era in which it is to be answered.
    pub era: Era,
}

/// What a POST brought.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// One request.
    One(Call),
    /// The requests of a batch, in order.
    Batch(Vec<Call>),
    /// Nothing that wants an answer: notifications, or responses.
    Silent,
}

/// A POST that did not climb the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The id to echo; null where none can be told.
    pub id: Json,
    /// The error.
    pub error: RpcError,
}

/// One message by its shape alone.
enum Shape {
    Request { id: Json, method: String, params: Map<String, Json> },
    Notification { method: String, params: Map<String, Json> },
    Response,
}

/// Reads the messages of a POST.
pub fn read(request: &Request) -> Result<Incoming, Refused> {
    let no_id = |error| Refused { id: Json::Null, error };
    let body: Json =
        serde_json::from_slice(&request.body).map_err(|error| no_id(RpcError::parse_error(&error.to_string())))?;
    match body {
        Json::Array(messages) => batch(request, messages).map_err(no_id),
        message => {
            let id = echoed_id(&message);
            one(request, message).map_err(|error| Refused { id, error })
        }
    }
}

/// The id of something that is at least meant as a request.
fn echoed_id(message: &Json) -> Json {
    let id = &message["id"];
    if message["method"].is_string() && (id.is_string() || id.is_number()) { id.clone() } else { Json::Null }
}

fn shape(message: Json) -> Result<Shape, RpcError> {
    let invalid = RpcError::invalid_request;
    let Json::Object(mut fields) = message else {
        return Err(invalid("the body must be a JSON-RPC message, an object."));
    };
    if fields.get("jsonrpc") != Some(&Json::from("2.0")) {
        return Err(invalid("\"jsonrpc\" must be \"2.0\"."));
    }
    let is_answer = fields.contains_key("result") || fields.contains_key("error");
    let params = match fields.remove("params") {
        None | Some(Json::Null) => Map::new(),
        Some(Json::Object(params)) => params,
        Some(_) => return Err(invalid("\"params\" must be an object.")),
    };
    match (fields.remove("method"), fields.remove("id")) {
        (Some(Json::String(method)), None) if !is_answer => Ok(Shape::Notification { method, params }),
        (Some(Json::String(method)), Some(id)) if !is_answer && is_id(&id) => Ok(Shape::Request { id, method, params }),
        (Some(Json::String(_)), Some(_)) if !is_answer => Err(invalid("\"id\" must be a string or an integer.")),
        (None, id) if is_answer && id.as_ref().is_none_or(|id| id.is_null() || is_id(id)) => Ok(Shape::Response),
        _ => Err(invalid("the body is neither a request, nor a notification, nor a response.")),
    }
}

fn is_id(id: &Json) -> bool {
    id.is_string() || id.is_i64() || id.is_u64() || id.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn one(request: &Request, message: Json) -> Result<Incoming, RpcError> {
    match shape(message)? {
        // Only sessions of the legacy era have requests that a client answers; this hub makes none.
        Shape::Response => check_legacy_version(header::version(request)).map(|()| Incoming::Silent),
        Shape::Notification { method, params } => notification(request, &method, &params),
        Shape::Request { id, method, params } => {
            let era = era(request, &method, &params)?;
            Ok(Incoming::One(Call { id, method, params, era }))
        }
    }
}

/// A batch, as only 2025-03-26 has it: nothing modern in it, and no handshake.
fn batch(request: &Request, messages: Vec<Json>) -> Result<Incoming, RpcError> {
    let invalid = RpcError::invalid_request;
    if messages.is_empty() {
        return Err(invalid("the batch is empty."));
    }
    if messages.len() > RPC_BATCH_MAX {
        return Err(invalid(&format!("a batch may have at most {RPC_BATCH_MAX} messages.")));
    }
    if header::version(request).is_some_and(|version| version != BATCH_VERSION) {
        return Err(invalid("this protocol revision has no batches; send one message a request."));
    }
    let mut calls = Vec::new();
    for message in messages {
        let (method, params, id) = match shape(message)? {
            Shape::Response => continue,
            Shape::Notification { method, params } => (method, params, None),
            Shape::Request { id, method, params } => (method, params, Some(id)),
        };
        if claim(&params).is_some() {
            return Err(invalid("a batch must not contain messages of protocol revision 2026-07-28."));
        }
        if method == "initialize" {
            return Err(invalid("initialize must be sent alone."));
        }
        if let Some(id) = id {
            calls.push(Call { id, method, params, era: Era::Legacy });
        }
    }
    Ok(if calls.is_empty() { Incoming::Silent } else { Incoming::Batch(calls) })
}

/// The era of a request, once everything that the era demands is there.
fn era(request: &Request, method: &str, params: &Map<String, Json>) -> Result<Era, RpcError> {
    let version_header = header::version(request);
    let header_is_modern = version_header.is_some_and(is_modern);
    let claimed = claim(params);
    let claims_modern = claimed.and_then(Json::as_str).is_some_and(is_modern) && check_meta(params).is_ok();

    if method == "initialize" && !claims_modern {
        if header_is_modern {
            let body = "the body is an initialize request, which that revision does not have";
            return Err(RpcError::header_mismatch("MCP-Protocol-Version", version_header, body));
        }
        return Ok(Era::Legacy);
    }
    if claimed.is_some() {
        modern(request, method, params)?;
        return Ok(Era::Modern);
    }
    if header_is_modern {
        return Err(check_meta(params).err().unwrap_or_else(|| RpcError::invalid_envelope(META_VERSION, "missing")));
    }
    check_legacy_version(version_header)?;
    Ok(Era::Legacy)
}

/// A modern request's envelope and headers, in the order in which the reference checks them.
fn modern(request: &Request, method: &str, params: &Map<String, Json>) -> Result<(), RpcError> {
    let claimed = check_meta(params)?;
    let body_says = || format!("the body names protocol version {claimed}");
    let version_header = header::version(request);
    if version_header.is_some_and(|version| version != claimed) {
        return Err(RpcError::header_mismatch("MCP-Protocol-Version", version_header, &body_says()));
    }
    header::check_method(request, method, header::Presence::Optional)?;
    if !MODERN_VERSIONS.contains(&claimed) {
        return Err(RpcError::unsupported_version(claimed, &MODERN_VERSIONS));
    }
    if version_header.is_none() {
        return Err(RpcError::header_mismatch("MCP-Protocol-Version", None, &body_says()));
    }
    header::check_method(request, method, header::Presence::Required)?;
    header::check_name(request, method, params)
}

/// A notification is not answered, but one that contradicts itself is refused.
fn notification(request: &Request, method: &str, params: &Map<String, Json>) -> Result<Incoming, RpcError> {
    let version_header = header::version(request);
    match claim(params) {
        Some(Json::String(claimed)) => {
            if version_header.is_some_and(|version| version != claimed) {
                let body = format!("the notification names protocol version {claimed}");
                return Err(RpcError::header_mismatch("MCP-Protocol-Version", version_header, &body));
            }
            if is_modern(claimed) {
                header::check_method(request, method, header::Presence::Optional)?;
            }
            if !MODERN_VERSIONS.contains(&claimed.as_str()) {
                return Err(RpcError::unsupported_version(claimed, &MODERN_VERSIONS));
            }
        }
        Some(_) => return Err(RpcError::invalid_envelope(META_VERSION, "expected a string")),
        None if version_header.is_some_and(is_modern) => {
            header::check_method(request, method, header::Presence::Optional)?;
            if let Some(version) = version_header.filter(|version| !MODERN_VERSIONS.contains(version)) {
                return Err(RpcError::unsupported_version(version, &MODERN_VERSIONS));
            }
        }
        None => check_legacy_version(version_header)?,
    }
    Ok(Incoming::Silent)
}

/// No header means 2025-03-26, which had none.
fn check_legacy_version(header: Option<&str>) -> Result<(), RpcError> {
    match header {
        Some(version) if !LEGACY_VERSIONS.contains(&version) => {
            let supported = LEGACY_VERSIONS.join(", ");
            let version = crate::domain::text::shorten(version, 40);
            let reason = format!("Unsupported protocol version: {version} (supported versions: {supported})");
            Err(RpcError::refused(400, &reason))
        }
        _ => Ok(()),
    }
}

/// Revisions are dates, so they compare as text.
fn is_modern(version: &str) -> bool {
    MODERN_VERSIONS.last().is_some_and(|first| version >= *first)
}

/// What the envelope gives as the protocol version; its presence makes a request modern.
fn claim(params: &Map<String, Json>) -> Option<&Json> {
    params.get("_meta")?.get(META_VERSION)
}

/// The version that a complete envelope names.
fn check_meta(params: &Map<String, Json>) -> Result<&str, RpcError> {
    let Some(Json::Object(meta)) = params.get("_meta") else {
        return Err(RpcError::invalid_envelope("_meta", "missing"));
    };
    for key in [META_VERSION, META_CAPABILITIES] {
        if !meta.contains_key(key) {
            return Err(RpcError::invalid_envelope(key, "missing"));
        }
    }
    if !meta.get(META_CAPABILITIES).is_some_and(Json::is_object) {
        return Err(RpcError::invalid_envelope(META_CAPABILITIES, "expected an object"));
    }
    if let Some(client) = meta.get(META_CLIENT)
        && !(client["name"].is_string() && client["version"].is_string())
    {
        return Err(RpcError::invalid_envelope(META_CLIENT, "expected an object with name and version"));
    }
    match meta.get(META_VERSION) {
        Some(Json::String(version)) => Ok(version),
        _ => Err(RpcError::invalid_envelope(META_VERSION, "expected a string")),
    }
}
