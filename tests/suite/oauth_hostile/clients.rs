//! Clients that lie about themselves, and documents that are not where they should be.

use serde_json::{Value as Json, json};
use taskhub::http::front;
use taskhub::http::message::{Fetched, Outcome, Request, Response};
use taskhub::http::router;

use super::{CALLBACK, Page, asking, client, get, header, hub, json_of, post, registered, text, with, written};
use crate::support::World;

const DOCUMENT: &str = "https://client.example/client.json";

/// What the hub does at the sight of this id: the address that it reads, or its refusal.
fn look(world: &World, id: &str, fetched: Option<Fetched>) -> Result<String, Response> {
    let request = Request { fetched, ..get("/authorize", &written(&asking(id, CALLBACK))) };
    match router::handle(&world.hub(), &request) {
        Outcome::Fetch(fetch) => Ok(fetch.url),
        Outcome::Reply(response) => Err(response),
        other => panic!("neither an answer nor a wish for a document: {other:?}"),
    }
}

fn with_document(world: &World, id: &str, document: &Json) -> Response {
    look(world, id, Some(Fetched::Document(document.to_string().into_bytes()))).expect_err("an answer")
}

#[test]
fn ssrf_no_spelling_of_a_private_address_is_read() {
    let world = hub();
    for host in [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "router",
        "nas.local",
        "metadata.google.internal",
        "printer.lan",
        "hub.home.arpa",
        "127.0.0.1",
        "127.1",
        "127.255.255.254",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "017700000001",
        "0177.0.0.1",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
        "127\u{3002}0\u{3002}0\u{3002}1",
        "0",
        "0.0.0.0",
        "10.0.0.1",
        "10.1",
        "100.64.0.1",
        "169.254.169.254",
        "0xa9fea9fe",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "192.168.257",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::127.0.0.1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::]",
        "[2002:a9fe:a9fe::1]",
        "[2001::1]",
        "[2001:db8::1]",
        "[3fff::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[100::1]",
        "[5f00::1]",
    ] {
        for scheme in ["https", "http"] {
            let response = look(&world, &format!("{scheme}://{host}/client.json"), None).expect_err(host);
            assert_eq!(response.status, 400, "{host}");
            assert!(!text(&response).contains(".."), "one stop ends a sentence: {}", text(&response));
        }
    }
    for id in [
        "https://client.example",
        "https://client.example/",
        "https://client.example/?x",
        "https://client.example/a/../client.json",
        "https://client.example/%2e%2e/client.json",
        "https://client.example/client.json#x",
        "https://client.example/client.json#",
        "https://CLIENT.example/client.json",
        "https://client.example:443/client.json",
        "https://user@client.example/client.json",
        "https://user:pw@client.example/client.json",
        "https://10.0.0.1@client.example/client.json",
        "https://client.example\\@10.0.0.1/client.json",
        "https:///client.example/client.json",
        "http://client.example/client.json",
        "ftp://client.example/client.json",
        "file:///etc/passwd",
        "javascript://client.example/%0aalert(1)",
        "claude://client.example/client.json",
        "https://client.example/client.json\r\nx: y",
        " https://client.example/client.json",
    ] {
        assert_eq!(look(&world, id, None).expect_err(id).status, 400, "{id}");
    }
    assert_eq!(look(&world, DOCUMENT, None), Ok(DOCUMENT.to_owned()));
}

#[test]
fn a_document_of_another_does_not_make_a_client() {
    let world = hub();
    let right = json!({ "client_id": DOCUMENT, "client_name": "Client", "redirect_uris": [CALLBACK] });
    let changed = |name: &str, value: Json| {
        let mut document = right.clone();
        document[name] = value;
        document
    };
    for wrong in [
        changed("client_id", json!("https://client.example/other.json")),
        changed("client_id", json!("HTTPS://client.example/client.json")),
        changed("client_id", json!([DOCUMENT])),
        changed("client_id", Json::Null),
        changed("client_secret", json!("s")),
        changed("token_endpoint_auth_method", json!("client_secret_post")),
        changed("token_endpoint_auth_method", json!("private_key_jwt")),
        changed("redirect_uris", json!(["javascript:alert(1)"])),
        json!([right]),
        json!("text"),
    ] {
        let response = with_document(&world, DOCUMENT, &wrong);
        assert_eq!((response.status, header(&response, "location")), (400, None), "{wrong}");
        assert!(!text(&response).contains(".."), "{}", text(&response));
    }
    assert_eq!(with_document(&world, DOCUMENT, &right).status, 200);
    let world = hub();
    let elsewhere = changed("redirect_uris", json!(["https://other.example/cb"]));
    let response = with_document(&world, DOCUMENT, &elsewhere);
    assert_eq!((response.status, header(&response, "location")), (400, None));
}

