//! What the hub sends, built but never sent: `edge` does the sending.
//!
//! Sees only `domain`. Invariant: a request that is built twice for the same wake has the same id and the same body.

pub mod ntfy;
pub mod webhook;

/// A POST to be sent. Redirects are not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundRequest {
    /// Where to, already checked by `domain::target`.
    pub url: String,
    /// Names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
    /// How long it may take, in milliseconds.
    pub timeout_ms: i64,
}
