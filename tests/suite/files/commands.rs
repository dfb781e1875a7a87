//! Bringing files: pieces, repeating, limits, what makes way, and what the totals say.

use taskhub::domain::file::{FileKind, sha256_of};
use taskhub::domain::limits::{CHUNK_BYTES, TASK_FILES_MAX, TASK_UPLOADS_MAX, UPLOAD_MS};
use taskhub::hub::{self, FileRejected, NewFile, Upload, UploadTo, Uploaded};

use super::{attach, bring, brought, call, noise, purge, read, rows, totals, upload};
use crate::support::{Held, World};

fn stage() -> (World, Held) {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    (world, held)
}

/// Begins an upload and brings its first pieces, as one that breaks off.
fn break_off(world: &World, held: &Held, name: &str, pieces: usize) {
    let brought = brought();
    let upload = upload(UploadTo::Attempt { call: call(held, &brought), name });
    let mut step = world.run(|hub| hub::begin_upload(hub, &upload)).0.unwrap();
    for _ in 0..pieces {
        let Uploaded::More(receiving) = step else { panic!("there is more") };
        step = world.run(|hub| hub::take_piece(hub, &upload, &receiving, noise(CHUNK_BYTES), false)).0.unwrap();
    }
}

#[test]
fn a_file_comes_out_as_it_went_in_whatever_its_size() {
    let (world, held) = stage();
    let sizes = [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 17];
    for (number, size) in sizes.into_iter().enumerate() {
        let bytes = noise(size);
        let (file, existed) = attach(&world, &held, &format!("{number}.bin"), &bytes).unwrap();
        assert!(!existed);
        assert_eq!((file.size, &file.sha256), (size as i64, &sha256_of(&bytes)));
        assert_eq!((file.kind, file.attempt, file.task_id.as_deref()), (FileKind::Output, Some(1), Some(&*held.id)));
        assert!(read(&world, &file.id) == bytes, "{size} bytes");
    }
    assert_eq!(rows(&world), (6, 1 + 1 + 1 + 2 + 4), "an empty file has no chunk, and a whole last piece no empty one");
    assert_eq!(totals(&world), (6, sizes.iter().sum::<usize>() as i64));
    let files = world.run(|hub| hub::attachments(hub, &held.id)).0.unwrap();
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["0.bin", "1.bin", "2.bin", "3.bin", "4.bin", "5.bin"]);
}

#[test]
fn parts_of_a_file_are_read_across_its_pieces() {
    let (world, held) = stage();
    let bytes = noise(2 * CHUNK_BYTES + 100);
    let (file, _) = attach(&world, &held, "a", &bytes).unwrap();
    for (offset, len) in [(0, 10), (CHUNK_BYTES - 5, 10), (CHUNK_BYTES, 1), (5, 2 * CHUNK_BYTES), (bytes.len() - 1, 9)]
    {
        let part = world.run(|hub| hub::read_file(hub, &file.id, offset as u64, len)).0.unwrap();
        assert!(part == bytes[offset..bytes.len().min(offset + len)], "{len} from {offset}");
    }
    assert_eq!(world.run(|hub| hub::read_file(hub, &file.id, u64::MAX, 5)).0.unwrap(), [0; 0]);
    assert_eq!(world.run(|hub| hub::read_file(hub, "f_none", 0, 5)).0.unwrap(), [0; 0]);
}

#[test]
fn the_same_name_and_content_is_the_same_file() {
    let (world, held) = stage();
    let bytes = noise(CHUNK_BYTES + 5);
    let (first, _) = attach(&world, &held, "a.txt", &bytes).unwrap();
    let before = world.db.dump();
    assert_eq!(attach(&world, &held, "a.txt", &bytes).unwrap(), (first.clone(), true), "after all of it came");
    let brought = brought();
    let sha256 = sha256_of(&bytes);
    let to = UploadTo::Attempt { call: call(&held, &brought), name: "x/a.txt" };
    let announced = Upload { sha256: Some(&sha256), ..upload(to) };
    let known = world.run(|hub| hub::begin_upload(hub, &announced)).0.unwrap();
    assert_eq!(known, Uploaded::Done { file: first.clone(), existed: true }, "before any of it comes");
    assert_eq!(world.db.dump(), before);
    let (renamed, existed) = attach(&world, &held, "b.txt", &bytes).unwrap();
    assert!(!existed && renamed.id != first.id);
    let (changed, existed) = attach(&world, &held, "a.txt", b"other").unwrap();
    assert!(!existed && changed.id != first.id);
    assert_eq!(rows(&world), (3, 5));
}

