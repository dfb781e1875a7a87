//! From a request to the command that answers it.

use serde_json::json;

use super::message::{Outcome, Request, Response};
use super::route::{Access, NoRoute, Route};
use super::{auth, cors, problem};
use crate::hub::Hub;
use crate::store::migrate;
use crate::{executor, mcp, owner};

/// The submitter that the owner's static token stands for.
const OWNER: &str = "owner";

/// Answers a request inside the object. Credentials are checked again here, so that nothing rests on the front alone.
pub fn handle(hub: &Hub<'_>, request: &Request) -> Outcome {
    let outcome = match Route::of(&request.method, &request.path) {
        Err(NoRoute::NotFound) => Outcome::Reply(problem::not_found().response()),
        Err(NoRoute::MethodNotAllowed(allowed)) => Outcome::Reply(problem::method_not_allowed(allowed)),
        Ok(route) => match auth::refuse(request, &route, hub.settings()) {
            Some(refusal) => Outcome::Reply(refusal),
            None => answer(hub, request, &route),
        },
    };
    match outcome {
        Outcome::Reply(response) => Outcome::Reply(cors::decorate(request, response)),
        Outcome::Wait(wait) => Outcome::Wait(wait),
    }
}

fn answer(hub: &Hub<'_>, request: &Request, route: &Route) -> Outcome {
    match (route.access(), route) {
        (Access::Executor, Route::Executor(call)) => executor::handle(hub, request, *call),
        (_, Route::Mcp) => mcp::handle(hub, request, OWNER),
        (_, Route::Health) => Outcome::Reply(health(hub)),
        (_, Route::ResourceMetadata) => Outcome::Reply(resource_metadata(hub)),
        (_, route) => Outcome::Reply(owner::handle(hub, request, route)),
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
            }),
        ),
        Err(error) => problem::storage_failed(error.failure()).response(),
    }
}

/// RFC 9728: what this resource is and how it wants its tokens.
fn resource_metadata(hub: &Hub<'_>) -> Response {
    let metadata = json!({
        "resource": format!("{}/mcp", hub.origin()),
        "resource_name": "taskhub",
        "bearer_methods_supported": ["header"],
    });
    Response::json(200, &metadata)
}
