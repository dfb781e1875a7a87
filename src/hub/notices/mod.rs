//! Notices (design §8): what the owner is told, once for each cause.
//!
//! The first notice of a cause is sent at once. While it is being sent, tried again, or was told a moment ago, what follows
//! from the same cause is collected in one row, whose body is a draft; at the end of the window it is made into one notice
//! that tells how many there were. So a storm is two messages, and at most two rows of a cause live at a time. A body is
//! made when it is first sent and stays as it is.
//!
//! Invariant: without a usable configuration of ntfy nothing is added. What was owed before waits while the configuration is
//! wrong, and is forgotten where there is none. It refuses to know how a message is sent and tried again: that is the outbox's.

mod follow;
mod silence;
mod words;

use serde::{Deserialize, Serialize};

use super::{Effects, Hub, outbox as posts};
use crate::domain::action::{self, Action, LINK_MS};
use crate::domain::limits::{NOTICE_TASKS_MAX, OUTBOX_READ_MAX};
use crate::domain::notice::{Notice, NoticeEvent, Quote, event_of_cause};
use crate::domain::ntfy::Ntfy;
use crate::domain::task::{State as TaskState, WaitingOn};
use crate::faults::{self, Fault};
use crate::outbound::OutboundRequest;
use crate::outbound::ntfy::{self, Button, Message};
use crate::store::database::DatabaseError;
use crate::store::outbox::{self, Kind, OutboxRow, State};
use crate::store::tasks;

pub(super) use follow::{follow, submitted};
pub(super) use silence::expect;
pub use silence::watch_silence;
pub(super) use words::{About, guessed, passphrase_changed, replayed};

/// Random bytes of a notice's id.
const ID_BYTES: usize = 16;
/// While the configuration is wrong, what is owed is looked at this often, in milliseconds.
const MISCONFIGURED_MS: i64 = 3_600_000;

/// What a collecting row is made of.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Draft {
    /// Ids and titles of the first tasks.
    tasks: Vec<(String, String)>,
    /// The text of the first.
    text: String,
    /// Who said what, in the first.
    quote: Option<(String, String)>,
}

impl Draft {
    fn of(notice: &Notice<'_>) -> Self {
        let task = notice.task.map(|(id, title)| (id.to_owned(), title.to_owned()));
        let quote = notice.quote.as_ref().map(|Quote { by, words }| (by.clone(), words.clone()));
        Self { tasks: task.into_iter().collect(), text: notice.text.clone(), quote }
    }

    /// What a row is made of, if it collects still. One that was claimed and given back untried has its body already.
    fn read(row: &OutboxRow) -> Option<Self> {
        (row.state == State::Due && row.attempts == 0).then(|| serde_json::from_str(&row.body).ok()).flatten()
    }

    fn add(&mut self, notice: &Notice<'_>) {
        let Some((id, title)) = notice.task else { return };
        if self.tasks.len() < NOTICE_TASKS_MAX && !self.tasks.iter().any(|(known, _)| known == id) {
            self.tasks.push((id.to_owned(), title.to_owned()));
        }
    }

    fn write(&self) -> Result<String, DatabaseError> {
        serde_json::to_string(self).map_err(|_| DatabaseError::Shape("body"))
    }
}

/// Tells the owner, if that is wanted: now, or together with what else follows from the same cause.
pub(super) fn tell(hub: &Hub<'_>, effects: &mut Effects, notice: &Notice<'_>) -> Result<(), DatabaseError> {
    let Some(ntfy) = hub.settings.notices().filter(|ntfy| notice.is_wanted(ntfy.events)) else { return Ok(()) };
    let cause = notice.cause();
    let rows = outbox::of_cause(hub.db, &cause)?;
    if let Some((row, mut draft)) = rows.iter().find_map(|row| Some((row, Draft::read(row)?))) {
        draft.add(notice);
        let more = u32::from(!faults::is_on(Fault::StormMiscounted));
        let next = OutboxRow { count: row.count.saturating_add(more), body: draft.write()?, ..row.clone() };
        outbox::move_to(hub.db, row, &next)?;
        return Ok(());
    }
    let draft = Draft::of(notice);
    if let Some(next_at) = rows.iter().filter_map(|row| busy_until(hub, row, notice.event)).max() {
        return outbox::insert(hub.db, &row(hub, cause, notice, next_at, draft.write()?));
    }
    forget_told(hub, &rows)?;
    let row = row(hub, cause, notice, hub.now, String::new());
    let message = message(hub, notice.event, &notice.subject, &draft, 1);
    let body = ntfy::body(&ntfy.topic, &row.id, &message);
    let request = ntfy::request(ntfy, &row.id, body.clone());
    posts::post(hub, effects, OutboxRow { attempts: 1, body, ..row }, request)
}

fn row(hub: &Hub<'_>, cause: String, notice: &Notice<'_>, next_at: i64, body: String) -> OutboxRow {
    OutboxRow {
        state: State::Due,
        next_at,
        id: format!("ntc_{}", hub.random_text::<ID_BYTES>()),
        kind: Kind::Notice,
        subject: cause,
        task_id: notice.task.map(|(id, _)| id.to_owned()),
        wake_round: None,
        count: 1,
        attempts: 0,
        last_status: None,
        created_at: hub.now,
        body,
    }
}

/// Whether it is being sent or tried again: its body is made.
fn is_under_way(row: &OutboxRow) -> bool {
    row.state == State::Due && Draft::read(row).is_none() && !silence::is_timer(row)
}