#[test]
fn an_upload_that_broke_off_makes_way_for_the_next_of_its_name() {
    let (world, held) = stage();
    break_off(&world, &held, "a.txt", 2);
    break_off(&world, &held, "b.txt", 1);
    assert_eq!(rows(&world), (2, 3));
    assert_eq!(totals(&world), (0, 0));
    assert_eq!(world.run(|hub| hub::attachments(hub, &held.id)).0.unwrap(), [], "nobody sees half a file");
    let bytes = noise(2 * CHUNK_BYTES + 5);
    let (file, _) = attach(&world, &held, "a.txt", &bytes).unwrap();
    assert!(read(&world, &file.id) == bytes);
    assert_eq!(rows(&world), (2, 4), "the other is left alone");
    world.pass(UPLOAD_MS - 1);
    purge(&world);
    assert_eq!(rows(&world), (2, 4));
    world.pass(1);
    purge(&world);
    assert_eq!(rows(&world), (1, 3), "after an hour it goes");
}

#[test]
fn an_upload_whose_place_was_taken_ends_without_a_trace() {
    let (world, held) = stage();
    let brought = brought();
    let first = upload(UploadTo::Attempt { call: call(&held, &brought), name: "a.txt" });
    let Uploaded::More(begun) = world.run(|hub| hub::begin_upload(hub, &first)).0.unwrap() else { panic!() };
    let step = world.run(|hub| hub::take_piece(hub, &first, &begun, noise(CHUNK_BYTES), false)).0.unwrap();
    let Uploaded::More(receiving) = step else { panic!() };
    let (file, _) = attach(&world, &held, "a.txt", b"second").unwrap();
    for is_last in [false, true] {
        let piece = noise(CHUNK_BYTES);
        let outcome = world.run(|hub| hub::take_piece(hub, &first, &receiving, piece.clone(), is_last)).0;
        assert_eq!(outcome, Err(FileRejected::Displaced));
    }
    assert_eq!(rows(&world), (1, 1));
    assert_eq!(read(&world, &file.id), b"second");
}

#[test]
fn of_too_many_uploads_the_oldest_gives_way() {
    let (world, held) = stage();
    for number in 0..=TASK_UPLOADS_MAX {
        break_off(&world, &held, &format!("{number}"), 1);
        world.pass(1);
    }
    assert_eq!(rows(&world), (TASK_UPLOADS_MAX, TASK_UPLOADS_MAX));
    let names = world.db.rows("SELECT name FROM attachments ORDER BY id");
    assert_eq!(names[0][0], "1".into());
}

#[test]
fn an_upload_that_is_abandoned_leaves_nothing() {
    let (world, held) = stage();
    let brought = brought();
    let upload = upload(UploadTo::Attempt { call: call(&held, &brought), name: "a.txt" });
    let before = world.db.dump();
    let Uploaded::More(begun) = world.run(|hub| hub::begin_upload(hub, &upload)).0.unwrap() else { panic!() };
    assert_eq!(world.db.dump(), before, "to begin writes nothing");
    world.run(|hub| hub::abandon_upload(hub, &begun)).0.unwrap();
    let step = world.run(|hub| hub::take_piece(hub, &upload, &begun, noise(CHUNK_BYTES), false)).0.unwrap();
    let Uploaded::More(receiving) = step else { panic!() };
    assert_ne!(world.db.dump(), before);
    world.run(|hub| hub::abandon_upload(hub, &receiving)).0.unwrap();
    world.run(|hub| hub::abandon_upload(hub, &receiving)).0.unwrap();
    assert_eq!(world.db.dump(), before);
}

