//! Clients that are known by the document at their id (the CIMD draft, and SEP-991 of MCP).

use serde_json::{Value as Json, json};
use taskhub::domain::limits::CLIENT_DOCUMENT_BYTES_MAX;
use taskhub::http::message::{Fetched, Outcome, Request, Response};
use taskhub::http::router;

use super::client::{CALLBACK, asking, form, from, get, header, hub, landed, page_of, refused, tokens, told, written};
use crate::support::World;

const ID: &str = "https://app.example/client.json";
const CLAUDE: &str = "https://claude.ai/oauth/mcp-oauth-client-metadata";
const CLAUDE_CODE: &str = "https://claude.ai/oauth/claude-code-client-metadata";
const DAY_MS: i64 = 86_400_000;

fn document(id: &str) -> Json {
    json!({
        "client_id": id,
        "client_name": "An app",
        "client_uri": "https://app.example",
        "redirect_uris": [CALLBACK],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    })
}

fn read(document: &Json) -> Fetched {
    Fetched::Document(document.to_string().into_bytes())
}

fn failed() -> Fetched {
    Fetched::Failed("its address answers 503".to_owned())
}

fn look(id: &str) -> Request {
    get("/authorize", &written(&asking(id)))
}

/// A look at `/authorize` for a client whose document must be read.
fn look_with(world: &World, id: &str, fetched: Fetched) -> Response {
    let (url, response) = world.send_with_document(&look(id), fetched);
    assert_eq!(url.as_deref(), Some(id), "the document is read");
    response
}

/// A look for which nothing is read.
fn look_without(world: &World, id: &str) -> Response {
    let (url, response) = world.send_with_document(&look(id), failed());
    assert_eq!(url, None, "nothing is read");
    response
}

#[test]
fn a_client_is_known_by_its_document() {
    let world = hub();
    let response = look_with(&world, ID, read(&document(ID)));
    let page = page_of(&response, &written(&asking(ID)));
    assert!(page.text.contains("An app") && page.text.contains("app.example"), "{}", page.text);
    // The second request for it, the form, and the exchange read nothing.
    let code = landed(&world.send(&page.approval(&["tasks:read"]))).one("code").expect("a code").to_owned();
    let connected = tokens(ID, &world.exchanges(ID, &code));
    assert!(world.is_good(&connected.access));
    tokens(ID, &world.refreshes(ID, &connected.refresh));
}

#[test]
fn reading_is_bounded_in_bytes_and_time() {
    let Outcome::Fetch(fetch) = router::handle(&hub().hub(), &look(ID)) else { panic!("it must be read first") };
    assert_eq!((fetch.url.as_str(), fetch.bytes_max, fetch.timeout_ms), (ID, CLIENT_DOCUMENT_BYTES_MAX, 5_000));
}

/// CIMD §3: the address and the id in it are compared as strings.
#[test]
fn a_document_must_name_its_own_address_to_the_letter() {
    let world = hub();
    for other in [
        "https://app.example/client.json/",
        "https://APP.example/client.json",
        "https://app.example:443/client.json",
        "https://app.example/client.json?",
        "http://app.example/client.json",
        "https://evil.example/client.json",
        "",
    ] {
        let mut wrong = document(ID);
        wrong["client_id"] = json!(other);
        assert!(told(&look_with(&world, ID, read(&wrong)), 400).contains("client_id"), "{other}");
    }
    for other in [Json::Null, json!([ID]), json!(7)] {
        let mut wrong = document(ID);
        wrong["client_id"] = other;
        told(&look_with(&world, ID, read(&wrong)), 400);
    }
}

/// CIMD §2: https, a path, no dot segments, no fragment, no user. What is not in its normal form could be read in two ways.
#[test]
fn an_id_that_is_no_proper_address_is_refused_unread() {
    let world = hub();
    let before = world.db.dump();
    let long = format!("https://app.example/{}", "a".repeat(2_048));
    for id in [
        "http://app.example/client.json",
        "ftp://app.example/client.json",
        "javascript://app.example/%0aalert(1)",
        "claude://client.json",
        "https://app.example",
        "https://app.example/",
        "https://app.example/?x=1",
        "https://app.example?x",
        "https://app.example/client.json#",
        "https://app.example/client.json#x",
        "https://user@app.example/client.json",
        "https://user:secret@app.example/client.json",
        "https://@app.example/client.json",
        "https://app.example/../client.json",
        "https://app.example/a/./client.json",
        "https://app.example/a/../client.json",
        "https://app.example/a/%2e%2e/client.json",
        "https://app.example/a/%2E/client.json",
        "https://APP.example/client.json",
        "HTTPS://app.example/client.json",
        "https://app.example:443/client.json",
        "https:/app.example/client.json://",
        "https://app.example\\client.json",
        "https://app.example/cli\tent.json",
        "https://app.example/client.json ",
        " https://app.example/client.json",
        "https://app.example/a b.json",
        "https://\u{0430}pp.example/client.json",
        "://",
        "https://",
        &long,
    ] {
        let text = told(&look_without(&world, id), 400);
        assert!(!text.contains("secret"), "{id}");
        let why = text.split("cannot be: ").nth(1).and_then(|rest| rest.split(".</p>").next());
        let is_unknown = text.contains("not registered");
        assert!(is_unknown || why.is_some_and(|why| why.starts_with("it ") && !why.contains('.')), "{id}: {text}");
    }
    assert_eq!(world.db.dump(), before, "and takes no try");
}

