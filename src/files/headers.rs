//! What goes out with a file: its name (RFC 6266, RFC 8187), its type, and what keeps a browser from running it.

use crate::http::message::{Request, Response};
use crate::http::problem::Problem;
use crate::hub::FileView;

/// Nothing of a file runs or loads anything, should a browser show it in spite of all.
const POLICY: &str = "sandbox; default-src 'none'; frame-ancestors 'none'";
/// A link is a credential, so shared caches keep nothing; whoever has the file asks whether the link is still good. A proxy that
/// compressed it would change its length and the meaning of its ranges.
const CACHE: &str = "private, no-cache, no-transform";

/// The file's ETag: its content never changes, and is told by its hash.
pub fn etag(file: &FileView) -> String {
    format!("\"{}\"", file.sha256)
}

/// The response with all that is said of a file.
pub fn describe(response: Response, file: &FileView, etag: &str) -> Response {
    harmless(response, etag)
        .with("content-type", file.content_type.clone())
        .with("content-disposition", disposition(&file.name))
}

fn harmless(response: Response, etag: &str) -> Response {
    response
        .with("etag", etag)
        .with("accept-ranges", "bytes")
        .with("cache-control", CACHE)
        .with("content-security-policy", POLICY)
        .with("x-content-type-options", "nosniff")
        .with("cross-origin-resource-policy", "same-origin")
        .with("referrer-policy", "no-referrer")
        .with("x-robots-tag", "noindex")
}

/// The answer to a request with a condition that does not hold (RFC 9110 §13); `None` if the file is to be sent.
pub fn precondition(request: &Request, file: &FileView, etag: &str) -> Option<Response> {
    if request.header("if-match").is_some_and(|wanted| wanted != "*" && !lists(wanted, |tag| tag == etag)) {
        let detail = "This file has another content than the one that If-Match names. Leave that header out to get it.";
        return Some(Problem::new(412, "precondition_failed", "Precondition failed", detail).response());
    }
    let weak = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag) == etag;
    let is_known = request.header("if-none-match").is_some_and(|known| known == "*" || lists(known, weak));
    is_known.then(|| describe(Response::empty(304), file, etag))
}

fn lists(tags: &str, is_right: impl Fn(&str) -> bool) -> bool {
    tags.split(',').any(|tag| is_right(tag.trim()))
}

/// The range lies behind the end of the file.
pub fn unsatisfiable(etag: &str, size: u64) -> Response {
    let detail = format!(
        "The range begins behind the end of the file, which has {size} bytes. Ask for bytes before that, or leave Range out; if \
         you have {size} bytes of it, you have all."
    );
    let problem = Problem::new(416, "range_not_satisfiable", "Range not satisfiable", detail).response();
    problem.with("etag", etag).with("content-range", format!("bytes */{size}"))
}

/// The name for whoever stores the file. Clients that know RFC 8187 take the second form; for the others, what ASCII does not
/// have is replaced, and so is what some of them read as an escape.
pub fn disposition(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii() && !c.is_ascii_control() && !matches!(c, '"' | '\\' | '%');
    let ascii: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if ascii == name {
        return format!("attachment; filename=\"{ascii}\"");
    }
    let mut encoded = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{encoded}")
}
