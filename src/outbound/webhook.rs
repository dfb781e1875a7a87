//! A wake as a webhook (design §7): a hint that there is work, never the work itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

use super::OutboundRequest;
use crate::domain::secret::mac_bytes;
use crate::domain::wake::{Wake, WakeAuth, signing_key};

/// What a wake says, whoever receives it.
#[derive(Clone, Copy, Debug)]
pub struct WakeMessage<'m> {
    /// Told apart by receivers that deduplicate; the same when the same wake is sent again.
    pub id: &'m str,
    /// The executor to wake.
    pub executor: &'m str,
    /// Where the hub is reached; empty if it does not know.
    pub hub: &'m str,
    /// When it is sent, in milliseconds.
    pub now: i64,
    /// How long it may take, in milliseconds.
    pub timeout_ms: i64,
}

/// The request that carries a wake, or `None` if this executor only polls or its secret cannot be used.
pub fn build(wake: &Wake, message: &WakeMessage<'_>) -> Option<OutboundRequest> {
    let Wake::Webhook { url, auth, body } = wake else { return None };
    let body = body.clone().unwrap_or_else(|| own_body(message)).to_string();
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("user-agent", concat!("taskhub/", env!("CARGO_PKG_VERSION")).to_owned()),
        ("webhook-id", message.id.to_owned()),
    ];
    match auth {
        WakeAuth::Bearer { token } => headers.push(("authorization", format!("Bearer {token}"))),
        WakeAuth::Hmac { secret } => {
            let timestamp = message.now / 1000;
            let signed = format!("{}.{timestamp}.{body}", message.id);
            let signature = STANDARD.encode(mac_bytes(&signing_key(secret)?, signed.as_bytes()));
            headers.push(("webhook-timestamp", timestamp.to_string()));
            headers.push(("webhook-signature", format!("v1,{signature}")));
        }
        WakeAuth::None {} => {}
    }
    Some(OutboundRequest { url: url.clone(), headers, body, timeout_ms: message.timeout_ms })
}

fn own_body(message: &WakeMessage<'_>) -> Json {
    json!({ "event": "wake", "executor": message.executor, "hub": message.hub })
}
