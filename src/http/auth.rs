//! Credentials as they come in: bearers only, never in a URL.
//!
//! `check` needs no database: it tells junk by its form and MAC, so that the front refuses it without a call to the
//! object. The object then asks its registry whether an executor's key is still valid.

use super::message::{Request, Response};
use super::problem::unauthorized;
use super::route::{Access, Route};
use crate::domain::secret;
use crate::domain::settings::Settings;

const NO_OWNER: &str = "Send the owner's token: Authorization: Bearer, then the OWNER_TOKEN of this hub.";
const NOT_THE_OWNER: &str = "This is not the owner's token of this hub: send its OWNER_TOKEN. An executor's key (exk_…) is good \
                             for POST /executor/claim and the other calls there only.";

/// The bearer of a request.
pub fn bearer(request: &Request) -> Option<&str> {
    let (scheme, token) = request.header("authorization")?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The refusal of a request whose credential cannot be right for its route; `None` if it may be.
pub fn refuse(request: &Request, route: &Route, settings: &Settings) -> Option<Response> {
    let token = bearer(request);
    match route.access() {
        Access::Anyone => None,
        Access::Executor => match token {
            Some(token) if secret::executor_of_key(&settings.hub_secret, token).is_some() => None,
            Some(token) if !token.starts_with("exk_") => Some(unauthorized(
                "This is not an executor key: one begins with exk_. The owner's token and claim tokens are not for this \
                 place. Send Authorization: Bearer exk_… ; the hub's owner has the key.",
                "Bearer error=\"invalid_token\"".to_owned(),
            )),
            Some(_) => Some(wrong_executor_key()),
            None => Some(unauthorized(
                "Send your executor key: Authorization: Bearer exk_… . The hub's owner has it.",
                "Bearer".to_owned(),
            )),
        },
        Access::Owner => match (token, &settings.owner_token) {
            (Some(token), Some(right)) if secret::equal(token, right) => None,
            (Some(_), Some(_)) => Some(owner_challenge(request, settings, NOT_THE_OWNER, true)),
            (None, Some(_)) => Some(owner_challenge(request, settings, NO_OWNER, false)),
            (_, None) => {
                let detail = "This hub has no OWNER_TOKEN; its owner must set one (wrangler secret put OWNER_TOKEN).";
                Some(owner_challenge(request, settings, detail, token.is_some()))
            }
        },
    }
}

/// The refusal of an executor key that is junk, revoked or rotated away.
pub fn wrong_executor_key() -> Response {
    let detail = "This executor key is not valid: it is mistyped, from another hub, or was revoked. Ask the hub's owner for a \
                  new one; do not retry with this one.";
    unauthorized(detail, "Bearer error=\"invalid_token\"".to_owned())
}

/// RFC 6750: no `error` where no credential was sent. RFC 9728: where the client finds out how to get one.
fn owner_challenge(request: &Request, settings: &Settings, detail: &str, token_was_sent: bool) -> Response {
    let error = if token_was_sent { "error=\"invalid_token\", " } else { "" };
    let origin = settings.public_url.as_ref().unwrap_or(&request.origin);
    let metadata = format!("{origin}/.well-known/oauth-protected-resource/mcp");
    unauthorized(detail, format!("Bearer {error}resource_metadata=\"{metadata}\""))
}
