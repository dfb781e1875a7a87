//! `POST /token` and `POST /revoke`: what clients do with codes and tokens (OAuth 2.1 §3.2, RFC 7009).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use url::form_urlencoded;

use super::error::{Code, OAuthError};
use super::form::Form;
use super::resource;
use crate::domain::secret::equal;
use crate::domain::token;
use crate::http::message::{Request, Response};
use crate::hub::{self, Exchange, Hub, Throttle, TokenRejected, Tokens};
use crate::store::clients::{AuthMethod, ClientRow};

/// Answers a request for tokens.
pub fn handle(hub: &Hub<'_>, request: &Request) -> Response {
    match issue(hub, request) {
        Ok(tokens) => {
            let body = json!({
                "access_token": tokens.access,
                "token_type": "Bearer",
                "expires_in": tokens.expires_in,
                "refresh_token": tokens.refresh,
                "scope": tokens.scopes.to_string(),
            });
            Response::json(200, &body).with("pragma", "no-cache")
        }
        Err(error) => error.response(),
    }
}

fn issue(hub: &Hub<'_>, request: &Request) -> Result<Tokens, OAuthError> {
    let form = Form::of_body(request)?;
    let client = client(hub, request, &form)?;
    resource::check(&form, hub.origin())?;
    let issued = match form.needed("grant_type")? {
        "authorization_code" => {
            let exchange = Exchange {
                code: form.needed("code")?,
                client_id: &client.id,
                redirect_uri: form.one("redirect_uri")?,
                verifier: form.needed("code_verifier")?,
            };
            hub::exchange(hub, &exchange)
        }
        "refresh_token" => hub::refresh(hub, &client.id, form.needed("refresh_token")?),
        _ => {
            let detail = "grant_type must be authorization_code or refresh_token.";
            return Err(OAuthError::new(Code::UnsupportedGrantType, detail));
        }
    };
    issued.map_err(|rejected| refusal(&rejected))
}

/// Why there are no tokens. One code for all, as RFC 6749 §5.2 has it; the sentence is for whoever reads the client's log.
fn refusal(rejected: &TokenRejected) -> OAuthError {
    let detail = match rejected {
        TokenRejected::Junk => "This is no code or refresh token of this hub. Sign in anew.",
        TokenRejected::Expired => "The code or refresh token has expired. Sign in anew.",
        TokenRejected::Revoked => "The grant was revoked. Sign in anew, if the owner wants it.",
        TokenRejected::OtherClient => "The code or refresh token was issued to another client.",
        TokenRejected::OtherRedirect => "The code was sent to another redirect_uri than this one.",
        TokenRejected::WrongVerifier => "The code_verifier does not fit the code_challenge.",
        TokenRejected::Replayed => {
            "The code or refresh token was used before, so the grant has been revoked. Sign in anew."
        }
        TokenRejected::Database(error) => return OAuthError::storage(error),
    };
    OAuthError::new(Code::InvalidGrant, detail)
}

/// Answers a client that gives a token back. A token that is not known is as good as given back (RFC 7009 §2.2).
pub fn revoke(hub: &Hub<'_>, request: &Request) -> Response {
    let revoked = || {
        let form = Form::of_body(request)?;
        let names_client = form.one("client_id")?.is_some() || request.header("authorization").is_some();
        // Whoever holds a token may end it, also without a name.
        let client = if names_client { Some(client(hub, request, &form)?) } else { None };
        let text = form.needed("token")?;
        let id = client.as_ref().map(|client| client.id.as_str());
        match hub::give_back(hub, id, text) {
            Ok(true) => Ok(Response::empty(200).with("cache-control", "no-store")),
            Ok(false) => Err(OAuthError::new(Code::InvalidGrant, "The token was issued to another client.")),
            Err(error) => Err(OAuthError::storage(&error)),
        }
    };
    revoked().unwrap_or_else(|error: OAuthError| error.response())
}

/// What a client presents.
struct Presented {
    id: String,
    secret: Option<String>,
    by_basic: bool,
}

/// The client that makes a request, once it has proved itself. One that is not known gets 401, upon which clients register
/// anew.
fn client(hub: &Hub<'_>, request: &Request, form: &Form) -> Result<ClientRow, OAuthError> {
    let presented = presented(request, form)?;
    let refused =
        |detail: &str| OAuthError { by_basic: presented.by_basic, ..OAuthError::new(Code::InvalidClient, detail) };
    let known = hub::find_client(hub, &presented.id).map_err(|error| OAuthError::storage(&error))?;
    let client = known.ok_or_else(|| refused("This client is not registered here. Register it anew."))?.row;
    match (client.auth_method, presented.secret) {
        (AuthMethod::None, None) => Ok(client),
        (AuthMethod::None, Some(_)) => Err(refused("This client has no secret; leave it out.")),
        (AuthMethod::Post | AuthMethod::Basic, None) => Err(refused("This client must send its secret.")),
        (AuthMethod::Post | AuthMethod::Basic, Some(secret)) => {
            // The right one passes whatever others try: it is too long to be guessed, and clients share their addresses.
            if equal(&secret, &token::client_secret(&hub.settings().hub_secret, &client.id)) {
                return Ok(client);
            }
            let barred = hub::take_try(hub, Throttle::ClientSecret, &request.client_address());
            match barred.map_err(|error| OAuthError::storage(&error))? {
                Some(seconds) => Err(OAuthError::limited(seconds)),
                None => Err(refused("The client's secret is wrong.")),
            }
        }
    }
}

fn presented(request: &Request, form: &Form) -> Result<Presented, OAuthError> {
    let (form_id, form_secret) = (form.one("client_id")?, form.one("client_secret")?);
    let Some(header) = request.header("authorization") else {
        let missing = || OAuthError::new(Code::InvalidClient, "The parameter client_id is missing.");
        let id = form_id.ok_or_else(missing)?.to_owned();
        return Ok(Presented { id, secret: form_secret.map(str::to_owned), by_basic: false });
    };
    let unreadable = || OAuthError {
        by_basic: true,
        ..OAuthError::new(Code::InvalidClient, "The header Authorization must be Basic with client id and secret.")
    };
    let (id, secret) = basic(header).ok_or_else(unreadable)?;
    if form_secret.is_some() || form_id.is_some_and(|form_id| form_id != id) {
        let detail =
            "The client proves itself in two ways: send its id and secret either in the header or in the form.";
        return Err(OAuthError::new(Code::InvalidRequest, detail));
    }
    Ok(Presented { id, secret: Some(secret).filter(|secret| !secret.is_empty()), by_basic: true })
}

/// Id and secret of HTTP Basic, each form-encoded first (RFC 6749 §2.3.1).
fn basic(header: &str) -> Option<(String, String)> {
    let (scheme, credentials) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let credentials = String::from_utf8(STANDARD.decode(credentials.trim()).ok()?).ok()?;
    let (id, secret) = credentials.split_once(':')?;
    let decoded =
        |text: &str| form_urlencoded::parse(format!("x={text}").as_bytes()).next().map(|(_, value)| value.into_owned());
    Some((decoded(id)?, decoded(secret)?))
}
