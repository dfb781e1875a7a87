//! Executors and their keys: `/api/executors` and below.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{enrolment, views};
use crate::domain::executor::Approval;
use crate::domain::task::Address;
use crate::domain::wake::Wake;
use crate::http::body;
use crate::http::message::{Request, Response};
use crate::http::problem::{Problem, bad_request, storage_failed};
use crate::hub::{self, CreateExecutor, ExecutorChange, ExecutorRejected, Hub, TasksLeft};

/// Body of `POST /api/executors`, and, without the name, of `PATCH /api/executors/{name}`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountBody {
    name: Option<String>,
    queues: Option<Vec<String>>,
    max_concurrent: Option<u32>,
    max_tasks_per_day: Option<u32>,
    approval: Option<Approval>,
    wake: Option<Wake>,
    paused: Option<bool>,
    disabled: Option<bool>,
    enroll: Option<bool>,
}

/// Body of `POST /api/executors/{name}/keys`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RotateBody {
    #[serde(default)]
    revoke_others: bool,
}

impl AccountBody {
    /// The body of a request: the name, whether a code is wanted, and the rest. A field that is null counts as left out, but for
    /// the one limit that null lifts.
    fn read(request: &Request) -> Result<(Option<String>, Option<bool>, ExecutorChange), Problem> {
        let raw = body::json(request)?;
        let body: Self = body::typed(&raw)?;
        let is_lifted = raw.get("max_tasks_per_day").is_some_and(Json::is_null);
        let change = ExecutorChange {
            queues: body.queues,
            max_concurrent: body.max_concurrent,
            max_tasks_per_day: body.max_tasks_per_day.map(Some).or(is_lifted.then_some(None)),
            approval: body.approval,
            wake: body.wake,
            paused: body.paused,
            disabled: body.disabled,
        };
        Ok((body.name, body.enroll, change))
    }
}

pub(super) fn list(hub: &Hub<'_>) -> Result<Response, Problem> {
    let executors = hub::list_executors(hub).map_err(|error| storage_failed(error.failure()))?;
    let executors: Vec<_> = executors.iter().map(|executor| views::executor(executor, hub.now())).collect();
    Ok(Response::json(200, &json!({ "executors": executors })))
}

pub(super) fn create(hub: &Hub<'_>, request: &Request) -> Result<Response, Problem> {
    let (name, enroll, account) = AccountBody::read(request)?;
    let name = name.ok_or_else(|| {
        bad_request("The body does not fit this call: missing field `name`. Send the name of the new executor.")
    })?;
    if enroll == Some(true) {
        return enrolment::new(hub, &name, account);
    }
    let input = CreateExecutor { name, account };
    let created = hub::create_executor(hub, &input).map_err(|rejected| refusal(&rejected, &input.name))?;
    Ok(Response::json(201, &views::created(&created, hub.now())))
}

pub(super) fn change(hub: &Hub<'_>, request: &Request, name: &str) -> Result<Response, Problem> {
    let (other, enroll, change) = AccountBody::read(request)?;
    if enroll.is_some() {
        return Err(bad_request(format!("enroll: a code is made by POST /api/executors/{name}/enroll.")));
    }
    if other.is_some_and(|other| other != name) {
        return Err(bad_request("name: an executor keeps its name. Create another one, and delete this."));
    }
    if change == ExecutorChange::default() {
        return Err(bad_request(
            "Send what is to change: any of paused, disabled, max_concurrent, max_tasks_per_day (null lifts the limit), \
             approval (\"never\" or \"always\"), queues and wake.",
        ));
    }
    let executor = hub::change_executor(hub, name, &change).map_err(|rejected| refusal(&rejected, name))?;
    Ok(Response::json(200, &views::executor(&executor, hub.now())))
}

pub(super) fn delete(hub: &Hub<'_>, request: &Request, name: &str) -> Result<Response, Problem> {
    let left = tasks_left(hub, request)?;
    let removal = hub::delete_executor(hub, name, &left).map_err(|rejected| refusal(&rejected, name))?;
    let mut answer = json!({ "deleted": removal.deleted, "name": name });
    if left != TasksLeft::Keep {
        answer["canceled"] = json!(removal.canceled);
        answer["moved"] = json!(removal.moved);
        answer["given_back"] = json!(removal.given_back);
    }
    if !removal.deleted {
        answer["next"] =
            json!("It has more tasks than one call handles, and is disabled meanwhile. Repeat the same call.");
    }
    Ok(Response::json(if removal.deleted { 200 } else { 202 }, &answer))
}

/// What the query says about the tasks that are left: `tasks=cancel`, or `tasks=move` with `to`.
fn tasks_left(hub: &Hub<'_>, request: &Request) -> Result<TasksLeft, Problem> {
    let (mut tasks, mut to) = (None, None);
    for (name, value) in url::form_urlencoded::parse(request.query.as_bytes()) {
        let slot = match &*name {
            "tasks" => &mut tasks,
            "to" => &mut to,
            _ => return Err(bad_request(format!("The query may have tasks and to. {TASKS_LEFT}"))),
        };
        if slot.replace(value.into_owned()).is_some() {
            return Err(bad_request(format!("{name}: give it once. {TASKS_LEFT}")));
        }
    }
    match (tasks.as_deref(), to) {
        (None, None) => Ok(TasksLeft::Keep),
        (Some("cancel"), None) => Ok(TasksLeft::Cancel),
        (Some("move"), Some(to)) => Ok(TasksLeft::Move(target(hub, &to)?)),
        (Some("move"), None) => Err(bad_request(format!("to is missing: whom the tasks are for now. {TASKS_LEFT}"))),
        _ => Err(bad_request(TASKS_LEFT)),
    }
}

