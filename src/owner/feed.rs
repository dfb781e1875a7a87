//! `GET /api/events`: every event of the hub, live (design §11), in the words of the wire.
//!
//! Each event comes once and in order, with its number; a client that reconnects names the last that it has. A change that
//! leaves no event, as a heartbeat's note, is told without a number: it says only that the task is worth another look.

use serde_json::json;
use url::form_urlencoded;

use crate::http::auth::Principal;
use crate::http::message::{Outcome, Request};
use crate::http::problem::{Problem, bad_request, storage_failed};
use crate::http::socket::{self, Socket};
use crate::hub::{self, FeedEvent, Hub};

/// Answers the request for the socket.
pub fn watch(hub: &Hub<'_>, request: &Request, principal: &Principal) -> Outcome {
    if let Some(refusal) = socket::refuse(request) {
        return Outcome::Reply(refusal);
    }
    match wanted(hub, request, principal) {
        Ok(socket) => Outcome::Upgrade(socket),
        Err(problem) => Outcome::Reply(problem.response()),
    }
}

fn wanted(hub: &Hub<'_>, request: &Request, principal: &Principal) -> Result<Socket, Problem> {
    let after = after(&request.query)?;
    let newest = hub::newest_event(hub).map_err(|error| storage_failed(error.failure()))?;
    if after.is_some_and(|after| after > newest) {
        return Err(bad_request(format!(
            "after: the newest event is {newest}. Read what you keep of the hub anew, then connect without after."
        )));
    }
    Ok(Socket::Events { after, newest, grant: principal.grant.clone(), until: principal.until })
}

/// The number in `after=N`, if there is one.
fn after(query: &str) -> Result<Option<i64>, Problem> {
    let mut after = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name != "after" {
            return Err(bad_request("There is no such parameter here. The only one is after=N, the seq of an event."));
        }
        let is_number = (1..=15).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_digit());
        match value.parse() {
            Ok(seq) if is_number && after.is_none() => after = Some(seq),
            _ => {
                return Err(bad_request(
                    "after: give it once, as the seq of the last event that you have (0 for all).",
                ));
            }
        }
    }
    Ok(after)
}

/// The first message: the number of the newest event at that moment.
pub fn hello(newest: i64) -> String {
    json!({ "type": "hello", "seq": newest }).to_string()
}

/// One event.
pub fn event(event: &FeedEvent) -> String {
    let FeedEvent { seq, task_id, at, kind, attempt, actor, data } = event;
    json!({
        "type": "event",
        "seq": seq,
        "task_id": task_id,
        "at": at,
        "kind": kind,
        "attempt": attempt,
        "actor": actor,
        "data": data,
    })
    .to_string()
}

/// A change without an event; of no task in particular if there were too many to name.
pub fn changed(task_id: Option<&str>) -> String {
    json!({ "type": "changed", "task_id": task_id }).to_string()
}
