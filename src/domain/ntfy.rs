//! Where notices go: a topic of an ntfy server, as the owner configured it.
//!
//! A configuration that cannot be used is kept as words for the owner. They never repeat a value: they are shown at
//! `/healthz`, and who knows the topic can read what is told.

use url::Url;

use super::notice::NoticeEvents;
use super::target::{self, TargetPolicy, TargetRefused};

/// Longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 512;
/// Longest topic, in bytes, by ntfy's own rule.
const TOPIC_BYTES_MAX: usize = 64;
/// Topics that ntfy keeps for itself.
const TOPICS_RESERVED: [&str; 10] =
    ["docs", "static", "file", "app", "metrics", "account", "settings", "signup", "login", "v1"];

/// An ntfy server and a topic on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ntfy {
    /// The server, without a trailing slash.
    pub server: String,
    /// The topic.
    pub topic: String,
    /// The access token, where the topic needs one.
    pub token: Option<String>,
    /// The events that the owner wants told.
    pub events: NoticeEvents,
}

/// Reads the four settings through `var`: `None` if the owner wants no notices, words if something is wrong.
pub(super) fn read(var: impl Fn(&str) -> Option<String>, policy: TargetPolicy) -> Result<Option<Ntfy>, String> {
    let [url, topic, token, events] = ["NTFY_URL", "NTFY_TOPIC", "NTFY_TOKEN", "NTFY_EVENTS"].map(var);
    let (url, topic) = match (url, topic) {
        (None, None) => return Ok(None),
        (None, Some(_)) => {
            return Err("NTFY_URL is missing: set it to the server, such as https://ntfy.sh.".to_owned());
        }
        (Some(_), None) => {
            return Err("NTFY_TOPIC is missing: set it to the topic that your phone listens to.".to_owned());
        }
        (Some(url), Some(topic)) => (url, topic),
    };
    let server = server(&url, policy)?;
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if topic.len() > TOPIC_BYTES_MAX || !topic.bytes().all(is_plain) {
        return Err("NTFY_TOPIC must have 1 to 64 letters, digits, hyphens and underscores.".to_owned());
    }
    if TOPICS_RESERVED.contains(&topic.as_str()) {
        return Err("NTFY_TOPIC is a name that ntfy keeps for itself; choose another, long and random.".to_owned());
    }
    if token.as_ref().is_some_and(|t| t.len() > TOKEN_BYTES_MAX || !t.bytes().all(|b| b.is_ascii_graphic())) {
        return Err("NTFY_TOKEN is not an access token of ntfy (tk_ and more), without spaces.".to_owned());
    }
    let events = match events {
        None => NoticeEvents::usual(),
        Some(list) => NoticeEvents::of_setting(&list).map_err(|why| format!("NTFY_EVENTS: {why}; or none."))?,
    };
    Ok(Some(Ntfy { server, topic, token, events }))
}

/// JSON is published to the server itself, so a path would be taken for a topic.
fn server(url: &str, policy: TargetPolicy) -> Result<String, String> {
    let why = |refused: TargetRefused| match refused {
        TargetRefused::NotAnAddress => "NTFY_URL must be the address of the server, such as https://ntfy.sh.",
        TargetRefused::NotHttps => "NTFY_URL must begin with https://.",
        TargetRefused::Credentials => "NTFY_URL must not carry a user name or password; set NTFY_TOKEN instead.",
        TargetRefused::NotPublic => "NTFY_URL must name a public host; for local use, set ALLOW_PRIVATE_WEBHOOKS=true.",
    };
    let checked = target::check(url, policy).map_err(|refused| why(refused).to_owned())?;
    match Url::parse(&checked) {
        Ok(url) if url.path() == "/" && url.query().is_none() && url.fragment().is_none() => {
            Ok(url.origin().ascii_serialization())
        }
        _ => {
            Err("NTFY_URL must be the server alone, such as https://ntfy.sh; the topic goes to NTFY_TOPIC.".to_owned())
        }
    }
}
