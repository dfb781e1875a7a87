//! The owner API (design §12): executors and their keys, clients and their grants, the outbox, a task with its whole history,
//! and the owner's word on it.
//!
//! Owns the words of `/api`, and the signed links under `/act` by which the owner acts without signing in. Invariants: a key is
//! shown once, in the answer that creates it; the secrets of a wake are never shown again. It refuses to know SQL.

mod act;
mod enrolment;
mod executors;
pub mod feed;
mod notify;
mod outbox;
mod sign_in;
mod tasks;
mod views;

use crate::http::message::{Outcome, Request};
use crate::http::problem::not_found;
use crate::http::route::Route;
use crate::hub::Hub;

pub use act::act;
pub use feed::watch;

/// Answers one call of the owner.
pub fn handle(hub: &Hub<'_>, request: &Request, route: &Route) -> Outcome {
    let answer = match route {
        Route::TestNotice => return notify::test(hub, request),
        Route::ListExecutors => executors::list(hub),
        Route::CreateExecutor => executors::create(hub, request),
        Route::ChangeExecutor(name) => executors::change(hub, request, name),
        Route::DeleteExecutor(name) => executors::delete(hub, request, name),
        Route::EnrollExecutor(name) => enrolment::existing(hub, request, name),
        Route::ListKeys(name) => executors::keys(hub, name),
        Route::RotateKey(name) => executors::rotate(hub, request, name),
        Route::RevokeKey(name, id) => executors::revoke(hub, name, id),
        Route::GetTask(id) => tasks::get(hub, id),
        Route::ApproveTask(id) => tasks::approve(hub, request, id, true),
        Route::DenyTask(id) => tasks::approve(hub, request, id, false),
        Route::ListClients => sign_in::clients(hub),
        Route::DeleteClient(id) => sign_in::delete_client(hub, id),
        Route::ListGrants => sign_in::grants(hub),
        Route::RevokeGrants => sign_in::revoke_grants(hub),
        Route::RevokeGrant(id) => sign_in::revoke_grant(hub, id),
        Route::ListOutbox => outbox::list(hub),
        Route::RetryMessage(id) => outbox::retry(hub, id),
        Route::DiscardMessage(id) => outbox::discard(hub, id),
        Route::CallbackSecret => Ok(outbox::callback_secret(hub)),
        Route::ChangePassphrase => sign_in::change_passphrase(hub, request),
        Route::Health
        | Route::ResourceMetadata
        | Route::ServerMetadata
        | Route::Authorize
        | Route::Token
        | Route::Register
        | Route::Revoke
        | Route::Act(_)
        | Route::Mcp
        | Route::Executor(_)
        | Route::Attach
        | Route::AttemptFiles
        | Route::Download(_)
        | Route::Upload(_)
        | Route::Enroll
        | Route::Kit(_)
        | Route::Listen
        | Route::Events => Err(not_found(&request.path)),
    };
    Outcome::Reply(answer.unwrap_or_else(|problem| problem.response()))
}
