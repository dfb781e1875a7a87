//! What happens in the world, chosen by chance.

use std::cell::Cell;
use std::collections::VecDeque;

use serde_json::{Value as Json, json};
use taskhub::domain::settings::Settings;
use taskhub::domain::wake::{Wake, WakeAuth};
use taskhub::faults::{Fault, is_on};
use taskhub::hub::{
    Answer, AnswerRejected, AttemptCall, AttemptRejected, CancelRejected, Claim, ClaimRejected, CreateExecutor, Defer,
    Effects, Heartbeat, Hub, Outcome, Presence, Release, Report, RetryRejected, Submit, SubmitRejected, WakeOrder,
    WakeOutcome, When, addresses, answer, cancel, claim, create_executor, defer, heartbeat, purge, record_wake,
    release, report, retry_task, submit, sweep, wake_executor,
};
use taskhub::store::database::{Database, Value};
use taskhub::store::executors::{ExecutorRow, by_name};
use taskhub::store::migrate::migrate;

use super::auditor::{Auditor, Known, Standing, Verb, Verdict};
use super::chance::Chance;
#[cfg(feature = "test-faults")]
use super::faults::FaultyDatabase;
use super::probe::write_under_stale_claims;
use crate::support::{NativeDatabase, settings};

/// Open tasks at which submitters hold back.
const OPEN_MAX: usize = 60;
/// Claims that an executor remembers, the zombies' old ones included.
const CLAIMS_MAX: usize = 6;
/// Everything is compared after so many steps.
const AUDIT_EVERY: u64 = 1_000;
const TRACE_MAX: usize = 4_000;
/// The alarm may be late, but within so many steps what is due has been swept.
const OVERDUE_STEPS_MAX: u32 = 100;
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
}

const TEMPERS: [Temper; 9] = [
    Temper::Prompt,
    Temper::Slow,
    Temper::Crashing,
    Temper::Zombie,
    Temper::Doubling,
    Temper::Lossy,
    Temper::Asking,
    Temper::Deferring,
    Temper::Releasing,
];

#[derive(Clone, Debug)]
struct Held {
    task: String,
    attempt: u32,
    token: String,
}

struct Agent {
    row: ExecutorRow,
    temper: Temper,
    held: VecDeque<Held>,
    /// A claim whose answer was lost, asked for again under the same id; and what the hub had answered.
    lost: Option<(String, Option<Held>)>,
}

/// What the world has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub steps: u64,
    pub submitted: u64,
    pub claims: u64,
    pub completed: u64,
    pub failed: u64,
    pub canceled: u64,
    pub late: u64,
    pub repeated: u64,
    pub wakes: u64,
    pub answers: u64,
    pub failures: u64,
    pub restarts: u64,
    pub purged: u64,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.submitted += other.submitted;
        self.claims += other.claims;
        self.completed += other.completed;
        self.failed += other.failed;
        self.canceled += other.canceled;
        self.late += other.late;
        self.repeated += other.repeated;
        self.wakes += other.wakes;
        self.answers += other.answers;
        self.failures += other.failures;
        self.restarts += other.restarts;
        self.purged += other.purged;
    }
}

pub struct Workload {
    seed: u64,
    chance: Chance,
    db: NativeDatabase,
    settings: Settings,
    presence: Presence,
    now: Cell<i64>,
    alarm: Cell<Option<i64>>,
    agents: Vec<Agent>,
    in_flight: Vec<WakeOrder>,
    submits: VecDeque<(Submit, String)>,
    auditor: Auditor,
    tally: Tally,
    trace: VecDeque<String>,
    counter: u64,
    /// Whether the latest command met a failure that was asked for.
    injected: bool,
    /// Whether it left an event.
    recorded: bool,
    /// The newest event so far.
    newest: i64,
    /// Steps since something is due.
    overdue: u32,
    is_quiet: bool,
}

