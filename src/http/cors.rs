//! What browsers must be told, and which of their requests are refused (CORS, DNS rebinding).
//!
//! Owns: the headers that let an MCP client in a web page read this hub, and the check of `Origin`. A page has no power of
//! its own here: no cookie is used and every call carries a bearer, so any page that holds one may call, and
//! `Access-Control-Allow-Origin` is `*`. The exception is a hub on somebody's own machine, where the mere reachability
//! is worth something to a page from elsewhere: there the page must be local too.
//!
//! It refuses to know tokens, and anything outside `/mcp`, `/.well-known/` and the endpoints that OAuth clients call
//! themselves. The consent page is none of them.

use url::{Host, Url};

use super::message::{Request, Response};
use super::problem::Problem;

/// What a page may send. `*` would leave out `Authorization`.
const ALLOWED_HEADERS: &str = "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, \
                               Mcp-Session-Id, Last-Event-ID";
/// What a page may read beside the body.
const EXPOSED_HEADERS: &str = "WWW-Authenticate, Mcp-Session-Id, MCP-Protocol-Version, Retry-After, Allow";
/// GET and DELETE are answered 405, which a client must be able to read: some try them before they go on without.
const ALLOWED_METHODS: &str = "GET, POST, DELETE, OPTIONS";
/// How long a browser may remember the answer to a preflight, in seconds.
const MAX_AGE_SECONDS: &str = "86400";

/// The answer to a browser's question whether a page may call; `None` if this is no such question.
pub fn preflight(request: &Request) -> Option<Response> {
    if request.method != "OPTIONS" || !is_for_pages(&request.path) {
        return None;
    }
    if let Some(refusal) = refuse_origin(request) {
        return Some(refusal);
    }
    let response = Response::empty(204)
        .with("access-control-allow-methods", ALLOWED_METHODS)
        .with("access-control-allow-headers", ALLOWED_HEADERS)
        .with("access-control-max-age", MAX_AGE_SECONDS);
    Some(decorate(request, response))
}

/// The response with what lets a page read it. Doing it twice is the same as once.
pub fn decorate(request: &Request, response: Response) -> Response {
    const ALLOW: &str = "access-control-allow-origin";
    let is_done = response.headers.iter().any(|(name, _)| *name == ALLOW);
    if is_done || !is_for_pages(&request.path) {
        return response;
    }
    response.with(ALLOW, "*").with("access-control-expose-headers", EXPOSED_HEADERS)
}

/// The refusal of a request from a page that has no business here; `None` if it may pass.
///
/// Refused are an `Origin` that is none (or `null`), a foreign page at a local hub, and the two marks of DNS rebinding: a
/// request to a local hub under a foreign `Host`, and a page that reached this hub over plain http under the page's own
/// name. Programs send no `Origin` and pass.
pub fn refuse_origin(request: &Request) -> Option<Response> {
    let origin = request.header("origin")?;
    let Some(page) = Url::parse(origin).ok().filter(|page| page.host().is_some()) else {
        return Some(refused("The Origin header is not an origin such as https://claude.ai."));
    };
    let hub = Url::parse(&request.origin).ok();
    let hub_host = hub.as_ref().and_then(Url::host);
    if hub_host.as_ref().is_some_and(is_local) {
        let host_is_local = request.header("host").is_none_or(names_local_host);
        if host_is_local && page.host().as_ref().is_some_and(is_local) {
            return None;
        }
        return Some(refused("This hub runs on a local address and accepts only pages from localhost."));
    }
    let is_plain = |url: &Url| url.scheme() == "http";
    let same_name = matches!(hub_host, Some(Host::Domain(_))) && page.host() == hub_host;
    if same_name && is_plain(&page) && hub.as_ref().is_some_and(is_plain) {
        return Some(refused(
            "A page reached this hub over plain http under the page's own name, as in a DNS rebinding attack. Use https, or \
             localhost.",
        ));
    }
    None
}

fn is_for_pages(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    ["/mcp", "/token", "/register", "/revoke"].contains(&path) || path.starts_with("/.well-known/")
}

fn is_local<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Domain(name) => name.as_ref() == "localhost" || name.as_ref().ends_with(".localhost"),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

fn names_local_host(host: &str) -> bool {
    Url::parse(&format!("http://{host}")).is_ok_and(|url| url.host().as_ref().is_some_and(is_local))
}

fn refused(detail: &str) -> Response {
    Problem::new(403, "origin_refused", "Origin refused", detail).response()
}
