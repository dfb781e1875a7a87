//! A client, a browser and an owner over the router, and what they expect of every answer.

use serde_json::{Value as Json, json};
use taskhub::domain::passphrase::hashed;
use taskhub::domain::secret::short_mac;
use taskhub::http::message::{Fetched, Outcome, Request, Response};
use taskhub::http::router;
use taskhub::store::owner::{PassphraseRow, set_passphrase};
use url::form_urlencoded;

use crate::support::{OWNER_TOKEN, World};

/// The origin of the hub in every test.
pub const HUB: &str = "https://hub.example";
/// The owner's passphrase.
pub const PASSPHRASE: &str = "correct horse battery staple";
/// Where the client's answers go.
pub const CALLBACK: &str = "https://app.example/callback";
/// A verifier and its challenge (RFC 7636, appendix B).
pub const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
pub const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// Names and values of a query or a form.
pub type Fields<'f> = [(&'f str, &'f str)];

/// A hub whose owner has a passphrase that was hashed long ago, in one round: so checking it takes no time.
pub fn hub() -> World {
    let world = World::with(&[("OWNER_PASSPHRASE", PASSPHRASE)]);
    let row = PassphraseRow {
        hash: hashed(PASSPHRASE, [7; 16], 1),
        bootstrap: short_mac(&world.settings.hub_secret, "owner-passphrase", &[PASSPHRASE]),
        changed_at: 0,
    };
    set_passphrase(&world.db, &row).expect("it is written");
    world
}

/// The fields as a query or a form writes them.
pub fn written(fields: &Fields<'_>) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// The fields with this one changed; left out if there is no value.
pub fn changed<'f>(fields: &Fields<'f>, name: &'f str, value: Option<&'f str>) -> Vec<(&'f str, &'f str)> {
    let mut all: Vec<_> = fields.iter().copied().filter(|(found, _)| *found != name).collect();
    all.extend(value.map(|value| (name, value)));
    all
}

pub fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers.iter().find(|(found, _)| *found == name).map(|(_, value)| value.as_str())
}

pub fn json_of(response: &Response) -> Json {
    serde_json::from_slice(&response.body).unwrap_or_else(|error| panic!("{error} in {response:?}"))
}

pub fn text_of(response: &Response) -> &str {
    std::str::from_utf8(&response.body).expect("UTF-8")
}

/// A GET without credentials.
pub fn get(path: &str, query: &str) -> Request {
    Request {
        method: "GET".to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        origin: HUB.to_owned(),
        ..Request::default()
    }
}

