//! What happens in the world, chosen by chance.

mod actions;
mod executors;
mod files;
mod outside;
mod submitters;
mod tally;

use std::cell::Cell;
use std::collections::VecDeque;

use serde_json::{Value as Json, json};
use taskhub::domain::executor::Approval;
use taskhub::domain::ledger::OnUnknownAction;
use taskhub::domain::settings::Settings;
use taskhub::domain::wake::{Wake, WakeAuth};
use taskhub::faults::{Fault, is_on};
use taskhub::hub::{
    Act, ActionRejected, Answer, AnswerRejected, Approve, ApproveRejected, AttemptCall, AttemptRejected,
    CancelRejected, Claim, ClaimRejected, CreateExecutor, Defer, Delivery, Effects, ExecutorChange, Heartbeat, Hub,
    Order, Outcome, Presence, Record, Release, Report, RetryRejected, Submit, SubmitRejected, When, act, addresses,
    answer, approve, cancel, claim, create_executor, defer, dispatch, heartbeat, purge, purge_outbox, record_delivery,
    release, report, retry_task, submit, sweep, wake_executor,
};
use taskhub::store::database::{Database, Value};
use taskhub::store::executors::{ExecutorRow, by_name};
use taskhub::store::migrate::migrate;
use taskhub::store::outbox::Kind;

use crate::simulation::auditor::{Auditor, Known, Standing, Verb, Verdict};
use crate::simulation::chance::Chance;
#[cfg(feature = "test-faults")]
use crate::simulation::faults::FaultyDatabase;
use crate::simulation::probe::write_under_stale_claims;
use crate::simulation::trace::Trace;
use crate::support::{NativeDatabase, settings};
pub use tally::Tally;

/// Open tasks at which submitters hold back.
const OPEN_MAX: usize = 60;
/// Claims that an executor remembers, the zombies' old ones included.
const CLAIMS_MAX: usize = 6;
/// Everything is compared after so many steps.
const AUDIT_EVERY: u64 = 1_000;
/// The alarm may be late, but within so many steps what is due has been swept.
const OVERDUE_STEPS_MAX: u32 = 100;
const OWED: &str = "SELECT id FROM outbox WHERE state = 'due'";
const DAY_MS: i64 = 86_400_000;
const QUEUES: [&str; 3] = ["errands", "builds", "mail"];

/// How an executor behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Temper {
    Prompt,
    Slow,
    Crashing,
    Zombie,
    Doubling,
    Lossy,
    Asking,
    Deferring,
    Releasing,
    /// The owner wants to be asked about each of its tasks.
    Asked,
}

const TEMPERS: [Temper; 10] = [
    Temper::Prompt,
    Temper::Slow,
    Temper::Crashing,
    Temper::Zombie,
    Temper::Doubling,
    Temper::Lossy,
    Temper::Asking,
    Temper::Deferring,
    Temper::Releasing,
    Temper::Asked,
];

#[derive(Clone, Debug)]
struct Held {
    task: String,
    attempt: u32,
    token: String,
    /// Which actions it has done outside, a bit a step.
    did: u8,
}

struct Agent {
    row: ExecutorRow,
    temper: Temper,
    held: VecDeque<Held>,
    /// A claim whose answer was lost, asked for again under the same id; and what the hub had answered.
    lost: Option<(String, Option<Held>)>,
}

pub struct Workload {
    chance: Chance,
    db: NativeDatabase,
    settings: Settings,
    presence: Presence,
    now: Cell<i64>,
    alarm: Cell<Option<i64>>,
    /// Whether the alarm is known to ring for every timer of before; after the object was loaded that has to be looked up.
    is_certain: Cell<bool>,
    agents: Vec<Agent>,
    in_flight: Vec<Order>,
    submits: VecDeque<(Submit, String)>,
    auditor: Auditor,
    tally: Tally,
    trace: Trace,
    counter: u64,
    /// Whether the latest command met a failure that was asked for.
    injected: bool,
    /// Whether it left an event.
    recorded: bool,
    /// The newest event so far.
    newest: i64,
    /// Steps since something is due.
    overdue: u32,
}

