//! What a script asks: submitters, an owner and executors, right and wrong, and a clock that jumps.

use serde_json::{Value as Json, json};
use taskhub::http::message::Response;

use crate::support::OWNER_TOKEN;

/// The path at which the object sweeps and purges.
pub const TICK: &str = "/__test/tick";
/// The first moment of a script, in milliseconds: in the future, so that no real alarm rings while it runs.
const START: i64 = 2_000_000_000_000;

/// What the scripts together must reach, with commas between.
pub const EXPECTED: &str = "
    POST /executor/claim 200, POST /executor/claim 204, POST /executor/heartbeat 200, POST /executor/result 200,
    POST /executor/defer 200, POST /executor/release 200, POST /executor/ping 200, POST /executor/action 200, POST /mcp 200, POST /mcp 400,
    POST /mcp 401, POST /api/executors 201, POST /api/executors 409, GET /api/executors 200, GET /healthz 200,
    DELETE /api/executors 409, POST /__test/tick 200, code unauthorized, code bad_request, code task_not_found,
    code not_found, code method_not_allowed, code lease_lost, code canceled, code already_finished, code claim_ended,
    code not_working, state submitted, state waiting, state working, state input-required, state completed,
    state failed, state canceled, failure deadline_exceeded, failure lease_expired, failure input_timeout,
    failure executor_failed, event submitted, event claimed, event late, event requeued, event completed,
    event failed, event canceled, event question, event answer, event deferred, event resumed, event action,
    code action_not_begun";

/// One request.
pub struct Asked {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

struct Held {
    executor: usize,
    task_id: String,
    claim_token: String,
}

/// Splitmix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<'t, T: ?Sized>(&mut self, items: &[&'t T]) -> &'t T {
        items[self.below(items.len() as u64) as usize]
    }
}

/// Chooses the next request from what the answers so far have taught it.
pub struct Workload {
    chance: Chance,
    now: i64,
    keys: Vec<String>,
    tasks: Vec<String>,
    held: Vec<Held>,
    asking: Vec<String>,
    cursor: Option<Json>,
}

const NAMES: [&str; 3] = ["anna", "bob", "carl"];

impl Workload {
    pub fn new(seed: u64) -> Self {
        let chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self { chance, now: START, keys: vec![], tasks: vec![], held: vec![], asking: vec![], cursor: None }
    }

    /// The clock of the present request.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// The request of this step; at the end, every task once, and then nothing.
    pub fn next(&mut self, step: u32, requests: u32) -> Option<Asked> {
        self.now += match self.chance.below(100) {
            0..=84 => self.chance.below(1_500) as i64,
            85..=95 => self.chance.below(15_000) as i64,
            96..=98 => self.chance.below(90_000) as i64,
            _ => self.chance.below(1_200_000) as i64,
        };
        if let Some(name) = NAMES.get(step as usize) {
            return Some(self.create_executor(name));
        }
        if step >= requests {
            let id = self.tasks.get((step - requests) as usize)?;
            return Some(owner("GET", &format!("/api/tasks/{id}"), ""));
        }
        Some(match self.chance.below(100) {
            0..=21 => self.submit(),
            22..=41 => self.claim(),
            42..=69 => self.attempt(),
            70..=84 => self.submitter(),
            85..=89 => post(TICK, "", &json!({})),
            90..=94 => self.owner_call(),
            _ => self.junk(),
        })
    }

