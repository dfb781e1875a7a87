//! A notice as an ntfy server takes it: published as JSON, within ntfy's limits (<https://docs.ntfy.sh/publish/>).
//!
//! Invariants: the message is never longer than ntfy lets it be, and cut between characters; what an executor wrote is quoted
//! in one paragraph, cannot end its own quotation, and is no link; it is in no other field.

use serde_json::{Value as Json, json};

use super::OutboundRequest;
use crate::domain::limits::NOTICE_TIMEOUT_MS;
use crate::domain::ntfy::Ntfy;
use crate::domain::text::{cut_bytes, shorten};

/// Longest message, in bytes. A longer one would be turned into an attachment.
pub const MESSAGE_BYTES_MAX: usize = 4_096;
/// Longest title, in bytes: what ntfy takes is 1,024, and a phone shows a line or two.
pub const TITLE_BYTES_MAX: usize = 250;
/// Longest body, in bytes of JSON.
pub const BODY_BYTES_MAX: usize = 8_192;
/// Most buttons.
pub const BUTTONS_MAX: usize = 3;
/// How much of what an executor wrote is quoted, in characters.
const QUOTE_CHARS_MAX: usize = 1_000;
/// Stands in a text where a reader would otherwise make a link; it takes no room.
const BREAK: char = '\u{200b}';

/// How much a notice shall disturb, as ntfy counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// As usual.
    Default,
    /// Somebody waits.
    High,
    /// At once.
    Urgent,
}

/// A button that sends a POST and clears the notice when that is answered with 2xx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Button {
    /// What is on it.
    pub label: &'static str,
    /// Where it goes.
    pub url: String,
}

/// What a notice says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The line above.
    pub title: String,
    /// The text.
    pub text: String,
    /// How much it disturbs.
    pub priority: Priority,
    /// An emoji's short name.
    pub tag: &'static str,
    /// Where a tap leads; none if the hub does not know where it is reached.
    pub click: Option<String>,
    /// Its buttons, at most `BUTTONS_MAX`.
    pub buttons: Vec<Button>,
}

/// The body that publishes this message, the same byte for byte whenever it is sent. Its id comes along as the id of a
/// sequence, so that a notice that arrives twice is shown once (from ntfy 2.16 on; older servers pass over it).
pub fn body(topic: &str, id: &str, message: &Message) -> String {
    let text = cut(&plain(&message.text, true), MESSAGE_BYTES_MAX);
    let whole = published(topic, id, message, &text).to_string();
    if whole.len() <= BODY_BYTES_MAX {
        return whole;
    }
    // Every byte that is left off takes at least one from the JSON.
    let bytes_max = text.len().saturating_sub(whole.len() - BODY_BYTES_MAX);
    published(topic, id, message, &cut(&text, bytes_max)).to_string()
}

fn published(topic: &str, id: &str, message: &Message, text: &str) -> Json {
    let priority = match message.priority {
        Priority::Default => 3,
        Priority::High => 4,
        Priority::Urgent => 5,
    };
    let mut body = json!({
        "topic": topic,
        "sequence_id": id,
        "title": cut(&plain(&message.title, false), TITLE_BYTES_MAX),
        "message": text,
        "priority": priority,
        "tags": [message.tag],
    });
    if let Some(click) = &message.click {
        body["click"] = json!(click);
    }
    let button = |button: &Button| {
        let Button { label, url } = button;
        json!({ "action": "http", "label": label, "url": url, "method": "POST", "clear": true })
    };
    let buttons: Vec<Json> = message.buttons.iter().take(BUTTONS_MAX).map(button).collect();
    if !buttons.is_empty() {
        body["actions"] = json!(buttons);
    }
    body
}

/// The request that carries such a body.
pub fn request(ntfy: &Ntfy, id: &str, body: String) -> OutboundRequest {
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("user-agent", concat!("taskhub/", env!("CARGO_PKG_VERSION")).to_owned()),
        ("webhook-id", id.to_owned()),
    ];
    headers.extend(ntfy.token.as_ref().map(|token| ("authorization", format!("Bearer {token}"))));
    OutboundRequest { url: format!("{}/", ntfy.server), headers, body, timeout_ms: NOTICE_TIMEOUT_MS }
}

/// What an executor wrote, as its words: one paragraph in quotation marks that it cannot close itself, and without links.
pub fn quoted(by: &str, words: &str) -> String {
    let inner: String = words.chars().map(|c| if matches!(c, '“' | '”') { '"' } else { c }).collect();
    let inner = shorten(&unlinked(&plain(&inner, false)), QUOTE_CHARS_MAX);
    format!("{by} wrote: “{inner}”")
}

/// A text in which no program finds a link: apps make one of everything that looks like an address.
pub fn unlinked(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        if (matches!(before, '.' | '@') && c.is_alphanumeric()) || (before == ':' && matches!(c, '/' | '\\')) {
            safe.push(BREAK);
        }
        safe.push(c);
        before = c;
    }
    safe
}

/// Without control characters and without those that turn the direction of what follows; white space in a row is one space,
/// but for line ends where they are wanted.
fn plain(text: &str, keeps_lines: bool) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        let turns =
            matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
        if keeps_lines && c == '\n' {
            plain.push(c);
        } else if c.is_whitespace() {
            if !plain.ends_with([' ', '\n']) {
                plain.push(' ');
            }
        } else if !c.is_control() && !turns {
            plain.push(c);
        }
    }
    plain.trim().to_owned()
}

/// At most so many bytes, with an ellipsis where something was left off.
fn cut(text: &str, bytes_max: usize) -> String {
    const ELLIPSIS: &str = "…";
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    format!("{}{ELLIPSIS}", cut_bytes(text, bytes_max.saturating_sub(ELLIPSIS.len())))
}
