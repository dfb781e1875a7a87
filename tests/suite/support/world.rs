//! A hub with a clock and a chance that the test controls.

use std::cell::Cell;

use serde_json::{Value as Json, json};
use taskhub::domain::settings::Settings;
use taskhub::http::message::{Outcome, Request, Response, Wait};
use taskhub::http::router;
use taskhub::hub::{Effects, Entropy, Hub, Presence};
use taskhub::store::database::{Database as _, Value};
use taskhub::store::migrate::migrate;

use super::native::NativeDatabase;

/// The owner's token in every test.
pub const OWNER_TOKEN: &str = "owner-token-of-the-tests";

/// Default settings with a secret and an owner's token, changed by the given variables.
pub fn settings(vars: &[(&str, &str)]) -> Settings {
    let var = |name: &str| {
        let given = vars.iter().find(|(given, _)| *given == name).map(|(_, value)| (*value).to_owned());
        given.or_else(|| match name {
            "HUB_SECRET" => Some("a secret of the tests, long enough".to_owned()),
            "OWNER_TOKEN" => Some(OWNER_TOKEN.to_owned()),
            _ => None,
        })
    };
    Settings::from_vars(var).expect("the settings of a test are right")
}

/// Numbers in a row instead of chance, so that every run is the same.
#[derive(Default)]
struct Counting(Cell<u64>);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            // splitmix64, one step a byte: spread out, and the same in every run.
            let next = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.0.set(next);
            let mixed = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            *byte = (mixed >> 32) as u8;
        }
    }
}

/// A hub, its database and its clock.
pub struct World {
    pub db: NativeDatabase,
    pub settings: Settings,
    pub presence: Presence,
    entropy: Counting,
    now: Cell<i64>,
}

impl World {
    /// An empty hub with default settings, at a fixed moment.
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// An empty hub with these variables set.
    pub fn with(vars: &[(&str, &str)]) -> Self {
        let db = NativeDatabase::in_memory();
        migrate(&db).expect("a fresh database migrates");
        let now = Cell::new(1_800_000_000_000);
        Self { db, settings: settings(vars), presence: Presence::default(), entropy: Counting::default(), now }
    }

    /// The clock, in milliseconds.
    pub fn now(&self) -> i64 {
        self.now.get()
    }

    /// Lets time pass.
    pub fn pass(&self, ms: i64) {
        self.now.set(self.now.get() + ms);
    }

    /// The hub at this moment.
    pub fn hub(&self) -> Hub<'_> {
        let origin = "https://hub.example";
        Hub::new(&self.db, &self.settings, &self.presence, &self.entropy, self.now.get(), origin)
    }

    /// Runs one command and returns its answer with its effects.
    pub fn run<T>(&self, command: impl FnOnce(&Hub<'_>) -> T) -> (T, Effects) {
        let hub = self.hub();
        let answer = self.noting_timers(|| command(&hub));
        (answer, hub.take_effects())
    }

    /// The alarm follows the timers that are noted, so one that is now the earliest must be among them.
    fn noting_timers<T>(&self, command: impl FnOnce() -> T) -> T {
        let before = self.earliest_timer();
        self.db.timers().take();
        let answer = command();
        let (after, noted) = (self.earliest_timer(), self.db.timers().take());
        if let Some(after) = after.filter(|at| before.is_none_or(|before| *at < before)) {
            assert!(noted.is_some_and(|at| at <= after), "a timer was set for {after}, and {noted:?} was noted");
        }
        answer
    }

    fn earliest_timer(&self) -> Option<i64> {
        let sql = "SELECT due_at FROM tasks WHERE due_at IS NOT NULL UNION ALL SELECT next_at FROM outbox WHERE state = 'due'";
        let timer = |row: Vec<Value>| match row.as_slice() {
            [Value::Integer(at)] => *at,
            other => panic!("{other:?} is no timer"),
        };
        self.db.rows(sql).into_iter().map(timer).min()
    }

    /// Sends a request through the router; one that waits is an error of the test.
    pub fn send(&self, request: &Request) -> Response {
        match self.noting_timers(|| router::handle(&self.hub(), request)) {
            Outcome::Reply(response) => response,
            waits => panic!("the request is not answered: {waits:?}"),
        }
    }

    /// Calls a JSON endpoint under this bearer and returns status and body.
    pub fn call(&self, method: &str, path: &str, bearer: &str, body: Json) -> (u16, Json) {
        let response = self.send(&request(method, path, bearer, &body));
        (response.status, serde_json::from_slice(&response.body).unwrap_or(Json::Null))
    }

    /// Sends a request that waits, and returns what it waits for.
    pub fn send_waiting(&self, request: &Request) -> Wait {
        match router::handle(&self.hub(), request) {
            Outcome::Wait(wait) => wait,
            other => panic!("the request does not wait: {other:?}"),
        }
    }

    /// Creates an executor over the owner API and returns its key.
    pub fn executor(&self, name: &str, queues: &[&str]) -> String {
        let body = json!({ "name": name, "queues": queues });
        let (status, answer) = self.call("POST", "/api/executors", OWNER_TOKEN, body);
        assert_eq!(status, 201, "{answer}");
        answer["key"].as_str().expect("a key").to_owned()
    }
}

/// A JSON request under this bearer.
pub fn request(method: &str, path: &str, bearer: &str, body: &Json) -> Request {
    Request {
        method: method.to_owned(),
        path: path.to_owned(),
        origin: "https://hub.example".to_owned(),
        headers: vec![("authorization".to_owned(), format!("Bearer {bearer}"))],
        body: if body.is_null() { vec![] } else { body.to_string().into_bytes() },
        ..Request::default()
    }
}
