//! Enrolment codes: what the owner hands to a machine so that it gets an executor's key without anybody copying that.
//!
//! A code names the executor and when it ends, and carries a MAC of these by the hub's secret, so junk is told without a look
//! at the store. It is good once: the store keeps its SHA-256, and that of the nonce under which it was used. The key follows
//! from the hub's secret and the code, so an answer that was lost can be given again although no key is stored.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::ids::is_executor_name;
use super::secret::{KEY_RANDOM_BYTES, equal, executor_key, mac, short_mac};

/// Random bytes of a code.
pub const CODE_RANDOM_BYTES: usize = 16;
/// Longest code, in bytes.
const CODE_BYTES_MAX: usize = 120;

/// A code whose MAC is right and whose time is not over. It does not say that it was not used before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The executor that it is for.
    pub executor: String,
    /// When it ends, in milliseconds.
    pub expires_at: i64,
}

/// Why a code is refused without a look at the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeRefused {
    /// This hub did not make it.
    Foreign,
    /// Its time is over.
    Expired,
}

/// The code of an executor that ends at `expires_at` (seconds of Unix time): `enr_<name>.<random>.<expires_at>.<mac>`. Nothing
/// in it means anything to a shell.
pub fn code(secret: &str, executor: &str, random: [u8; CODE_RANDOM_BYTES], expires_at: i64) -> String {
    sealed(secret, executor, &URL_SAFE_NO_PAD.encode(random), expires_at)
}

fn sealed(secret: &str, executor: &str, random: &str, expires_at: i64) -> String {
    let mac = short_mac(secret, "enrolment-code", &[executor, random, &expires_at.to_string()]);
    format!("enr_{executor}.{random}.{expires_at}.{mac}")
}

/// What a code says, if it is one of this hub and good at `now` (milliseconds).
pub fn read(secret: &str, text: &str, now: i64) -> Result<Code, CodeRefused> {
    let parse = || {
        let mut parts = text.strip_prefix("enr_")?.splitn(4, '.');
        let (executor, random) = (parts.next()?, parts.next()?);
        let expires_at: i64 = parts.next()?.parse().ok()?;
        let right = is_executor_name(executor) && equal(text, &sealed(secret, executor, random, expires_at));
        right.then(|| (executor.to_owned(), expires_at))
    };
    let known = Some(text).filter(|text| text.len() <= CODE_BYTES_MAX).and_then(|_| parse());
    let (executor, expires_at) = known.ok_or(CodeRefused::Foreign)?;
    let expires_at = expires_at.saturating_mul(1000);
    if expires_at <= now { Err(CodeRefused::Expired) } else { Ok(Code { executor, expires_at }) }
}

/// The executor's key that a code is traded for; always the same.
pub fn key(secret: &str, executor: &str, code: &str) -> String {
    let random = mac(secret, "enrolled-key", &[code]);
    let mut first = [0; KEY_RANDOM_BYTES];
    first.copy_from_slice(&random[..KEY_RANDOM_BYTES]);
    executor_key(secret, executor, first)
}
