//! From a request to the command that answers it.

use serde_json::json;

use super::auth::Principal;
use super::message::{Outcome, Request, Response};
use super::route::{Access, NoRoute, Route};
use super::{auth, cors, problem, upload};
use crate::domain::scope::{Scope, Scopes};
use crate::domain::token;
use crate::hub::{Granted, Hub};
use crate::store::migrate;
use crate::{executor, files, hub, kit, mcp, oauth, owner};

/// The submitter that the owner's static token stands for.
const OWNER: &str = "owner";

/// Why a request goes no further.
type Refusal = Box<Response>;

/// Answers a request inside the object. Credentials are checked again here, so that nothing rests on the front alone.
pub fn handle(hub: &Hub<'_>, request: &Request) -> Outcome {
    let outcome = match Route::of(&request.method, &request.path) {
        Err(NoRoute::NotFound) => Outcome::Reply(problem::not_found(&request.path).response()),
        Err(NoRoute::MethodNotAllowed(allowed)) => Outcome::Reply(problem::method_not_allowed(allowed)),
        Ok(route) => match refuse(hub, request, &route) {
            Some(refusal) => Outcome::Reply(refusal),
            None => answer(hub, request, &route),
        },
    };
    match outcome {
        Outcome::Reply(response) => Outcome::Reply(cors::decorate(request, response)),
        other @ (Outcome::Wait(_) | Outcome::Fetch(_) | Outcome::Send(_) | Outcome::Upgrade(_)) => other,
        other @ (Outcome::Receive(_) | Outcome::Download(..)) => other,
    }
}

/// What the front refuses as well.
fn refuse(hub: &Hub<'_>, request: &Request, route: &Route) -> Option<Response> {
    let refusal = auth::refuse(request, route, hub.settings(), hub.now());
    refusal.or_else(|| upload::refuse(request, route, hub.settings()))
}

fn answer(hub: &Hub<'_>, request: &Request, route: &Route) -> Outcome {
    let principal = match route.access() {
        Access::Anyone | Access::Link | Access::FileLink | Access::Code | Access::Executor => None,
        Access::Client | Access::Owner => match principal(hub, request) {
            Ok(principal) => Some(principal),
            Err(refusal) => return Outcome::Reply(*refusal),
        },
    };
    match (route, principal) {
        (Route::Executor(call), _) => executor::handle(hub, request, *call),
        (Route::Attach, _) => executor::put(hub, request),
        (Route::AttemptFiles, _) => Outcome::Reply(executor::files(hub, request)),
        (Route::Download(id), _) => files::download(hub, request, id),
        (Route::Upload(id), _) => files::bring(hub, request, id),
        (Route::Enroll, _) => {
            let refusal = auth::refuse_code(request, hub.settings(), hub.now());
            Outcome::Reply(refusal.unwrap_or_else(|| executor::enroll(hub, request)))
        }
        (Route::Kit(file), _) => Outcome::Reply(kit::answer(request, hub.settings(), *file)),
        (Route::Listen, _) => executor::listen(hub, request),
        (Route::Health, _) => Outcome::Reply(health(hub)),
        (Route::Act(token), _) => Outcome::Reply(owner::act(hub, request, token)),
        (Route::Mcp, Some(principal)) => mcp::handle(hub, request, &principal),
        (route, Some(principal)) if principal.scopes.permit(Scope::HubAdmin) => match route {
            Route::Events => owner::watch(hub, request, &principal),
            route => owner::handle(hub, request, route),
        },
        (_, Some(principal)) => Outcome::Reply(auth::lacks_scope(hub.origin(), principal.scopes, Scope::HubAdmin)),
        (route, None) => oauth::handle(hub, request, route),
    }
}

/// On whose behalf the bearer speaks, by the registry of grants.
fn principal(hub: &Hub<'_>, request: &Request) -> Result<Principal, Refusal> {
    let bearer = auth::bearer(request).unwrap_or_default();
    if auth::is_owner_token(bearer, hub.settings()) {
        return Ok(Principal {
            submitter: OWNER.to_owned(),
            scopes: Scopes::OWNER,
            executor: None,
            grant: None,
            until: None,
        });
    }
    match hub::granted(hub, bearer) {
        Ok(Some(granted)) => {
            let Granted { grant_id, client_id, scopes, executor } = granted;
            let until = token::access_ends_at(bearer);
            Ok(Principal { submitter: client_id, scopes, executor, grant: Some(grant_id), until })
        }
        Ok(None) => Err(Box::new(auth::revoked(request, hub.settings()))),
        Err(error) => Err(Box::new(problem::storage_failed(error.failure()).response())),
    }
}

/// Says that the object and its database answer.
fn health(hub: &Hub<'_>) -> Response {
    match hub.next_due() {
        Ok(_) => Response::json(
            200,
            &json!({
                "ok": true,
                "version": env!("CARGO_PKG_VERSION"),
                "schema": migrate::VERSION,
                "time": hub.now(),
                "notifications": notifications(hub),
            }),
        ),
        Err(error) => problem::storage_failed(error.failure()).response(),
    }
}

/// Whether notices are sent; if they are configured wrongly, in words that tell no value.
fn notifications<'h>(hub: &'h Hub<'_>) -> &'h str {
    match &hub.settings().ntfy {
        Ok(None) => "off",
        Ok(Some(_)) => "on",
        Err(words) => words,
    }
}
