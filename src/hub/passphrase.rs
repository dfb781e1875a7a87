//! The owner signs in with a passphrase.
//!
//! `OWNER_PASSPHRASE` is the first one. It is hashed when it is first needed; a passphrase that was changed since wins over
//! it, until the owner sets another `OWNER_PASSPHRASE`, which is the way back in for one who forgot.
//!
//! Invariants: only the slow hash is stored; wrong ones are limited by address and in total, and an address from which the
//! owner approved something before is held to its own tries only. `OWNER_TOKEN` signs in as well and is not limited:
//! it is long enough that guessing is hopeless.

use super::throttle::{self, Throttle};
use super::{Hub, grants, notices};
use crate::domain::passphrase::{ROUNDS, hashed, is_right};
use crate::domain::secret::{equal, short_mac};
use crate::domain::settings::check_passphrase;
use crate::store::database::DatabaseError;
use crate::store::owner::{self, PassphraseRow};

/// What became of a try to sign in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignIn {
    /// This is the owner.
    Right,
    /// It is not.
    Wrong {
        /// Tries that this address has left.
        left: u32,
    },
    /// Too many wrong ones; this one was not looked at.
    Limited {
        /// When to try again, in seconds.
        retry_after_seconds: u32,
    },
    /// There is no passphrase: neither `OWNER_PASSPHRASE` nor one that was set later.
    NotSet,
}

/// Why a passphrase was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassphraseRejected {
    /// It cannot be one: what is wrong with it.
    Invalid(String),
    /// The database failed.
    Database(DatabaseError),
}

impl From<DatabaseError> for PassphraseRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Checks what somebody at this address typed.
pub fn sign_in(hub: &Hub<'_>, typed: &str, address: &str) -> Result<SignIn, DatabaseError> {
    if hub.settings.owner_token.as_ref().is_some_and(|token| equal(typed.trim(), token)) {
        return Ok(SignIn::Right);
    }
    if let Some(retry_after_seconds) = throttle::barred(hub, Throttle::Passphrase, address)? {
        return Ok(SignIn::Limited { retry_after_seconds });
    }
    let Some(stored) = current(hub)? else { return Ok(SignIn::NotSet) };
    let right = is_right(typed, &stored.hash);
    hub.command(|effects| {
        if right {
            throttle::forget(hub, Throttle::Passphrase, address)?;
            return Ok(SignIn::Right);
        }
        throttle::count(hub, Throttle::Passphrase, address)?;
        let left = throttle::left(hub, Throttle::Passphrase, address)?;
        if left == 0 {
            notices::tell(hub, effects, &notices::guessed(address))?;
        }
        Ok(SignIn::Wrong { left })
    })
}

/// The passphrase that counts now.
fn current(hub: &Hub<'_>) -> Result<Option<PassphraseRow>, DatabaseError> {
    let stored = owner::passphrase(hub.db)?;
    let Some(first) = &hub.settings.owner_passphrase else { return Ok(stored) };
    let bootstrap = bootstrap(hub);
    if let Some(stored) = stored.filter(|stored| equal(&stored.bootstrap, &bootstrap)) {
        return Ok(Some(stored));
    }
    let row = PassphraseRow { hash: hashed(first, hub.random(), ROUNDS), bootstrap, changed_at: hub.now };
    hub.command(|_| owner::set_passphrase(hub.db, &row))?;
    Ok(Some(row))
}

/// What tells one `OWNER_PASSPHRASE` from another without giving it away.
fn bootstrap(hub: &Hub<'_>) -> String {
    let first = hub.settings.owner_passphrase.as_deref().unwrap_or_default();
    short_mac(&hub.settings.hub_secret, "owner-passphrase", &[first])
}

/// Sets another passphrase, and signs every client out if `sign_out`. Returns how many grants that ended.
pub fn change_passphrase(hub: &Hub<'_>, new: &str, sign_out: bool) -> Result<usize, PassphraseRejected> {
    let new = new.trim();
    check_passphrase(new).map_err(PassphraseRejected::Invalid)?;
    let row = PassphraseRow { hash: hashed(new, hub.random(), ROUNDS), bootstrap: bootstrap(hub), changed_at: hub.now };
    hub.command(|effects| {
        owner::set_passphrase(hub.db, &row)?;
        notices::tell(hub, effects, &notices::passphrase_changed())?;
        let ended = if sign_out { grants::end_all(hub)? } else { 0 };
        Ok(ended)
    })
}
