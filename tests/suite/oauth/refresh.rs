//! Refresh tokens: rotation that survives parallel processes and lost answers, and ends a family of which somebody has a
//! copy. The model here knows the rules in words of its own.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use taskhub::http::message::Response;

use super::client::{Connected, changed, hub, json_of, refused, tokens};
use crate::fuzz::check;
use crate::support::World;

const GRACE_MS: i64 = 120_000;
const REFRESH_MS: i64 = 7_776_000_000;

/// The rules: when each token of a family was first used, and whether the family has ended.
struct Model {
    /// By generation, the first one at 0. The last one was never used.
    first_used_at: Vec<Option<i64>>,
    /// The tokens by generation, as far as anybody has seen them.
    texts: Vec<String>,
    expires_at: i64,
    has_ended: bool,
}

/// What must become of a use.
#[derive(Debug, PartialEq)]
enum Expected {
    Token(usize),
    Refused,
}

impl Model {
    fn of(first: &str, now: i64) -> Self {
        Self {
            first_used_at: vec![None],
            texts: vec![first.to_owned()],
            expires_at: now + REFRESH_MS,
            has_ended: false,
        }
    }

    /// A token that was never used makes a successor. One that was gives that successor again, as long as it was not used
    /// itself, or only just now; only the last two that were used are still good for that. Anything else is a copy in
    /// the wrong hands.
    fn uses(&mut self, generation: usize, now: i64) -> Expected {
        if self.has_ended || now >= self.expires_at {
            return Expected::Refused;
        }
        let newest = self.texts.len() - 1;
        if generation == newest {
            self.first_used_at[generation] = Some(now);
            self.first_used_at.push(None);
            self.expires_at = now + REFRESH_MS;
            return Expected::Token(generation + 1);
        }
        let is_recent = match self.first_used_at[generation + 1] {
            None => true,
            Some(at) => now - at <= GRACE_MS && generation + 2 == newest,
        };
        if is_recent {
            return Expected::Token(generation + 1);
        }
        self.has_ended = true;
        Expected::Refused
    }

    fn agrees(&mut self, expected: &Expected, response: &Response, connected: &Connected) {
        match expected {
            Expected::Refused => drop(refused(response, 400, "invalid_grant")),
            Expected::Token(generation) => {
                let given = tokens(&connected.client_id, response);
                if *generation == self.texts.len() {
                    assert!(!self.texts.contains(&given.refresh), "a new one");
                    self.texts.push(given.refresh);
                } else {
                    assert_eq!(given.refresh, self.texts[*generation], "the same one, word for word");
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Uses the token that is this many generations behind the newest.
    Use {
        behind: usize,
        by_another: bool,
    },
    Pass(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let behind = prop_oneof![6 => Just(0_usize), 4 => Just(1), 3 => Just(2), 1 => 3_usize..6];
    let by_another = prop_oneof![12 => Just(false), 1 => Just(true)];
    let time = select(vec![1, 1_000, GRACE_MS - 1, GRACE_MS, GRACE_MS + 1, 86_400_000, REFRESH_MS - 1, REFRESH_MS]);
    prop_oneof![
        5 => (behind, by_another).prop_map(|(behind, by_another)| Step::Use { behind, by_another }),
        2 => time.prop_map(Step::Pass),
    ]
}

#[test]
fn rotation_follows_its_rules() {
    check(80, &proptest::collection::vec(step(), 1..40), |steps| {
        let world = hub();
        let other = world.connected(&["tasks:read"]).client_id;
        let connected = world.connected(&["tasks:read"]);
        let mut model = Model::of(&connected.refresh, world.now());
        for step in steps {
            match step {
                Step::Pass(ms) => world.pass(ms),
                Step::Use { behind, by_another } => {
                    let Some(generation) = (model.texts.len() - 1).checked_sub(behind) else { continue };
                    if by_another {
                        let before = world.db.dump();
                        refused(&world.refreshes(&other, &model.texts[generation]), 400, "invalid_grant");
                        assert_eq!(world.db.dump(), before, "another client spoils nothing");
                        continue;
                    }
                    let response = world.refreshes(&connected.client_id, &model.texts[generation]);
                    let expected = model.uses(generation, world.now());
                    model.agrees(&expected, &response, &connected);
                }
            }
            let is_active = !model.has_ended && world.now() < model.expires_at;
            let grants = world.grants();
            let grant = grants.iter().find(|grant| grant["client_id"] == connected.client_id.as_str());
            assert_eq!(grant.expect("it is there")["active"], is_active);
        }
    });
}

/// Whatever gets lost, and however long it takes: a client that repeats what was not answered is never signed out.
#[test]
fn a_client_that_loses_answers_is_never_signed_out() {
    let gap = select(vec![0, 1, 1_000, GRACE_MS, 10 * GRACE_MS, 4 * 86_400_000, 30 * 86_400_000]);
    check(50, &proptest::collection::vec((any::<bool>(), gap), 1..40), |tries| {
        let world = hub();
        let connected = world.connected(&["tasks:read"]);
        let mut stored = connected.refresh;
        // The family lives on from the first use of the stored token; repeating it does not prolong it.
        let mut expires_at = world.now() + REFRESH_MS;
        let mut is_repeated = false;
        for (is_lost, gap) in tries {
            world.pass(gap);
            if world.now() >= expires_at {
                return;
            }
            let given = tokens(&connected.client_id, &world.refreshes(&connected.client_id, &stored));
            if !is_repeated {
                expires_at = world.now() + REFRESH_MS;
            }
            is_repeated = is_lost;
            if !is_lost {
                assert!(world.is_good(&given.access));
                stored = given.refresh;
            }
        }
    });
}

#[test]
fn twenty_parallel_refreshes_end_with_one_living_family() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    let mut stored = connected.refresh;
    for _ in 0..5 {
        // Twenty processes read the same token from the same file; each stores what it gets.
        let given: Vec<Connected> =
            (0..20).map(|_| tokens(&connected.client_id, &world.refreshes(&connected.client_id, &stored))).collect();
        assert!(given.iter().all(|one| one.refresh == given[0].refresh), "all have the same next one");
        assert!(given.iter().all(|one| world.is_good(&one.access)), "nobody is signed out");
        stored = given[0].refresh.clone();
        world.pass(86_400_000 - 1_000);
    }
    let grants = world.grants();
    assert_eq!((grants.len(), &grants[0]["active"]), (1, &json!(true)));
}

/// Processes that each keep their token in memory, some of them one behind, for as long as the window is open.
#[test]
fn a_process_that_is_one_behind_catches_up() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    let id = &connected.client_id;
    let second = tokens(id, &world.refreshes(id, &connected.refresh));
    let third = tokens(id, &world.refreshes(id, &second.refresh));
    world.pass(GRACE_MS);
    let late = tokens(id, &world.refreshes(id, &connected.refresh));
    assert_eq!(late.refresh, second.refresh);
    let caught_up = tokens(id, &world.refreshes(id, &late.refresh));
    assert_eq!(caught_up.refresh, third.refresh);
    world.pass(1);
    refused(&world.refreshes(id, &connected.refresh), 400, "invalid_grant");
    assert!(!world.is_good(&third.access), "a copy in the wrong hands ends the family");
    assert_eq!(world.grants()[0]["revoked_because"], "refresh_replayed");
}

/// A copy that is used after the owner's client moved on: whichever of the two comes second ends both.
#[test]
fn a_stolen_token_ends_the_family() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    let id = &connected.client_id;
    let thief = tokens(id, &world.refreshes(id, &connected.refresh));
    let thief = tokens(id, &world.refreshes(id, &thief.refresh));
    world.pass(86_400_000);
    assert!(refused(&world.refreshes(id, &connected.refresh), 400, "invalid_grant").contains("revoked"));
    refused(&world.refreshes(id, &thief.refresh), 400, "invalid_grant");
    assert!(!world.is_good(&thief.access));
}

/// Whoever looks at the hub for the owner is told for a week.
#[test]
fn the_owner_is_told_of_a_copy() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    let attention = || {
        let body = json_of(&world.tool(crate::support::OWNER_TOKEN, "hub_status", json!({})));
        body["result"]["structuredContent"]["attention"].to_string()
    };
    assert!(!attention().contains("signed out"));
    let second = tokens(&connected.client_id, &world.refreshes(&connected.client_id, &connected.refresh));
    tokens(&connected.client_id, &world.refreshes(&connected.client_id, &second.refresh));
    world.pass(GRACE_MS + 1);
    refused(&world.refreshes(&connected.client_id, &connected.refresh), 400, "invalid_grant");
    let told = attention();
    assert!(told.contains(&connected.client_id) && told.contains("was signed out"), "{told}");
    world.pass(7 * 86_400_000);
    assert!(!attention().contains("signed out"));
}

#[test]
fn a_refresh_token_lives_from_use_to_use() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    let mut stored = connected.refresh;
    for _ in 0..5 {
        world.pass(REFRESH_MS - 1);
        stored = tokens(&connected.client_id, &world.refreshes(&connected.client_id, &stored)).refresh;
    }
    world.pass(REFRESH_MS);
    let description = refused(&world.refreshes(&connected.client_id, &stored), 400, "invalid_grant");
    assert!(description.contains("expired"), "{description}");
}

