//! Random walks through the lifecycle: what holds after every step, whatever the steps.

use rusqlite::types::Value as Sql;
use taskhub::domain::lifecycle::{Event, Fence, Hold, Refused, Rules, step, submit};
use taskhub::domain::settings::Settings;
use taskhub::domain::task::{Lane, Life, State, WaitingOn, WakeStatus};
use taskhub::store::migrate::migrate;

use super::samples::NOW;
use crate::support::{NativeDatabase, settings};

const WALKS: u64 = 200;
const STEPS: usize = 60;

/// Chance from a seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn fence(chance: &mut Chance, life: &Life) -> Fence {
    // Mostly the right one, sometimes an earlier attempt's or a stranger's.
    let attempt = life.attempt - u32::from(life.attempt > 0 && chance.below(8) == 0);
    let executor = if chance.below(12) == 0 { "stranger" } else { "bot" };
    Fence { executor: executor.to_owned(), attempt, token_hash: format!("hash {attempt}") }
}

fn event(chance: &mut Chance, life: &Life, now: i64) -> Event {
    let fence = fence(chance, life);
    match chance.below(22) {
        0 => Event::Ready,
        1 => Event::DependencyFailed,
        2 => Event::Denied,
        3 => Event::WakeSent,
        4 => Event::WakeCoalesced { sent_at: now - chance.below(200_000) as i64 },
        5 => Event::WakeEnded(WakeStatus::ALL[chance.below(6) as usize]),
        6..=8 => Event::Claim { executor: "bot".to_owned(), token_hash: format!("hash {}", life.attempt + 1) },
        9 => Event::Heartbeat(fence),
        10 => Event::Blocked { fence, on: WaitingOn::Submitter, is_new: chance.below(2) == 0 },
        11 => Event::Blocked { fence, on: WaitingOn::ExecutorUser, is_new: false },
        12 => Event::Answered,
        13 if chance.below(3) == 0 => Event::Completed(fence),
        14 => Event::Failed { fence, retryable: chance.below(4) > 0, jitter: chance.below(256) as u8 },
        15 => Event::Deferred(fence, now + 1 + chance.below(500_000) as i64),
        16 => Event::Released(fence),
        17 if chance.below(4) == 0 => Event::Cancel,
        18 => Event::Approved { until: (chance.below(2) == 0).then(|| now + chance.below(400_000) as i64) },
        19 if chance.below(3) == 0 => Event::Readdressed,
        _ => Event::Time,
    }
}

fn birth(chance: &mut Chance, settings: &Settings) -> Life {
    let hold = match chance.below(6) {
        0 => Hold::Until(NOW + chance.below(400_000) as i64),
        1 => Hold::Tasks,
        2 => Hold::Approval,
        _ => Hold::None,
    };
    let deadline_at = (chance.below(3) == 0).then(|| NOW + 1 + chance.below(3_000_000) as i64);
    let wakes = chance.below(2) == 0;
    submit(&Rules { settings, now: NOW, wakes, asks: false }, hold, deadline_at, 1 + chance.below(4) as u32)
}

/// Everything but wakes that the clock may do, by itself.
fn timers(life: &Life, lease_ms: i64) -> Vec<i64> {
    let silent_at = life.answered_at.and(life.claim.as_ref()).map(|claim| claim.heard_at + lease_ms + 1);
    let all = [life.deadline_at, life.lease_expires_at, life.input_expires_at, life.visible_at, silent_at];
    if life.state.is_terminal() { vec![] } else { all.into_iter().flatten().collect() }
}

fn check_timers(life: &Life, settings: &Settings, name: &str) {
    let due_at = life.due_at(settings.lease_ms);
    let timers = timers(life, settings.lease_ms);
    for at in timers.iter().chain(&life.next_wake_at) {
        assert!(due_at.is_some_and(|due| due <= *at), "{name}: due at {due_at:?}, but a timer ends at {at}");
    }
    let by_time = |now| step(life, &Event::Time, &Rules { settings, now, wakes: true, asks: false });
    match timers.iter().min() {
        Some(first) => {
            assert_eq!(by_time(first - 1), Err(Refused::WrongState), "{name}: not before its time");
            assert!(by_time(*first).is_ok(), "{name}: at its time");
        }
        None => assert!(by_time(i64::from(u32::MAX) * 1000).is_err(), "{name}: without a timer, nothing"),
    }
}

fn check_step(before: &Life, event: &Event, after: &Life, now: i64, name: &str) {
    let claims = u32::from(matches!(event, Event::Claim { .. }));
    assert_eq!(after.attempt, before.attempt + claims, "{name}: the attempt rises with a claim, and never falls");
    let expired = *event == Event::Time && before.lease_expires_at.is_some_and(|at| at <= now);
    let spent = matches!(event, Event::Failed { retryable: true, .. }) && before.state == State::Working;
    let at_most = before.failures + u32::from(expired || spent);
    assert!((before.failures..=at_most).contains(&after.failures), "{name}: {} failures", after.failures);
    assert!(after.failures <= after.max_attempts && after.failures <= after.attempt, "{name}");
    assert!(!before.state.is_terminal(), "{name}: a terminal state was left");
    assert_eq!(after.deadline_at, before.deadline_at, "{name}");
    assert!(after.wake_round >= before.wake_round, "{name}");
}

/// Lets the real schema judge a life.
struct Schema(NativeDatabase);

impl Schema {
    fn new() -> Self {
        let db = NativeDatabase::in_memory();
        migrate(&db).expect("a fresh database migrates");
        Self(db)
    }

