//! The slow salted hash of the owner's passphrase.
//!
//! PBKDF2 with HMAC-SHA-256. It runs in the object, whose share of CPU time a sign-in may well take; attempts are limited,
//! so the object is never kept busy by them.

use std::fmt::Write as _;

use sha2::Sha256;

use super::secret::equal;

/// Rounds of the hash. Stored with each hash, so that a later build may take more.
pub const ROUNDS: u32 = 200_000;
/// Random bytes of the salt.
pub const SALT_BYTES: usize = 16;

/// The hash as the store keeps it: `pbkdf2-sha256$<rounds>$<salt>$<hash>`, both in hex.
pub fn hashed(passphrase: &str, salt: [u8; SALT_BYTES], rounds: u32) -> String {
    let hash = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(passphrase.trim().as_bytes(), &salt, rounds);
    let mut text = format!("pbkdf2-sha256${rounds}$");
    for byte in salt {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('$');
    for byte in hash {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Whether this is the passphrase of a stored hash. Takes the same time whatever the passphrase is, and compares in constant
/// time.
pub fn is_right(passphrase: &str, stored: &str) -> bool {
    let read = || {
        let mut parts = stored.strip_prefix("pbkdf2-sha256$")?.split('$');
        let rounds: u32 = parts.next()?.parse().ok()?;
        let salt = parts.next()?;
        let mut bytes = [0; SALT_BYTES];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(salt.get(index * 2..index * 2 + 2)?, 16).ok()?;
        }
        Some((rounds, bytes))
    };
    read().is_some_and(|(rounds, salt)| equal(&hashed(passphrase, salt, rounds), stored))
}
