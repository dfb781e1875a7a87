//! Trading an enrolment code for an executor's key, once.
//!
//! Whoever used the code is known by a nonce, and is given the same key again for as long as the code is good: an answer that
//! was lost costs no second code. Everybody else is refused.

use super::Hub;
use super::executors::cut_off;
use super::keys::NewKey;
use crate::domain::enrolment::{self, CodeRefused};
use crate::domain::limits::EXECUTOR_KEYS_MAX;
use crate::domain::secret::sha256_hex;
use crate::store::database::DatabaseError;
use crate::store::{enrolments, executors};

/// What a code was traded for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolled {
    /// The executor.
    pub executor: String,
    /// Its new key.
    pub key: String,
    /// Whether that ended an older key, since an executor has only so many.
    pub ended_a_key: bool,
}

/// Why a code was traded for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnrollRejected {
    /// This hub did not make it, or its time is over.
    Refused(CodeRefused),
    /// Nothing is known of it any more: its executor was deleted, or has newer codes.
    Withdrawn {
        /// The executor that it was for.
        executor: String,
    },
    /// It was used under another nonce.
    Used,
    /// It was used under this nonce, and the key that it gave has ended since.
    KeyEnded,
    /// The owner has disabled its executor. The code stays good.
    Disabled {
        /// The executor.
        executor: String,
    },
    /// The database failed.
    Database(DatabaseError),
}

impl From<DatabaseError> for EnrollRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Trades a code for a key, on behalf of whoever has this nonce. Of more keys than an executor may have, the oldest ends.
pub fn enroll(hub: &Hub<'_>, code: &str, nonce: &str) -> Result<Enrolled, EnrollRejected> {
    let secret = &hub.settings.hub_secret;
    let name = enrolment::read(secret, code, hub.now).map_err(EnrollRejected::Refused)?.executor;
    let (code_hash, nonce_hash) = (sha256_hex(code), sha256_hex(nonce));
    let key = NewKey::made(enrolment::key(secret, &name, code));
    hub.command(|effects| {
        let withdrawn = || EnrollRejected::Withdrawn { executor: name.clone() };
        let known = enrolments::by_code(hub.db, &code_hash)?.ok_or_else(withdrawn)?;
        let executor = executors::by_name(hub.db, &known.executor)?.ok_or_else(withdrawn)?;
        if executor.disabled_at.is_some() {
            return Err(EnrollRejected::Disabled { executor: name.clone() });
        }
        let enrolled = |ended_a_key| Enrolled { executor: name.clone(), key: key.key.clone(), ended_a_key };
        match &known.nonce_hash {
            Some(used_by) if *used_by != nonce_hash => return Err(EnrollRejected::Used),
            Some(_) => {
                let is_valid = executors::by_key(hub.db, &sha256_hex(&key.key))?.is_some();
                return if is_valid { Ok(enrolled(false)) } else { Err(EnrollRejected::KeyEnded) };
            }
            None => {}
        }
        if !enrolments::spend(hub.db, &code_hash, &nonce_hash, hub.now)? {
            return Err(EnrollRejected::Used);
        }
        let ended_a_key = key.keep(hub, &name, EXECUTOR_KEYS_MAX)?;
        if ended_a_key {
            cut_off(effects, &executor);
        }
        Ok(enrolled(ended_a_key))
    })
}
