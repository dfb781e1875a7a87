//! What executors do outside, and record in the ledger: before they do it, and with what came of it.

use taskhub::domain::ledger::Standing as Known;

use super::*;
use crate::simulation::ledger::{Answer as Told, Saying};

/// Actions that a task may come to.
const STEPS: u64 = 3;

impl Workload {
    /// An attempt records an action, and does it if it is told to, or dies before or after it has.
    pub(super) fn act(&mut self, index: usize, mut held: Held) {
        let temper = self.agents[index].temper;
        let lost = self.auditor.ledger.lost_step(&held.task, held.attempt).filter(|_| self.chance.percent(70));
        let step = lost.unwrap_or_else(|| self.chance.below(STEPS) as u8);
        // Nobody says that something happened without having looked.
        let saying = match self.chance.below(10) {
            0..=4 => Saying::Begin,
            _ if self.auditor.ledger.has_happened(&held.task, step) => Saying::Done,
            _ => Saying::Failed,
        };
        let told = self.say(index, &held, step, saying);
        if temper == Temper::Doubling && self.chance.percent(60) {
            self.say(index, &held, step, saying);
        }
        let is_lost = temper == Temper::Lossy && self.chance.percent(40);
        let dies = temper == Temper::Crashing && self.chance.percent(50);
        if let Some(standing) = told.filter(|_| saying == Saying::Begin && !is_lost) {
            let does = match standing {
                Known::Begun => held.did & (1 << step) == 0,
                Known::Unknown => !self.auditor.ledger.has_happened(&held.task, step),
                Known::Done | Known::Failed => false,
            };
            if does && (!dies || self.chance.percent(50)) {
                self.note(|| format!("{}: step {step} happens outside", held.task));
                self.auditor.ledger.happens(&held.task, step);
                held.did |= 1 << step;
                self.tally.acted += 1;
            }
            if standing == Known::Unknown {
                self.tally.unknown += 1;
            }
        }
        if !dies {
            self.agents[index].held.push_back(held);
        }
    }

    /// Makes the call, and returns what is known of the action if it was taken.
    fn say(&mut self, index: usize, held: &Held, step: u8, saying: Saying) -> Option<Known> {
        let executor = self.agents[index].row.name.clone();
        let (now, id) = (self.now.get(), held.task.clone());
        self.counter += 1;
        let outcome = (saying != Saying::Begin).then(|| format!("outcome {}", self.counter));
        let brought = json!({ "task_id": id, "step": step, "saying": format!("{saying:?}") });
        let verdict = self.auditor.judge(&id, &executor, held.attempt, &Verb::Record, &brought.to_string(), now);
        let right = self.auditor.ledger.expect(&id, step, held.attempt, saying, outcome.as_deref());
        let call = AttemptCall {
            executor: &executor,
            task_id: &held.task,
            claim_token: &held.token,
            verb: "action",
            brought: &brought,
        };
        let told = outcome.map(Json::from);
        let record = match saying {
            Saying::Begin => Record::Begin,
            Saying::Done => Record::Done(told),
            Saying::Failed => Record::Failed(told),
        };
        let input =
            Act { step_id: format!("step {step}"), tool: "a tool".to_owned(), params: json!({ "n": step }), record };
        let (answer, _) = self.command(|hub| act(hub, &call, &input));
        self.note(|| {
            let attempt = held.attempt;
            format!("{id} {saying:?} of step {step} by {executor} in attempt {attempt}: the model says {verdict:?}, {answer:?}")
        });
        let mut standing = None;
        match (verdict, answer) {
            (_, Err(ActionRejected::Attempt(AttemptRejected::Database(error)))) => {
                self.failure(&error);
                if self.auditor.tasks.contains_key(&id) {
                    self.check(&id);
                }
                return None;
            }
            (Verdict::Accepted, Ok(acted)) => {
                standing = Some(acted.standing);
                self.auditor.ledger.accept((&id, step), held.attempt, &right, &acted);
            }
            (Verdict::Accepted, Err(ActionRejected::NotBegun { .. })) => {
                assert_eq!(right, Told::NotBegun, "{id}: step {step} was begun, and that is not known");
            }
            (Verdict::LeaseLost, Err(ActionRejected::Attempt(AttemptRejected::LeaseLost { .. })))
            | (Verdict::Canceled, Err(ActionRejected::Attempt(AttemptRejected::Canceled)))
            | (Verdict::AlreadyFinished, Err(ActionRejected::Attempt(AttemptRejected::AlreadyFinished))) => {
                self.tally.late += 1;
            }
            (Verdict::NotWorking, Err(ActionRejected::Attempt(AttemptRejected::NotWorking))) => {}
            (Verdict::TaskNotFound, Err(ActionRejected::Attempt(AttemptRejected::TaskNotFound))) => return None,
            (expected, got) => panic!("{id}: a record must be {expected:?}, the hub says {got:?}"),
        }
        self.check(&id);
        standing
    }
}
