//! From a body to a command and back.

use serde_json::{Value as Json, json};

use super::refusals;
use super::wire::{
    ActionBody, ActionStatus, BeatState, ClaimBody, DeferBody, HeartbeatBody, MessageOut, NextBody, PingBody,
    ReleaseBody, ResultBody, ResultStatus, claimed, heartbeat_every_seconds, pong,
};
use crate::domain::limits::CLAIM_WAIT_SECONDS_MAX;
use crate::domain::secret;
use crate::domain::task::{Address, State};
use crate::http::auth::wrong_executor_key;
use crate::http::message::{Outcome, Request, Response, Topic, Wait};
use crate::http::problem::{Problem, bad_request, storage_failed};
use crate::http::route::ExecutorCall;
use crate::http::{auth, body};
use crate::hub::{self, Act, AttemptCall, Claim, Defer, Heartbeat, Hub, Release, Report};
use crate::store::executors::ExecutorRow;

/// The executor that calls, by the registry of keys. A call that waited is asked again when it goes on.
pub fn caller(hub: &Hub<'_>, request: &Request) -> Result<ExecutorRow, Response> {
    match hub::authenticate(hub, auth::bearer(request).unwrap_or_default()) {
        Ok(Some(executor)) if executor.disabled_at.is_some() => Err(refusals::disabled(&executor.name).response()),
        Ok(Some(executor)) => Ok(executor),
        Ok(None) => Err(wrong_executor_key()),
        Err(error) => Err(storage_failed(error.failure()).response()),
    }
}

/// Answers one call of an executor.
pub fn handle(hub: &Hub<'_>, request: &Request, call: ExecutorCall) -> Outcome {
    let executor = match caller(hub, request) {
        Ok(executor) => executor,
        Err(refusal) => return Outcome::Reply(refusal),
    };
    let answer = match call {
        ExecutorCall::Claim => claim(hub, request, &executor),
        ExecutorCall::Heartbeat => reply(heartbeat(hub, request, &executor)),
        ExecutorCall::Result => reply(result(hub, request, &executor)),
        ExecutorCall::Defer => reply(defer(hub, request, &executor)),
        ExecutorCall::Release => reply(release(hub, request, &executor)),
        ExecutorCall::Action => reply(action(hub, request, &executor)),
        ExecutorCall::Ping => reply(ping(hub, request, &executor)),
    };
    answer.unwrap_or_else(|problem| Outcome::Reply(problem.response()))
}

fn reply(body: Result<Json, Problem>) -> Result<Outcome, Problem> {
    body.map(|body| Outcome::Reply(Response::json(200, &body)))
}

fn claim(hub: &Hub<'_>, request: &Request, executor: &ExecutorRow) -> Result<Outcome, Problem> {
    let body: ClaimBody = body::typed(&body::json(request)?)?;
    if body.wait_seconds > CLAIM_WAIT_SECONDS_MAX {
        return Err(bad_request(format!("wait_seconds: it must be from 0 to {CLAIM_WAIT_SECONDS_MAX}.")));
    }
    let input = Claim { request_id: body.request_id, queues: body.queues };
    let found = hub::claim(hub, executor, &input).map_err(|rejected| refusals::claim(&rejected))?;
    if let Some(found) = found {
        return Ok(Outcome::Reply(Response::json(200, &claimed(&found, hub.settings()))));
    }
    let until = match &request.resumed {
        Some(wait) => wait.until,
        None => hub.now() + i64::from(body.wait_seconds) * 1000,
    };
    if until <= hub.now() {
        return Ok(Outcome::Reply(Response::empty(204)));
    }
    let addresses = hub::addresses(executor, &input).map_err(|rejected| refusals::claim(&rejected))?;
    Ok(Outcome::Wait(Wait { until, on: Topic::Ready(addresses), since: 0 }))
}

/// The claim token from the body, or else from the header.
fn token(request: &Request, in_body: Option<String>) -> Result<String, Problem> {
    in_body.or_else(|| request.header("x-claim-token").map(str::to_owned)).ok_or_else(|| {
        bad_request("claim_token is missing: send the one that the claim returned, in the body or in X-Claim-Token.")
    })
}

