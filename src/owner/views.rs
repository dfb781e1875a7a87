//! Executors and tasks as the owner sees them. Times are milliseconds of Unix time.

use serde_json::{Value as Json, json};

use crate::domain::wake::Wake;
use crate::hub::{CreatedExecutor, ExecutorView, TaskDetail};
use crate::store::executors::ExecutorRow;

/// A wake without its secrets.
fn wake(wake: &Wake) -> Json {
    match wake {
        Wake::Poll {} => json!({ "adapter": wake.adapter() }),
        Wake::Webhook { url, auth, body } => {
            let mut view = json!({ "adapter": wake.adapter(), "url": url, "auth": { "kind": auth.kind() } });
            if let Some(body) = body {
                view["body"] = body.clone();
            }
            view
        }
    }
}

fn account(row: &ExecutorRow, how: &Wake) -> Json {
    json!({
        "name": row.name,
        "queues": row.queues,
        "max_concurrent": row.max_concurrent,
        "wake": wake(how),
        "created_at": row.created_at,
    })
}

/// A new executor with its key.
pub(super) fn created(created: &CreatedExecutor) -> Json {
    let how = serde_json::from_value(created.executor.wake.clone()).unwrap_or(Wake::Poll {});
    let mut view = account(&created.executor, &how);
    view["key"] = json!(created.key);
    view
}

/// An executor with what goes on at its addresses.
pub(super) fn executor(executor: &ExecutorView) -> Json {
    let mut view = account(&executor.row, &executor.wake);
    view["last_seen_at"] = json!(executor.last_seen_at);
    view["last_claim_at"] = json!(executor.row.last_claim_at);
    view["last_wake_at"] = json!(executor.row.last_wake_at);
    view["last_wake_status"] = json!(executor.row.wake_status());
    view["ready"] = json!(executor.ready);
    view["held"] = json!(executor.held);
    view
}

/// A task with everything, and its audit trail.
pub(super) fn task(task: &TaskDetail) -> Json {
    let (full, head, life) = (&task.full, &task.full.head, &task.full.head.life);
    let events: Vec<Json> = task
        .events
        .iter()
        .map(|event| {
            json!({
                "seq": event.seq,
                "at": event.at,
                "kind": event.kind,
                "attempt": event.attempt,
                "actor": event.actor,
                "data": event.data,
            })
        })
        .collect();
    let mut view = json!({
        "id": head.id,
        "title": head.title,
        "instructions": full.instructions,
        "context": full.context,
        "executor": head.address.executor_name(),
        "queue": head.address.queue_name(),
        "submitted_by": head.submitted_by,
        "retry_of": head.retry_of,
        "priority": head.priority,
        "revision": head.revision,
        "created_at": head.created_at,
        "updated_at": head.updated_at,
        "progress": head.progress,
        "note": head.note,
        "question": head.question,
        "checkpoint": full.checkpoint,
        "result": full.result,
        "data": full.data,
        "error": full.error,
        "external_actions": full.external_actions,
        "late_events": head.late_events,
    });
    let life = json!({
        "state": life.state.as_str(),
        "waiting_on": life.waiting_on.map(|on| on.as_str()),
        "attempt": life.attempt,
        "failures": life.failures,
        "max_attempts": life.max_attempts,
        "claimed_by": life.claim.as_ref().map(|claim| &claim.executor),
        "heard_at": life.claim.as_ref().map(|claim| claim.heard_at),
        "lease_expires_at": life.lease_expires_at,
        "input_expires_at": life.input_expires_at,
        "answered_at": life.answered_at,
        "visible_at": life.visible_at,
        "deadline_at": life.deadline_at,
        "next_wake_at": life.next_wake_at,
        "wake_attempts": life.wake_attempts,
        "last_wake_at": life.last_wake_at,
        "last_wake_status": life.last_wake_status.map(|status| status.as_str()),
        "error_code": life.failure.map(|code| code.as_str()),
        "completed_at": life.completed_at,
    });
    if let (Some(view), Json::Object(life)) = (view.as_object_mut(), life) {
        view.extend(life);
    }
    json!({ "task": view, "events": events, "events_left_out": task.events_left_out })
}
