//! Handing out an enrolment code: what the owner gives to a machine, which trades it for a key (`enroll`).

use super::Hub;
use super::executors::{ExecutorChange, ExecutorRejected, ExecutorView, account, add, view};
use crate::domain::enrolment;
use crate::domain::ids::is_executor_name;
use crate::domain::limits::{ENROLMENT_MS, ENROLMENTS_MAX};
use crate::domain::secret::sha256_hex;
use crate::store::{enrolments, executors};

/// Which executor a code is for.
#[derive(Clone, Debug, PartialEq)]
pub enum Enrolment {
    /// One that is there.
    Existing,
    /// A new one, with this account.
    New(ExecutorChange),
    /// One that is there, which stays as it is, or else a new one with this account.
    Either(ExecutorChange),
}

/// A code, which is shown this once.
#[derive(Clone, Debug)]
pub struct IssuedCode {
    /// The executor that it is for.
    pub executor: ExecutorView,
    /// Whether that was made just now.
    pub created: bool,
    /// Keys that it has already.
    pub keys: usize,
    /// The code.
    pub code: String,
    /// When it ends, in milliseconds.
    pub expires_at: i64,
}

/// Makes a code for an executor, and the executor where that is asked for. Codes that it had before stay good, but for the
/// oldest of too many.
pub fn issue_code(hub: &Hub<'_>, name: &str, enrolment: &Enrolment) -> Result<IssuedCode, ExecutorRejected> {
    let new = match enrolment {
        Enrolment::Existing if !is_executor_name(name) => return Err(ExecutorRejected::NotFound),
        Enrolment::Existing => None,
        Enrolment::New(given) | Enrolment::Either(given) => Some(account(hub, name, given)?),
    };
    // A code says its end in seconds; rounded up, none is shorter than it should be.
    let expires_at = (hub.now + ENROLMENT_MS).div_euclid(1000) + 1;
    let code = enrolment::code(&hub.settings.hub_secret, name, hub.random(), expires_at);
    let expires_at = expires_at * 1000;
    hub.command(|_| {
        let found = executors::by_name(hub.db, name)?;
        let is_new = found.is_none();
        let executor = match (found, &new) {
            (None, None) => return Err(ExecutorRejected::NotFound),
            (Some(_), Some(_)) if matches!(enrolment, Enrolment::New(_)) => return Err(ExecutorRejected::Exists),
            (Some(found), _) if found.disabled_at.is_some() => return Err(ExecutorRejected::Disabled),
            (Some(found), _) => found,
            (None, Some(new)) => {
                add(hub, new)?;
                new.clone()
            }
        };
        enrolments::insert(hub.db, name, &sha256_hex(&code), (hub.now, expires_at), ENROLMENTS_MAX)?;
        let keys = executors::keys(hub.db, name)?.len();
        Ok(IssuedCode { executor: view(hub, executor)?, created: is_new, keys, code: code.clone(), expires_at })
    })
}
