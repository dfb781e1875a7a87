//! Lives in every state, and everything that can happen to them, each under a name.

use taskhub::domain::lifecycle::{Event, Fence, Refused, Rules, step};
use taskhub::domain::settings::Settings;
use taskhub::domain::task::{Claim, FailureCode, Life, State, WaitingOn, WakeStatus};

/// The moment of all samples.
pub const NOW: i64 = 1_800_000_000_000;
/// The lease of the default settings.
pub const LEASE_MS: i64 = 300_000;

/// A life under the name of what is special about it.
#[derive(Clone)]
pub struct Sample {
    pub name: &'static str,
    pub life: Life,
    /// Whether its attempt has begun an action outside about which a person wants to be asked.
    pub asks: bool,
}

/// Something that happens: it may prepare the life, and says what comes when.
pub struct Happening {
    pub name: &'static str,
    prepare: fn(&mut Life) -> (Event, i64),
}

impl Happening {
    /// The sample as it is just before, what becomes of it, and when.
    pub fn happen(&self, sample: &Sample, settings: &Settings) -> (Life, Result<Life, Refused>, i64) {
        let mut before = sample.life.clone();
        let (event, now) = (self.prepare)(&mut before);
        let after = step(&before, &event, &Rules { settings, now, wakes: true, asks: sample.asks });
        (before, after, now)
    }
}

/// What the attempt of every sample presents.
pub fn fence() -> Fence {
    Fence { executor: "bot".to_owned(), attempt: 2, token_hash: "hash".to_owned() }
}

/// A task in its second attempt, with one failure of three spent, at rest in this state.
pub fn base(state: State) -> Life {
    let claim = Claim { executor: "bot".to_owned(), token_hash: "hash".to_owned(), heard_at: NOW - 10_000 };
    Life {
        state,
        waiting_on: None,
        attempt: 2,
        failures: 1,
        max_attempts: 3,
        claim: Some(claim),
        lease_expires_at: None,
        input_expires_at: None,
        answered_at: None,
        visible_at: None,
        deadline_at: None,
        next_wake_at: None,
        wake_attempts: 0,
        wake_round: 3,
        last_wake_at: None,
        last_wake_status: None,
        failure: None,
        completed_at: None,
    }
}

pub fn submitted() -> Life {
    Life { next_wake_at: Some(NOW), ..base(State::Submitted) }
}

pub fn dispatched() -> Life {
    let last_wake_at = Some(NOW - 20_000);
    let next_wake_at = Some(NOW + 500_000);
    Life { next_wake_at, last_wake_at, last_wake_status: Some(WakeStatus::Accepted), ..base(State::Dispatched) }
}

pub fn waiting(on: WaitingOn) -> Life {
    let visible_at = matches!(on, WaitingOn::Time | WaitingOn::External).then_some(NOW + 60_000);
    Life { waiting_on: Some(on), visible_at, ..base(State::Waiting) }
}

pub fn working() -> Life {
    Life { lease_expires_at: Some(NOW - 10_000 + LEASE_MS), ..base(State::Working) }
}

pub fn asking() -> Life {
    let input_expires_at = Some(NOW + 86_390_000);
    Life { waiting_on: Some(WaitingOn::Submitter), input_expires_at, ..base(State::InputRequired) }
}

/// Every state, and within a state every difference that matters to the table.
pub fn samples() -> Vec<Sample> {
    let sample = |name, life| Sample { name, life, asks: false };
    let begun = |name, life| Sample { name, life, asks: true };
    let ended = |state, failure| Life { failure, completed_at: Some(NOW - 5_000), ..base(state) };
    vec![
        sample("submitted", submitted()),
        sample("dispatched", dispatched()),
        sample("waiting for time", waiting(WaitingOn::Time)),
        sample("waiting for tasks", waiting(WaitingOn::Tasks)),
        sample("waiting for approval", waiting(WaitingOn::Approval)),
        sample("waiting for external", waiting(WaitingOn::External)),
        sample("working", working()),
        sample("working, last chance", Life { failures: 2, ..working() }),
        sample("input-required", asking()),
        sample("input-required, answered", Life { answered_at: Some(NOW - 5_000), ..asking() }),
        begun("working, action begun", working()),
        begun("working, last chance, action begun", Life { failures: 2, ..working() }),
        begun("input-required, action begun", asking()),
        begun("input-required, answered, action begun", Life { answered_at: Some(NOW - 5_000), ..asking() }),
        begun("input-required by the hub", Life { claim: asking().claim.map(Claim::voided), ..asking() }),
        sample("completed", ended(State::Completed, None)),
        sample("failed", ended(State::Failed, Some(FailureCode::ExecutorFailed))),
        sample("canceled", ended(State::Canceled, None)),
    ]
}

