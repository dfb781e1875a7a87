//! Signed links: what the owner may do to one task by pressing a button on a phone, without signing in.
//!
//! A link names the action, the task and when it ends, and carries a MAC of these by the hub's secret, so one cannot be made
//! into another, and junk is told without a look at the store. Nothing is kept of it: that it acts once is the command's to
//! see to, each of which is the same twice as once.

use super::ids::TaskId;
use super::secret::{equal, short_mac};

/// How long a link is good, in milliseconds (one day).
pub const LINK_MS: i64 = 86_400_000;
/// Longest link token, in bytes.
const LINK_BYTES_MAX: usize = 120;

/// What a link does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Shows the task, and does nothing.
    Look,
    /// Calls it off.
    Cancel,
    /// Does it again, as a new one.
    Retry,
    /// Lets it begin.
    Approve,
    /// Refuses it.
    Deny,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 5] = [Self::Look, Self::Cancel, Self::Retry, Self::Approve, Self::Deny];

    /// The action's name in the link.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Cancel => "cancel",
            Self::Retry => "retry",
            Self::Approve => "approve",
            Self::Deny => "deny",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == name)
    }
}

/// A link whose MAC is right and whose time is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// What it does.
    pub action: Action,
    /// To which task.
    pub task: TaskId,
}

/// Why a link is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkRefused {
    /// This hub did not make it.
    Foreign,
    /// Its time is over.
    Expired,
}

/// The token of a link that ends at `expires_at` (seconds of Unix time): `<action>.<task>.<expires_at>.<mac>`.
pub fn token(secret: &str, action: Action, task: &str, expires_at: i64) -> String {
    let action = action.as_str();
    let mac = short_mac(secret, "action-link", &[action, task, &expires_at.to_string()]);
    format!("{action}.{task}.{expires_at}.{mac}")
}

/// What the link of this token does, if it is one of this hub and good at `now` (milliseconds).
pub fn read(secret: &str, text: &str, now: i64) -> Result<Link, LinkRefused> {
    let parse = || {
        let mut parts = text.splitn(4, '.');
        let action = Action::parse(parts.next()?)?;
        let task = TaskId::parse(parts.next()?)?;
        let expires_at: i64 = parts.next()?.parse().ok()?;
        equal(text, &token(secret, action, task.as_str(), expires_at)).then_some((action, task, expires_at))
    };
    let known = Some(text).filter(|text| text.len() <= LINK_BYTES_MAX).and_then(|_| parse());
    let (action, task, expires_at) = known.ok_or(LinkRefused::Foreign)?;
    if expires_at.saturating_mul(1000) <= now { Err(LinkRefused::Expired) } else { Ok(Link { action, task }) }
}
