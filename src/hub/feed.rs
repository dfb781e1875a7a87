//! The hub's events as one stream (design §11): what those who watch and listen are told.
//!
//! Reading only. An event's number is given in the transaction that writes it, one after the other, so whoever has read up
//! to N misses nothing by asking for what comes after N. Events of a task that was purged are gone.

use serde_json::Value as Json;

use super::Hub;
use super::grants::is_alive;
use crate::store::database::DatabaseError;
use crate::store::events::{self, EventRow};
use crate::store::{grants, tasks};

/// One event of some task.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedEvent {
    /// The hub's event number.
    pub seq: i64,
    /// The task.
    pub task_id: String,
    /// When, in milliseconds.
    pub at: i64,
    /// What, as on the wire.
    pub kind: &'static str,
    /// In which attempt; 0 before the first.
    pub attempt: u32,
    /// Who.
    pub actor: String,
    /// More about it.
    pub data: Json,
}

/// The number of the newest event; 0 before the first.
pub fn newest_event(hub: &Hub<'_>) -> Result<i64, DatabaseError> {
    events::newest(hub.db)
}

/// The events after this one, oldest first, at most so many.
pub fn events_after(hub: &Hub<'_>, seq: i64, events_max: usize) -> Result<Vec<FeedEvent>, DatabaseError> {
    Ok(events::after(hub.db, seq, events_max)?.into_iter().map(feed_event).collect())
}

/// Whether this grant has not ended.
pub fn is_granted(hub: &Hub<'_>, grant_id: &str) -> Result<bool, DatabaseError> {
    Ok(grants::by_id(hub.db, grant_id)?.is_some_and(|grant| is_alive(&grant, hub.now)))
}

/// Whether there is something to claim at any of these addresses.
pub fn is_work_ready(hub: &Hub<'_>, addresses: &[String]) -> Result<bool, DatabaseError> {
    for address in addresses {
        if tasks::next_ready(hub.db, address, hub.now)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn feed_event(event: EventRow) -> FeedEvent {
    let EventRow { seq, task_id, at, kind, attempt, actor, data, .. } = event;
    FeedEvent { seq, task_id, at, kind: kind.as_str(), attempt, actor, data }
}
