//! Who asks: clients that registered (RFC 7591) and clients that are known by the document at their id (CIMD).
//!
//! A document is read when it is needed and kept for a day. If it cannot be read, what was kept goes on to hold, and for
//! Claude's own documents what they are known to say: their server has refused other servers before. Errors are not kept.

use serde_json::Value as Json;

use super::error::{Code, OAuthError};
use super::redirect;
use crate::domain::limits::{
    CLIENT_DOCUMENT_BYTES_MAX, CLIENT_DOCUMENT_TIMEOUT_MS, CLIENT_NAME_CHARS_MAX, CLIENT_URL_BYTES_MAX,
    REDIRECT_URIS_MAX,
};
use crate::domain::storage::StorageFailure;
use crate::domain::target::{self, TargetPolicy, TargetRefused};
use crate::domain::text::shorten;
use crate::http::message::{Fetch, Fetched, Request};
use crate::hub::{self, ClientMetadata, Hub, Throttle};
use crate::store::clients::{AuthMethod, ClientRow};
use crate::store::database::DatabaseError;

/// Documents whose content is known, for when they cannot be read: address, name, redirect addresses.
const PINNED: [(&str, &str, &[&str]); 2] = [
    (
        "https://claude.ai/oauth/mcp-oauth-client-metadata",
        "Claude",
        &["https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback"],
    ),
    (
        "https://claude.ai/oauth/claude-code-client-metadata",
        "Claude Code",
        &["http://localhost/callback", "http://127.0.0.1/callback"],
    ),
];

/// What a look for a client came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The client.
    Client(Box<ClientRow>),
    /// Its document must be read first.
    Fetch(Fetch),
}

/// Why a client is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownClient {
    /// No client of this id registered here, or its time is over.
    NotRegistered,
    /// Its id is no address that a document may have: why.
    Address(String),
    /// Its document cannot be used: why.
    Document(String),
    /// Too many documents were asked for; when to try again, in seconds.
    Limited(u32),
}

/// Why a look for a client came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// It is not known.
    Client(UnknownClient),
    /// The database failed.
    Storage(StorageFailure),
}

impl From<DatabaseError> for NotFound {
    fn from(error: DatabaseError) -> Self {
        Self::Storage(error.failure())
    }
}

/// Whether an id is the address of a document.
pub fn is_document(id: &str) -> bool {
    id.contains("://")
}

/// The client of this id, reading its document if that is needed.
pub fn find(hub: &Hub<'_>, request: &Request, id: &str) -> Result<Found, NotFound> {
    let known = hub::find_client(hub, id)?;
    if !is_document(id) {
        let known = known.ok_or(NotFound::Client(UnknownClient::NotRegistered))?;
        return Ok(Found::Client(Box::new(known.row)));
    }
    let url =
        document_address(id, hub.settings().targets).map_err(|why| NotFound::Client(UnknownClient::Address(why)))?;
    let stale = match known {
        Some(known) if !known.is_stale => return Ok(Found::Client(Box::new(known.row))),
        stale => stale.map(|known| known.row),
    };
    let reason = match &request.fetched {
        None => match hub::take_try(hub, Throttle::Document, &request.client_address())? {
            None => {
                let (bytes_max, timeout_ms) = (CLIENT_DOCUMENT_BYTES_MAX, CLIENT_DOCUMENT_TIMEOUT_MS);
                return Ok(Found::Fetch(Fetch { url, bytes_max, timeout_ms }));
            }
            Some(seconds) => UnknownClient::Limited(seconds),
        },
        Some(Fetched::Document(body)) => match document(id, body) {
            Ok(metadata) => return Ok(Found::Client(Box::new(hub::keep_document(hub, id, &metadata)?))),
            Err(reason) => UnknownClient::Document(reason),
        },
        Some(Fetched::Failed(reason)) => UnknownClient::Document(reason.clone()),
    };
    if let Some(client) = stale {
        return Ok(Found::Client(Box::new(client)));
    }
    match pinned(id) {
        Some(metadata) => Ok(Found::Client(Box::new(hub::keep_document(hub, id, &metadata)?))),
        None => Err(NotFound::Client(reason)),
    }
}

fn pinned(id: &str) -> Option<ClientMetadata> {
    let (_, name, redirect_uris) = PINNED.into_iter().find(|(address, ..)| *address == id)?;
    Some(ClientMetadata {
        name: Some(name.to_owned()),
        uri: None,
        redirect_uris: redirect_uris.iter().map(|uri| (*uri).to_owned()).collect(),
        auth_method: AuthMethod::None,
    })
}

