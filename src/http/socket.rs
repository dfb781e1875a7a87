//! WebSockets as values: which are asked for, what the hub says on them, and why it closes one.
//!
//! Invariants: a socket is accepted after its credential was; every reason for a close says what to do next, in the 123 bytes
//! that a close frame has room for; a client has nothing to send but `ping`. It refuses to know the platform's sockets, and
//! what an event is.

use serde_json::json;

use super::message::{Request, Response};
use super::problem::Problem;

/// What a client sends to stay known as alive, and what it hears. The runtime answers by itself, so this costs nothing.
pub const PING: &str = "ping";
/// The answer to that.
pub const PONG: &str = "pong";
/// What a listening executor hears when there is work.
pub const WAKE: &str = r#"{"event":"wake"}"#;

/// A socket that a handler wants opened. It was decided that it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Socket {
    /// An executor listens for work.
    Listen {
        /// Its name.
        executor: String,
        /// Where it finds work, as `domain::task::Address` in text.
        addresses: Vec<String>,
        /// Whether there is work already.
        is_ready: bool,
    },
    /// The owner watches the hub's events.
    Events {
        /// After which event; `None`: only those to come.
        after: Option<i64>,
        /// The newest there is.
        newest: i64,
        /// By which grant, if it is not the owner's own token.
        grant: Option<String>,
        /// When the token ends, in milliseconds, if it does.
        until: Option<i64>,
    },
}

/// Why the hub closes a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goodbye {
    /// The executor's key, account or queues were changed.
    CutOff,
    /// No ping for too long.
    Silent,
    /// More sockets of the same kind than there may be; this one was the oldest.
    Displaced,
    /// Too many messages that the hub does not know.
    Mistakes,
    /// The token has ended.
    TokenEnded,
    /// The client does not read what it is sent.
    Stuck,
}

impl Goodbye {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::CutOff, Self::Silent, Self::Displaced, Self::Mistakes, Self::TokenEnded, Self::Stuck];

    /// The code in the close frame.
    pub fn code(self) -> u16 {
        match self {
            Self::CutOff => 4001,
            Self::Silent => 4002,
            Self::Displaced => 4003,
            Self::Mistakes => 4004,
            Self::TokenEnded => 4005,
            Self::Stuck => 4006,
        }
    }

    /// What went wrong, and what to do.
    pub fn reason(self) -> &'static str {
        match self {
            Self::CutOff => {
                "The owner changed this executor or its keys. Reconnect; after a 401 ask the owner for a new key."
            }
            Self::Silent => "No ping for 150 seconds. Reconnect, and send the text ping every 50 seconds.",
            Self::Displaced => {
                "Too many sockets of this kind; newer ones took this one's place. Keep one open, close the rest."
            }
            Self::Mistakes => {
                "Too many messages that the hub does not know. Reconnect, and send nothing but the text ping."
            }
            Self::TokenEnded => {
                "The access token has expired or was revoked. Get another one, then reconnect with after=N."
            }
            Self::Stuck => {
                "What was sent has not been read for a minute. Reconnect with after=N and read all the time."
            }
        }
    }
}

/// The answer to a message that the hub does not know.
pub fn mistake() -> String {
    let detail = "The hub takes no messages here but the text ping, which it answers with pong. Calls such as a claim are \
                  HTTP requests of their own.";
    json!({ "error": { "code": "unexpected_message", "detail": detail, "retryable": false } }).to_string()
}

/// The refusal of a request for a socket that does not ask for one.
pub fn refuse(request: &Request) -> Option<Response> {
    let asks = request.header("upgrade").is_some_and(|upgrade| upgrade.eq_ignore_ascii_case("websocket"));
    if asks { None } else { Some(upgrade_required()) }
}

fn upgrade_required() -> Response {
    let detail = "This path is a WebSocket. Open it with a WebSocket client (wss:// in place of https://), with the same \
                  Authorization header.";
    let problem = Problem::new(426, "upgrade_required", "Upgrade required", detail);
    problem.response().with("upgrade", "websocket").with("connection", "Upgrade")
}

/// There are as many sockets as there may be.
pub fn too_many() -> Response {
    let detail = "The hub has as many listening sockets as it may. Poll with POST /executor/claim for now, and try again to \
                  listen later.";
    Problem::new(503, "too_many_sockets", "Too many sockets", detail).retry_after(60).response()
}
