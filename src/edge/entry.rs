//! The Worker's two events: a request from outside, and the clock.
//!
//! What can be refused without the object is refused here, so that junk costs nothing. Everything else goes to the one
//! object, with a time limit, and a second time only where repeating is safe.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use js_sys::futures::{JsFuture, future_to_promise};
use js_sys::{ArrayBuffer, Promise, Uint8Array};
use wasm_bindgen::prelude::*;
use worker::{Env, ScheduleContext, ScheduledEvent, console_error, event, web_sys};

use super::glue::{Look, Trouble};
use super::{Panicked, clock, config, convert, glue, guarded, guarded_now, problems, within};
use crate::domain::limits::{
    CLAIM_WAIT_SECONDS_MAX, REQUEST_BODY_BYTES_MAX, TASK_WAIT_SECONDS_MAX, UNREAD_BYTES_MAX, UNREAD_MS, UPLOAD_MS,
};
use crate::domain::settings::Settings;
use crate::http::message::{Request, Response};
use crate::http::route::{ExecutorCall, Route};
use crate::http::{cors, front};

/// Where the scheduled event knocks. The front lets no request from outside through to it.
pub const SWEEP_PATH: &str = "/__internal/sweep";

/// How long an ordinary call of the object may take, in seconds.
const OBJECT_SECONDS_MAX: u32 = 10;
/// How much longer than its own wait a waiting call may take, in seconds.
const WAIT_GRACE_SECONDS: u32 = 5;
/// The pause before a call is repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(100);

thread_local! {
    static TROUBLE: Closure<Trouble> = Closure::new(in_trouble);
    static LOOK: Closure<Look> = Closure::new(look);
}

/// A request from outside. Not the bindings' `#[event(fetch)]`: its futures, and those of the object, took longer than all
/// that is done in them. A request that goes well enters Rust once, and the runtime's own promise is returned.
#[wasm_bindgen]
pub fn fetch(web_request: web_sys::Request, env: Env, _context: JsValue) -> Promise {
    guarded_now(|| front_door(&web_request, &env)).unwrap_or_else(|Panicked| own(&problems::internal()))
}

/// An answer of the front itself.
fn own(response: &Response) -> Promise {
    Promise::resolve(&convert::response(response))
}

/// An answer of the front to an upload of which nothing is read.
fn refuse_unread(web_request: &web_sys::Request, response: &Response) -> Promise {
    let Response { status, body, .. } = response;
    let made = glue::refuse_unread(web_request, *status, &convert::lines(response), body, UNREAD_BYTES_MAX, UNREAD_MS);
    Promise::resolve(&convert::taken(made))
}

#[event(scheduled)]
async fn scheduled(_event: ScheduledEvent, env: Env, _context: ScheduleContext) {
    let sweep = async {
        let response = JsFuture::from(glue::knock(&env, &format!("http://hub{SWEEP_PATH}"))?).await?;
        response.dyn_into::<web_sys::Response>().map(|response| response.status())
    };
    match guarded(within(Duration::from_secs(OBJECT_SECONDS_MAX.into()), sweep)).await {
        Ok(Some(Ok(..400))) => {}
        Ok(Some(Ok(status))) => console_error!("the scheduled sweep was answered {status}"),
        Ok(Some(Err(error))) => console_error!("the scheduled sweep failed: {}", worker::Error::from(error)),
        Ok(None) => console_error!("the scheduled sweep did not end in time"),
        Err(Panicked) => console_error!("the scheduled sweep panicked"),
    }
}

fn front_door(web_request: &web_sys::Request, env: &Env) -> Promise {
    let request = convert::head(web_request);
    let refusal = match config::settings(env) {
        Err(errors) => Some(problems::misconfigured(&errors)),
        Ok(settings) => refuse(&request, &settings),
    };
    let is_upload = Route::of(&request.method, &request.path).is_ok_and(|route| route.is_upload());
    if let Some(refusal) = refusal {
        let refusal = cors::decorate(&request, refusal);
        return if is_upload { refuse_unread(web_request, &refusal) } else { own(&refusal) };
    }
    if is_upload {
        return TROUBLE.with(|trouble| glue::pass(env, web_request, UPLOAD_MS as f64, trouble));
    }
    // One without a length, or with one that does not count, is read in parts.
    let length = request.header("content-length").and_then(|text| text.parse::<usize>().ok());
    let length = length.filter(|_| request.header("transfer-encoding").is_none());
    if length.is_some_and(|length| length > REQUEST_BODY_BYTES_MAX) {
        return own(&cors::decorate(&request, problems::too_large()));
    }
    let limit = f64::from(seconds_max(&request)) * 1000.0;
    let needs_body = front::needs_body(&request);
    TROUBLE.with(|trouble| {
        LOOK.with(|look| {
            let look = needs_body.then_some(look);
            glue::forward(env, web_request, length.is_some(), REQUEST_BODY_BYTES_MAX as u32, limit, trouble, look)
        })
    })
}