#[test]
fn what_is_no_refresh_token_is_refused() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    let before = world.db.dump();
    let [head, generation, mac] = connected.refresh.splitn(3, '.').collect::<Vec<_>>()[..] else {
        panic!("three parts")
    };
    assert_eq!(generation, "1");
    for junk in [
        "x",
        "thr_",
        "thr_..",
        head,
        &connected.access,
        &format!("{head}.2.{mac}"),
        &format!("{head}.0.{mac}"),
        &format!("{head}.01.{mac}"),
        &format!("{head}.+1.{mac}"),
        &format!("{head}.4294967296.{mac}"),
        &format!("{head}.-1.{mac}"),
        &format!("{head}.1.{mac}="),
        &format!("{head}.1.{mac}.x"),
        &connected.refresh.replace("thr_", "thc_"),
        &connected.refresh.to_uppercase(),
        &format!(" {}", connected.refresh),
    ] {
        refused(&world.refreshes(&connected.client_id, junk), 400, "invalid_grant");
    }
    assert_eq!(world.db.dump(), before);
    assert!(world.is_good(&connected.access));
}

/// RFC 6749 §6: the scopes are those of the grant; asking for others, or for unknown ones, changes nothing.
#[test]
fn a_refresh_neither_adds_nor_fails_on_scopes() {
    let world = hub();
    let connected = world.connected(&["tasks:read"]);
    for scope in ["tasks:read", "hub:admin tasks:write", "offline_access", "claudeai", ""] {
        let fields = [
            ("grant_type", "refresh_token"),
            ("client_id", connected.client_id.as_str()),
            ("refresh_token", connected.refresh.as_str()),
        ];
        let response = world.token(&changed(&fields, "scope", Some(scope)));
        let given = tokens(&connected.client_id, &response);
        assert_eq!(json_of(&response)["scope"], "tasks:read", "{scope}");
        assert_eq!(world.owner_status(&given.access), 403);
    }
}

impl World {
    /// How the owner API answers this bearer.
    fn owner_status(&self, bearer: &str) -> u16 {
        self.call("GET", "/api/executors", bearer, serde_json::Value::Null).0
    }
}