/// Everything that can happen, the clock's work by its causes.
pub fn happenings() -> Vec<Happening> {
    let happening = |name, prepare| Happening { name, prepare };
    let mut all = vec![
        happening("what it waited for has come", |_| (Event::Ready, NOW)),
        happening("dependency failed", |_| (Event::DependencyFailed, NOW)),
        happening("owner approved", |_| (Event::Approved { until: Some(NOW) }, NOW)),
        happening("owner approved, not before a time", |_| (Event::Approved { until: Some(NOW + 90_000) }, NOW)),
        happening("owner denied", |_| (Event::Denied, NOW)),
        happening("claim", |_| (Event::Claim { executor: "other".to_owned(), token_hash: "new hash".to_owned() }, NOW)),
        happening("readdressed", |_| (Event::Readdressed, NOW)),
        happening("cancel", |_| (Event::Cancel, NOW)),
    ];
    all.extend(wakes());
    all.extend(calls());
    all.extend(answers_and_time());
    all
}

fn wakes() -> Vec<Happening> {
    let happening = |name, prepare| Happening { name, prepare };
    vec![
        happening("wake sent", |_| (Event::WakeSent, NOW)),
        happening("wake covered by another", |_| (Event::WakeCoalesced { sent_at: NOW - 30_000 }, NOW)),
        happening("wake accepted", |_| (Event::WakeEnded(WakeStatus::Accepted), NOW)),
        happening("wake outcome unknown", |_| (Event::WakeEnded(WakeStatus::Unknown), NOW)),
        happening("wake rejected", |life| {
            life.wake_attempts = 1;
            (Event::WakeEnded(WakeStatus::Rejected), NOW)
        }),
        happening("wake rejected too often", |life| {
            life.wake_attempts = 5;
            (Event::WakeEnded(WakeStatus::Rejected), NOW)
        }),
    ]
}

fn calls() -> Vec<Happening> {
    let happening = |name, prepare| Happening { name, prepare };
    vec![
        happening("heartbeat", |_| (Event::Heartbeat(fence()), NOW)),
        happening("blocked, first time or new question", |_| {
            (Event::Blocked { fence: fence(), on: WaitingOn::Submitter, is_new: true }, NOW)
        }),
        happening("blocked, as before", |_| {
            (Event::Blocked { fence: fence(), on: WaitingOn::Submitter, is_new: false }, NOW)
        }),
        happening("result completed", |_| (Event::Completed(fence()), NOW)),
        happening("result failed", |_| (Event::Failed { fence: fence(), retryable: false, jitter: 0 }, NOW)),
        happening("result failed, retryable", |_| (Event::Failed { fence: fence(), retryable: true, jitter: 0 }, NOW)),
        happening("defer", |_| (Event::Deferred(fence(), NOW + 30_000), NOW)),
        happening("release", |_| (Event::Released(fence()), NOW)),
    ]
}

fn answers_and_time() -> Vec<Happening> {
    let happening = |name, prepare| Happening { name, prepare };
    vec![
        happening("answered, attempt alive", |_| (Event::Answered, NOW)),
        happening("answered, attempt silent for over a lease", |life| {
            if let Some(claim) = &mut life.claim {
                claim.heard_at = NOW - LEASE_MS - 1;
            }
            (Event::Answered, NOW)
        }),
        happening("deadline passed", |life| {
            life.deadline_at = Some(NOW);
            (Event::Time, NOW)
        }),
        happening("lease expired", |life| (Event::Time, life.lease_expires_at.unwrap_or(NOW))),
        happening("input limit passed", |life| (Event::Time, life.input_expires_at.unwrap_or(NOW))),
        happening("silent for over a lease after the answer", |life| {
            (Event::Time, if life.answered_at.is_some() { NOW - 10_000 + LEASE_MS + 1 } else { NOW })
        }),
        happening("wait over", |life| (Event::Time, life.visible_at.unwrap_or(NOW))),
        happening("nothing due", |_| (Event::Time, NOW)),
    ]
}