const TASKS_LEFT: &str = "Send ?tasks=cancel to cancel the tasks of the executor, ?tasks=move&to=NAME to give them to another \
                          executor or queue, or neither to delete it only if it has none.";

/// `executor:NAME`, `queue:NAME`, or a name that only one of them has.
fn target(hub: &Hub<'_>, to: &str) -> Result<Address, Problem> {
    let wrong = || bad_request(format!("to: it is not the name of an executor or a queue. {TASKS_LEFT}"));
    if let Some(name) = to.strip_prefix("executor:") {
        return Address::executor(name).ok_or_else(wrong);
    }
    if let Some(name) = to.strip_prefix("queue:") {
        return Address::queue(name).ok_or_else(wrong);
    }
    let all = hub::list_executors(hub).map_err(|error| storage_failed(error.failure()))?;
    let is_executor = all.iter().any(|executor| executor.row.name == to);
    let is_queue = all.iter().any(|executor| executor.row.queues.iter().any(|queue| queue == to));
    match (is_executor, is_queue) {
        (true, true) => Err(bad_request(format!(
            "to: there is an executor {to} and a queue {to}; write to=executor:{to} or to=queue:{to}."
        ))),
        (true, false) => Address::executor(to).ok_or_else(wrong),
        (false, true) => Address::queue(to).ok_or_else(wrong),
        (false, false) => Err(wrong()),
    }
}

pub(super) fn keys(hub: &Hub<'_>, name: &str) -> Result<Response, Problem> {
    let keys = hub::list_keys(hub, name).map_err(|rejected| refusal(&rejected, name))?;
    let keys: Vec<Json> = keys.iter().map(views::key).collect();
    Ok(Response::json(200, &json!({ "name": name, "keys": keys })))
}

pub(super) fn rotate(hub: &Hub<'_>, request: &Request, name: &str) -> Result<Response, Problem> {
    let body: RotateBody = body::typed(&body::json(request)?)?;
    let key = hub::rotate_key(hub, name, body.revoke_others).map_err(|rejected| refusal(&rejected, name))?;
    Ok(Response::json(201, &json!({ "name": name, "key": key.key, "key_id": key.id })))
}

pub(super) fn revoke(hub: &Hub<'_>, name: &str, id: &str) -> Result<Response, Problem> {
    let left = hub::revoke_key(hub, name, id).map_err(|rejected| refusal(&rejected, name))?;
    let mut answer = json!({ "revoked": true, "name": name, "id": id, "keys_left": left });
    if left == 0 {
        answer["next"] =
            json!(format!("It has no key any more and can call nothing; POST /api/executors/{name}/keys makes one."));
    }
    Ok(Response::json(200, &answer))
}

pub(super) fn refusal(rejected: &ExecutorRejected, name: &str) -> Problem {
    let name = crate::domain::text::shorten(name, 60);
    match rejected {
        ExecutorRejected::Invalid { field, detail } if detail.starts_with(field) => bad_request(detail.clone()),
        ExecutorRejected::Invalid { field, detail } => bad_request(format!("{field}: {detail}")),
        ExecutorRejected::Exists => {
            let detail = format!(
                "There is an executor {name} already. Choose another name, change it (PATCH /api/executors/{name}), or enrol \
                 a machine for it (POST /api/executors/{name}/enroll); POST /api/executors/{name}/keys makes a new key."
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
        ExecutorRejected::Disabled => {
            let detail = format!(
                "The executor {name} is disabled, and a machine that is enrolled could call nothing. Enable it first: PATCH \
                 /api/executors/{name} with {{\"disabled\": false}}; then send the same call again."
            );
            Problem::new(409, "executor_disabled", "Executor disabled", detail)
        }
        ExecutorRejected::KeyNotFound => {
            let detail = format!(
                "The executor {name} has no valid key of this id; it may have been revoked before. GET \
                 /api/executors/{name}/keys lists them."
            );
            Problem::new(404, "key_not_found", "Key not found", detail)
        }
        ExecutorRejected::HasTasks => {
            let detail = format!(
                "Open tasks are addressed to {name}, or held by it. DELETE /api/executors/{name}?tasks=cancel cancels them, \
                 ?tasks=move&to=NAME gives them to another executor or queue; or let them finish, then delete it."
            );
            Problem::new(409, "executor_has_tasks", "Executor has tasks", detail)
        }
        ExecutorRejected::QueueHasTasks { queue } => {
            let detail = format!(
                "Tasks wait in the queue {queue}, which nobody but {name} serves. Let another executor serve it (PATCH \
                 /api/executors/OTHER with queues), or cancel them; DELETE /api/executors/{name}?tasks=cancel does that as it \
                 deletes the executor, ?tasks=move&to=NAME gives them to another executor or queue."
            );
            Problem::new(409, "executor_has_tasks", "Executor has tasks", detail)
        }
        ExecutorRejected::Database(error) => storage_failed(error.failure()),
    }
}
