//! The words for a task: its states, what it waits for, where it is addressed, and the columns that its life moves.

use std::fmt;

use super::ids::{is_executor_name, is_queue_name};
use crate::faults::{self, Fault};

/// Where a task stands. The names are A2A's where A2A has one (design §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Claimable; no wake accepted yet.
    Submitted,
    /// Claimable; a wake was accepted, or its outcome is unknown.
    Dispatched,
    /// Not claimable yet; `WaitingOn` says why.
    Waiting,
    /// Claimed; a lease runs.
    Working,
    /// An attempt waits for a person.
    InputRequired,
    /// Done.
    Completed,
    /// Over without a result.
    Failed,
    /// Called off.
    Canceled,
}

impl State {
    /// Every state, in the order of the lifecycle.
    pub const ALL: [Self; 8] = [
        Self::Submitted,
        Self::Dispatched,
        Self::Waiting,
        Self::Working,
        Self::InputRequired,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
    ];

    /// The state's name on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Dispatched => "dispatched",
            Self::Waiting => "waiting",
            Self::Working => "working",
            Self::InputRequired => "input-required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }

    /// The state of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether nothing can happen to the task any more.
    pub fn is_terminal(self) -> bool {
        self.lane().is_none()
    }

    /// Which lane of open tasks the state belongs to; `None` for the terminal ones.
    pub fn lane(self) -> Option<Lane> {
        match self {
            Self::Submitted | Self::Dispatched => Some(Lane::Ready),
            Self::Waiting => Some(Lane::Waiting),
            Self::Working | Self::InputRequired => Some(Lane::Held),
            Self::Completed | Self::Failed | Self::Canceled => None,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The three ways in which a task is open; each is one range of the index of open tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// An executor may claim it.
    Ready,
    /// An executor has it.
    Held,
    /// It waits for something.
    Waiting,
}

impl Lane {
    /// Every lane.
    pub const ALL: [Self; 3] = [Self::Held, Self::Ready, Self::Waiting];

    /// The lane's name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Held => "held",
            Self::Waiting => "waiting",
        }
    }
}

/// What a `waiting` or `input-required` task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitingOn {
    /// A point in time: `not_before`, or the backoff after a failure.
    Time,
    /// Other tasks that it depends on.
    Tasks,
    /// The owner's approval.
    Approval,
    /// Something outside; an executor deferred it.
    External,
    /// The executor's own user.
    ExecutorUser,
    /// The submitter, by `answer_task`.
    Submitter,
}

impl WaitingOn {
    /// Every reason.
    pub const ALL: [Self; 6] =
        [Self::Time, Self::Tasks, Self::Approval, Self::External, Self::ExecutorUser, Self::Submitter];

    /// The reason's name on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Tasks => "tasks",
            Self::Approval => "approval",
            Self::External => "external",
            Self::ExecutorUser => "executor_user",
            Self::Submitter => "submitter",
        }
    }

    /// The reason of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// Why a task failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureCode {
    /// An executor said so.
    ExecutorFailed,
    /// Its lease expired once more than its budget allows.
    LeaseExpired,
    /// Its deadline passed.
    DeadlineExceeded,
    /// Nobody answered its question in time.
    InputTimeout,
    /// A task that it depends on failed or was canceled.
    DependencyFailed,
    /// The owner refused it.
    Denied,
}

impl FailureCode {
    /// Every code.
    pub const ALL: [Self; 6] = [
        Self::ExecutorFailed,
        Self::LeaseExpired,
        Self::DeadlineExceeded,
        Self::InputTimeout,
        Self::DependencyFailed,
        Self::Denied,
    ];

    /// The code on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ExecutorFailed => "executor_failed",
            Self::LeaseExpired => "lease_expired",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::InputTimeout => "input_timeout",
            Self::DependencyFailed => "dependency_failed",
            Self::Denied => "denied",
        }
    }

    /// The code of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == text)
    }
}

/// What became of the latest wake of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WakeStatus {
    /// On its way, or lost on its way.
    Sent,
    /// None was needed: one sent a moment ago covers it.
    Coalesced,
    /// The receiver answered 2xx.
    Accepted,
    /// No answer in time: it may have arrived.
    Unknown,
    /// Refused, unreachable or badly configured.
    Rejected,
    /// Refused as often as the settings permit; the hub has given up.
    GivenUp,
}

impl WakeStatus {
    /// Every status.
    pub const ALL: [Self; 6] =
        [Self::Sent, Self::Coalesced, Self::Accepted, Self::Unknown, Self::Rejected, Self::GivenUp];

    /// The status on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Coalesced => "coalesced",
            Self::Accepted => "accepted",
            Self::Unknown => "unknown",
            Self::Rejected => "rejected",
            Self::GivenUp => "given_up",
        }
    }

    /// The status of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// Whom a task is for. As text, an executor is `@name` and a queue is its plain name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// One executor.
    Executor(String),
    /// Whichever executor of this queue claims it first.
    Queue(String),
}

impl Address {
    /// The executor of this name, if it is a name.
    pub fn executor(name: &str) -> Option<Self> {
        is_executor_name(name).then(|| Self::Executor(name.to_owned()))
    }

