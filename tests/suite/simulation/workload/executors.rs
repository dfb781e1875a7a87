//! What executors do, each after its temper, and what must come of it.

use super::*;

/// How often an executor records an action instead of anything else.
const ACTS_PERCENT: u64 = 20;
/// The same, where an earlier attempt has left an action of which nobody knows whether it happened.
const LOOKS_PERCENT: u64 = 60;

/// How often it leaves a file.
const FILES_PERCENT: u64 = 8;

impl Workload {
    pub(super) fn executor(&mut self) {
        let index = self.chance.below(self.agents.len() as u64) as usize;
        if self.agents[index].held.is_empty() || self.chance.percent(25) {
            let loses = self.agents[index].temper == Temper::Lossy && self.chance.percent(40);
            return self.claim(index, loses);
        }
        let temper = self.agents[index].temper;
        let held = self.agents[index].held.pop_front().expect("it holds a task");
        let has_lost = self.auditor.ledger.lost_step(&held.task, held.attempt).is_some();
        if self.chance.percent(if has_lost { LOOKS_PERCENT } else { ACTS_PERCENT }) {
            return self.act(index, held);
        }
        if self.chance.percent(FILES_PERCENT) {
            return self.leave_file(index, held);
        }
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

    pub(super) fn verb(&self, temper: Temper) -> Verb {
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

    pub(super) fn claim(&mut self, index: usize, loses: bool) {
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
                let id = claimed.task.full.head.id.clone();
                if self.auditor.tasks.contains_key(&id) {
                    self.auditor.ledger.check_shown(&id, claimed.attempt, &claimed.task.actions);
                }
                Held { task: id, attempt: claimed.attempt, token: claimed.claim_token, did: 0 }
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
                self.note(|| format!("a claim of {} fails: {error}", executor.name));
                self.failure(&error);
                self.agents[index].lost = Some((request_id, expected.flatten()));
                return;
            }
            Err(other) => panic!("a right claim was refused: {other:?}"),
        };
        self.note(|| format!("{} claimed by {} as attempt {}", held.task, executor.name, held.attempt));
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

    pub(super) fn attempt(&mut self, index: usize, held: &Held, verb: &Verb) {
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
        let (answer, effects) = self.command(|hub| make(hub, &call(&brought), verb, &sent));
        self.note(|| {
            let attempt = held.attempt;
            format!("{id} {verb:?} by {executor} in attempt {attempt}: the model says {verdict:?}, the hub {answer:?}")
        });
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
                    Standing::Asked(_) => self.tally.asked += 1,
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
    pub(super) fn version(&self, id: &str) -> Vec<Vec<Value>> {
        let sql = "SELECT revision, event_seq FROM tasks WHERE id = ?1";
        self.db.execute(sql, &[id.into()]).expect("a task can be read")
    }
}

fn name(verb: &Verb) -> &'static str {
    match verb {
        Verb::Heartbeat | Verb::Blocked => "heartbeat",
        Verb::Complete | Verb::Fail { .. } => "result",
        Verb::Defer { .. } => "defer",
        Verb::Release => "release",
        Verb::Record => "action",
    }
}

fn brought(verb: &Verb, held: &Held) -> Json {
    json!({ "task_id": held.task, "verb": format!("{verb:?}") })
}

/// Makes the call, and returns when the task is visible again if the hub said so.
fn make(hub: &Hub<'_>, call: &AttemptCall<'_>, verb: &Verb, sent: &str) -> Result<Option<i64>, AttemptRejected> {
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
        Verb::Record => unreachable!("records are made by `Workload::act`"),
    }
}
