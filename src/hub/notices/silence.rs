//! Executors that are not there while tasks wait for them. The owner is told once, until the executor is heard of again.
//!
//! The sweep looks at all of them now and then (`watch_silence`). An executor that only polls has no timer of its own that
//! would make the alarm ring, so a task that becomes ready for one that is not there sets one: a notice without a body, one
//! an executor, that is due when the silence would have lasted (`expect`, `ring`).

use super::{Effects, Hub, tell, words};
use crate::domain::limits::EXECUTORS_MAX;
use crate::domain::notice::{Notice, NoticeEvent};
use crate::domain::task::{Address, Lane};
use crate::domain::wake::Wake;
use crate::hub::attendance::{is_online, last_seen_at};
use crate::store::database::DatabaseError;
use crate::store::executors::{self, ExecutorRow};
use crate::store::outbox::{self, OutboxRow, State};
use crate::store::tasks::{self, Cursor, TaskHead};

/// What stands in place of a draft in a timer.
const TIMER: &str = "{}";
/// Waiting tasks counted at an address before the count says "at least".
const COUNT_MAX: u32 = 1_000;
/// Tasks in its hands that are looked at for when it was last heard of.
const HELD_READ_MAX: usize = 50;

/// How things stand with an executor.
enum Standing {
    /// Nothing waits for it, or the owner knows.
    Fine,
    /// Tasks wait; if it stays away, the owner is to be told at this time.
    Away(i64),
    /// It has been silent for this long, and so many tasks wait.
    Silent { silent_ms: i64, ready: u32 },
}

fn notice(executor: &str, text: String) -> Notice<'static> {
    let (event, subject) = (NoticeEvent::ExecutorSilent, executor.to_owned());
    Notice { event, subject, detail: "", task: None, text, quote: None, wishes: None }
}

/// When it was last heard of, in milliseconds; a new one is given the time to come.
fn heard_at(hub: &Hub<'_>, executor: &ExecutorRow) -> i64 {
    last_seen_at(hub, executor).unwrap_or_default().max(executor.created_at)
}

/// When it last said anything of the tasks that it holds; 0 if it holds none. A heartbeat writes no presence, and memory goes
/// with the object.
fn heard_at_work(hub: &Hub<'_>, executor: &ExecutorRow) -> Result<i64, DatabaseError> {
    let after = Cursor { lane_key: executor.name.clone(), ..Cursor::default() };
    let held = tasks::page_open(hub.db, Lane::Held, &after, HELD_READ_MAX)?;
    let own = held.into_iter().take_while(|(at, _)| at.lane_key == executor.name);
    Ok(own.filter_map(|(_, task)| task.life.claim.map(|claim| claim.heard_at)).max().unwrap_or_default())
}

/// Whether the owner was told of this silence.
fn is_told(hub: &Hub<'_>, executor: &ExecutorRow) -> bool {
    executor.silence_told_at.is_some_and(|at| at >= heard_at(hub, executor))
}

fn addresses(executor: &ExecutorRow) -> impl Iterator<Item = String> {
    let own = Address::Executor(executor.name.clone()).to_string();
    std::iter::once(own).chain(executor.queues.iter().cloned())
}

/// Since when a ready task has been so, at the latest. That it was woken for, or waited before it was deferred, does not count.
fn ready_since(task: &TaskHead) -> i64 {
    task.life.claim.as_ref().map_or(task.created_at, |claim| claim.heard_at.max(task.created_at))
}

fn standing(hub: &Hub<'_>, executor: &ExecutorRow) -> Result<Standing, DatabaseError> {
    if !executor.is_at_work() {
        // The owner has it rest.
        return Ok(Standing::Fine);
    }
    // Of an address, the task that is claimed first: one of a lower priority may have waited for longer, but there are only
    // ten of these, and nothing is claimed.
    let mut since: Option<i64> = None;
    for address in addresses(executor) {
        let first = tasks::next_ready(hub.db, &address, hub.now)?.map(|task| ready_since(&task));
        since = since.into_iter().chain(first).min();
    }
    let Some(since) = since else { return Ok(Standing::Fine) };
    if is_told(hub, executor) {
        return Ok(Standing::Fine);
    }
    // One that listens need not call.
    let mut heard_at = if is_online(hub, executor) { hub.now } else { heard_at(hub, executor) };
    let told_at = |heard_at: i64| since.max(heard_at) + hub.settings.silent_after_ms;
    if hub.now >= told_at(heard_at) {
        heard_at = heard_at.max(heard_at_work(hub, executor)?);
    }
    if hub.now < told_at(heard_at) {
        return Ok(Standing::Away(told_at(heard_at)));
    }
    let mut ready = 0;
    for address in addresses(executor) {
        ready += tasks::count_lane(hub.db, Lane::Ready, &address, COUNT_MAX)?;
    }
    Ok(Standing::Silent { silent_ms: hub.now - heard_at, ready })
}

