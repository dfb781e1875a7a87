//! Sends what the hub has built, and reads the documents that it asks for. Every request ends within its time limit; of the
//! answer to what was sent only the status counts.

use std::time::Duration;

use futures_util::StreamExt as _;
use wasm_bindgen::JsValue;
use worker::web_sys::{self, RequestRedirect};
use worker::{AbortController, AbortSignal, Headers, console_error};

use super::{Panicked, clock, guarded, within};
use crate::http::message::{self, Fetch, Fetched, SentHow};
use crate::outbound::OutboundRequest;

/// How much of an answer is read before the connection is given up, in bytes. A short answer that is read whole leaves the
/// connection usable.
const ANSWER_BYTES_MAX: usize = 4_096;
/// How long that may take.
const READ_TIME_MAX: Duration = Duration::from_millis(500);

/// How a request ended, as far as the sender can know.
pub enum Sent {
    /// An answer came.
    Status {
        /// Its status.
        code: u16,
        /// How long the receiver asks to be left alone (`Retry-After`), in milliseconds.
        retry_after_ms: Option<i64>,
    },
    /// No answer in time: it may have arrived or not.
    NoAnswer,
    /// It did not get there.
    Failed(String),
}

/// Sends one request.
pub async fn send(request: &OutboundRequest) -> Sent {
    let web_request = match build(request) {
        Ok(built) => built,
        Err(error) => return Sent::Failed(error.to_string()),
    };
    let limit = Duration::from_millis(request.timeout_ms.try_into().unwrap_or_default());
    let abort = AbortController::default();
    let signal = abort.signal();
    let answer = within(limit, worker::Fetch::Request(web_request).send_with_signal(&signal)).await;
    match answer {
        None => {
            abort.abort();
            Sent::NoAnswer
        }
        Some(Err(error)) => Sent::Failed(error.to_string()),
        Some(Ok(mut answer)) => {
            let _ = within(READ_TIME_MAX, read_little(&mut answer)).await;
            Sent::Status { code: answer.status_code(), retry_after_ms: retry_after_ms(&answer) }
        }
    }
}

/// `Retry-After` is a number of seconds or a date.
#[expect(clippy::cast_possible_truncation, reason = "a date in milliseconds is far below 2^53")]
fn retry_after_ms(answer: &worker::Response) -> Option<i64> {
    let text = answer.headers().get("retry-after").ok().flatten()?;
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(i64::from(seconds) * 1000);
    }
    let at = js_sys::Date::parse(text);
    at.is_finite().then(|| (at as i64 - clock()).max(0))
}

/// Sends one request for a handler that waits to be told what became of it.
pub async fn send_and_tell(request: &OutboundRequest) -> message::Sent {
    let began_at = clock();
    let how = match guarded(send(request)).await {
        Ok(Sent::Status { code, .. }) => SentHow::Status(code),
        Ok(Sent::NoAnswer) => SentHow::NoAnswer,
        Ok(Sent::Failed(why)) => SentHow::Failed(why),
        Err(Panicked) => SentHow::Failed("sending it failed".to_owned()),
    };
    message::Sent { took_ms: clock() - began_at, how }
}

/// Reads a document. Redirects are not followed, and what is no JSON, too long or too slow is given up.
pub async fn fetch(wanted: &Fetch) -> Fetched {
    let limit = Duration::from_millis(wanted.timeout_ms.try_into().unwrap_or_default());
    let abort = AbortController::default();
    let signal = abort.signal();
    match within(limit, read_document(wanted, &signal)).await {
        Some(Ok(body)) => Fetched::Document(body),
        Some(Err(reason)) => Fetched::Failed(reason),
        None => {
            abort.abort();
            Fetched::Failed("it was not read in time".to_owned())
        }
    }
}

async fn read_document(wanted: &Fetch, signal: &AbortSignal) -> Result<Vec<u8>, String> {
    let unreachable = |error: worker::Error| {
        console_error!("{} cannot be read: {error}", wanted.url);
        "its address cannot be reached".to_owned()
    };
    let headers = Headers::new();
    headers.append("accept", "application/json").map_err(unreachable)?;
    let init = web_sys::RequestInit::new();
    init.set_redirect(RequestRedirect::Manual);
    init.set_headers(headers.as_ref());
    let request =
        web_sys::Request::new_with_str_and_init(&wanted.url, &init).map_err(|error| unreachable(error.into()))?;
    let mut answer = worker::Fetch::Request(request.into()).send_with_signal(signal).await.map_err(unreachable)?;
    match answer.status_code() {
        200 => {}
        300..=399 => return Err("its address redirects, which is not followed".to_owned()),
        status => return Err(format!("its address answers {status}")),
    }
    let content_type = answer.headers().get("content-type").ok().flatten().unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence != "application/json" && !essence.ends_with("+json") {
        return Err("its address answers with something else than JSON".to_owned());
    }
    let mut body = Vec::new();
    let mut chunks = answer.stream().map_err(unreachable)?;
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk.map_err(unreachable)?);
        if body.len() > wanted.bytes_max {
            return Err(format!("it is longer than {} bytes", wanted.bytes_max));
        }
    }
    Ok(body)
}

fn build(request: &OutboundRequest) -> worker::Result<worker::Request> {
    let headers = Headers::new();
    for (name, value) in &request.headers {
        headers.append(name, value)?;
    }
    let init = web_sys::RequestInit::new();
    init.set_method("POST");
    init.set_redirect(RequestRedirect::Manual);
    init.set_headers(headers.as_ref());
    init.set_body(&JsValue::from_str(&request.body));
    Ok(web_sys::Request::new_with_str_and_init(&request.url, &init)?.into())
}

/// Reads a little of the answer and drops the rest.
async fn read_little(answer: &mut worker::Response) {
    let Ok(mut chunks) = answer.stream() else { return };
    let mut read = 0;
    while let Some(Ok(chunk)) = chunks.next().await {
        read += chunk.len();
        if read > ANSWER_BYTES_MAX {
            return;
        }
    }
}
