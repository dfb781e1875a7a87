//! Every sample × every happening against the table of design §3, written down here a second time from its words.

use taskhub::domain::lifecycle::{Fence, Refused, may_write};
use taskhub::domain::task::{FailureCode, Life, State, WaitingOn};

use super::samples::{LEASE_MS, NOW, Sample, fence, happenings, samples};
use crate::support::settings;

/// From, what happens, to. A pair that no line names is refused. A name with `*` at its end stands for all that begin so and have
/// no line of their own.
const TABLE: &str = "
waiting for time         | what it waited for has come                | submitted
waiting for tasks        | what it waited for has come                | submitted
waiting for external     | what it waited for has come                | submitted
waiting for approval     | owner approved                             | submitted
waiting for approval     | owner approved, not before a time          | waiting time
waiting for *            | dependency failed                          | failed dependency_failed
waiting for approval     | owner denied                               | failed denied
waiting for time         | wait over                                  | submitted
waiting for external     | wait over                                  | submitted

submitted                | wake sent                                  | submitted
submitted                | wake covered by another                    | submitted
submitted                | wake accepted                              | dispatched
submitted                | wake outcome unknown                       | dispatched
submitted                | wake rejected                              | submitted
submitted                | wake rejected too often                    | submitted
dispatched               | wake sent                                  | dispatched
dispatched               | wake covered by another                    | dispatched
dispatched               | wake accepted                              | dispatched
dispatched               | wake outcome unknown                       | dispatched
dispatched               | wake rejected                              | dispatched
dispatched               | wake rejected too often                    | dispatched
submitted                | claim                                      | working
dispatched               | claim                                      | working

working*                 | heartbeat                                  | working
working*                 | blocked, first time or new question        | input-required
working*                 | blocked, as before                         | input-required
working*                 | result completed                           | completed
working*                 | result failed                              | failed executor_failed
working                  | result failed, retryable                   | waiting time
working, last chance     | result failed, retryable                   | failed executor_failed
working*                 | defer                                      | waiting external
working*                 | release                                    | submitted
working                  | lease expired                              | submitted
working, last chance     | lease expired                              | failed lease_expired

input-required*          | heartbeat                                  | working
input-required*          | blocked, first time or new question        | input-required
input-required*          | blocked, as before                         | input-required
input-required*          | result completed                           | completed
input-required*          | result failed                              | failed executor_failed
input-required*          | result failed, retryable                   | failed executor_failed
input-required*          | answered, attempt alive                    | input-required
input-required*          | answered, attempt silent for over a lease  | submitted
input-required           | input limit passed                         | failed input_timeout
input-required, answered | input limit passed                         | submitted
input-required, answered | silent for over a lease after the answer   | submitted

working, action begun    | result failed, retryable                   | input-required
working, action begun    | release                                    | input-required
working, action begun    | lease expired                              | input-required
working, action begun    | readdressed                                | input-required
working, last chance, action begun | result failed, retryable         | failed executor_failed
working, last chance, action begun | release                          | input-required
working, last chance, action begun | lease expired                    | failed lease_expired
working, last chance, action begun | readdressed                      | input-required
input-required, action begun | answered, attempt silent for over a lease | input-required
input-required, action begun | input limit passed                     | failed input_timeout
input-required, action begun | readdressed                            | input-required
input-required, answered, action begun | answered, attempt silent for over a lease | input-required
input-required, answered, action begun | input limit passed           | input-required
input-required, answered, action begun | silent for over a lease after the answer | input-required
input-required, answered, action begun | readdressed                  | input-required
input-required by the hub | answered, attempt alive                   | submitted
input-required by the hub | answered, attempt silent for over a lease | submitted
input-required by the hub | input limit passed                        | failed input_timeout
input-required by the hub | readdressed                               | input-required

submitted                | deadline passed                            | failed deadline_exceeded
dispatched               | deadline passed                            | failed deadline_exceeded
waiting for *            | deadline passed                            | failed deadline_exceeded
working*                 | deadline passed                            | failed deadline_exceeded
input-required*          | deadline passed                            | failed deadline_exceeded
submitted                | readdressed                                | submitted
dispatched               | readdressed                                | submitted
waiting for time         | readdressed                                | waiting time
waiting for tasks        | readdressed                                | waiting tasks
waiting for approval     | readdressed                                | waiting approval
waiting for external     | readdressed                                | waiting external
working*                 | readdressed                                | submitted
input-required*          | readdressed                                | submitted
submitted                | cancel                                     | canceled
dispatched               | cancel                                     | canceled
waiting for *            | cancel                                     | canceled
working*                 | cancel                                     | canceled
input-required*          | cancel                                     | canceled
";