    /// Takes ids, keys and tokens from an answer.
    pub fn learn(&mut self, asked: &Asked, response: &Response) {
        let body: Json = serde_json::from_slice(&response.body).unwrap_or(Json::Null);
        let text = |value: &Json| value.as_str().map(str::to_owned);
        if asked.path == "/api/executors" && self.keys.len() < NAMES.len() {
            self.keys.extend(text(&body["key"]));
        }
        if asked.path == "/mcp" {
            let content = &body["result"]["structuredContent"];
            self.tasks.extend(text(&content["task_id"]).filter(|id| !self.tasks.contains(id)));
            self.cursor = content.get("next_cursor").cloned().or(self.cursor.take());
        }
        if body["state"] == "input-required" && asked.path.starts_with("/executor/") {
            let sent: Json = serde_json::from_str(&asked.body).expect("it was JSON");
            self.asking.extend(text(&sent["task_id"]));
        }
        let claimed = if asked.path == "/executor/claim" { &body } else { &body["next"] };
        if let (Some(task_id), Some(claim_token)) = (text(&claimed["task"]["id"]), text(&claimed["claim_token"])) {
            let bearer = asked.headers.iter().find(|(name, _)| name == "authorization").map(|(_, value)| value);
            let mine = |key: &String| bearer.is_some_and(|bearer| bearer.ends_with(key.as_str()));
            let executor = self.keys.iter().position(mine).expect("a claim has a key");
            self.held.push(Held { executor, task_id, claim_token });
        }
    }

    fn create_executor(&self, name: &str) -> Asked {
        let wake = json!({ "adapter": "webhook", "url": "http://127.0.0.1:9/wake", "auth": { "kind": "none" } });
        let poll = json!({ "adapter": "poll" });
        let wake = if name == "bob" { wake } else { poll };
        let body = json!({ "name": name, "queues": ["common", name], "max_concurrent": 4, "wake": wake });
        owner("POST", "/api/executors", &body.to_string())
    }

    fn submit(&mut self) -> Asked {
        let mut task = json!({ "title": "Täsk ☃", "instructions": "Do it.\n\"Quoted\" \u{1f600}" });
        match self.chance.below(10) {
            0..=4 => task["executor"] = json!(self.chance.pick(&NAMES)),
            5..=8 => task["queue"] = json!(self.chance.pick(&["common", "anna", "bob"])),
            _ => task["queue"] = json!("nobody serves this"),
        }
        if self.chance.percent(40) {
            task["context"] =
                json!({ "n": self.chance.below(1_000_000), "real": 0.1, "nested": [null, true, { "a": "ü" }] });
        }
        if self.chance.percent(40) {
            task["priority"] = json!(self.chance.below(10));
        }
        if self.chance.percent(20) {
            task["deadline_seconds"] = json!(1 + self.chance.below(300));
        }
        if self.chance.percent(15) {
            task["delay_seconds"] = json!(self.chance.below(60));
        }
        if self.chance.percent(30) {
            task["idempotency_key"] = json!(format!("key-{}", self.chance.below(8)));
        }
        if self.chance.percent(40) {
            task["max_attempts"] = json!(1 + self.chance.below(2));
        }
        if self.chance.percent(30) {
            task["on_unknown_action"] = json!(self.chance.pick(&["ask", "ask", "retry"]));
        }
        if self.chance.percent(6) {
            task["title"] = json!("");
        }
        self.tool("submit_task", &task)
    }

    fn claim(&mut self) -> Asked {
        let mut body = json!({});
        if self.chance.percent(50) {
            body["request_id"] = json!(format!("request-{}", self.chance.below(30)));
        }
        if self.chance.percent(20) {
            body["queues"] = json!([self.chance.pick(&["common", "anna", "elsewhere"])]);
        }
        let executor = self.chance.below(3) as usize;
        post("/executor/claim", &self.keys[executor], &body)
    }

