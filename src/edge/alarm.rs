//! The object's alarm: when it rings next, and what happens then.
//!
//! The runtime retries a failing alarm a few times, with pauses that grow to minutes, and then drops it for good. So `ring`
//! catches everything, panics included, and sets the next alarm last; a failed sweep is tried again after a pause that
//! grows. When an alarm is lost or late all the same, as after a full disk, the next request does its work and sets the next
//! one (`mend`), and the scheduled event is a request every half hour.
//!
//! Invariant: between events, the alarm is set no later than the earliest timer of all tasks. It is moved only to ring
//! earlier, because each move writes a row. The answer to a request that only reads never waits for a write: where there is no
//! room for one, the runtime ends the object and every answer that has not gone out.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use js_sys::futures::JsFuture;
use wasm_bindgen::{JsCast as _, JsValue};
use worker::{Delay, State, console_error};

use super::object::Object;
use super::{Panicked, clock, guarded_now};
use crate::domain::limits::{PURGE_BATCHES_MAX, SWEEP_BATCHES_MAX};
use crate::hub;
use crate::store::database::DatabaseError;

/// An alarm this far past its time is lost, in milliseconds.
const LATE_MS_MAX: i64 = 2_000;
/// A handler that began so long ago is gone, in milliseconds.
const RINGING_MS_MAX: i64 = 60_000;
/// The pause after the first failure, and the longest, in milliseconds.
const RETRY_MS_MIN: i64 = 5_000;
const RETRY_MS_MAX: i64 = 300_000;
/// A lost alarm is mended at most this often, in milliseconds, and this long after the request that found it lost.
const MEND_EVERY_MS: i64 = 5_000;
const MEND_AFTER: Duration = Duration::from_millis(50);
/// The pause when something stays due although a sweep succeeded, in milliseconds.
const AGAIN_MS: i64 = 1_000;
/// Finished tasks are looked through this often, in milliseconds.
const PURGE_EVERY_MS: i64 = 3_600_000;