/// What an attempt does, and needs its claim for.
const CALLS: [&str; 8] = [
    "heartbeat",
    "blocked, first time or new question",
    "blocked, as before",
    "result completed",
    "result failed",
    "result failed, retryable",
    "defer",
    "release",
];

fn names(pattern: &str, name: &str) -> bool {
    pattern == name || pattern.strip_suffix('*').is_some_and(|beginning| name.starts_with(beginning))
}

fn expected(sample: &Sample, happening: &str) -> Result<&'static str, Refused> {
    let lines = TABLE.lines().filter(|line| !line.is_empty()).map(|line| {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        (columns[0], columns[1], columns[2])
    });
    let mut found: Vec<(&str, &str)> = lines
        .filter(|(from, what, _)| names(from, sample.name) && *what == happening)
        .map(|(from, _, to)| (from, to))
        .collect();
    found.sort_by_key(|(from, _)| from.ends_with('*'));
    let own = found.iter().filter(|(from, _)| !from.ends_with('*')).count();
    assert!(found.len() - own <= 1 && own <= 1, "{} has two lines for {happening}", sample.name);
    // Nobody has it, so nobody can act on it.
    if sample.life.is_asked_by_hub() && CALLS.contains(&happening) {
        return Err(Refused::LeaseLost);
    }
    match (sample.life.state, found.first().map(|(_, to)| to)) {
        (State::Canceled, None) => Err(Refused::Canceled),
        (State::Completed | State::Failed, None) => Err(Refused::AlreadyFinished),
        (State::Submitted | State::Dispatched | State::Waiting, None) if CALLS.contains(&happening) => {
            Err(Refused::LeaseLost)
        }
        (_, None) => Err(Refused::WrongState),
        (_, Some(to)) => Ok(to),
    }
}

fn outcome(life: &Life) -> String {
    match (life.state, life.failure, life.waiting_on) {
        (State::Failed, Some(code), _) => format!("failed {}", code.as_str()),
        (State::Waiting, _, Some(on)) => format!("waiting {}", on.as_str()),
        (state, _, _) => state.to_string(),
    }
}

#[test]
fn every_pair_of_state_and_event_does_what_the_design_says() {
    let settings = settings(&[]);
    for sample in samples() {
        for happening in happenings() {
            let (_, after, _) = happening.happen(&sample, &settings);
            let expected = expected(&sample, happening.name).map(str::to_owned);
            assert_eq!(after.map(|life| outcome(&life)), expected, "{} when {}", sample.name, happening.name);
        }
    }
}

#[test]
fn every_line_of_the_table_names_a_sample_and_a_happening() {
    for line in TABLE.lines().filter(|line| !line.is_empty()) {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        assert!(samples().iter().any(|sample| names(columns[0], sample.name)), "{line}");
        assert!(happenings().iter().any(|happening| happening.name == columns[1]), "{line}");
    }
}

/// Rule 7: only lease expiry and a retryable failure spend budget; only a claim raises the attempt.
#[test]
fn attempt_and_failures_move_with_their_own_events_only() {
    let settings = settings(&[]);
    for sample in samples() {
        for happening in happenings() {
            let (before, Ok(after), _) = happening.happen(&sample, &settings) else { continue };
            let name = format!("{} when {}", sample.name, happening.name);
            let claims = u32::from(happening.name == "claim");
            assert_eq!(after.attempt, before.attempt + claims, "{name}");
            let is_working = before.state == State::Working;
            let spends = is_working && matches!(happening.name, "lease expired" | "result failed, retryable");
            assert_eq!(after.failures, before.failures + u32::from(spends), "{name}");
            assert_eq!(after.max_attempts, before.max_attempts, "{name}");
            assert_eq!(after.deadline_at, before.deadline_at, "{name}: a deadline never moves");
        }
    }
}

