//! The checks are checked: every fault of `taskhub::faults` is switched on by itself, and the simulation must complain,
//! by an invariant with a name, within a bounded run. What it says stands in docs/simulation.md.

mod database;

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use database::FaultyDatabase;
use taskhub::faults::{Fault, on, switch};

use super::report::{Failure, report, walk};
use crate::support::check_golden;

/// Worlds that a fault has to survive.
const SEEDS: u64 = 4;
/// Steps of each.
const STEPS: u64 = 5_000;

/// The invariants, by what the auditor says when one is broken. The first that fits counts.
const INVARIANTS: &[(&str, &str)] = &[
    ("the same file was attached as two", "a file of the same name and content is one file"),
    ("a file has other bytes", "a file has its bytes as long as a task has it"),
    ("bytes are kept of no file", "files go with their task, and nothing of them stays"),
    ("outlives its task", "files go with their task, and nothing of them stays"),
    ("are not those of the files", "the totals are what is there"),
    ("constraint failed: bytes >= 0", "the totals are what is there"),
    ("other files (left)", "a task has the files that it was given and that its attempts left"),
    ("was first twice", "an action is begun for the first time once"),
    ("happened twice outside", "what is recorded happens once"),
    ("done and has another outcome", "an action keeps its first outcome"),
    ("is answered (left) otherwise than is known of it", "what an attempt is told of an action is what is known"),
    ("was begun, and that is not known", "what an attempt is told of an action is what is known"),
    ("is not shown to the attempt", "a claim shows what was recorded, and what was lost as unknown"),
    ("is shown to the attempt (left)", "a claim shows what was recorded, and what was lost as unknown"),
    ("a stale claim", "no write under a stale claim"),
    ("has left an event", "a command that fails leaves nothing"),
    ("nobody asked for a failure", "the store never refuses what the lifecycle allows"),
    ("the sweep met", "the store never refuses what the lifecycle allows"),
    ("repeated and changed", "at most one accepted outcome a task"),
    ("two accepted results", "at most one accepted outcome a task"),
    ("was over and is canceled", "what is over stays as it is"),
    ("must be", "an attempt acts exactly while it holds the task"),
    ("has a wrong budget", "budgets are exact"),
    ("is tried again after", "a retry waits for its backoff"),
    ("has a wrong attempt", "attempt numbers only rise, one a claim"),
    ("has a wrong lease", "a claim and a heartbeat give one lease"),
    ("is due at", "no timer is later than the sweep looks"),
    ("no sweep will see", "no timer is later than the sweep looks"),
    ("works on more", "an executor holds no more than it may"),
    ("not the most urgent", "a claim takes the most urgent task that it may"),
    ("went home with work", "a claim takes the most urgent task that it may"),
    ("the same request id, another", "a claim asked for again is the same claim"),
    ("a fresh request id cannot", "a command that fails leaves nothing"),
    ("existed before it was submitted", "an idempotency key is its submitter's"),
    ("scoped by its submitter", "an idempotency key is its submitter's"),
    ("returned for another body", "an idempotency key stands for one body"),
    ("was submitted twice", "an idempotency key stands for one task"),
    ("is lost", "every task that was acknowledged is found"),
    ("was refused: TaskNotFound", "every task that was acknowledged is found"),
    ("will never be woken", "every wake owed is sent, or given up at its bound"),
    ("wakes were ordered", "a wake goes to exactly those whom no other covers"),
    ("another covers it", "a wake goes to exactly those whom no other covers"),
    ("changed between two tries", "a message is the same at every try"),
    ("is sent twice at once", "a message is sent by one at a time"),
    ("was accepted and is", "what was accepted is not sent again"),
    ("given up before its bound", "every message owed is accepted, or given up at its bound"),
    ("owed to the outside and was lost", "every message owed is accepted, or given up at its bound"),
    ("was sent and is not owed", "nothing is sent that nobody owes"),
    ("of another number than happened", "what is collected of one cause tells the right number"),
    ("event numbers", "event numbers only rise"),
    ("overdue for", "what is due is swept soon"),
    ("the model says", "a task stands where what was acknowledged puts it"),
    ("left hanging", "everything comes to an end"),
];

/// What a world complained about, with its seed and the step.
struct Caught {
    seed: u64,
    step: u64,
    invariant: &'static str,
}

