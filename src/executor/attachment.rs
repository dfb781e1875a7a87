//! `/executor/attachment`: GET shows the files of an attempt's task; with PUT, one more comes in as the body. How it goes on from piece to piece is the same
//! for every file that comes in.

use serde_json::{Value as Json, json};

use super::handlers::caller;
use super::{refusals, wire};
use crate::domain::file::{FileKind, Piece};
use crate::http::message::{Outcome, Received, Request, Response};
use crate::http::problem::{Problem, bad_request};
use crate::http::upload;
use crate::hub::{self, AttemptCall, FileRejected, Hub, Upload, UploadTo, Uploaded};

/// Takes a file of an attempt.
pub fn put(hub: &Hub<'_>, request: &Request) -> Outcome {
    match attempt(hub, request) {
        Ok(outcome) => outcome,
        Err(refusal) => {
            abandon(hub, request);
            Outcome::Reply(refusal)
        }
    }
}

fn attempt(hub: &Hub<'_>, request: &Request) -> Result<Outcome, Response> {
    let executor = caller(hub, request)?;
    let task_id = field(request, "task_id").ok_or_else(|| {
        bad_request(
            "task_id is missing: say in the query for which task the file is, and what it is called: PUT \
             /executor/attachment?task_id=t_…&name=report.pdf .",
        )
        .response()
    })?;
    let name = field(request, "name").ok_or_else(|| {
        bad_request("name is missing: say in the query what the file is called, percent-encoded: …&name=report.pdf .")
            .response()
    })?;
    let claim_token = claim_token(request).map_err(|problem| problem.response())?;
    let announced = upload::announced(request, hub.settings()).map_err(|problem| problem.response())?;
    let brought = json!({ "name": name, "size": announced.size, "sha256": announced.sha256 });
    let call =
        AttemptCall { executor: &executor.name, task_id: &task_id, claim_token, verb: "attachment", brought: &brought };
    let upload = Upload {
        to: UploadTo::Attempt { call, name: &name },
        content_type: announced.content_type.as_deref(),
        sha256: announced.sha256.as_deref(),
        size: announced.size,
    };
    Ok(receive(hub, request, &upload, "It is attached to the task; nothing more is to be done for it."))
}

/// A field of the query.
fn field(request: &Request, name: &str) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(request.query.as_bytes());
    pairs.find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
}

fn claim_token(request: &Request) -> Result<&str, Problem> {
    request.header("x-claim-token").ok_or_else(|| {
        bad_request(
            "X-Claim-Token is missing: send the claim_token that the claim returned in that header, beside Authorization.",
        )
    })
}

/// Shows the files of an attempt's task, with fresh links: those of the claim are over after a while.
pub fn files(hub: &Hub<'_>, request: &Request) -> Response {
    let executor = match caller(hub, request) {
        Ok(executor) => executor,
        Err(refusal) => return refusal,
    };
    let listed = || -> Result<Json, Problem> {
        let task_id = field(request, "task_id").ok_or_else(|| {
            bad_request("task_id is missing: say in the query whose files you want: /executor/attachment?task_id=t_… .")
        })?;
        let (claim_token, brought) = (claim_token(request)?, Json::Null);
        let verb = "attachment";
        let call = AttemptCall { executor: &executor.name, task_id: &task_id, claim_token, verb, brought: &brought };
        let files = hub::files_of_attempt(hub, &call).map_err(|rejected| refusals::attempt(&rejected))?;
        let (inputs, outputs) =
            (wire::linked_files(&files, FileKind::Input), wire::linked_files(&files, FileKind::Output));
        Ok(json!({ "input_files": inputs, "files": outputs }))
    };
    listed().map_or_else(|problem| problem.response(), |body| Response::json(200, &body))
}

/// Begins an upload, or goes on with it. `next` is what its sender is told in the end.
pub fn receive(hub: &Hub<'_>, request: &Request, upload: &Upload<'_>, next: &str) -> Outcome {
    let step = match &request.received {
        None => hub::begin_upload(hub, upload),
        Some(Received { so_far, piece: Piece::Bytes { bytes, is_last } }) => {
            let step = hub::take_piece(hub, upload, so_far, bytes.clone(), *is_last);
            if matches!(step, Err(FileRejected::Database(_))) {
                abandon(hub, request);
            }
            step
        }
        Some(Received { piece: Piece::Stalled, .. }) => {
            abandon(hub, request);
            return Outcome::Reply(stalled().response());
        }
        Some(Received { piece: Piece::Broken, .. }) => {
            abandon(hub, request);
            return Outcome::Reply(broken().response());
        }
    };
    match step {
        Ok(Uploaded::More(receiving)) => Outcome::Receive(receiving),
        Ok(Uploaded::Done { file, existed }) => {
            let mut body: Json = wire::file(&file);
            body["existed"] = json!(existed);
            body["next"] = json!(next);
            Outcome::Reply(Response::json(if existed { 200 } else { 201 }, &body))
        }
        Err(rejected) => Outcome::Reply(refusals::file(&rejected).response()),
    }
}

/// What cannot be taken back now ends by itself later.
fn abandon(hub: &Hub<'_>, request: &Request) {
    if let Some(received) = &request.received {
        let _ = hub::abandon_upload(hub, &received.so_far);
    }
}

fn stalled() -> Problem {
    let detail = "The body stood still for a minute, or a MiB of it took more than five, so the upload was ended and nothing of it \
                  is kept. Send the whole file again, without pauses.";
    Problem::new(408, "upload_stalled", "Upload stalled", detail).retry_after(1)
}

fn broken() -> Problem {
    let detail = "The body broke off before its end, and nothing of it is kept. Send the whole file again.";
    Problem::new(400, "upload_broken", "Upload broken off", detail).retry_after(1)
}
