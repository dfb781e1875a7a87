//! `/act/{token}`: the signed links of notices. A person who opens one sees what it is about and one button; the buttons of a
//! notice send the same form themselves.
//!
//! Invariants: only a POST changes anything, and twice is the same as once: a task is over once, its retry is known by its
//! id, and what does not wait for approval any more is not approved. The link itself was checked before (`http::auth`).

use maud::{Markup, html};

use crate::domain::action::{self, Action, Link};
use crate::domain::task::{Life, State, WaitingOn};
use crate::domain::text::shorten;
use crate::http::message::{Request, Response};
use crate::http::page::{self, Forms};
use crate::http::problem::{not_found, storage_failed};
use crate::hub::{self, Approve, ApproveRejected, CancelRejected, Hub, RetryRejected, SubmitRejected, TaskDetail};
use crate::store::database::DatabaseError;

/// On whose behalf a link acts.
const OWNER: &str = "owner";
/// How much of a text is shown, in characters.
const TEXT_CHARS_MAX: usize = 2_000;

/// What pressing the button came to.
enum Done {
    /// It is done now.
    Now(String),
    /// It was so before.
    Already(String),
    /// It cannot be done any more, and nothing was changed.
    TooLate(String),
    /// There is no such task any more.
    Gone,
}

/// Shows or does what a link is for.
pub fn act(hub: &Hub<'_>, request: &Request, token: &str) -> Response {
    let Ok(link) = action::read(&hub.settings().hub_secret, token, hub.now()) else {
        return not_found(&request.path).response();
    };
    let answer = if request.method == "POST" { press(hub, &link) } else { show(hub, &link) };
    let response = answer.unwrap_or_else(|error| failed(&error));
    match request.header("origin").filter(|_| request.method == "POST") {
        // The page of ntfy's server wants to see that it went well.
        Some(origin) => response.with("access-control-allow-origin", origin).with("vary", "origin"),
        None => response,
    }
}

fn failed(error: &DatabaseError) -> Response {
    let problem = storage_failed(error.failure());
    let body = html! {
        h1 { "That did not work" }
        p.notice role="alert" { (problem.detail) }
    };
    page::response(problem.status, &page::frame("Not done – taskhub", &body), Forms::None)
}

fn show(hub: &Hub<'_>, link: &Link) -> Result<Response, DatabaseError> {
    let Some(task) = hub::get_task(hub, link.task.as_str())? else { return Ok(told(link, &Done::Gone)) };
    let life = &task.full.head.life;
    let open = if link.action == Action::Look { None } else { is_open(link.action, life) };
    let body = html! {
        h1 { (question(link.action)) bdi { (task.full.head.title) } @if link.action != Action::Look { "?" } }
        (about(&task))
        @match &open {
            Some(Err(why)) => p.warning { (why) }
            Some(Ok(())) => form method="post" { div.buttons { button.go type="submit" { (label(link.action)) } } }
            None => p { "To answer, cancel or retry it, ask Claude, or press a button of the notice." }
        }
    };
    let forms = if matches!(open, Some(Ok(()))) { Forms::Here } else { Forms::None };
    Ok(page::response(200, &page::frame(&format!("{} – taskhub", task.full.head.title), &body), forms))
}

fn press(hub: &Hub<'_>, link: &Link) -> Result<Response, DatabaseError> {
    let done = match link.action {
        // There is nothing to do; the page says so.
        Action::Look => return show(hub, link),
        Action::Cancel => cancel(hub, link.task.as_str())?,
        Action::Retry => retry(hub, link.task.as_str())?,
        Action::Approve | Action::Deny => decide(hub, link)?,
    };
    Ok(told(link, &done))
}

fn cancel(hub: &Hub<'_>, id: &str) -> Result<Done, DatabaseError> {
    match hub::cancel(hub, OWNER, id, Some("Canceled from a notice.")) {
        Ok(canceled) if canceled.already => Ok(Done::Already("The task was canceled before.".to_owned())),
        Ok(_) => Ok(Done::Now("The task is canceled.".to_owned())),
        Err(CancelRejected::AlreadyFinished { state }) => Ok(Done::TooLate(format!("The task is {state} already."))),
        Err(CancelRejected::TaskNotFound) => Ok(Done::Gone),
        Err(CancelRejected::Database(error)) => Err(error),
    }
}

fn retry(hub: &Hub<'_>, id: &str) -> Result<Done, DatabaseError> {
    match hub::retry_task(hub, OWNER, id) {
        Ok(new) if new.existed => Ok(Done::Already(format!("It was tried again before, as the task {}.", new.id))),
        Ok(new) => Ok(Done::Now(format!("It is tried again, as the task {}.", new.id))),
        Err(RetryRejected::NotFinished { state }) => {
            Ok(Done::TooLate(format!("The task is {state}, so it is not over yet.")))
        }
        Err(RetryRejected::TaskNotFound) => Ok(Done::Gone),
        Err(RetryRejected::Submit(SubmitRejected::NoConsumer { asked, .. })) => {
            Ok(Done::TooLate(format!("Nobody would do it: there is no longer {asked}.")))
        }
        Err(RetryRejected::Submit(SubmitRejected::Invalid { detail, .. })) => Ok(Done::TooLate(detail)),
        Err(RetryRejected::Submit(SubmitRejected::IdempotencyConflict { task_id })) => {
            Ok(Done::TooLate(format!("It was tried again in another way, as the task {task_id}.")))
        }
        Err(RetryRejected::Submit(SubmitRejected::Database(error)) | RetryRejected::Database(error)) => Err(error),
    }
}