/// ChatGPT's document, as it is published: it prefers a method that this server lacks, and offers none beside it.
#[test]
fn a_document_that_offers_none_beside_another_method_is_taken() {
    let world = hub();
    let id = "https://chatgpt.com/oauth/client.json";
    let document = json!({
        "client_id": id,
        "client_uri": "https://chatgpt.com/",
        "redirect_uris": ["https://chatgpt.com/connector_platform_oauth_redirect", CALLBACK],
        "token_endpoint_auth_method": "private_key_jwt",
        "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "client_name": "ChatGPT",
        "token_endpoint_auth_signing_alg": "RS256",
        "jwks_uri": "https://chatgpt.com/oauth/jwks.json",
    });
    let page = with_document(&world, id, &document);
    assert_eq!(page.status, 200, "{}", text(&page));
    assert!(
        text(&page).contains("<bdi>ChatGPT</bdi> wants to use your taskhub") && text(&page).contains("chatgpt.com")
    );
}

/// What Cursor, VS Code, the Inspector and others send; an address of an app is left out where another is left.
#[test]
fn what_real_clients_register_is_taken() {
    let world = hub();
    for (name, given, kept) in [
        (
            "Cursor",
            vec![
                "cursor://anysphere.cursor-mcp/oauth/callback",
                "https://www.cursor.com/agents/mcp/oauth/callback",
                "http://localhost:8787/callback",
            ],
            2,
        ),
        ("Visual Studio Code", vec!["https://vscode.dev/redirect", "http://127.0.0.1/", "http://127.0.0.1:33418/"], 3),
        (
            "MCP Inspector",
            vec!["http://localhost:6274/oauth/callback", "http://localhost:6274/oauth/callback/debug"],
            2,
        ),
        ("ChatGPT", vec!["https://chatgpt.com/connector/oauth/abc"], 1),
        ("Claude", vec!["https://claude.ai/api/mcp/auth_callback"], 1),
        ("Gemini CLI MCP Client", vec!["http://localhost:7777/oauth/callback"], 1),
    ] {
        let metadata = json!({
            "client_name": name,
            "redirect_uris": given,
            "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
            "scope": "tasks:read offline_access",
            "software_id": "x",
            "contacts": [],
            "logo_uri": "https://app.example/logo.png",
        });
        let answer = registered(&world, &metadata);
        let uris = answer["redirect_uris"].as_array().expect("a list");
        assert_eq!(uris.len(), kept, "{name}");
        let (id, uri) = (answer["client_id"].as_str().expect("an id"), uris[kept - 1].as_str().expect("a text"));
        Page::open(&world, &asking(id, uri));
    }
}

/// `client_id` of one, name of another: each client is what its own id says.
#[test]
fn a_registration_cannot_take_the_place_of_a_client() {
    let world = hub();
    let first = client(&world, &[CALLBACK]);
    for id in [first.as_str(), "owner", "https://claude.ai/oauth/mcp-oauth-client-metadata", "*", ""] {
        let metadata =
            json!({ "client_id": id, "client_secret": "mine", "redirect_uris": ["https://evil.example/cb"] });
        let answer = registered(&world, &metadata);
        assert!(answer["client_id"].as_str().is_some_and(|given| given.starts_with("client-") && given != id));
        assert_ne!(answer["client_secret"], "mine");
    }
    let page = world.send(&get("/authorize", &written(&asking(&first, "https://evil.example/cb"))));
    assert_eq!(page.status, 400);
}

/// A page from elsewhere finds out nothing about a hub on somebody's own machine, and leaves nothing there.
#[test]
fn a_local_hub_answers_no_foreign_page() {
    let world = hub();
    let body = json!({ "redirect_uris": ["https://evil.example/cb"] }).to_string();
    for path in ["/mcp", "/token", "/register", "/revoke"] {
        let local = |origin: &str| {
            let request = with(post(path, "text/plain", body.clone()), "origin", origin);
            front::refuse(
                &Request { origin: "http://127.0.0.1:8787".to_owned(), ..request },
                &world.settings,
                world.now(),
            )
        };
        for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
            assert_eq!(local(origin).map(|response| response.status), Some(403), "{path} {origin}");
        }
        assert_ne!(local("http://localhost:6274").map(|response| response.status), Some(403), "{path}");
        let public = with(post(path, "text/plain", body.clone()), "origin", "https://inspector.example");
        let refusal = front::refuse(&public, &world.settings, world.now());
        assert_ne!(refusal.map(|response| response.status), Some(403), "{path}: any page may speak to a public hub");
    }
}

#[test]
fn the_token_endpoint_takes_no_one_at_his_word() {
    let world = hub();
    let confidential = registered(&world, &json!({ "redirect_uris": [CALLBACK] }));
    let id = confidential["client_id"].as_str().expect("an id");
    let public = client(&world, &[CALLBACK]);
    for fields in [
        vec![("client_id", id)],
        vec![("client_id", id), ("client_secret", "")],
        vec![("client_id", id), ("client_secret", "ths_AAAAAAAAAAAAAAAAAAAAAA")],
        vec![("client_id", public.as_str()), ("client_secret", "anything")],
        vec![("client_id", "unknown")],
        vec![],
    ] {
        let mut all = vec![("grant_type", "refresh_token"), ("refresh_token", "x")];
        all.extend(fields.clone());
        let response = world.send(&super::form("/token", &all));
        assert_eq!((response.status, &json_of(&response)["error"]), (401, &json!("invalid_client")), "{fields:?}");
    }
}
