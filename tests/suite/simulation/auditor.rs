//! An independent, simple model of the hub: what was acknowledged, and what follows from it.

use std::collections::{BTreeMap, BTreeSet};

use taskhub::domain::settings::Settings;
use taskhub::store::database::{Database as _, Value};

use super::files::Files;
use super::ledger::Ledger;
use super::messages::Messages;
use crate::support::NativeDatabase;

const ROW: &str =
    "SELECT state, attempt, failures, claimed_by, lease_expires_at, input_expires_at, visible_at, error_code,
  result, due_at, deadline_at, next_wake_at, heard_at, answered_at, last_wake_status, wake_attempts FROM tasks WHERE id = ?1";

/// Where the model believes a task stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    Ready,
    /// Until then, in milliseconds.
    Waiting(i64),
    /// For the owner's word, and then until this time if one was given.
    Approval(Option<i64>),
    /// Until the lease ends.
    Working(i64),
    Input {
        until: i64,
        heard_at: i64,
        answered: bool,
    },
    /// Nobody has it, and a person is asked until then.
    Asked(i64),
    Completed,
    Failed(&'static str),
    Canceled,
}

impl Standing {
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed(_) | Self::Canceled)
    }

    fn names(&self) -> &'static [&'static str] {
        match self {
            Self::Ready => &["submitted", "dispatched"],
            Self::Waiting(_) | Self::Approval(_) => &["waiting"],
            Self::Working(_) => &["working"],
            Self::Input { .. } | Self::Asked(_) => &["input-required"],
            Self::Completed => &["completed"],
            Self::Failed(_) => &["failed"],
            Self::Canceled => &["canceled"],
        }
    }
}

/// What the model knows of one task.
#[derive(Clone, Debug)]
pub struct Known {
    pub standing: Standing,
    pub address: String,
    pub priority: u8,
    pub attempt: u32,
    pub failures: u32,
    pub max_attempts: u32,
    pub deadline_at: Option<i64>,
    pub holder: Option<String>,
    /// Calls that ended an attempt, as sent, with what they led to.
    pub ends: Vec<(u32, String)>,
    /// The one result that was accepted.
    pub result: Option<String>,
    pub completed_at: Option<i64>,
    /// Whether its submitter wants to be told of its end.
    pub callback: bool,
    /// Whether its submitter wants to be asked what came of an action whose attempt is lost.
    pub asks: bool,
}

/// What an attempt asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    Heartbeat,
    Blocked,
    Complete,
    Fail {
        retryable: bool,
    },
    Defer {
        seconds: u32,
    },
    Release,
    /// A record of an outside action, or a file, which leave the task where it stands.
    Record,
}

/// What the hub must answer to an attempt's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Accepted, and it changes the task.
    Accepted,
    /// Accepted before: the same answer, no change.
    Repeated,
    LeaseLost,
    Canceled,
    AlreadyFinished,
    NotWorking,
    TaskNotFound,
}

/// What the model knows of an executor's wakes.
#[derive(Clone, Debug, Default)]
pub struct WakeLog {
    pub sent_at: Option<i64>,
    pub refused: bool,
    pub claimed_at: Option<i64>,
}

/// The model.
pub struct Auditor {
    pub tasks: BTreeMap<String, Known>,
    /// Ids of those that are not over.
    pub open: BTreeSet<String>,
    pub wakes: BTreeMap<String, WakeLog>,
    pub messages: Messages,
    pub ledger: Ledger,
    pub files: Files,
    /// Executors that are woken, by address.
    woken: BTreeMap<String, Vec<String>>,
    settings: Settings,
}

impl Auditor {
    pub fn new(settings: Settings) -> Self {
        Self {
            tasks: BTreeMap::new(),
            open: BTreeSet::new(),
            wakes: BTreeMap::new(),
            messages: Messages::default(),
            ledger: Ledger::default(),
            files: Files::default(),
            woken: BTreeMap::new(),
            settings,
        }
    }

