//! A probe: one client that pings without a pause, so that its longest answer bounds how long anything held the hub.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::calls::{Kind, Party, check};
use crate::client::Client;
use crate::figures;
use crate::plan::{Executor, ProbePlan};
use crate::processor;

/// Most answers that are remembered; a probe that gets more of them ends.
const CALLS_MAX: usize = 1_000_000;

/// Pings until standard input ends, and says how long the answers took.
pub fn run(plan: &ProbePlan) -> Result<Json, String> {
    let ends = Arc::new(AtomicBool::new(false));
    let sees_end = Arc::clone(&ends);
    // Not joined: it blocks on standard input, and the process ends with `main`.
    thread::spawn(move || {
        let mut rest = [0; 64];
        while std::io::stdin().read(&mut rest).is_ok_and(|read| read > 0) {}
        sees_end.store(true, Ordering::Relaxed);
    });
    let client = Client::new(plan.hub.address);
    let executor = Executor { name: "probe".to_owned(), key: plan.key.clone() };
    let call = Party::new("", &executor).call(Kind::Ping, None);
    let give_up_at = Instant::now() + Duration::from_secs(plan.seconds_max);
    let (mut times, mut undisturbed) = (Vec::new(), Duration::ZERO);
    while !ends.load(Ordering::Relaxed) && Instant::now() < give_up_at && times.len() < CALLS_MAX {
        let delayed_before = processor::delayed(plan.hub.pid);
        let (answer, took) = client.call(&call)?;
        let delayed = processor::delayed(plan.hub.pid).saturating_sub(delayed_before);
        check(Kind::Ping, &answer)?;
        undisturbed = undisturbed.max(took.saturating_sub(delayed));
        times.push(took);
    }
    times.sort_unstable();
    Ok(figures::probe(&times, undisturbed))
}
