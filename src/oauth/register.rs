//! `POST /register`: a client registers itself (RFC 7591).

use serde_json::{Value as Json, json};

use super::client;
use super::error::{Code, OAuthError};
use crate::domain::token;
use crate::http::message::{Request, Response};
use crate::hub::{self, Hub, Throttle};
use crate::store::clients::{AuthMethod, ClientRow};

/// Answers a registration.
pub fn handle(hub: &Hub<'_>, request: &Request) -> Response {
    register(hub, request).unwrap_or_else(|error| error.response())
}

fn register(hub: &Hub<'_>, request: &Request) -> Result<Response, OAuthError> {
    let value: Json = serde_json::from_slice(&request.body).unwrap_or_default();
    if !value.is_object() {
        return Err(OAuthError::new(
            Code::InvalidClientMetadata,
            "The body must be one JSON object of client metadata.",
        ));
    }
    // RFC 7591 §2: a client that names no method gets a secret.
    let metadata = client::metadata(&value, AuthMethod::Basic)?;
    let limited = hub::take_try(hub, Throttle::Registration, &request.client_address());
    if let Some(seconds) = limited.map_err(|error| OAuthError::storage(&error))? {
        return Err(OAuthError::limited(seconds));
    }
    let client = hub::register_client(hub, &metadata).map_err(|error| OAuthError::storage(&error))?;
    Ok(Response::json(201, &answer(hub, &client)).with("pragma", "no-cache"))
}

/// What the client is now. What it has not is left out: some clients take neither null nor an empty text.
fn answer(hub: &Hub<'_>, client: &ClientRow) -> Json {
    let mut answer = json!({
        "client_id": client.id,
        "client_id_issued_at": client.created_at / 1000,
        "redirect_uris": client.redirect_uris,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": client.auth_method.name(),
    });
    if let Some(name) = &client.name {
        answer["client_name"] = json!(name);
    }
    if let Some(uri) = &client.uri {
        answer["client_uri"] = json!(uri);
    }
    if client.auth_method != AuthMethod::None {
        answer["client_secret"] = json!(token::client_secret(&hub.settings().hub_secret, &client.id));
        // It does not expire.
        answer["client_secret_expires_at"] = json!(0);
    }
    answer
}