/// A purge that is done in one step.
type Purge = fn(&hub::Hub<'_>) -> Result<(), DatabaseError>;

const PURGES: [(&str, Purge); 2] = [("clients and grants", hub::purge_sign_in), ("the outbox", hub::purge_outbox)];
/// Executors are looked at for silence this often, in milliseconds.
const WATCH_EVERY_MS: i64 = 180_000;

thread_local! {
    /// When a lost alarm was last mended. Outlives the object, which that may end.
    static MENDED_AT: Cell<i64> = const { Cell::new(0) };
}

/// When the alarm will ring.
#[derive(Clone, Copy)]
enum Armed {
    /// Not known to ring, though something may be due.
    Unknown,
    /// Not at all; nothing was due when that was looked up, and every later change looks again.
    Idle,
    /// At this time.
    At(i64),
}

/// A sweep failed. What went wrong stands in the log.
struct SweepFailed;

/// What this object knows about its alarm.
pub struct Alarm {
    armed: Cell<Armed>,
    ringing_since: Cell<Option<i64>>,
    failures: Cell<u32>,
    purged_at: Cell<i64>,
    watched_at: Cell<i64>,
    /// Where the purge goes on next time; empty: from the oldest.
    purged_to: RefCell<String>,
}

impl Default for Alarm {
    fn default() -> Self {
        Self {
            armed: Cell::new(Armed::Unknown),
            ringing_since: Cell::default(),
            failures: Cell::default(),
            purged_at: Cell::default(),
            watched_at: Cell::default(),
            purged_to: RefCell::default(),
        }
    }
}

impl Alarm {
    /// Asks the runtime when the alarm is set, once after the object was loaded.
    pub async fn learn(&self, state: &State) {
        match state.storage().get_alarm().await {
            Ok(Some(at)) => self.armed.set(Armed::At(at)),
            Ok(None) => self.armed.set(Armed::Unknown),
            Err(error) => console_error!("the alarm is unknown: {error}"),
        }
    }

    /// Whether it may be lost: it should have rung by now, or was never set.
    pub fn is_overdue(&self, now: i64) -> bool {
        match self.armed.get() {
            Armed::Unknown => true,
            Armed::Idle => false,
            Armed::At(at) => at < now - LATE_MS_MAX,
        }
    }

    /// Makes sure that the alarm rings for this timer, which was just set. Where it is not certain that it rings for those of
    /// before, or none is given, `next_due` looks up when the next is due. While it rings, that is left to `ring`.
    pub fn follow(
        &self,
        object: &Object,
        timer: Option<i64>,
        next_due: impl FnOnce() -> Result<Option<i64>, DatabaseError>,
    ) {
        let now = clock();
        if self.ringing_since.get().is_some_and(|since| now - since < RINGING_MS_MAX) {
            return;
        }
        let is_certain = !self.is_overdue(now);
        let next_due = || match timer {
            Some(at) if is_certain => Ok(Some(at)),
            Some(_) | None => next_due(),
        };
        let due = match guarded_now(next_due) {
            Ok(Ok(Some(due))) => due,
            Ok(Ok(None)) => {
                if matches!(self.armed.get(), Armed::Unknown) {
                    self.armed.set(Armed::Idle);
                }
                return;
            }
            Ok(Err(error)) => {
                console_error!("the next timer is unknown: {error}");
                now + RETRY_MS_MIN
            }
            Err(Panicked) => now + RETRY_MS_MIN,
        };
        // After a failure the pause is kept, whatever is due.
        let pauses = self.failures.get() > 0;
        let stays = matches!(self.armed.get(), Armed::At(at) if pauses || at <= due) && !self.is_overdue(now);
        if !stays && let Some(promise) = self.set(object, due) {
            object.state.wait_until(async move {
                if let Err(error) = JsFuture::from(promise).await {
                    console_error!("the alarm was not set: {}", worker::Error::from(error));
                }
            });
        }
    }

    /// Sets the alarm in this turn, together with what the turn has written. The promise is kept when it is on disk.
    fn set(&self, object: &Object, at: i64) -> Option<js_sys::Promise> {
        #[expect(clippy::cast_precision_loss, reason = "times are far below 2^53")]
        let date = js_sys::Date::new(&JsValue::from_f64(at as f64));
        let storage = object.state.storage();
        match storage.as_raw().set_alarm(date, JsValue::UNDEFINED.unchecked_into()) {
            Ok(promise) => {
                self.armed.set(Armed::At(at));
                object.database.count_written(1);
                Some(promise)
            }
            Err(error) => {
                console_error!("the alarm cannot be set: {error:?}");
                self.armed.set(Armed::Unknown);
                None
            }
        }
    }

    /// When to ring after a sweep.
    fn next_after(&self, swept: Result<Option<i64>, SweepFailed>, now: i64) -> Option<i64> {
        match swept {
            Ok(due) => {
                self.failures.set(0);
                due
            }
            Err(SweepFailed) => {
                let failures = self.failures.get();
                self.failures.set(failures.saturating_add(1));
                Some(now + (RETRY_MS_MIN << failures.min(16)).min(RETRY_MS_MAX))
            }
        }
    }
}

/// Does what a lost alarm should have done, and sets the next, after a request that only read.
pub fn mend(object: &Rc<Object>) {
    // A scripted clock is another one than the alarm's.
    #[cfg(feature = "test-hooks")]
    if super::test_routes::scripted_now().is_some() {
        return;
    }
    let now = clock();
    if (0..MEND_EVERY_MS).contains(&(now - MENDED_AT.get())) {
        return;
    }
    MENDED_AT.set(now);
    let reader = Rc::clone(object);
    object.state.wait_until(async move {
        Delay::from(MEND_AFTER).await;
        if !reader.alarm.is_overdue(clock()) {
            return;
        }
        if matches!(reader.alarm.armed.get(), Armed::At(_)) {
            sweep_now(&reader).await;
        } else if let Ok(due) = reader.run(clock(), |hub| hub.next_due()) {
            reader.alarm.follow(&reader, None, || due);
        }
    });
}

/// The alarm rings. It fails, so that the runtime retries it, only if the next alarm cannot be set.
pub async fn ring(object: &Rc<Object>) -> worker::Result<()> {
    let alarm = &object.alarm;
    alarm.ringing_since.set(Some(clock()));
    let swept = match object.open().await {
        Ok(()) => sweep_all(object).await,
        Err(_) => Err(SweepFailed),
    };
    alarm.ringing_since.set(None);
    alarm.armed.set(Armed::Idle);
    let Some(at) = alarm.next_after(swept, clock()) else { return Ok(()) };
    match alarm.set(object, at) {
        Some(promise) => JsFuture::from(promise).await.map(drop).map_err(worker::Error::from),
        None => Err(worker::Error::RustError("the next alarm cannot be set".to_owned())),
    }
}

/// The scheduled event: the same sweep, whatever became of the alarm.
pub async fn sweep_now(object: &Rc<Object>) {
    let due = sweep_all(object).await;
    let next = object.alarm.next_after(due, clock());
    object.alarm.follow(object, None, || Ok(next));
}

/// Handles everything that is due, in bounded batches between which requests get their turn. Returns when the next timer is
/// due.
async fn sweep_all(object: &Rc<Object>) -> Result<Option<i64>, SweepFailed> {
    let mut more = true;
    for _ in 0..SWEEP_BATCHES_MAX {
        more = sweep_batch(object)?;
        if !more {
            break;
        }
        Delay::from(Duration::ZERO).await;
    }
    watch_silence(object);
    dispatch_all(object).await?;
    let now = clock();
    if now - object.alarm.purged_at.get() >= PURGE_EVERY_MS {
        purge_all(object).await;
    }
    if more {
        return Ok(Some(clock()));
    }
    match object.run(clock(), |hub| hub.next_due()) {
        Ok(Ok(due)) => Ok(due.map(|at| if at <= now { now + AGAIN_MS } else { at })),
        Ok(Err(error)) => {
            console_error!("the next timer is unknown: {error}");
            Err(SweepFailed)
        }
        Err(Panicked) => Err(SweepFailed),
    }
}

/// Looks now and then whether executors stay away while tasks wait. A failure is only logged: the next time will do.
fn watch_silence(object: &Rc<Object>) {
    let now = clock();
    if now - object.alarm.watched_at.get() < WATCH_EVERY_MS {
        return;
    }
    object.alarm.watched_at.set(now);
    match object.run(now, hub::watch_silence) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => console_error!("looking for silent executors failed: {error}"),
        Err(Panicked) => console_error!("looking for silent executors panicked"),
    }
}