#[test]
fn what_is_not_what_was_announced_is_not_stored() {
    let (world, held) = stage();
    let brought = brought();
    let before = world.db.dump();
    for bytes in [noise(5), noise(CHUNK_BYTES + 5)] {
        let sha256 = sha256_of(b"something else");
        let to = UploadTo::Attempt { call: call(&held, &brought), name: "a.txt" };
        let announced = Upload { sha256: Some(&sha256), ..upload(to) };
        let refused = bring(&world, &announced, &bytes);
        assert_eq!(refused, Err(FileRejected::WrongHash { found: sha256_of(&bytes) }));
        assert_eq!(world.db.dump(), before);
    }
}

#[test]
fn a_name_of_which_nothing_is_left_is_refused() {
    let (world, held) = stage();
    assert_eq!(attach(&world, &held, "../..", b"x"), Err(FileRejected::NoName));
    let (file, _) = attach(&world, &held, "../../etc/passwd", b"x").unwrap();
    assert_eq!(file.name, "passwd");
}

#[test]
fn a_file_has_a_longest_size() {
    let world = World::with(&[("ATTACHMENT_MAX_BYTES", "1500000")]);
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    let (file, _) = attach(&world, &held, "most", &noise(1_500_000)).unwrap();
    let before = world.db.dump();
    let too_large = Err(FileRejected::TooLarge { bytes_max: 1_500_000 });
    assert_eq!(attach(&world, &held, "more", &noise(1_500_001)), too_large, "as it comes");
    assert_eq!(world.db.dump(), before);
    let brought = brought();
    let to = UploadTo::Attempt { call: call(&held, &brought), name: "more" };
    let announced = Upload { size: Some(1_500_001), ..upload(to) };
    assert_eq!(bring(&world, &announced, &[]), too_large, "before it comes");
    assert_eq!(read(&world, &file.id).len(), 1_500_000);
}

#[test]
fn a_task_has_room_for_so_many_bytes_of_files() {
    let world = World::with(&[("TASK_ATTACHMENTS_MAX_BYTES", "3000000")]);
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    attach(&world, &held, "a", &noise(1_999_000)).unwrap();
    let before = world.db.dump();
    let full = FileRejected::TaskFull { bytes_max: 3_000_000, bytes: 1_999_000 };
    assert_eq!(attach(&world, &held, "b", &noise(1_001_001)), Err(full.clone()));
    let brought = brought();
    let to = UploadTo::Attempt { call: call(&held, &brought), name: "b" };
    assert_eq!(bring(&world, &Upload { size: Some(1_001_001), ..upload(to) }, &[]), Err(full));
    assert_eq!(world.db.dump(), before);
    attach(&world, &held, "b", &noise(1_001_000)).unwrap();
    let before = world.db.dump();
    let full = FileRejected::TaskFull { bytes_max: 3_000_000, bytes: 3_000_000 };
    assert_eq!(attach(&world, &held, "c", b"x"), Err(full.clone()));
    assert!(attach(&world, &held, "b", &noise(1_001_000)).unwrap().1, "what is there is there");
    assert_eq!(attach(&world, &held, "b", &noise(1_001_001)), Err(full.clone()), "longer than any of its name");
    assert_eq!(attach(&world, &held, "b", &noise(1_000_999)), Err(full));
    assert_eq!(world.db.dump(), before);
}

/// Two uploads that had room when they began may not have it together.
#[test]
fn room_is_looked_at_again_when_the_file_is_there() {
    let world = World::with(&[("TASK_ATTACHMENTS_MAX_BYTES", "2000000")]);
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    let brought = brought();
    let upload = upload(UploadTo::Attempt { call: call(&held, &brought), name: "slow" });
    let Uploaded::More(begun) = world.run(|hub| hub::begin_upload(hub, &upload)).0.unwrap() else { panic!() };
    let step = world.run(|hub| hub::take_piece(hub, &upload, &begun, noise(CHUNK_BYTES), false)).0.unwrap();
    let Uploaded::More(receiving) = step else { panic!() };
    attach(&world, &held, "quick", &noise(1_000_000)).unwrap();
    let outcome = world.run(|hub| hub::take_piece(hub, &upload, &receiving, vec![], true)).0;
    assert_eq!(outcome, Err(FileRejected::TaskFull { bytes_max: 2_000_000, bytes: 1_000_000 }));
    assert_eq!(rows(&world), (1, 1));
}

