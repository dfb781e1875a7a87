//! Redirect addresses: which may be used, which are the same on loopback (RFC 8252), and what cannot be smuggled through
//! them.

use serde_json::json;
use taskhub::oauth::redirect::{self, Reach, RedirectRefused};

use super::client::{CALLBACK, asking, changed, get, header, hub, landed, sent_back, told, written};

#[test]
fn addresses_that_may_be_used() {
    for (address, reach) in [
        ("https://app.example", Reach::Site),
        ("https://app.example/callback?a=b&c", Reach::Site),
        ("HTTPS://app.example/", Reach::Site),
        ("https://app.example:8443/x", Reach::Site),
        ("https://10.0.0.1/x", Reach::Site),
        ("https://localhost/x", Reach::Loopback),
        ("http://localhost", Reach::Loopback),
        ("http://localhost:1/x", Reach::Loopback),
        ("http://127.0.0.1:65535/x", Reach::Loopback),
        ("http://[::1]:7777/x", Reach::Loopback),
    ] {
        assert_eq!(redirect::check(address), Ok(reach), "{address}");
    }
}

#[test]
fn addresses_that_may_not_be_used() {
    use RedirectRefused::{Credentials, Fragment, NotAnAddress, Scheme};
    let long = format!("https://app.example/{}", "a".repeat(2_048));
    for (address, why) in [
        ("", NotAnAddress),
        ("callback", NotAnAddress),
        ("//app.example/x", NotAnAddress),
        ("/callback", NotAnAddress),
        ("https:app.example", NotAnAddress),
        ("https:/app.example", NotAnAddress),
        ("https:///app.example", NotAnAddress),
        ("https:////app.example", NotAnAddress),
        ("https:\\\\app.example", NotAnAddress),
        ("https://app.example\\@evil.example", NotAnAddress),
        ("https://app.example/\\evil", NotAnAddress),
        ("https://app.example/a\tb", NotAnAddress),
        ("https://app.example/a\nb", NotAnAddress),
        ("https://app.example/a\r\nset-cookie: a=b", NotAnAddress),
        ("ht\ntps://app.example/", NotAnAddress),
        (" https://app.example/", NotAnAddress),
        ("https://app.example/ ", NotAnAddress),
        ("https://app.example/\u{0}", NotAnAddress),
        ("https://\u{0430}pp.example/", NotAnAddress),
        ("https://app.example/\"><script>", NotAnAddress),
        ("https://", NotAnAddress),
        ("https://[::1", NotAnAddress),
        (long.as_str(), NotAnAddress),
        ("http://app.example/", Scheme),
        ("http://localhost.evil.example/", Scheme),
        ("http://127.0.0.1.evil.example/", Scheme),
        ("http://127.0.0.2/", Scheme),
        ("http://10.0.0.1/", Scheme),
        ("http://0.0.0.0/", Scheme),
        ("javascript:alert(1)", Scheme),
        ("JavaScript:alert(1)", Scheme),
        ("javascript://app.example/%0aalert(1)", Scheme),
        ("data:text/html,<b>", NotAnAddress),
        ("data:text/html;base64,eA==", Scheme),
        ("vbscript:x", Scheme),
        ("file:///etc/passwd", Scheme),
        ("blob:https://app.example/x", Scheme),
        ("about:blank", Scheme),
        ("claude://callback", Scheme),
        ("cursor://anysphere.cursor-mcp/oauth/callback", Scheme),
        ("com.example.app:/callback", Scheme),
        ("urn:ietf:wg:oauth:2.0:oob", Scheme),
        ("ftp://app.example/", Scheme),
        ("ws://localhost/", Scheme),
        ("https://user@app.example/", Credentials),
        ("https://user:pass@app.example/", Credentials),
        ("https://@app.example/", Credentials),
        ("https://:@app.example/", Credentials),
        ("https://claude.ai@evil.example/", Credentials),
        ("http://localhost@evil.example/", Scheme),
        ("http://127.0.0.1@localhost/", Credentials),
        ("https://app.example/#", Fragment),
        ("https://app.example/#x", Fragment),
        ("https://app.example/x?y#z", Fragment),
    ] {
        assert_eq!(redirect::check(address), Err(why), "{address}");
    }
}

