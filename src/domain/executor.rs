//! The words for an executor's rules.

use serde::{Deserialize, Serialize};

/// Which of an executor's tasks wait for the owner's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// None.
    #[default]
    Never,
    /// Every one.
    Always,
}

impl Approval {
    /// Every rule.
    pub const ALL: [Self; 2] = [Self::Never, Self::Always];

    /// The rule's name on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Always => "always",
        }
    }

    /// The rule of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.as_str() == text)
    }
}