/// The address of a document if it may have one: https with a path, in its normal form, to a public host.
fn document_address(id: &str, policy: TargetPolicy) -> Result<String, String> {
    let refused = |reason: &str| Err(reason.to_owned());
    if id.len() > CLIENT_URL_BYTES_MAX {
        return refused("it is too long");
    }
    let normal = target::check(id, policy).map_err(|refused| {
        let reason = match refused {
            TargetRefused::NotAnAddress => "it is not an https address",
            TargetRefused::NotHttps => "it does not begin with https://",
            TargetRefused::Credentials => "it carries a user name or password",
            TargetRefused::NotPublic => {
                "it names a private, loopback or otherwise special host (for local use, ALLOW_PRIVATE_WEBHOOKS=true permits it)"
            }
        };
        reason.to_owned()
    })?;
    if normal != id {
        return refused("it is not in its normal form (dots in the path, upper case, a default port)");
    }
    if id.contains('#') {
        return refused("it has a fragment");
    }
    let path = id.splitn(4, '/').nth(3).unwrap_or_default();
    if path.is_empty() || path.starts_with('?') {
        return refused("it has no path");
    }
    Ok(normal)
}

/// What a document says, if it may be believed.
fn document(id: &str, body: &[u8]) -> Result<ClientMetadata, String> {
    let value: Json = serde_json::from_slice(body).map_err(|_| "it is not JSON".to_owned())?;
    if value["client_id"].as_str() != Some(id) {
        return Err("its client_id is not its own address".to_owned());
    }
    if !value["client_secret"].is_null() {
        return Err("it contains a secret".to_owned());
    }
    let metadata = metadata(&value, AuthMethod::None).map_err(|error| error.detail)?;
    if metadata.auth_method != AuthMethod::None {
        return Err("its token_endpoint_auth_method must be none: a public document cannot hold a secret".to_owned());
    }
    Ok(metadata)
}

/// What a client says of itself. Redirect addresses that may not be used are left out, as long as one is left that may.
pub fn metadata(value: &Json, default_method: AuthMethod) -> Result<ClientMetadata, OAuthError> {
    let invalid = |detail: &str| OAuthError::new(Code::InvalidClientMetadata, detail);
    let auth_method = auth_method(value, default_method)?;
    let lists = |field: &str, needed: &str| match &value[field] {
        Json::Null => true,
        Json::Array(items) => items.iter().any(|item| item == needed),
        _ => false,
    };
    if !lists("grant_types", "authorization_code") || !lists("response_types", "code") {
        return Err(invalid("grant_types must list authorization_code, and response_types code; or leave them out."));
    }
    Ok(ClientMetadata {
        name: text(value, "client_name").map(|name| shorten(&name, CLIENT_NAME_CHARS_MAX)),
        uri: text(value, "client_uri").filter(|uri| redirect::check(uri) == Ok(redirect::Reach::Site)),
        redirect_uris: redirect_uris(value)?,
        auth_method,
    })
}

/// How a client proves itself. One that prefers a method which this server does not know may offer `none` beside it, as
/// ChatGPT's document does.
fn auth_method(value: &Json, default_method: AuthMethod) -> Result<AuthMethod, OAuthError> {
    let invalid = |detail: &str| OAuthError::new(Code::InvalidClientMetadata, detail);
    let offered = value["token_endpoint_auth_methods_supported"].as_array();
    let offers_none = offered.is_some_and(|offered| offered.iter().any(|method| method == AuthMethod::None.name()));
    match &value["token_endpoint_auth_method"] {
        Json::Null => Ok(default_method),
        Json::String(name) => match AuthMethod::parse(name) {
            Some(method) => Ok(method),
            None if offers_none => Ok(AuthMethod::None),
            None => Err(invalid("token_endpoint_auth_method must be none, client_secret_post or client_secret_basic.")),
        },
        _ => Err(invalid("token_endpoint_auth_method must be a text.")),
    }
}

/// A text of a person's language, on one line.
fn text(value: &Json, field: &str) -> Option<String> {
    let text = value[field].as_str()?;
    let seen = text.chars().filter(|c| !is_unseen(*c));
    let line: String = seen.map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// Marks that are not seen themselves, but turn or hide the text around them.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn redirect_uris(value: &Json) -> Result<Vec<String>, OAuthError> {
    let invalid = |detail: String| OAuthError::new(Code::InvalidRedirectUri, detail);
    let given: Vec<&str> = value["redirect_uris"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    if given.is_empty() || given.len() > REDIRECT_URIS_MAX {
        return Err(invalid(format!("redirect_uris must be a list of 1 to {REDIRECT_URIS_MAX} addresses.")));
    }
    let mut usable: Vec<String> = Vec::new();
    let mut refused = None;
    for uri in given {
        match redirect::check(uri) {
            Ok(_) if usable.iter().any(|known| known == uri) => {}
            Ok(_) => usable.push(uri.to_owned()),
            Err(why) => refused = Some(why),
        }
    }
    match (usable.is_empty(), refused) {
        (true, Some(why)) => Err(invalid(why.detail().to_owned())),
        _ => Ok(usable),
    }
}
