//! Tries that are limited, by address and in total.
//!
//! Invariants: what is refused writes nothing, so a flood costs no rows; the addresses that are counted are bounded. The
//! limits lie so that a person never meets them and a program that guesses does at once.

use super::Hub;
use crate::domain::limits::TRY_ADDRESSES_MAX;
use crate::store::database::DatabaseError;
use crate::store::grants;
use crate::store::owner::{self, EVERYWHERE};

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttle {
    /// A wrong passphrase.
    Passphrase,
    /// A wrong client secret.
    ClientSecret,
    /// A registration.
    Registration,
    /// The reading of a client's document.
    Document,
}

/// How many tries fit in how much time.
struct Bounds {
    window_ms: i64,
    of_address: u32,
    of_all: u32,
}

impl Throttle {
    const ALL: [Self; 4] = [Self::Passphrase, Self::ClientSecret, Self::Registration, Self::Document];

    fn kind(self) -> &'static str {
        match self {
            Self::Passphrase => "passphrase",
            Self::ClientSecret => "client_secret",
            Self::Registration => "registration",
            Self::Document => "document",
        }
    }

    fn bounds(self) -> Bounds {
        const QUARTER: i64 = 900_000;
        const HOUR: i64 = 3_600_000;
        // Anybody can use up what all share. Rows are written with each try and each client, and a free plan has 100,000 a day:
        // all four together take a third of them.
        match self {
            Self::Passphrase => Bounds { window_ms: QUARTER, of_address: 5, of_all: 50 },
            Self::ClientSecret => Bounds { window_ms: HOUR, of_address: 10, of_all: 100 },
            Self::Registration => Bounds { window_ms: HOUR, of_address: 20, of_all: 60 },
            Self::Document => Bounds { window_ms: HOUR, of_address: 20, of_all: 60 },
        }
    }
}

/// For how many seconds an address may not try again; `None`: it may. One from which the owner approved something before is
/// held to its own tries only: strangers cannot use up what it has.
pub(super) fn barred(hub: &Hub<'_>, what: Throttle, address: &str) -> Result<Option<u32>, DatabaseError> {
    let bounds = what.bounds();
    let is_trusted = grants::is_approved_from(hub.db, address)?;
    let mut until = None;
    for (counted, max) in [(address, bounds.of_address), (EVERYWHERE, bounds.of_all)] {
        if counted == EVERYWHERE && is_trusted {
            continue;
        }
        let tries = owner::tries(hub.db, what.kind(), counted)?;
        let over = tries.filter(|tries| tries.count >= max && hub.now < tries.since + bounds.window_ms);
        until = until.max(over.map(|tries| tries.since + bounds.window_ms));
    }
    Ok(until.map(|until| u32::try_from((until - hub.now + 999) / 1000).unwrap_or(u32::MAX)))
}

/// How many tries this address has left.
pub(super) fn left(hub: &Hub<'_>, what: Throttle, address: &str) -> Result<u32, DatabaseError> {
    let bounds = what.bounds();
    let spent = owner::tries(hub.db, what.kind(), address)?
        .filter(|tries| hub.now < tries.since + bounds.window_ms)
        .map_or(0, |tries| tries.count);
    Ok(bounds.of_address.saturating_sub(spent))
}

/// Counts one try.
pub(super) fn count(hub: &Hub<'_>, what: Throttle, address: &str) -> Result<(), DatabaseError> {
    let kind = what.kind();
    let over = hub.now - what.bounds().window_ms;
    owner::tried(hub.db, kind, EVERYWHERE, hub.now, over)?;
    if owner::tries(hub.db, kind, address)?.is_none() && owner::addresses(hub.db, kind)? >= TRY_ADDRESSES_MAX {
        owner::forget_old(hub.db, kind, over)?;
        if owner::addresses(hub.db, kind)? >= TRY_ADDRESSES_MAX {
            return Ok(());
        }
    }
    owner::tried(hub.db, kind, address, hub.now, over)
}

/// Forgets the tries of an address that has proved itself.
pub(super) fn forget(hub: &Hub<'_>, what: Throttle, address: &str) -> Result<(), DatabaseError> {
    owner::forget(hub.db, what.kind(), address)
}

/// Forgets what is over.
pub(super) fn purge(hub: &Hub<'_>) -> Result<(), DatabaseError> {
    for what in Throttle::ALL {
        owner::forget_old(hub.db, what.kind(), hub.now - what.bounds().window_ms)?;
    }
    Ok(())
}

/// Takes one try of a kind whose every try counts, or says for how many seconds there is none left.
pub fn take_try(hub: &Hub<'_>, what: Throttle, address: &str) -> Result<Option<u32>, DatabaseError> {
    let barred = barred(hub, what, address)?;
    if barred.is_none() {
        hub.command(|_| count(hub, what, address))?;
    }
    Ok(barred)
}
