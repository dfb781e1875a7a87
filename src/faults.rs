//! Deliberate faults, by which the simulation shows that it would notice (cargo feature `test-faults`; nothing without it).
//!
//! Invariant: without the feature `is_on` is the constant `false`, so a build that is deployed has no fault and no switch.
//! A fault of one statement, of the transaction or of the alarm has no place in the product: the simulation makes it
//! between the hub and its database, and here is only its name.

macro_rules! faults {
    ($($fault:ident: $breaks:literal,)*) => {
        /// One thing that is broken while its switch is on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $(#[doc = $breaks] $fault,)*
        }

        #[cfg(feature = "test-faults")]
        impl Fault {
            /// Every fault there is.
            pub const ALL: &[Self] = &[$(Self::$fault),*];

            /// What it breaks, in a few words.
            pub fn breaks(self) -> &'static str {
                match self {
                    $(Self::$fault => $breaks,)*
                }
            }
        }
    };
}

faults! {
    FinishAnyAttempt: "the end of an attempt: the attempt is left out of the WHERE",
    FinishAnyToken: "the end of an attempt: the token's hash is left out of the WHERE",
    FinishAnyState: "the end of an attempt: the state is left out of the WHERE",
    FinishAfterLease: "the end of an attempt: the unexpired lease is left out of the WHERE",
    FinishAnyLease: "the end of an attempt: the lease that was read is left out of the WHERE",
    RenewAnyAttempt: "a heartbeat: the attempt is left out of the WHERE",
    RenewAnyToken: "a heartbeat: the token's hash is left out of the WHERE",
    RenewAfterLease: "a heartbeat: the unexpired lease is left out of the WHERE",
    ClaimAnyAttempt: "a claim: the attempt is left out of the WHERE",
    ClaimAnyState: "a claim: the state is left out of the WHERE",
    MoveOnAnyAttempt: "the clock, a cancellation or an answer: the attempt is left out of the WHERE",
    MoveOnAnyState: "the clock, a cancellation or an answer: the state is left out of the WHERE",
    WakeAnyAttempt: "a wake: the attempt is left out of the WHERE",
    NoRollback: "a command that fails keeps what it has written",
    LeaseInclusive: "a lease still holds at the very millisecond at which it ends",
    SweepOldSnapshot: "the sweep works on what it read the last time",
    DeadlineNotDue: "`due_at` is computed without the deadline",
    DeadlineUnseen: "a claim gives away what is past its deadline",
    InputLimitUnseen: "a question that nobody answers does not end the task",
    ExpiryIsFree: "a lease that expires spends no budget",
    DeferSpends: "a deferral spends budget",
    ReleaseSpends: "a release spends budget",
    BudgetOneMore: "one more failure than the budget allows",
    BackoffZero: "a retryable failure is tried again at once",
    TerminalCanceled: "a task that is over can be canceled",
    SecondOutcome: "a result that comes again is taken again",
    SilentKeepsClaim: "an answer leaves the task with an attempt that has gone silent",
    KeyUnscoped: "an idempotency key counts for every submitter",
    KeyIgnoresBody: "an idempotency key returns its task for another body",
    RequestForgotten: "a claim does not know its request id again",
    PriorityUnseen: "a claim ignores the priority",
    AddressUnseen: "a claim takes from a foreign address",
    HeldUnbounded: "`max_concurrent` is ignored",
    CoalesceOneMore: "a wake covers others for one millisecond too long",
    RefusedWakeCovers: "a wake that was refused covers others",
    LostMessageForgotten: "a message whose outcome nobody records is not sent again",
    MessageClaimTooShort: "a message can be claimed while it is still being sent",
    AcceptedSentAgain: "a message that was accepted stays in the outbox",
    GivenUpEarly: "a message is given up one try too early",
    StormMiscounted: "what is collected of one cause is not counted",
    CallbackForgotten: "a task that ends owes no callback",
    UnknownNotAsked: "an attempt that is lost with an action begun leads to the next one, unasked",
    AskedKeepsClaim: "an attempt that was lost goes on while a person is asked about its action",
    BegunForgotten: "an action that was begun is not known when it is begun again",
    UnknownTakenForOwn: "an action that an earlier attempt began is taken for the caller's own",
    OutcomeOverwritten: "an action that is done is given another outcome",
    LostActionHidden: "a claim does not show the actions that were begun and lost",
    ActionUnfenced: "an action is recorded by an attempt that does not hold its task",
    BesideAnyToken: "what is written beside a task: the token's hash is left out of the WHERE",
    FileKeptTwice: "a file that is attached again is kept as another",
    SharedBytesGone: "the bytes of a file go with the first of the tasks that share it",
    TotalsDrift: "files that go are not taken off the totals",
    EventNumberReused: "the purge deletes the newest event, so that its number is used again",
    PurgeTakesOpen: "the purge deletes open tasks",
    AlarmNotSet: "the alarm is not set again",
    AlarmLate: "the alarm is set half an hour late",
}

#[cfg(feature = "test-faults")]
mod switch {
    use std::cell::Cell;

    use super::Fault;

    thread_local! {
        static ON: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Switches one fault on in this thread, and every other off.
    pub fn switch(fault: Option<Fault>) {
        ON.set(fault);
    }

    /// The fault that is on in this thread.
    pub fn on() -> Option<Fault> {
        ON.get()
    }
}

#[cfg(feature = "test-faults")]
pub use switch::{on, switch};

/// Whether this fault is on.
#[cfg(feature = "test-faults")]
pub fn is_on(fault: Fault) -> bool {
    on() == Some(fault)
}

/// Whether this fault is on, which only a build with `test-faults` can have.
#[cfg(not(feature = "test-faults"))]
#[inline]
pub const fn is_on(_fault: Fault) -> bool {
    false
}
