//! Who is there to do a task: presence, and what the owner's switches and limits leave of it (design §11).
//!
//! Presence is kept in memory, call by call, and written now and then, so that it outlives the object: with a claim, which
//! writes the executor's row anyway, at most once a minute; by a call that writes nothing else, four times an hour. A
//! heartbeat never writes it.

use super::Hub;
use crate::domain::limits::{
    CAPABILITIES_MAX, CAPABILITY_CHARS_MAX, ONLINE_MS, PRESENCE_IDLE_WRITE_MS, PRESENCE_WRITE_MS, VERSION_CHARS_MAX,
};
use crate::domain::moment::{begin_of_day, day, rfc3339};
use crate::domain::task::Address;
use crate::domain::wake::Wake;
use crate::store::database::DatabaseError;
use crate::store::executors::{self, ExecutorRow, Seen};

/// Executors that a sentence names before it stops.
const NAMED_MAX: usize = 5;

/// An executor that may take a task, and what keeps it from that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attendant {
    /// Its name.
    pub name: String,
    /// Whether it called within the last minute, or listens.
    pub online: bool,
    /// When it was last heard from, in milliseconds.
    pub last_seen_at: Option<i64>,
    /// Whether the owner has it rest.
    pub paused: bool,
    /// Whether the owner has shut it out.
    pub disabled: bool,
    /// Whether the hub can call it.
    pub is_called: bool,
    /// When it may claim again, if it has claimed as many tasks as it may today.
    pub claims_again_at: Option<i64>,
}

impl Attendant {
    fn may_claim(&self) -> bool {
        !self.paused && !self.disabled && self.claims_again_at.is_none()
    }
}

/// Those who may take the tasks of an address, the likeliest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attendance(pub Vec<Attendant>);

/// Why what an executor says of itself is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntroductionRejected {
    /// A field is wrong: its name, and what is right.
    Invalid {
        /// The field.
        field: &'static str,
        /// What is right, as a sentence.
        detail: String,
    },
    /// The database failed.
    Database(DatabaseError),
}

impl From<DatabaseError> for IntroductionRejected {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Who may take the tasks of this address, and whether they are there.
pub fn attendance(hub: &Hub<'_>, address: &Address) -> Result<Attendance, DatabaseError> {
    let rows = match address {
        Address::Executor(name) => executors::by_name(hub.db, name)?.into_iter().collect(),
        Address::Queue(queue) => executors::serving(hub.db, queue)?,
    };
    Ok(attendance_of(hub, &rows))
}

pub(super) fn attendance_of(hub: &Hub<'_>, rows: &[ExecutorRow]) -> Attendance {
    let attendant = |row: &ExecutorRow| Attendant {
        name: row.name.clone(),
        online: is_online(hub, row),
        last_seen_at: last_seen_at(hub, row),
        paused: row.paused_at.is_some(),
        disabled: row.disabled_at.is_some(),
        is_called: serde_json::from_value(row.wake.clone()).is_ok_and(|wake: Wake| wake.is_sent()),
        claims_again_at: claims_again_at(row, hub.now),
    };
    let mut all: Vec<Attendant> = rows.iter().map(attendant).collect();
    all.sort_by_key(|one| std::cmp::Reverse((one.may_claim(), !one.disabled, one.online, one.last_seen_at)));
    Attendance(all)
}

/// When an executor was last heard from, in milliseconds, by memory and by what was written.
pub(super) fn last_seen_at(hub: &Hub<'_>, row: &ExecutorRow) -> Option<i64> {
    hub.presence.last_seen_at(&row.name).max(row.last_seen_at).max(row.last_claim_at)
}

/// Whether an executor is there.
pub(super) fn is_online(hub: &Hub<'_>, row: &ExecutorRow) -> bool {
    hub.presence.is_online(&row.name, hub.now) || last_seen_at(hub, row).is_some_and(|at| hub.now - at < ONLINE_MS)
}

/// When an executor may claim again, in milliseconds, if it has claimed as many tasks as it may on this day.
pub fn claims_again_at(row: &ExecutorRow, now: i64) -> Option<i64> {
    let today = day(now);
    let is_spent = row.max_tasks_per_day.is_some_and(|max| claims_today(row, now) >= max);
    is_spent.then(|| begin_of_day(today + 1))
}

/// Tasks that an executor claimed today, as far as they are counted: while there is a limit.
pub fn claims_today(row: &ExecutorRow, now: i64) -> u32 {
    if row.day == Some(day(now)) { row.day_claims } else { 0 }
}

impl Attendance {
    /// Whether somebody is there who may take a task now.
    pub fn is_attended(&self) -> bool {
        self.0.iter().any(|one| one.online && one.may_claim())
    }