fn decide(hub: &Hub<'_>, link: &Link) -> Result<Done, DatabaseError> {
    let approve = link.action == Action::Approve;
    let (submitter, task_id) = (OWNER.to_owned(), link.task.to_string());
    let word = if approve { "approved" } else { "denied" };
    match hub::approve(hub, &Approve { submitter, task_id, approve, note: None }) {
        Ok(approved) if approved.already => Ok(Done::Already(format!("The task was {word} before."))),
        Ok(_) => Ok(Done::Now(format!("The task is {word}."))),
        Err(ApproveRejected::TaskNotFound) => Ok(Done::Gone),
        Err(ApproveRejected::ApprovedBefore { state }) => {
            Ok(Done::TooLate(format!("The task was approved before, and is {state}; cancel it instead.")))
        }
        Err(ApproveRejected::DeniedBefore) => {
            Ok(Done::TooLate("The task was denied before; retry it instead.".to_owned()))
        }
        Err(ApproveRejected::NotAwaited { state }) => {
            Ok(Done::TooLate(format!("The task is {state}, so it waits for no approval.")))
        }
        Err(ApproveRejected::Invalid { detail }) => Ok(Done::TooLate(detail)),
        Err(ApproveRejected::Database(error)) => Err(error),
    }
}

/// Why the action makes no sense for a task that stands so, if it does not; `None` if it needs no button.
fn is_open(action: Action, life: &Life) -> Option<Result<(), String>> {
    let state = life.state;
    let is_possible = match action {
        Action::Look => return None,
        Action::Cancel => !state.is_terminal(),
        Action::Retry => state.is_terminal(),
        Action::Approve | Action::Deny => life.waiting_on == Some(WaitingOn::Approval),
    };
    Some(if is_possible { Ok(()) } else { Err(format!("There is nothing to do: the task is {state}.")) })
}

fn question(action: Action) -> &'static str {
    match action {
        Action::Look => "",
        Action::Cancel => "Cancel ",
        Action::Retry => "Try again: ",
        Action::Approve => "Approve ",
        Action::Deny => "Deny ",
    }
}

fn label(action: Action) -> &'static str {
    match action {
        Action::Look => "Look",
        Action::Cancel => "Cancel the task",
        Action::Retry => "Try it again",
        Action::Approve => "Approve",
        Action::Deny => "Deny",
    }
}

/// What the task is, and what was said about it last.
fn about(task: &TaskDetail) -> Markup {
    let (head, life) = (&task.full.head, &task.full.head.life);
    let whom = head.address.to_string();
    let by = match &life.claim {
        _ if life.is_asked_by_hub() => "The hub",
        Some(claim) => claim.executor.as_str(),
        None => "The executor",
    };
    let instructions = (life.state == State::Waiting).then_some(task.full.instructions.as_str());
    let said = [("asks", head.question.as_deref()), ("notes", head.note.as_deref())];
    html! {
        p {
            "For " strong { (whom.trim_start_matches('@')) } ", submitted by " bdi { (head.submitted_by) } ". It is "
            strong { (life.state) } @if let Some(on) = life.waiting_on { " (" (on.as_str()) ")" } "."
        }
        @for (verb, text) in said {
            @if let Some(text) = text { p { (by) " " (verb) ": " bdi { "“" (shorten(text, TEXT_CHARS_MAX)) "”" } } }
        }
        @if let Some(error) = &task.full.error { p { "It failed: " bdi { "“" (shorten(error, TEXT_CHARS_MAX)) "”" } } }
        @if let Some(text) = instructions { p { "It says: " bdi { "“" (shorten(text, TEXT_CHARS_MAX)) "”" } } }
        p { small { (head.id) } }
    }
}

/// A press of a button is answered with a page; apps look at its status only.
fn told(link: &Link, done: &Done) -> Response {
    let gone = "The task is gone: finished tasks are deleted after their retention.".to_owned();
    let (status, heading, words) = match done {
        Done::Now(words) => (200, "Done", words),
        Done::Already(words) => (200, "Done already", words),
        Done::TooLate(words) => (409, "Nothing was changed", words),
        Done::Gone => (404, "Nothing was changed", &gone),
    };
    let body = html! {
        h1 { (heading) }
        p role="status" { (words) }
        p { small { (link.task) } }
    };
    page::response(status, &page::frame(&format!("{heading} – taskhub"), &body), Forms::None)
}
