//! Between the runtime's requests and responses and the hub's plain values.

use futures_util::StreamExt as _;
use worker::web_sys::{self, RequestRedirect};
use worker::{Headers, ResponseBuilder};

use crate::domain::limits::REQUEST_BODY_BYTES_MAX;
use crate::http::message::{Request, Response};

/// Why a body could not be read.
pub enum BodyRejected {
    /// Longer than the hub reads.
    TooLarge,
    /// The connection broke.
    Broken,
}

/// Everything of a request but its body.
pub fn head(request: &worker::Request) -> Request {
    let url = request.inner().url();
    let (origin, path, query) = split_url(&url);
    Request {
        method: request.inner().method().to_ascii_uppercase(),
        path: path.to_owned(),
        query: query.to_owned(),
        origin: origin.to_owned(),
        headers: request.headers().entries().collect(),
        ..Request::default()
    }
}

/// Origin, path and query of an absolute address in its normal form.
fn split_url(url: &str) -> (&str, &str, &str) {
    let host_at = url.find("://").map_or(0, |at| at + 3);
    let path_at = url[host_at..].find(['/', '?', '#']).map_or(url.len(), |at| host_at + at);
    let (origin, rest) = url.split_at(path_at);
    let rest = rest.split('#').next().unwrap_or_default();
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    (origin, if path.is_empty() { "/" } else { path }, query)
}

/// The whole body; stops as soon as it is too large.
pub async fn body(request: &mut worker::Request) -> Result<Vec<u8>, BodyRejected> {
    if request.inner().body().is_none() {
        return Ok(Vec::new());
    }
    let announced = request.headers().get("content-length").ok().flatten().and_then(|text| text.parse::<usize>().ok());
    if announced.is_some_and(|length| length > REQUEST_BODY_BYTES_MAX) {
        return Err(BodyRejected::TooLarge);
    }
    let mut chunks = request.stream().map_err(|_| BodyRejected::Broken)?;
    let mut body = Vec::with_capacity(announced.unwrap_or_default());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| BodyRejected::Broken)?;
        if body.len() + chunk.len() > REQUEST_BODY_BYTES_MAX {
            return Err(BodyRejected::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The same request once more, for the object. The headers are the runtime's own copy.
pub fn forward(request: &Request, headers: &Headers) -> worker::Result<worker::Request> {
    let Request { origin, path, query, .. } = request;
    let url = if query.is_empty() { format!("{origin}{path}") } else { format!("{origin}{path}?{query}") };
    let init = web_sys::RequestInit::new();
    init.set_method(&request.method);
    init.set_redirect(RequestRedirect::Manual);
    init.set_headers(headers.as_ref());
    let may_have_body = !matches!(request.method.as_str(), "GET" | "HEAD");
    if may_have_body && !request.body.is_empty() {
        init.set_body(&js_sys::Uint8Array::from(request.body.as_slice()));
    }
    Ok(web_sys::Request::new_with_str_and_init(&url, &init)?.into())
}

/// The hub's answer for the runtime.
pub fn response(response: Response) -> worker::Result<worker::Response> {
    let headers = Headers::new();
    for (name, value) in &response.headers {
        headers.append(name, value)?;
    }
    let builder = ResponseBuilder::new().with_status(response.status).with_headers(headers);
    Ok(if response.body.is_empty() { builder.empty() } else { builder.fixed(response.body) })
}
