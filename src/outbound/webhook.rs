//! Webhooks: a wake (design §7), which is a hint that there is work and never the work itself, and what is signed in the way
//! of Standard Webhooks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::OutboundRequest;
use crate::domain::secret::mac_bytes;
use crate::domain::wake::{Wake, WakeAuth, signing_key};

/// A message to be sent: its id, by which receivers that deduplicate tell it from others, and its body. Both are the same
/// whenever the same message is sent again.
#[derive(Clone, Copy, Debug)]
pub struct Message<'m> {
    /// The id.
    pub id: &'m str,
    /// The body, JSON.
    pub body: &'m str,
    /// When it is sent, in milliseconds.
    pub now: i64,
    /// How long that may take, in milliseconds.
    pub timeout_ms: i64,
}

/// What a wake of this executor says, or `None` if it only polls. `hub` is where the hub is reached; empty if it does not know.
pub fn wake_body(wake: &Wake, executor: &str, hub: &str) -> Option<String> {
    let Wake::Webhook { body, .. } = wake else { return None };
    let own = || json!({ "event": "wake", "executor": executor, "hub": hub });
    Some(body.clone().unwrap_or_else(own).to_string())
}

/// The request that carries a wake, or `None` if this executor only polls or its secret cannot be used.
pub fn wake(wake: &Wake, message: &Message<'_>) -> Option<OutboundRequest> {
    let Wake::Webhook { url, auth, .. } = wake else { return None };
    match auth {
        WakeAuth::Bearer { token } => {
            let authorization = ("authorization", format!("Bearer {token}"));
            Some(request(url, message, [authorization]))
        }
        WakeAuth::Hmac { secret } => signed(url, message, secret),
        WakeAuth::None {} => Some(request(url, message, [])),
    }
}

/// The request that carries a message signed by Standard Webhooks, or `None` if the secret cannot be used.
pub fn signed(url: &str, message: &Message<'_>, secret: &str) -> Option<OutboundRequest> {
    let timestamp = message.now / 1000;
    let signed = format!("{}.{timestamp}.{}", message.id, message.body);
    let signature = STANDARD.encode(mac_bytes(&signing_key(secret)?, signed.as_bytes()));
    let headers = [("webhook-timestamp", timestamp.to_string()), ("webhook-signature", format!("v1,{signature}"))];
    Some(request(url, message, headers))
}

fn request<const N: usize>(url: &str, message: &Message<'_>, more: [(&'static str, String); N]) -> OutboundRequest {
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("user-agent", concat!("taskhub/", env!("CARGO_PKG_VERSION")).to_owned()),
        ("webhook-id", message.id.to_owned()),
    ];
    headers.extend(more);
    let body = message.body.to_owned();
    OutboundRequest { url: url.to_owned(), headers, body, timeout_ms: message.timeout_ms }
}
