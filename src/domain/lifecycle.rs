//! The whole life of a task in one function (design §3).
//!
//! `step` takes where a task stands and what happens to it, and returns where it stands afterwards, or why that cannot
//! happen. Lease, fencing and retry budget are decided here and nowhere else; the store repeats the expected state,
//! attempt and lease in its WHERE, so that a caller who skips this function changes nothing.
//!
//! - **Lease.** A claim holds a task until `lease_expires_at`; a heartbeat moves that on. At that very millisecond it is
//!   over: valid means `now < lease_expires_at`.
//! - **Fencing.** Whatever an attempt does carries its number and its token (`Fence`). A call of another attempt, or one
//!   after the lease, is refused whatever it brings.
//! - **Budget.** `attempt` counts claims and only rises; `failures` counts lease expiries and retryable failures, and
//!   nothing else. The two never stand for one another.
//! - **Unknown actions.** An attempt that is lost may leave behind an outside action of which nobody knows whether it happened.
//!   Whose submitter wants to be asked then (`Rules::asks`), that task waits for a person instead of the next attempt.
//!
//! It refuses to know why something happens, who sees it, and what is stored with it.

use super::retry;
use super::settings::Settings;
use super::task::{Claim, FailureCode, Life, State, WaitingOn, WakeStatus};
use crate::faults::{self, Fault};

/// What an attempt presents with everything it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The executor that calls.
    pub executor: String,
    /// The attempt that its token names.
    pub attempt: u32,
    /// SHA-256 of its token.
    pub token_hash: String,
}

/// What a fresh task waits for, if it is not claimable at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nothing.
    None,
    /// `not_before`, in milliseconds.
    Until(i64),
    /// Tasks that it depends on.
    Tasks,
    /// The owner's approval.
    Approval,
}

/// What happens to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// What a waiting task waited for has come: time, tasks, or the owner woke it.
    Ready,
    /// The owner approved it; it may begin at this time, in milliseconds, if one was given.
    Approved {
        /// `not_before`.
        until: Option<i64>,
    },
    /// A task that it depends on failed or was canceled.
    DependencyFailed,
    /// The owner refused it.
    Denied,
    /// A wake goes out now.
    WakeSent,
    /// A wake sent a moment before, at this time, covers the task.
    WakeCoalesced {
        /// When that wake was sent.
        sent_at: i64,
    },
    /// A wake's outcome is known, or will stay unknown.
    WakeEnded(WakeStatus),
    /// An executor claims it.
    Claim {
        /// The executor's name.
        executor: String,
        /// SHA-256 of the token of this claim.
        token_hash: String,
    },
    /// The attempt is alive and working.
    Heartbeat(Fence),
    /// The attempt waits for a person.
    Blocked {
        /// Who says so.
        fence: Fence,
        /// For whom.
        on: WaitingOn,
        /// Whether it asks what it has not asked before. Saying the same again only tells that the attempt is alive.
        is_new: bool,
    },
    /// The person answered.
    Answered,
    /// The attempt brings a result.
    Completed(Fence),
    /// The attempt failed.
    Failed {
        /// Who says so.
        fence: Fence,
        /// Whether another attempt may help.
        retryable: bool,
        /// Spreads the backoff.
        jitter: u8,
    },
    /// The attempt asks for the task to come back at this time.
    Deferred(Fence, i64),
    /// The executor gives the task back.
    Released(Fence),
    /// It goes to another address, or back to its own without the executor that has it.
    Readdressed,
    /// The submitter or owner calls it off.
    Cancel,
    /// Its time has come: the deadline, the lease, the input limit, the silence after an answer, or the end of a wait.
    Time,
}

/// Why an event cannot happen to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The task was canceled.
    Canceled,
    /// The task is completed or failed.
    AlreadyFinished,
    /// The claim is not this caller's, is an earlier attempt's, or its lease is over.
    LeaseLost,
    /// The task is open, and in a state in which this cannot happen.
    WrongState,
}