/// Makes ready what the outbox owes, as far as there is room for it on its way. What there is no room for stays due.
async fn dispatch_all(object: &Rc<Object>) -> Result<(), SweepFailed> {
    loop {
        let room = object.dispatcher.room();
        match object.run(clock(), |hub| hub::dispatch(hub, room)) {
            Ok(Ok(dispatched)) => {
                for (message, error) in &dispatched.trouble {
                    console_error!("{message} could not be made ready: {error}");
                }
                if !dispatched.more {
                    return Ok(());
                }
            }
            Ok(Err(error)) => {
                console_error!("the outbox cannot be read: {error}");
                return Err(SweepFailed);
            }
            Err(Panicked) => return Err(SweepFailed),
        }
        Delay::from(Duration::ZERO).await;
    }
}

/// One batch of a sweep. Returns whether there may be more.
fn sweep_batch(object: &Rc<Object>) -> Result<bool, SweepFailed> {
    let swept = object.run(clock(), |hub| {
        crate::hooks::panic_point("alarm");
        hub::sweep(hub)
    });
    match swept {
        Ok(Ok(swept)) => {
            for (task, error) in &swept.trouble {
                console_error!("the timer of {task} could not be handled: {error}");
            }
            Ok(swept.more)
        }
        Ok(Err(error)) => {
            console_error!("a sweep failed: {error}");
            Err(SweepFailed)
        }
        Err(Panicked) => {
            console_error!("a sweep panicked");
            Err(SweepFailed)
        }
    }
}

/// Deletes what has been kept for long enough, from where the last time ended, so that old tasks that stay do not keep it
/// from the ones behind them. What one sweep leaves, the next goes on with. A failure is only logged: the next time will do.
async fn purge_all(object: &Rc<Object>) {
    let purged_before = object.alarm.purged_at.replace(clock());
    for (what, purge) in PURGES {
        match object.run(clock(), purge) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => console_error!("purging {what} failed: {error}"),
            Err(Panicked) => console_error!("purging {what} panicked"),
        }
    }
    purge_files(object).await;
    for _ in 0..PURGE_BATCHES_MAX {
        let after = object.alarm.purged_to.borrow().clone();
        let next = match object.run(clock(), |hub| hub::purge(hub, &after)) {
            Ok(Ok(next)) => next,
            Ok(Err(error)) => return console_error!("purging failed: {error}"),
            Err(Panicked) => return console_error!("purging panicked"),
        };
        let at_end = next.is_none();
        *object.alarm.purged_to.borrow_mut() = next.unwrap_or_default();
        if at_end {
            return;
        }
        Delay::from(Duration::ZERO).await;
    }
    object.alarm.purged_at.set(purged_before);
}

/// Deletes uploads and files that are over, in bounded batches: many of them are many megabytes.
async fn purge_files(object: &Rc<Object>) {
    for _ in 0..PURGE_BATCHES_MAX {
        match object.run(clock(), hub::purge_files) {
            Ok(Ok(true)) => Delay::from(Duration::ZERO).await,
            Ok(Ok(false)) => return,
            Ok(Err(error)) => return console_error!("purging files failed: {error}"),
            Err(Panicked) => return console_error!("purging files panicked"),
        }
    }
}
