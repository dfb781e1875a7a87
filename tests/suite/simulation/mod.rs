//! A seeded, deterministic world around the production commands (design §3).
//!
//! `workload` chooses what happens: submitters, executors of every temper, an owner, a receiver of wakes, an alarm that is
//! late, double or lost, a database that fails in the middle, a restart between any two steps. `auditor` keeps its own
//! simple model of what was acknowledged, and compares after every step. The two share no code with each other beyond plain
//! values, and none with `domain::lifecycle`.
//!
//! A failing run prints its seed, the fewest steps after which that world still fails, and what happened in them to the task
//! in question; seed and steps replay it.

mod auditor;
mod chance;
#[cfg(feature = "test-faults")]
mod faults;
mod files;
mod ledger;
mod messages;
mod probe;
mod report;
mod trace;
mod workload;

use report::{report, walk};
use workload::Tally;

/// Steps of each world in the ordinary test run, which is not optimised; `scripts/sim` goes further.
const STEPS: u64 = 1_500;
/// Worlds in the ordinary test run.
const SEEDS: u64 = 8;

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is \"{text}\", not a number")),
        Err(_) => default,
    }
}

/// `SIM_SEED`, `SIM_SEEDS` and `SIM_STEPS` choose other runs; `scripts/sim` sets them.
#[test]
fn nothing_is_lost_doubled_or_left_hanging() {
    let (first, seeds) = (number("SIM_SEED", 1), number("SIM_SEEDS", SEEDS));
    let steps = number("SIM_STEPS", STEPS);
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64).min(seeds);
    let walk_some = |thread: u64| {
        #[cfg(feature = "test-faults")]
        taskhub::faults::switch(faults::wanted());
        let mut total = Tally::default();
        for seed in (first + thread..first + seeds).step_by(threads as usize) {
            match walk(seed, steps) {
                Ok(tally) => total.add(tally),
                Err(failure) => panic!("{}", report(seed, &failure)),
            }
        }
        total
    };
    let mut total = Tally::default();
    std::thread::scope(|scope| {
        let walks: Vec<_> = (0..threads).map(|thread| scope.spawn(move || walk_some(thread))).collect();
        for walk in walks {
            total.add(walk.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    println!("simulation: seeds {first} to {}: {total:?}", first + seeds - 1);
    if steps >= STEPS && seeds >= SEEDS {
        let endings = [total.completed, total.failed, total.canceled];
        let troubles = [
            total.late,
            total.repeated,
            total.wakes,
            total.callbacks,
            total.notices,
            total.answers,
            total.judged,
            total.failures,
            total.restarts,
            total.acted,
            total.unknown,
            total.asked,
            total.files,
            total.shared,
        ];
        assert!(endings.iter().chain(&troubles).all(|count| *count > 0), "the world must see everything: {total:?}");
    }
}