    /// If nobody is there: who could do the task, what keeps them from it, and what to do. Sentences.
    pub fn absence(&self) -> Option<String> {
        if self.is_attended() {
            return None;
        }
        let Some(likeliest) = self.0.first() else {
            let gone =
                "Nobody serves its address any more: call cancel_task, or tell your user to add an executor for it.";
            return Some(gone.to_owned());
        };
        let mut who: Vec<String> = self.0.iter().take(NAMED_MAX).map(condition).collect();
        if self.0.len() > NAMED_MAX {
            who.push(format!("and so for {} more", self.0.len() - NAMED_MAX));
        }
        Some(format!("Nobody is there to do it now: {}. {}", who.join("; "), remedy(likeliest)))
    }
}

fn condition(one: &Attendant) -> String {
    let name = &one.name;
    let seen = match (one.online, one.last_seen_at) {
        (true, _) => "is there".to_owned(),
        (false, Some(at)) => format!("was last seen at {}", rfc3339(at)),
        (false, None) => "has never been seen".to_owned(),
    };
    match (one.disabled, one.paused, one.claims_again_at) {
        (true, ..) => format!("{name} is disabled by the owner, and {seen}"),
        (false, true, _) => format!("{name} is paused by the owner, and {seen}"),
        (false, false, Some(_)) => format!("{name} has claimed as many tasks as it may today, and {seen}"),
        (false, false, None) => format!("{name} {seen}"),
    }
}

fn remedy(one: &Attendant) -> String {
    let name = &one.name;
    match (one.disabled, one.paused, one.claims_again_at) {
        (true, ..) => format!(
            "Tell your user, who can enable it (PATCH /api/executors/{name} with {{\"disabled\": false}}) or have the task \
             done elsewhere."
        ),
        (false, true, _) => {
            format!("Tell your user, who can resume it: PATCH /api/executors/{name} with {{\"paused\": false}}.")
        }
        (false, false, Some(at)) => format!(
            "It goes on at {}; your user can raise its max_tasks_per_day (PATCH /api/executors/{name}).",
            rfc3339(at)
        ),
        (false, false, None) if one.is_called => {
            format!("The tool wake_executor with executor \"{name}\" calls it once more.")
        }
        (false, false, None) => {
            format!("{name} only polls, so nothing can call it: tell your user to start it.")
        }
    }
}

/// An executor says what it is. Writes one row if that is news, or if it has not been noted as seen for long.
pub fn introduce(
    hub: &Hub<'_>,
    executor: &ExecutorRow,
    version: Option<&str>,
    capabilities: Option<&[String]>,
) -> Result<(), IntroductionRejected> {
    let invalid = |field, detail: String| Err(IntroductionRejected::Invalid { field, detail });
    let is_too_long = |text: &str, chars_max: usize| text.chars().nth(chars_max).is_some();
    if version.is_some_and(|version| version.is_empty() || is_too_long(version, VERSION_CHARS_MAX)) {
        return invalid("version", format!("It must have 1 to {VERSION_CHARS_MAX} characters."));
    }
    let given = capabilities.unwrap_or_default();
    if given.len() > CAPABILITIES_MAX
        || given.iter().any(|text| text.is_empty() || is_too_long(text, CAPABILITY_CHARS_MAX))
    {
        let rule = format!("at most {CAPABILITIES_MAX} texts of 1 to {CAPABILITY_CHARS_MAX} characters");
        return invalid("capabilities", format!("They must be {rule}."));
    }
    let version = version.or(executor.version.as_deref());
    let capabilities = capabilities.unwrap_or(&executor.capabilities);
    let is_news = version != executor.version.as_deref() || capabilities != executor.capabilities;
    if !is_news && !is_presence_old(executor, hub.now) {
        return Ok(());
    }
    let introduced = || executors::introduced(hub.db, &executor.name, (version, capabilities), hub.now);
    Ok(hub.command(|_| introduced())?)
}

fn is_presence_old(executor: &ExecutorRow, now: i64) -> bool {
    now - executor.last_seen_at.unwrap_or(executor.created_at) > PRESENCE_IDLE_WRITE_MS
}

/// A claim found nothing. As a rule that writes nothing.
pub(super) fn note_idle(hub: &Hub<'_>, executor: &ExecutorRow) -> Result<(), DatabaseError> {
    if !is_presence_old(executor, hub.now) {
        return Ok(());
    }
    executors::seen(hub.db, &executor.name, Seen::Calling, hub.now)
}

/// A claim found a task. Coalescing asks whether a claim came after the latest wake; the owner asks when the executor was
/// last at work; a daily limit counts every claim.
pub(super) fn note_claim(hub: &Hub<'_>, executor: &ExecutorRow) -> Result<(), DatabaseError> {
    let wake_unanswered = match (executor.last_wake_at, executor.last_claim_at) {
        (Some(woken_at), Some(claimed_at)) => claimed_at < woken_at,
        (Some(_), None) => true,
        (None, _) => false,
    };
    let is_old = executor.last_claim_at.is_none_or(|at| hub.now - at >= PRESENCE_WRITE_MS);
    let how = match executor.max_tasks_per_day {
        Some(_) => Seen::ClaimingOn(day(hub.now)),
        None if wake_unanswered || is_old => Seen::Claiming,
        None => return Ok(()),
    };
    executors::seen(hub.db, &executor.name, how, hub.now)
}
