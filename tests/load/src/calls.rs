//! The calls of an ordinary task, as its submitter and its executor make them.

use serde_json::{Value as Json, json};

use crate::client::{Answer, Call};
use crate::plan::Executor;

/// Kinds of calls that are measured, in the order in which a round makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A ping.
    Ping,
    /// A claim that finds nothing.
    EmptyClaim,
    /// `submit_task` over MCP.
    Submit,
    /// A claim that finds a task.
    Claim,
    /// A heartbeat with a note.
    Heartbeat,
    /// A result.
    Result,
}

impl Kind {
    /// All kinds. After all of them, the hub holds no open task.
    pub const ALL: [Self; 6] = [Self::Ping, Self::EmptyClaim, Self::Submit, Self::Claim, Self::Heartbeat, Self::Result];

    /// The name in the report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::EmptyClaim => "empty_claim",
            Self::Submit => "submit",
            Self::Claim => "claim",
            Self::Heartbeat => "heartbeat",
            Self::Result => "result",
        }
    }
}

/// A claimed task, in its executor's hands.
#[derive(Clone, Debug)]
pub struct Held {
    task_id: String,
    claim_token: String,
}

impl Held {
    /// What the answer to a claim hands over.
    pub fn of(answer: &Answer) -> Result<Self, String> {
        let text = |value: &Json| value.as_str().map(str::to_owned);
        match (text(&answer.body["task"]["id"]), text(&answer.body["claim_token"])) {
            (Some(task_id), Some(claim_token)) => Ok(Self { task_id, claim_token }),
            _ => Err(format!("a claim found no task: {} {}", answer.status, answer.body)),
        }
    }
}

/// One client's side of a run: who it is, and how it asks.
#[derive(Clone, Debug)]
pub struct Party {
    owner_token: String,
    executor: Executor,
    last_request: u64,
}

impl Party {
    /// The client that submits for this executor and works in its place.
    pub fn new(owner_token: &str, executor: &Executor) -> Self {
        Self { owner_token: owner_token.to_owned(), executor: executor.clone(), last_request: 0 }
    }

    /// The next call of this kind. `held` names the task that it is about.
    pub fn call(&mut self, kind: Kind, held: Option<&Held>) -> Call {
        self.last_request += 1;
        let (name, number) = (&self.executor.name, self.last_request);
        let about = |mut body: Json| {
            if let Some(held) = held {
                body["task_id"] = json!(held.task_id);
                body["claim_token"] = json!(held.claim_token);
            }
            body
        };
        let (path, body) = match kind {
            Kind::Ping => ("/executor/ping", json!({})),
            Kind::EmptyClaim | Kind::Claim => {
                ("/executor/claim", json!({ "request_id": format!("{name}-{}-{number}", std::process::id()) }))
            }
            Kind::Submit => ("/mcp", submit(name, number)),
            Kind::Heartbeat => {
                ("/executor/heartbeat", about(json!({ "note": format!("Under way: {number}."), "progress": 0.5 })))
            }
            Kind::Result => ("/executor/result", about(json!({ "status": "completed", "result": "It is done." }))),
        };
        let bearer = if kind == Kind::Submit { &self.owner_token } else { &self.executor.key };
        Call { path, bearer: bearer.clone(), body: body.to_string() }
    }
}

fn submit(executor: &str, number: u64) -> Json {
    let arguments = json!({
        "executor": executor,
        "title": format!("Ordinary task {number}"),
        "instructions": "Read the three newest reports, compare their figures, and say in five sentences what changed.",
    });
    let params = json!({ "name": "submit_task", "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params })
}

/// Whether an answer is what this kind of call must bring.
pub fn check(kind: Kind, answer: &Answer) -> Result<(), String> {
    let is_right = match kind {
        Kind::EmptyClaim => answer.status == 204,
        Kind::Claim => answer.body["claim_token"].is_string(),
        Kind::Submit => answer.body["result"]["structuredContent"]["task_id"].is_string(),
        Kind::Heartbeat => answer.body["state"] == "working",
        Kind::Result => answer.body["state"] == "completed",
        Kind::Ping => answer.body.is_object(),
    };
    if is_right { Ok(()) } else { Err(format!("{} answered {} {}", kind.as_str(), answer.status, answer.body)) }
}
