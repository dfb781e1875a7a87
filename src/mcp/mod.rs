//! The MCP server at `/mcp` (design §5): stateless Streamable HTTP, JSON answers only, both eras of the protocol.
//!
//! Reading order: `envelope` (which messages a POST brought, and in which era), `dispatch` (methods), `tools` (one file
//! per group), `arguments` and `schema` (what tools take and give), `answer` and `budget` (how results are put and kept
//! short).
//!
//! Invariants: no state between requests; a request is refused by a status of 4xx or answered, never by 5xx, because a
//! client that probes takes 5xx for an outage; every tool result has the same data as text and as structured content
//! and stays under `limits::TOOL_RESULT_BYTES_MAX`; what an executor wrote is marked as such. It refuses to know SQL, the
//! lifecycle, and credentials: the router has checked them, and says which scopes they have.

mod answer;
mod arguments;
mod budget;
mod dispatch;
mod envelope;
mod header;
mod moment;
mod rpc;
pub mod schema;
pub mod tools;

use serde_json::Value as Json;

use crate::domain::limits::REQUEST_BODY_BYTES_MAX;
use crate::http::auth::{self, Principal};
use crate::http::message::{Outcome, Request, Response};
use crate::http::problem;
use crate::hub::Hub;
use dispatch::{Answer, Caller};
use envelope::{Call, Incoming};
use rpc::RpcError;

/// Answers one POST to `/mcp` on this behalf, or waits on behalf of `get_task`.
pub fn handle(hub: &Hub<'_>, request: &Request, principal: &Principal) -> Outcome {
    if let Some(refusal) = refuse(request) {
        return Outcome::Reply(refusal);
    }
    match envelope::read(request) {
        Err(refused) => Outcome::Reply(refused.error.response(&refused.id)),
        Ok(Incoming::Silent) => Outcome::Reply(Response::empty(202)),
        Ok(Incoming::One(call)) => {
            let caller = Caller { hub, principal, resumed: request.resumed.as_ref(), may_wait: true };
            one(&caller, &call)
        }
        Ok(Incoming::Batch(calls)) => {
            let caller = Caller { hub, principal, resumed: None, may_wait: false };
            let answers: Vec<Json> = calls.iter().map(|call| in_batch(&caller, call)).collect();
            Outcome::Reply(Response::json(200, &Json::Array(answers)))
        }
    }
}

/// What is refused without a look at the message.
fn refuse(request: &Request) -> Option<Response> {
    if request.method != "POST" {
        return Some(problem::method_not_allowed("POST"));
    }
    let error = if !is_json(request.header("content-type")) {
        RpcError::refused(415, "Unsupported media type: Content-Type must be application/json")
    } else if request.body.len() > REQUEST_BODY_BYTES_MAX {
        let reason = format!("Request too large: a body may have at most {REQUEST_BODY_BYTES_MAX} bytes");
        RpcError::refused(413, &reason)
    } else {
        return None;
    };
    Some(error.response(&Json::Null))
}

fn is_json(content_type: Option<&str>) -> bool {
    let essence = content_type.and_then(|text| text.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

fn one(caller: &Caller<'_>, call: &Call) -> Outcome {
    match dispatch::answer(caller, call) {
        Answer::Result(result) => Outcome::Reply(Response::json(200, &rpc::result(&call.id, result))),
        Answer::Error(error) => Outcome::Reply(error.response(&call.id)),
        Answer::Wait(wait) => Outcome::Wait(wait),
        Answer::Forbidden(scope) => {
            let challenge = auth::scope_challenge(caller.hub.origin(), caller.principal.scopes, scope);
            Outcome::Reply(RpcError::forbidden(scope).response(&call.id).with("www-authenticate", challenge))
        }
    }
}

fn in_batch(caller: &Caller<'_>, call: &Call) -> Json {
    match dispatch::answer(caller, call) {
        Answer::Result(result) => rpc::result(&call.id, result),
        Answer::Error(error) => error.message(&call.id),
        Answer::Forbidden(scope) => RpcError::forbidden(scope).message(&call.id),
        // `may_wait` is off, so no tool asks for it.
        Answer::Wait(_) => RpcError::invalid_request("a batch cannot wait.").message(&call.id),
    }
}