impl Workload {
    pub fn new(seed: u64) -> Self {
        let settings = settings(&[("RETENTION_DAYS", "1"), ("INPUT_TIMEOUT_SECONDS", "3600")]);
        let db = NativeDatabase::in_memory();
        migrate(&db).expect("a fresh database migrates");
        let mut world = Self {
            seed,
            chance: Chance::new(seed),
            db,
            auditor: Auditor::new(settings.clone()),
            settings,
            presence: Presence::default(),
            now: Cell::new(1_800_000_000_000),
            alarm: Cell::new(None),
            agents: Vec::new(),
            in_flight: Vec::new(),
            submits: VecDeque::new(),
            tally: Tally::default(),
            trace: VecDeque::new(),
            counter: 0,
            injected: false,
            recorded: false,
            newest: 0,
            overdue: 0,
            is_quiet: false,
        };
        world.people();
        world
    }

    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// A complaint is expected and is not printed.
    #[cfg(feature = "test-faults")]
    pub fn be_quiet(&mut self) {
        self.is_quiet = true;
    }

    fn people(&mut self) {
        for (index, temper) in TEMPERS.into_iter().enumerate() {
            let wake = if index % 2 == 0 {
                Wake::Poll {}
            } else {
                let url = format!("https://bot-{index}.example/wake");
                Wake::Webhook { url, auth: WakeAuth::None {}, body: None }
            };
            let queues = QUEUES.iter().enumerate().filter(|(queue, _)| (index + queue) % 2 == 0);
            let input = CreateExecutor {
                name: format!("bot-{index}"),
                queues: queues.map(|(_, name)| (*name).to_owned()).collect(),
                max_concurrent: Some(3),
                wake,
            };
            let created = self.command(|hub| create_executor(hub, &input)).0.expect("an executor is created");
            if created.executor.wake["adapter"] == "webhook" {
                self.auditor.is_woken(&input.name, &input.queues);
            }
            self.agents.push(Agent { row: created.executor, temper, held: VecDeque::new(), lost: None });
        }
    }

