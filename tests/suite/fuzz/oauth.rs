//! The endpoints of OAuth and the formats of its credentials: nearly right requests, junk, and documents from outside.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value as Json, json};
use taskhub::domain::scope::{Scope, Scopes};
use taskhub::domain::token::{self, Handle};
use taskhub::http::message::{Fetched, Outcome, Request, Response};
use taskhub::http::{front, router};
use taskhub::oauth::{redirect, resource};
use url::{Url, form_urlencoded};

use super::shapes::{changes, text, value, written};
use super::{check, rules};
use crate::oauth::client::{
    self, CALLBACK, CHALLENGE, Connected, Page, VERIFIER, asking, exchange, form, get, header, landed, registration,
    with,
};
use crate::support::{OWNER_TOKEN, World};

/// A hub with clients in every state, and what they hold.
struct SigningIn {
    world: World,
    connected: Connected,
    secret_id: String,
    secret: String,
    code: String,
    page: Page,
}

fn signing_in() -> SigningIn {
    let world = client::hub();
    world.executor("bot", &[]);
    let connected = world.connected(&["tasks:read"]);
    let (secret_id, secret) = world.registers(&json!({ "redirect_uris": [CALLBACK] }));
    let code = world.code(&connected.client_id, &["tasks:read"]);
    let page = world.page(&asking(&connected.client_id));
    SigningIn { world, connected, secret_id, secret: secret.expect("a secret"), code, page }
}

/// What is said instead of, or beside, what is right.
fn odd() -> impl Strategy<Value = String> {
    let known = [
        "code",
        "token",
        "S256",
        "plain",
        CALLBACK,
        CHALLENGE,
        VERIFIER,
        "authorization_code",
        "refresh_token",
        "approve",
        "deny",
        "tasks:read",
        "hub:admin",
        "tasks:execute",
        "bot",
        "none",
        "https://hub.example/mcp",
        "https://evil.example/",
        "javascript:alert(1)",
        "https://app.example/client.json",
        "$CLIENT",
        "$SECRETID",
        "$SECRET",
        "$CODE",
        "$REFRESH",
        "$ACCESS",
        "thc_AAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAA",
        "thr_AAAAAAAAAAAAAAAAAAAAAA.1.AAAAAAAAAAAAAAAAAAAAAA",
        "tha_AAAAAAAAAAAAAAAAAAAAAA.9999999999.AAAAAAAAAAAAAAAAAAAAAA",
    ];
    prop_oneof![3 => select(known.to_vec()).prop_map(str::to_owned), 2 => text()]
}

/// A change to the fields of a form or query.
#[derive(Clone, Debug)]
enum Twist {
    Set(Index, String),
    Leave(Index),
    Double(Index),
    Add(String, String),
    Bytes(Index, Vec<u8>),
}

fn twists() -> impl Strategy<Value = Vec<Twist>> {
    let name = prop_oneof![
        4 => select(vec![
            "client_id", "client_secret", "redirect_uri", "state", "scope", "resource", "prompt", "request", "code", "code_verifier",
            "grant_type", "token", "refresh_token", "form_token", "decision", "executor", "passphrase",
        ]).prop_map(str::to_owned),
        1 => text(),
    ];
    let twist = prop_oneof![
        5 => (any::<Index>(), odd()).prop_map(|(at, text)| Twist::Set(at, text)),
        2 => any::<Index>().prop_map(Twist::Leave),
        1 => any::<Index>().prop_map(Twist::Double),
        3 => (name, odd()).prop_map(|(name, text)| Twist::Add(name, text)),
        1 => (any::<Index>(), proptest::collection::vec(any::<u8>(), 0..6)).prop_map(|(at, bytes)| Twist::Bytes(at, bytes)),
    ];
    prop_oneof![1 => Just(vec![]), 3 => proptest::collection::vec(twist, 1..4)]
}

