//! The owner API (design §12): executors and their keys, clients and their grants, the outbox, and a task with its whole
//! history.
//!
//! Owns the words of `/api`. Invariants: a key is shown once, in the answer that creates it; the secrets of a wake are
//! never shown again. It refuses to know SQL.

mod outbox;
mod sign_in;
mod views;

use serde::Deserialize;
use serde_json::json;

use crate::domain::wake::Wake;
use crate::http::body;
use crate::http::message::{Request, Response};
use crate::http::problem::{Problem, bad_request, not_found, storage_failed};
use crate::http::route::Route;
use crate::hub::{self, CreateExecutor, ExecutorRejected, Hub};

/// Body of `POST /api/executors`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateBody {
    name: String,
    #[serde(default)]
    queues: Vec<String>,
    max_concurrent: Option<u32>,
    wake: Option<Wake>,
}

/// Body of `POST /api/executors/{name}/keys`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RotateBody {
    #[serde(default)]
    revoke_others: bool,
}

/// Answers one call of the owner.
pub fn handle(hub: &Hub<'_>, request: &Request, route: &Route) -> Response {
    let answer = match route {
        Route::ListExecutors => list(hub),
        Route::CreateExecutor => create(hub, request),
        Route::DeleteExecutor(name) => delete(hub, name),
        Route::RotateKey(name) => rotate(hub, request, name),
        Route::GetTask(id) => task(hub, id),
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
        | Route::Mcp
        | Route::Executor(_) => Err(not_found()),
    };
    answer.unwrap_or_else(|problem| problem.response())
}

fn list(hub: &Hub<'_>) -> Result<Response, Problem> {
    let executors = hub::list_executors(hub).map_err(|error| storage_failed(error.failure()))?;
    let executors: Vec<_> = executors.iter().map(views::executor).collect();
    Ok(Response::json(200, &json!({ "executors": executors })))
}

fn create(hub: &Hub<'_>, request: &Request) -> Result<Response, Problem> {
    let body: CreateBody = body::typed(&body::json(request)?)?;
    let wake = body.wake.unwrap_or(Wake::Poll {});
    let input = CreateExecutor { name: body.name, queues: body.queues, max_concurrent: body.max_concurrent, wake };
    let created = hub::create_executor(hub, &input).map_err(|rejected| refusal(&rejected, &input.name))?;
    Ok(Response::json(201, &views::created(&created)))
}

fn delete(hub: &Hub<'_>, name: &str) -> Result<Response, Problem> {
    hub::delete_executor(hub, name).map_err(|rejected| refusal(&rejected, name))?;
    Ok(Response::json(200, &json!({ "deleted": true, "name": name })))
}

fn rotate(hub: &Hub<'_>, request: &Request, name: &str) -> Result<Response, Problem> {
    let body: RotateBody = body::typed(&body::json(request)?)?;
    let key = hub::rotate_key(hub, name, body.revoke_others).map_err(|rejected| refusal(&rejected, name))?;
    Ok(Response::json(201, &json!({ "name": name, "key": key })))
}

fn task(hub: &Hub<'_>, id: &str) -> Result<Response, Problem> {
    let found = hub::get_task(hub, id).map_err(|error| storage_failed(error.failure()))?;
    let task = found.ok_or_else(|| {
        let detail = "There is no task with this id: it is mistyped, or was deleted after its retention.";
        Problem::new(404, "task_not_found", "Task not found", detail)
    })?;
    Ok(Response::json(200, &views::task(&task)))
}

fn refusal(rejected: &ExecutorRejected, name: &str) -> Problem {
    let name = crate::domain::text::shorten(name, 60);
    match rejected {
        ExecutorRejected::Invalid { field, detail } if detail.starts_with(field) => bad_request(detail.clone()),
        ExecutorRejected::Invalid { field, detail } => bad_request(format!("{field}: {detail}")),
        ExecutorRejected::Exists => {
            let detail = format!(
                "There is an executor {name} already. Choose another name, or make a new key for it: POST \
                 /api/executors/{name}/keys."
            );
            Problem::new(409, "executor_exists", "Executor exists", detail)
        }
        ExecutorRejected::TooMany => {
            let detail = "This hub has as many executors as it may; delete one first.";
            Problem::new(409, "too_many_executors", "Too many executors", detail)
        }
        ExecutorRejected::NotFound => {
            let detail = format!("There is no executor {name}. GET /api/executors lists them.");
            Problem::new(404, "executor_not_found", "Executor not found", detail)
        }
        ExecutorRejected::HasTasks => {
            let detail = format!(
                "Open tasks are addressed to {name}, or held by it. Cancel them or let them finish, then delete it."
            );
            Problem::new(409, "executor_has_tasks", "Executor has tasks", detail)
        }
        ExecutorRejected::QueueHasTasks { queue } => {
            let detail = format!(
                "Tasks wait in the queue {queue}, which only {name} serves. Cancel them, or let another executor serve it."
            );
            Problem::new(409, "executor_has_tasks", "Executor has tasks", detail)
        }
        ExecutorRejected::Database(error) => storage_failed(error.failure()),
    }
}
