//! Times as models read and write them: RFC 3339.

use serde::{Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::domain::moment::rfc3339;

const NANOSECONDS_PER_MS: i128 = 1_000_000;

/// A moment in milliseconds of Unix time; as text, RFC 3339 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Moment {
    /// Reads RFC 3339 with any offset; what is finer than a millisecond is dropped.
    pub fn parse(text: &str) -> Option<Self> {
        let moment = OffsetDateTime::parse(text.trim(), &Rfc3339).ok()?;
        i64::try_from(moment.unix_timestamp_nanos().div_euclid(NANOSECONDS_PER_MS)).ok().map(Self)
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&rfc3339(self.0))
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl schemars::JsonSchema for Moment {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Moment".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time" })
    }
}
