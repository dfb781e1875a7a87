//! The Worker's two events: a request from outside, and the clock.
//!
//! What can be refused without the object is refused here, so that junk costs nothing. Everything else goes to the one
//! object, with a time limit, and a second time only where repeating is safe.

use std::time::Duration;

use js_sys::futures::JsFuture;
use wasm_bindgen::JsCast as _;
use worker::{Context, Env, ScheduleContext, ScheduledEvent, Stub, console_error, event, web_sys};

use super::convert::{self, BodyRejected};
use super::{Panicked, clock, config, glue, guarded, problems, within};
use crate::domain::limits::{CLAIM_WAIT_SECONDS_MAX, TASK_WAIT_SECONDS_MAX};
use crate::domain::settings::Settings;
use crate::http::message::{Request, Response};
use crate::http::route::{ExecutorCall, Route};
use crate::http::{cors, front};

/// The Durable Object namespace, and the one instance in it.
const BINDING: &str = "HUB";
const INSTANCE: &str = "hub";
/// Where the scheduled event knocks. The front lets no request from outside through to it.
pub const SWEEP_PATH: &str = "/__internal/sweep";

/// How long an ordinary call of the object may take, in seconds.
const OBJECT_SECONDS_MAX: u32 = 10;
/// How much longer than its own wait a waiting call may take, in seconds.
const WAIT_GRACE_SECONDS: u32 = 5;
/// The pause before a call is repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(100);

#[event(fetch)]
async fn fetch(request: web_sys::Request, env: Env, _context: Context) -> worker::Result<web_sys::Response> {
    match guarded(front_door(request, env)).await {
        Ok(response) => response,
        Err(Panicked) => own(problems::internal()),
    }
}

/// An answer of the front itself.
fn own(response: Response) -> worker::Result<web_sys::Response> {
    Ok(convert::response(response)?.into())
}

#[event(scheduled)]
async fn scheduled(_event: ScheduledEvent, env: Env, _context: ScheduleContext) {
    let sweep = async { object(&env)?.fetch_with_str(&format!("http://{INSTANCE}{SWEEP_PATH}")).await };
    match guarded(within(Duration::from_secs(OBJECT_SECONDS_MAX.into()), sweep)).await {
        Ok(Some(Ok(response))) if response.status_code() < 400 => {}
        Ok(Some(Ok(response))) => console_error!("the scheduled sweep was answered {}", response.status_code()),
        Ok(Some(Err(error))) => console_error!("the scheduled sweep failed: {error}"),
        Ok(None) => console_error!("the scheduled sweep did not end in time"),
        Err(Panicked) => console_error!("the scheduled sweep panicked"),
    }
}

async fn front_door(web_request: web_sys::Request, env: Env) -> worker::Result<web_sys::Response> {
    let mut request = convert::head(&web_request);
    let refusal = match config::settings(&env) {
        Err(errors) => Some(problems::misconfigured(&errors)),
        Ok(settings) => refuse(&request, &settings),
    };
    let refusal = match refusal {
        Some(refusal) => Some(refusal),
        None => match convert::body(&web_request, &request).await {
            Ok(body) => {
                request.body = body;
                None
            }
            Err(BodyRejected::TooLarge) => Some(problems::too_large()),
            Err(BodyRejected::Broken) => Some(problems::broken_body()),
        },
    };
    match refusal {
        Some(refusal) => own(cors::decorate(&request, refusal)),
        None => ask_object(&env, &request, &web_request).await,
    }
}

/// The answer to a request that the object need not see. Its own paths are not reached from outside: they have no route.
fn refuse(request: &Request, settings: &Settings) -> Option<Response> {
    #[cfg(feature = "test-hooks")]
    {
        super::test_routes::panic_in_front(request);
        if super::test_routes::is_test_route(request) {
            return None;
        }
    }
    #[cfg(feature = "test-hooks")]
    let now = super::test_routes::now_of(request).unwrap_or_else(clock);
    #[cfg(not(feature = "test-hooks"))]
    let now = clock();
    front::refuse(request, settings, now)
}

/// Lets the object answer.
async fn ask_object(env: &Env, request: &Request, web_request: &web_sys::Request) -> worker::Result<web_sys::Response> {
    let deadline = clock() + i64::from(seconds_max(request)) * 1000;
    let mut tries_left = if front::is_repeatable(request) { 2 } else { 1 };
    let mut refusal = problems::unavailable();
    while tries_left > 0 {
        tries_left -= 1;
        let left = Duration::from_millis(u64::try_from(deadline - clock()).unwrap_or_default());
        match within(left, ask(env, request, web_request)).await {
            Some(Ok(response)) => return Ok(response),
            Some(Err(error)) => {
                console_error!("the object failed: {error}");
                refusal = problems::object_failed(&error.to_string());
            }
            None => {
                console_error!("the object did not answer {} {} in time", request.method, request.path);
                refusal = problems::unavailable();
                break;
            }
        }
        worker::Delay::from(REPEAT_AFTER).await;
    }
    own(cors::decorate(request, refusal))
}

/// Asks the object once. The headers are the runtime's own copy.
async fn ask(env: &Env, request: &Request, web_request: &web_sys::Request) -> worker::Result<web_sys::Response> {
    let may_have_body = !matches!(request.method.as_str(), "GET" | "HEAD");
    let body = if may_have_body { request.body.as_slice() } else { &[] };
    let promise = glue::ask(env, BINDING, INSTANCE, web_request, body)?;
    let response = JsFuture::from(promise).await?;
    response.dyn_into().map_err(|_| worker::Error::RustError("the object sent no response".to_owned()))
}

/// How long the object may take for this request, in seconds.
fn seconds_max(request: &Request) -> u32 {
    match Route::of(&request.method, &request.path) {
        Ok(Route::Executor(ExecutorCall::Claim)) => CLAIM_WAIT_SECONDS_MAX + WAIT_GRACE_SECONDS,
        Ok(Route::Mcp) => TASK_WAIT_SECONDS_MAX + WAIT_GRACE_SECONDS,
        _ => OBJECT_SECONDS_MAX,
    }
}

/// A fresh stub: one that has seen the object fail stays broken.
fn object(env: &Env) -> worker::Result<Stub> {
    env.durable_object(BINDING)?.get_by_name(INSTANCE)
}
