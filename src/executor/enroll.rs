//! `POST /executor/enroll`: a machine that has a code of the owner gets its key (design §12). The one call here without one.

use serde_json::json;

use super::refusals;
use super::wire::EnrollBody;
use crate::domain::limits::{ENROLMENT_NONCE_BYTES_MIN, REQUEST_ID_BYTES_MAX};
use crate::http::body;
use crate::http::message::{Request, Response};
use crate::http::problem::{Problem, bad_request};
use crate::hub::{self, Hub};

/// Answers one machine.
pub fn enroll(hub: &Hub<'_>, request: &Request) -> Response {
    trade(hub, request).unwrap_or_else(|problem| problem.response())
}

fn trade(hub: &Hub<'_>, request: &Request) -> Result<Response, Problem> {
    let body: EnrollBody = body::typed(&body::json(request)?)?;
    if !(ENROLMENT_NONCE_BYTES_MIN..=REQUEST_ID_BYTES_MAX).contains(&body.nonce.len()) {
        return Err(bad_request(format!(
            "nonce: it must have {ENROLMENT_NONCE_BYTES_MIN} to {REQUEST_ID_BYTES_MAX} bytes. Make a random one, keep it until \
             you have the key, and send the same again if the answer is lost."
        )));
    }
    let enrolled = hub::enroll(hub, &body.code, &body.nonce).map_err(|rejected| refusals::enrolment(&rejected))?;
    let next = if enrolled.ended_a_key {
        "Keep the key where only this user can read it; it is the bearer of all calls. The executor had two keys already, so the \
         older one has ended: a machine that still uses it must be enrolled anew. POST /executor/ping says what is waiting."
    } else {
        "Keep the key where only this user can read it; it is the bearer of all calls. POST /executor/ping says what is waiting."
    };
    let answer = json!({ "executor": enrolled.executor, "key": enrolled.key, "hub": hub.origin(), "next": next });
    Ok(Response::json(200, &answer))
}
