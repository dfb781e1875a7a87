//! The checks are checked: every fault of `taskhub::faults` is switched on by itself, and the simulation must complain,
//! by an invariant with a name, within a bounded run. What it says stands in docs/simulation.md.

mod database;

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use database::FaultyDatabase;
use taskhub::faults::{Fault, switch};

use super::workload::Workload;
use crate::support::check_golden;

/// Worlds that a fault has to survive.
const SEEDS: u64 = 4;
/// Steps of each.
const STEPS: u64 = 5_000;

/// The invariants, by what the auditor says when one is broken. The first that fits counts.
const INVARIANTS: &[(&str, &str)] = &[
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
    ("will never be woken", "every wake owed is sent, or given up at its bound"),
    ("wakes were ordered", "a wake goes to exactly those whom no other covers"),
    ("another covers it", "a wake goes to exactly those whom no other covers"),
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

fn complaint(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// The first complaint of so many worlds with this fault.
fn catch(fault: Option<Fault>) -> Result<Caught, String> {
    for seed in 1..=SEEDS {
        switch(None);
        database::forget();
        let mut world = Workload::new(seed);
        world.be_quiet();
        switch(fault);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            world.run(STEPS);
            world.settle();
        }));
        switch(None);
        if let Err(panic) = outcome {
            let text = complaint(&*panic);
            let named = INVARIANTS.iter().find(|(says, _)| text.contains(says)).map(|(_, invariant)| *invariant);
            let invariant = named.ok_or_else(|| format!("{fault:?} is caught by nothing that has a name: {text}"))?;
            return Ok(Caught { seed, step: world.tally().steps, invariant });
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
    // Each of them panics on purpose.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
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
    std::panic::set_hook(hook);

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