/// A POST of a form without credentials.
pub fn form(path: &str, fields: &Fields<'_>) -> Request {
    let content_type = ("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned());
    Request {
        method: "POST".to_owned(),
        headers: vec![content_type],
        body: written(fields).into_bytes(),
        ..get(path, "")
    }
}

/// The request with one more header.
pub fn with(mut request: Request, name: &str, value: &str) -> Request {
    request.headers.push((name.to_owned(), value.to_owned()));
    request
}

/// The request as it comes from this address.
pub fn from(request: Request, address: &str) -> Request {
    with(request, "cf-connecting-ip", address)
}

/// A registration with this body.
pub fn registration(metadata: &Json) -> Request {
    let body = metadata.to_string().into_bytes();
    with(Request { method: "POST".to_owned(), body, ..get("/register", "") }, "content-type", "application/json")
}

/// Checks that a response is an OAuth error of this status and code (RFC 6749 §5.2), and returns its description.
pub fn refused(response: &Response, status: u16, code: &str) -> String {
    let body = json_of(response);
    assert_eq!((response.status, &body["error"]), (status, &json!(code)), "{body}");
    assert_eq!(header(response, "content-type"), Some("application/json"));
    assert_eq!(header(response, "cache-control"), Some("no-store"));
    assert_eq!(header(response, "pragma"), Some("no-cache"));
    let description = body["error_description"].as_str().expect("a text").to_owned();
    let is_permitted = |b: u8| (0x20..=0x7e).contains(&b) && b != b'"' && b != b'\\';
    assert!(description.len() > 20 && description.bytes().all(is_permitted), "{description:?}");
    description
}

/// Checks that a response is the page that says why the owner is not asked, and returns its text.
pub fn told(response: &Response, status: u16) -> String {
    let text = text_of(response).to_owned();
    assert_eq!(response.status, status, "{text}");
    assert!(text.contains("This client cannot be connected") && !text.contains("<form"), "{text}");
    assert_eq!(header(response, "location"), None);
    text
}

/// Where a browser is sent, with the parameters that it takes along.
#[derive(Debug)]
pub struct Landed {
    pub address: String,
    pub parameters: Vec<(String, String)>,
}

impl Landed {
    /// The one value of a parameter.
    pub fn one(&self, name: &str) -> Option<&str> {
        let mut all = self.parameters.iter().filter(|(found, _)| found == name).map(|(_, value)| value.as_str());
        let first = all.next();
        assert_eq!(all.next(), None, "{name} comes once in {self:?}");
        first
    }
}

/// Checks that a response sends the browser on, and returns where.
pub fn landed(response: &Response) -> Landed {
    assert_eq!(response.status, 303, "{}", text_of(response));
    assert_eq!(header(response, "cache-control"), Some("no-store"));
    let location = header(response, "location").expect("a location");
    assert!(location.bytes().all(|b| b.is_ascii_graphic()), "{location:?}");
    let (address, query) = location.split_once('?').expect("parameters");
    let parameters = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    Landed { address: address.to_owned(), parameters }
}

/// Checks that the browser is sent back with this error, with state and issuer, and returns the description.
pub fn sent_back(response: &Response, error: &str) -> String {
    let landed = landed(response);
    assert_eq!(landed.one("error"), Some(error), "{landed:?}");
    assert_eq!(landed.one("iss"), Some(HUB));
    assert_eq!(landed.one("code"), None);
    landed.one("error_description").expect("a description").to_owned()
}

/// What a client asks for at `/authorize`.
pub fn asking(client_id: &str) -> Vec<(&str, &str)> {
    vec![
        ("response_type", "code"),
        ("client_id", client_id),
        ("redirect_uri", CALLBACK),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("state", "the state"),
    ]
}

/// A consent page in a browser.
pub struct Page {
    pub query: String,
    /// The cookie as the browser sends it.
    pub cookie: String,
    pub form_token: String,
    pub text: String,
}

impl Page {
    /// The form as the browser sends it, with these fields beside the hidden one.
    pub fn answer(&self, fields: &Fields<'_>) -> Request {
        let mut all = vec![("form_token", self.form_token.as_str())];
        all.extend_from_slice(fields);
        let request = Request { query: self.query.clone(), ..form("/authorize", &all) };
        with(with(request, "cookie", &self.cookie), "origin", HUB)
    }

    /// The form with the owner's approval of these scopes. The owner's token takes the place of the passphrase, which is slow.
    pub fn approval(&self, scopes: &[&str]) -> Request {
        let mut fields = vec![("decision", "approve"), ("passphrase", OWNER_TOKEN)];
        fields.extend(scopes.iter().map(|scope| ("scope", *scope)));
        self.answer(&fields)
    }
}

/// Reads a consent page.
pub fn page_of(response: &Response, query: &str) -> Page {
    let text = text_of(response).to_owned();
    let after = text.split("name=\"form_token\" value=\"").nth(1).unwrap_or_else(|| panic!("no form in {text}"));
    let form_token = after.split('"').next().expect("an end").to_owned();
    let cookie = header(response, "set-cookie").and_then(|cookie| cookie.split(';').next()).unwrap_or_default();
    Page { query: query.to_owned(), cookie: cookie.to_owned(), form_token, text }
}

/// What a client holds after the owner has approved it.
#[derive(Clone, Debug, PartialEq)]
pub struct Connected {
    pub client_id: String,
    pub access: String,
    pub refresh: String,
}

impl World {
    /// Registers a client and returns its id; with a method that needs it, it has a secret.
    pub fn registers(&self, metadata: &Json) -> (String, Option<String>) {
        let response = self.send(&registration(metadata));
        let body = json_of(&response);
        assert_eq!(response.status, 201, "{body}");
        let text = |field: &str| body[field].as_str().map(str::to_owned);
        (text("client_id").expect("an id"), text("client_secret"))
    }

    /// A public client with one redirect address.
    pub fn public_client(&self) -> String {
        let method = "none";
        self.registers(&json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": method })).0
    }

    /// A public client that the owner has approved before: it is told of its mistakes by redirect.
    pub fn approved_client(&self) -> String {
        self.connected(&["tasks:read"]).client_id
    }

    /// Shows the owner what the client asks for.
    pub fn page(&self, fields: &Fields<'_>) -> Page {
        let query = written(fields);
        let response = self.send(&get("/authorize", &query));
        assert_eq!(response.status, 200, "{}", text_of(&response));
        page_of(&response, &query)
    }

    /// Lets the owner approve this, and returns the code.
    pub fn code(&self, client_id: &str, scopes: &[&str]) -> String {
        let page = self.page(&asking(client_id));
        landed(&self.send(&page.approval(scopes))).one("code").expect("a code").to_owned()
    }

    /// Sends a form to `/token`.
    pub fn token(&self, fields: &Fields<'_>) -> Response {
        self.send(&form("/token", fields))
    }

    /// A public client exchanges its code.
    pub fn exchanges(&self, client_id: &str, code: &str) -> Response {
        self.token(&exchange(client_id, code))
    }

    /// A public client uses a refresh token.
    pub fn refreshes(&self, client_id: &str, refresh: &str) -> Response {
        self.token(&[("grant_type", "refresh_token"), ("client_id", client_id), ("refresh_token", refresh)])
    }

    /// A new public client with tokens of these scopes.
    pub fn connected(&self, scopes: &[&str]) -> Connected {
        let client_id = self.public_client();
        let code = self.code(&client_id, scopes);
        tokens(&client_id, &self.exchanges(&client_id, &code))
    }

    /// A new public client that asks for these scopes, with tokens of those.
    pub fn connected_asking(&self, scope: &str, scopes: &[&str]) -> Connected {
        let client_id = self.public_client();
        let page = self.page(&changed(&asking(&client_id), "scope", Some(scope)));
        let code = landed(&self.send(&page.approval(scopes))).one("code").expect("a code").to_owned();
        tokens(&client_id, &self.exchanges(&client_id, &code))
    }

    /// A new public client that may work as this executor.
    pub fn connected_as(&self, executor: &str) -> Connected {
        let client_id = self.public_client();
        let page = self.page(&changed(&asking(&client_id), "scope", Some("tasks:execute")));
        let fields =
            [("decision", "approve"), ("scope", "tasks:execute"), ("executor", executor), ("passphrase", OWNER_TOKEN)];
        let code = landed(&self.send(&page.answer(&fields))).one("code").expect("a code").to_owned();
        tokens(&client_id, &self.exchanges(&client_id, &code))
    }

    /// Calls a tool under this token, in the newest era.
    pub fn tool(&self, bearer: &str, name: &str, arguments: Json) -> Response {
        let mut request =
            crate::mcp::client::modern_request("tools/call", json!({ "name": name, "arguments": arguments }));
        request.headers.retain(|(name, _)| name != "authorization");
        self.send(&with(request, "authorization", &format!("Bearer {bearer}")))
    }

    /// Whether this access token is good for a look at the hub.
    pub fn is_good(&self, access: &str) -> bool {
        let status = self.tool(access, "hub_status", json!({})).status;
        assert!([200, 401].contains(&status), "{status}");
        status == 200
    }

    /// The grants as the owner sees them.
    pub fn grants(&self) -> Vec<Json> {
        let (status, body) = self.owner("GET", "/api/grants", Json::Null);
        assert_eq!(status, 200, "{body}");
        body["grants"].as_array().expect("a list").clone()
    }

    /// Sends a request for which a client's document is needed: what is read there, and how the hub answers then. `None` if
    /// the document is not needed.
    pub fn send_with_document(&self, request: &Request, document: Fetched) -> (Option<String>, Response) {
        match router::handle(&self.hub(), request) {
            Outcome::Reply(response) => (None, response),
            Outcome::Fetch(fetch) => {
                let again = Request { fetched: Some(document), ..request.clone() };
                (Some(fetch.url), self.send(&again))
            }
            other => panic!("neither an answer nor a wish for a document: {other:?}"),
        }
    }
}

/// The form of an exchange by a public client.
pub fn exchange<'f>(client_id: &'f str, code: &'f str) -> Vec<(&'f str, &'f str)> {
    vec![
        ("grant_type", "authorization_code"),
        ("client_id", client_id),
        ("code", code),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
    ]
}

/// Checks an answer with tokens (RFC 6749 §5.1), and returns them.
pub fn tokens(client_id: &str, response: &Response) -> Connected {
    let body = json_of(response);
    assert_eq!(response.status, 200, "{body}");
    assert_eq!(header(response, "content-type"), Some("application/json"));
    assert_eq!(header(response, "cache-control"), Some("no-store"));
    assert_eq!(header(response, "pragma"), Some("no-cache"));
    assert_eq!(body["token_type"], "Bearer");
    assert!(body["expires_in"].as_i64().is_some_and(|seconds| seconds > 0), "{body}");
    assert!(body["scope"].is_string(), "{body}");
    let text = |field: &str| body[field].as_str().expect("a text").to_owned();
    Connected { client_id: client_id.to_owned(), access: text("access_token"), refresh: text("refresh_token") }
}