/// RFC 8252 §7.3: the port of a loopback address does not count; clients switch between its two names.
#[test]
fn on_loopback_the_port_and_the_name_do_not_count() {
    let same = [
        ("http://localhost/callback", "http://localhost:51234/callback"),
        ("http://localhost:1/callback", "http://localhost:2/callback"),
        ("http://localhost:1/callback", "http://127.0.0.1:2/callback"),
        ("http://127.0.0.1/callback", "http://localhost:2/callback"),
        ("http://127.0.0.1:80/callback?a=b", "http://localhost:2/callback?a=b"),
        ("http://[::1]/callback", "http://[::1]:2/callback"),
    ];
    for (known, given) in same {
        assert!(redirect::matches(known, given) && redirect::matches(given, known), "{known} {given}");
    }
    let other = [
        ("http://localhost/callback", "http://localhost:1/other"),
        ("http://localhost/callback", "http://localhost:1/callback/"),
        ("http://localhost/callback", "http://localhost:1/callback?x"),
        ("http://localhost/callback", "https://localhost/callback"),
        ("http://localhost/callback", "http://[::1]:1/callback"),
        ("https://localhost/callback", "https://localhost:1/callback"),
        ("https://app.example/callback", "https://app.example:8443/callback"),
        ("https://app.example/callback", "https://app.example./callback"),
        ("https://app.example/callback", "https://app.example/CALLBACK"),
        ("https://app.example/callback", "https://app.example/%63allback"),
        ("https://app.example/", "https://app.example"),
    ];
    for (known, given) in other {
        assert!(!redirect::matches(known, given) && !redirect::matches(given, known), "{known} {given}");
    }
}

#[test]
fn the_browser_goes_to_the_port_that_was_asked_for() {
    let world = hub();
    let metadata = json!({ "redirect_uris": ["http://localhost/callback"], "token_endpoint_auth_method": "none" });
    let (id, _) = world.registers(&metadata);
    for address in ["http://localhost:51234/callback", "http://127.0.0.1:9/callback"] {
        let page = world.page(&changed(&asking(&id), "redirect_uri", Some(address)));
        assert!(page.text.contains("on the computer it runs on"), "a warning");
        let landed = landed(&world.send(&page.approval(&["tasks:read"])));
        assert_eq!(landed.address, address);
    }
}

/// No redirect leads anywhere but to an address that the client is known by, whatever is wrong with the request.
#[test]
fn there_is_no_open_redirect() {
    let world = hub();
    let id = world.public_client();
    for address in [
        "https://evil.example/callback",
        "https://app.example.evil.example/callback",
        "https://app.example@evil.example/callback",
        "https://app.example:pass@evil.example/callback",
        "https://app.example/callback/../../evil",
        "https://app.example/callback%2f..%2fevil",
        "https://app.example/callback#@evil.example",
        "https://app.example\\.evil.example/callback",
        "https://app.example/callback\t",
        "https://app.example/callback\r\nlocation: https://evil.example",
        "//evil.example/callback",
        "///evil.example/callback",
        "/callback",
        "javascript:alert(document.domain)//https://app.example/callback",
        "java\nscript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "claude://callback",
        "http://app.example/callback",
    ] {
        for more in [("prompt", Some("none")), ("response_type", None), ("code_challenge", None), ("scope", Some("x"))]
        {
            let fields = changed(&changed(&asking(&id), "redirect_uri", Some(address)), more.0, more.1);
            told(&world.send(&get("/authorize", &written(&fields))), 400);
        }
    }
}

/// What a client sends comes out percent-encoded, or not at all.
#[test]
fn nothing_is_smuggled_into_a_header() {
    let world = hub();
    let id = world.approved_client();
    let state = "x\r\nset-cookie: taskhub_consent=evil\r\n\r\n<script>alert(1)</script>\u{0}\u{85}\u{2028}ü";
    let fields = changed(&asking(&id), "state", Some(state));
    let denied = world.send(&world.page(&fields).answer(&[("decision", "deny")]));
    let refused = world.send(&get("/authorize", &written(&changed(&fields, "response_type", Some("a\r\nb: c")))));
    sent_back(&refused, "unsupported_response_type");
    for response in [denied, refused] {
        assert_eq!(landed(&response).one("state"), Some(state));
        let names: Vec<&str> = response.headers.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["location", "cache-control", "referrer-policy"]);
        let location = header(&response, "location").unwrap();
        assert!(
            location.starts_with(&format!("{CALLBACK}?")) && !location.contains(['<', '>', '"', '\'']),
            "{location}"
        );
    }
}