/// The answer to a request whose body shows that the object need not see it; undefined if it has to.
fn look(env: Env, web_request: web_sys::Request, body: Vec<u8>) -> JsValue {
    let refusal = || {
        let settings = config::settings(&env).ok()?;
        let request = Request { body, ..convert::head(&web_request) };
        front::refuse_body(&request, &settings, now(&request))
    };
    match guarded_now(refusal) {
        Ok(None) => JsValue::UNDEFINED,
        Ok(Some(refusal)) => convert::response(&refusal),
        Err(Panicked) => convert::response(&problems::internal()),
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
    front::refuse(request, settings, now(request))
}

/// The clock, or what a test says it is.
#[cfg(feature = "test-hooks")]
fn now(request: &Request) -> i64 {
    super::test_routes::now_of(request).unwrap_or_else(clock)
}

/// The clock.
#[cfg(not(feature = "test-hooks"))]
fn now(_request: &Request) -> i64 {
    clock()
}

/// Answers a request for which the object has no response (`glue::forward`), with the promise of a response.
fn in_trouble(
    env: Env,
    web_request: web_sys::Request,
    body: Option<ArrayBuffer>,
    deadline: f64,
    kind: String,
    words: String,
) -> JsValue {
    let answer = async move {
        let mut request = convert::head(&web_request);
        let refusal = match (kind.as_str(), body) {
            ("too large", _) => problems::too_large(),
            ("late", _) => late(&request),
            ("failed", None) => {
                console_error!("the object failed in an upload: {words}");
                problems::object_failed(&words)
            }
            ("failed", Some(body)) => {
                console_error!("the object failed: {words}");
                request.body = Uint8Array::new(&body).to_vec();
                match ask_again(&env, &request, &web_request, &body, deadline, &words).await {
                    Ok(response) => return response,
                    Err(refusal) => refusal,
                }
            }
            _ => problems::broken_body(),
        };
        convert::response(&cors::decorate(&request, refusal))
    };
    let guarded_answer =
        async { Ok(guarded(answer).await.unwrap_or_else(|Panicked| convert::response(&problems::internal()))) };
    future_to_promise(AssertUnwindSafe(guarded_answer)).into()
}

fn late(request: &Request) -> Response {
    // A signed link is a credential for a day.
    let is_link = matches!(Route::of(&request.method, &request.path), Ok(Route::Act(_)));
    let path = if is_link { "/act/…" } else { &request.path };
    console_error!("the object did not answer {} {path} in time", request.method);
    problems::unavailable()
}

/// Asks the object a second time, if that is safe.
async fn ask_again(
    env: &Env,
    request: &Request,
    web_request: &web_sys::Request,
    body: &ArrayBuffer,
    deadline: f64,
    words: &str,
) -> Result<JsValue, Response> {
    if !front::is_repeatable(request) {
        return Err(problems::object_failed(words));
    }
    worker::Delay::from(REPEAT_AFTER).await;
    let again = async { JsFuture::from(glue::ask(env, web_request, body)?).await };
    let left = Duration::from_millis((deadline as i64 - clock()).try_into().unwrap_or_default());
    match within(left, again).await {
        Some(Ok(response)) => Ok(response),
        Some(Err(error)) => {
            let error = worker::Error::from(error);
            console_error!("the object failed again: {error}");
            Err(problems::object_failed(&error.to_string()))
        }
        None => Err(late(request)),
    }
}

/// How long the object may take for this request, in seconds.
fn seconds_max(request: &Request) -> u32 {
    match Route::of(&request.method, &request.path) {
        Ok(Route::Executor(ExecutorCall::Claim)) => CLAIM_WAIT_SECONDS_MAX + WAIT_GRACE_SECONDS,
        Ok(Route::Mcp) => TASK_WAIT_SECONDS_MAX + WAIT_GRACE_SECONDS,
        _ => OBJECT_SECONDS_MAX,
    }
}