    /// A task was taken in.
    pub fn submitted(&mut self, id: &str, task: Known) {
        self.open.insert(id.to_owned());
        self.tasks.insert(id.to_owned(), task);
    }

    fn open_tasks(&self) -> impl Iterator<Item = (&String, &Known)> {
        self.open.iter().map(|id| (id, &self.tasks[id]))
    }

    /// What must come of this call at this moment.
    pub fn judge(&self, id: &str, executor: &str, attempt: u32, verb: &Verb, sent: &str, now: i64) -> Verdict {
        let Some(task) = self.tasks.get(id) else { return Verdict::TaskNotFound };
        let own = task.attempt == attempt && task.holder.as_deref() == Some(executor);
        let in_time = task.deadline_at.is_none_or(|at| now < at);
        let live = match task.standing {
            Standing::Working(until) | Standing::Input { until, .. } => own && in_time && now < until,
            _ => false,
        };
        if live {
            let waits = matches!(task.standing, Standing::Input { .. });
            return match verb {
                Verb::Defer { .. } | Verb::Release | Verb::Record if waits => Verdict::NotWorking,
                _ => Verdict::Accepted,
            };
        }
        if task.ends.iter().any(|(ended, body)| *ended == attempt && body == sent) {
            return Verdict::Repeated;
        }
        match task.standing {
            Standing::Canceled => Verdict::Canceled,
            Standing::Completed | Standing::Failed(_) => Verdict::AlreadyFinished,
            _ => Verdict::LeaseLost,
        }
    }

    /// Takes over what an accepted call does. `visible_at` is what the hub answered.
    pub fn accept(&mut self, id: &str, verb: &Verb, sent: &str, now: i64, visible_at: Option<i64>) {
        let (lease_ms, input_ms) = (self.settings.lease_ms, self.settings.input_timeout_ms);
        let asked = self.asked_if_lost(id, now);
        let task = self.tasks.get_mut(id).expect("an accepted call has a task");
        let waits = matches!(task.standing, Standing::Input { .. });
        let attempt = task.attempt;
        task.standing = match verb {
            Verb::Heartbeat => Standing::Working(now + lease_ms),
            Verb::Blocked => match task.standing {
                Standing::Input { until, answered, .. } => Standing::Input { until, heard_at: now, answered },
                _ => Standing::Input { until: now + input_ms, heard_at: now, answered: false },
            },
            Verb::Complete => {
                assert!(task.result.is_none(), "{id} has two accepted results");
                task.result = Some(sent.to_owned());
                Standing::Completed
            }
            Verb::Fail { retryable } if *retryable && !waits => {
                task.failures += 1;
                if task.failures >= task.max_attempts {
                    Standing::Failed("executor_failed")
                } else if let Some(asked) = asked {
                    asked
                } else {
                    let at = visible_at.expect("a retry has its time");
                    assert!(at > now && at - now <= 4_400_000, "{id} is tried again after {} ms", at - now);
                    Standing::Waiting(at)
                }
            }
            Verb::Fail { .. } => Standing::Failed("executor_failed"),
            Verb::Defer { seconds } => {
                assert_eq!(visible_at, Some(now + i64::from(*seconds) * 1000), "{id} is deferred as asked");
                self.ledger.hand_on(id, task.attempt);
                Standing::Waiting(now + i64::from(*seconds) * 1000)
            }
            Verb::Release => asked.unwrap_or(Standing::Ready),
            Verb::Record => panic!("{id}: a record moves no task"),
        };
        if !matches!(verb, Verb::Heartbeat | Verb::Blocked) {
            task.ends.push((attempt, sent.to_owned()));
        }
        self.close(id, now);
    }

    /// Where a task goes whose attempt is lost now, if a person has to be asked first.
    fn asked_if_lost(&self, id: &str, now: i64) -> Option<Standing> {
        let task = &self.tasks[id];
        let asks = task.asks && self.ledger.is_left_begun(id, task.attempt);
        asks.then_some(Standing::Asked(now + self.settings.input_timeout_ms))
    }