/// What a call brought, without the token: evidence must not hold a credential.
fn brought(body: &Json) -> Json {
    let mut brought = body.clone();
    if let Some(fields) = brought.as_object_mut() {
        fields.remove("claim_token");
        fields.remove("next");
    }
    brought
}

fn heartbeat(hub: &Hub<'_>, request: &Request, executor: &ExecutorRow) -> Result<Json, Problem> {
    let raw = body::json(request)?;
    let body: HeartbeatBody = body::typed(&raw)?;
    let claim_token = token(request, body.claim_token)?;
    if body.question.is_some() && body.state == Some(BeatState::Working) {
        return Err(bad_request("question: a working attempt asks nothing; send state \"input-required\" with it."));
    }
    let blocked = body.state == Some(BeatState::InputRequired) || body.question.is_some();
    let input = Heartbeat {
        note: body.note,
        progress: body.progress,
        checkpoint: body.checkpoint,
        blocked,
        question: body.question,
    };
    let call = AttemptCall {
        executor: &executor.name,
        task_id: &body.task_id,
        claim_token: &claim_token,
        verb: "heartbeat",
        brought: &brought(&raw),
    };
    let beat = hub::heartbeat(hub, &call, &input).map_err(|rejected| refusals::attempt(&rejected))?;
    let messages: Vec<MessageOut> = beat.messages.iter().map(MessageOut::from).collect();
    Ok(json!({
        "state": beat.state.as_str(),
        "lease_expires_at": beat.lease_expires_at,
        "lease_seconds": hub.settings().lease_ms / 1000,
        "heartbeat_every_seconds": heartbeat_every_seconds(hub.settings()),
        "cancel_requested": false,
        "messages": messages,
        "next": refusals::after_beat(beat.state),
    }))
}

fn result(hub: &Hub<'_>, request: &Request, executor: &ExecutorRow) -> Result<Json, Problem> {
    let raw = body::json(request)?;
    let body: ResultBody = body::typed(&raw)?;
    let claim_token = token(request, body.claim_token)?;
    let outcome = match body.status {
        ResultStatus::Completed => hub::Outcome::Completed,
        ResultStatus::Failed => hub::Outcome::Failed { retryable: body.retryable },
        ResultStatus::Blocked => hub::Outcome::Blocked,
    };
    if body.status != ResultStatus::Failed && (body.retryable || body.error.is_some()) {
        return Err(bad_request(
            "error and retryable belong to status \"failed\"; leave them out, or send that status.",
        ));
    }
    if body.status != ResultStatus::Blocked && body.question.is_some() {
        return Err(bad_request("question belongs to status \"blocked\"; leave it out, or send that status."));
    }
    let report = Report {
        outcome,
        result: body.result,
        data: body.data,
        error: body.error,
        external_actions: body.external_actions.map(Json::Array),
        question: body.question,
    };
    let call = AttemptCall {
        executor: &executor.name,
        task_id: &body.task_id,
        claim_token: &claim_token,
        verb: "result",
        brought: &brought(&raw),
    };
    let ended = hub::report(hub, &call, &report).map_err(|rejected| refusals::attempt(&rejected))?;
    let mut answer = json!({
        "task_id": body.task_id,
        "state": ended.state.as_str(),
        "attempt": ended.attempt,
        "retry_at": ended.retry_at,
    });
    if ended.state == State::InputRequired && outcome != hub::Outcome::Blocked {
        answer["notice"] = json!(refusals::ASKED_ABOUT_ACTIONS);
    }
    if let Some(next) = body.next {
        answer["next"] = claim_next(hub, executor, next, &claim_token);
    }
    Ok(answer)
}

/// The claim that a result asks for. The result stands whatever becomes of it, so a refusal is reported, not raised.
fn claim_next(hub: &Hub<'_>, executor: &ExecutorRow, next: NextBody, claim_token: &str) -> Json {
    let request_id = next.request_id.or_else(|| Some(format!("next:{}", secret::sha256_hex(claim_token))));
    match hub::claim(hub, executor, &Claim { request_id, queues: next.queues }) {
        Ok(Some(found)) => claimed(&found, hub.settings()),
        Ok(None) => Json::Null,
        Err(rejected) => {
            let problem = refusals::claim(&rejected);
            json!({ "code": problem.code, "detail": problem.detail, "retryable": problem.retryable })
        }
    }
}