/// What `step` needs to know beside the task.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'s> {
    /// The owner's settings.
    pub settings: &'s Settings,
    /// The hub's clock, in milliseconds.
    pub now: i64,
    /// Whether an executor of the task's address is woken by webhook, so that becoming claimable calls for a wake.
    pub wakes: bool,
    /// Whether nobody would know what came of an outside action if the attempt were lost now, and a person is to be asked then
    /// before another one begins.
    pub asks: bool,
}

/// A task at its birth.
pub fn submit(rules: &Rules<'_>, hold: Hold, deadline_at: Option<i64>, max_attempts: u32) -> Life {
    let life = Life {
        state: State::Waiting,
        waiting_on: None,
        attempt: 0,
        failures: 0,
        max_attempts,
        claim: None,
        lease_expires_at: None,
        input_expires_at: None,
        answered_at: None,
        visible_at: None,
        deadline_at,
        next_wake_at: None,
        wake_attempts: 0,
        wake_round: 0,
        last_wake_at: None,
        last_wake_status: None,
        failure: None,
        completed_at: None,
    };
    match hold {
        Hold::Until(at) if at > rules.now => wait(life, WaitingOn::Time, Some(at)),
        Hold::None | Hold::Until(_) => ready(life, rules, rules.now),
        Hold::Tasks => wait(life, WaitingOn::Tasks, None),
        Hold::Approval => wait(life, WaitingOn::Approval, None),
    }
}

/// The transition table.
pub fn step(life: &Life, event: &Event, rules: &Rules<'_>) -> Result<Life, Refused> {
    use State::{Canceled, Completed, Dispatched, Failed, InputRequired, Submitted, Waiting, Working};
    let next = life.clone();
    let now = rules.now;
    match (life.state, event) {
        (Completed | Failed, Event::Cancel) if faults::is_on(Fault::TerminalCanceled) => {
            Ok(end(next, Canceled, None, now))
        }
        (Completed, Event::Completed(_)) if faults::is_on(Fault::SecondOutcome) => Ok(next),
        (Canceled, _) => Err(Refused::Canceled),
        (Completed | Failed, _) => Err(Refused::AlreadyFinished),

        (_, Event::Cancel) => Ok(end(next, Canceled, None, now)),
        (_, Event::Time) => by_time(next, rules),

        (_, Event::Readdressed) => Ok(readdressed(next, rules)),

        (Waiting, Event::Ready | Event::Approved { .. } | Event::Denied | Event::DependencyFailed) => {
            end_wait(next, event, rules)
        }

        (Submitted | Dispatched, Event::WakeSent) => Ok(wake_sent(next, rules)),
        (Submitted | Dispatched, Event::WakeCoalesced { sent_at }) => Ok(wake_coalesced(next, *sent_at, rules)),
        (Submitted | Dispatched, Event::WakeEnded(status)) => Ok(wake_ended(next, *status, rules)),
        (Submitted | Dispatched, Event::Claim { executor, token_hash }) => {
            if next.deadline_at.is_some_and(|at| at <= now) && !faults::is_on(Fault::DeadlineUnseen) {
                return Err(Refused::WrongState);
            }
            Ok(claim(next, executor, token_hash, rules))
        }

        (Working, Event::Heartbeat(fence)) => Ok(lease(fenced(next, fence, now)?, rules)),
        (Working, Event::Blocked { fence, on, .. }) => Ok(block(fenced(next, fence, now)?, *on, rules)),
        (Working, Event::Completed(fence)) => Ok(end(fenced(next, fence, now)?, Completed, None, now)),
        (Working, Event::Failed { fence, retryable, jitter }) => {
            let next = fenced(next, fence, now)?;
            Ok(if *retryable { spend(next, *jitter, rules) } else { executor_failed(next, now) })
        }
        (Working, Event::Deferred(fence, until)) => {
            Ok(wait(fenced(next, fence, now)?, WaitingOn::External, Some(*until)))
        }
        (Working, Event::Released(fence)) => {
            Ok(lost(fenced(next, fence, now)?, rules, now + super::limits::RELEASE_REWAKE_MS))
        }

        (InputRequired, Event::Heartbeat(fence)) => Ok(lease(fenced(next, fence, now)?, rules)),
        (InputRequired, Event::Blocked { fence, on, is_new: true }) => Ok(block(fenced(next, fence, now)?, *on, rules)),
        (InputRequired, Event::Blocked { fence, on, is_new: false }) => {
            Ok(Life { waiting_on: Some(*on), ..heard(fenced(next, fence, now)?, now) })
        }
        (InputRequired, Event::Answered) => Ok(answered(next, rules)),
        (InputRequired, Event::Completed(fence)) => Ok(end(fenced(next, fence, now)?, Completed, None, now)),
        (InputRequired, Event::Failed { fence, .. }) => Ok(executor_failed(fenced(next, fence, now)?, now)),
        (InputRequired, Event::Deferred(fence, _) | Event::Released(fence)) => {
            fenced(next, fence, now)?;
            Err(Refused::WrongState)
        }

        (Submitted | Dispatched | Waiting, Event::Heartbeat(_) | Event::Blocked { .. } | Event::Completed(_))
        | (Submitted | Dispatched | Waiting, Event::Failed { .. } | Event::Deferred(..) | Event::Released(_)) => {
            Err(Refused::LeaseLost)
        }
        (Submitted | Dispatched | Waiting | Working, Event::Answered)
        | (Submitted | Dispatched | Working | InputRequired, Event::Ready | Event::Approved { .. })
        | (Submitted | Dispatched | Working | InputRequired, Event::DependencyFailed | Event::Denied)
        | (Waiting | Working | InputRequired, Event::WakeSent | Event::WakeCoalesced { .. } | Event::WakeEnded(_))
        | (Waiting | Working | InputRequired, Event::Claim { .. }) => Err(Refused::WrongState),
    }
}

