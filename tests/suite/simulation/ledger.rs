//! A simple model of the ledger of outside actions, and the outside itself, where they really happen.

use std::collections::BTreeMap;

use taskhub::domain::ledger::Standing;
use taskhub::hub::{Acted, ActionView};

/// What an attempt says of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saying {
    Begin,
    Done,
    Failed,
}

/// What was recorded of an action last, as the model has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Begun,
    Done,
    Failed,
}

#[derive(Clone, Debug)]
struct Known {
    key: String,
    last: Last,
    began_in: u32,
    spoken_of_in: u32,
    outcome: Option<String>,
}

/// What must be answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    NotBegun,
    Known { first: bool, standing: Standing, began_in: u32, outcome: Option<String> },
}

/// The actions of all tasks, by task and step.
#[derive(Default)]
pub struct Ledger {
    known: BTreeMap<String, BTreeMap<u8, Known>>,
    /// How often an action has really happened.
    outside: BTreeMap<(String, u8), u32>,
}

impl Ledger {
    fn of(&self, id: &str, step: u8) -> Option<&Known> {
        self.known.get(id)?.get(&step)
    }

    /// What the hub must answer to this saying in this attempt.
    pub fn expect(&self, id: &str, step: u8, attempt: u32, saying: Saying, outcome: Option<&str>) -> Answer {
        let brought = outcome.map(str::to_owned);
        let known = |standing, began_in, outcome| Answer::Known { first: false, standing, began_in, outcome };
        match (self.of(id, step), saying) {
            (None, Saying::Begin) => {
                Answer::Known { first: true, standing: Standing::Begun, began_in: attempt, outcome: None }
            }
            (None, Saying::Done | Saying::Failed) => Answer::NotBegun,
            (Some(action), saying) => match (action.last, saying) {
                (Last::Begun, Saying::Begin) if action.began_in == attempt => known(Standing::Begun, attempt, None),
                (Last::Begun, Saying::Begin) => known(Standing::Unknown, action.began_in, None),
                (Last::Begun, Saying::Done) => known(Standing::Done, action.began_in, brought),
                (Last::Begun, Saying::Failed) => known(Standing::Failed, action.began_in, brought),
                (Last::Done, _) => known(Standing::Done, action.began_in, action.outcome.clone()),
                (Last::Failed, Saying::Begin) => known(Standing::Begun, attempt, None),
                (Last::Failed, Saying::Failed) => known(Standing::Failed, action.began_in, action.outcome.clone()),
                (Last::Failed, Saying::Done) => Answer::NotBegun,
            },
        }
    }

    /// Takes over what was answered: `first` once, the same key always, an outcome for good, and what the model says.
    pub fn accept(&mut self, (id, step): (&str, u8), attempt: u32, right: &Answer, acted: &Acted) {
        let name = format!("{id}: step {step}");
        let before = self.of(id, step).cloned();
        if let Some(before) = &before {
            assert!(!acted.first, "{name} was first twice");
            assert_eq!(before.key, acted.idempotency_key, "{name} has another key than before");
            if before.last == Last::Done {
                assert_eq!(told(acted), before.outcome, "{name} was done and has another outcome");
            }
        }
        let answer = Answer::Known {
            first: acted.first,
            standing: acted.standing,
            began_in: acted.attempt,
            outcome: told(acted),
        };
        assert_eq!(&answer, right, "{name} is answered (left) otherwise than is known of it (right)");
        let last = match acted.standing {
            Standing::Begun | Standing::Unknown => Last::Begun,
            Standing::Done => Last::Done,
            Standing::Failed => Last::Failed,
        };
        let (key, began_in) = (acted.idempotency_key.clone(), acted.attempt);
        let changes = before.as_ref().is_none_or(|before| before.last != last || last == Last::Begun);
        let spoken_of_in = if changes { attempt } else { before.map_or(attempt, |before| before.spoken_of_in) };
        let now = Known { key, last, began_in, spoken_of_in, outcome: told(acted) };
        self.known.entry(id.to_owned()).or_default().insert(step, now);
    }

    /// Whether this attempt leaves an action behind of which nobody knows what came of it.
    pub fn is_left_begun(&self, id: &str, attempt: u32) -> bool {
        let left = |action: &Known| action.last == Last::Begun && action.spoken_of_in == attempt;
        self.known.get(id).is_some_and(|actions| actions.values().any(left))
    }

    /// The attempt puts its task off, and leaves what it has begun to the next one.
    pub fn hand_on(&mut self, id: &str, attempt: u32) {
        for action in self.known.get_mut(id).into_iter().flat_map(BTreeMap::values_mut) {
            if action.last == Last::Begun && action.spoken_of_in == attempt {
                action.spoken_of_in += 1;
            }
        }
    }

    /// A step that an earlier attempt than this one has begun, and of which nobody knows what came of it.
    pub fn lost_step(&self, id: &str, attempt: u32) -> Option<u8> {
        let is_lost = |(_, action): &(&u8, &Known)| action.last == Last::Begun && action.began_in < attempt;
        self.known.get(id)?.iter().find(is_lost).map(|(step, _)| *step)
    }

    /// An attempt that holds its task is shown all that was recorded, and what others began and lost as unknown.
    pub fn check_shown(&self, id: &str, attempt: u32, shown: &[ActionView]) {
        let none = BTreeMap::new();
        let known = self.known.get(id).unwrap_or(&none);
        for (step, action) in known {
            let view = shown.iter().find(|view| view.idempotency_key == action.key);
            let view = view.unwrap_or_else(|| panic!("{id}: step {step} was recorded and is not shown to the attempt"));
            let standing = match action.last {
                Last::Begun if action.began_in == attempt => Standing::Begun,
                Last::Begun => Standing::Unknown,
                Last::Done => Standing::Done,
                Last::Failed => Standing::Failed,
            };
            let outcome = view.outcome.as_ref().and_then(|outcome| outcome.as_str()).map(str::to_owned);
            assert_eq!(
                (view.standing, view.attempt, outcome),
                (standing, action.began_in, action.outcome.clone()),
                "{id}: step {step} is shown to the attempt (left) otherwise than it was recorded (right)"
            );
        }
        assert_eq!(shown.len(), known.len(), "{id}: an action is shown that was never recorded");
    }

    /// The action happens outside, where it must not happen twice.
    pub fn happens(&mut self, id: &str, step: u8) {
        let times = self.outside.entry((id.to_owned(), step)).or_default();
        *times += 1;
        assert_eq!(*times, 1, "{id}: step {step} happened twice outside");
    }

    /// What somebody finds who looks outside.
    pub fn has_happened(&self, id: &str, step: u8) -> bool {
        self.outside.contains_key(&(id.to_owned(), step))
    }

    /// Forgets the tasks that are not kept.
    pub fn keep(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.known.retain(|id, _| is_kept(id));
        self.outside.retain(|(id, _), _| is_kept(id));
    }
}

fn told(acted: &Acted) -> Option<String> {
    acted.outcome.as_ref().and_then(|outcome| outcome.as_str()).map(str::to_owned)
}