#[test]
fn a_task_has_so_many_files() {
    let (world, held) = stage();
    for number in 0..TASK_FILES_MAX {
        attach(&world, &held, &format!("{number}"), b"x").unwrap();
        world.pass(1);
    }
    let before = world.db.dump();
    assert_eq!(attach(&world, &held, "more", b"x"), Err(FileRejected::TooMany { files_max: TASK_FILES_MAX }));
    assert!(attach(&world, &held, "7", b"x").unwrap().1);
    assert_eq!(attach(&world, &held, "7", b"y"), Err(FileRejected::TooMany { files_max: TASK_FILES_MAX }));
    assert_eq!(world.db.dump(), before);
    assert_eq!(world.run(|hub| hub::attachments(hub, &held.id)).0.unwrap().len(), TASK_FILES_MAX);
}

#[test]
fn a_small_file_comes_in_one_call_and_is_told_of() {
    let (world, held) = stage();
    let brought = brought();
    let file = NewFile { name: "a.csv".to_owned(), content_type: None, bytes: b"a,b".to_vec() };
    let revision = world.detail(&held.id).full.head.revision;
    let (stored, effects) = world.run(|hub| hub::attach(hub, &call(&held, &brought), &file));
    let stored = stored.unwrap();
    assert_eq!((stored.content_type.as_str(), stored.size), ("text/csv; charset=utf-8", 3));
    assert_eq!(effects.changed, std::slice::from_ref(&held.id), "whoever waits for the task is told");
    let detail = world.detail(&held.id);
    assert_eq!(detail.full.head.revision, revision + 1);
    let event = detail.events.last().unwrap();
    assert_eq!((event.kind, event.attempt, event.actor.as_str()), ("attached", 1, "executor:bot"));
    assert_eq!((event.data["file_id"].as_str(), event.data["name"].as_str()), (Some(&*stored.id), Some("a.csv")));
    assert_eq!(world.run(|hub| hub::attach(hub, &call(&held, &brought), &file)).0.unwrap(), stored);
    assert_eq!(world.run(|hub| hub::file(hub, &stored.id)).0.unwrap(), Some(stored));
    let long = NewFile { bytes: noise(CHUNK_BYTES + 1), ..file };
    let too_large = Err(FileRejected::TooLarge { bytes_max: CHUNK_BYTES as i64 });
    assert_eq!(world.run(|hub| hub::attach(hub, &call(&held, &brought), &long)).0, too_large);
}

/// Each row of a table or an index is billed.
#[test]
fn files_go_with_their_task() {
    let (world, held) = stage();
    attach(&world, &held, "a", &noise(2 * CHUNK_BYTES + 1)).unwrap();
    attach(&world, &held, "b", b"x").unwrap();
    break_off(&world, &held, "c", 1);
    world.does("result", &held, serde_json::json!({ "status": "completed" }));
    world.pass(30 * 86_400_000 + 1);
    purge(&world);
    assert_eq!(rows(&world), (0, 0));
    assert_eq!(totals(&world), (0, 0));
}

#[test]
fn a_purge_leaves_much_to_the_next_batch() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    for _ in 0..6 {
        let held = world.working("bot", &key);
        attach(&world, &held, "a", &noise(20 * CHUNK_BYTES)).unwrap();
        world.does("result", &held, serde_json::json!({ "status": "completed" }));
        world.pass(1);
    }
    world.pass(31 * 86_400_000);
    let left = |world: &World| world.db.rows("SELECT id FROM tasks").len();
    let next = world.run(|hub| hub::purge(hub, "")).0.unwrap().expect("there is more");
    assert_eq!((left(&world), rows(&world)), (2, (2, 40)), "64 MiB at a time, and the task that exceeds them");
    assert_eq!(world.run(|hub| hub::purge(hub, &next)).0.unwrap(), None);
    assert_eq!((left(&world), rows(&world)), (0, (0, 0)));
    assert_eq!(totals(&world), (0, 0));
}
