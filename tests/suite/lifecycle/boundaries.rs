//! The last millisecond before and the first after: lease, budget, deadline, silence, input limit, wakes.

use taskhub::domain::lifecycle::{Event, Hold, Refused, Rules, is_time, step, submit};
use taskhub::domain::retry::{failure_backoff_ms, wake_backoff_ms};
use taskhub::domain::settings::Settings;
use taskhub::domain::task::{FailureCode, Life, State, WaitingOn, WakeStatus};

use super::samples::{LEASE_MS, NOW, asking, base, dispatched, fence, submitted, waiting, working};
use crate::support::settings;

fn rules(settings: &Settings, now: i64) -> Rules<'_> {
    Rules { settings, now, wakes: true, asks: false }
}

fn after(life: &Life, event: &Event, now: i64) -> Result<Life, Refused> {
    step(life, event, &rules(&settings(&[]), now))
}

fn by_time(life: &Life, now: i64) -> Option<State> {
    after(life, &Event::Time, now).ok().map(|life| life.state)
}

#[test]
fn a_lease_is_over_at_its_very_millisecond() {
    let life = working();
    let end = life.lease_expires_at.unwrap();
    assert!(after(&life, &Event::Heartbeat(fence()), end - 1).is_ok());
    assert_eq!(after(&life, &Event::Heartbeat(fence()), end), Err(Refused::LeaseLost));
    assert_eq!(after(&life, &Event::Completed(fence()), end), Err(Refused::LeaseLost));
    assert_eq!(by_time(&life, end - 1), None);
    assert_eq!(by_time(&life, end), Some(State::Submitted));
    assert_eq!(by_time(&life, end + 1), Some(State::Submitted));
    assert!(life.is_held(end - 1) && !life.is_held(end));
}

#[test]
fn a_heartbeat_gives_a_whole_lease_from_now() {
    let end = working().lease_expires_at.unwrap();
    let renewed = after(&working(), &Event::Heartbeat(fence()), end - 1).unwrap();
    assert_eq!(renewed.lease_expires_at, Some(end - 1 + LEASE_MS));
    assert_eq!(renewed.claim.unwrap().heard_at, end - 1);
}

#[test]
fn the_last_failure_of_the_budget_ends_it() {
    for (failures, max_attempts, ends) in [(0, 1, true), (0, 2, false), (1, 3, false), (2, 3, true), (99, 100, true)] {
        let life = Life { failures, max_attempts, ..working() };
        let expired = after(&life, &Event::Time, life.lease_expires_at.unwrap()).unwrap();
        let failed = after(&life, &Event::Failed { fence: fence(), retryable: true, jitter: 0 }, NOW).unwrap();
        assert_eq!(expired.state, if ends { State::Failed } else { State::Submitted });
        assert_eq!(failed.state, if ends { State::Failed } else { State::Waiting });
        assert_eq!(expired.failure, ends.then_some(FailureCode::LeaseExpired));
        assert_eq!(failed.failure, ends.then_some(FailureCode::ExecutorFailed));
        assert_eq!((expired.failures, failed.failures), (failures + 1, failures + 1));
    }
}

#[test]
fn the_deadline_goes_before_everything_else_that_is_due() {
    let end = working().lease_expires_at.unwrap();
    let both = Life { deadline_at: Some(end), ..working() };
    let failed = after(&both, &Event::Time, end).unwrap();
    assert_eq!((failed.state, failed.failure), (State::Failed, Some(FailureCode::DeadlineExceeded)));
    assert_eq!(failed.failures, both.failures, "a deadline is no failure of an attempt");

    let end = asking().input_expires_at.unwrap();
    let both = Life { deadline_at: Some(end), ..asking() };
    assert_eq!(after(&both, &Event::Time, end).unwrap().failure, Some(FailureCode::DeadlineExceeded));

    let end = waiting(WaitingOn::Time).visible_at.unwrap();
    let both = Life { deadline_at: Some(end), ..waiting(WaitingOn::Time) };
    assert_eq!(after(&both, &Event::Time, end).unwrap().failure, Some(FailureCode::DeadlineExceeded));
}

#[test]
fn a_deadline_is_reached_at_its_very_millisecond() {
    for life in [submitted(), dispatched(), working(), asking(), waiting(WaitingOn::Tasks)] {
        let life = Life { deadline_at: Some(NOW), ..life };
        assert_eq!(by_time(&life, NOW - 1), None, "{}", life.state);
        assert_eq!(by_time(&life, NOW), Some(State::Failed), "{}", life.state);
    }
    let claim = Event::Claim { executor: "bot".to_owned(), token_hash: "hash".to_owned() };
    let life = Life { deadline_at: Some(NOW), ..submitted() };
    assert!(after(&life, &claim, NOW - 1).is_ok());
    assert_eq!(after(&life, &claim, NOW), Err(Refused::WrongState), "a task past its deadline is not handed out");
}

