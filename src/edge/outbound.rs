//! Sends what the hub has built. Every request ends within its time limit; of the answer only the status counts.

use std::time::Duration;

use futures_util::StreamExt as _;
use wasm_bindgen::JsValue;
use worker::web_sys::{self, RequestRedirect};
use worker::{AbortController, Fetch, Headers};

use super::within;
use crate::outbound::OutboundRequest;

/// How much of an answer is read before the connection is given up, in bytes. A short answer that is read whole leaves the
/// connection usable.
const ANSWER_BYTES_MAX: usize = 4_096;
/// How long that may take.
const READ_TIME_MAX: Duration = Duration::from_millis(500);

/// How a request ended, as far as the sender can know.
pub enum Sent {
    /// An answer came, with this status.
    Status(u16),
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
    let answer = within(limit, Fetch::Request(web_request).send_with_signal(&signal)).await;
    match answer {
        None => {
            abort.abort();
            Sent::NoAnswer
        }
        Some(Err(error)) => Sent::Failed(error.to_string()),
        Some(Ok(mut answer)) => {
            let _ = within(READ_TIME_MAX, read_little(&mut answer)).await;
            Sent::Status(answer.status_code())
        }
    }
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