    /// The queue of this name, if it is a name.
    pub fn queue(name: &str) -> Option<Self> {
        is_queue_name(name).then(|| Self::Queue(name.to_owned()))
    }

    /// The address that `Display` wrote.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix('@') {
            Some(name) => Self::executor(name),
            None => Self::queue(text),
        }
    }

    /// The executor, if it is one.
    pub fn executor_name(&self) -> Option<&str> {
        match self {
            Self::Executor(name) => Some(name),
            Self::Queue(_) => None,
        }
    }

    /// The queue, if it is one.
    pub fn queue_name(&self) -> Option<&str> {
        match self {
            Self::Executor(_) => None,
            Self::Queue(name) => Some(name),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Executor(name) => write!(f, "@{name}"),
            Self::Queue(name) => f.write_str(name),
        }
    }
}

/// Stands for the token's hash in a claim that was taken back. It is the SHA-256 of nothing, so no token fits it.
const VOID: &str = "void";

/// The claim that holds a task, or held it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The executor's name.
    pub executor: String,
    /// SHA-256 of the claim token.
    pub token_hash: String,
    /// When the hub last heard from the attempt, in milliseconds.
    pub heard_at: i64,
}

impl Claim {
    /// The claim of an attempt that is over, kept in its place: a task in `input-required` has the columns of a claim, also
    /// where nobody has it and only a person is waited for.
    #[must_use]
    pub fn voided(self) -> Self {
        Self { token_hash: VOID.to_owned(), ..self }
    }

    /// Whether it was taken back.
    pub fn is_void(&self) -> bool {
        self.token_hash == VOID
    }
}

/// Everything of a task that its life moves: what `lifecycle` reads and returns. Times are milliseconds of Unix time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// Where it stands.
    pub state: State,
    /// What it waits for, in `waiting` and `input-required`.
    pub waiting_on: Option<WaitingOn>,
    /// Claims so far. Only ever rises.
    pub attempt: u32,
    /// Budget spent: lease expiries and retryable failures.
    pub failures: u32,
    /// The budget.
    pub max_attempts: u32,
    /// The claim that holds it; kept after the end so that a repeated or late call can be told what happened.
    pub claim: Option<Claim>,
    /// When the lease ends; set exactly in `working`.
    pub lease_expires_at: Option<i64>,
    /// When it stops waiting for a person; set exactly in `input-required`.
    pub input_expires_at: Option<i64>,
    /// When its question was answered, while the attempt has not come back for the answer; only in `input-required`.
    pub answered_at: Option<i64>,
    /// When a wait for time or the outside ends; only in `waiting`.
    pub visible_at: Option<i64>,
    /// When it fails whatever happens; never moves.
    pub deadline_at: Option<i64>,
    /// When the next wake is due; only where it is claimable.
    pub next_wake_at: Option<i64>,
    /// Wakes in a row that were not accepted.
    pub wake_attempts: u32,
    /// Tells one call for attention from the next: a wake that is sent again keeps it, a new one has the next number.
    pub wake_round: u32,
    /// When the latest wake was sent.
    pub last_wake_at: Option<i64>,
    /// What became of it.
    pub last_wake_status: Option<WakeStatus>,
    /// Why it failed.
    pub failure: Option<FailureCode>,
    /// When it reached a terminal state.
    pub completed_at: Option<i64>,
}

impl Life {
    /// Whether the attempt is over, and the task waits for a person to say what came of an action that it had begun.
    pub fn is_asked_by_hub(&self) -> bool {
        self.state == State::InputRequired && self.claim.as_ref().is_some_and(Claim::is_void)
    }

    /// Whether the attempt has been silent for longer than one lease, or is over.
    pub fn is_silent(&self, now: i64, lease_ms: i64) -> bool {
        self.claim.as_ref().is_none_or(|claim| claim.is_void() || now - claim.heard_at > lease_ms)
    }

    /// Whether the attempt that holds it may still act: neither its lease, nor its wait for input, nor the deadline is over.
    pub fn is_held(&self, now: i64) -> bool {
        let grace_ms = i64::from(faults::is_on(Fault::LeaseInclusive));
        let in_time = |at: Option<i64>| at.is_none_or(|at| now < at + grace_ms);
        self.state.lane() == Some(Lane::Held)
            && !self.is_asked_by_hub()
            && in_time(self.lease_expires_at)
            && in_time(self.input_expires_at)
            && in_time(self.deadline_at)
    }

    /// The earliest moment at which something happens to the task by itself, or a wake is due.
    pub fn due_at(&self, lease_ms: i64) -> Option<i64> {
        let silent_at = match (&self.claim, self.answered_at) {
            (Some(claim), Some(_)) => Some(claim.heard_at + lease_ms + 1),
            _ => None,
        };
        let timers = [
            self.deadline_at.filter(|_| !self.state.is_terminal() && !faults::is_on(Fault::DeadlineNotDue)),
            self.lease_expires_at,
            self.input_expires_at,
            silent_at,
            self.visible_at,
            self.next_wake_at,
        ];
        timers.into_iter().flatten().min()
    }
}