    /// If the task is over now, notes when.
    fn close(&mut self, id: &str, now: i64) {
        let task = self.tasks.get_mut(id).expect("a task that ends is known");
        if task.standing.is_over() && self.open.remove(id) {
            task.completed_at = Some(now);
            // What the owner denied, the owner knows.
            if let Standing::Failed(code) = task.standing
                && code != "denied"
                && self.settings.notices().is_some()
            {
                self.messages.owe_notice(format!("failed/{}/{code}", task.address));
            }
            if task.callback {
                self.messages.owe_callback(id);
            }
        }
    }

    /// A cancellation was acknowledged.
    pub fn canceled(&mut self, id: &str, now: i64) {
        let task = self.tasks.get_mut(id).expect("a canceled task is known");
        assert!(!task.standing.is_over(), "{id} was over and is canceled");
        task.standing = Standing::Canceled;
        self.close(id, now);
    }

    /// A claim was acknowledged: it must have been possible, and the most urgent.
    pub fn claimed(&mut self, id: &str, executor: &str, attempt: u32, addresses: &[String], now: i64) {
        let lease_ms = self.settings.lease_ms;
        let best = self
            .open_tasks()
            .filter(|(_, task)| task.standing == Standing::Ready && addresses.contains(&task.address))
            .filter(|(_, task)| task.deadline_at.is_none_or(|at| now < at))
            .min_by_key(|(id, task)| (9 - task.priority, (*id).clone()))
            .map(|(id, _)| id.clone());
        assert_eq!(best.as_deref(), Some(id), "{executor} was given a task that is not the most urgent");
        let task = self.tasks.get_mut(id).expect("a claimed task is known");
        assert_eq!(task.standing, Standing::Ready, "{id} was given away while it is not claimable");
        assert_eq!(attempt, task.attempt + 1, "{id} has a wrong attempt number");
        task.attempt = attempt;
        task.holder = Some(executor.to_owned());
        task.standing = Standing::Working(now + lease_ms);
        self.wakes.entry(executor.to_owned()).or_default().claimed_at = Some(now);
    }

    /// Whether there was nothing that this executor could have claimed.
    pub fn nothing_for(&self, addresses: &[String], now: i64) -> bool {
        !self.open_tasks().any(|(_, task)| {
            task.standing == Standing::Ready
                && addresses.contains(&task.address)
                && task.deadline_at.is_none_or(|at| now < at)
        })
    }

    /// How many tasks this executor works on.
    pub fn working(&self, executor: &str) -> usize {
        let works =
            |task: &Known| matches!(task.standing, Standing::Working(_)) && task.holder.as_deref() == Some(executor);
        self.open_tasks().filter(|(_, task)| works(task)).count()
    }

    /// The clock has been looked at: everything that was due has happened. Returns the tasks that it moved.
    pub fn swept(&mut self, now: i64) -> Vec<String> {
        let lease_ms = self.settings.lease_ms;
        let mut moved = Vec::new();
        for id in self.open.clone() {
            let asked = self.asked_if_lost(&id, now);
            let task = self.tasks.get_mut(&id).expect("an open task is known");
            let before = task.standing.clone();
            if task.deadline_at.is_some_and(|at| at <= now) {
                task.standing = Standing::Failed("deadline_exceeded");
            }
            task.standing = match task.standing.clone() {
                Standing::Input { until, answered: false, .. } if until <= now => Standing::Failed("input_timeout"),
                Standing::Input { until, heard_at, answered: true } if now - heard_at > lease_ms || until <= now => {
                    asked.unwrap_or(Standing::Ready)
                }
                Standing::Asked(until) if until <= now => Standing::Failed("input_timeout"),
                Standing::Waiting(until) if until <= now => Standing::Ready,
                Standing::Working(until) if until <= now => {
                    task.failures += 1;
                    match asked {
                        _ if task.failures >= task.max_attempts => Standing::Failed("lease_expired"),
                        Some(asked) => asked,
                        None => Standing::Ready,
                    }
                }
                standing => standing,
            };
            if task.standing != before {
                self.close(&id, now);
                moved.push(id);
            }
        }
        moved
    }