#[test]
fn exactly_one_lease_of_silence_is_not_silence_yet() {
    let mut life = asking();
    let heard_at = life.claim.as_ref().unwrap().heard_at;
    assert_eq!(after(&life, &Event::Answered, heard_at + LEASE_MS).unwrap().state, State::InputRequired);
    assert_eq!(after(&life, &Event::Answered, heard_at + LEASE_MS + 1).unwrap().state, State::Submitted);

    life.answered_at = Some(NOW);
    assert_eq!(by_time(&life, heard_at + LEASE_MS), None);
    assert_eq!(by_time(&life, heard_at + LEASE_MS + 1), Some(State::Submitted));
    assert_eq!(life.due_at(LEASE_MS), Some(heard_at + LEASE_MS + 1));
}

#[test]
fn an_answered_attempt_that_falls_silent_is_fenced_off() {
    let answered = after(&asking(), &Event::Answered, NOW).unwrap();
    let heard_at = answered.claim.as_ref().unwrap().heard_at;
    let requeued = after(&answered, &Event::Time, heard_at + LEASE_MS + 1).unwrap();
    assert_eq!((requeued.state, requeued.failures), (State::Submitted, answered.failures));
    let late = after(&requeued, &Event::Completed(fence()), heard_at + LEASE_MS + 2);
    assert_eq!(late, Err(Refused::LeaseLost));
}

#[test]
fn the_input_limit_is_reached_at_its_very_millisecond() {
    let life = asking();
    let end = life.input_expires_at.unwrap();
    assert_eq!(by_time(&life, end - 1), None);
    assert_eq!(by_time(&life, end), Some(State::Failed));
    assert!(after(&life, &Event::Completed(fence()), end - 1).is_ok());
    assert_eq!(after(&life, &Event::Completed(fence()), end), Err(Refused::LeaseLost));
}

/// "Nobody answered in time" must not be said of a question that was answered.
#[test]
fn an_answer_just_before_the_limit_is_not_lost() {
    let end = asking().input_expires_at.unwrap();
    let mut alive = asking();
    alive.claim.as_mut().unwrap().heard_at = end - 1_000;
    let answered = after(&alive, &Event::Answered, end - 1).unwrap();
    assert_eq!(answered.state, State::InputRequired);
    assert_eq!(by_time(&answered, end), None, "the attempt has a lease to come for the answer");
    assert_eq!(after(&answered, &Event::Heartbeat(fence()), end + 1).unwrap().state, State::Working);
    assert_eq!(by_time(&answered, end - 1_000 + LEASE_MS + 1), Some(State::Submitted));
    assert!(answered.due_at(LEASE_MS).unwrap() <= end - 1_000 + LEASE_MS + 1);
}

/// Heard, and answered in the same millisecond: a whole lease of silence is still no silence.
#[test]
fn an_answer_leaves_a_whole_lease_to_come_for_it() {
    let end = asking().input_expires_at.unwrap();
    let mut alive = asking();
    alive.claim.as_mut().unwrap().heard_at = end - 1;
    let answered = after(&alive, &Event::Answered, end - 1).unwrap();
    assert_eq!(answered.input_expires_at, Some(end + LEASE_MS), "and no more than that");
    assert_eq!(by_time(&answered, end - 1 + LEASE_MS), None);
    assert!(after(&answered, &Event::Heartbeat(fence()), end - 1 + LEASE_MS).is_ok());
    assert_eq!(by_time(&answered, end + LEASE_MS), Some(State::Submitted));
}

#[test]
fn a_second_question_waits_for_its_own_answer() {
    let blocked = |is_new| Event::Blocked { fence: fence(), on: WaitingOn::Submitter, is_new };
    let answered = after(&asking(), &Event::Answered, NOW).unwrap();
    let asked = after(&answered, &blocked(true), NOW + 1_000).unwrap();
    assert_eq!((asked.answered_at, asked.input_expires_at), (None, Some(NOW + 1_000 + 86_400_000)));
    assert_eq!(by_time(&asked, NOW + 1_000 + LEASE_MS + 1), None, "it is not requeued unanswered");

    let repeated = after(&answered, &blocked(false), NOW + 1_000).unwrap();
    assert_eq!((repeated.answered_at, repeated.input_expires_at), (Some(NOW), answered.input_expires_at));
    assert_eq!(repeated.claim.unwrap().heard_at, NOW + 1_000, "it only tells that it is alive");
    let elsewhere = Event::Blocked { fence: fence(), on: WaitingOn::ExecutorUser, is_new: false };
    assert_eq!(after(&answered, &elsewhere, NOW).unwrap().waiting_on, Some(WaitingOn::ExecutorUser), "and for whom");
}

#[test]
fn wakes_are_refused_as_often_as_the_settings_permit() {
    let settings = settings(&[("WAKE_MAX_ATTEMPTS", "3")]);
    let mut life = submitted();
    let mut now = NOW;
    for wait in [60_000, 300_000] {
        life = step(&life, &Event::WakeSent, &rules(&settings, now)).unwrap();
        assert_eq!(life.next_wake_at, Some(now + 900_000), "woken for anew, whatever becomes of it");
        life = step(&life, &Event::WakeEnded(WakeStatus::Rejected), &rules(&settings, now)).unwrap();
        assert_eq!((life.state, life.next_wake_at), (State::Submitted, Some(now + wait)));
        assert_eq!(life.last_wake_status, Some(WakeStatus::Rejected));
        now += wait;
    }
    life = step(&life, &Event::WakeSent, &rules(&settings, now)).unwrap();
    life = step(&life, &Event::WakeEnded(WakeStatus::Rejected), &rules(&settings, now)).unwrap();
    assert_eq!((life.state, life.next_wake_at), (State::Submitted, None));
    assert_eq!((life.wake_attempts, life.last_wake_status), (3, Some(WakeStatus::GivenUp)));
}