fn defer(hub: &Hub<'_>, request: &Request, executor: &ExecutorRow) -> Result<Json, Problem> {
    let raw = body::json(request)?;
    let body: DeferBody = body::typed(&raw)?;
    let claim_token = token(request, body.claim_token)?;
    let call = AttemptCall {
        executor: &executor.name,
        task_id: &body.task_id,
        claim_token: &claim_token,
        verb: "defer",
        brought: &brought(&raw),
    };
    let input = Defer { seconds: body.seconds, note: body.note, checkpoint: body.checkpoint };
    let deferred = hub::defer(hub, &call, &input).map_err(|rejected| refusals::attempt(&rejected))?;
    let state = State::Waiting.as_str();
    Ok(json!({ "task_id": body.task_id, "state": state, "visible_at": deferred.visible_at }))
}

fn release(hub: &Hub<'_>, request: &Request, executor: &ExecutorRow) -> Result<Json, Problem> {
    let raw = body::json(request)?;
    let body: ReleaseBody = body::typed(&raw)?;
    let claim_token = token(request, body.claim_token)?;
    let call = AttemptCall {
        executor: &executor.name,
        task_id: &body.task_id,
        claim_token: &claim_token,
        verb: "release",
        brought: &brought(&raw),
    };
    let input = Release { note: body.note, checkpoint: body.checkpoint };
    let released = hub::release(hub, &call, &input).map_err(|rejected| refusals::attempt(&rejected))?;
    let mut answer = json!({ "task_id": body.task_id, "state": released.state.as_str() });
    if released.state == State::InputRequired {
        answer["notice"] = json!(refusals::ASKED_ABOUT_ACTIONS);
    }
    Ok(answer)
}

fn action(hub: &Hub<'_>, request: &Request, executor: &ExecutorRow) -> Result<Json, Problem> {
    let raw = body::json(request)?;
    let body: ActionBody = body::typed(&raw)?;
    let claim_token = token(request, body.claim_token)?;
    let record = match body.status {
        ActionStatus::Begin if body.outcome.is_some() => {
            let words =
                "outcome: it belongs to status \"done\" or \"failed\"; begin the action without, and send it then.";
            return Err(bad_request(words));
        }
        ActionStatus::Begin => hub::Record::Begin,
        ActionStatus::Done => hub::Record::Done(body.outcome),
        ActionStatus::Failed => hub::Record::Failed(body.outcome),
    };
    let call = AttemptCall {
        executor: &executor.name,
        task_id: &body.task_id,
        claim_token: &claim_token,
        verb: "action",
        brought: &brought(&raw),
    };
    let input = Act { step_id: body.step_id, tool: body.tool, params: body.params, record };
    let acted = hub::act(hub, &call, &input).map_err(|rejected| refusals::action(&rejected))?;
    Ok(json!({
        "task_id": body.task_id,
        "idempotency_key": acted.idempotency_key,
        "first": acted.first,
        "status": acted.standing.as_str(),
        "outcome": acted.outcome,
        "attempt": acted.attempt,
        "next": refusals::after_action(&input.record, &acted),
    }))
}

fn ping(hub: &Hub<'_>, request: &Request, executor: &ExecutorRow) -> Result<Json, Problem> {
    let body: PingBody = body::typed(&body::json(request)?)?;
    hub::introduce(hub, executor, body.version.as_deref(), body.capabilities.as_deref())
        .map_err(|rejected| refusals::introduction(&rejected))?;
    let own = Address::Executor(executor.name.clone()).to_string();
    let addresses: Vec<String> = std::iter::once(own).chain(executor.queues.iter().cloned()).collect();
    let queues = hub::ready_counts(hub, &addresses).map_err(|error| storage_failed(error.failure()))?;
    let held = hub::held_count(hub, &executor.name).map_err(|error| storage_failed(error.failure()))?;
    let present = ExecutorRow {
        version: body.version.or_else(|| executor.version.clone()),
        capabilities: body.capabilities.unwrap_or_else(|| executor.capabilities.clone()),
        ..executor.clone()
    };
    Ok(pong(&present, &queues, held, hub.now(), hub.settings()))
}