    /// The owner's word was acknowledged.
    pub fn judged(&mut self, id: &str, approved: bool, now: i64) {
        let task = self.tasks.get_mut(id).expect("a task that is judged is known");
        let Standing::Approval(until) = task.standing else { panic!("{id} was judged unasked") };
        task.standing = match until.filter(|at| *at > now) {
            _ if !approved => Standing::Failed("denied"),
            Some(at) => Standing::Waiting(at),
            None => Standing::Ready,
        };
        self.close(id, now);
    }

    /// An answer was acknowledged.
    pub fn answered(&mut self, id: &str, now: i64) {
        let lease_ms = self.settings.lease_ms;
        let asked = self.asked_if_lost(id, now);
        let task = self.tasks.get_mut(id).expect("an answered task is known");
        task.standing = match task.standing {
            Standing::Asked(_) => Standing::Ready,
            Standing::Input { heard_at, .. } if now - heard_at > lease_ms => asked.unwrap_or(Standing::Ready),
            Standing::Input { until, heard_at, .. } => {
                Standing::Input { until: until.max(now + lease_ms + 1), heard_at, answered: true }
            }
            _ => panic!("{id} was answered unasked"),
        };
    }

    /// A wake was ordered: no other covers it.
    pub fn wake_ordered(&mut self, executor: &str, now: i64, forced: bool) {
        let covered = self.wakes.get(executor).is_some_and(|log| self.covers(log, now));
        let log = self.wakes.entry(executor.to_owned()).or_default();
        assert!(forced || !covered, "a wake of {executor} was sent although another covers it");
        *log = WakeLog { sent_at: Some(now), refused: false, claimed_at: log.claimed_at };
    }

    /// An executor is woken for its own tasks and for those of its queues.
    pub fn is_woken(&mut self, executor: &str, queues: &[String]) {
        for address in std::iter::once(format!("@{executor}")).chain(queues.iter().cloned()) {
            self.woken.entry(address).or_default().push(executor.to_owned());
        }
    }

    /// Whom a task that becomes claimable at this address wakes.
    pub fn owed(&self, address: &str, now: i64) -> Vec<String> {
        let covered = |executor: &String| self.wakes.get(executor).is_some_and(|log| self.covers(log, now));
        self.woken.get(address).into_iter().flatten().filter(|executor| !covered(executor)).cloned().collect()
    }

    /// Whether a claim and a wake of the same moment leave open which came first.
    pub fn is_undecided(&self, executor: &str) -> bool {
        self.wakes.get(executor).is_some_and(|log| log.sent_at.is_some() && log.sent_at == log.claimed_at)
    }

    fn covers(&self, log: &WakeLog, now: i64) -> bool {
        let coalesce_ms = self.settings.wake_coalesce_ms;
        log.sent_at.is_some_and(|at| {
            now - at < coalesce_ms && !log.refused && log.claimed_at.is_none_or(|claimed| claimed < at)
        })
    }

    /// The executor whose wake ends first to cover others, and when.
    pub fn cover_ends(&self, now: i64) -> Option<(String, i64)> {
        let covering = self.wakes.iter().filter(|(_, log)| self.covers(log, now));
        let ends =
            covering.filter_map(|(name, log)| Some((name.clone(), log.sent_at? + self.settings.wake_coalesce_ms)));
        ends.min_by_key(|(_, at)| *at)
    }

    /// Whether the clock has something to do.
    pub fn is_due(&self, now: i64) -> bool {
        let lease_ms = self.settings.lease_ms;
        self.open_tasks().any(|(_, task)| {
            let timer = match task.standing {
                Standing::Waiting(until) | Standing::Working(until) | Standing::Asked(until) => Some(until),
                Standing::Input { until, heard_at, answered: true } => Some(until.min(heard_at + lease_ms + 1)),
                Standing::Input { until, .. } => Some(until),
                _ => None,
            };
            timer.is_some_and(|at| at <= now) || task.deadline_at.is_some_and(|at| at <= now)
        })
    }

