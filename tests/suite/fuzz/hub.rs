//! A hub in the middle of its life, to which anything may be sent.

use serde_json::{Value as Json, json};
use taskhub::domain::file::Piece;
use taskhub::http::message::{Fetched, Outcome, Received, Request, Response};
use taskhub::http::{front, router};
use taskhub::store::database::{Row, Value};

use super::rules;
use crate::support::{Held, OWNER_TOKEN, World, task_for, task_in};

/// Refusals that may leave evidence.
const LATE: [&str; 3] = ["lease_lost", "canceled", "already_finished"];

/// The hub, and what its executor `bot` holds.
pub struct Fuzzed {
    pub world: World,
    pub key: String,
    pub held: Held,
    pub old: Held,
    tables: Vec<Table>,
}

/// A table, and which of its columns evidence changes.
struct Table {
    select: String,
    is_of_events: bool,
    of_evidence: Vec<bool>,
}

impl Fuzzed {
    /// One task is done, one is being worked on, two can be claimed.
    pub fn new() -> Self {
        let world = World::new();
        let key = world.executor("bot", &["q"]);
        let old = world.working("bot", &key);
        world.does("result", &old, json!({ "status": "completed", "result": "x" }));
        let held = world.working("bot", &key);
        world.submit(&task_for("bot"));
        world.submit(&task_in("q"));
        let tables = tables(&world);
        Self { world, key, held, old, tables }
    }

    /// The bytes with ids and credentials of this hub in the place of their names.
    pub fn filled(&self, bytes: &[u8]) -> Vec<u8> {
        let names = [
            ("$ID", &self.held.id),
            ("$OLDID", &self.old.id),
            ("$TOKEN", &self.held.token),
            ("$OLDTOKEN", &self.old.token),
            ("$KEY", &self.key),
        ];
        names.iter().fold(bytes.to_vec(), |bytes, (name, value)| replaced(&bytes, name.as_bytes(), value.as_bytes()))
    }

    /// The same for a text.
    pub fn filled_text(&self, text: &str) -> String {
        String::from_utf8(self.filled(text.as_bytes())).expect("it was a text")
    }

    /// Sends a request and checks what holds for every answer but its shape: a refusal changes nothing and tells no
    /// secret, and the front refuses nothing that the object would not.
    pub fn send(&self, request: &Request) -> Response {
        let before = self.rows();
        let refusal = front::refuse(request, &self.world.settings, self.world.now());
        let response = self.answered(request);
        if let Some(refusal) = refusal.filter(|refusal| request.method != "OPTIONS" && refusal.status != 403) {
            assert_eq!(refusal, response);
        }
        if self.is_error(&response) {
            let secrets = [OWNER_TOKEN, &self.world.settings.hub_secret, &self.key, &self.held.token, &self.old.token];
            rules::tells_no_secret(&response, &secrets);
            let body = rules::json(&response);
            let said = body["result"]["content"][0]["text"].as_str().unwrap_or_default();
            let leaves_evidence = LATE.iter().any(|code| body["code"] == **code || said.starts_with(code));
            let after = self.rows();
            if leaves_evidence {
                assert_eq!(self.without_evidence(after), self.without_evidence(before));
            } else {
                assert_eq!(after, before);
            }
        }
        response
    }

    /// Whether this is a refusal: by its status, or by what a single message says.
    fn is_error(&self, response: &Response) -> bool {
        let body = serde_json::from_slice(&response.body).unwrap_or(Json::Null);
        response.status >= 400 || body["error"].is_object() || body["result"]["isError"] == true
    }

    /// The answer, for which a request that waits waits as long as it wants.
    fn answered(&self, request: &Request) -> Response {
        let mut request = request.clone();
        for _ in 0..2 {
            match router::handle(&self.world.hub(), &request) {
                Outcome::Reply(response) => return response,
                Outcome::Wait(wait) => {
                    let ms = wait.until - self.world.now();
                    assert!((1..=50_000).contains(&ms), "it waits {ms} ms");
                    self.world.pass(ms);
                    request.resumed = Some(wait);
                }
                Outcome::Upgrade(socket) => panic!("it opens a socket: {socket:?}"),
                Outcome::Send(request) => panic!("it sends {request:?}"),
                Outcome::Download(response, _) => return response,
                Outcome::Receive(so_far) => {
                    let piece = Piece::Bytes { bytes: request.body.clone(), is_last: true };
                    request.received = Some(Received { so_far, piece });
                }
                Outcome::Fetch(fetch) => {
                    assert!(fetch.url.starts_with("https://"), "it reads {fetch:?}");
                    request.fetched = Some(Fetched::Failed("nothing is there".to_owned()));
                }
            }
        }
        panic!("it waits for more than it asked for: {request:?}");
    }

    /// Takes over what a good answer has brought: a new claim, a new key.
    pub fn learn(&mut self, response: &Response) {
        let body = serde_json::from_slice(&response.body).unwrap_or(Json::Null);
        for claim in [&body, &body["next"]] {
            if claim["claim_token"].is_string() {
                let held = crate::support::held(&self.key, claim);
                self.old = std::mem::replace(&mut self.held, held);
            }
        }
        if body["name"] == "bot"
            && let Some(key) = body["key"].as_str()
        {
            self.key = key.to_owned();
        }
    }

    /// Every row of every table.
    fn rows(&self) -> Vec<Vec<Row>> {
        self.tables.iter().map(|table| self.world.db.rows(&table.select)).collect()
    }

    /// The rows without what a refused call may leave.
    fn without_evidence(&self, mut all: Vec<Vec<Row>>) -> Vec<Vec<Row>> {
        for (table, rows) in self.tables.iter().zip(&mut all) {
            rows.retain(|row| !table.is_of_events || !row.contains(&Value::Text("late".to_owned())));
            for row in rows {
                let columns = row.iter_mut().zip(&table.of_evidence);
                columns.filter(|(_, is_evidence)| **is_evidence).for_each(|(value, _)| *value = Value::Null);
            }
        }
        all
    }
}

fn tables(world: &World) -> Vec<Table> {
    let names = |sql: &str| -> Vec<String> {
        let text = |row: &Row| match &row[0] {
            Value::Text(text) => text.clone(),
            other => panic!("{other:?} is not a name"),
        };
        world.db.rows(sql).iter().map(text).collect()
    };
    let table = |name: &String| Table {
        select: format!("SELECT * FROM {name}"),
        is_of_events: name == "task_events",
        of_evidence: names(&format!("SELECT name FROM pragma_table_info('{name}')"))
            .iter()
            .map(|column| ["late_events", "event_seq"].contains(&column.as_str()))
            .collect(),
    };
    names("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").iter().map(table).collect()
}

fn replaced(bytes: &[u8], name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(name.len()).position(|window| window == name) {
        all.extend_from_slice(&rest[..at]);
        all.extend_from_slice(value);
        rest = &rest[at + name.len()..];
    }
    all.extend_from_slice(rest);
    all
}

/// A request with these headers and this body.
pub fn request(method: &str, path: &str, headers: &[(&str, String)], body: Vec<u8>) -> Request {
    Request {
        method: method.to_owned(),
        path: path.to_owned(),
        origin: "https://hub.example".to_owned(),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        body,
        ..Request::default()
    }
}