    /// A call of an attempt: mostly of one that lives, sometimes of one that is long over, sometimes under a foreign key.
    fn attempt(&mut self) -> Asked {
        if self.held.is_empty() {
            return self.claim();
        }
        let newest = self.held.len() as u64;
        let back = if self.chance.percent(75) { newest.min(3) } else { newest };
        let asks = self.asking.last().filter(|_| self.chance.percent(30));
        let asks = asks.and_then(|id| self.held.iter().rfind(|held| held.task_id == *id));
        let held = asks.unwrap_or(&self.held[(newest - 1 - self.chance.below(back)) as usize]);
        let mut body = json!({ "task_id": held.task_id, "claim_token": held.claim_token });
        let mut executor = held.executor;
        if self.chance.percent(5) {
            executor = (executor + 1) % NAMES.len();
        }
        let key = self.keys[executor].clone();
        let verb = match self.chance.below(24) {
            0..=6 => self.heartbeat(&mut body),
            7..=13 => self.result(&mut body),
            14..=16 => {
                body["seconds"] = json!(self.chance.below(90));
                body["checkpoint"] = json!({ "page": self.chance.below(9), "half": 0.5 });
                "defer"
            }
            17..=19 => {
                body["note"] = json!("shutting down");
                "release"
            }
            _ => self.action(&mut body),
        };
        post(&format!("/executor/{verb}"), &key, &body)
    }

