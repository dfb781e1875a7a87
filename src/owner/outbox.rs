//! The outbox as the owner sees it: what waits to be sent, and what was given up.

use serde_json::{Value as Json, json};

use crate::domain::secret;
use crate::domain::text::shorten;
use crate::http::message::Response;
use crate::http::problem::{Problem, storage_failed};
use crate::hub::{self, Hub};
use crate::store::database::DatabaseError;
use crate::store::outbox::OutboxRow;

pub(super) fn list(hub: &Hub<'_>) -> Result<Response, Problem> {
    let (due, dead) = hub::list_outbox(hub).map_err(|error| storage_failed(error.failure()))?;
    let due: Vec<Json> = due.iter().map(|row| message(row, "next_at")).collect();
    let dead: Vec<Json> = dead.iter().map(|row| message(row, "given_up_at")).collect();
    Ok(Response::json(200, &json!({ "due": due, "dead": dead })))
}

/// A message without its body, which may quote what an executor wrote.
fn message(row: &OutboxRow, moment: &str) -> Json {
    let mut view = json!({
        "id": row.id,
        "kind": row.kind.as_str(),
        "to": row.subject,
        "task_id": row.task_id,
        "tells_of": row.count,
        "tries": row.attempts,
        "last_status": row.last_status,
        "created_at": row.created_at,
    });
    view[moment] = json!(row.next_at);
    view
}

pub(super) fn retry(hub: &Hub<'_>, id: &str) -> Result<Response, Problem> {
    found(hub::revive(hub, id), id)?;
    Ok(Response::json(200, &json!({ "id": id, "due": true })))
}

pub(super) fn discard(hub: &Hub<'_>, id: &str) -> Result<Response, Problem> {
    found(hub::discard(hub, id), id)?;
    Ok(Response::json(200, &json!({ "id": id, "discarded": true })))
}

fn found(done: Result<bool, DatabaseError>, id: &str) -> Result<(), Problem> {
    if done.map_err(|error| storage_failed(error.failure()))? {
        return Ok(());
    }
    let detail = format!(
        "No message {} was given up, or not lately, or it is on its way again. GET /api/outbox lists them.",
        shorten(id, 100)
    );
    Err(Problem::new(404, "message_not_found", "Message not found", detail))
}

/// The secret with which receivers of callbacks verify them. It is the same until `HUB_SECRET` changes.
pub(super) fn callback_secret(hub: &Hub<'_>) -> Response {
    Response::json(200, &json!({ "secret": secret::callback_secret(&hub.settings().hub_secret) }))
}