/// What ends a wait that no clock ends. Nothing but the owner's word ends a wait for that.
fn end_wait(life: Life, event: &Event, rules: &Rules<'_>) -> Result<Life, Refused> {
    let for_approval = life.waiting_on == Some(WaitingOn::Approval);
    match event {
        Event::Approved { until } if for_approval => match until.filter(|at| *at > rules.now) {
            Some(at) => Ok(wait(life, WaitingOn::Time, Some(at))),
            None => Ok(ready(life, rules, rules.now)),
        },
        Event::Denied if for_approval => Ok(end(life, State::Failed, Some(FailureCode::Denied), rules.now)),
        Event::Ready if !for_approval => Ok(ready(life, rules, rules.now)),
        Event::DependencyFailed => Ok(end(life, State::Failed, Some(FailureCode::DependencyFailed), rules.now)),
        _ => Err(Refused::WrongState),
    }
}

/// Whether `Event::Time` would change the task now.
pub fn is_time(life: &Life, rules: &Rules<'_>) -> bool {
    step(life, &Event::Time, rules).is_ok()
}

/// What the clock alone does. The deadline comes first: it ends a task whatever else is due.
fn by_time(next: Life, rules: &Rules<'_>) -> Result<Life, Refused> {
    let now = rules.now;
    let reached = |at: Option<i64>| at.is_some_and(|at| at <= now);
    if reached(next.deadline_at) {
        return Ok(end(next, State::Failed, Some(FailureCode::DeadlineExceeded), now));
    }
    if next.answered_at.is_some() {
        // The answer goes to the next attempt when the one that asked does not come for it.
        let given_up = next.is_silent(now, rules.settings.lease_ms) || reached(next.input_expires_at);
        return if given_up { Ok(lost(next, rules, now)) } else { Err(Refused::WrongState) };
    }
    if reached(next.input_expires_at) && !faults::is_on(Fault::InputLimitUnseen) {
        return Ok(end(next, State::Failed, Some(FailureCode::InputTimeout), now));
    }
    if reached(next.lease_expires_at) {
        let failures = next.failures + u32::from(!faults::is_on(Fault::ExpiryIsFree));
        let next = Life { failures, ..next };
        return Ok(if failures < next.max_attempts {
            lost(next, rules, now)
        } else {
            end(next, State::Failed, Some(FailureCode::LeaseExpired), now)
        });
    }
    if reached(next.visible_at) {
        return Ok(ready(next, rules, now));
    }
    Err(Refused::WrongState)
}