    fn heartbeat(&mut self, body: &mut Json) -> &'static str {
        if self.chance.percent(60) {
            body["note"] = json!(format!("note {}", self.chance.below(100)));
        }
        if self.chance.percent(40) {
            body["progress"] = json!(self.chance.below(11) as f64 / 10.0);
        }
        if self.chance.percent(30) {
            body["checkpoint"] = json!({ "page": self.chance.below(9) });
        }
        match self.chance.below(10) {
            0 | 1 => body["question"] = json!("Which one?"),
            2 => body["state"] = json!("input-required"),
            3 => body["progress"] = json!(1.5),
            _ => {}
        }
        "heartbeat"
    }

    /// Few actions, so that they meet again, with parameters that both sides must write alike.
    fn action(&mut self, body: &mut Json) -> &'static str {
        body["step_id"] = json!(self.chance.pick(&["pay", "post ☃"]));
        body["tool"] = json!("bank");
        body["params"] =
            json!({ "\u{fb33}": 1e-7, "\u{1f600}": [0.1, 1.0, 333_333_333.333_333_3], "ü": "\u{7}\u{20ac}" });
        body["status"] = json!(self.chance.pick(&["begin", "begin", "done", "failed"]));
        if self.chance.percent(40) {
            body["outcome"] = json!({ "receipt": self.chance.below(9), "share": 0.1 });
        }
        "action"
    }

    fn result(&mut self, body: &mut Json) -> &'static str {
        match self.chance.below(10) {
            0..=4 => {
                body["status"] = json!("completed");
                body["result"] = json!("Fertig. ☃");
                body["data"] = json!({ "count": self.chance.below(5), "share": 0.25 });
            }
            5 | 6 => {
                body["status"] = json!("failed");
                body["error"] = json!("It broke.");
                body["retryable"] = json!(self.chance.percent(40));
            }
            7 | 8 => {
                body["status"] = json!("blocked");
                body["question"] = json!("May I?");
            }
            _ => body["status"] = json!("done"),
        }
        if self.chance.percent(25) {
            body["next"] = json!({});
        }
        "result"
    }

    fn a_task(&mut self) -> Json {
        match self.tasks.len() as u64 {
            0 => json!("t_unknown"),
            _ if self.chance.percent(4) => json!("t_unknown"),
            _ if self.chance.percent(40) && !self.held.is_empty() => {
                let back = 1 + self.chance.below(self.held.len().min(4) as u64) as usize;
                json!(self.held[self.held.len() - back].task_id)
            }
            count => {
                let recent = count.min(12);
                json!(self.tasks[(count - 1 - self.chance.below(recent)) as usize])
            }
        }
    }

    fn submitter(&mut self) -> Asked {
        let task_id = self.a_task();
        let executor = json!(self.chance.pick(&["anna", "bob", "dora"]));
        match self.chance.below(14) {
            0..=2 => self.tool("get_task", &json!({ "task_id": task_id })),
            3 => self.tool("get_task", &json!({ "task_id": task_id, "part": "instructions", "offset": 3 })),
            4 => self.tool("cancel_task", &json!({ "task_id": task_id, "reason": "no longer needed" })),
            5..=7 => {
                let task_id = self.asking.pop().map_or(task_id, Json::from);
                self.tool("answer_task", &json!({ "task_id": task_id, "answer": "The second one." }))
            }
            8 => self.tool("retry_task", &json!({ "task_id": task_id })),
            9 => self.tool("wake_executor", &json!({ "executor": executor })),
            10 => self.tool("wake_executor", &json!({ "executor": executor, "task_id": task_id })),
            11 => self.tool(self.pick_reader(), &json!({})),
            12 => {
                let states = self.chance.pick(&["working", "completed", "failed", "submitted"]);
                self.tool("list_tasks", &json!({ "states": [states], "page_size": 3 }))
            }
            _ => {
                let cursor = self.cursor.clone().unwrap_or(json!("junk"));
                self.tool("list_tasks", &json!({ "page_size": 3, "cursor": cursor }))
            }
        }
    }

    fn pick_reader(&self) -> &'static str {
        ["list_executors", "hub_status", "list_tasks"][self.tasks.len() % 3]
    }

    fn owner_call(&mut self) -> Asked {
        match self.chance.below(8) {
            0 => owner("GET", "/api/executors", ""),
            1 => owner("GET", "/healthz", ""),
            2 => owner("DELETE", "/api/executors/anna", ""),
            3 => owner("POST", "/api/executors", "{\"name\": \"anna\"}"),
            4 => post("/executor/ping", &self.keys[self.tasks.len() % 3], &json!({})),
            5 => owner("POST", "/api/executors", "{\"name\": \"Not A Name\"}"),
            6 => owner("GET", "/.well-known/oauth-protected-resource/mcp", ""),
            _ => {
                let id = self.a_task();
                owner("GET", &format!("/api/tasks/{}", id.as_str().unwrap_or_default()), "")
            }
        }
    }

    fn junk(&mut self) -> Asked {
        match self.chance.below(9) {
            0 => post("/executor/claim", "exk_anna.abc.def", &json!({})),
            1 => post("/executor/claim", &self.keys[0], &json!({ "wait": 1 })),
            2 => owner("GET", "/nowhere", ""),
            3 => owner("GET", "/executor/claim", ""),
            4 => post("/mcp", "wrong", &json!({})),
            5 => post("/mcp", OWNER_TOKEN, &json!([])),
            6 => post("/executor/release", &self.keys[1], &json!({ "task_id": "t_0", "claim_token": "x" })),
            7 => post("/mcp", OWNER_TOKEN, &json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call" })),
            _ => owner("POST", "/mcp", "{broken"),
        }
    }

    /// A tool call, of either era.
    fn tool(&mut self, name: &str, arguments: &Json) -> Asked {
        let mut params = json!({ "name": name, "arguments": arguments });
        if self.chance.percent(50) {
            let mut asked = post("/mcp", OWNER_TOKEN, &rpc(&params));
            asked.headers.push(("mcp-protocol-version".to_owned(), "2025-11-25".to_owned()));
            return asked;
        }
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "transcript", "version": "1" },
        });
        let mut asked = post("/mcp", OWNER_TOKEN, &rpc(&params));
        for (name, value) in [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", name)]
        {
            asked.headers.push((name.to_owned(), value.to_owned()));
        }
        asked
    }
}

fn rpc(params: &Json) -> Json {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
}

fn asked(method: &str, path: &str, bearer: &str, body: String) -> Asked {
    let headers =
        [("host", "hub.example"), ("authorization", &format!("Bearer {bearer}")), ("content-type", "application/json")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Asked { method: method.to_owned(), path: path.to_owned(), headers, body }
}

fn post(path: &str, bearer: &str, body: &Json) -> Asked {
    asked("POST", path, bearer, body.to_string())
}

fn owner(method: &str, path: &str, body: &str) -> Asked {
    asked(method, path, OWNER_TOKEN, body.to_owned())
}
