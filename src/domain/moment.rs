//! Moments in words.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const NANOSECONDS_PER_MS: i128 = 1_000_000;
/// A day in milliseconds. Unix time knows no other.
const DAY_MS: i64 = 86_400_000;

/// A moment in milliseconds of Unix time as RFC 3339 in UTC.
pub fn rfc3339(ms: i64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * NANOSECONDS_PER_MS);
    // Beyond the year 9999 there is no RFC 3339.
    let beyond = || "9999-12-31T23:59:59Z".to_owned();
    moment.ok().and_then(|moment| moment.format(&Rfc3339).ok()).unwrap_or_else(beyond)
}

/// The day of a moment in UTC, in days since 1970.
pub fn day(ms: i64) -> i64 {
    ms.div_euclid(DAY_MS)
}

/// When a day begins, in milliseconds of Unix time.
pub fn begin_of_day(day: i64) -> i64 {
    day * DAY_MS
}
