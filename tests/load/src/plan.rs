//! What a run does, as a line of JSON on standard input, and the bounds that keep it small.

use std::net::SocketAddr;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Most clients at a time.
const CLIENTS_MAX: usize = 64;
/// Most calls of one kind that a client makes in a round: no executor may hold more tasks.
const CALLS_MAX: usize = 1_000;
/// Most rounds at one number of clients.
const ROUNDS_MAX: usize = 100;
/// Most steps: numbers of clients one after the other.
const STEPS_MAX: usize = 8;

/// A run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The hub.
    pub hub: Target,
    /// The bare object.
    pub bare: Target,
    /// The hub's owner token, with which tasks are submitted.
    pub owner_token: String,
    /// One executor for each client.
    pub executors: Vec<Executor>,
    /// One after the other.
    pub steps: Vec<Step>,
    /// When the run is given up, in seconds.
    pub seconds_max: u64,
}

/// A probe: one client that pings without a pause.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbePlan {
    /// The hub; loopback only.
    pub hub: Target,
    /// An executor's key.
    pub key: String,
    /// When the probe ends whatever happens, in seconds.
    pub seconds_max: u64,
}

/// Who answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Address and port; loopback only.
    pub address: SocketAddr,
    /// The process, whose processor time is counted.
    pub pid: u32,
}

/// An executor's account.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Executor {
    /// Its name: the client's tasks are addressed to it.
    pub name: String,
    /// Its key.
    pub key: String,
}

/// Some rounds at one number of clients.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// How many clients call at the same time.
    pub clients: usize,
    /// Rounds that count; one more comes before them and does not.
    pub rounds: usize,
    /// Calls of each kind that a client makes in a round.
    pub calls: usize,
    /// Whole tasks that a client takes from submit to result in a round.
    pub tasks: usize,
}

impl Plan {
    /// Reads a plan and checks its bounds.
    pub fn read(text: &str) -> Result<Self, String> {
        let plan: Self = parse(text)?;
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), String> {
        for target in [&self.hub, &self.bare] {
            check_loopback(target.address)?;
        }
        if self.steps.is_empty() || self.steps.len() > STEPS_MAX {
            return Err(format!("steps: give 1 to {STEPS_MAX}."));
        }
        for step in &self.steps {
            let within = |what, value, most: usize| {
                if (1..=most).contains(&value) { Ok(()) } else { Err(format!("{what}: it must be from 1 to {most}.")) }
            };
            within("clients", step.clients, CLIENTS_MAX.min(self.executors.len()))?;
            within("rounds", step.rounds, ROUNDS_MAX)?;
            within("calls", step.calls, CALLS_MAX)?;
            within("tasks", step.tasks, CALLS_MAX)?;
        }
        Ok(())
    }
}

impl ProbePlan {
    /// Reads a plan and checks its bounds.
    pub fn read(text: &str) -> Result<Self, String> {
        let plan: Self = parse(text)?;
        check_loopback(plan.hub.address)?;
        Ok(plan)
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("the plan on standard input: {error}"))
}

fn check_loopback(address: SocketAddr) -> Result<(), String> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    Err(format!("{address} is not a loopback address; this program calls no other."))
}

#[cfg(test)]
mod tests {
    use super::{Plan, ProbePlan};

    fn plan(address: &str, clients: usize, calls: usize) -> Result<Plan, String> {
        Plan::read(
            &serde_json::json!({
                "hub": { "address": address, "pid": 1 },
                "bare": { "address": "[::1]:1", "pid": 1 },
                "owner_token": "",
                "executors": [{ "name": "a", "key": "b" }, { "name": "c", "key": "d" }],
                "steps": [{ "clients": clients, "rounds": 1, "calls": calls, "tasks": 1 }],
                "seconds_max": 1,
            })
            .to_string(),
        )
    }

    #[test]
    fn only_loopback_is_called() {
        assert!(plan("127.0.0.1:80", 1, 1).is_ok());
        for elsewhere in ["192.0.2.1:80", "0.0.0.0:80", "10.0.0.1:80", "[2001:db8::1]:80"] {
            assert!(plan(elsewhere, 1, 1).is_err_and(|why| why.contains("loopback")), "{elsewhere}");
            let probe = serde_json::json!({ "hub": { "address": elsewhere, "pid": 1 }, "key": "", "seconds_max": 1 });
            let probe = probe.to_string();
            assert!(ProbePlan::read(&probe).is_err_and(|why| why.contains("loopback")), "{elsewhere}");
        }
        assert!(plan("localhost:80", 1, 1).is_err(), "a name may be resolved to anything");
    }

    #[test]
    fn a_run_is_bounded() {
        assert!(plan("127.0.0.1:80", 3, 1).is_err(), "more clients than executors");
        assert!(plan("127.0.0.1:80", 0, 1).is_err());
        assert!(plan("127.0.0.1:80", 2, 1_001).is_err());
        assert!(plan("127.0.0.1:80", 2, 1_000).is_ok());
    }
}
