//! What the front Worker decides without asking the object.

use serde_json::Value as Json;

use super::cors;
use super::message::{Request, Response};
use super::problem;
use super::route::{ExecutorCall, NoRoute, Route};
use super::socket;
use super::upload;
use crate::domain::settings::Settings;
use crate::kit;

/// The answer to a request that need not, or must not, reach the object: a preflight, an unknown path, a wrong method, a
/// foreign origin, a credential that cannot be right at `now` (milliseconds), a file of the kit. `None`: the object answers, or
/// the body has to be looked at first (`needs_body`).
pub fn refuse(request: &Request, settings: &Settings, now: i64) -> Option<Response> {
    if let Some(response) = cors::preflight(request) {
        return Some(response);
    }
    let response = match Route::of(&request.method, &request.path) {
        Err(NoRoute::NotFound) => Some(problem::not_found(&request.path).response()),
        Err(NoRoute::MethodNotAllowed(allowed)) => Some(problem::method_not_allowed(allowed)),
        Ok(route) => {
            let is_for_pages = matches!(route, Route::Mcp | Route::Token | Route::Register | Route::Revoke);
            let foreign = is_for_pages.then(|| cors::refuse_origin(request)).flatten();
            let is_socket = matches!(route, Route::Listen | Route::Events);
            let file = if let Route::Kit(file) = route { Some(kit::answer(request, settings, file)) } else { None };
            foreign
                .or_else(|| super::auth::refuse(request, &route, settings, now))
                .or_else(|| upload::refuse(request, &route, settings))
                .or_else(|| is_socket.then(|| socket::refuse(request)).flatten())
                .or(file)
        }
    };
    response.map(|response| cors::decorate(request, response))
}

/// Whether the front must read the body before it asks the object: it holds a credential.
pub fn needs_body(request: &Request) -> bool {
    Route::of(&request.method, &request.path) == Ok(Route::Enroll)
}

/// The answer to a request whose body holds a credential that cannot be right at `now` (milliseconds). `None`: the object answers.
pub fn refuse_body(request: &Request, settings: &Settings, now: i64) -> Option<Response> {
    super::auth::refuse_code(request, settings, now)
}

/// Whether a request may be sent to the object again when it is not known what became of the first: reads, calls that are
/// the same twice by nature, and those that carry a key by which the object knows them again.
pub fn is_repeatable(request: &Request) -> bool {
    let body = || serde_json::from_slice::<Json>(&request.body).unwrap_or(Json::Null);
    match Route::of(&request.method, &request.path) {
        Ok(
            Route::Health
            | Route::ResourceMetadata
            | Route::ServerMetadata
            | Route::ListExecutors
            | Route::ListKeys(_)
            | Route::GetTask(_)
            | Route::ApproveTask(_)
            | Route::DenyTask(_)
            | Route::ListClients
            | Route::ListGrants
            | Route::ListOutbox
            | Route::CallbackSecret
            | Route::Act(_)
            | Route::Kit(_)
            // The same nonce gets the same key.
            | Route::Enroll
            | Route::Revoke
            | Route::Download(_)
            | Route::AttemptFiles
            | Route::Listen
            | Route::Events,
        ) => true,
        Ok(Route::Authorize) => request.method != "POST",
        Ok(Route::Executor(call)) => match call {
            ExecutorCall::Claim => body()["request_id"].is_string(),
            // A result that claims the next task does so under a key made of its claim token.
            ExecutorCall::Heartbeat | ExecutorCall::Result | ExecutorCall::Defer | ExecutorCall::Release => true,
            // A beginning that comes twice says so, and that the attempt itself had begun it.
            ExecutorCall::Action | ExecutorCall::Ping => true,
        },
        Ok(Route::Mcp) => is_repeatable_rpc(&body()),
        // A code is good once: whether a lost exchange happened is for the client to find out.
        Ok(Route::Token | Route::Register | Route::CreateExecutor | Route::RotateKey(_) | Route::EnrollExecutor(_)) => false,
        // The body is gone.
        Ok(Route::Attach | Route::Upload(_)) => false,
        Ok(Route::ChangeExecutor(_) | Route::DeleteExecutor(_) | Route::RevokeKey(..)) => false,
        // A second time, the message is on its way or gone, and the answer would be another one.
        Ok(Route::RetryMessage(_) | Route::DiscardMessage(_)) => false,
        Ok(
            Route::DeleteClient(_)
            | Route::RevokeGrants
            | Route::RevokeGrant(_)
            | Route::ChangePassphrase
            | Route::TestNotice,
        )
        | Err(_) => false,
    }
}

fn is_repeatable_rpc(message: &Json) -> bool {
    if message["method"] != "tools/call" {
        return message.is_object();
    }
    let arguments = &message["params"]["arguments"];
    match message["params"]["name"].as_str() {
        Some("submit_task") => arguments["idempotency_key"].is_string(),
        Some("get_task" | "list_tasks" | "list_executors" | "hub_status" | "cancel_task" | "answer_task") => true,
        Some("approve_task") => true,
        Some("retry_task" | "claim_task" | "heartbeat_task" | "finish_task" | "defer_task") => true,
        // The same name and content is the same file.
        Some("record_action" | "get_attachment" | "attach_file") => true,
        _ => false,
    }
}
