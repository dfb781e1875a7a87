//! The notices in words: what happened, to which task, by whom, and what to do now, short enough for a phone.

use super::Draft;
use crate::domain::action::Action;
use crate::domain::limits::NOTICE_TASKS_MAX;
use crate::domain::notice::{Notice, NoticeEvent, NoticeEvents, Quote};
use crate::domain::task::{Address, FailureCode, WaitingOn};
use crate::domain::text::shorten;
use crate::outbound::ntfy::{Message, Priority, quoted, unlinked};
use crate::store::tasks::TaskHead;

/// How much of what an executor wrote is kept for a notice, in characters.
const QUOTE_CHARS_MAX: usize = 1_000;
/// How much of a title is shown, in characters.
const TITLE_CHARS_MAX: usize = 100;

/// The task of a notice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'n> {
    /// Its id.
    pub(crate) id: &'n str,
    /// Its title.
    pub(crate) title: &'n str,
    /// Where it is addressed.
    pub(crate) address: &'n Address,
    /// The events that its submitter wants told.
    pub(crate) wishes: Option<&'n str>,
}

impl<'n> About<'n> {
    /// A task that is stored.
    pub(super) fn of(task: &'n TaskHead, wishes: Option<&'n str>) -> Self {
        Self { id: &task.id, title: &task.title, address: &task.address, wishes }
    }

    fn notice(self, event: NoticeEvent, detail: &'static str, text: String, quote: Option<Quote>) -> Notice<'n> {
        let (subject, task) = (self.address.to_string(), Some((self.id, self.title)));
        Notice { event, subject, detail, task, text, quote, wishes: self.wishes }
    }
}

fn quote(by: &str, words: &str) -> Option<Quote> {
    let words = shorten(words.trim(), QUOTE_CHARS_MAX);
    (!words.is_empty()).then(|| Quote { by: by.to_owned(), words })
}

/// An attempt of this executor asks something.
pub(super) fn asked<'n>(about: About<'n>, by: &str, on: WaitingOn, question: &str) -> Notice<'n> {
    let text = match on {
        WaitingOn::ExecutorUser => format!("{by} waits for its own user. Answer it there, or cancel the task."),
        _ => format!("{by} asks you something. Answer it through Claude (answer_task), or cancel the task."),
    };
    about.notice(NoticeEvent::InputRequired, on.as_str(), text, quote(by, question))
}

/// An attempt of this executor was lost in the middle of an outside action, and the hub asks what came of it. What the executor
/// named its steps and tools is in the question, so it is quoted.
pub(super) fn unknown_action<'n>(about: About<'n>, by: &str, question: &str) -> Notice<'n> {
    let text = format!(
        "{by} was lost in the middle of something outside, and the task waits until you say whether it happened. Look, and answer \
         through Claude (answer_task), or cancel the task."
    );
    about.notice(NoticeEvent::InputRequired, "unknown_action", text, quote("Your task hub", question))
}

/// A task waits for the owner's approval.
pub(super) fn approval<'n>(about: About<'n>, submitted_by: &str, instructions: &str) -> Notice<'n> {
    let text = format!("It is for {}, and begins when you approve it.", name(&about.address.to_string()));
    about.notice(NoticeEvent::ApprovalRequired, "", text, quote(submitted_by, instructions))
}

/// The hub has given up waking whoever the task is for; `why` is what became of the last wake.
pub(super) fn given_up<'n>(about: About<'n>, why: Option<&str>) -> Notice<'n> {
    let last = why.map_or_else(String::new, |why| format!(" (the last: {})", unlinked(&shorten(why, 200))));
    let text = format!(
        "The task waits, and every wake of {} failed{last}. See that it runs, then wake it through Claude (wake_executor), or \
         cancel the task.",
        name(&about.address.to_string())
    );
    about.notice(NoticeEvent::WakeGivenUp, "", text, None)
}

/// A task failed for good. `error` is what the executor said of it, if that is why.
pub(super) fn failed<'n>(about: About<'n>, code: FailureCode, error: Option<(&str, &str)>) -> Notice<'n> {
    let why = match code {
        FailureCode::ExecutorFailed => "The executor could not do it.",
        FailureCode::LeaseExpired => "The executor went silent in as many attempts as the task may fail.",
        FailureCode::DeadlineExceeded => "Its deadline passed before it was done.",
        FailureCode::InputTimeout => "Nobody answered its question in time.",
        FailureCode::DependencyFailed => "A task that it depends on failed or was canceled.",
        FailureCode::Denied => "It was denied.",
    };
    let whom = name(&about.address.to_string()).to_owned();
    let text = format!("{why} It was for {whom}. Retry makes a new task of it.");
    about.notice(NoticeEvent::Failed, code.as_str(), text, error.and_then(|(by, words)| quote(by, words)))
}

/// A task is done.
pub(super) fn completed<'n>(about: About<'n>, by: &str, result: &str) -> Notice<'n> {
    about.notice(NoticeEvent::Completed, "", format!("{by} has done it."), quote(by, result))
}

/// Something happened to the hub's credentials.
fn security(detail: &'static str, text: String) -> Notice<'static> {
    let event = NoticeEvent::Security;
    Notice { event, subject: String::new(), detail, task: None, text, quote: None, wishes: None }
}

/// A copy of a client's credential was used, and the client signed out.
pub(crate) fn replayed(client: &str) -> Notice<'static> {
    let name = unlinked(&shorten(client, 40));
    security(
        "replayed",
        format!(
            "The client that calls itself “{name}” was signed out: a code or refresh token of it was used a second time, so \
             somebody may have a copy. Signing in anew is safe."
        ),
    )
}

