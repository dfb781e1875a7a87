//! Tasks as the owner sees and judges them: `/api/tasks/{id}`, `…/approve` and `…/deny`.

use serde::Deserialize;
use serde_json::json;

use super::views;
use crate::domain::task::Lane;
use crate::http::body;
use crate::http::message::{Request, Response};
use crate::http::problem::{Problem, bad_request, storage_failed};
use crate::hub::{self, Approve, ApproveRejected, Hub};

/// On whose behalf the owner API speaks.
const OWNER: &str = "owner";

/// Body of `POST /api/tasks/{id}/approve` and `…/deny`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WordBody {
    note: Option<String>,
}

pub(super) fn get(hub: &Hub<'_>, id: &str) -> Result<Response, Problem> {
    let failed = |error: crate::store::database::DatabaseError| storage_failed(error.failure());
    let task = hub::get_task(hub, id).map_err(failed)?.ok_or_else(not_found)?;
    let head = &task.full.head;
    let waits = matches!(head.life.state.lane(), Some(Lane::Ready | Lane::Waiting));
    let attendance = waits.then(|| hub::attendance(hub, &head.address)).transpose().map_err(failed)?;
    Ok(Response::json(200, &views::task(&task, attendance.as_ref())))
}

pub(super) fn approve(hub: &Hub<'_>, request: &Request, id: &str, approve: bool) -> Result<Response, Problem> {
    let body: WordBody = body::typed(&body::json(request)?)?;
    let input = Approve { submitter: OWNER.to_owned(), task_id: id.to_owned(), approve, note: body.note };
    let approved = hub::approve(hub, &input).map_err(|rejected| refusal(&rejected))?;
    Ok(Response::json(
        200,
        &json!({
            "id": approved.id,
            "state": approved.state.as_str(),
            "visible_at": approved.visible_at,
            "already": approved.already,
        }),
    ))
}

fn not_found() -> Problem {
    let detail = "There is no task with this id: it is mistyped, or was deleted after its retention.";
    Problem::new(404, "task_not_found", "Task not found", detail)
}

fn refusal(rejected: &ApproveRejected) -> Problem {
    match rejected {
        ApproveRejected::TaskNotFound => not_found(),
        ApproveRejected::ApprovedBefore { state } => {
            let detail = format!(
                "The task was approved before, and is {state} now, so it cannot be denied any more. To call it off, cancel it: \
                 the tool cancel_task does that."
            );
            Problem::new(409, "approved_before", "Approved before", detail)
        }
        ApproveRejected::DeniedBefore => {
            let detail = "The task was denied before, which is final. To have it done after all, the tool retry_task submits it \
                          again as a new task; approve that one.";
            Problem::new(409, "denied_before", "Denied before", detail)
        }
        ApproveRejected::NotAwaited { state } => {
            let detail = format!(
                "The task does not wait for approval: it is {state}. GET /api/tasks/ID shows what it waits for; to call it off, \
                 cancel it."
            );
            Problem::new(409, "not_awaiting_approval", "Not awaiting approval", detail)
        }
        ApproveRejected::Invalid { detail } => bad_request(format!("note: {detail}")),
        ApproveRejected::Database(error) => storage_failed(error.failure()),
    }
}
