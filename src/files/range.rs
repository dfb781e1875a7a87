//! Which part of a file a request asks for (RFC 9110 §14): one range of bytes. Whatever else it says is answered with the whole,
//! as the RFC permits: several ranges, another unit, what is no range.

use crate::http::message::Request;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// These bytes, at least one.
    Bytes {
        /// The first.
        from: u64,
        /// How many.
        bytes: u64,
    },
    /// Nothing: the range lies behind the end.
    Unsatisfiable,
}

/// The part of a file of this size and with this ETag that is sent.
pub fn part(request: &Request, size: u64, etag: &str) -> Part {
    // Other methods have no ranges.
    let Some(range) = request.header("range").filter(|_| request.method == "GET") else { return Part::Whole };
    // A part of another content would be taken for one of this. A date is of no use: there is no Last-Modified.
    if request.header("if-range").is_some_and(|condition| condition != etag) {
        return Part::Whole;
    }
    let spec = range.split_once('=').filter(|(unit, _)| unit.trim().eq_ignore_ascii_case("bytes"));
    let Some((first, last)) = spec.and_then(|(_, set)| set.trim().split_once('-')) else { return Part::Whole };
    match (number(first), number(last)) {
        (Ok(None), Ok(Some(suffix))) => {
            let bytes = suffix.min(size);
            if bytes == 0 { Part::Unsatisfiable } else { Part::Bytes { from: size - bytes, bytes } }
        }
        (Ok(Some(first)), Ok(last)) if last.is_none_or(|last| first <= last) => {
            if first >= size {
                return Part::Unsatisfiable;
            }
            let end = last.map_or(size, |last| last.saturating_add(1).min(size));
            Part::Bytes { from: first, bytes: end - first }
        }
        _ => Part::Whole,
    }
}

/// Digits, or nothing. A number that is too long for us is larger than any file.
fn number(text: &str) -> Result<Option<u64>, ()> {
    let text = text.trim();
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(());
    }
    Ok((!text.is_empty()).then(|| text.parse().unwrap_or(u64::MAX)))
}
