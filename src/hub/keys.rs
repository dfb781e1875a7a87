//! Executors' keys: making, listing and ending them, and who a key belongs to.
//!
//! Two are valid at a time, so that one can be replaced without a gap: make the new one, change over, end the old one. A key
//! is asked for in the registry at every call, and again when a call that waited goes on, so one that has ended does
//! nothing more.

use super::executors::{ExecutorRejected, cut_off};
use super::{Effects, Hub};
use crate::domain::ids::is_executor_name;
use crate::domain::limits::EXECUTOR_KEYS_MAX;
use crate::domain::secret;
use crate::store::database::DatabaseError;
use crate::store::executors::{self, ExecutorRow};

/// Hexadecimal digits of a key's hash that name it.
const ID_DIGITS: usize = 16;

/// A key, without the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyView {
    /// Names it. It follows from the key, which does not follow from it.
    pub id: String,
    /// When it was made, in milliseconds.
    pub created_at: i64,
}

/// A new key, which is shown this once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    /// Names it.
    pub id: String,
    /// The key.
    pub key: String,
}

fn id(hash: &str) -> String {
    format!("key_{}", hash.get(..ID_DIGITS).unwrap_or(hash))
}

impl NewKey {
    pub(super) fn of(hub: &Hub<'_>, name: &str) -> Self {
        Self::made(secret::executor_key(&hub.settings.hub_secret, name, hub.random()))
    }

    /// A key that follows from something.
    pub(super) fn made(key: String) -> Self {
        Self { id: id(&secret::sha256_hex(&key)), key }
    }

    /// Stores it, and ends all but the newest `keys_kept`. Whether that ended any.
    pub(super) fn keep(&self, hub: &Hub<'_>, name: &str, keys_kept: usize) -> Result<bool, DatabaseError> {
        executors::add_key(hub.db, name, &secret::sha256_hex(&self.key), hub.now, keys_kept)
    }
}

/// Makes a new key. The one before stays valid unless `revoke_others`; older ones end.
pub fn rotate_key(hub: &Hub<'_>, name: &str, revoke_others: bool) -> Result<NewKey, ExecutorRejected> {
    if !is_executor_name(name) {
        return Err(ExecutorRejected::NotFound);
    }
    let key = NewKey::of(hub, name);
    hub.command(|effects| {
        let executor = executors::by_name(hub.db, name)?.ok_or(ExecutorRejected::NotFound)?;
        if key.keep(hub, name, if revoke_others { 1 } else { EXECUTOR_KEYS_MAX })? {
            cut_off(effects, &executor);
        }
        Ok(key.clone())
    })
}

/// The keys of an executor that are valid, oldest first.
pub fn list_keys(hub: &Hub<'_>, name: &str) -> Result<Vec<KeyView>, ExecutorRejected> {
    executors::by_name(hub.db, name)?.ok_or(ExecutorRejected::NotFound)?;
    let keys = executors::keys(hub.db, name)?;
    Ok(keys.iter().map(|key| KeyView { id: id(&key.hash), created_at: key.created_at }).collect())
}

/// Ends one key at once. Returns how many are left.
pub fn revoke_key(hub: &Hub<'_>, name: &str, key_id: &str) -> Result<usize, ExecutorRejected> {
    hub.command(|effects: &mut Effects| {
        let executor = executors::by_name(hub.db, name)?.ok_or(ExecutorRejected::NotFound)?;
        let keys = executors::keys(hub.db, name)?;
        let key = keys.iter().find(|key| id(&key.hash) == key_id).ok_or(ExecutorRejected::KeyNotFound)?;
        executors::delete_key(hub.db, name, &key.hash)?;
        cut_off(effects, &executor);
        Ok(keys.len() - 1)
    })
}

/// The executor of this name, which calls through a client of its own; it counts as seen.
pub fn executor_at_work(hub: &Hub<'_>, name: &str) -> Result<Option<ExecutorRow>, DatabaseError> {
    let executor = executors::by_name(hub.db, name)?;
    if executor.is_some() {
        hub.presence.seen(name, hub.now);
    }
    Ok(executor)
}

/// The executor that this key belongs to, if it is valid now; it counts as seen. One that is disabled is returned as well:
/// who asks tells it so.
pub fn authenticate(hub: &Hub<'_>, key: &str) -> Result<Option<ExecutorRow>, DatabaseError> {
    if secret::executor_of_key(&hub.settings.hub_secret, key).is_none() {
        return Ok(None);
    }
    let executor = executors::by_key(hub.db, &secret::sha256_hex(key))?;
    if let Some(executor) = &executor {
        hub.presence.seen(&executor.name, hub.now);
    }
    Ok(executor)
}