/// Until when a notice of the cause keeps others from being sent at once, if it does.
fn busy_until(hub: &Hub<'_>, row: &OutboxRow, event: NoticeEvent) -> Option<i64> {
    match row.state {
        State::Told if row.next_at > hub.now => Some(row.next_at),
        // Its window begins when it is delivered.
        State::Due if is_under_way(row) => Some(hub.now + event.window_ms()),
        State::Told | State::Due | State::Dead => None,
    }
}

fn forget_told(hub: &Hub<'_>, rows: &[OutboxRow]) -> Result<(), DatabaseError> {
    for told in rows.iter().filter(|row| row.state == State::Told) {
        outbox::delete(hub.db, told)?;
    }
    Ok(())
}

/// A notice that says that notices arrive. It is owed to nobody, so it is in no outbox.
pub fn test_notice(hub: &Hub<'_>, ntfy: &Ntfy) -> OutboundRequest {
    let id = format!("ntc_{}", hub.random_text::<ID_BYTES>());
    let body = ntfy::body(&ntfy.topic, &id, &words::test(&hub.origin, ntfy.events));
    ntfy::request(ntfy, &id, body)
}

/// What to send for a notice that is due: its row with the body that is sent now and at every further try, and the request.
/// `None`: nothing, for it is not wanted any more and to be deleted, or was put off, and deleting it as it was does nothing.
pub(super) fn due(hub: &Hub<'_>, row: &OutboxRow) -> Result<Option<(OutboxRow, OutboundRequest)>, DatabaseError> {
    if hub.settings.ntfy.is_err() {
        // It is owed still, and goes out once the configuration is mended.
        outbox::move_to(hub.db, row, &OutboxRow { next_at: hub.now + MISCONFIGURED_MS, ..row.clone() })?;
        return Ok(None);
    }
    let (Some(ntfy), Some(event)) = (hub.settings.notices(), event_of_cause(&row.subject)) else { return Ok(None) };
    if is_under_way(row) {
        return Ok(Some((row.clone(), ntfy::request(ntfy, &row.id, row.body.clone()))));
    }
    let rows = outbox::of_cause(hub.db, &row.subject)?;
    if rows.iter().any(is_under_way) {
        outbox::move_to(hub.db, row, &OutboxRow { next_at: hub.now + event.window_ms(), ..row.clone() })?;
        return Ok(None);
    }
    let subject = row.subject.split('/').nth(1).unwrap_or_default();
    let draft = match Draft::read(row) {
        Some(draft) if row.count == 1 && is_over(hub, event, &draft)? => return Ok(None),
        Some(draft) => draft,
        None => match silence::ring(hub, row, subject)? {
            Some(text) => Draft { tasks: vec![], text, quote: None },
            None => return Ok(None),
        },
    };
    forget_told(hub, &rows)?;
    let body = ntfy::body(&ntfy.topic, &row.id, &message(hub, event, subject, &draft, row.count));
    let request = ntfy::request(ntfy, &row.id, body.clone());
    Ok(Some((OutboxRow { body, ..row.clone() }, request)))
}

/// What became of the last try of a notice that does not get through, if one is being tried again.
pub(super) fn refused(hub: &Hub<'_>) -> Result<Option<String>, DatabaseError> {
    if hub.settings.notices().is_none() {
        return Ok(None);
    }
    let waiting = outbox::page(hub.db, State::Due, OUTBOX_READ_MAX)?;
    Ok(waiting.into_iter().filter(|row| row.kind == Kind::Notice).find_map(|row| row.last_status))
}

/// When the window of a notice ends that was delivered now.
pub(super) fn told_until(row: &OutboxRow, now: i64) -> i64 {
    now + event_of_cause(&row.subject).map_or(0, NoticeEvent::window_ms)
}

/// Whether the one task that a draft is about does not wait for the owner any more.
fn is_over(hub: &Hub<'_>, event: NoticeEvent, draft: &Draft) -> Result<bool, DatabaseError> {
    let Some((id, _)) = draft.tasks.first() else { return Ok(false) };
    let is_asked = match event {
        NoticeEvent::InputRequired | NoticeEvent::ApprovalRequired => tasks::head(hub.db, id)?.map(|task| task.life),
        _ => return Ok(false),
    };
    let waits = is_asked.is_some_and(|life| match event {
        NoticeEvent::ApprovalRequired => life.waiting_on == Some(WaitingOn::Approval),
        _ => life.state == TaskState::InputRequired && life.answered_at.is_none(),
    });
    Ok(!waits)
}

/// A notice of `count` events of one cause in words, with its links.
fn message(hub: &Hub<'_>, event: NoticeEvent, subject: &str, draft: &Draft, count: u32) -> Message {
    let task = draft.tasks.first().filter(|_| count == 1);
    let (title, text) = match count {
        1 => (words::title(event, subject, task.map(|(_, title)| title.as_str())), words::text(draft)),
        _ => (words::title_of_many(event, subject, count), words::text_of_many(draft, subject, count)),
    };
    let (priority, tag) = words::look(event);
    let link = |action: Action| {
        let (id, _) = task.filter(|_| !hub.origin.is_empty())?;
        let token = action::token(&hub.settings.hub_secret, action, id, (hub.now + LINK_MS) / 1000);
        Some(format!("{}/act/{token}", hub.origin))
    };
    let button = |(label, action): &(&'static str, Action)| Some(Button { label, url: link(*action)? });
    let buttons = words::buttons(event).iter().filter_map(button).collect();
    Message { title, text, priority, tag, click: link(Action::Look), buttons }
}
