//! Enrolment codes: `POST /api/executors/{name}/enroll`, and `POST /api/executors` with `enroll`.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::executors::refusal;
use super::views;
use crate::domain::limits::EXECUTOR_KEYS_MAX;
use crate::domain::moment::rfc3339;
use crate::http::body;
use crate::http::message::{Request, Response};
use crate::http::problem::Problem;
use crate::hub::{self, Enrolment, ExecutorChange, Hub, IssuedCode};
use crate::kit;

/// Body of `POST /api/executors/{name}/enroll`: there is nothing to say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnrollBody {}

/// A code for an executor that is there.
pub(super) fn existing(hub: &Hub<'_>, request: &Request, name: &str) -> Result<Response, Problem> {
    let EnrollBody {} = body::typed(&body::json(request)?)?;
    let issued = hub::issue_code(hub, name, &Enrolment::Existing).map_err(|rejected| refusal(&rejected, name))?;
    let view = json!({ "executor": name });
    Ok(Response::json(201, &with_code(view, hub, &issued)))
}

/// A new executor, with a code in place of its first key.
pub(super) fn new(hub: &Hub<'_>, name: &str, account: ExecutorChange) -> Result<Response, Problem> {
    let issued = hub::issue_code(hub, name, &Enrolment::New(account)).map_err(|rejected| refusal(&rejected, name))?;
    let view = views::executor(&issued.executor, hub.now());
    Ok(Response::json(201, &with_code(view, hub, &issued)))
}

fn with_code(mut view: Json, hub: &Hub<'_>, issued: &IssuedCode) -> Json {
    view["code"] = json!(issued.code);
    view["expires_at"] = json!(issued.expires_at);
    view["command"] = json!(kit::install_line(hub.origin(), &issued.code));
    view["next"] = json!(next(issued));
    view
}

fn next(issued: &IssuedCode) -> String {
    let name = &issued.executor.row.name;
    let until = rfc3339(issued.expires_at);
    let ends = if issued.keys >= EXECUTOR_KEYS_MAX {
        format!(" {name} has {EXECUTOR_KEYS_MAX} keys, so the older one ends when the code is used.")
    } else {
        String::new()
    };
    format!("Run the command on the machine that is to work as {name}. The code is good once, until {until}.{ends}")
}