/// The fault that `SIM_FAULT` names, for a look at what the simulation says of it.
pub fn wanted() -> Option<Fault> {
    let name = std::env::var("SIM_FAULT").ok()?;
    let found = Fault::ALL.iter().find(|fault| format!("{fault:?}") == name);
    Some(*found.unwrap_or_else(|| panic!("SIM_FAULT is \"{name}\", which is no fault; docs/simulation.md lists them")))
}

/// Switches the fault off for the founding of a world, and returns it.
pub fn suspend() -> Option<Fault> {
    let fault = on();
    switch(None);
    database::forget();
    fault
}

/// The first complaint of so many worlds with this fault.
fn catch(fault: Option<Fault>) -> Result<Caught, String> {
    for seed in 1..=SEEDS {
        switch(fault);
        let outcome = walk(seed, STEPS);
        switch(None);
        if let Err(Failure { complaint, steps, .. }) = outcome {
            let named = INVARIANTS.iter().find(|(says, _)| complaint.contains(says)).map(|(_, invariant)| *invariant);
            let nameless = || format!("{fault:?} is caught by nothing that has a name: {complaint}");
            return Ok(Caught { seed, step: steps, invariant: named.ok_or_else(nameless)? });
        }
    }
    Err(format!("{fault:?} is not caught"))
}

const HEAD: &str = "# What the simulation catches

The simulation (`tests/suite/simulation`) is a seeded world around the hub's commands with an auditor that compares after
every step. That it would notice is shown by deliberate faults, one at a time: `scripts/sim --faults`. This table is made by
that run and compared with it; `UPDATE=1 scripts/sim --faults` makes it anew. A fault has at most ";

#[test]
fn every_fault_is_caught() {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let walk = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(fault) = Fault::ALL.get(index) else { return };
            let caught = catch(Some(*fault));
            found.lock().expect("no thread panics here").push((index, caught));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(walk);
        }
    });
    let without = catch(None);

    let mut found = found.into_inner().expect("no thread panics here");
    found.sort_by_key(|(index, _)| *index);
    let mut document = format!("{HEAD}{SEEDS} worlds of {STEPS} steps\nand the settling of each to be caught in.\n\n");
    document.push_str(
        "| fault | what is broken | invariant that catches it | world | after steps |\n|---|---|---|---|---|\n",
    );
    let mut missed = Vec::new();
    for (index, caught) in found {
        let fault = Fault::ALL[index];
        match caught {
            Ok(Caught { seed, step, invariant }) => {
                let breaks = fault.breaks();
                writeln!(document, "| `{fault:?}` | {breaks} | {invariant} | {seed} | {step} |")
                    .expect("a String grows");
            }
            Err(why) => missed.push(why),
        }
    }
    println!("{document}");
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(
        matches!(&without, Err(why) if why == "None is not caught"),
        "a world without a fault complains: {:?}",
        without.map(|caught| caught.invariant)
    );
    check_golden("docs/simulation.md", &document);
}

/// What a failing run says, by the example of a fault that takes a while to show.
#[test]
fn a_failing_run_says_in_the_fewest_steps_what_happened_to_the_task() {
    switch(Some(Fault::BudgetOneMore));
    let Err(failure) = walk(1, STEPS) else { panic!("the fault is not caught") };
    let text = report(1, &failure);
    switch(None);
    println!("{text}");
    let steps = text.split("--steps ").nth(1).and_then(|rest| rest.split(' ').next()).expect("it names the steps");
    let steps: u64 = steps.parse().expect("steps are a number");
    assert!(
        steps <= failure.steps && text.contains(&format!("scripts/sim --seed 1 --steps {steps} --fault BudgetOneMore"))
    );
    let id = text.split("What happened to ").nth(1).and_then(|rest| rest.get(..28)).expect("it names the task");
    let told: Vec<&str> = text.lines().filter(|line| line.starts_with("  step ")).collect();
    assert!(told.first().is_some_and(|line| line.contains(&format!("{id} submitted"))), "{text}");
    let common = ["the object is loaded anew", "what is old is purged"];
    assert!(told.iter().all(|line| line.contains(id) || common.iter().any(|text| line.contains(text))), "{text}");
}
