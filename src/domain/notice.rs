//! What the owner is told of (design §8): the events, which of them are wanted, and a notice as it is handed in.
//!
//! Owns the names on the wire and the windows in which what has one cause is told once. It refuses to know how a notice
//! travels.

use serde_json::Value as Json;

use super::text::shorten;

/// Something that the owner may want to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoticeEvent {
    /// An attempt asked something.
    InputRequired,
    /// A task waits for the owner's approval.
    ApprovalRequired,
    /// The hub has given up waking an executor.
    WakeGivenUp,
    /// A task failed for good.
    Failed,
    /// A task is done.
    Completed,
    /// Tasks wait for an executor that has not been seen for a while.
    ExecutorSilent,
    /// Something happened to the hub's credentials.
    Security,
}

impl NoticeEvent {
    /// Every event.
    pub const ALL: [Self; 7] = [
        Self::InputRequired,
        Self::ApprovalRequired,
        Self::WakeGivenUp,
        Self::Failed,
        Self::Completed,
        Self::ExecutorSilent,
        Self::Security,
    ];

    /// The event's name on the wire and in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InputRequired => "input_required",
            Self::ApprovalRequired => "approval_required",
            Self::WakeGivenUp => "wake_given_up",
            Self::Failed => "failed",
            Self::Completed => "completed",
            Self::ExecutorSilent => "executor_silent",
            Self::Security => "security",
        }
    }

    /// The event of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == name)
    }

    /// How long after a notice what follows from the same cause is collected, in milliseconds. Somebody waits for the owner
    /// where a question or an approval is open, so these come soonest.
    pub fn window_ms(self) -> i64 {
        match self {
            Self::InputRequired | Self::ApprovalRequired => 60_000,
            Self::Failed => 300_000,
            Self::WakeGivenUp | Self::Completed | Self::ExecutorSilent | Self::Security => 600_000,
        }
    }

    fn bit(self) -> u8 {
        1 << Self::ALL.iter().position(|event| *event == self).unwrap_or_default()
    }
}

/// A set of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoticeEvents(u8);

impl NoticeEvents {
    /// None at all.
    pub const NONE: Self = Self(0);

    /// What the owner is told of without asking for anything else: all but the end of what went well.
    pub fn usual() -> Self {
        Self::of(NoticeEvent::ALL.into_iter().filter(|event| *event != NoticeEvent::Completed))
    }

    /// These events.
    pub fn of(events: impl IntoIterator<Item = NoticeEvent>) -> Self {
        Self(events.into_iter().fold(0, |bits, event| bits | event.bit()))
    }

    /// The events of these names. The error says which is wrong, and what is right.
    pub fn of_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self, String> {
        let event = |name: &str| {
            NoticeEvent::parse(name).ok_or_else(|| {
                let known = NoticeEvent::ALL.map(NoticeEvent::as_str).join(", ");
                format!("\"{}\" is not an event; these are: {known}", shorten(name, 40))
            })
        };
        names.into_iter().map(event).collect::<Result<Vec<_>, _>>().map(Self::of)
    }

    /// The events of a list with commas, as a setting has it; `none` is none at all.
    pub fn of_setting(list: &str) -> Result<Self, String> {
        if list.trim() == "none" {
            return Ok(Self::NONE);
        }
        Self::of_names(list.split(',').map(str::trim).filter(|name| !name.is_empty()))
    }

    /// The events of a JSON list, as a task keeps what its submitter wants. What it cannot read, it takes for no wish.
    pub fn of_wish(list: &str) -> Option<Self> {
        let names: Vec<String> = serde_json::from_str(list).ok()?;
        Self::of_names(names.iter().map(String::as_str)).ok()
    }

    /// Their names.
    pub fn names(self) -> Vec<String> {
        self.iter().map(|event| event.as_str().to_owned()).collect()
    }

    /// What is told of a task, where these are the owner's choice: what its submitter names comes on top, so that whoever asks to
    /// hear of its end hears of its questions as before; an empty list wants nothing told.
    #[must_use]
    pub fn with_wish(self, wish: Option<&str>) -> Self {
        match wish.and_then(Self::of_wish) {
            None => self,
            Some(Self::NONE) => Self::NONE,
            Some(Self(more)) => Self(self.0 | more),
        }
    }

    /// The JSON list that `of_wish` reads.
    pub fn to_wish(self) -> String {
        Json::from(self.names()).to_string()
    }

    /// Whether this event is among them.
    pub fn has(self, event: NoticeEvent) -> bool {
        self.0 & event.bit() != 0
    }

    /// The events, in their order.
    pub fn iter(self) -> impl Iterator<Item = NoticeEvent> {
        NoticeEvent::ALL.into_iter().filter(move |event| self.has(*event))
    }
}

/// What somebody else than the hub or the owner's client wrote: never trusted, always shown as theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Who: the executor's name.
    pub by: String,
    /// The words.
    pub words: String,
}

/// Something to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice<'n> {
    /// What happened.
    pub event: NoticeEvent,
    /// Where: an address or an executor; empty if that says nothing.
    pub subject: String,
    /// What tells causes at the same place apart, such as the code of a failure; empty if nothing does.
    pub detail: &'static str,
    /// Id and title of the task.
    pub task: Option<(&'n str, &'n str)>,
    /// What there is to say and what to do now, in the hub's own words: a sentence or two.
    pub text: String,
    /// What the executor said.
    pub quote: Option<Quote>,
    /// The events of which the task's submitter wants the owner told as well, as a JSON list; an empty one: of none.
    pub wishes: Option<&'n str>,
}

impl Notice<'_> {
    /// What is told once: everything of one cause is collected while it was told a moment ago.
    pub fn cause(&self) -> String {
        format!("{}/{}/{}", self.event.as_str(), self.subject, self.detail)
    }

    /// Whether it is wanted, where the owner wants these.
    pub fn is_wanted(&self, owners: NoticeEvents) -> bool {
        owners.with_wish(self.wishes).has(self.event)
    }
}

/// The event of a cause.
pub fn event_of_cause(cause: &str) -> Option<NoticeEvent> {
    NoticeEvent::parse(cause.split('/').next().unwrap_or_default())
}
