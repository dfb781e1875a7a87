//! Between the runtime's requests and responses and the hub's plain values.

use wasm_bindgen::JsValue;
use worker::{console_error, web_sys};

use super::{glue, problems};
use crate::http::message::{Request, Response};

/// Everything of a request but its body.
pub fn head(request: &web_sys::Request) -> Request {
    parse_head(&glue::head(request))
}

/// The same, out of what `glue::head` gave.
pub fn parse_head(head: &str) -> Request {
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

/// The hub's answer for the runtime.
pub fn response(response: &Response) -> JsValue {
    taken(respond(response))
}

/// A response that was made. One that the runtime does not take is a fault of the hub.
pub fn taken(made: Result<web_sys::Response, JsValue>) -> JsValue {
    let made = made.or_else(|error| {
        console_error!("the runtime refuses a response: {error:?}");
        respond(&problems::internal())
    });
    made.map_or(JsValue::UNDEFINED, JsValue::from)
}

/// Name and value of every header, one a line.
pub fn lines(response: &Response) -> String {
    let lines: Vec<String> = response.headers.iter().map(|(name, value)| format!("{name}\n{value}")).collect();
    lines.join("\n")
}

fn respond(response: &Response) -> Result<web_sys::Response, JsValue> {
    glue::respond(response.status, &lines(response), &response.body)
}
