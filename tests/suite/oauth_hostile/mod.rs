//! OAuth under attack: a browser that is led astray, a client that lies, a thief with a copy, a flood.

mod browser;
mod clients;
mod floods;
mod redirects;
mod tokens;

use serde_json::{Value as Json, json};
use taskhub::http::message::{Request, Response};
use url::form_urlencoded;

use crate::support::{OWNER_TOKEN, World};

const HUB: &str = "https://hub.example";
const CALLBACK: &str = "https://app.example/cb";
/// RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

type Fields<'f> = [(&'f str, &'f str)];

fn hub() -> World {
    World::with(&[("OWNER_PASSPHRASE", "correct horse battery staple")])
}

fn written(fields: &Fields<'_>) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

fn get(path: &str, query: &str) -> Request {
    let (method, origin) = ("GET".to_owned(), HUB.to_owned());
    Request { method, path: path.to_owned(), query: query.to_owned(), origin, ..Request::default() }
}

fn post(path: &str, content_type: &str, body: String) -> Request {
    let headers = vec![("content-type".to_owned(), content_type.to_owned())];
    Request { method: "POST".to_owned(), headers, body: body.into_bytes(), ..get(path, "") }
}

fn form(path: &str, fields: &Fields<'_>) -> Request {
    post(path, "application/x-www-form-urlencoded", written(fields))
}

fn with(mut request: Request, name: &str, value: &str) -> Request {
    request.headers.retain(|(found, _)| found != name);
    request.headers.push((name.to_owned(), value.to_owned()));
    request
}

fn from(request: Request, address: &str) -> Request {
    with(request, "cf-connecting-ip", address)
}

fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers.iter().find(|(found, _)| *found == name).map(|(_, value)| value.as_str())
}

fn text(response: &Response) -> &str {
    std::str::from_utf8(&response.body).expect("UTF-8")
}

fn json_of(response: &Response) -> Json {
    serde_json::from_slice(&response.body).unwrap_or(Json::Null)
}

/// The one value of a parameter of the address that the browser is sent to.
fn sent(response: &Response, name: &str) -> Option<String> {
    let location = header(response, "location")?;
    let query = location.split_once('?')?.1;
    let mut values = form_urlencoded::parse(query.as_bytes()).filter(|(found, _)| found == name);
    let value = values.next().map(|(_, value)| value.into_owned());
    assert!(values.next().is_none(), "{name} comes once in {location}");
    value
}

fn registered(world: &World, metadata: &Json) -> Json {
    let response = world.send(&post("/register", "application/json", metadata.to_string()));
    assert_eq!(response.status, 201, "{}", text(&response));
    json_of(&response)
}

/// Registers a public client with these redirect addresses and returns its id.
fn client(world: &World, redirect_uris: &[&str]) -> String {
    let metadata = json!({ "redirect_uris": redirect_uris, "token_endpoint_auth_method": "none" });
    registered(world, &metadata)["client_id"].as_str().expect("an id").to_owned()
}

fn asking<'f>(id: &'f str, redirect_uri: &'f str) -> Vec<(&'f str, &'f str)> {
    vec![
        ("response_type", "code"),
        ("client_id", id),
        ("redirect_uri", redirect_uri),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("state", "the state"),
    ]
}

/// A consent page in a browser.
struct Page {
    query: String,
    cookie: String,
    form_token: String,
}

impl Page {
    fn open(world: &World, fields: &Fields<'_>) -> Self {
        let query = written(fields);
        let response = world.send(&get("/authorize", &query));
        assert_eq!(response.status, 200, "{}", text(&response));
        let cookie = header(&response, "set-cookie").expect("a cookie").split(';').next().expect("a value").to_owned();
        let html = text(&response);
        let form_token = html.split("name=\"form_token\" value=\"").nth(1).expect("a token");
        let form_token = form_token.split('"').next().expect("its end").to_owned();
        Self { query, cookie, form_token }
    }

    /// The form, sent by this browser with these fields.
    fn sending(&self, fields: &Fields<'_>) -> Request {
        let mut all = vec![("form_token", self.form_token.as_str())];
        all.extend(fields);
        let request = with(form("/authorize", &all), "cookie", &self.cookie);
        Request { query: self.query.clone(), ..with(request, "origin", HUB) }
    }

    /// What the owner sends who approves these scopes. The owner's token spares the slow hash.
    fn approving(&self, scopes: &[&str]) -> Request {
        let mut fields = vec![("decision", "approve"), ("passphrase", OWNER_TOKEN)];
        fields.extend(scopes.iter().map(|scope| ("scope", *scope)));
        self.sending(&fields)
    }
}

/// A code for this client, as the owner's browser brings it to the client.
fn code(world: &World, id: &str) -> String {
    let page = Page::open(world, &asking(id, CALLBACK));
    sent(&world.send(&page.approving(&["tasks:read", "tasks:write"])), "code").expect("a code")
}

fn exchange(world: &World, id: &str, code: &str) -> Response {
    let fields = [
        ("grant_type", "authorization_code"),
        ("client_id", id),
        ("code", code),
        ("code_verifier", VERIFIER),
        ("redirect_uri", CALLBACK),
    ];
    world.send(&form("/token", &fields))
}

fn refresh(world: &World, id: &str, token: &str) -> Response {
    world.send(&form("/token", &[("grant_type", "refresh_token"), ("client_id", id), ("refresh_token", token)]))
}

fn access_of(response: &Response) -> String {
    assert_eq!(response.status, 200, "{}", text(response));
    json_of(response)["access_token"].as_str().expect("a token").to_owned()
}

fn refresh_of(response: &Response) -> String {
    assert_eq!(response.status, 200, "{}", text(response));
    json_of(response)["refresh_token"].as_str().expect("a token").to_owned()
}

/// The status of a call of the MCP endpoint with this token.
fn calls(world: &World, access: &str) -> u16 {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    let request = with(post("/mcp", "application/json", body), "authorization", &format!("Bearer {access}"));
    world.send(&request).status
}