    /// Runs so many steps.
    pub fn run(&mut self, steps: u64) {
        for step in 0..steps {
            self.tally.steps += 1;
            let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                self.step();
                if step % AUDIT_EVERY == 0 {
                    self.auditor.check_all(&self.db);
                }
            }));
            if let Err(panic) = failed {
                self.confess(step, &panic);
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// The seed, the step, and the last things that happened to the task that the complaint names.
    fn confess(&self, step: u64, panic: &(dyn std::any::Any + Send)) {
        if self.is_quiet {
            return;
        }
        let complaint = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        let id = complaint.find("t_").and_then(|start| complaint.get(start..start + 28)).unwrap_or("");
        let (seed, steps) = (self.seed, step + 1);
        eprintln!("simulation: seed {seed} failed at step {step}; replay: scripts/sim --seed {seed} --steps {steps}");
        let about = self.trace.iter().filter(|line| id.is_empty() || line.contains(id));
        let lines: Vec<&String> = about.collect();
        for line in lines.iter().skip(lines.len().saturating_sub(40)) {
            eprintln!("  {line}");
        }
    }

    /// Faults stop, executors are prompt, receivers accept: everything must come to an end or wait for a named reason.
    pub fn settle(&mut self) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.settle_down()));
        if let Err(panic) = outcome {
            self.confess(self.tally.steps, &panic);
            std::panic::resume_unwind(panic);
        }
    }

    fn settle_down(&mut self) {
        for agent in &mut self.agents {
            agent.temper = Temper::Prompt;
            agent.held.clear();
            agent.lost = None;
        }
        for _ in 0..2_000 {
            if self.auditor.open.is_empty() {
                break;
            }
            while let Some(order) = self.in_flight.pop() {
                self.wake_ends(&order, &WakeOutcome::Accepted);
            }
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
            88..=89 => self.retry(),
            90 => self.wake_executor(),
            91..=95 => self.receiver(),
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

    fn note(&mut self, line: String) {
        if self.trace.len() == TRACE_MAX {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{} {line}", self.now.get()));
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
            (answer, hub.take_effects(), hub.next_due().expect("the next timer can be read"), pending)
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
        for order in &effects.wakes {
            self.tally.wakes += 1;
            assert!(order.request.body.contains("wake"), "a wake has its own body");
        }
        self.in_flight.append(&mut effects.wakes.clone());
        effects.wakes.shrink_to_fit();
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
        let mut ordered: Vec<String> = effects.wakes.iter().map(|order| order.executor.clone()).collect();
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
        for order in &effects.wakes {
            self.auditor.wake_ordered(&order.executor, order.ordered_at, forced);
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

    fn submit(&mut self) {
        if self.auditor.open.len() >= OPEN_MAX {
            return;
        }
        if self.chance.percent(15) && !self.submits.is_empty() {
            return self.submit_again();
        }
        if self.chance.percent(60) {
            let queue = (*self.chance.pick(&QUEUES)).to_owned();
            self.submit_to(None, Some(queue));
        } else {
            let executor = self.chance.pick(&self.agents).row.name.clone();
            self.submit_to(Some(executor), None);
        }
    }

    fn submit_to(&mut self, executor: Option<String>, queue: Option<String>) {
        self.counter += 1;
        let input = Submit {
            submitter: (*self.chance.pick(&["owner", "claude"])).to_owned(),
            title: format!("task {}", self.counter),
            instructions: "do it".to_owned(),
            executor,
            queue,
            priority: self.chance.percent(30).then(|| self.chance.below(10) as u8),
            deadline: self.chance.percent(20).then(|| When::In(1 + self.chance.below(3_000) as i64)),
            not_before: None,
            idempotency_key: self.chance.percent(70).then(|| format!("key-{}", self.counter)),
            max_attempts: self.chance.percent(30).then(|| 1 + self.chance.below(3) as u32),
            ..Submit::default()
        };
        let delay = self.chance.percent(10) && input.deadline.is_none();
        let not_before = delay.then(|| When::In(1 + self.chance.below(900) as i64));
        let input = Submit { not_before, ..input };
        let (answer, effects) = self.command(|hub| submit(hub, &input));
        match answer {
            Ok(submitted) => {
                assert!(!submitted.existed, "{} existed before it was submitted", submitted.id);
                self.born(&submitted.id, &input, &effects);
                self.submits.push_back((input, submitted.id.clone()));
                self.submits.truncate(50);
            }
            Err(SubmitRejected::Database(error)) => self.failure(&error),
            Err(other) => panic!("a right submission was refused: {other:?}"),
        }
    }

    fn born(&mut self, id: &str, input: &Submit, effects: &Effects) {
        let now = self.now.get();
        let at = |when: Option<When>| match when {
            Some(When::In(seconds)) => Some(now + seconds * 1000),
            Some(When::At(at)) => Some(at),
            None => None,
        };
        let address = match (&input.executor, &input.queue) {
            (Some(name), _) => format!("@{name}"),
            (None, Some(queue)) => queue.clone(),
            (None, None) => unreachable!("every task has an address"),
        };
        self.woken(id, &address, input.not_before.is_none(), effects);
        let known = Known {
            standing: at(input.not_before).map_or(Standing::Ready, Standing::Waiting),
            address,
            priority: input.priority.unwrap_or(5),
            attempt: 0,
            failures: 0,
            max_attempts: input.max_attempts.unwrap_or(3),
            deadline_at: at(input.deadline),
            holder: None,
            ends: Vec::new(),
            result: None,
            completed_at: None,
        };
        self.note(format!("{id} submitted: {known:?}"));
        self.auditor.submitted(id, known);
        self.tally.submitted += 1;
        self.check(id);
    }

    /// The answer to a submission was lost, or the button was pressed twice.
    fn submit_again(&mut self) {
        let index = self.chance.below(self.submits.len() as u64) as usize;
        let (mut input, id) = self.submits[index].clone();
        if input.idempotency_key.is_none() || !self.auditor.tasks.contains_key(&id) {
            return;
        }
        let differs = self.chance.percent(20);
        let elsewhere = !differs && self.chance.percent(20);
        if differs {
            input.title.push('!');
        }
        if elsewhere {
            // Another submitter's key of the same name is another key.
            input.submitter = format!("submitter-{}", self.tally.steps);
        }
        let (answer, effects) = self.command(|hub| submit(hub, &input));
        match answer {
            Ok(submitted) if elsewhere => {
                assert_ne!(submitted.id, id, "a key is scoped by its submitter");
                self.born(&submitted.id, &input, &effects);
            }
            Ok(submitted) => {
                assert!(!differs, "{id} was returned for another body");
                assert!(submitted.existed && submitted.id == id, "{id} was submitted twice");
                self.check(&id);
            }
            Err(SubmitRejected::IdempotencyConflict { task_id }) => assert!(differs && task_id == id),
            Err(SubmitRejected::Database(error)) => self.failure(&error),
            Err(other) => panic!("a repeated submission was refused: {other:?}"),
        }
    }

    fn executor(&mut self) {
        let index = self.chance.below(self.agents.len() as u64) as usize;
        if self.agents[index].held.is_empty() || self.chance.percent(25) {
            let loses = self.agents[index].temper == Temper::Lossy && self.chance.percent(40);
            return self.claim(index, loses);
        }
        let temper = self.agents[index].temper;
        let held = self.agents[index].held.pop_front().expect("it holds a task");
        let verb = self.verb(temper);
        match temper {
            Temper::Crashing if self.chance.percent(40) => return,
            Temper::Slow if self.chance.percent(60) => {
                self.agents[index].held.push_back(held);
                return;
            }
            _ => {}
        }
        self.attempt(index, &held, &verb);
        let doubles = matches!(temper, Temper::Doubling | Temper::Lossy) && self.chance.percent(60);
        if doubles {
            self.attempt(index, &held, &verb);
        }
        let ends = !matches!(verb, Verb::Heartbeat | Verb::Blocked);
        if !ends || (temper == Temper::Zombie && self.chance.percent(70)) {
            self.agents[index].held.push_back(held);
        }
    }

    fn verb(&self, temper: Temper) -> Verb {
        let usual = [
            Verb::Heartbeat,
            Verb::Heartbeat,
            Verb::Complete,
            Verb::Complete,
            Verb::Fail { retryable: true },
            Verb::Fail { retryable: false },
        ];
        let seconds = 1 + self.chance.below(1_200) as u32;
        match temper {
            Temper::Asking if self.chance.percent(50) => Verb::Blocked,
            Temper::Deferring if self.chance.percent(50) => Verb::Defer { seconds },
            Temper::Releasing if self.chance.percent(50) => Verb::Release,
            _ => self.chance.pick(&usual).clone(),
        }
    }

    fn claim(&mut self, index: usize, loses: bool) {
        let executor = self.agents[index].row.clone();
        let (request_id, expected) = match self.agents[index].lost.take() {
            Some((id, expected)) => (id, Some(expected)),
            None => {
                self.counter += 1;
                (format!("request-{}", self.counter), None)
            }
        };
        let input = Claim { request_id: Some(request_id.clone()), queues: None };
        let places = addresses(&executor, &input).expect("its own queues");
        // The row that the router reads with the key.
        let row = by_name(&self.db, &executor.name).expect("it can be read").expect("it exists");
        let (answer, _) = self.command(|hub| claim(hub, &row, &input));
        let now = self.now.get();
        let held = match answer {
            Ok(Some(claimed)) => {
                Held { task: claimed.task.full.head.id.clone(), attempt: claimed.attempt, token: claimed.claim_token }
            }
            Ok(None) => {
                let full = self.auditor.working(&executor.name) >= 3;
                assert!(
                    full || self.auditor.nothing_for(&places, now),
                    "{} went home with work waiting",
                    executor.name
                );
                return;
            }
            Err(ClaimRejected::Ended { task_id, .. }) => {
                let Some(Some(held)) = expected else { panic!("{task_id}: a fresh request id cannot have ended") };
                let task = &self.auditor.tasks.get(&held.task);
                let alive = task.is_some_and(|task| {
                    task.attempt == held.attempt
                        && task.deadline_at.is_none_or(|at| now < at)
                        && match task.standing {
                            Standing::Working(until) | Standing::Input { until, .. } => now < until,
                            _ => false,
                        }
                });
                assert!(!alive, "{task_id}: a living claim was called ended");
                return;
            }
            Err(ClaimRejected::Database(error)) => {
                self.failure(&error);
                self.agents[index].lost = Some((request_id, expected.flatten()));
                return;
            }
            Err(other) => panic!("a right claim was refused: {other:?}"),
        };
        self.note(format!("{} claimed by {} as attempt {}", held.task, executor.name, held.attempt));
        // The purge takes a request id with the task that it claimed.
        let is_forgotten = |first: &Held| !self.auditor.tasks.contains_key(&first.task);
        match expected {
            Some(Some(first)) if !is_forgotten(&first) => {
                assert_eq!(
                    (&first.task, first.attempt),
                    (&held.task, held.attempt),
                    "the same request id, another claim"
                );
                assert_eq!(first.token, held.token, "the same claim, another token");
            }
            _ => {
                self.tally.claims += 1;
                let working = self.auditor.working(&executor.name);
                assert!(working < 3, "{} works on more than 3 tasks", executor.name);
                self.auditor.claimed(&held.task, &executor.name, held.attempt, &places, now);
            }
        }
        self.check(&held.task.clone());
        if loses {
            self.agents[index].lost = Some((request_id, Some(held)));
            return;
        }
        let agent = &mut self.agents[index];
        agent.held.push_back(held);
        if agent.held.len() > CLAIMS_MAX {
            agent.held.pop_front();
        }
    }

    fn attempt(&mut self, index: usize, held: &Held, verb: &Verb) {
        let executor = self.agents[index].row.name.clone();
        let (now, id) = (self.now.get(), held.task.clone());
        let brought = brought(verb, held);
        let sent = brought.to_string();
        let verdict = self.auditor.judge(&id, &executor, held.attempt, verb, &sent, now);
        let before = self.version(&id);
        let call = |brought| AttemptCall {
            executor: &executor,
            task_id: &held.task,
            claim_token: &held.token,
            verb: name(verb),
            brought,
        };
        let (answer, effects) = self.command(|hub| act(hub, &call(&brought), verb, &sent));
        self.note(format!("{id} {verb:?} by {executor} in attempt {}: {verdict:?} / {answer:?}", held.attempt));
        match (verdict, &answer) {
            (_, Err(AttemptRejected::Database(error))) => {
                self.failure(&error);
                if self.auditor.tasks.contains_key(&id) {
                    self.check(&id);
                }
                return;
            }
            (Verdict::Accepted, Ok(visible_at)) => {
                self.ordered(&effects, false);
                self.auditor.accept(&id, verb, &sent, now, *visible_at);
                match self.auditor.tasks[&id].standing {
                    Standing::Completed => self.tally.completed += 1,
                    Standing::Failed(_) => self.tally.failed += 1,
                    _ => {}
                }
            }
            (Verdict::Repeated, Ok(_)) => {
                self.tally.repeated += 1;
                assert_eq!(before, self.version(&id), "{id}: {verb:?} was repeated and changed something");
            }
            (Verdict::LeaseLost, Err(AttemptRejected::LeaseLost { .. }))
            | (Verdict::Canceled, Err(AttemptRejected::Canceled))
            | (Verdict::AlreadyFinished, Err(AttemptRejected::AlreadyFinished)) => self.tally.late += 1,
            (Verdict::NotWorking, Err(AttemptRejected::NotWorking)) => {}
            (Verdict::TaskNotFound, Err(AttemptRejected::TaskNotFound)) => return,
            (expected, got) => panic!("{id}: {verb:?} must be {expected:?}, the hub says {got:?}"),
        }
        self.check(&id);
    }

    /// What rises with every change of a task.
    fn version(&self, id: &str) -> Vec<Vec<Value>> {
        let sql = "SELECT revision, event_seq FROM tasks WHERE id = ?1";
        self.db.execute(sql, &[id.into()]).expect("a task can be read")
    }

    fn some_task(&self, among_open: bool) -> Option<String> {
        if among_open {
            let open: Vec<&String> = self.auditor.open.iter().collect();
            return (!open.is_empty()).then(|| (*self.chance.pick(&open)).clone());
        }
        let newest: Vec<&String> = self.auditor.tasks.keys().rev().take(40).collect();
        (!newest.is_empty()).then(|| (*self.chance.pick(&newest)).clone())
    }

    fn cancel(&mut self) {
        let Some(id) = self.some_task(self.chance.percent(80)) else { return };
        let over = self.auditor.tasks[&id].standing.clone();
        let (answer, _) = self.command(|hub| cancel(hub, "owner", &id, Some("no longer wanted")));
        self.note(format!("{id} canceled: {answer:?}"));
        match answer {
            Ok(canceled) if canceled.already => assert_eq!(over, Standing::Canceled, "{id} was not canceled before"),
            Ok(_) => {
                self.auditor.canceled(&id, self.now.get());
                self.tally.canceled += 1;
            }
            Err(CancelRejected::AlreadyFinished { .. }) => assert!(over.is_over(), "{id} is not over"),
            Err(CancelRejected::Database(error)) => self.failure(&error),
            Err(CancelRejected::TaskNotFound) => panic!("{id} was acknowledged and is lost"),
        }
        self.check(&id);
    }

    fn answer(&mut self) {
        let asking: Vec<&String> = self
            .auditor
            .open
            .iter()
            .filter(|id| matches!(self.auditor.tasks[*id].standing, Standing::Input { .. }))
            .collect();
        let Some(id) =
            (if asking.is_empty() { self.some_task(true) } else { Some((*self.chance.pick(&asking)).clone()) })
        else {
            return;
        };
        self.counter += 1;
        let input = Answer { submitter: "owner".into(), task_id: id.clone(), text: format!("answer {}", self.counter) };
        let (answer, effects) = self.command(|hub| answer(hub, &input));
        self.note(format!("{id} answered: {answer:?}"));
        let asked = matches!(self.auditor.tasks[&id].standing, Standing::Input { .. });
        match answer {
            Ok(_) => {
                assert!(asked, "{id} was answered and had not asked");
                self.auditor.answered(&id, self.now.get());
                let known = &self.auditor.tasks[&id];
                let (address, is_ready) = (known.address.clone(), known.standing == Standing::Ready);
                self.woken(&id, &address, is_ready, &effects);
                self.tally.answers += 1;
            }
            Err(AnswerRejected::NotAsked { .. }) => assert!(!asked, "{id} asked, and its answer was refused"),
            Err(AnswerRejected::Database(error)) => self.failure(&error),
            Err(other) => panic!("{id}: a right answer was refused: {other:?}"),
        }
        self.check(&id);
    }

    fn retry(&mut self) {
        let Some(id) = self.some_task(false) else { return };
        if self.auditor.open.len() >= OPEN_MAX {
            return;
        }
        let old = self.auditor.tasks[&id].clone();
        let (answer, effects) = self.command(|hub| retry_task(hub, "owner", &id));
        match answer {
            Ok(submitted) if submitted.existed => {}
            Ok(submitted) => {
                assert!(old.standing.is_over(), "{id} is retried and not over");
                let (executor, queue) = match old.address.strip_prefix('@') {
                    Some(name) => (Some(name.to_owned()), None),
                    None => (None, Some(old.address.clone())),
                };
                let input = Submit {
                    executor,
                    queue,
                    priority: Some(old.priority),
                    max_attempts: Some(old.max_attempts),
                    ..Submit::default()
                };
                self.born(&submitted.id, &input, &effects);
            }
            Err(RetryRejected::NotFinished { .. }) => assert!(!old.standing.is_over(), "{id} is over"),
            Err(RetryRejected::Database(error) | RetryRejected::Submit(SubmitRejected::Database(error))) => {
                self.failure(&error);
            }
            Err(other) => panic!("{id}: a right retry was refused: {other:?}"),
        }
    }

    fn wake_executor(&mut self) {
        let name = self.chance.pick(&self.agents).row.name.clone();
        let (answer, effects) = self.command(|hub| wake_executor(hub, &name, None));
        if answer.is_ok() {
            self.ordered(&effects, true);
        }
    }

    /// Receivers of wakes accept, refuse, time out, or the hub never learns.
    fn receiver(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let index = self.chance.below(self.in_flight.len() as u64) as usize;
        let order = self.in_flight.swap_remove(index);
        let outcome = match self.chance.below(10) {
            0..=4 => WakeOutcome::Accepted,
            5..=6 => WakeOutcome::Unknown,
            7..=8 => WakeOutcome::Rejected("answered 500".to_owned()),
            _ => return,
        };
        self.wake_ends(&order, &outcome);
    }

    fn wake_ends(&mut self, order: &WakeOrder, outcome: &WakeOutcome) {
        let (answer, _) = self.command(|hub| record_wake(hub, order, outcome));
        match answer {
            Ok(()) => {
                let log = self.auditor.wakes.entry(order.executor.clone()).or_default();
                if log.sent_at == Some(order.ordered_at) && !log.ended {
                    log.ended = true;
                    log.refused = matches!(outcome, WakeOutcome::Rejected(_));
                }
            }
            Err(error) => self.failure(&error),
        }
        if let Some(id) = &order.task_id
            && self.auditor.tasks.contains_key(id)
        {
            self.check(&id.clone());
        }
    }

    /// The object is loaded anew: memory is gone, wakes on their way are never recorded, the alarm stays or was lost.
    fn restart(&mut self) {
        self.tally.restarts += 1;
        self.presence = Presence::default();
        if self.chance.percent(50) {
            self.in_flight.clear();
        }
        if self.chance.percent(30) {
            self.alarm.set(None);
        }
        migrate(&self.db).expect("an existing database opens");
    }

    fn alarm_by_chance(&mut self) {
        self.ring();
        if self.chance.percent(30) {
            self.ring();
        }
    }

    fn ring(&mut self) {
        self.alarm.set(None);
        for _ in 0..100 {
            let (swept, effects) = self.command_without_failure(sweep);
            let swept = swept.expect("the database works");
            assert!(swept.trouble.is_empty(), "the sweep met {:?}", swept.trouble);
            self.resent(&effects);
            if !swept.more {
                break;
            }
        }
        self.swept();
    }

    fn resent(&mut self, effects: &Effects) {
        // What the sweep sends again because its outcome was never recorded is not covered by itself.
        self.ordered(effects, true);
    }

    fn swept(&mut self) {
        for id in self.auditor.swept(self.now.get()) {
            if let Standing::Failed(_) = self.auditor.tasks[&id].standing {
                self.tally.failed += 1;
            }
            self.check(&id);
        }
    }

    fn purge(&mut self) {
        let before = self.auditor.tasks.len();
        let mut after = String::new();
        for _ in 0..100 {
            match self.command(|hub| purge(hub, &after)).0 {
                Ok(Some(next)) => after = next,
                Ok(None) => break,
                // The same batch again: the model forgets all of them at once.
                Err(error) => self.failure(&error),
            }
        }
        self.auditor.purged(self.now.get());
        self.tally.purged += (before - self.auditor.tasks.len()) as u64;
    }
}

fn name(verb: &Verb) -> &'static str {
    match verb {
        Verb::Heartbeat | Verb::Blocked => "heartbeat",
        Verb::Complete | Verb::Fail { .. } => "result",
        Verb::Defer { .. } => "defer",
        Verb::Release => "release",
    }
}

fn brought(verb: &Verb, held: &Held) -> Json {
    json!({ "task_id": held.task, "verb": format!("{verb:?}") })
}

/// Makes the call, and returns when the task is visible again if the hub said so.
fn act(hub: &Hub<'_>, call: &AttemptCall<'_>, verb: &Verb, sent: &str) -> Result<Option<i64>, AttemptRejected> {
    let report_of =
        |outcome, result| Report { outcome, result, data: None, error: None, external_actions: None, question: None };
    match verb {
        Verb::Heartbeat => heartbeat(hub, call, &Heartbeat::default()).map(|_| None),
        Verb::Blocked => {
            let input = Heartbeat { blocked: true, question: Some("which one?".to_owned()), ..Heartbeat::default() };
            heartbeat(hub, call, &input).map(|_| None)
        }
        Verb::Complete => report(hub, call, &report_of(Outcome::Completed, Some(sent.to_owned()))).map(|_| None),
        Verb::Fail { retryable } => {
            let outcome = Outcome::Failed { retryable: *retryable };
            report(hub, call, &report_of(outcome, None)).map(|ended| ended.retry_at)
        }
        Verb::Defer { seconds } => {
            defer(hub, call, &Defer { seconds: *seconds, ..Defer::default() }).map(|deferred| Some(deferred.visible_at))
        }
        Verb::Release => release(hub, call, &Release::default()).map(|_| None),
    }
}
