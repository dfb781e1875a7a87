//! Credentials as they come in: bearers, never in a URL; the signed links of notices, which are nothing but a URL; and the codes
//! of those that have no key yet, in a body.
//!
//! `refuse` needs no database: it tells junk by its form and MAC, so that the front refuses it without a call to the
//! object. The object then asks its registry whether an executor's key or a client's token is still valid.

use maud::html;

use super::body;
use super::message::{Request, Response};
use super::page::{self, Forms};
use super::problem::{Problem, unauthorized};
use super::route::{Access, Route};
use crate::domain::action::{self, LinkRefused};
use crate::domain::enrolment::{self, CodeRefused};
use crate::domain::file::{self, LinkPurpose};
use crate::domain::scope::{Scope, Scopes};
use crate::domain::secret;
use crate::domain::settings::Settings;
use crate::domain::token::{self, AccessRefused};

const NO_TOKEN: &str = "Send a token: Authorization: Bearer, then the OWNER_TOKEN of this hub or an access token that its OAuth \
                        server issued (WWW-Authenticate says where to begin).";
const FOREIGN_TOKEN: &str = "This is neither the owner's token of this hub nor an access token that it issued for this address. An \
                             MCP client signs in anew; a headless one sends the OWNER_TOKEN. An executor's key (exk_…) is good for \
                             POST /executor/claim and the other calls there only.";
const EXPIRED_TOKEN: &str =
    "This access token has expired. Get another with the refresh token (POST /token), or sign in anew.";
const REVOKED_TOKEN: &str = "This access token was revoked. Sign in anew, if the owner wants it.";

/// On whose behalf a request is made, once its bearer was found valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Whose tasks and idempotency keys they are.
    pub submitter: String,
    /// What it may do.
    pub scopes: Scopes,
    /// As which executor it may work.
    pub executor: Option<String>,
    /// The grant, unless it is the owner's own token.
    pub grant: Option<String>,
    /// When the token ends, in milliseconds, if it does.
    pub until: Option<i64>,
}