/// Whether an attempt may write beside its task (a file, an outside action) and leave the task as it is. Only one that works
/// may: whoever waits for a person has to take the task up again first.
pub fn may_write(life: &Life, fence: &Fence, now: i64) -> Result<(), Refused> {
    match life.state {
        State::Canceled => Err(Refused::Canceled),
        State::Completed | State::Failed => Err(Refused::AlreadyFinished),
        State::Submitted | State::Dispatched | State::Waiting => Err(Refused::LeaseLost),
        State::Working => fenced(life.clone(), fence, now).map(drop),
        State::InputRequired => fenced(life.clone(), fence, now).and(Err(Refused::WrongState)),
    }
}

fn fenced(life: Life, fence: &Fence, now: i64) -> Result<Life, Refused> {
    let holds = life.claim.as_ref().is_some_and(|claim| {
        life.attempt == fence.attempt
            && claim.executor == fence.executor
            && super::secret::equal(&claim.token_hash, &fence.token_hash)
    });
    if holds && life.is_held(now) { Ok(life) } else { Err(Refused::LeaseLost) }
}

/// Out of every claim, wait and wake.
fn at_rest(life: Life) -> Life {
    Life {
        waiting_on: None,
        lease_expires_at: None,
        input_expires_at: None,
        answered_at: None,
        visible_at: None,
        next_wake_at: None,
        wake_attempts: 0,
        ..life
    }
}

fn ready(life: Life, rules: &Rules<'_>, wake_at: i64) -> Life {
    let next_wake_at = rules.wakes.then_some(wake_at);
    let wake_round = life.wake_round + 1;
    let life = at_rest(life);
    Life { state: State::Submitted, next_wake_at, wake_round, last_wake_at: None, last_wake_status: None, ..life }
}

fn wait(life: Life, on: WaitingOn, visible_at: Option<i64>) -> Life {
    Life { state: State::Waiting, waiting_on: Some(on), visible_at, ..at_rest(life) }
}

fn end(life: Life, state: State, failure: Option<FailureCode>, now: i64) -> Life {
    Life { state, failure, completed_at: Some(now), ..at_rest(life) }
}

fn executor_failed(life: Life, now: i64) -> Life {
    end(life, State::Failed, Some(FailureCode::ExecutorFailed), now)
}

fn claim(life: Life, executor: &str, token_hash: &str, rules: &Rules<'_>) -> Life {
    let claim = Claim { executor: executor.to_owned(), token_hash: token_hash.to_owned(), heard_at: rules.now };
    let attempt = life.attempt + 1;
    let lease_expires_at = Some(rules.now + rules.settings.lease_ms);
    Life { state: State::Working, attempt, claim: Some(claim), lease_expires_at, ..at_rest(life) }
}

fn heard(mut life: Life, now: i64) -> Life {
    if let Some(claim) = &mut life.claim {
        claim.heard_at = now;
    }
    life
}

fn lease(life: Life, rules: &Rules<'_>) -> Life {
    let lease_expires_at = Some(rules.now + rules.settings.lease_ms);
    Life { state: State::Working, lease_expires_at, ..at_rest(heard(life, rules.now)) }
}

fn block(life: Life, on: WaitingOn, rules: &Rules<'_>) -> Life {
    let input_expires_at = Some(rules.now + rules.settings.input_timeout_ms);
    let life = at_rest(heard(life, rules.now));
    Life { state: State::InputRequired, waiting_on: Some(on), input_expires_at, ..life }
}

fn readdressed(life: Life, rules: &Rules<'_>) -> Life {
    match life.state {
        State::Waiting => life,
        // The person's word is still wanted, wherever the task goes then.
        State::InputRequired if life.is_asked_by_hub() => life,
        State::Working | State::InputRequired => lost(life, rules, rules.now),
        _ => ready(life, rules, rules.now),
    }
}

/// The attempt is over, and the next one may begin; or a person says first what came of an action that it had begun.
fn lost(life: Life, rules: &Rules<'_>, wake_at: i64) -> Life {
    if asks(&life, rules) { ask(life, rules) } else { ready(life, rules, wake_at) }
}