impl Workload {
    pub fn new(seed: u64, trace: Trace) -> Self {
        // In every other world the owner is told of nothing.
        let ntfy = [("NTFY_URL", "https://ntfy.example"), ("NTFY_TOPIC", "a-topic"), ("NTFY_EVENTS", "failed")];
        let ntfy = if seed.is_multiple_of(2) { &ntfy[..] } else { &[] };
        let limits = [("RETENTION_DAYS", "1"), ("INPUT_TIMEOUT_SECONDS", "3600")];
        let settings = settings(&[&limits[..], ntfy].concat());
        let db = NativeDatabase::in_memory();
        migrate(&db).expect("a fresh database migrates");
        let mut world = Self {
            chance: Chance::new(seed),
            db,
            auditor: Auditor::new(settings.clone()),
            settings,
            presence: Presence::default(),
            now: Cell::new(1_800_000_000_000),
            alarm: Cell::new(None),
            is_certain: Cell::default(),
            agents: Vec::new(),
            in_flight: Vec::new(),
            submits: VecDeque::new(),
            tally: Tally::default(),
            trace,
            counter: 0,
            injected: false,
            recorded: false,
            newest: 0,
            overdue: 0,
        };
        world.people();
        world
    }

    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// What happened, if that is wanted.
    pub fn into_trace(self) -> Trace {
        self.trace
    }

    fn people(&mut self) {
        for (index, temper) in TEMPERS.into_iter().enumerate() {
            let wake = if index % 2 == 0 {
                Wake::Poll {}
            } else {
                let url = format!("https://bot-{index}.example/wake");
                Wake::Webhook { url, auth: WakeAuth::None {}, body: None }
            };
            let is_asked = temper == Temper::Asked;
            let queues = QUEUES.iter().enumerate().filter(|(queue, _)| !is_asked && (index + queue) % 2 == 0);
            let queues: Vec<String> = queues.map(|(_, name)| (*name).to_owned()).collect();
            let account = ExecutorChange {
                queues: Some(queues.clone()),
                max_concurrent: Some(3),
                wake: Some(wake),
                approval: is_asked.then_some(Approval::Always),
                ..ExecutorChange::default()
            };
            let input = CreateExecutor { name: format!("bot-{index}"), account };
            let created = self.command(|hub| create_executor(hub, &input)).0.expect("an executor is created");
            if created.executor.wake.is_sent() {
                self.auditor.is_woken(&input.name, &queues);
            }
            self.agents.push(Agent { row: created.executor.row, temper, held: VecDeque::new(), lost: None });
        }
    }

    /// Takes so many steps, and compares everything in between and at their end.
    pub fn run(&mut self, steps: u64) {
        for step in 1..=steps {
            self.tally.steps += 1;
            self.step();
            if step % AUDIT_EVERY == 0 || step == steps {
                self.auditor.check_all(&self.db);
                self.auditor.files.check_all(&self.db);
                self.auditor.messages.check(&self.db);
                self.auditor.messages.check_notices(&self.db);
                self.auditor.messages.forget_told();
            }
        }
    }

    /// Faults stop, executors are prompt, receivers accept: everything must come to an end or wait for a named reason.
    pub fn settle(&mut self) {
        for agent in &mut self.agents {
            agent.temper = Temper::Prompt;
            agent.held.clear();
            agent.lost = None;
        }
        for _ in 0..2_000 {
            if self.auditor.open.is_empty() && self.db.rows(OWED).is_empty() {
                break;
            }
            while let Some(order) = self.in_flight.pop() {
                self.delivered(&order, &Delivery::Accepted);
            }
            while self.judge(false) {}
            for index in 0..self.agents.len() {
                self.claim(index, false);
                while let Some(held) = self.agents[index].held.pop_front() {
                    self.attempt(index, &held, &Verb::Complete);
                }
            }
            self.now.set(self.now.get() + 60_000);
            self.ring();
        }
        self.auditor.check_all(&self.db);
        assert!(self.auditor.open.is_empty(), "left hanging: {:?}", self.auditor.open);
        let owed = "SELECT id FROM tasks WHERE due_at IS NOT NULL OR lane IS NOT NULL";
        assert!(self.db.rows(owed).is_empty(), "something is still due in a hub where all is over");
        assert!(self.db.rows(OWED).is_empty(), "left hanging: a message");
        self.silence();
    }

