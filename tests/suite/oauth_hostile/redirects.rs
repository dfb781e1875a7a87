//! Where a browser can be sent to.

use serde_json::json;

use super::{
    CALLBACK, HUB, Page, asking, client, code, exchange, get, header, hub, json_of, post, sent, text, written,
};

/// Every way to make a request wrong of which the client would be told by redirect.
const WRONG: [(&str, &str); 6] = [
    ("response_type", "token"),
    ("code_challenge_method", "plain"),
    ("code_challenge", "short"),
    ("resource", "https://other.example/mcp"),
    ("prompt", "none"),
    ("request_uri", "https://evil.example/request"),
];

/// RFC 9700 §4.11.2: anybody can register an address, and would have the hub's name lead there.
#[test]
fn open_redirect_through_an_error_needs_a_client_that_the_owner_approved() {
    let world = hub();
    let id = client(&world, &[CALLBACK]);
    let broken = |(name, value)| {
        let mut fields = asking(&id, CALLBACK);
        fields.retain(|(found, _)| *found != name);
        fields.push((name, value));
        get("/authorize", &written(&fields))
    };
    for wrong in WRONG {
        let response = world.send(&broken(wrong));
        assert_eq!((response.status, header(&response, "location")), (400, None), "{wrong:?}");
        let page = text(&response);
        assert!(page.contains("href=\"https://app.example/cb?error=") && page.contains("app.example</a>"), "{page}");
        assert!(!page.contains("http-equiv") && !page.contains("<script"), "{page}");
    }
    exchange(&world, &id, &code(&world, &id));
    for wrong in WRONG {
        let response = world.send(&broken(wrong));
        assert_eq!(response.status, 303, "{wrong:?}");
        assert!(sent(&response, "error").is_some());
        assert_eq!(sent(&response, "iss").as_deref(), Some(HUB), "mix-up: the client sees who answers");
    }
}

#[test]
fn open_redirect_no_spelling_of_the_address_leads_elsewhere() {
    let world = hub();
    let id = client(&world, &[CALLBACK, "http://127.0.0.1/cb"]);
    for given in [
        "https://evil.example/cb",
        "https://app.example.evil.example/cb",
        "https://app.example@evil.example/cb",
        "https://evil.example\\@app.example/cb",
        "https://evil.example\\.app.example/cb",
        "https://app.example:pw@evil.example/cb",
        "https://@app.example/cb",
        "https://app.example/cb#",
        "https://app.example/cb#@evil.example",
        "https://app.example/cb/../../evil",
        "https://app.example/cb/..;/evil",
        "https://app.example/cb%2f..",
        "https://app.example/CB",
        "https://app.example/cb?",
        "https://app.example/cb&code=x",
        "https://app.example.:443/cb",
        "https://app.example:8443/cb",
        "https://xn--pp-zja.example/cb",
        "https://\u{430}pp.example/cb",
        "https://app\u{3002}example/cb",
        "https://app.example/cb\u{0}",
        "https://app.example/\tcb",
        "https://app.example/cb\r\nlocation: https://evil.example",
        " https://app.example/cb",
        "https:/app.example/cb",
        "https:app.example/cb",
        "https:///app.example/cb",
        "//app.example/cb",
        "/cb",
        "http://app.example/cb",
        "javascript:alert(1)//https://app.example/cb",
        "data:text/html,<script>alert(1)</script>",
        "claude://app.example/cb",
        "blob:https://app.example/cb",
        "view-source:https://app.example/cb",
        "http://localhost.evil.example/cb",
        "http://127.0.0.1.evil.example/cb",
        "http://127.0.0.1@evil.example/cb",
        "http://evil.example:127.0.0.1/cb",
        "http://127.0.0.2/cb",
        "http://0.0.0.0/cb",
        "http://[::1]/cb",
        "http://[::ffff:127.0.0.1]/cb",
        "https://127.0.0.1/cb",
        "http://127.0.0.1/cb/",
        "http://127.0.0.1/cb?x",
        "http://127.0.0.1:0x50/cb",
        "http://127.0.0.1:99999/cb",
    ] {
        let response = world.send(&get("/authorize", &written(&asking(&id, given))));
        assert_eq!((response.status, header(&response, "location")), (400, None), "{given:?}");
        assert!(!text(&response).contains("evil") && !text(&response).contains("<a "), "{given:?}");
    }
    for given in ["http://127.0.0.1:1/cb", "http://localhost:65535/cb", "http://LOCALHOST/cb"] {
        Page::open(&world, &asking(&id, given));
    }
}

#[test]
fn no_script_and_no_app_of_another_registers_an_address() {
    let world = hub();
    for uri in [
        "javascript:alert(1)",
        "JaVaScRiPt://app.example/%0aalert(1)",
        "data:text/html;base64,PHNjcmlwdD4=",
        "vbscript:x",
        "file:///etc/passwd",
        "claude://claude.ai/callback",
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "urn:ietf:wg:oauth:2.0:oob",
        "about:blank",
        "ws://localhost/",
        "ftp://localhost/",
        "http://app.example/cb",
        "https://user@app.example/cb",
        "https://app.example/cb#fragment",
        "https://app.example\\cb",
        "https://app.example/\"><script>",
        "https://",
        "",
    ] {
        let body = json!({ "redirect_uris": [uri] }).to_string();
        let response = world.send(&post("/register", "application/json", body));
        assert_eq!((response.status, &json_of(&response)["error"]), (400, &json!("invalid_redirect_uri")), "{uri}");
    }
    assert_eq!(world.send(&get("/authorize", "client_id=claude://x&redirect_uri=claude://x")).status, 400);
}

/// The owner is told that any program there might be waiting, whatever the scheme.
#[test]
fn loopback_is_warned_of_under_every_name() {
    let world = hub();
    for uri in
        ["http://localhost/cb", "http://127.0.0.1:8/cb", "http://[::1]/cb", "https://localhost/cb", "https://127.1/cb"]
    {
        let id = client(&world, &[uri]);
        let response = world.send(&get("/authorize", &written(&asking(&id, uri))));
        assert!(text(&response).contains("Any program there can pretend"), "{uri}");
    }
}

#[test]
fn header_injection_by_state_stays_inside_its_parameter() {
    let world = hub();
    let id = client(&world, &[CALLBACK]);
    let state = "x\r\nset-cookie: a=b\r\n\r\n<script>&code=evil&iss=https://evil.example#";
    let mut fields = asking(&id, CALLBACK);
    fields.retain(|(name, _)| *name != "state");
    fields.push(("state", state));
    let page = Page::open(&world, &fields);
    for request in [page.approving(&["tasks:read"]), page.sending(&[("decision", "deny")])] {
        let response = world.send(&request);
        let location = header(&response, "location").expect("a location");
        assert!(location.bytes().all(|b| b.is_ascii_graphic()) && location.starts_with("https://app.example/cb?"));
        assert_eq!(sent(&response, "state").as_deref(), Some(state));
        assert_eq!(sent(&response, "iss").as_deref(), Some(HUB));
        assert_ne!(sent(&response, "code").as_deref(), Some("evil"));
        assert_eq!(header(&response, "referrer-policy"), Some("no-referrer"));
    }
}
