//! `GET /authorize`: what a client asks the owner for (OAuth 2.1 §4.1.1, RFC 7636, RFC 8707, RFC 9207).
//!
//! Whatever is wrong before the redirect address is known to be the client's is told to the person at the browser, on a page.
//! What is wrong after that is told to the client, by redirect; if the owner never approved it, on a page that links there.

use super::client::{self, Found, NotFound, UnknownClient};
use super::error::{Code, OAuthError};
use super::form::Form;
use super::redirect::{self, Reach};
use super::resource;
use crate::domain::limits::STATE_BYTES_MAX;
use crate::domain::scope::Scopes;
use crate::domain::storage::StorageFailure;
use crate::http::message::{Fetch, Request};
use crate::hub::Hub;
use crate::store::clients::ClientRow;

/// Characters of a code challenge with S256: 32 bytes in base64url.
const CHALLENGE_CHARS: usize = 43;

/// A request for the owner's consent that is right as far as it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Who asks.
    pub client: ClientRow,
    /// Where the answer goes.
    pub back: Back,
    /// Whether that is a site or a program on the owner's machine.
    pub reach: Reach,
    /// What it asks for; what it would like, if it does not say.
    pub scopes: Scopes,
    /// SHA-256 of the verifier.
    pub code_challenge: String,
}

/// The way back to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Back {
    /// The redirect address.
    pub redirect_uri: String,
    /// What the client wants to see again.
    pub state: Option<String>,
}

impl Back {
    /// Where the browser goes with these parameters, and with the state and the issuer (RFC 9207).
    pub fn with(&self, issuer: &str, parameters: &[(&str, &str)]) -> String {
        let mut all = parameters.to_vec();
        all.extend(self.state.as_deref().map(|state| ("state", state)));
        all.push(("iss", issuer));
        redirect::with(&self.redirect_uri, &all)
    }

    /// Where the browser goes with an error.
    pub fn with_error(&self, issuer: &str, error: &OAuthError) -> String {
        let description = error.description();
        self.with(issuer, &[("error", error.code.name()), ("error_description", &description)])
    }
}

/// Why the owner is not asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAsked {
    /// Told on a page, with what to do.
    Page(Trouble),
    /// Told to the client.
    Redirect(Back, OAuthError),
    /// To be told to the client, but the owner never approved it: told on a page that leads there.
    Stay(Back, OAuthError),
    /// A document has to be read first.
    Fetch(Fetch),
}

/// What is told to the person at the browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A parameter is there twice.
    Parameters(String),
    /// The database failed.
    Storage(StorageFailure),
    /// There is no `client_id`.
    NoClient,
    /// The client is not known.
    Client(UnknownClient),
    /// There is no redirect address, or none that is the client's.
    Redirect(&'static str),
}

/// Reads a request for consent.
pub fn read(hub: &Hub<'_>, request: &Request) -> Result<Asked, NotAsked> {
    let form = Form::of_query(&request.query);
    let page = |error: OAuthError| NotAsked::Page(Trouble::Parameters(error.detail));
    let id = form.one("client_id").map_err(page)?.ok_or(NotAsked::Page(Trouble::NoClient))?;
    let given = form.one("redirect_uri").map_err(page)?;
    let state = form.one("state").map_err(page)?.map(str::to_owned);
    let client = match client::find(hub, request, id) {
        Ok(Found::Client(client)) => *client,
        Ok(Found::Fetch(fetch)) => return Err(NotAsked::Fetch(fetch)),
        Err(NotFound::Storage(failure)) => return Err(NotAsked::Page(Trouble::Storage(failure))),
        Err(NotFound::Client(unknown)) => return Err(NotAsked::Page(Trouble::Client(unknown))),
    };
    let (redirect_uri, reach) = redirect_of(&client, given).map_err(|why| NotAsked::Page(Trouble::Redirect(why)))?;
    let back = Back { redirect_uri, state };
    match terms(&form, &back, hub.origin()) {
        Ok((scopes, code_challenge)) => Ok(Asked { client, back, reach, scopes, code_challenge }),
        Err(error) if client.used_at.is_none() => Err(NotAsked::Stay(back, error)),
        Err(error) => Err(NotAsked::Redirect(back, error)),
    }
}

/// The redirect address of a request, which must be one that the client is known by.
fn redirect_of(client: &ClientRow, given: Option<&str>) -> Result<(String, Reach), &'static str> {
    let uri = match (given, client.redirect_uris.as_slice()) {
        (Some(given), _) => given,
        (None, [only]) => only,
        (None, _) => return Err("The parameter redirect_uri is missing."),
    };
    let reach = redirect::check(uri).map_err(redirect::RedirectRefused::detail)?;
    if !client.redirect_uris.iter().any(|known| redirect::matches(known, uri)) {
        return Err("The parameter redirect_uri is not an address that this client has registered.");
    }
    Ok((uri.to_owned(), reach))
}

/// Everything that the client is told about if it is wrong: scopes and challenge.
fn terms(form: &Form, back: &Back, origin: &str) -> Result<(Scopes, String), OAuthError> {
    let invalid = |detail: &str| Err(OAuthError::new(Code::InvalidRequest, detail));
    match form.one("response_type")? {
        Some("code") => {}
        None => return invalid("The parameter response_type is missing; it must be code."),
        Some(_) => return Err(OAuthError::new(Code::UnsupportedResponseType, "response_type must be code.")),
    }
    if back.state.as_ref().is_some_and(|state| state.len() > STATE_BYTES_MAX) {
        return invalid("The parameter state is too long.");
    }
    if form.one("response_mode")?.is_some_and(|mode| mode != "query") {
        return invalid("response_mode must be query, or left out.");
    }
    if form.one("request")?.is_some() || form.one("request_uri")?.is_some() {
        return invalid("Request objects are not supported; send plain parameters.");
    }
    let Some(challenge) = form.one("code_challenge")? else {
        return invalid("The parameter code_challenge is missing: PKCE with S256 is required.");
    };
    if form.one("code_challenge_method")? != Some("S256") {
        return invalid("code_challenge_method must be S256.");
    }
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if challenge.len() != CHALLENGE_CHARS || !challenge.bytes().all(is_plain) {
        return invalid("code_challenge must be a SHA-256 in base64url, 43 characters.");
    }
    resource::check(form, origin)?;
    if form.one("prompt")? == Some("none") {
        return Err(OAuthError::new(Code::InteractionRequired, "The owner is always asked; leave prompt=none out."));
    }
    let scopes = Scopes::parse(form.one("scope")?.unwrap_or_default());
    // A client that names no scope of this hub is offered the usual ones.
    let scopes = if scopes.is_empty() { Scopes::USUAL } else { scopes };
    Ok((scopes, challenge.to_owned()))
}
