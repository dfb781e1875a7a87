//! Ids of tasks and files: a letter, the time in base 36, 80 random bits. They sort by the time of their creation, which is
//! what lists and the purge rest on.

use std::fmt;

/// Characters of the time part: enough for base 36 milliseconds until the year 5188, so that ids sort as text.
const TIME_DIGITS: usize = 9;
/// Characters of the random part: 80 bits, five a character.
const RANDOM_DIGITS: usize = 16;
/// Crockford's alphabet in lower case: no i, l, o, u, so an id can be read aloud.
const RANDOM_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The id of a task: `t_<time in base 36>_<80 random bits>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(String);

/// The id of a file: `f_<time in base 36>_<80 random bits>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(String);

impl TaskId {
    /// The id of a task created at `now` (milliseconds), told apart from others by ten random bytes.
    pub fn new(now: i64, random: [u8; 10]) -> Self {
        Self(dated("t_", now, random))
    }

    /// What every id made at `now` begins with; ids made before `now` sort before it, later ones do not.
    pub fn time_prefix(now: i64) -> String {
        time_prefix("t_", now)
    }

    /// Reads an id as a caller wrote it, or `None` if no task can have it.
    pub fn parse(text: &str) -> Option<Self> {
        is_dated("t_", text).then(|| Self(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FileId {
    /// The id of a file that begins to exist at `now` (milliseconds), told apart from others by ten random bytes.
    pub fn new(now: i64, random: [u8; 10]) -> Self {
        Self(dated("f_", now, random))
    }

    /// Reads an id as a caller wrote it, or `None` if no file can have it.
    pub fn parse(text: &str) -> Option<Self> {
        is_dated("f_", text).then(|| Self(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn dated(prefix: &str, now: i64, random: [u8; 10]) -> String {
    let mut text = time_prefix(prefix, now);
    text.push('_');
    let mut bits: u128 = 0;
    for byte in random {
        bits = (bits << 8) | u128::from(byte);
    }
    for digit in (0..RANDOM_DIGITS).rev() {
        let index = ((bits >> (digit * 5)) & 31) as usize;
        text.push(char::from(RANDOM_ALPHABET[index]));
    }
    text
}

fn time_prefix(prefix: &str, now: i64) -> String {
    let mut digits = [b'0'; TIME_DIGITS];
    let mut rest = now.max(0).unsigned_abs();
    for slot in digits.iter_mut().rev() {
        let digit = (rest % 36) as u8;
        *slot = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
        rest /= 36;
    }
    let mut text = String::from(prefix);
    text.extend(digits.iter().map(|digit| char::from(*digit)));
    text
}

fn is_dated(prefix: &str, text: &str) -> bool {
    let Some((time, random)) = text.strip_prefix(prefix).and_then(|rest| rest.split_once('_')) else { return false };
    let time_fits = time.len() == TIME_DIGITS && time.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase());
    let random_fits = random.len() == RANDOM_DIGITS && random.bytes().all(|b| RANDOM_ALPHABET.contains(&b));
    time_fits && random_fits
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether an executor may be called this: a lower-case letter or digit, then letters, digits and hyphens.
pub fn is_executor_name(text: &str) -> bool {
    is_name(text, super::limits::EXECUTOR_NAME_BYTES_MAX, b"-")
}

/// Whether a queue may be called this: a lower-case letter or digit, then letters, digits, hyphens, dots and underscores.
pub fn is_queue_name(text: &str) -> bool {
    is_name(text, super::limits::QUEUE_NAME_BYTES_MAX, b"-._")
}

fn is_name(text: &str, bytes_max: usize, inner: &[u8]) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let mut bytes = text.bytes();
    text.len() <= bytes_max && bytes.next().is_some_and(plain) && bytes.all(|b| plain(b) || inner.contains(&b))
}
