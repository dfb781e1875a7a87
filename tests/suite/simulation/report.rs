//! Walks a world, and tells what one did that failed: in as few steps as will still make it fail.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use super::trace::{Trace, concerned};
use super::workload::{Tally, Workload};

/// A world that failed.
pub struct Failure {
    pub complaint: String,
    /// How many steps it had taken.
    pub steps: u64,
    trace: Trace,
}

/// One world from its beginning until all is over.
pub fn walk(seed: u64, steps: u64) -> Result<Tally, Failure> {
    walk_noting(seed, steps, Trace::default())
}

fn walk_noting(seed: u64, steps: u64, trace: Trace) -> Result<Tally, Failure> {
    let mut world = founded(seed, trace);
    let outcome = quietly(|| {
        world.run(steps);
        world.settle();
    });
    let tally = world.tally();
    outcome.map(|()| tally).map_err(|complaint| Failure { complaint, steps: tally.steps, trace: world.into_trace() })
}

/// A new world. A fault that is switched on is not yet on while it is founded.
fn founded(seed: u64, trace: Trace) -> Workload {
    #[cfg(feature = "test-faults")]
    let fault = super::faults::suspend();
    let world = Workload::new(seed, trace);
    #[cfg(feature = "test-faults")]
    taskhub::faults::switch(fault);
    world
}

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// What `body` complains of when it panics, without the panic's own message.
fn quietly(body: impl FnOnce()) -> Result<(), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_QUIET.get() {
                usual(panic);
            }
        }));
    });
    IS_QUIET.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(body));
    IS_QUIET.set(false);
    outcome.map_err(|panic| text(&*panic))
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// The seed and the fewest steps, the complaint, and what happened to those whom it names.
pub fn report(seed: u64, failure: &Failure) -> String {
    let Failure { complaint, steps, trace } = shortest(seed, failure.steps);
    let names = concerned(&complaint);
    let who = if names.is_empty() { "everyone".to_owned() } else { names.join(", ") };
    format!(
        "simulation: seed {seed} failed after {} steps, and fails after {steps}; replay: scripts/sim --seed {seed} --steps \
         {steps}{}\n\n{complaint}\n\nWhat happened to {who}, each line with the time since the one before:\n{}",
        failure.steps,
        option(),
        trace.about(&names),
    )
}

/// The rest of the command that replays it.
fn option() -> String {
    #[cfg(feature = "test-faults")]
    if let Some(fault) = taskhub::faults::on() {
        return format!(" --fault {fault:?}");
    }
    String::new()
}

/// Looks by halves for fewer steps after which the comparison of everything, or the settling, already fails.
fn shortest(seed: u64, steps: u64) -> Failure {
    let (mut passes, mut fails) = (0, steps);
    while fails - passes > 1 {
        let middle = passes.midpoint(fails);
        match walk(seed, middle) {
            Ok(_) => passes = middle,
            Err(_) => fails = middle,
        }
    }
    match walk_noting(seed, fails, Trace::wanted()) {
        Ok(_) => panic!("seed {seed} fails after {fails} steps, and when it is walked again it does not"),
        Err(failure) => failure,
    }
}