    /// After the retention nothing is left but the number of the newest event.
    fn silence(&mut self) {
        self.now.set(self.now.get() + self.settings.retention_ms + DAY_MS);
        let mut after = String::new();
        while let Some(next) = self.command_without_failure(|hub| purge(hub, &after)).0.expect("the database works") {
            after = next;
        }
        self.auditor.purged(self.now.get());
        self.auditor.files.check_all(&self.db);
        let left = self.db.rows("SELECT id FROM tasks");
        assert!(left.is_empty() && self.auditor.tasks.is_empty(), "kept beyond the retention: {left:?}");
    }

    fn step(&mut self) {
        match self.chance.below(100) {
            0..=11 => self.time_passes(),
            12..=29 => self.submit(),
            30..=79 => self.executor(),
            80..=83 => self.cancel(),
            84..=87 => self.answer(),
            88 => self.retry(),
            89 => {
                self.judge(true);
            }
            90 => self.wake_executor(),
            91..=95 => self.receivers(),
            96 => self.restart(),
            97 => self.purge(),
            _ => self.alarm_by_chance(),
        }
        if self.alarm.get().is_some_and(|at| at <= self.now.get()) && self.chance.percent(70) {
            self.ring();
        }
        if self.chance.percent(5)
            && let Some(id) = self.some_task(true)
        {
            let now = self.now.get();
            self.with_database(|db| write_under_stale_claims(db, &id, now));
        }
        self.overdue = if self.auditor.is_due(self.now.get()) { self.overdue + 1 } else { 0 };
        assert!(self.overdue < OVERDUE_STEPS_MAX, "something is overdue for {} steps", self.overdue);
    }

    /// What stands between the hub and its tables; where faults can be switched on, those of the database.
    fn with_database<T>(&self, body: impl FnOnce(&dyn Database) -> T) -> T {
        #[cfg(feature = "test-faults")]
        return body(&FaultyDatabase(&self.db));
        #[cfg(not(feature = "test-faults"))]
        body(&self.db)
    }

    /// A command failed because of the database: only ever where that was asked for.
    fn failure(&mut self, error: &dyn std::fmt::Debug) {
        assert!(!self.recorded, "a command that failed has left an event: {error:?}");
        assert!(self.injected, "nobody asked for a failure: {error:?}");
        self.tally.failures += 1;
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        self.trace.note(self.tally.steps, self.now.get(), text);
    }

    fn note_common(&mut self, text: &str) {
        self.trace.note_common(self.tally.steps, self.now.get(), || text.to_owned());
    }

