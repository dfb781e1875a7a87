//! Requests and responses as plain values, and the one way in which a handler may wait.

use std::net::IpAddr;

use super::socket::Socket;
use crate::domain::file::{Piece, Receiving};
use crate::domain::ids::TaskId;
use crate::outbound::OutboundRequest;

/// A request whose body has been read, unless it is an upload: that comes in pieces (`Outcome::Receive`).
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Upper-case method.
    pub method: String,
    /// Path without the query, still percent-encoded, starting with `/`.
    pub path: String,
    /// Query without the `?`; empty if there is none.
    pub query: String,
    /// Scheme and host as the client used them (`https://hub.example`), without a trailing slash.
    pub origin: String,
    /// Names in lower case, in order.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
    /// Set when a handler that waited is called again: what it returned as `Outcome::Wait`.
    pub resumed: Option<Wait>,
    /// Set when a handler that wanted a document is called again: what became of that.
    pub fetched: Option<Fetched>,
    /// Set when a handler that wanted something sent is called again: what became of that.
    pub sent: Option<Sent>,
    /// Set when a handler that takes an upload is called again: the next piece of its body.
    pub received: Option<Received>,
}

impl Request {
    /// The first header of this name (given in lower case), trimmed.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.trim())
    }

    /// Where the request comes from, as far as Cloudflare says so: an IPv4 address, or the first half of an IPv6 address,
    /// which is what one subscriber has. `local` where there is no Cloudflare in between.
    pub fn client_address(&self) -> String {
        let given = self.header("cf-connecting-ip").unwrap_or_default();
        match given.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => address.to_string(),
            Ok(IpAddr::V6(address)) => {
                let [a, b, c, d, ..] = address.segments();
                format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
            }
            Err(_) => "local".to_owned(),
        }
    }
}

/// A response whose body is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Names in lower case, in order.
    pub headers: Vec<(&'static str, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Response {
    /// An empty response.
    pub fn empty(status: u16) -> Self {
        Self { status, headers: vec![], body: vec![] }
    }

    /// A JSON response that no cache keeps.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::bytes(status, "application/json", body.to_string().into_bytes())
    }

    /// A response of this type that no cache keeps.
    pub fn bytes(status: u16, content_type: &'static str, body: Vec<u8>) -> Self {
        Self {
            status,
            headers: vec![("content-type", content_type.to_owned()), ("cache-control", "no-store".to_owned())],
            body,
        }
    }

    /// The same response with one more header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// What may end a wait before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    /// This task changed.
    Task(TaskId),
    /// A task became claimable at one of these addresses (`domain::task::Address` as text).
    Ready(Vec<String>),
}

/// A handler's wish to be called again with the same request. It has changed nothing so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When to call again at the latest, in milliseconds of Unix time.
    pub until: i64,
    /// What to call again for before that.
    pub on: Topic,
    /// The revision that the handler saw first, so that it knows a change when it sees one.
    pub since: i64,
}

/// A handler's wish for a document from outside; it is called again with what became of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Where it is; already checked.
    pub url: String,
    /// Longest body, in bytes.
    pub bytes_max: usize,
    /// How long it may take, in milliseconds.
    pub timeout_ms: i64,
}

/// What became of such a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// An answer of 200 with this body.
    Document(Vec<u8>),
    /// None: why, for the log.
    Failed(String),
}

/// A piece of an upload, and what had come before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// What the handler returned as `Outcome::Receive`.
    pub so_far: Receiving,
    /// What came since.
    pub piece: Piece,
}

/// A part of a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Under which id its pieces are stored (`store::attachments::CHUNK`).
    pub content_id: String,
    /// The first byte.
    pub from: u64,
    /// How many bytes, at least one.
    pub bytes: u64,
}

/// What became of a request that a handler wanted sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// How long it took, in milliseconds.
    pub took_ms: i64,
    /// How it ended.
    pub how: SentHow,
}

/// How sending a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentHow {
    /// With this status.
    Status(u16),
    /// Without an answer in time.
    NoAnswer,
    /// It did not get there: why, in a few words.
    Failed(String),
}

/// What a handler answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The response.
    Reply(Response),
    /// Nothing yet.
    Wait(Wait),
    /// Nothing before it has seen this document.
    Fetch(Fetch),
    /// A WebSocket.
    Upgrade(Socket),
    /// Nothing before this has been sent.
    Send(OutboundRequest),
    /// Nothing before the next piece of the body is there.
    Receive(Receiving),
    /// The response, whose body is this part of a file, and whose `content-length` says how long that is.
    Download(Response, Slice),
}
