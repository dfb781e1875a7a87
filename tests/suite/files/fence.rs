//! Design §3 rule 2 for files: what an attempt may not write any more is refused at the first byte and in the middle, leaves
//! evidence, and nothing of the file.

use taskhub::domain::limits::{CHUNK_BYTES, LATE_EVENTS_MAX};
use taskhub::domain::task::State;
use taskhub::hub::{self, AttemptRejected, FileRejected, UploadTo, Uploaded};

use super::{attach, brought, call, noise, rows, upload};
use crate::support::{Held, World};

type Spoil = fn(&World, Held) -> Held;

const SITUATIONS: [(&str, &str, Spoil); 8] = [
    ("another token", "lease", |_, held| Held { token: format!("clm_1.{}", "A".repeat(22)), ..held }),
    ("the lease has expired, unswept", "lease", |world, held| {
        world.pass(300_000);
        held
    }),
    ("the task was claimed again", "lease", |world, held| {
        world.pass_and_sweep(300_000);
        world.claim(&held.key);
        held
    }),
    ("the attempt deferred it", "lease", |world, held| {
        world.does("defer", &held, serde_json::json!({ "seconds": 600 }));
        held
    }),
    ("the attempt released it", "lease", |world, held| {
        world.does("release", &held, serde_json::json!({}));
        held
    }),
    ("the task was canceled", "canceled", |world, held| {
        world.cancel(&held.id).unwrap();
        held
    }),
    ("the task is finished", "finished", |world, held| {
        world.does("result", &held, serde_json::json!({ "status": "completed" }));
        held
    }),
    ("the attempt waits for a person", "waits", |world, held| {
        world.does("heartbeat", &held, serde_json::json!({ "question": "Which?" }));
        held
    }),
];

fn is_right(code: &str, rejected: &FileRejected) -> bool {
    let FileRejected::Attempt(rejected) = rejected else { return false };
    match code {
        "lease" => matches!(rejected, AttemptRejected::LeaseLost { .. } | AttemptRejected::TokenMismatch),
        "canceled" => *rejected == AttemptRejected::Canceled,
        "finished" => *rejected == AttemptRejected::AlreadyFinished,
        _ => *rejected == AttemptRejected::NotWorking,
    }
}

#[test]
fn a_late_file_is_refused_and_leaves_evidence_only() {
    for (situation, code, spoil) in SITUATIONS {
        let world = World::new();
        let key = world.executor("bot", &[]);
        let held = spoil(&world, world.working("bot", &key));
        let before = world.detail(&held.id);
        let rejected = attach(&world, &held, "a.txt", b"x").unwrap_err();
        assert!(is_right(code, &rejected), "{situation}: {rejected:?}");
        assert_eq!(rows(&world), (0, 0), "{situation}");
        let after = world.detail(&held.id);
        assert_eq!(after.full.head.life, before.full.head.life, "{situation}");
        let evidence: Vec<_> = after.events.iter().filter(|event| event.kind == "late").collect();
        assert_eq!(evidence.len(), usize::from(code != "waits"), "{situation}");
        for event in evidence {
            assert_eq!(event.data["call"], "attachment");
            assert!(event.data["brought"].as_str().unwrap().contains("a.txt"), "{situation}");
        }
    }
}

#[test]
fn a_claim_lost_in_the_middle_ends_the_upload_and_what_came_of_it() {
    for (situation, code, spoil) in SITUATIONS {
        for is_last in [false, true] {
            let world = World::new();
            let key = world.executor("bot", &[]);
            let held = world.working("bot", &key);
            let brought = brought();
            let begun = upload(UploadTo::Attempt { call: call(&held, &brought), name: "a.txt" });
            let Uploaded::More(receiving) = world.run(|hub| hub::begin_upload(hub, &begun)).0.unwrap() else {
                panic!()
            };
            let step = world.run(|hub| hub::take_piece(hub, &begun, &receiving, noise(CHUNK_BYTES), false)).0.unwrap();
            let Uploaded::More(receiving) = step else { panic!() };
            assert_eq!(rows(&world), (1, 1));
            let late = spoil(&world, held.clone());
            let begun = upload(UploadTo::Attempt { call: call(&late, &brought), name: "a.txt" });
            let piece = noise(CHUNK_BYTES);
            let outcome = world.run(|hub| hub::take_piece(hub, &begun, &receiving, piece.clone(), is_last)).0;
            assert!(is_right(code, &outcome.unwrap_err()), "{situation}");
            assert_eq!(rows(&world), (0, 0), "{situation}");
            assert_eq!(world.run(|hub| hub::attachments(hub, &held.id)).0.unwrap(), []);
        }
    }
}

#[test]
fn evidence_of_late_files_is_bounded() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    world.cancel(&held.id).unwrap();
    for _ in 0..LATE_EVENTS_MAX + 3 {
        attach(&world, &held, "a.txt", b"x").unwrap_err();
    }
    assert_eq!(world.detail(&held.id).full.head.late_events, LATE_EVENTS_MAX);
}

#[test]
fn a_file_does_not_move_its_task() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    let before = world.life(&held.id);
    world.pass(299_999);
    attach(&world, &held, "a.txt", b"x").unwrap();
    assert_eq!(world.life(&held.id), before, "nor renews its lease");
    assert_eq!(world.state(&held.id), State::Working);
    world.pass(1);
    assert!(attach(&world, &held, "b.txt", b"x").is_err());
}