    fn accepts(&self, life: &Life, lease_ms: i64) -> Result<(), rusqlite::Error> {
        let text = |text: Option<&str>| text.map_or(Sql::Null, |text| Sql::Text(text.to_owned()));
        let number = |number: Option<i64>| number.map_or(Sql::Null, Sql::Integer);
        let lane = life.state.lane();
        let lane_key = lane.map(|lane| if lane == Lane::Held { "bot" } else { "@bot" });
        let claim = life.claim.as_ref();
        let values = vec![
            text(Some(life.state.as_str())),
            text(life.waiting_on.map(WaitingOn::as_str)),
            number(Some(life.attempt.into())),
            number(Some(life.failures.into())),
            number(Some(life.max_attempts.into())),
            text(claim.map(|claim| claim.executor.as_str())),
            text(claim.map(|claim| claim.token_hash.as_str())),
            number(claim.map(|claim| claim.heard_at)),
            number(life.lease_expires_at),
            number(life.input_expires_at),
            number(life.answered_at),
            number(life.visible_at),
            number(life.deadline_at),
            number(life.next_wake_at),
            number(Some(life.wake_attempts.into())),
            number(Some(life.wake_round.into())),
            number(life.last_wake_at),
            text(life.last_wake_status.map(WakeStatus::as_str)),
            text(life.failure.map(|code| code.as_str())),
            number(life.completed_at),
            text(lane.map(Lane::as_str)),
            text(lane_key),
            number(life.due_at(lease_ms)),
        ];
        let sql = "REPLACE INTO tasks (id, executor, rank, submitted_by, submit_hash, event_seq, created_at, updated_at,
              title, instructions, state, waiting_on, attempt, failures, max_attempts, claimed_by, claim_token_hash,
              heard_at, lease_expires_at, input_expires_at, answered_at, visible_at, deadline_at, next_wake_at,
              wake_attempts, wake_round, last_wake_at, last_wake_status, error_code, completed_at, lane, lane_key, due_at)
            VALUES ('t', 'bot', 4, 'owner', '', 1, 0, 0, '', '', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
              ?, ?, ?, ?)";
        let mut statement = self.0.connection().prepare_cached(sql)?;
        statement.execute(rusqlite::params_from_iter(values)).map(drop)
    }
}

#[test]
fn every_walk_keeps_the_rules_and_the_schema() {
    let settings = settings(&[]);
    let schema = Schema::new();
    let mut ends = [0; State::ALL.len()];
    for seed in 0..WALKS {
        let mut chance = Chance(seed);
        let mut now = NOW;
        let mut life = birth(&mut chance, &settings);
        for index in 0..STEPS {
            let name = format!("seed {seed}, step {index}, {}", life.state);
            schema.accepts(&life, settings.lease_ms).unwrap_or_else(|error| panic!("{name}: {error}: {life:?}"));
            check_timers(&life, &settings, &name);
            now += chance.below(120_000) as i64;
            let event = event(&mut chance, &life, now);
            let rules = Rules { settings: &settings, now, wakes: chance.below(2) == 0, asks: chance.below(4) == 0 };
            if let Ok(after) = step(&life, &event, &rules) {
                check_step(&life, &event, &after, now, &format!("{name}, {event:?}"));
                life = after;
            }
        }
        ends[State::ALL.iter().position(|state| *state == life.state).unwrap()] += 1;
    }
    let reached = ends.iter().filter(|count| **count > 0).count();
    assert!(reached >= 6, "the walks go everywhere: {ends:?}");
}

#[test]
fn a_terminal_state_refuses_everything() {
    let settings = settings(&[]);
    for (state, refused) in [
        (State::Completed, Refused::AlreadyFinished),
        (State::Failed, Refused::AlreadyFinished),
        (State::Canceled, Refused::Canceled),
    ] {
        let mut chance = Chance(7);
        let life = super::samples::base(state);
        for _ in 0..500 {
            let event = event(&mut chance, &life, NOW);
            assert_eq!(
                step(&life, &event, &Rules { settings: &settings, now: NOW, wakes: true, asks: false }),
                Err(refused)
            );
        }
    }
}

#[test]
fn the_schema_refuses_what_no_step_produces() {
    let schema = Schema::new();
    let base = super::samples::base;
    let refused = [
        ("working without a lease", base(State::Working)),
        ("a lease elsewhere", Life { lease_expires_at: Some(NOW), ..base(State::Submitted) }),
        (
            "input-required without a limit",
            Life { waiting_on: Some(WaitingOn::Submitter), ..base(State::InputRequired) },
        ),
        ("waiting for nothing", base(State::Waiting)),
        ("waiting for a person", Life { waiting_on: Some(WaitingOn::Submitter), ..base(State::Waiting) }),
        ("waiting for time without an end", Life { waiting_on: Some(WaitingOn::Time), ..base(State::Waiting) }),
        ("an end before the end", Life { completed_at: Some(NOW), ..base(State::Submitted) }),
        ("over without a time", base(State::Completed)),
        ("failed without a code", Life { completed_at: Some(NOW), ..base(State::Failed) }),
        ("held by nobody", Life { claim: None, lease_expires_at: Some(NOW), ..base(State::Working) }),
        ("more failures than attempts", Life { failures: 3, ..base(State::Submitted) }),
        (
            "a wake while it is held",
            Life { next_wake_at: Some(NOW), lease_expires_at: Some(NOW), ..base(State::Working) },
        ),
        ("answered while nothing is asked", Life { answered_at: Some(NOW), ..base(State::Submitted) }),
    ];
    for (name, life) in refused {
        assert!(schema.accepts(&life, 300_000).is_err(), "{name}");
    }
    assert!(schema.accepts(&base(State::Submitted), 300_000).is_ok());
}