/// Tells the owner if tasks have waited for this executor for long, and it has not been heard of for as long.
pub(super) fn silent(hub: &Hub<'_>, effects: &mut Effects, executor: &ExecutorRow) -> Result<(), DatabaseError> {
    let wanted = |event| hub.settings.notices().is_some_and(|ntfy| ntfy.events.has(event));
    if !wanted(NoticeEvent::ExecutorSilent) || is_online(hub, executor) {
        return Ok(());
    }
    let Standing::Silent { silent_ms, ready } = standing(hub, executor)? else { return Ok(()) };
    let notice = notice(&executor.name, words::silence(&executor.name, silent_ms, ready));
    for timer in outbox::of_cause(hub.db, &notice.cause())?.iter().filter(|row| is_timer(row)) {
        outbox::delete(hub.db, timer)?;
    }
    executors::silence_told(hub.db, &executor.name, hub.now)?;
    tell(hub, effects, &notice)
}

/// Looks at all executors. Each is one transaction; one that cannot be stored does not keep the others waiting.
pub fn watch_silence(hub: &Hub<'_>) -> Result<(), DatabaseError> {
    if hub.settings.notices().is_none() {
        return Ok(());
    }
    let mut done = Ok(());
    for executor in executors::all(hub.db, EXECUTORS_MAX)? {
        done = done.and(hub.command(|effects| silent(hub, effects, &executor)));
    }
    done
}

/// A task became ready for these executors: sets the timers of those that only poll, if none of them is there.
pub(in crate::hub) fn expect(hub: &Hub<'_>, executors: &[ExecutorRow]) -> Result<(), DatabaseError> {
    let wanted = hub.settings.notices().is_some_and(|ntfy| ntfy.events.has(NoticeEvent::ExecutorSilent));
    if !wanted || executors.iter().any(|executor| is_online(hub, executor)) {
        return Ok(());
    }
    let only_polls = |executor: &&ExecutorRow| {
        serde_json::from_value::<Wake>(executor.wake.clone()).map_or(true, |wake| !wake.is_sent())
    };
    for executor in executors.iter().filter(|one| one.is_at_work()).filter(only_polls) {
        let notice = notice(&executor.name, String::new());
        if is_told(hub, executor) || outbox::of_cause(hub.db, &notice.cause())?.iter().any(is_timer) {
            continue;
        }
        let at = hub.now + hub.settings.silent_after_ms;
        outbox::insert(hub.db, &super::row(hub, notice.cause(), &notice, at, TIMER.to_owned()))?;
    }
    Ok(())
}

pub(super) fn is_timer(row: &OutboxRow) -> bool {
    row.state == State::Due && row.attempts == 0 && row.body == TIMER
}

/// A timer has run out: what to tell. `None`: nothing, or not yet, and the timer was put off.
pub(super) fn ring(hub: &Hub<'_>, row: &OutboxRow, executor: &str) -> Result<Option<String>, DatabaseError> {
    let Some(executor) = executors::by_name(hub.db, executor)? else { return Ok(None) };
    match standing(hub, &executor)? {
        Standing::Fine => Ok(None),
        Standing::Away(at) => {
            outbox::move_to(hub.db, row, &OutboxRow { next_at: at, ..row.clone() })?;
            Ok(None)
        }
        Standing::Silent { silent_ms, ready } => {
            executors::silence_told(hub.db, &executor.name, hub.now)?;
            Ok(Some(words::silence(&executor.name, silent_ms, ready)))
        }
    }
}
