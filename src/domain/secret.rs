//! Secrets' formats: executor keys, claim tokens, the hashes that the store keeps of them, and the MACs of all credentials.
//!
//! Invariant: the store never holds what a caller presents, only its SHA-256. Everything that carries a MAC can be
//! refused as junk with the hub's secret alone, without a look at the database.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Bytes of a MAC that a credential carries: 128 bits.
const MAC_BYTES: usize = 16;
/// Random bytes of an executor key.
pub const KEY_RANDOM_BYTES: usize = 24;
/// Shortest `HUB_SECRET`, in bytes.
pub const HUB_SECRET_BYTES_MIN: usize = 32;

/// SHA-256 of a text, in lower-case hex.
pub fn sha256_hex(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// SHA-256 of a text, in base64url without padding (PKCE).
pub fn sha256_base64url(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text.as_bytes()))
}

/// Bytes in lower-case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]).map(char::from).collect()
}

/// HMAC-SHA-256 of the parts, each preceded by its length so that no two lists of parts look alike.
pub fn mac(secret: &str, purpose: &str, parts: &[&str]) -> [u8; 32] {
    let mut state = keyed(secret.as_bytes());
    for part in std::iter::once(&purpose).chain(parts) {
        state.update(&(part.len() as u64).to_be_bytes());
        state.update(part.as_bytes());
    }
    state.finalize().into_bytes().into()
}

/// HMAC-SHA-256 of raw bytes under a raw key (Standard Webhooks).
pub fn mac_bytes(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut state = keyed(key);
    state.update(message);
    state.finalize().into_bytes().into()
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    // HMAC takes a key of any length; the error type exists for other MACs.
    #[expect(clippy::expect_used, reason = "HMAC accepts keys of every length")]
    Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of every length")
}

/// Whether two secrets are equal, in time that depends on their lengths only.
pub fn equal(left: &str, right: &str) -> bool {
    left.as_bytes().ct_eq(right.as_bytes()).into()
}

/// The first half of a MAC, in base64url: 22 characters.
pub fn short_mac(secret: &str, purpose: &str, parts: &[&str]) -> String {
    URL_SAFE_NO_PAD.encode(&mac(secret, purpose, parts)[..MAC_BYTES])
}

/// A new key for an executor: `exk_<name>.<random>.<mac>`.
pub fn executor_key(secret: &str, name: &str, random: [u8; KEY_RANDOM_BYTES]) -> String {
    let random = URL_SAFE_NO_PAD.encode(random);
    let mac = short_mac(secret, "executor-key", &[name, &random]);
    format!("exk_{name}.{random}.{mac}")
}

/// The executor's name in a key whose MAC is right, or `None` for junk. It does not say that the key is still valid.
pub fn executor_of_key<'k>(secret: &str, key: &'k str) -> Option<&'k str> {
    let mut parts = key.strip_prefix("exk_")?.split('.');
    let (name, random, mac) = (parts.next()?, parts.next()?, parts.next()?);
    let right = parts.next().is_none()
        && super::ids::is_executor_name(name)
        && equal(mac, &short_mac(secret, "executor-key", &[name, random]));
    right.then_some(name)
}

/// The token of one claim: `clm_<attempt>.<mac>`. It follows from the hub's secret and the claim, so a claim that is asked
/// for again under the same request id can hand out the same token although only its hash is stored.
pub fn claim_token(secret: &str, task: &str, attempt: u32, executor: &str) -> String {
    let mac = short_mac(secret, "claim-token", &[task, &attempt.to_string(), executor]);
    format!("clm_{attempt}.{mac}")
}

/// The attempt that a claim token names, if it has the form of one.
pub fn attempt_of_token(token: &str) -> Option<u32> {
    let (attempt, mac) = token.strip_prefix("clm_")?.split_once('.')?;
    let well_formed = mac.len() == 22 && mac.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    well_formed.then(|| attempt.parse().ok()).flatten()
}

/// The secret with which callbacks are signed: `whsec_` and 32 bytes in base64 (Standard Webhooks). It follows from the hub's.
pub fn callback_secret(secret: &str) -> String {
    format!("whsec_{}", STANDARD.encode(mac(secret, "callback-signature", &[])))
}
