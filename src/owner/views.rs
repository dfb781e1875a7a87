//! Executors and tasks as the owner sees them. Times are milliseconds of Unix time.

use serde_json::{Value as Json, json};

use crate::domain::wake::Wake;
use crate::hub::{
    ActionView, Attendance, CreatedExecutor, ExecutorView, KeyView, TaskDetail, claims_again_at, claims_today,
};

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

/// A new executor with its key.
pub(super) fn created(created: &CreatedExecutor, now: i64) -> Json {
    let mut view = executor(&created.executor, now);
    view["key"] = json!(created.key.key);
    view["key_id"] = json!(created.key.id);
    view
}

/// An executor with what goes on at its addresses.
pub(super) fn executor(executor: &ExecutorView, now: i64) -> Json {
    let row = &executor.row;
    json!({
        "name": row.name,
        "queues": row.queues,
        "wake": wake(&executor.wake),
        "created_at": row.created_at,
        "online": executor.online,
        "last_seen_at": executor.last_seen_at,
        "version": row.version,
        "capabilities": row.capabilities,
        "paused": row.paused_at.is_some(),
        "paused_at": row.paused_at,
        "disabled": row.disabled_at.is_some(),
        "disabled_at": row.disabled_at,
        "approval": row.approval.as_str(),
        "max_concurrent": row.max_concurrent,
        "max_tasks_per_day": row.max_tasks_per_day,
        "tasks_today": row.max_tasks_per_day.map(|_| claims_today(row, now)),
        "claims_again_at": claims_again_at(row, now),
        "last_claim_at": row.last_claim_at,
        "last_wake_at": row.last_wake_at,
        "last_wake_status": row.wake_status(),
        "ready": executor.ready,
        "held": executor.held,
    })
}

/// A key, without the key.
pub(super) fn key(key: &KeyView) -> Json {
    json!({ "id": key.id, "created_at": key.created_at })
}

/// An outside action that an attempt recorded.
fn action(action: &ActionView) -> Json {
    json!({
        "step_id": action.step_id,
        "tool": action.tool,
        "params": action.params,
        "idempotency_key": action.idempotency_key,
        "status": action.standing.as_str(),
        "outcome": action.outcome,
        "attempt": action.attempt,
        "began_at": action.began_at,
        "ended_at": action.ended_at,
    })
}

/// A task with everything, and its audit trail. `attendance`: who may take it, while it waits for somebody.
pub(super) fn task(task: &TaskDetail, attendance: Option<&Attendance>) -> Json {
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
    let actions: Vec<Json> = task.actions.iter().map(action).collect();
    let claim = life.claim.as_ref().filter(|_| !life.is_asked_by_hub());
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
        "on_unknown_action": full.on_unknown_action.as_str(),
        "late_events": head.late_events,
    });
    let life = json!({
        "state": life.state.as_str(),
        "waiting_on": life.waiting_on.map(|on| on.as_str()),
        "attempt": life.attempt,
        "failures": life.failures,
        "max_attempts": life.max_attempts,
        "claimed_by": claim.map(|claim| &claim.executor),
        "heard_at": claim.map(|claim| claim.heard_at),
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
    json!({
        "task": view,
        "attention": attendance.and_then(Attendance::absence),
        "actions": actions,
        "events": events,
        "events_left_out": task.events_left_out,
    })
}
