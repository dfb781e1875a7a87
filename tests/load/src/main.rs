//! The load of `scripts/bench`: calls a hub and a bare Durable Object in turns and reports what each call took at both, or
//! probes how long a hub leaves a caller waiting.
//!
//! Owns: the clients, the rounds and the figures. A plan in JSON comes on the first line of standard input and the report
//! goes to standard output. Bounded: in clients, calls, rounds and seconds; and it calls addresses of the loopback interface
//! only. It refuses to know how the servers are started, and it judges nothing.

use std::io::{BufRead as _, Read as _};
use std::process::ExitCode;

use serde_json::Value as Json;

mod calls;
mod client;
mod figures;
mod plan;
mod probe;
mod processor;
mod rounds;

/// Longest plan, in bytes.
const PLAN_BYTES_MAX: u64 = 1 << 20;

fn main() -> ExitCode {
    match report() {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn report() -> Result<Json, String> {
    let what = std::env::args().nth(1);
    let mut text = String::new();
    std::io::stdin().lock().take(PLAN_BYTES_MAX).read_line(&mut text).map_err(|error| error.to_string())?;
    match what.as_deref() {
        Some("rounds") => rounds::run(&plan::Plan::read(&text)?),
        Some("probe") => probe::run(&plan::ProbePlan::read(&text)?),
        _ => Err("usage: taskhub-load rounds|probe, with a plan on standard input".to_owned()),
    }
}