/// The bearer of a request.
pub fn bearer(request: &Request) -> Option<&str> {
    let (scheme, token) = request.header("authorization")?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whether this is the owner's static token.
pub fn is_owner_token(token: &str, settings: &Settings) -> bool {
    settings.owner_token.as_ref().is_some_and(|right| secret::equal(token, right))
}

/// The refusal of a request whose credential cannot be right for its route at `now` (milliseconds); `None` if it may be.
pub fn refuse(request: &Request, route: &Route, settings: &Settings, now: i64) -> Option<Response> {
    match route.access() {
        // A code stands in the body, which the front has not read yet.
        Access::Anyone | Access::Code => None,
        Access::Link => refuse_link(request, route, settings, now),
        Access::FileLink => refuse_file_link(request, route, settings, now),
        Access::Executor => refuse_executor(request, settings),
        Access::Client | Access::Owner => {
            let Some(token) = bearer(request) else { return Some(challenge(request, settings, NO_TOKEN, false)) };
            if is_owner_token(token, settings) {
                return None;
            }
            let audience = token::resource(origin(request, settings));
            let detail = match token::read_access(&settings.hub_secret, &audience, token, now) {
                Ok(_) => return None,
                Err(AccessRefused::Foreign) => FOREIGN_TOKEN,
                Err(AccessRefused::Expired) => EXPIRED_TOKEN,
            };
            Some(challenge(request, settings, detail, true))
        }
    }
}

/// Of links, junk and what has expired, told to the person who followed one; and a form of another site, which has no business
/// with them. The pages of ntfy's server press buttons too, apps send no `Origin`.
fn refuse_link(request: &Request, route: &Route, settings: &Settings, now: i64) -> Option<Response> {
    let Route::Act(text) = route else { return None };
    let (status, what, remedy) = match action::read(&settings.hub_secret, text, now) {
        Err(LinkRefused::Foreign) => (
            404,
            "This link is not one of this hub, or it was not copied whole.",
            "Open the notice and press its button again.",
        ),
        Err(LinkRefused::Expired) => (
            410,
            "This link has expired: links in notices are good for a day.",
            "Ask Claude about the task instead, or use the owner API.",
        ),
        Ok(_) if request.method != "POST" || is_own_page(request, settings) => return None,
        Ok(_) => {
            (403, "Another site sent this form. Nothing was done.", "Open the link itself and press the button there.")
        }
    };
    let body = html! {
        h1 { "This link cannot be used" }
        p.notice role="alert" { (what) }
        p { (remedy) }
    };
    Some(page::response(status, &page::frame("Not done – taskhub", &body), Forms::None))
}

/// Of links to files, junk and what has expired. An upload that began in time may end after it.
fn refuse_file_link(request: &Request, route: &Route, settings: &Settings, now: i64) -> Option<Response> {
    let (purpose, id) = match route {
        Route::Download(id) => (LinkPurpose::Download, id),
        Route::Upload(id) => (LinkPurpose::Upload, id),
        _ => return None,
    };
    let now = request.received.as_ref().map_or(now, |received| received.so_far.began_at);
    match file::read_link(&settings.hub_secret, purpose, id, &request.query, now) {
        Ok(_) => None,
        Err(file::LinkRefused::Foreign) => {
            let detail = match purpose {
                LinkPurpose::Download => {
                    "This is no link to a file that this hub made, or it was not copied whole: it needs exp and sig as they were. \
                     Use the whole link; if it does not work, ask for a fresh one: get_attachment gives one to whoever submitted \
                     the task, and the claim, sent again under its request_id, to the executor."
                }
                LinkPurpose::Upload => {
                    "This is no upload link that this hub made, or it was not copied whole: it needs exp and sig as they were, and \
                     PUT. Use the whole link; if it does not work, ask for a fresh one with create_upload_link. An executor's \
                     files go to PUT /executor/attachment."
                }
            };
            Some(Problem::new(403, "link_invalid", "Link invalid", detail).response())
        }
        Err(file::LinkRefused::Expired) => {
            let detail = match purpose {
                LinkPurpose::Download => {
                    "This link has expired. Ask for a fresh one: get_attachment gives one to whoever submitted the task, and \
                     GET /executor/attachment?task_id=… with X-Claim-Token to the executor that works on it."
                }
                LinkPurpose::Upload => "This upload link has expired. Ask for a fresh one with create_upload_link.",
            };
            Some(Problem::new(410, "link_expired", "Link expired", detail).response())
        }
    }
}

/// Whether a form may come from where the request says it does: from nowhere in particular, the hub itself, or the server
/// that the notices go to.
fn is_own_page(request: &Request, settings: &Settings) -> bool {
    let is_known = |page: &str| {
        let server = settings.notices().map(|ntfy| ntfy.server.as_str());
        page == request.origin || Some(page) == settings.public_url.as_deref() || Some(page) == server
    };
    request.header("origin").is_none_or(is_known)
}

/// The refusal of an enrolment whose code cannot be right at `now` (milliseconds); `None` if it may be. What else is wrong with
/// the body is for the object to say.
pub fn refuse_code(request: &Request, settings: &Settings, now: i64) -> Option<Response> {
    let body = match body::json(request) {
        Ok(body) => body,
        Err(problem) => return Some(problem.response()),
    };
    let Some(code) = body["code"].as_str() else {
        let detail = "code is missing: send {\"code\": \"enr_…\", \"nonce\": \"…\"} with the code that the hub's owner gave out, and a \
                      random text of your own as nonce.";
        return Some(super::problem::bad_request(detail).response());
    };
    enrolment::read(&settings.hub_secret, code, now).err().map(|refused| refused_code(refused).response())
}

/// The problem that answers a code that is no code of this hub, or not any more.
pub fn refused_code(refused: CodeRefused) -> Problem {
    match refused {
        CodeRefused::Foreign => Problem::new(
            403,
            "code_invalid",
            "Code invalid",
            "This is not an enrolment code of this hub: it is mistyped, was not copied whole, or is from another hub. One looks \
             like enr_NAME.RANDOM.TIME.SEAL. Copy it again, or ask the hub's owner for a new one.",
        ),
        CodeRefused::Expired => Problem::new(
            410,
            "code_expired",
            "Code expired",
            "This enrolment code has expired: one is good for ten minutes. Ask the hub's owner for a new one, and use it at once.",
        ),
    }
}

fn refuse_executor(request: &Request, settings: &Settings) -> Option<Response> {
    match bearer(request) {
        Some(token) if secret::executor_of_key(&settings.hub_secret, token).is_some() => None,
        Some(token) if token.starts_with("enr_") => Some(unauthorized(
            "This is an enrolment code, not a key. Trade it for one first: POST /executor/enroll with {\"code\": …, \"nonce\": a random \
             text of your own}; or run the line that the hub's owner was given with the code.",
            "Bearer error=\"invalid_token\"".to_owned(),
        )),
        Some(token) if !token.is_empty() && !token.starts_with("exk_") => Some(unauthorized(
            "This is not an executor key: one begins with exk_. The owner's token and claim tokens are not for this \
             place. Send Authorization: Bearer exk_… ; the hub's owner has the key.",
            "Bearer error=\"invalid_token\"".to_owned(),
        )),
        Some(token) if !token.is_empty() => Some(wrong_executor_key()),
        _ => {
            let what = missing_key(request);
            let detail = format!("{what}Send your executor key: Authorization: Bearer exk_… . The hub's owner has it.");
            Some(unauthorized(&detail, "Bearer".to_owned()))
        }
    }
}

/// What seems to have become of a key that did not come.
fn missing_key(request: &Request) -> &'static str {
    match request.header("authorization") {
        Some(found) if found.eq_ignore_ascii_case("bearer") => {
            "The token is empty, as if the variable that should hold it were not set. "
        }
        Some(_) => "The Authorization header lacks the word Bearer and a space before the key. ",
        None if request.query.contains("exk_") => {
            "A key in the address does not count, and may be in logs now: tell the owner to end it. "
        }
        None if request.headers.iter().any(|(_, value)| value.contains("exk_")) => "The key came in another header. ",
        None => "",
    }
}