#[test]
fn an_accepted_wake_begins_the_count_again() {
    let life = Life { wake_attempts: 4, wake_round: 7, ..submitted() };
    for status in [WakeStatus::Accepted, WakeStatus::Unknown] {
        let woken = after(&life, &Event::WakeEnded(status), NOW).unwrap();
        assert_eq!((woken.state, woken.wake_attempts, woken.wake_round), (State::Dispatched, 0, 8));
        assert_eq!(woken.next_wake_at, Some(NOW + 900_000));
    }
}

#[test]
fn a_covered_task_is_woken_for_with_the_wake_that_covers_it_but_never_at_once() {
    for (sent_at, next_wake_at) in [(NOW, NOW + 900_000), (NOW - 899_998, NOW + 2), (NOW - 900_000, NOW + 1)] {
        let covered = after(&submitted(), &Event::WakeCoalesced { sent_at }, NOW).unwrap();
        assert_eq!((covered.last_wake_at, covered.next_wake_at), (Some(sent_at), Some(next_wake_at)));
    }
}

/// Whatever became of the wakes of before, they say nothing of the one that is called for now.
#[test]
fn a_task_that_comes_back_knows_nothing_of_earlier_wakes() {
    let woken = |life: Life| Life {
        wake_attempts: 2,
        wake_round: 7,
        last_wake_at: Some(NOW - 1_000),
        last_wake_status: Some(WakeStatus::Sent),
        ..life
    };
    let end = working().lease_expires_at.unwrap();
    for (life, event, now) in [
        (working(), Event::Time, end),
        (working(), Event::Released(fence()), NOW),
        (waiting(WaitingOn::External), Event::Ready, NOW),
    ] {
        let ready = after(&woken(life), &event, now).unwrap();
        assert_eq!((ready.state, ready.wake_attempts, ready.wake_round), (State::Submitted, 0, 8));
        assert_eq!((ready.last_wake_at, ready.last_wake_status), (None, None));
    }
}

#[test]
fn backoffs_follow_their_lists() {
    let wakes: Vec<i64> = (1..=6).map(wake_backoff_ms).collect();
    assert_eq!(wakes, [60_000, 300_000, 900_000, 3_600_000, 3_600_000, 3_600_000]);
    assert_eq!(wake_backoff_ms(0), 60_000);
    let failures: Vec<i64> = [1, 2, 3, 8, 9, 10, 100].map(|n| failure_backoff_ms(n, 0)).to_vec();
    assert_eq!(failures, [15_000, 30_000, 60_000, 1_920_000, 3_600_000, 3_600_000, 3_600_000]);
    assert_eq!([0, 64, 128, 255].map(|jitter| failure_backoff_ms(1, jitter)), [15_000, 15_750, 16_500, 17_988]);
    for failures in [1, 5, 50] {
        let (least, most) = (failure_backoff_ms(failures, 0), failure_backoff_ms(failures, 255));
        assert!(most > least && most < least + least / 5, "{least} {most}");
    }
}

#[test]
fn a_fresh_task_waits_for_what_holds_it() {
    let settings = settings(&[]);
    let rules = rules(&settings, NOW);
    let born = |hold| submit(&rules, hold, None, 3);
    assert_eq!(born(Hold::None).state, State::Submitted);
    assert_eq!(born(Hold::None).next_wake_at, Some(NOW));
    assert_eq!(born(Hold::Until(NOW)).state, State::Submitted, "now is not later");
    let held = born(Hold::Until(NOW + 1));
    assert_eq!((held.state, held.waiting_on, held.visible_at), (State::Waiting, Some(WaitingOn::Time), Some(NOW + 1)));
    assert_eq!(held.next_wake_at, None, "nobody is woken for what cannot be claimed");
    assert_eq!(born(Hold::Tasks).waiting_on, Some(WaitingOn::Tasks));
    assert_eq!(born(Hold::Approval).waiting_on, Some(WaitingOn::Approval));
    assert_eq!((held.attempt, held.failures, held.max_attempts), (0, 0, 3));
    let polled = submit(&Rules { wakes: false, ..rules }, Hold::None, None, 3);
    assert_eq!(polled.next_wake_at, None, "an executor that polls is not woken");
}

#[test]
fn what_is_over_has_no_timer() {
    for state in [State::Completed, State::Failed, State::Canceled] {
        let life = Life { deadline_at: Some(NOW - 1), completed_at: Some(NOW - 2), ..base(state) };
        assert_eq!(life.due_at(LEASE_MS), None);
        assert!(!is_time(&life, &rules(&settings(&[]), NOW)));
    }
}
