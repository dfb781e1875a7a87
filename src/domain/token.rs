//! The formats of what OAuth hands out: client ids and secrets, codes, access and refresh tokens.
//!
//! Everything that comes of one consent carries the same random **handle**. The store knows the handle's SHA-256 only, and
//! a token is the handle with a MAC by the hub's secret; so neither the database nor the secret alone yields a token, a
//! lost answer can be given again word for word, and junk is told by its MAC alone. The MAC of an access token covers the
//! hub's address too: what another hub issued, or this one under another name, is foreign.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::secret::{equal, sha256_hex, short_mac};

/// Random bytes of a handle.
pub const HANDLE_BYTES: usize = 16;
/// Characters of a handle: its bytes in base64url.
const HANDLE_CHARS: usize = 22;
/// Longest part of a client's name that its id repeats, in bytes.
const SLUG_BYTES_MAX: usize = 24;

/// The resource that access tokens are for: the MCP endpoint of the hub that is reached at this origin (RFC 8707).
pub fn resource(origin: &str) -> String {
    format!("{origin}/mcp")
}

/// What all credentials of one grant have in common.
#[derive(Clone, PartialEq, Eq)]
pub struct Handle(String);

impl Handle {
    /// A new one.
    pub fn new(random: [u8; HANDLE_BYTES]) -> Self {
        Self(URL_SAFE_NO_PAD.encode(random))
    }

    fn parse(text: &str) -> Option<Self> {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        (text.len() == HANDLE_CHARS && text.bytes().all(is_plain)).then(|| Self(text.to_owned()))
    }

    /// The id under which the store knows it: the first half of its SHA-256, in hex.
    pub fn grant_id(&self) -> String {
        sha256_hex(&self.0)[..32].to_owned()
    }
}

/// An authorization code: `thc_<handle>.<mac>`.
pub fn code(secret: &str, handle: &Handle) -> String {
    format!("thc_{}.{}", handle.0, short_mac(secret, "oauth-code", &[&handle.0]))
}

/// The handle of a code of this hub, or `None` for junk.
pub fn read_code(secret: &str, text: &str) -> Option<Handle> {
    let (handle, mac) = text.strip_prefix("thc_")?.split_once('.')?;
    let handle = Handle::parse(handle)?;
    equal(mac, &short_mac(secret, "oauth-code", &[&handle.0])).then_some(handle)
}

/// A refresh token of a generation: `thr_<handle>.<generation>.<mac>`.
pub fn refresh(secret: &str, handle: &Handle, generation: u32) -> String {
    let mac = short_mac(secret, "oauth-refresh", &[&handle.0, &generation.to_string()]);
    format!("thr_{}.{generation}.{mac}", handle.0)
}

/// Handle and generation of a refresh token of this hub, or `None` for junk.
pub fn read_refresh(secret: &str, text: &str) -> Option<(Handle, u32)> {
    let mut parts = text.strip_prefix("thr_")?.splitn(3, '.');
    let handle = Handle::parse(parts.next()?)?;
    let generation: u32 = parts.next()?.parse().ok()?;
    equal(text, &refresh(secret, &handle, generation)).then_some((handle, generation))
}

/// An access token for this audience until `expires_at` (seconds of Unix time): `tha_<handle>.<expires_at>.<mac>`.
pub fn access(secret: &str, audience: &str, handle: &Handle, expires_at: i64) -> String {
    let mac = short_mac(secret, "oauth-access", &[audience, &handle.0, &expires_at.to_string()]);
    format!("tha_{}.{expires_at}.{mac}", handle.0)
}

/// Why an access token is refused without a look at the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRefused {
    /// Not a token of this hub for this audience.
    Foreign,
    /// Its time is over.
    Expired,
}

/// The handle of an access token for this audience at `now` (milliseconds).
pub fn read_access(secret: &str, audience: &str, text: &str, now: i64) -> Result<Handle, AccessRefused> {
    let read = || {
        let mut parts = text.strip_prefix("tha_")?.split('.');
        let handle = Handle::parse(parts.next()?)?;
        let expires_at: i64 = parts.next()?.parse().ok()?;
        equal(text, &access(secret, audience, &handle, expires_at)).then_some((handle, expires_at))
    };
    let (handle, expires_at) = read().ok_or(AccessRefused::Foreign)?;
    if expires_at.saturating_mul(1000) <= now { Err(AccessRefused::Expired) } else { Ok(handle) }
}

/// When an access token that was found valid ends, in milliseconds.
pub fn access_ends_at(text: &str) -> Option<i64> {
    let seconds: i64 = text.strip_prefix("tha_")?.split('.').nth(1)?.parse().ok()?;
    Some(seconds.saturating_mul(1000))
}

/// The id of a client that registers: `client-<its name>-<random>`, so that a person recognises it in a task's history.
pub fn client_id(name: Option<&str>, random: [u8; HANDLE_BYTES]) -> String {
    let mut slug = String::new();
    for c in name.unwrap_or_default().chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() == SLUG_BYTES_MAX {
            break;
        }
    }
    let slug = slug.trim_end_matches('-');
    let separator = if slug.is_empty() { "" } else { "-" };
    format!("client{separator}{slug}-{}", URL_SAFE_NO_PAD.encode(random))
}

/// The secret of a confidential client. It follows from the hub's secret and the id, so nothing is stored of it.
pub fn client_secret(secret: &str, client_id: &str) -> String {
    format!("ths_{}", short_mac(secret, "oauth-client-secret", &[client_id]))
}
