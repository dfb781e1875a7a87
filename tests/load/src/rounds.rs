//! The rounds: every kind of call, first at one server and then, with the same bodies, at the other.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::calls::{Held, Kind, Party, check};
use crate::client::{Answer, Call, Client};
use crate::figures::{Pairs, Phase};
use crate::plan::{Plan, Step, Target};
use crate::processor;

/// Beats in a whole task.
const BEATS: usize = 2;
/// The name under which whole tasks are reported.
const TASKS: &str = "tasks";

/// One server with its clients' connections.
struct Server {
    target: Target,
    clients: Vec<Client>,
}

impl Server {
    fn new(target: &Target, clients: usize) -> Self {
        let clients = (0..clients).map(|_| Client::new(target.address)).collect();
        Self { target: target.clone(), clients }
    }

    /// Lets every client do its part at the same time. A part says what its calls took.
    fn phase<P: Send, R: Send>(
        &self,
        parts: Vec<P>,
        work: impl Fn(&Client, P) -> Result<(R, Vec<Duration>), String> + Sync,
    ) -> Result<(Vec<R>, Phase), String> {
        let barrier = Barrier::new(parts.len());
        let spent_before = processor::spent_ns(self.target.pid);
        let ends: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = parts
                .into_iter()
                .zip(&self.clients)
                .map(|(part, client)| {
                    scope.spawn(|| {
                        barrier.wait();
                        let started = Instant::now();
                        work(client, part).map(|(result, took)| (result, took, started, Instant::now()))
                    })
                })
                .collect();
            threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        let processor_ns = processor::spent_ns(self.target.pid) - spent_before;
        let (mut results, mut calls, mut starts, mut stops) = (vec![], vec![], vec![], vec![]);
        for end in ends {
            let (result, took, started, stopped) = end.map_err(|_| "a client panicked".to_owned())??;
            results.push(result);
            calls.extend(took);
            starts.push(started);
            stops.push(stopped);
        }
        let wall = match (starts.into_iter().min(), stops.into_iter().max()) {
            (Some(first), Some(last)) => last - first,
            _ => Duration::ZERO,
        };
        Ok((results, Phase { wall, processor_ns, calls }))
    }

    /// Every client makes its calls one after the other.
    fn send(&self, kind: Option<Kind>, calls: &[Vec<Call>]) -> Result<(Vec<Vec<Answer>>, Phase), String> {
        self.phase(calls.iter().collect(), |client, calls: &Vec<Call>| {
            let mut answers = Vec::with_capacity(calls.len());
            let mut times = Vec::with_capacity(calls.len());
            for call in calls {
                let (answer, took) = client.call(call)?;
                if let Some(kind) = kind {
                    check(kind, &answer)?;
                }
                answers.push(answer);
                times.push(took);
            }
            Ok((answers, times))
        })
    }
}

/// Both servers and all clients, at one number of clients.
struct Table<'p> {
    hub: Server,
    bare: Server,
    parties: &'p mut [Party],
    step: Step,
    pairs: BTreeMap<&'static str, Pairs>,
}

/// Runs the plan and returns its report: an array with the figures of each step.
pub fn run(plan: &Plan) -> Result<Json, String> {
    let give_up_at = Instant::now() + Duration::from_secs(plan.seconds_max);
    // The same ones at every step: a request id is never used twice.
    let mut parties: Vec<Party> =
        plan.executors.iter().map(|executor| Party::new(&plan.owner_token, executor)).collect();
    let mut reports = Vec::new();
    for step in &plan.steps {
        let mut table = Table {
            hub: Server::new(&plan.hub, step.clients),
            bare: Server::new(&plan.bare, step.clients),
            parties: &mut parties[..step.clients],
            step: *step,
            pairs: BTreeMap::new(),
        };
        // The first round warms both up: connections, caches, and the compilers of the two languages.
        for round in 0..=step.rounds {
            if round == 1 {
                table.pairs.clear();
            }
            table.round(round % 2 == 0, give_up_at)?;
        }
        let calls: serde_json::Map<String, Json> =
            table.pairs.iter().map(|(name, pairs)| ((*name).to_owned(), pairs.report())).collect();
        reports.push(json!({ "clients": step.clients, "rounds": step.rounds, "calls": calls }));
    }
    Ok(Json::Array(reports))
}

impl Table<'_> {
    fn round(&mut self, hub_first: bool, give_up_at: Instant) -> Result<(), String> {
        let mut held: Vec<Vec<Held>> = vec![vec![]; self.parties.len()];
        for kind in Kind::ALL {
            if Instant::now() > give_up_at {
                return Err("the run took longer than it may; give it fewer rounds or calls.".to_owned());
            }
            let calls = self.calls(kind, &held);
            let mut at_bare = None;
            if !hub_first {
                at_bare = Some(self.bare.send(None, &calls)?);
            }
            let (answers, at_hub) = self.hub.send(Some(kind), &calls)?;
            let (_, at_bare) = match at_bare {
                Some(phase) => phase,
                None => self.bare.send(None, &calls)?,
            };
            if kind == Kind::Claim {
                let of_client = |answers: &Vec<Answer>| answers.iter().map(Held::of).collect();
                held = answers.iter().map(of_client).collect::<Result<_, String>>()?;
            }
            self.pairs.entry(kind.as_str()).or_default().push(at_hub, at_bare);
        }
        self.tasks()
    }

    /// What each client sends in this phase.
    fn calls(&mut self, kind: Kind, held: &[Vec<Held>]) -> Vec<Vec<Call>> {
        let count = self.step.calls;
        let of = |(party, held): (&mut Party, &Vec<Held>)| {
            (0..count).map(|index| party.call(kind, held.get(index))).collect()
        };
        self.parties.iter_mut().zip(held).map(of).collect()
    }

    /// Whole tasks from submit to result; the bare object then gets the same bodies one after the other. Counted in tasks.
    fn tasks(&mut self) -> Result<(), String> {
        let count = self.step.tasks;
        let parties = self.parties.iter_mut().collect();
        let (sent, at_hub) = self.hub.phase(parties, |client, party: &mut Party| {
            let mut sent = Vec::new();
            let times = (0..count).map(|_| whole_task(client, party, &mut sent)).collect::<Result<Vec<_>, _>>()?;
            Ok((sent, times))
        })?;
        let (_, mut at_bare) = self.bare.send(None, &sent)?;
        at_bare.calls = at_bare.calls.chunks(BEATS + 3).map(|task| task.iter().sum()).collect();
        self.pairs.entry(TASKS).or_default().push(at_hub, at_bare);
        Ok(())
    }
}

fn whole_task(client: &Client, party: &mut Party, sent: &mut Vec<Call>) -> Result<Duration, String> {
    let started = Instant::now();
    let mut make = |kind: Kind, held: Option<&Held>| {
        let call = party.call(kind, held);
        let (answer, _) = client.call(&call)?;
        check(kind, &answer)?;
        sent.push(call);
        Ok::<Answer, String>(answer)
    };
    make(Kind::Submit, None)?;
    let held = Held::of(&make(Kind::Claim, None)?)?;
    for _ in 0..BEATS {
        make(Kind::Heartbeat, Some(&held))?;
    }
    make(Kind::Result, Some(&held))?;
    Ok(started.elapsed())
}