/// The refusal of an executor key that is junk, revoked or rotated away.
pub fn wrong_executor_key() -> Response {
    let detail = "This executor key is not valid: it is mistyped, from another hub, or was revoked. Ask the hub's owner for a \
                  new one; do not retry with this one.";
    unauthorized(detail, "Bearer error=\"invalid_token\"".to_owned())
}

/// The refusal of an access token whose grant has ended.
pub fn revoked(request: &Request, settings: &Settings) -> Response {
    challenge(request, settings, REVOKED_TOKEN, true)
}

/// RFC 6750: no `error` where no credential was sent. RFC 9728: where the client finds out how to get one.
fn challenge(request: &Request, settings: &Settings, detail: &str, token_was_sent: bool) -> Response {
    let error = if token_was_sent { "error=\"invalid_token\", " } else { "" };
    let metadata = metadata_address(origin(request, settings));
    let scope = Scopes::USUAL;
    unauthorized(detail, format!("Bearer {error}resource_metadata=\"{metadata}\", scope=\"{scope}\""))
}

/// The refusal of a client that lacks a scope.
pub fn lacks_scope(origin: &str, held: Scopes, needed: Scope) -> Response {
    let needed_name = needed.name();
    let detail = format!(
        "This access token lacks the scope {needed_name}. Sign in anew and let the owner grant it; repeating the call with the \
         same token does not help."
    );
    let challenge = scope_challenge(origin, held, needed);
    Problem::new(403, "insufficient_scope", "Insufficient scope", detail).response().with("www-authenticate", challenge)
}

/// The challenge of RFC 6750 §3.1 for a missing scope. It names what the client holds too, so that a client that asks for
/// just these scopes loses nothing.
pub fn scope_challenge(origin: &str, held: Scopes, needed: Scope) -> String {
    let all = held.with(needed);
    let metadata = metadata_address(origin);
    format!("Bearer error=\"insufficient_scope\", scope=\"{all}\", resource_metadata=\"{metadata}\"")
}

fn metadata_address(origin: &str) -> String {
    format!("{origin}/.well-known/oauth-protected-resource/mcp")
}

fn origin<'r>(request: &'r Request, settings: &'r Settings) -> &'r str {
    settings.public_url.as_ref().unwrap_or(&request.origin)
}
