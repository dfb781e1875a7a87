//! Between the runtime's requests and responses and the hub's plain values.

use futures_util::StreamExt as _;
use js_sys::futures::JsFuture;
use worker::{ByteStream, Headers, ResponseBuilder, web_sys};

use super::glue;
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
pub fn head(request: &web_sys::Request) -> Request {
    let head = glue::head(request);
    let mut lines = head.split('\n');
    let method = lines.next().unwrap_or_default().to_ascii_uppercase();
    let (origin, path, query) = split_url(lines.next().unwrap_or_default());
    let mut headers = Vec::new();
    while let (Some(name), Some(value)) = (lines.next(), lines.next()) {
        headers.push((name.to_owned(), value.to_owned()));
    }
    let (path, query, origin) = (path.to_owned(), query.to_owned(), origin.to_owned());
    Request { method, path, query, origin, headers, ..Request::default() }
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

/// The whole body. One without a length is read in parts, so that reading stops as soon as it is too large.
pub async fn body(web_request: &web_sys::Request, head: &Request) -> Result<Vec<u8>, BodyRejected> {
    let Some(stream) = web_request.body() else { return Ok(Vec::new()) };
    let announced = head.header("content-length").and_then(|text| text.parse::<usize>().ok());
    match announced.filter(|_| head.header("transfer-encoding").is_none()) {
        Some(length) if length > REQUEST_BODY_BYTES_MAX => Err(BodyRejected::TooLarge),
        Some(_) => whole(web_request).await,
        None => in_parts(stream).await,
    }
}

async fn whole(web_request: &web_sys::Request) -> Result<Vec<u8>, BodyRejected> {
    let promise = web_request.array_buffer().map_err(|_| BodyRejected::Broken)?;
    let buffer = JsFuture::from(promise).await.map_err(|_| BodyRejected::Broken)?;
    let bytes = js_sys::Uint8Array::new(&buffer);
    if bytes.length() as usize > REQUEST_BODY_BYTES_MAX { Err(BodyRejected::TooLarge) } else { Ok(bytes.to_vec()) }
}

async fn in_parts(stream: web_sys::ReadableStream) -> Result<Vec<u8>, BodyRejected> {
    let mut chunks = ByteStream::from(stream);
    let mut body = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| BodyRejected::Broken)?;
        if body.len() + chunk.len() > REQUEST_BODY_BYTES_MAX {
            return Err(BodyRejected::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
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
