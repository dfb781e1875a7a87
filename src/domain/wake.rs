//! How an executor is woken (design §7): by polling, or by a webhook.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::limits::WAKE_BODY_BYTES_MAX;
use super::target::{self, TargetPolicy};

/// How an executor learns that there is work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "adapter", rename_all = "snake_case", deny_unknown_fields)]
pub enum Wake {
    /// It asks. Nothing is sent.
    Poll {},
    /// The hub sends a POST.
    Webhook {
        /// Where to.
        url: String,
        /// How the receiver knows that it is the hub.
        auth: WakeAuth,
        /// The body, if it is not the hub's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<Json>,
    },
}

/// How the receiver of a wake knows that it comes from the hub.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum WakeAuth {
    /// `Authorization: Bearer <token>`.
    Bearer {
        /// The token.
        token: String,
    },
    /// Standard Webhooks: `webhook-id`, `webhook-timestamp`, `webhook-signature`.
    Hmac {
        /// `whsec_` and the key in base64.
        secret: String,
    },
    /// Nothing.
    None {},
}

impl WakeAuth {
    /// The kind's name on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Bearer { .. } => "bearer",
            Self::Hmac { .. } => "hmac",
            Self::None {} => "none",
        }
    }
}

impl Wake {
    /// Whether anything is ever sent.
    pub fn is_sent(&self) -> bool {
        matches!(self, Self::Webhook { .. })
    }

    /// The adapter's name on the wire.
    pub fn adapter(&self) -> &'static str {
        match self {
            Self::Poll {} => "poll",
            Self::Webhook { .. } => "webhook",
        }
    }

    /// The same with its address in normal form, or what is wrong with it as a sentence.
    pub fn checked(self, policy: TargetPolicy) -> Result<Self, String> {
        let Self::Webhook { url, auth, body } = self else { return Ok(self) };
        let url = target::check(&url, policy).map_err(|refused| format!("wake.url: {}", refused.detail()))?;
        match &auth {
            WakeAuth::Bearer { token } if !is_header_value(token) => {
                return Err("wake.auth.token must be 1 to 1000 visible ASCII characters.".to_owned());
            }
            WakeAuth::Hmac { secret } if signing_key(secret).is_none() => {
                let detail = "wake.auth.secret must be whsec_ followed by 24 to 64 bytes in base64.";
                return Err(detail.to_owned());
            }
            WakeAuth::Bearer { .. } | WakeAuth::Hmac { .. } | WakeAuth::None {} => {}
        }
        if body.as_ref().is_some_and(|body| body.to_string().len() > WAKE_BODY_BYTES_MAX) {
            return Err(format!("wake.body must be at most {WAKE_BODY_BYTES_MAX} bytes of JSON."));
        }
        Ok(Self::Webhook { url, auth, body })
    }
}

fn is_header_value(text: &str) -> bool {
    (1..=1000).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

/// The key in a Standard Webhooks secret: 24 to 64 bytes.
pub fn signing_key(secret: &str) -> Option<Vec<u8>> {
    let key = STANDARD.decode(secret.strip_prefix("whsec_")?).ok()?;
    (24..=64).contains(&key.len()).then_some(key)
}
