//! The outbox (design §3 rule 5): what is owed to the outside is written with the change that calls for it, sent outside of
//! any command, and recorded.
//!
//! - **At least once.** A row is deleted, or marked as told, only when its message was accepted. Whoever sends it has claimed
//!   it by moving its `next_at`; if the object dies before it records what became of that, the claim runs out and the same
//!   message, with the same id and body, goes out again.
//! - **Not twice at once.** A claim is longer than the request may take, and a message that was not begun in time to end within
//!   its claim is not begun (`Delivery::NotTried`).
//! - **Bounded.** After `SENDS_MAX` tries a message is dead: it is kept for the owner to see, and sent again if the owner
//!   wants. Wakes keep the bound and the waits of their task (design §7) and are never dead.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Effects, Hub, callbacks, notices, wakes};
use crate::domain::limits::{DISPATCH_BATCH_MAX, OUTBOX_READ_MAX, RETRY_AFTER_MS_MAX, SEND_RECORD_GRACE_MS, SENDS_MAX};
use crate::domain::retry;
use crate::faults::{self, Fault};
use crate::outbound::OutboundRequest;
use crate::store::database::DatabaseError;
use crate::store::outbox::{self, Kind, OutboxRow, State};

/// A message whose turn did not come is made ready again after this, in milliseconds: its receivers are slow.
const NOT_TRIED_MS: i64 = 5_000;
/// A message that could not be made ready is looked at again after this, in milliseconds.
const TROUBLE_MS: i64 = 60_000;

/// A message on its way: its row as it is claimed, and the request that carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The row.
    pub row: OutboxRow,
    /// What to send.
    pub request: OutboundRequest,
    /// When it was claimed, in milliseconds.
    pub claimed_at: i64,
}

impl Order {
    /// The latest moment at which sending may begin, in milliseconds: whoever begins later could still be sending, or recording
    /// what became of it, when somebody else begins.
    pub fn begin_by(&self) -> i64 {
        self.claimed_at + SEND_RECORD_GRACE_MS / 2
    }
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// 2xx.
    Accepted,
    /// No answer in time: it may have arrived.
    Unknown,
    /// Anything else.
    Rejected {
        /// What it was, in a few words.
        why: String,
        /// How long the receiver asks to be left alone, in milliseconds.
        retry_after_ms: Option<i64>,
    },
    /// It was not begun: too much else was being sent.
    NotTried,
}

impl Delivery {
    /// A refusal that asks for nothing.
    pub fn rejected(why: impl Into<String>) -> Self {
        Self::Rejected { why: why.into(), retry_after_ms: None }
    }

    /// How long the receiver asks to be left alone, within bounds, in milliseconds.
    pub(super) fn asked_ms(&self) -> i64 {
        match self {
            Self::Rejected { retry_after_ms: Some(ms), .. } => (*ms).clamp(0, RETRY_AFTER_MS_MAX),
            _ => 0,
        }
    }
}

/// What a batch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dispatched {
    /// Whether another batch may find more.
    pub more: bool,
    /// Messages that could not be made ready, with the reason; for the log.
    pub trouble: Vec<(String, DatabaseError)>,
}

/// Writes a message with the change that calls for it, claimed for whoever sends it once that has committed.
pub(super) fn post(
    hub: &Hub<'_>,
    effects: &mut Effects,
    row: OutboxRow,
    request: OutboundRequest,
) -> Result<(), DatabaseError> {
    let row = OutboxRow { next_at: claim_ends(hub, &request), ..row };
    outbox::insert(hub.db, &row)?;
    effects.outbox.push(Order { row, request, claimed_at: hub.now });
    Ok(())
}

fn claim_ends(hub: &Hub<'_>, request: &OutboundRequest) -> i64 {
    let lasts_ms = match () {
        () if faults::is_on(Fault::LostMessageForgotten) => i64::from(u32::MAX),
        () if faults::is_on(Fault::MessageClaimTooShort) => 1,
        () => request.timeout_ms + SEND_RECORD_GRACE_MS,
    };
    hub.now + lasts_ms
}

/// The next moment. No claim of before ends then, so nobody who held one can take the message for still held.
fn at_once(hub: &Hub<'_>) -> i64 {
    hub.now + 1
}

/// Claims messages that are due, the longest overdue first, at most `room` of them and a bounded batch; the effects bring
/// them to whoever sends. Each is one transaction, so that one that cannot be made ready does not hold up the others.
pub fn dispatch(hub: &Hub<'_>, room: usize) -> Result<Dispatched, DatabaseError> {
    let batch_max = room.min(DISPATCH_BATCH_MAX);
    if batch_max == 0 {
        return Ok(Dispatched::default());
    }
    let due = outbox::due(hub.db, hub.now, batch_max)?;
    let mut dispatched = Dispatched { more: due.len() == batch_max, ..Dispatched::default() };
    for row in &due {
        let claimed = catch_unwind(AssertUnwindSafe(|| hub.command(|effects| claim(hub, effects, row))));
        let claimed = claimed.unwrap_or_else(|_| Err(DatabaseError::Refused("making it ready panicked".to_owned())));
        if let Err(error) = claimed {
            dispatched.trouble.push((row.id.clone(), error));
            let put_off = outbox::move_to(hub.db, row, &OutboxRow { next_at: hub.now + TROUBLE_MS, ..row.clone() });
            // A message that stays due would be found again at once, and again, while the database takes nothing.
            dispatched.more &= put_off.is_ok();
            dispatched.trouble.extend(put_off.err().map(|error| (row.id.clone(), error)));
        }
    }
    Ok(dispatched)
}