/// Every way to write an address that is not the public internet's.
#[test]
fn no_spelling_of_a_private_address_is_read() {
    let world = hub();
    for host in [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "0",
        "0.0.0.0",
        "10.0.0.1",
        "10.1",
        "0xa000001",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "192.168.1",
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "0251.0376.0251.0376",
        "100.64.0.1",
        "198.18.0.1",
        "192.0.0.1",
        "192.0.2.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[::ffff:169.254.169.254]",
        "[fe80::1]",
        "[fc00::1]",
        "[fd00::1]",
        "[ff02::1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:7f00:1::]",
        "[2002:c0a8:1::1]",
        "[2001::1]",
        "[2001:db8::1]",
        "[3fff::1]",
        "[100::1]",
        "router",
        "hub",
        "nas.local",
        "db.internal",
        "x.intranet",
        "x.lan",
        "x.home.arpa",
        "x.corp",
        "metadata.google.internal",
        "x.localdomain",
        "%6c%6f%63%61%6c%68%6f%73%74",
        "\u{24db}ocalhost",
        "127。0。0。1",
        "①27.0.0.1",
    ] {
        for id in [format!("https://{host}/client.json"), format!("https://{host}:8443/client.json")] {
            told(&look_without(&world, &id), 400);
        }
    }
}

#[test]
fn with_private_targets_allowed_a_local_document_is_read() {
    let world = World::with(&[("ALLOW_PRIVATE_WEBHOOKS", "true")]);
    let id = "http://127.0.0.1:9999/client.json";
    let mut local = document(id);
    local["redirect_uris"] = json!([CALLBACK]);
    assert_eq!(look_with(&world, id, read(&local)).status, 200);
}

#[test]
fn a_document_that_cannot_be_believed_is_told_on_a_page() {
    let world = hub();
    let changed = |field: &str, value: Json| {
        let mut wrong = document(ID);
        wrong[field] = value;
        wrong.to_string()
    };
    let bodies = [
        String::new(),
        "<!doctype html><title>403</title>".to_owned(),
        "[]".to_owned(),
        "null".to_owned(),
        "{".to_owned(),
        changed("client_secret", json!("s")),
        changed("client_secret", json!("")),
        changed("token_endpoint_auth_method", json!("client_secret_post")),
        changed("token_endpoint_auth_method", json!("client_secret_basic")),
        changed("token_endpoint_auth_method", json!("private_key_jwt")),
        changed("redirect_uris", json!([])),
        changed("redirect_uris", Json::Null),
        changed("redirect_uris", json!(["claude://x", "javascript:alert(1)"])),
        changed("grant_types", json!(["client_credentials"])),
        changed("response_types", json!(["token"])),
    ];
    for body in bodies {
        let response = look_with(&world, ID, Fetched::Document(body.clone().into_bytes()));
        assert!(told(&response, 400).contains("description could not be used"), "{body}");
    }
    let not_text = Fetched::Document(vec![0xff, 0xfe, 0x00]);
    told(&look_with(&world, ID, not_text), 400);
    told(&look_with(&world, ID, failed()), 400);
    let shown = world.owner("GET", "/api/clients", Json::Null).1;
    assert_eq!(shown["clients"], json!([]), "errors are not kept");
    assert_eq!(
        look_with(&world, ID, read(&document(ID))).status,
        200,
        "and a document that was mended is taken at once"
    );
}

