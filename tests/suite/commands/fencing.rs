//! Rules 1 to 3 of design §3: one live attempt, fencing, terminal is final. Whatever comes late, from elsewhere or under
//! another's token changes nothing, and is kept as evidence within bounds.

use serde_json::{Value as Json, json};
use taskhub::domain::limits::{LATE_EVENTS_MAX, LATE_EVIDENCE_BYTES_MAX, LATE_HEARTBEAT_EVENTS_MAX};
use taskhub::hub::{EventView, Submit, When};

use crate::support::{Held, World, task_in};

/// The calls that carry a claim token, with something that is worth keeping.
fn verbs() -> [(&'static str, Json); 5] {
    [
        ("heartbeat", json!({ "note": "precious" })),
        ("result", json!({ "status": "completed", "result": "precious" })),
        ("defer", json!({ "seconds": 60, "note": "precious" })),
        ("release", json!({ "note": "precious" })),
        ("action", json!({ "step_id": "s", "tool": "t", "params": "precious", "status": "begin" })),
    ]
}

/// Brings a claim into a state in which its calls are refused; returns the claim as the caller has it then.
type Spoil = fn(&World, Held) -> Held;

const SITUATIONS: [(&str, &str, Spoil); 12] = [
    ("a foreign executor", "lease_lost", |world, held| Held { key: world.executor("thief", &["q"]), ..held }),
    ("another token", "lease_lost", |_, held| Held { token: format!("clm_1.{}", "A".repeat(22)), ..held }),
    ("no token at all", "lease_lost", |_, held| Held { token: "Bearer please".to_owned(), ..held }),
    ("an attempt that is still to come", "lease_lost", |_, held| Held {
        token: held.token.replacen("clm_1", "clm_2", 1),
        ..held
    }),
    ("the lease has expired, unswept", "lease_lost", |world, held| {
        world.pass(300_000);
        held
    }),
    ("the lease has expired, swept", "lease_lost", |world, held| {
        world.pass_and_sweep(300_000);
        held
    }),
    ("the task was claimed again", "lease_lost", |world, held| {
        world.pass_and_sweep(300_000);
        world.claim(&held.key);
        held
    }),
    ("the attempt deferred it", "lease_lost", |world, held| {
        world.does("defer", &held, json!({ "seconds": 600 }));
        held
    }),
    ("the attempt released it", "lease_lost", |world, held| {
        world.does("release", &held, json!({}));
        held
    }),
    ("the attempt failed, and may be retried", "lease_lost", |world, held| {
        world.does("result", &held, json!({ "status": "failed", "retryable": true }));
        held
    }),
    ("the task was canceled", "canceled", |world, held| {
        world.cancel(&held.id).unwrap();
        held
    }),
    ("the task is finished", "already_finished", |world, held| {
        world.does("result", &held, json!({ "status": "failed", "error": "enough" }));
        held
    }),
];

fn spoiled(spoil: Spoil) -> (World, Held) {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    world.submit(&task_in("q"));
    let held = spoil(&world, world.claim(&key));
    (world, held)
}

fn late_events(world: &World, id: &str) -> Vec<EventView> {
    world.detail(id).events.into_iter().filter(|event| event.kind == "late").collect()
}

#[test]
fn every_call_is_refused_in_every_situation_with_its_code() {
    for (situation, code, spoil) in SITUATIONS {
        for (verb, more) in verbs() {
            let (world, held) = spoiled(spoil);
            let before = world.detail(&held.id).full;
            let (status, answer) = world.attempt(verb, &held, more);
            assert_eq!((status, &answer["code"]), (409, &json!(code)), "{verb}, {situation}: {answer}");
            assert_eq!(answer["retryable"], json!(false), "{verb}, {situation}");
            let mut after = world.detail(&held.id).full;
            let evidence = late_events(&world, &held.id);
            assert_eq!((after.head.late_events, evidence.len()), (1, 1), "{verb}, {situation}");
            (after.head.late_events, after.head.event_seq) = (before.head.late_events, before.head.event_seq);
            assert_eq!(after, before, "{verb}, {situation}: nothing but the evidence");

            let data = &evidence[0].data;
            assert_eq!((&data["call"], &data["refused"]), (&json!(verb), &json!(code)), "{situation}");
            assert!(data["brought"].as_str().unwrap().contains("precious"), "{verb}, {situation}: {data}");
            assert!(evidence[0].actor.starts_with("executor:"), "{situation}");
        }
    }
}

/// Each refusal names its reason, so that the caller does the right thing next.
#[test]
fn a_lost_lease_is_told_what_is_the_case_instead() {
    let of_another = |held: Held| Held { token: format!("clm_1.{}", "A".repeat(22)), ..held };
    let of_no_form = |held: Held| Held { token: "Bearer please".to_owned(), ..held };
    let asking = |world: &World, held: &Held| drop(world.does("heartbeat", held, json!({ "question": "Which?" })));
    type Case<'c> = (&'static str, &'c dyn Fn(&World, Held) -> Held);
    let cases: [Case<'_>; 12] = [
        ("You hold this task, but", &|_, held| of_another(held)),
        ("You hold this task, but", &|_, held| of_no_form(held)),
        ("You hold this task, but", &|world, held| {
            world.pass_and_sweep(300_000);
            let second = world.claim(&held.key);
            Held { token: format!("clm_2.{}", "A".repeat(22)), ..second }
        }),
        ("The claim token is not the one", &|world, held| {
            world.pass(300_000);
            of_another(held)
        }),
        ("The claim token is not the one", &|world, held| {
            world.does("release", &held, json!({}));
            of_no_form(held)
        }),
        ("The task has not been claimed yet", &|world, held| Held { id: world.submit(&task_in("q")), ..held }),
        ("The task is, or was last, held by another executor", &|world, held| Held {
            key: world.executor("thief", &["q"]),
            ..held
        }),
        ("The task's deadline has passed", &|world, held| {
            world.does("release", &held, json!({}));
            world.cancel(&held.id).unwrap();
            world.submit(&Submit { deadline: Some(When::In(60)), ..task_in("q") });
            let dated = world.claim(&held.key);
            world.pass(60_000);
            dated
        }),
        ("The lease has expired", &|world, held| {
            world.does("release", &held, json!({}));
            world.cancel(&held.id).unwrap();
            world.submit(&Submit { deadline: Some(When::In(301)), ..task_in("q") });
            let dated = world.claim(&held.key);
            world.pass(300_000);
            dated
        }),
        ("The task waited too long for input", &|world, held| {
            asking(world, &held);
            world.pass(86_400_000);
            held
        }),
        ("The attempt is over", &|world, held| {
            asking(world, &held);
            world.pass(300_001);
            world.answer(&held.id, "This one.").unwrap();
            held
        }),
        ("The claim token is of an earlier attempt", &|world, held| {
            world.pass_and_sweep(300_000);
            world.claim(&held.key);
            held
        }),
    ];
    for (why, bring) in cases {
        let (world, held) = spoiled(|_, held| held);
        let held = bring(&world, held);
        let (status, answer) = world.attempt("heartbeat", &held, json!({}));
        assert_eq!((status, &answer["code"]), (409, &json!("lease_lost")), "{why}: {answer}");
        assert!(answer["detail"].as_str().unwrap().starts_with(why), "{why}: {answer}");
    }
}

/// The token is a credential: the store has its hash only, and evidence must not have it either.
#[test]
fn no_claim_token_is_ever_stored() {
    for (situation, _, spoil) in SITUATIONS {
        let (world, held) = spoiled(spoil);
        for (verb, more) in verbs() {
            world.attempt(verb, &held, more);
        }
        let next = json!({ "status": "completed", "next": { "request_id": "n" } });
        world.attempt("result", &held, next);
        let dump = world.db.dump().concat();
        assert!(!dump.contains(&held.token), "{situation}");
        assert!(!dump.contains(&held.key), "{situation}");
    }
}

#[test]
fn a_call_for_a_task_that_was_never_claimed_is_refused() {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    let other = world.submit(&task_in("q"));
    let held = world.claim(&key);
    let unclaimed = world.submit(&task_in("q"));
    let mixed = Held { id: unclaimed.clone(), ..held };
    for (verb, more) in verbs() {
        world.is_refused(verb, &mixed, more, "lease_lost");
    }
    assert_eq!(world.life(&unclaimed).attempt, 0);
    assert_eq!(world.life(&other).attempt, 1);
}

/// Rule 1, and aegra/aegra#547: an abandoned attempt must not renew its replacement.
#[test]
fn a_zombie_does_not_touch_the_attempt_that_replaced_it() {
    let world = World::new();
    let key = world.executor("bot", &["q"]);
    world.submit(&task_in("q"));
    let zombie = world.claim(&key);
    world.pass_and_sweep(300_000);
    let alive = world.claim(&key);
    assert_eq!((alive.id.as_str(), alive.attempt), (zombie.id.as_str(), 2));
    let lease = world.life(&alive.id).lease_expires_at;
    world.pass(10_000);
    for (verb, more) in verbs() {
        world.is_refused(verb, &zombie, more, "lease_lost");
    }
    assert_eq!(world.life(&alive.id).lease_expires_at, lease);
    world.does("result", &alive, json!({ "status": "completed", "result": "mine" }));
    assert_eq!(world.detail(&alive.id).full.result.as_deref(), Some("mine"));
}

#[test]
fn evidence_is_cut_on_a_character_boundary() {
    for length in 1_990..2_000 {
        let (world, held) = spoiled(SITUATIONS[10].2);
        world.is_refused("result", &held, json!({ "status": "completed", "result": "é".repeat(length) }), "canceled");
        let brought = late_events(&world, &held.id)[0].data["brought"].as_str().unwrap().to_owned();
        assert!((LATE_EVIDENCE_BYTES_MAX - 1..=LATE_EVIDENCE_BYTES_MAX).contains(&brought.len()), "{}", brought.len());
        assert!(brought.ends_with('é'));
    }
}

#[test]
fn evidence_is_bounded_and_heartbeats_leave_room_for_the_result() {
    let (world, held) = spoiled(SITUATIONS[10].2);
    for index in 0..10 {
        world.is_refused("heartbeat", &held, json!({ "note": format!("{index}") }), "canceled");
    }
    assert_eq!(late_events(&world, &held.id).len(), LATE_HEARTBEAT_EVENTS_MAX as usize);
    for index in 0..40 {
        let result = json!({ "status": "completed", "result": format!("{index}") });
        world.is_refused("result", &held, result, "canceled");
    }
    let evidence = late_events(&world, &held.id);
    assert_eq!(evidence.len(), LATE_EVENTS_MAX as usize);
    assert!(evidence[LATE_HEARTBEAT_EVENTS_MAX as usize].data["brought"].as_str().unwrap().contains("\"0\""));
    let before = world.db.dump();
    world.is_refused("result", &held, json!({ "status": "completed", "result": "more" }), "canceled");
    assert_eq!(world.db.dump(), before, "beyond the bound, a zombie writes nothing");
}

/// Rule 3.
#[test]
fn nothing_leaves_a_terminal_state() {
    for (state, end) in [
        ("completed", json!({ "status": "completed" })),
        ("failed", json!({ "status": "failed" })),
        ("canceled", Json::Null),
    ] {
        let world = World::new();
        let key = world.executor("bot", &["q"]);
        world.submit(&task_in("q"));
        let held = world.claim(&key);
        if end.is_null() {
            drop(world.cancel(&held.id))
        } else {
            drop(world.does("result", &held, end))
        }
        let life = world.life(&held.id);
        assert_eq!(life.state.as_str(), state);
        for (verb, more) in verbs() {
            let (status, _) = world.attempt(verb, &held, more);
            assert_eq!(status, 409, "{verb}");
        }
        assert!(world.answer(&held.id, "Yes.").is_err());
        world.pass_and_sweep(10_000_000);
        assert_eq!(world.call("POST", "/executor/claim", &key, json!({})).0, 204);
        if state != "canceled" {
            assert!(world.cancel(&held.id).is_err());
        }
        assert_eq!(world.life(&held.id), life);
    }
}

#[test]
fn what_is_right_goes_through_at_the_last_millisecond() {
    for (verb, more) in verbs() {
        let world = World::new();
        let key = world.executor("bot", &["q"]);
        world.submit(&task_in("q"));
        let held = world.claim(&key);
        world.pass(299_999);
        world.does(verb, &held, more);
    }
}