/// Rule 2: task, attempt, executor, token, and the unexpired lease must all match.
#[test]
fn a_call_needs_every_part_of_its_fence() {
    let settings = settings(&[]);
    type Change = (&'static str, fn(&mut Life));
    let changes: [Change; 5] = [
        ("another executor", |life| life.claim.as_mut().unwrap().executor = "other".to_owned()),
        ("another token", |life| life.claim.as_mut().unwrap().token_hash = "hush".to_owned()),
        ("a later attempt", |life| life.attempt = 3),
        ("the lease or the input limit is over", |life| {
            life.lease_expires_at = life.lease_expires_at.map(|_| NOW);
            life.input_expires_at = life.input_expires_at.map(|_| NOW);
        }),
        ("the deadline has passed", |life| life.deadline_at = Some(NOW)),
    ];
    for sample in samples().iter().filter(|sample| sample.life.is_held(NOW)) {
        for happening in happenings().iter().filter(|happening| CALLS.contains(&happening.name)) {
            for (change, apply) in changes {
                let mut life = sample.life.clone();
                apply(&mut life);
                let (_, after, _) = happening.happen(&Sample { life, ..sample.clone() }, &settings);
                assert_eq!(after, Err(Refused::LeaseLost), "{}, {}: {change}", sample.name, happening.name);
            }
        }
    }
    assert_eq!(fence(), Fence { executor: "bot".to_owned(), attempt: 2, token_hash: "hash".to_owned() });
}

/// A write beside the task is refused as a call that moves it would be, in every state but `working`.
#[test]
fn an_attempt_writes_beside_its_task_only_while_it_works() {
    for sample in samples() {
        let expected = match sample.life.state {
            State::Working => Ok(()),
            State::InputRequired if sample.life.is_asked_by_hub() => Err(Refused::LeaseLost),
            State::InputRequired => Err(Refused::WrongState),
            State::Canceled => Err(Refused::Canceled),
            State::Completed | State::Failed => Err(Refused::AlreadyFinished),
            State::Submitted | State::Dispatched | State::Waiting => Err(Refused::LeaseLost),
        };
        assert_eq!(may_write(&sample.life, &fence(), NOW), expected, "{}", sample.name);
        let is_held = matches!(sample.life.state, State::Working | State::InputRequired);
        let late = if is_held { Err(Refused::LeaseLost) } else { expected };
        for (what, fence) in [
            ("another executor", Fence { executor: "other".to_owned(), ..fence() }),
            ("another token", Fence { token_hash: "hush".to_owned(), ..fence() }),
            ("an earlier attempt", Fence { attempt: 1, ..fence() }),
        ] {
            assert_eq!(may_write(&sample.life, &fence, NOW), late, "{}: {what}", sample.name);
        }
        let ends = [sample.life.lease_expires_at, sample.life.input_expires_at, sample.life.deadline_at];
        for end in ends.into_iter().flatten().filter(|_| is_held) {
            assert_eq!(may_write(&sample.life, &fence(), end), Err(Refused::LeaseLost), "{}: over", sample.name);
        }
    }
}

#[test]
fn what_each_state_carries() {
    let settings = settings(&[]);
    for sample in samples() {
        for happening in happenings() {
            let (before, Ok(after), _) = happening.happen(&sample, &settings) else { continue };
            let name = format!("{} when {}", sample.name, happening.name);
            assert_eq!(after.lease_expires_at.is_some(), after.state == State::Working, "{name}");
            assert_eq!(after.input_expires_at.is_some(), after.state == State::InputRequired, "{name}");
            assert_eq!(after.completed_at.is_some(), after.state.is_terminal(), "{name}");
            assert_eq!(after.failure.is_some(), after.state == State::Failed, "{name}");
            let waits = matches!(after.state, State::Waiting | State::InputRequired);
            assert_eq!(after.waiting_on.is_some(), waits, "{name}");
            if after.state == State::Submitted && before.state.lane() != after.state.lane() {
                let wake_at = if happening.name == "release" { NOW + 60_000 } else { after.next_wake_at.unwrap() };
                assert_eq!(after.next_wake_at, Some(wake_at), "{name}: becoming claimable calls for a wake");
                assert_eq!(after.wake_round, before.wake_round + 1, "{name}: a new call for attention");
                assert_eq!((after.wake_attempts, after.last_wake_at), (0, None), "{name}");
            }
            if after.state == State::Working && before.state == State::InputRequired {
                assert_eq!(after.lease_expires_at, Some(NOW + LEASE_MS), "{name}: a whole lease again");
                assert_eq!(after.claim.as_ref().unwrap().heard_at, NOW, "{name}");
            }
        }
    }
}

#[test]
fn the_words_are_read_as_they_are_written() {
    assert!(State::ALL.into_iter().all(|state| State::parse(state.as_str()) == Some(state)));
    assert!(WaitingOn::ALL.into_iter().all(|on| WaitingOn::parse(on.as_str()) == Some(on)));
    assert!(FailureCode::ALL.into_iter().all(|code| FailureCode::parse(code.as_str()) == Some(code)));
    assert_eq!(State::parse("Working"), None);
}
