//! `/kit/*`: answered by the front, with everything filled in, and fit for a cache.

use serde_json::Value as Json;
use taskhub::domain::secret::sha256_hex;
use taskhub::http::front;
use taskhub::http::message::{Request, Response};

use super::{header, problem};
use crate::support::{World, request};

const FILES: [(&str, &str); 4] = [
    ("install.sh", "text/x-shellscript; charset=utf-8"),
    ("relay.py", "text/x-python; charset=utf-8"),
    ("SKILL.md", "text/markdown; charset=utf-8"),
    ("SHA256SUMS", "text/plain; charset=utf-8"),
];

fn asked(method: &str, name: &str) -> Request {
    Request { headers: vec![], ..request(method, &format!("/kit/{name}"), "", &Json::Null) }
}

fn answered(world: &World, request: &Request) -> Response {
    let by_front = front::refuse(request, &world.settings, world.now()).expect("the front answers");
    assert_eq!(by_front, world.send(request), "the object would say the same");
    by_front
}

fn text(world: &World, name: &str) -> String {
    let response = answered(world, &asked("GET", name));
    assert_eq!(response.status, 200);
    String::from_utf8(response.body).expect("text")
}

#[test]
fn a_file_has_its_type_and_may_be_kept_for_five_minutes() {
    let world = World::new();
    for (name, content_type) in FILES {
        for method in ["GET", "HEAD"] {
            let response = answered(&world, &asked(method, name));
            assert_eq!((response.status, header(&response, "content-type")), (200, Some(content_type)), "{name}");
            assert_eq!(header(&response, "cache-control"), Some("public, max-age=300"));
            assert_eq!(header(&response, "x-content-type-options"), Some("nosniff"));
            let sum = sha256_hex(std::str::from_utf8(&response.body).unwrap());
            assert_eq!(header(&response, "etag"), Some(format!("\"{sum}\"").as_str()), "{name}");
        }
    }
}

#[test]
fn who_has_a_file_is_not_sent_it_again() {
    let world = World::new();
    for (name, _) in FILES {
        let etag = header(&answered(&world, &asked("GET", name)), "etag").unwrap().to_owned();
        for (given, status) in [
            (etag.clone(), 304),
            (format!("W/{etag}"), 304),
            (format!("\"x\", {etag}"), 304),
            ("*".to_owned(), 304),
            ("\"x\"".to_owned(), 200),
            (etag.trim_matches('"').to_owned(), 200),
        ] {
            let mut request = asked("GET", name);
            request.headers.push(("if-none-match".to_owned(), given.clone()));
            let response = answered(&world, &request);
            assert_eq!((response.status, response.body.is_empty()), (status, status == 304), "{name} {given}");
            assert_eq!(header(&response, "etag"), Some(etag.as_str()));
        }
    }
}

#[test]
fn the_address_and_the_sums_are_filled_in() {
    for (vars, hub_url) in
        [(vec![], "https://hub.example"), (vec![("PUBLIC_URL", "https://public.example")], "https://public.example")]
    {
        let world = World::with(&vars);
        let installer = text(&world, "install.sh");
        assert!(installer.contains(&format!("'{hub_url}'")), "{installer}");
        assert!(text(&world, "SKILL.md").contains(hub_url));
        for name in ["relay.py", "SKILL.md"] {
            assert!(installer.contains(&sha256_hex(&text(&world, name))), "the installer knows {name}");
        }
        for name in ["install.sh", "SKILL.md"] {
            let text = text(&world, name);
            let left: Vec<&str> =
                text.split('@').filter(|part| part.ends_with("_URL") || part.ends_with("_SHA256")).collect();
            assert!(left.is_empty(), "{name}: {left:?}");
        }
        let sums: String = ["install.sh", "relay.py", "SKILL.md"]
            .map(|name| format!("{}  {name}\n", sha256_hex(&text(&world, name))))
            .concat();
        assert_eq!(text(&world, "SHA256SUMS"), sums);
    }
}

/// A shell runs the installer, so nothing but an address gets into it, whatever a client sends as `Host`.
#[test]
fn an_address_that_means_something_to_a_shell_is_not_filled_in() {
    let world = World::new();
    for host in ["a'$(id)'", "a`id`", "a$b", "a;b", "a\"b", "a&b", "a(b)", "a b", "a\nb"] {
        let request = Request { origin: format!("https://{host}"), ..asked("GET", "install.sh") };
        problem(&answered(&world, &request), 400, "bad_host");
    }
    for host in ["hub.example:8443", "127.0.0.1:8787", "[::1]:8787", "xn--bcher-kva.example"] {
        let request = Request { origin: format!("https://{host}"), ..asked("GET", "install.sh") };
        assert_eq!(answered(&world, &request).status, 200, "{host}");
    }
    let line = taskhub::kit::install_line("https://a'$(id)", "enr_c");
    assert_eq!(line, "curl -fsSL 'https://a'\\''$(id)/kit/install.sh' | sh -s -- --enroll enr_c");
    assert_eq!(
        taskhub::kit::install_line("http://[::1]:8787", "enr_c"),
        "curl -fsSL 'http://[::1]:8787/kit/install.sh' | sh -s -- --enroll enr_c"
    );
}

#[test]
fn there_is_nothing_else_and_nothing_to_post() {
    let world = World::new();
    for name in ["", "tests", "relay.pyc", "../kit/relay.py", "INSTALL.SH"] {
        let detail = problem(&answered(&world, &asked("GET", name)), 404, "not_found");
        assert!(detail.contains("/kit/install.sh"), "{detail}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        problem(&answered(&world, &asked(method, "relay.py")), 405, "method_not_allowed");
    }
}