/// An address has used up its tries of the passphrase.
pub(crate) fn guessed(address: &str) -> Notice<'static> {
    let text = format!(
        "Somebody at {} has typed so many wrong passphrases that this address is barred for a while. If it was not you, there is \
         nothing to do as long as yours is long.",
        unlinked(address)
    );
    security("guessed", text)
}

/// The passphrase is another one now.
pub(crate) fn passphrase_changed() -> Notice<'static> {
    let text = "The hub's passphrase was changed. If it was not you, set another OWNER_PASSPHRASE, which wins, and sign \
                everybody out (DELETE /api/grants).";
    security("passphrase_changed", text.to_owned())
}

/// An executor, or a queue, as people call it.
fn name(subject: &str) -> &str {
    subject.trim_start_matches('@')
}

pub(super) fn title(event: NoticeEvent, subject: &str, task: Option<&str>) -> String {
    let task = shorten(task.unwrap_or(name(subject)), TITLE_CHARS_MAX);
    match event {
        NoticeEvent::InputRequired => format!("Question: {task}"),
        NoticeEvent::ApprovalRequired => format!("Approve? {task}"),
        NoticeEvent::WakeGivenUp => format!("Cannot wake {}: {task}", name(subject)),
        NoticeEvent::Failed => format!("Failed: {task}"),
        NoticeEvent::Completed => format!("Done: {task}"),
        NoticeEvent::ExecutorSilent => format!("{} is silent", name(subject)),
        NoticeEvent::Security => "Security of your task hub".to_owned(),
    }
}

pub(super) fn title_of_many(event: NoticeEvent, subject: &str, count: u32) -> String {
    let whom = name(subject);
    match event {
        NoticeEvent::InputRequired => format!("{count} questions of {whom} wait"),
        NoticeEvent::ApprovalRequired => format!("{count} tasks for {whom} wait for your approval"),
        NoticeEvent::WakeGivenUp => format!("Cannot wake {whom}: {count} tasks wait"),
        NoticeEvent::Failed => format!("{count} tasks for {whom} failed"),
        NoticeEvent::Completed => format!("{count} tasks for {whom} are done"),
        NoticeEvent::ExecutorSilent => format!("{whom} is silent"),
        NoticeEvent::Security => format!("Security of your task hub: {count} events"),
    }
}

pub(super) fn text(draft: &Draft) -> String {
    match &draft.quote {
        Some((by, words)) => format!("{}\n\n{}", draft.text, quoted(by, words)),
        None => draft.text.clone(),
    }
}

/// The first tasks by their titles, and how many there are beside them.
pub(super) fn text_of_many(draft: &Draft, subject: &str, count: u32) -> String {
    let mut lines: Vec<String> =
        draft.tasks.iter().map(|(_, title)| format!("– {}", unlinked(&shorten(title, TITLE_CHARS_MAX)))).collect();
    if lines.is_empty() {
        return format!("{} Told of {count} times.", draft.text);
    }
    if draft.tasks.len() == NOTICE_TASKS_MAX && count > draft.tasks.len() as u32 {
        lines.push(format!("and {} more", count - draft.tasks.len() as u32));
    }
    format!("Since the last notice:\n{}\nAsk Claude for the tasks of {}.", lines.join("\n"), name(subject))
}

pub(super) fn look(event: NoticeEvent) -> (Priority, &'static str) {
    match event {
        NoticeEvent::InputRequired => (Priority::High, "question"),
        NoticeEvent::ApprovalRequired => (Priority::High, "raised_hand"),
        NoticeEvent::WakeGivenUp => (Priority::High, "no_entry"),
        NoticeEvent::Failed => (Priority::High, "x"),
        NoticeEvent::Completed => (Priority::Default, "white_check_mark"),
        NoticeEvent::ExecutorSilent => (Priority::High, "zzz"),
        NoticeEvent::Security => (Priority::Urgent, "rotating_light"),
    }
}

/// What the owner can do at once about one task.
pub(super) fn buttons(event: NoticeEvent) -> &'static [(&'static str, Action)] {
    match event {
        NoticeEvent::InputRequired | NoticeEvent::WakeGivenUp => &[("Cancel task", Action::Cancel)],
        NoticeEvent::ApprovalRequired => &[("Approve", Action::Approve), ("Deny", Action::Deny)],
        NoticeEvent::Failed => &[("Retry", Action::Retry)],
        NoticeEvent::Completed | NoticeEvent::ExecutorSilent | NoticeEvent::Security => &[],
    }
}

/// An executor has not been seen for this long, and so many tasks wait for it.
pub(super) fn silence(executor: &str, silent_ms: i64, ready: u32) -> String {
    let minutes = silent_ms / 60_000;
    let time = if minutes < 120 { format!("{minutes} minutes") } else { format!("{} hours", minutes / 60) };
    let tasks = if ready == 1 { "1 task waits".to_owned() } else { format!("{ready} tasks wait") };
    format!(
        "{tasks} for {executor}, which has not been heard of for {time}. See that it runs. You are told again only after it was back."
    )
}

/// The notice that somebody asked for to see whether notices arrive.
pub(super) fn test(origin: &str, events: NoticeEvents) -> Message {
    let told: Vec<&str> = events.iter().map(NoticeEvent::as_str).collect();
    let told = if told.is_empty() { "nothing but what a task asks for".to_owned() } else { told.join(", ") };
    let text = format!("Notices from your task hub arrive here. You are told of: {told}. (The hub is at {origin}.)");
    Message {
        title: "A test of your task hub".to_owned(),
        text,
        priority: Priority::Default,
        tag: "bell",
        click: None,
        buttons: vec![],
    }
}