    /// Forgets tasks that the hub may have purged.
    pub fn purged(&mut self, now: i64) {
        let retention_ms = self.settings.retention_ms;
        self.tasks.retain(|_, task| task.completed_at.is_none_or(|at| now - at <= retention_ms));
        let tasks = &self.tasks;
        self.ledger.keep(|id| tasks.contains_key(id));
        self.files.keep(|id| tasks.contains_key(id));
    }

    /// Compares one task with its row.
    pub fn check_task(&self, db: &NativeDatabase, id: &str) {
        let known = &self.tasks[id];
        let row = db.execute(ROW, &[id.into()]).expect("a task can be read").pop();
        let row = row.unwrap_or_else(|| panic!("{id} was acknowledged and is lost: {known:?}"));
        let text = |index: usize| match &row[index] {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        };
        let number = |index: usize| match row[index] {
            Value::Integer(number) => Some(number),
            _ => None,
        };
        let state = text(0).expect("a state");
        assert!(known.standing.names().contains(&state.as_str()), "{id} is {state}, the model says {known:?}");
        assert_eq!(number(1), Some(i64::from(known.attempt)), "{id} has a wrong attempt: {known:?}");
        assert_eq!(number(2), Some(i64::from(known.failures)), "{id} has a wrong budget: {known:?}");
        match &known.standing {
            Standing::Working(until) => assert_eq!(number(4), Some(*until), "{id} has a wrong lease: {known:?}"),
            Standing::Input { until, .. } | Standing::Asked(until) => {
                assert_eq!(number(5), Some(*until), "{id} has a wrong limit: {known:?}");
            }
            Standing::Waiting(until) => assert_eq!(number(6), Some(*until), "{id} has a wrong wait: {known:?}"),
            Standing::Failed(code) => assert_eq!(text(7).as_deref(), Some(*code), "{id} failed for another reason"),
            Standing::Completed => assert_eq!(text(8), known.result, "{id} has another result than was accepted"),
            Standing::Approval(_) => assert_eq!(number(6), None, "{id} waits for a time: {known:?}"),
            Standing::Ready | Standing::Canceled => {}
        }
        if matches!(known.standing, Standing::Working(_) | Standing::Input { .. }) {
            assert_eq!(text(3), known.holder, "{id} is held by another executor");
        }
        if known.standing == Standing::Ready && self.woken.contains_key(&known.address) && number(11).is_none() {
            let given_up = text(14).as_deref() == Some("given_up");
            let tried = number(15) >= Some(i64::from(self.settings.wake_attempts_max));
            assert!(given_up && tried, "{id} will never be woken, and was not given up: {known:?}");
        }
        let silent_at = number(13).and(number(12)).map(|at| at + self.settings.lease_ms + 1);
        let open_deadline = number(10).filter(|_| !known.standing.is_over());
        let timers = [number(4), number(5), number(6), number(11), open_deadline, silent_at];
        let earliest = timers.into_iter().flatten().min();
        match (number(9), earliest) {
            (Some(due_at), Some(earliest)) => assert!(due_at <= earliest, "{id} is due at {due_at}, after {earliest}"),
            (None, Some(earliest)) => panic!("{id} has a timer at {earliest} that no sweep will see"),
            (_, None) => {}
        }
    }

    /// Compares everything.
    pub fn check_all(&self, db: &NativeDatabase) {
        for id in self.tasks.keys() {
            self.check_task(db, id);
        }
        let double = "SELECT claimed_by FROM tasks WHERE state = 'working' AND lease_expires_at IS NULL";
        assert!(db.rows(double).is_empty(), "a working task has no lease");
        let broken = db.rows("PRAGMA quick_check").pop();
        assert_eq!(broken, Some(vec![Value::Text("ok".to_owned())]), "the database is damaged");
    }
}
