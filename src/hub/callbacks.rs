//! Callbacks: a submitter who gave a `callback_url` is told that its task ended (Standard Webhooks, a secret of the hub's).
//!
//! The message says which task ended and how, never what came of it: whoever wants that asks with its own credential.

use serde_json::json;

use super::{Effects, Hub, outbox};
use crate::domain::secret;
use crate::domain::task::Life;
use crate::outbound::OutboundRequest;
use crate::outbound::webhook;
use crate::store::database::DatabaseError;
use crate::store::outbox::{self as rows, Kind, OutboxRow, State};

/// Why a callback is given up at once.
pub(super) const NOT_PERMITTED: &str = "its address was permitted when the task was submitted and is not any more";

/// Owes the submitter of a task that has just ended a callback, if it asked for one.
pub(super) fn owe(
    hub: &Hub<'_>,
    effects: &mut Effects,
    task_id: &str,
    life: &Life,
    callback_url: Option<&str>,
) -> Result<(), DatabaseError> {
    let (Some(url), Some(completed_at)) = (callback_url, life.completed_at) else { return Ok(()) };
    let body = json!({
        "type": format!("task.{}", life.state.as_str()),
        "timestamp": completed_at,
        "data": {
            "task_id": task_id,
            "state": life.state.as_str(),
            "error_code": life.failure.map(|code| code.as_str()),
            "attempt": life.attempt,
            "completed_at": completed_at,
        },
    });
    let row = OutboxRow {
        state: State::Due,
        next_at: hub.now,
        id: format!("end_{task_id}"),
        kind: Kind::Callback,
        subject: url.to_owned(),
        task_id: Some(task_id.to_owned()),
        wake_round: None,
        count: 1,
        attempts: 1,
        last_status: None,
        created_at: hub.now,
        body: body.to_string(),
    };
    match request(hub, &row) {
        Some(request) => outbox::post(hub, effects, row, request),
        None => {
            let last_status = Some(NOT_PERMITTED.to_owned());
            rows::insert(hub.db, &OutboxRow { state: State::Dead, last_status, ..row })
        }
    }
}

/// The request that carries a callback; `None` if its address may not be called any more.
pub(super) fn request(hub: &Hub<'_>, row: &OutboxRow) -> Option<OutboundRequest> {
    let url = crate::domain::target::check(&row.subject, hub.settings.targets).ok()?;
    let secret = secret::callback_secret(&hub.settings.hub_secret);
    let message =
        webhook::Message { id: &row.id, body: &row.body, now: hub.now, timeout_ms: hub.settings.wake_timeout_ms };
    webhook::signed(&url, &message, &secret)
}