    /// Runs one command as the object does: then the alarm follows, and the wakes are on their way. Sometimes the database
    /// fails in the middle of it.
    fn command<T>(&mut self, body: impl FnOnce(&Hub<'_>) -> T) -> (T, Effects) {
        if self.tally.steps > 0 && self.chance.percent(3) {
            self.db.fail_in(Some(self.chance.below(8) as u32));
        }
        self.command_without_failure(body)
    }

    fn command_without_failure<T>(&mut self, body: impl FnOnce(&Hub<'_>) -> T) -> (T, Effects) {
        let now = self.now.get();
        let armed = self.db.is_to_fail();
        let (answer, mut effects, due, pending) = self.with_database(|db| {
            let hub = Hub::new(db, &self.settings, &self.presence, &self.chance, now, "https://hub.example");
            let answer = body(&hub);
            let pending = self.db.call_off();
            let timer = db.timers().take();
            let look_up = || hub.next_due().expect("the next timer can be read");
            let due = if self.is_certain.replace(true) { timer } else { look_up() };
            (answer, hub.take_effects(), due, pending)
        });
        self.injected = armed && !pending;
        let before = self.newest;
        self.number_events();
        self.recorded = self.newest > before;
        let due = due.map(|at| if is_on(Fault::AlarmLate) { at + 1_800_000 } else { at });
        if let Some(due) = due.filter(|_| !is_on(Fault::AlarmNotSet))
            && self.alarm.get().is_none_or(|at| due < at)
        {
            self.alarm.set(Some(due));
        }
        for order in &effects.outbox {
            self.auditor.messages.goes_out(order, now);
            match order.row.kind {
                Kind::Wake => self.tally.wakes += 1,
                Kind::Callback => self.tally.callbacks += 1,
                Kind::Notice => self.tally.notices += 1,
            }
        }
        self.in_flight.append(&mut effects.outbox.clone());
        effects.outbox.shrink_to_fit();
        (answer, effects)
    }

    /// Who follows the events by number must not miss one, so no number is used twice.
    fn number_events(&mut self) {
        let row = self.db.execute("SELECT coalesce(max(seq), 0) FROM task_events", &[]).expect("it can be read").pop();
        let Some([Value::Integer(newest)]) = row.as_deref() else { panic!("no number: {row:?}") };
        assert!(*newest >= self.newest, "event numbers fall from {} to {newest}", self.newest);
        self.newest = *newest;
    }

    /// A task has just become claimable, or not: exactly those are woken whom no other wake covers.
    fn woken(&mut self, id: &str, address: &str, is_ready: bool, effects: &Effects) {
        let mut owed = if is_ready { self.auditor.owed(address, self.now.get()) } else { Vec::new() };
        let wakes = effects.outbox.iter().filter(|order| order.row.kind == Kind::Wake);
        let mut ordered: Vec<String> = wakes.map(|order| order.row.subject.clone()).collect();
        for list in [&mut owed, &mut ordered] {
            list.retain(|executor| !self.auditor.is_undecided(executor));
            list.sort();
        }
        assert_eq!(
            ordered, owed,
            "{id}: wakes were ordered (left) for others than those to whom they are owed (right)"
        );
        self.ordered(effects, false);
    }

    fn ordered(&mut self, effects: &Effects, forced: bool) {
        for order in effects.outbox.iter().filter(|order| order.row.kind == Kind::Wake) {
            self.note(|| {
                format!(
                    "a wake of {} is ordered for {}",
                    order.row.subject,
                    order.row.task_id.as_deref().unwrap_or("it")
                )
            });
            self.auditor.wake_ordered(&order.row.subject, order.claimed_at, forced);
        }
    }

    fn check(&mut self, id: &str) {
        self.auditor.check_task(&self.db, id);
    }

    /// A wake ends to cover others at this very moment, and another task comes for the same executor.
    fn cover_ends(&mut self) {
        let Some((name, at)) = self.auditor.cover_ends(self.now.get()) else { return };
        self.now.set(at);
        if self.auditor.open.len() < OPEN_MAX {
            self.submit_to(Some(name), None);
        }
    }

    /// The deadline of a claimable task is there, and an executor asks before the alarm rings.
    fn deadline_comes(&mut self) {
        let ready = self.auditor.tasks.values().filter(|task| task.standing == Standing::Ready);
        let Some(at) = ready.filter_map(|task| task.deadline_at).min() else { return };
        self.now.set(self.now.get().max(at));
        for index in 0..self.agents.len() {
            self.claim(index, false);
        }
    }

    /// A question is at its limit, or its attempt has been silent for too long when the answer comes.
    fn question_ends(&mut self) {
        let lease_ms = self.settings.lease_ms;
        let asks = |id: &String| match self.auditor.tasks[id].standing {
            Standing::Input { until, heard_at, .. } => Some((until, heard_at + lease_ms + 1)),
            Standing::Asked(until) => Some((until, self.now.get())),
            _ => None,
        };
        let Some((until, silent_at)) = self.auditor.open.iter().find_map(asks) else { return };
        if self.chance.percent(50) {
            self.now.set(self.now.get().max(until));
        } else {
            self.now.set(self.now.get().max(silent_at));
            self.answer();
        }
    }

    /// Days of silence, after which the purge may come before everything else.
    fn leap(&mut self) {
        self.now.set(self.now.get() + DAY_MS + self.chance.below(DAY_MS as u64) as i64);
        if self.chance.percent(50) {
            self.purge();
        }
    }

    fn time_passes(&mut self) {
        match self.chance.below(400) {
            0..=1 => return self.leap(),
            2..=21 => return self.deadline_comes(),
            22..=41 => return self.question_ends(),
            _ => {}
        }
        let lease_ms = self.settings.lease_ms;
        let ms = match self.chance.below(11) {
            10 => return self.cover_ends(),
            0..=4 => self.chance.below(2_000) as i64,
            5..=7 => self.chance.below(lease_ms as u64 / 2) as i64,
            8 => self.chance.below(lease_ms as u64 * 2) as i64,
            // Exactly to a timer, where the boundaries are.
            _ => self.alarm.get().map_or(0, |at| (at - self.now.get()).max(0)),
        };
        self.now.set(self.now.get() + ms);
    }
}
