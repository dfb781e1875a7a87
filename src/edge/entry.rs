//! The Worker's two events: a request from outside, and the clock.
//!
//! What can be refused without the object is refused here, so that junk costs nothing. Everything else goes to the one
//! object, with a time limit, and a second time only where repeating is safe.

use std::time::Duration;

use worker::{Context, Env, ScheduleContext, ScheduledEvent, Stub, console_error, event};

use super::convert::{self, BodyRejected};
use super::{Panicked, clock, config, guarded, problems, within};
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
async fn fetch(request: worker::Request, env: Env, _context: Context) -> worker::Result<worker::Response> {
    match guarded(front_door(request, env)).await {
        Ok(response) => response,
        Err(Panicked) => convert::response(problems::internal()),
    }
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

async fn front_door(mut web_request: worker::Request, env: Env) -> worker::Result<worker::Response> {
    let mut request = convert::head(&web_request);
    let refusal = match config::settings(&env) {
        Err(errors) => Some(problems::misconfigured(&errors)),
        Ok(settings) => refuse(&request, &settings),
    };
    let refusal = match refusal {
        Some(refusal) => Some(refusal),
        None => match convert::body(&mut web_request).await {
            Ok(body) => {
                request.body = body;
                None
            }
            Err(BodyRejected::TooLarge) => Some(problems::too_large()),
            Err(BodyRejected::Broken) => Some(problems::broken_body()),
        },
    };
    match refusal {
        Some(refusal) => convert::response(cors::decorate(&request, refusal)),
        None => ask_object(&env, &request, web_request.headers()).await,
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
    front::refuse(request, settings)
}

/// Lets the object answer.
async fn ask_object(env: &Env, request: &Request, headers: &worker::Headers) -> worker::Result<worker::Response> {
    let deadline = clock() + i64::from(seconds_max(request)) * 1000;
    let mut tries_left = if front::is_repeatable(request) { 2 } else { 1 };
    let mut refusal = problems::unavailable();
    while tries_left > 0 {
        tries_left -= 1;
        let left = Duration::from_millis(u64::try_from(deadline - clock()).unwrap_or_default());
        let call = async { object(env)?.fetch_with_request(convert::forward(request, headers)?).await };
        match within(left, call).await {
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
    convert::response(cors::decorate(request, refusal))
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