impl SigningIn {
    fn filled(&self, text: &str) -> String {
        let names = [
            ("$CLIENT", &self.connected.client_id),
            ("$SECRETID", &self.secret_id),
            ("$SECRET", &self.secret),
            ("$CODE", &self.code),
            ("$REFRESH", &self.connected.refresh),
            ("$ACCESS", &self.connected.access),
        ];
        names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// The fields with these changes, as a query or form.
    fn twisted(&self, right: &client::Fields<'_>, twists: &[Twist]) -> Vec<u8> {
        let mut fields: Vec<(String, String)> =
            right.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        for twist in twists {
            let count = fields.len().max(1);
            match twist {
                Twist::Set(at, text) => {
                    if let Some(field) = fields.get_mut(at.index(count)) {
                        field.1 = self.filled(text);
                    }
                }
                Twist::Leave(at) if !fields.is_empty() => drop(fields.remove(at.index(count))),
                Twist::Double(at) if !fields.is_empty() => fields.push(fields[at.index(count)].clone()),
                Twist::Add(name, text) => fields.push((name.clone(), self.filled(text))),
                Twist::Leave(_) | Twist::Double(_) | Twist::Bytes(..) => {}
            }
        }
        let mut bytes = form_urlencoded::Serializer::new(String::new()).extend_pairs(&fields).finish().into_bytes();
        for twist in twists {
            if let Twist::Bytes(at, more) = twist {
                let at = at.index(bytes.len() + 1);
                bytes.splice(at..at, more.iter().copied());
            }
        }
        bytes
    }

    /// The answer, with this for a document that is wanted, after what holds for every answer has been checked.
    fn answered(&self, request: &Request, document: &Fetched) -> Response {
        let before = self.world.db.dump();
        front::is_repeatable(request);
        let response = match router::handle(&self.world.hub(), request) {
            Outcome::Reply(response) => response,
            Outcome::Fetch(fetch) => {
                assert!(fetch.url.starts_with("https://") && fetch.url.len() <= 2_048, "{fetch:?}");
                self.world.send(&Request { fetched: Some(document.clone()), ..request.clone() })
            }
            other => panic!("neither an answer nor a wish for a document: {other:?}"),
        };
        rules::is_no_fault(&response);
        if response.status >= 400 {
            let settings = &self.world.settings;
            let secrets = [OWNER_TOKEN, &settings.hub_secret, client::PASSPHRASE, &self.secret, &self.connected.access];
            // The page's form goes to the very address that it was asked for under.
            let secrets: Vec<&str> = secrets.into_iter().filter(|secret| !request.query.contains(*secret)).collect();
            rules::tells_no_secret(&response, &secrets);
            let left =
                |rows: Vec<String>| -> Vec<String> { rows.into_iter().filter(|row| !is_of_a_refusal(row)).collect() };
            assert_eq!(left(self.world.db.dump()), left(before), "a refusal writes nothing else");
        }
        response
    }
}

/// What a refusal may leave: that it was tried, that a replay ended a grant, and the client whose document was read.
fn is_of_a_refusal(row: &str) -> bool {
    row.starts_with("auth_tries") || row.starts_with("oauth_grants") || row.starts_with("oauth_clients")
}

/// An answer of the endpoints that clients call: JSON with a code of the RFCs, or an empty one.
fn is_of_oauth(response: &Response) {
    if response.body.is_empty() {
        assert_eq!(response.status, 200);
        return;
    }
    let body = rules::json(response);
    match body["error"].as_str() {
        Some(code) => {
            assert!(code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{code}");
            client::refused(response, response.status, code);
        }
        None => assert!([200, 201].contains(&response.status), "{body}"),
    }
}

/// A page, or a redirect to an address of the client and nowhere else.
fn is_of_the_page(response: &Response) {
    if response.status == 303 {
        let address = landed(response).address;
        assert_eq!(address, CALLBACK);
        return;
    }
    assert!([200, 400, 403, 409, 429].contains(&response.status), "{}", response.status);
    assert_eq!(header(response, "content-type"), Some("text/html; charset=utf-8"));
    let text = client::text_of(response);
    assert!(text.starts_with("<!DOCTYPE html>") && !text.contains("<script"), "{text}");
    assert_eq!(text.matches("<html").count(), 1);
}

#[test]
fn no_form_breaks_the_token_endpoints() {
    let cases = (select(vec!["code", "refresh", "secret", "revoke"]), twists(), proptest::option::weighted(0.2, odd()));
    check(120, &cases, |(what, twists, authorization)| {
        let hub = signing_in();
        let refresh = [
            ("grant_type", "refresh_token"),
            ("client_id", hub.connected.client_id.as_str()),
            ("refresh_token", hub.connected.refresh.as_str()),
        ];
        let secret = [
            ("grant_type", "refresh_token"),
            ("client_id", hub.secret_id.as_str()),
            ("client_secret", hub.secret.as_str()),
            ("refresh_token", hub.connected.refresh.as_str()),
        ];
        let (path, fields) = match what {
            "code" => ("/token", exchange(&hub.connected.client_id, &hub.code)),
            "refresh" => ("/token", refresh.to_vec()),
            "secret" => ("/token", secret.to_vec()),
            _ => (
                "/revoke",
                vec![("token", hub.connected.access.as_str()), ("client_id", hub.connected.client_id.as_str())],
            ),
        };
        let mut request = Request { body: hub.twisted(&fields, &twists), ..form(path, &[]) };
        if let Some(text) = authorization {
            request = with(request, "authorization", &format!("Basic {}", hub.filled(&text)));
        }
        is_of_oauth(&hub.answered(&request, &Fetched::Failed("it is not read".to_owned())));
    });
}

/// Looks at the page and answers on it: whatever is changed, the browser is sent nowhere but to the client.
#[test]
fn no_query_and_no_form_breaks_the_page() {
    let cases = (twists(), twists(), any::<bool>(), text());
    check(120, &cases, |(query, fields, is_answer, document)| {
        let hub = signing_in();
        let document = Fetched::Document(document.into_bytes());
        let query = String::from_utf8_lossy(&hub.twisted(&asking(&hub.connected.client_id), &query)).into_owned();
        let request = if is_answer {
            let right = [
                ("form_token", hub.page.form_token.as_str()),
                ("decision", "approve"),
                ("scope", "tasks:read"),
                ("passphrase", OWNER_TOKEN),
            ];
            Request { body: hub.twisted(&right, &fields), query, ..hub.page.answer(&[]) }
        } else {
            get("/authorize", &query)
        };
        is_of_the_page(&hub.answered(&request, &document));
    });
}

#[test]
fn no_body_breaks_a_registration() {
    let right = json!({
        "client_name": "An app", "client_uri": "https://app.example", "redirect_uris": [CALLBACK, "http://localhost/x"],
        "grant_types": ["authorization_code"], "response_types": ["code"], "token_endpoint_auth_method": "none", "scope": "tasks:read",
    });
    check(120, &changes(), |changes| {
        let hub = signing_in();
        let request = Request { body: written(&right, &changes), ..registration(&Json::Null) };
        let response = hub.answered(&request, &Fetched::Failed("it is not read".to_owned()));
        is_of_oauth(&response);
        if response.status == 201 {
            let body = rules::json(&response);
            for uri in body["redirect_uris"].as_array().expect("a list") {
                assert!(redirect::check(uri.as_str().expect("a text")).is_ok(), "{uri}");
            }
            assert!(body["client_name"].as_str().is_none_or(|name| name.chars().count() <= 100 && !name.is_empty()));
            // It can be asked for at once, whatever its name is.
            let uri = body["redirect_uris"][0].as_str().expect("a text");
            let id = body["client_id"].as_str().expect("an id");
            let query = client::written(&client::changed(&asking(id), "redirect_uri", Some(uri)));
            let shown = hub.world.send(&get("/authorize", &query));
            assert_eq!(shown.status, 200);
            rules::is_no_fault(&shown);
        }
    });
}

/// Documents from outside, of any shape: believed whole, or told on a page.
#[test]
fn no_document_breaks_the_page() {
    let id = "https://app.example/client.json";
    let right = json!({ "client_id": id, "client_name": "An app", "redirect_uris": [CALLBACK] });
    let body = prop_oneof![4 => changes().prop_map(move |changes| written(&right, &changes)), 1 => value().prop_map(|value| value.to_string().into_bytes())];
    check(100, &body, |body| {
        let hub = signing_in();
        let response = hub.answered(&get("/authorize", &client::written(&asking(id))), &Fetched::Document(body));
        is_of_the_page(&response);
    });
}

/// Client ids of any kind: only what is a public https address is ever read.
#[test]
fn only_proper_addresses_of_documents_are_read() {
    let hub = signing_in();
    check(500, &prop_oneof![3 => super::parsers::url(), 1 => odd()], |id| {
        let request = get("/authorize", &client::written(&asking(&id)));
        if let Outcome::Fetch(fetch) = router::handle(&hub.world.hub(), &request) {
            let url = Url::parse(&fetch.url).expect("an address");
            assert_eq!((fetch.url.as_str(), url.as_str(), url.scheme()), (id.as_str(), id.as_str(), "https"));
            assert!(url.path().len() > 1 && url.fragment().is_none() && url.username().is_empty(), "{id}");
            hub.world.pass(900_000);
        }
    });
}

#[test]
fn a_redirect_address_that_may_be_used_leads_where_it_seems_to() {
    check(800, &prop_oneof![4 => super::parsers::url(), 1 => odd()], |text| {
        let Ok(reach) = redirect::check(&text) else { return };
        let url = Url::parse(&text).expect("an address");
        assert!(text.is_ascii() && !text.contains(['\\', '#', ' ', '<', '"']), "{text}");
        assert!(url.username().is_empty() && url.password().is_none());
        let host = url.host_str().expect("a host");
        match reach {
            redirect::Reach::Site => assert_eq!(url.scheme(), "https"),
            redirect::Reach::Loopback => assert!(["localhost", "127.0.0.1", "[::1]"].contains(&host), "{host}"),
        }
        assert!(redirect::matches(&text, &text));
        let sent = redirect::with(&text, &[("state", "a&b\r\n"), ("iss", "https://hub.example")]);
        let sent = Url::parse(&sent).expect("an address");
        assert_eq!((sent.host_str(), sent.port(), sent.path()), (url.host_str(), url.port(), url.path()));
        assert!(sent.as_str().bytes().all(|b| b.is_ascii_graphic()));
        assert!(sent.query_pairs().any(|(name, value)| name == "state" && value == "a&b\r\n"));
    });
}

#[test]
fn a_resource_that_is_ours_is_at_our_origin() {
    let near =
        prop_oneof!["(https|HTTPS|http)://(hub|Hub|hub2).example(:443|:80)?(/|/mcp|/mcp/|/MCP|/x)?(\\?|#)?", odd()];
    check(500, &near, |text| {
        if resource::is_ours(&text, client::HUB) {
            let url = Url::parse(&text).expect("an address");
            assert_eq!(url.origin().ascii_serialization(), client::HUB);
            assert!(
                ["", "/", "/mcp", "/mcp/"].contains(&url.path()) && url.query().is_none() && url.fragment().is_none()
            );
        }
    });
}

#[test]
fn credentials_are_read_as_they_are_written_and_by_their_own_secret_only() {
    let cases = (any::<[u8; 16]>(), any::<u32>(), any::<i64>(), text(), text(), any::<i64>());
    check(300, &cases, |(random, generation, expires_at, secret, other, now)| {
        let handle = || Handle::new(random);
        let (code, refresh) = (token::code(&secret, &handle()), token::refresh(&secret, &handle(), generation));
        let access = token::access(&secret, "https://hub.example/mcp", &handle(), expires_at);
        assert!(token::read_code(&secret, &code) == Some(handle()));
        assert!(token::read_refresh(&secret, &refresh) == Some((handle(), generation)));
        let read = token::read_access(&secret, "https://hub.example/mcp", &access, now);
        match read {
            Ok(found) => assert!(found == handle() && expires_at.saturating_mul(1000) > now),
            Err(refused) => {
                assert_eq!(refused, token::AccessRefused::Expired);
                assert!(expires_at.saturating_mul(1000) <= now);
            }
        }
        assert_eq!(token::read_access(&secret, &other, &access, 0).err(), Some(token::AccessRefused::Foreign));
        // HMAC pads a key with zeros, and hashes one that is longer than its block.
        if secret.len() <= 64 && other.len() <= 64 && secret.trim_end_matches('\0') != other.trim_end_matches('\0') {
            assert!(token::read_code(&other, &code).is_none() && token::read_refresh(&other, &refresh).is_none());
        }
        for junk in [&other, &code, &access] {
            assert!(token::read_refresh(&secret, junk).is_none());
        }
        for junk in [&other, &refresh, &access] {
            assert!(token::read_code(&secret, junk).is_none());
        }
    });
}

#[test]
fn a_credential_that_is_nearly_right_is_none() {
    let hub = signing_in();
    let with = prop_oneof!["[A-Za-z0-9_.-]".prop_map(|text| text.chars().next().expect("one")), any::<char>()];
    let before = hub.world.db.dump();
    check(400, &(0_usize..3, any::<Index>(), with, 0_u8..4), |(which, at, with, how)| {
        let right = [&hub.code, &hub.connected.refresh, &hub.connected.access][which];
        let wrong = super::front::changed(right, &at, with, how);
        if wrong.trim() == right {
            return;
        }
        let id = &hub.connected.client_id;
        match which {
            0 => drop(client::refused(
                &hub.world.exchanges(id, &wrong),
                400,
                if wrong.is_empty() { "invalid_request" } else { "invalid_grant" },
            )),
            1 => drop(client::refused(
                &hub.world.refreshes(id, &wrong),
                400,
                if wrong.is_empty() { "invalid_request" } else { "invalid_grant" },
            )),
            _ => {
                let request = client::with(form("/mcp", &[]), "authorization", &format!("Bearer {wrong}"));
                assert_eq!(
                    front::refuse(&request, &hub.world.settings, hub.world.now()).map(|refusal| refusal.status),
                    Some(401)
                );
            }
        }
    });
    assert_eq!(hub.world.db.dump(), before);
}

#[test]
fn scopes_survive_their_text() {
    let words = proptest::collection::vec(
        prop_oneof![3 => select(vec!["tasks:read", "tasks:write", "tasks:execute", "hub:admin", "claudeai"]).prop_map(str::to_owned), 1 => text()],
        0..8,
    );
    check(300, &words, |words| {
        let scopes = Scopes::parse(&words.join(" "));
        assert_eq!(Scopes::parse(&scopes.to_string()), scopes);
        for scope in Scope::ALL {
            assert!(
                !scopes.names(scope)
                    || words.iter().any(|word| word.split_ascii_whitespace().any(|word| word == scope.name()))
            );
            assert!(!scopes.names(scope) || scopes.permit(scope));
        }
        assert!(!scopes.permit(Scope::HubAdmin) || scopes.names(Scope::HubAdmin));
        assert!(!scopes.permit(Scope::TasksExecute) || scopes.names(Scope::TasksExecute));
    });
}
