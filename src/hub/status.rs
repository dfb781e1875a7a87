//! One look at the whole hub.

use std::collections::BTreeMap;

use super::executors::{ExecutorView, list_executors};
use super::files::{StorageUse, storage_use};
use super::grants::replayed_grants;
use super::{Hub, notices};
use crate::domain::limits::OUTBOX_READ_MAX;
use crate::domain::task::Lane;
use crate::store::database::DatabaseError;
use crate::store::grants::GrantRow;
use crate::store::migrate;
use crate::store::outbox::{self, OutboxRow};
use crate::store::tasks;

/// Tasks counted in a queue before the count says "at least".
const COUNT_MAX: u32 = 1_000;

/// The hub at a glance.
#[derive(Clone, Debug, PartialEq)]
pub struct HubStatus {
    /// This build's version.
    pub version: &'static str,
    /// The schema's version.
    pub schema: i64,
    /// The hub's clock, in milliseconds.
    pub time: i64,
    /// Its executors.
    pub executors: Vec<ExecutorView>,
    /// Claimable and waiting tasks of each queue that somebody serves; up to 1,000 are counted.
    pub queues: BTreeMap<String, (u32, u32)>,
    /// What files and database take.
    pub storage: StorageUse,
    /// When a timer runs out next, in milliseconds.
    pub next_due_at: Option<i64>,
    /// Messages that were given up and are still kept, the latest first.
    pub dead: Vec<OutboxRow>,
    /// What became of the last try of a notice that does not get through and is tried again.
    pub notice_refused: Option<String>,
    /// Grants that ended lately because a copy of one of their credentials was used.
    pub replayed: Vec<GrantRow>,
}

/// The hub at a glance. Counts are bounded, so the look costs what the executors and their backlog cost, not the history.
pub fn hub_status(hub: &Hub<'_>) -> Result<HubStatus, DatabaseError> {
    let executors = list_executors(hub)?;
    let mut queues = BTreeMap::new();
    for queue in executors.iter().flat_map(|executor| &executor.row.queues) {
        if !queues.contains_key(queue) {
            let ready = tasks::count_lane(hub.db, Lane::Ready, queue, COUNT_MAX)?;
            let waiting = tasks::count_lane(hub.db, Lane::Waiting, queue, COUNT_MAX)?;
            queues.insert(queue.clone(), (ready, waiting));
        }
    }
    Ok(HubStatus {
        version: env!("CARGO_PKG_VERSION"),
        schema: migrate::VERSION,
        time: hub.now,
        executors,
        queues,
        storage: storage_use(hub)?,
        next_due_at: hub.next_due()?,
        dead: outbox::page(hub.db, outbox::State::Dead, OUTBOX_READ_MAX)?,
        notice_refused: notices::refused(hub)?,
        replayed: replayed_grants(hub)?,
    })
}

/// Claimable tasks at each of these addresses (as text); up to 1,000 are counted.
pub fn ready_counts(hub: &Hub<'_>, addresses: &[String]) -> Result<Vec<(String, u32)>, DatabaseError> {
    let count = |address: &String| Ok((address.clone(), tasks::count_lane(hub.db, Lane::Ready, address, COUNT_MAX)?));
    addresses.iter().map(count).collect()
}

/// Tasks that an executor holds; up to 1,000 are counted.
pub fn held_count(hub: &Hub<'_>, executor: &str) -> Result<u32, DatabaseError> {
    tasks::count_lane(hub.db, Lane::Held, executor, COUNT_MAX)
}