#[test]
fn a_document_is_taken_for_a_day_and_then_read_again() {
    let world = hub();
    look_with(&world, ID, read(&document(ID)));
    world.pass(DAY_MS - 1);
    assert_eq!(look_without(&world, ID).status, 200);
    world.pass(1);
    let mut renamed = document(ID);
    renamed["client_name"] = json!("Another name");
    renamed["redirect_uris"] = json!([format!("{CALLBACK}/2")]);
    let response = look_with(&world, ID, read(&renamed));
    assert!(told(&response, 400).contains("not an address that this client has registered"), "the new addresses hold");
    renamed["redirect_uris"] = json!([CALLBACK]);
    world.pass(DAY_MS);
    let response = look_with(&world, ID, read(&renamed));
    assert!(page_of(&response, "").text.contains("Another name"));
}

#[test]
fn what_was_read_holds_while_the_document_cannot_be_read() {
    let world = hub();
    look_with(&world, ID, read(&document(ID)));
    for fetched in [failed(), Fetched::Document(b"<html>".to_vec()), read(&json!({ "client_id": ID }))] {
        world.pass(DAY_MS);
        assert_eq!(look_with(&world, ID, fetched).status, 200);
    }
    assert_eq!(look_with(&world, ID, read(&document(ID))).status, 200, "it is tried again each time");
    look_without(&world, ID);
}

#[test]
fn claudes_own_documents_are_known_without_reading_them() {
    for (id, redirect_uri) in [
        (CLAUDE, "https://claude.ai/api/mcp/auth_callback"),
        (CLAUDE, "https://claude.com/api/mcp/auth_callback"),
        (CLAUDE_CODE, "http://localhost:51234/callback"),
        (CLAUDE_CODE, "http://127.0.0.1:51234/callback"),
    ] {
        for fetched in [failed(), Fetched::Document(b"<html>Just a moment...</html>".to_vec())] {
            let world = hub();
            let fields = super::client::changed(&asking(id), "redirect_uri", Some(redirect_uri));
            let (url, response) = world.send_with_document(&get("/authorize", &written(&fields)), fetched);
            assert_eq!((url.as_deref(), response.status), (Some(id), 200), "{redirect_uri}");
        }
    }
    for redirect_uri in ["https://claude.ai.evil.example/api/mcp/auth_callback", "https://claude.ai/other"] {
        let fields = super::client::changed(&asking(CLAUDE), "redirect_uri", Some(redirect_uri));
        let (_, response) = hub().send_with_document(&get("/authorize", &written(&fields)), failed());
        told(&response, 400);
    }
}

/// What Claude's document says itself wins over what it is known to say.
#[test]
fn a_pinned_document_is_read_when_it_can_be() {
    let world = hub();
    let response = look_with(&world, CLAUDE, read(&document(CLAUDE)));
    assert!(page_of(&response, "").text.contains("An app"));
}

#[test]
fn how_many_documents_are_read_is_limited() {
    let world = hub();
    let look_from = |number: usize, address: &str| {
        let id = format!("https://app.example/{number}.json");
        world.send_with_document(&from(look(&id), address), failed())
    };
    for number in 0..20 {
        assert!(look_from(number, "192.0.2.1").0.is_some());
    }
    let before = world.db.dump();
    for number in 20..60 {
        let (url, response) = look_from(number, "192.0.2.1");
        assert_eq!(url, None, "nothing is read");
        told(&response, 429);
        assert_eq!(header(&response, "retry-after"), Some("3600"));
    }
    assert_eq!(world.db.dump(), before, "a flood writes no rows");
    for address in ["192.0.2.2", "192.0.2.3"] {
        (0..20).for_each(|number| assert!(look_from(number, address).0.is_some()));
    }
    let (url, response) = look_from(0, "192.0.2.4");
    assert_eq!((url, response.status), (None, 429), "and in total");
    let (url, response) = world.send_with_document(&from(look_claude(), "192.0.2.4"), failed());
    assert_eq!((url, response.status), (None, 200), "Claude gets in all the same");
    world.pass(3_600_000);
    assert!(look_from(0, "192.0.2.1").0.is_some());
}

fn look_claude() -> Request {
    let callback = "https://claude.ai/api/mcp/auth_callback";
    get("/authorize", &written(&super::client::changed(&asking(CLAUDE), "redirect_uri", Some(callback))))
}

/// The endpoints that clients call read nothing: who was never at `/authorize` is not known there.
#[test]
fn the_token_endpoint_reads_no_document() {
    let world = hub();
    for path in ["/token", "/revoke"] {
        let fields = [("grant_type", "refresh_token"), ("client_id", ID), ("refresh_token", "x"), ("token", "x")];
        refused(&world.send(&form(path, &fields)), 401, "invalid_client");
    }
}
