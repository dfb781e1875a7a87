//! One client: a connection that is kept, and the time each call took.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use ureq::Agent;

/// How long one call may take.
const CALL_TIME_MAX: Duration = Duration::from_secs(20);

/// A request, ready to be sent.
#[derive(Clone, Debug)]
pub struct Call {
    /// Path at the hub. The bare object ignores it.
    pub path: &'static str,
    /// The bearer.
    pub bearer: String,
    /// The body.
    pub body: String,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body, if it is JSON.
    pub body: Json,
}

/// A client.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    address: SocketAddr,
}

impl Client {
    /// A client of the server at this address.
    pub fn new(address: SocketAddr) -> Self {
        let config = Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(CALL_TIME_MAX))
            .user_agent("taskhub-load")
            .build();
        Self { agent: config.into(), address }
    }

    /// Makes a call, and says how long it took from the first byte out to the last byte in.
    pub fn call(&self, call: &Call) -> Result<(Answer, Duration), String> {
        let url = format!("http://{}{}", self.address, call.path);
        let request = self
            .agent
            .post(&url)
            .header("authorization", format!("Bearer {}", call.bearer))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-11-25");
        let started = Instant::now();
        let mut response = request.send(call.body.as_str()).map_err(|error| format!("{url}: {error}"))?;
        let body = response.body_mut().read_to_string().map_err(|error| format!("{url}: {error}"))?;
        let took = started.elapsed();
        let status = response.status().as_u16();
        if !(200..300).contains(&status) {
            return Err(format!("{url} answered {status}: {body}"));
        }
        Ok((Answer { status, body: serde_json::from_str(&body).unwrap_or(Json::Null) }, took))
    }
}
