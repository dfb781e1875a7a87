//! What browsers are told at `/mcp` and `/.well-known/`, and which pages are refused.

use taskhub::http::cors::{decorate, preflight, refuse_origin};
use taskhub::http::message::{Request, Response};

fn request(method: &str, path: &str, hub: &str, headers: &[(&str, &str)]) -> Request {
    Request {
        method: method.to_owned(),
        path: path.to_owned(),
        origin: hub.to_owned(),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..Request::default()
    }
}

fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers.iter().find(|(found, _)| *found == name).map(|(_, value)| value.as_str())
}

#[test]
fn preflights() {
    let from = [("origin", "https://claude.ai"), ("access-control-request-method", "POST")];
    for path in ["/mcp", "/mcp/", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"]
    {
        let response = preflight(&request("OPTIONS", path, "https://hub.example", &from)).expect("an answer");
        assert_eq!((response.status, response.body.len()), (204, 0));
        assert_eq!(header(&response, "access-control-allow-origin"), Some("*"));
        let allowed = header(&response, "access-control-allow-headers").unwrap();
        for name in [
            "Authorization",
            "Content-Type",
            "MCP-Protocol-Version",
            "Mcp-Method",
            "Mcp-Name",
            "Last-Event-ID",
            "Mcp-Session-Id",
        ] {
            assert!(allowed.split(", ").any(|found| found == name), "{name}");
        }
        assert!(header(&response, "access-control-allow-methods").unwrap().contains("POST"));
        assert!(header(&response, "access-control-max-age").is_some());
        assert!(header(&response, "access-control-allow-credentials").is_none());
    }
    assert_eq!(preflight(&request("OPTIONS", "/api/executors", "https://hub.example", &from)), None);
    assert_eq!(preflight(&request("POST", "/mcp", "https://hub.example", &from)), None);
    let foreign = preflight(&request("OPTIONS", "/mcp", "http://localhost:8787", &from)).expect("an answer");
    assert_eq!((foreign.status, header(&foreign, "access-control-allow-origin")), (403, None));
}

#[test]
fn answers_can_be_read_by_pages() {
    let there = request("POST", "/mcp", "https://hub.example", &[]);
    let once = decorate(&there, Response::empty(401).with("www-authenticate", "Bearer"));
    assert_eq!(header(&once, "access-control-allow-origin"), Some("*"));
    let exposed = header(&once, "access-control-expose-headers").unwrap();
    assert!(exposed.contains("WWW-Authenticate") && exposed.contains("Mcp-Session-Id"));
    assert_eq!(decorate(&there, once.clone()), once);
    let elsewhere = request("POST", "/executor/claim", "https://hub.example", &[]);
    assert_eq!(decorate(&elsewhere, Response::empty(204)), Response::empty(204));
}

#[test]
fn origins() {
    let public = "https://hub.example";
    let local = "http://localhost:8787";
    let cases = [
        // Programs send none.
        (public, None, true),
        (local, None, true),
        // A public hub takes any page: it needs a bearer.
        (public, Some("https://claude.ai"), true),
        (public, Some("http://localhost:6274"), true),
        (public, Some("https://hub.example"), true),
        (public, Some("chrome-extension://abcdef"), true),
        // What is no origin.
        (public, Some("null"), false),
        (public, Some(""), false),
        (public, Some("nonsense"), false),
        (public, Some("https://"), false),
        (local, Some("null"), false),
        // A local hub takes local pages only.
        (local, Some("http://localhost:6274"), true),
        (local, Some("http://127.0.0.1:3000"), true),
        (local, Some("http://[::1]:3000"), true),
        ("http://127.0.0.1:8787", Some("http://localhost:6274"), true),
        ("http://[::1]:8787", Some("https://localhost"), true),
        (local, Some("https://claude.ai"), false),
        (local, Some("http://localhost.evil.example"), false),
        (local, Some("http://evil.example:8787"), false),
        ("http://127.0.0.1:8787", Some("http://10.0.0.1"), false),
        // DNS rebinding: the page and the hub have one name, over plain http.
        ("http://evil.example:8787", Some("http://evil.example:8787"), false),
        ("http://evil.example", Some("http://evil.example:81"), false),
        // A name of its own on a home network, or behind a proxy that ends TLS, is none of that.
        ("http://nas.lan:8787", Some("http://localhost:6274"), true),
        ("http://192.168.1.5:8787", Some("http://192.168.1.5:8787"), true),
        ("http://hub.example", Some("https://hub.example"), true),
        ("http://hub.example", Some("https://claude.ai"), true),
    ];
    for (hub, origin, passes) in cases {
        let headers: Vec<(&str, &str)> = origin.iter().map(|origin| ("origin", *origin)).collect();
        let refusal = refuse_origin(&request("POST", "/mcp", hub, &headers));
        assert_eq!(refusal.is_none(), passes, "{hub} {origin:?}");
        assert!(refusal.is_none_or(|refusal| refusal.status == 403));
    }
}

#[test]
fn a_local_hub_under_a_foreign_host() {
    let with = |host: &'static str| {
        let headers = [("origin", "http://localhost:1"), ("host", host)];
        refuse_origin(&request("POST", "/mcp", "http://localhost:8787", &headers))
    };
    assert_eq!(with("localhost:8787"), None);
    assert_eq!(with("[::1]:8787"), None);
    assert!(with("evil.example").is_some());
    assert!(with("local host").is_some());
}