fn claim(hub: &Hub<'_>, effects: &mut Effects, row: &OutboxRow) -> Result<(), DatabaseError> {
    if row.attempts >= SENDS_MAX && row.kind != Kind::Wake {
        let last_status =
            row.last_status.clone().or_else(|| Some("it was never recorded what became of it".to_owned()));
        return die(hub, row, last_status);
    }
    let ready = match row.kind {
        Kind::Wake => wakes::again(hub, effects, row)?.map(|request| (row.body.clone(), request)),
        Kind::Callback => match callbacks::request(hub, row) {
            Some(request) => Some((row.body.clone(), request)),
            None => return die(hub, row, Some(callbacks::NOT_PERMITTED.to_owned())),
        },
        Kind::Notice => notices::due(hub, row)?.map(|(row, request)| (row.body, request)),
    };
    let Some((body, request)) = ready else { return outbox::delete(hub.db, row).map(drop) };
    let next_at = claim_ends(hub, &request);
    let claimed = OutboxRow { next_at, attempts: row.attempts + 1, body, ..row.clone() };
    if outbox::move_to(hub.db, row, &claimed)? {
        effects.outbox.push(Order { row: claimed, request, claimed_at: hub.now });
    }
    Ok(())
}

/// Records what became of a message. If its claim ran out meanwhile, whoever has claimed it since reports instead.
pub fn record_delivery(hub: &Hub<'_>, order: &Order, delivery: &Delivery) -> Result<(), DatabaseError> {
    let row = &order.row;
    hub.command(|effects| match (delivery, row.kind) {
        // With its claim, it has fallen due by itself.
        (Delivery::NotTried, _) if hub.now >= row.next_at => Ok(()),
        (Delivery::NotTried, _) => {
            // Not below 1: its body is made, and must not change any more.
            let attempts = row.attempts.saturating_sub(1).max(1);
            let back = OutboxRow { next_at: hub.now + NOT_TRIED_MS, attempts, ..row.clone() };
            outbox::move_to(hub.db, row, &back).map(drop)
        }
        (_, Kind::Wake) => wakes::ended(hub, effects, order, delivery),
        (Delivery::Accepted, _) if faults::is_on(Fault::AcceptedSentAgain) => Ok(()),
        (Delivery::Accepted, Kind::Callback) => outbox::delete(hub.db, row).map(drop),
        (Delivery::Accepted, Kind::Notice) => {
            // Its body, with links that act, is not needed any more.
            let next_at = notices::told_until(row, hub.now);
            let told = OutboxRow { state: State::Told, next_at, body: String::new(), ..row.clone() };
            outbox::move_to(hub.db, row, &told).map(drop)
        }
        (Delivery::Unknown, _) => put_off(hub, row, "no answer in time", 0),
        (Delivery::Rejected { why, .. }, _) => put_off(hub, row, why, delivery.asked_ms()),
    })
}

/// Back to be sent later, or dead.
fn put_off(hub: &Hub<'_>, row: &OutboxRow, why: &str, asked_ms: i64) -> Result<(), DatabaseError> {
    let last_status = Some(why.to_owned());
    if row.attempts >= SENDS_MAX - u32::from(faults::is_on(Fault::GivenUpEarly)) {
        return die(hub, row, last_status);
    }
    let [jitter] = hub.random();
    let next_at = hub.now + retry::send_backoff_ms(row.attempts, jitter).max(asked_ms);
    outbox::move_to(hub.db, row, &OutboxRow { next_at, last_status, ..row.clone() }).map(drop)
}

fn die(hub: &Hub<'_>, row: &OutboxRow, last_status: Option<String>) -> Result<(), DatabaseError> {
    let dead = OutboxRow { state: State::Dead, next_at: hub.now, last_status, ..row.clone() };
    outbox::move_to(hub.db, row, &dead).map(drop)
}

/// The messages that wait and those that were given up, the latest first; at most `OUTBOX_READ_MAX` of each.
pub fn list_outbox(hub: &Hub<'_>) -> Result<(Vec<OutboxRow>, Vec<OutboxRow>), DatabaseError> {
    Ok((outbox::page(hub.db, State::Due, OUTBOX_READ_MAX)?, outbox::page(hub.db, State::Dead, OUTBOX_READ_MAX)?))
}

/// Sends a message that was given up once more, with all its tries. `false`: no such message among the latest.
pub fn revive(hub: &Hub<'_>, id: &str) -> Result<bool, DatabaseError> {
    hub.command(|_| {
        let Some(row) = dead(hub, id)? else { return Ok(false) };
        // Its body was sent before, so it must not change, as it would at 0.
        let due = OutboxRow { state: State::Due, next_at: at_once(hub), attempts: 1, ..row.clone() };
        outbox::move_to(hub.db, &row, &due)
    })
}

/// Forgets a message that was given up. `false`: no such message among the latest.
pub fn discard(hub: &Hub<'_>, id: &str) -> Result<bool, DatabaseError> {
    hub.command(|_| match dead(hub, id)? {
        Some(row) => outbox::delete(hub.db, &row),
        None => Ok(false),
    })
}

fn dead(hub: &Hub<'_>, id: &str) -> Result<Option<OutboxRow>, DatabaseError> {
    Ok(outbox::page(hub.db, State::Dead, OUTBOX_READ_MAX)?.into_iter().find(|row| row.id == id))
}

/// Forgets what was given up long ago, and what nobody collects any more.
pub fn purge_outbox(hub: &Hub<'_>) -> Result<(), DatabaseError> {
    hub.command(|_| {
        outbox::delete_old(hub.db, State::Dead, hub.now - hub.settings.retention_ms)?;
        outbox::delete_old(hub.db, State::Told, hub.now)
    })
}