/// Whether a person has to be asked before another attempt begins. What was asked once is not asked again.
fn asks(life: &Life, rules: &Rules<'_>) -> bool {
    rules.asks && !life.is_asked_by_hub() && !faults::is_on(Fault::UnknownNotAsked)
}

/// Nobody has the task, and a person is asked. The schema wants a claim in `input-required`, so the last one stays, void: the
/// attempt that had it may do nothing more, and holds none of its executor's places.
fn ask(life: Life, rules: &Rules<'_>) -> Life {
    let input_expires_at = Some(rules.now + rules.settings.input_timeout_ms);
    let life = at_rest(life);
    let claim = life.claim.map(|claim| if faults::is_on(Fault::AskedKeepsClaim) { claim } else { claim.voided() });
    Life { state: State::InputRequired, waiting_on: Some(WaitingOn::Submitter), input_expires_at, claim, ..life }
}

/// An attempt that is alive has at least one more lease to come for its answer, wherever the limit stood.
fn answered(life: Life, rules: &Rules<'_>) -> Life {
    if life.is_silent(rules.now, rules.settings.lease_ms) && !faults::is_on(Fault::SilentKeepsClaim) {
        return lost(life, rules, rules.now);
    }
    let input_expires_at = life.input_expires_at.max(Some(rules.now + rules.settings.lease_ms + 1));
    Life { answered_at: Some(rules.now), input_expires_at, ..life }
}

fn spend(life: Life, jitter: u8, rules: &Rules<'_>) -> Life {
    let failures = life.failures + 1;
    let life = Life { failures, ..life };
    if failures < life.max_attempts + u32::from(faults::is_on(Fault::BudgetOneMore)) {
        if asks(&life, rules) {
            return ask(life, rules);
        }
        let visible_at = rules.now + retry::failure_backoff_ms(failures, jitter);
        wait(life, WaitingOn::Time, Some(visible_at))
    } else {
        executor_failed(life, rules.now)
    }
}

/// The wake is on its way. The outbox sends it again if nobody records its outcome; should that come to nothing as well, the
/// task is woken for anew as if it had been accepted.
fn wake_sent(life: Life, rules: &Rules<'_>) -> Life {
    let on_its_way_ms = rules.settings.wake_timeout_ms + super::limits::SEND_RECORD_GRACE_MS;
    let wake_attempts = life.wake_attempts + 1;
    Life {
        next_wake_at: Some(rules.now + rules.settings.rewake_after_ms.max(on_its_way_ms)),
        wake_attempts,
        last_wake_at: Some(rules.now),
        last_wake_status: Some(WakeStatus::Sent),
        ..life
    }
}

fn wake_coalesced(life: Life, sent_at: i64, rules: &Rules<'_>) -> Life {
    let next_wake_at = Some((sent_at + rules.settings.rewake_after_ms).max(rules.now + 1));
    Life { next_wake_at, last_wake_at: Some(sent_at), last_wake_status: Some(WakeStatus::Coalesced), ..life }
}

fn wake_ended(life: Life, status: WakeStatus, rules: &Rules<'_>) -> Life {
    let life = Life { last_wake_status: Some(status), ..life };
    match status {
        WakeStatus::Accepted | WakeStatus::Unknown => {
            let next_wake_at = Some(rules.now + rules.settings.rewake_after_ms);
            let wake_round = life.wake_round + 1;
            Life { state: State::Dispatched, next_wake_at, wake_attempts: 0, wake_round, ..life }
        }
        WakeStatus::Rejected if life.wake_attempts < rules.settings.wake_attempts_max => {
            Life { next_wake_at: Some(rules.now + retry::wake_backoff_ms(life.wake_attempts)), ..life }
        }
        WakeStatus::Rejected | WakeStatus::GivenUp => {
            Life { next_wake_at: None, last_wake_status: Some(WakeStatus::GivenUp), ..life }
        }
        WakeStatus::Sent | WakeStatus::Coalesced => life,
    }
}
