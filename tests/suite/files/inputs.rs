//! Files of submitters: within a submission, by a link, shared with a retry, and those that no task takes.

use taskhub::domain::file::{FileKind, sha256_of};
use taskhub::domain::ids::FileId;
use taskhub::domain::limits::{CHUNK_BYTES, LOOSE_FILE_MS, LOOSE_FILES_MAX, TASK_FILES_MAX, UPLOAD_MS};
use taskhub::hub::{self, FileRejected, InputFile, NewFile, Submit, SubmitRejected, Upload, UploadTo, Uploaded};

use super::{attach, bring, noise, purge, read, rows, totals, upload};
use crate::support::{World, task_for};

const DAY_MS: i64 = 86_400_000;

fn inline(name: &str, bytes: &[u8]) -> InputFile {
    InputFile::Inline(NewFile { name: name.to_owned(), content_type: None, bytes: bytes.to_vec() })
}

fn uploaded(id: &str) -> InputFile {
    InputFile::Uploaded { file_id: id.to_owned() }
}

fn with(inputs: Vec<InputFile>) -> Submit {
    Submit { inputs, ..task_for("bot") }
}

fn stage() -> (World, String) {
    let world = World::new();
    let key = world.executor("bot", &[]);
    (world, key)
}

fn open(world: &World, name: &str) -> FileId {
    let link = world.run(|hub| hub::open_upload(hub, "owner", name, None)).0.unwrap();
    FileId::parse(&link.file_id).unwrap()
}

fn refusal(world: &World, submit: &Submit) -> String {
    let before = world.db.dump();
    let outcome = world.run(|hub| hub::submit(hub, submit)).0;
    assert_eq!(world.db.dump(), before);
    match outcome {
        Err(SubmitRejected::Invalid { field: "input_files", detail }) => detail,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_task_is_submitted_with_its_files() {
    let (world, key) = stage();
    let long = noise(CHUNK_BYTES + 7);
    let id = world.submit(&with(vec![inline("../a.txt", b"hello"), inline("b.bin", &long), inline("empty", b"")]));
    let files = world.run(|hub| hub::attachments(hub, &id)).0.unwrap();
    let told: Vec<_> = files.iter().map(|file| (file.name.as_str(), file.size, file.kind, file.attempt)).collect();
    let right = [("a.txt", 5), ("b.bin", long.len() as i64), ("empty", 0)];
    let right: Vec<_> = right.into_iter().map(|(name, size)| (name, size, FileKind::Input, None)).collect();
    assert_eq!(told.len(), right.len());
    assert!(right.iter().all(|file| told.contains(file)), "{told:?}");
    assert_eq!(totals(&world), (3, 5 + long.len() as i64));
    let (_, claim) = world.call("POST", "/executor/claim", &key, serde_json::json!({}));
    let given = claim["context"]["input_files"].as_array().unwrap();
    assert_eq!(given.len(), 3);
    let first = given.iter().find(|file| file["name"] == "a.txt").unwrap();
    assert_eq!((&first["size"], &first["content_type"]), (&5.into(), &"text/plain; charset=utf-8".into()));
    assert_eq!(first["sha256"], sha256_of(b"hello"));
    let url = first["url"].as_str().unwrap();
    assert!(
        url.starts_with(&format!("https://hub.example/files/{}/a.txt?exp=", first["id"].as_str().unwrap())),
        "{url}"
    );
    assert_eq!(first["url_expires_at"], world.now() + 900_000);
    assert_eq!(claim["context"]["files"], serde_json::json!([]));
}

#[test]
fn an_attempt_is_given_what_the_one_before_left() {
    let (world, key) = stage();
    world.submit(&with(vec![inline("in.txt", b"in")]));
    let held = world.claim(&key);
    attach(&world, &held, "out.txt", b"out").unwrap();
    world.does("release", &held, serde_json::json!({}));
    let (_, claim) = world.call("POST", "/executor/claim", &key, serde_json::json!({}));
    let files = &claim["context"]["files"];
    assert_eq!((&files[0]["name"], &files[0]["attempt"]), (&"out.txt".into(), &1.into()));
    assert_eq!(claim["context"]["input_files"][0]["name"], "in.txt");
}

#[test]
fn a_repeated_submission_is_the_same_and_another_file_is_not() {
    let (world, _) = stage();
    let keyed = |inputs| Submit { idempotency_key: Some("k".to_owned()), ..with(inputs) };
    let first = world.submit(&keyed(vec![inline("a", b"x")]));
    assert_eq!(world.submit(&keyed(vec![inline("a", b"x")])), first);
    assert_eq!(rows(&world), (1, 1));
    for others in [vec![], vec![inline("a", b"y")], vec![inline("b", b"x")], vec![inline("a", b"x"), inline("a", b"x")]]
    {
        let outcome = world.run(|hub| hub::submit(hub, &keyed(others.clone()))).0;
        assert!(matches!(outcome, Err(SubmitRejected::IdempotencyConflict { .. })), "{outcome:?}");
    }
}

#[test]
fn a_submission_with_a_file_that_cannot_be_taken_is_no_task() {
    let world = World::with(&[("ATTACHMENT_MAX_BYTES", "1024"), ("TASK_ATTACHMENTS_MAX_BYTES", "2048")]);
    world.executor("bot", &[]);
    let file = |bytes| inline("a", &noise(bytes));
    assert!(refusal(&world, &with(vec![inline("..", b"x")])).contains("cannot be a file's name"));
    assert!(refusal(&world, &with(vec![file(1025)])).contains("1024 bytes"));
    assert!(refusal(&world, &with(vec![file(1024), file(1024), file(1)])).contains("2048 bytes"));
    let many = vec![inline("a", b""); TASK_FILES_MAX + 1];
    assert!(refusal(&world, &with(many)).contains("at most 100 files"));
    for junk in ["", "f_", "t_0mywpiww0_158x31s8cbqgtbdq", FileId::new(world.now(), [1; 10]).as_str()] {
        assert!(refusal(&world, &with(vec![uploaded(junk)])).contains("There is no file"), "{junk}");
    }
    world.submit(&with(vec![file(1024), file(1024)]));
}

#[test]
fn a_file_that_was_uploaded_by_a_link_is_given_to_tasks() {
    let (world, key) = stage();
    let link = world.run(|hub| hub::open_upload(hub, "owner", "dir/data.bin", Some("text/csv"))).0.unwrap();
    assert_eq!((link.name.as_str(), link.content_type.as_str()), ("data.bin", "text/csv"));
    assert_eq!((link.expires_at, link.bytes_max), (world.now() + UPLOAD_MS, 26_214_400));
    assert!(link.url.starts_with(&format!("https://hub.example/files/{}?exp=", link.file_id)), "{}", link.url);
    assert!(refusal(&world, &with(vec![uploaded(&link.file_id)])).contains("has not been uploaded yet"));
    let id = FileId::parse(&link.file_id).unwrap();
    let bytes = noise(CHUNK_BYTES + 9);
    let (file, existed) = bring(&world, &upload(UploadTo::Link(&id)), &bytes).unwrap();
    assert_eq!((file.id.as_str(), file.task_id.as_deref(), existed), (id.as_str(), None, false));
    assert_eq!((file.content_type.as_str(), file.sha256.as_str()), ("text/csv", sha256_of(&bytes).as_str()));
    let foreign = Submit { submitter: "other".to_owned(), ..with(vec![uploaded(id.as_str())]) };
    assert!(refusal(&world, &foreign).contains("There is no file"), "another's file is none");
    let first = world.submit(&with(vec![uploaded(id.as_str())]));
    assert_eq!(rows(&world), (1, 2));
    let second = world.submit(&with(vec![uploaded(id.as_str()), uploaded(id.as_str())]));
    assert_eq!(rows(&world), (3, 2), "tasks share one content");
    assert_eq!(totals(&world), (3, bytes.len() as i64));
    for task in [&first, &second] {
        for file in world.run(|hub| hub::attachments(hub, task)).0.unwrap() {
            assert!(read(&world, &file.id) == bytes);
            assert_eq!(file.task_id.as_ref(), Some(task));
        }
    }
    world.pass(2 * DAY_MS);
    purge(&world);
    assert_eq!(rows(&world), (3, 2), "a file that a task has does not end by itself");
    for task in [&first, &second] {
        let held = world.claim(&key);
        assert_eq!(held.id, *task);
        world.does("result", &held, serde_json::json!({ "status": "completed" }));
        world.pass(20 * DAY_MS);
    }
    purge(&world);
    assert_eq!(
        (rows(&world), totals(&world)),
        ((2, 2), (2, bytes.len() as i64)),
        "the first is gone, its content is not"
    );
    world.pass(20 * DAY_MS);
    purge(&world);
    assert_eq!((rows(&world), totals(&world)), ((0, 0), (0, 0)));
}

#[test]
fn a_link_brings_one_content() {
    let (world, _) = stage();
    let id = open(&world, "a.txt");
    let link = upload(UploadTo::Link(&id));
    let bytes = noise(CHUNK_BYTES + 1);
    let sha256 = sha256_of(&bytes);
    let wrong = Upload { sha256: Some("0"), ..link.clone() };
    assert_eq!(bring(&world, &wrong, &bytes), Err(FileRejected::WrongHash { found: sha256.clone() }));
    assert_eq!(rows(&world), (1, 0), "the link is still good");
    bring(&world, &link, &bytes).unwrap();
    let before = world.db.dump();
    assert!(bring(&world, &link, &bytes).unwrap().1, "the same again");
    let announced = Upload { sha256: Some(&sha256), ..link.clone() };
    assert!(matches!(world.run(|hub| hub::begin_upload(hub, &announced)).0, Ok(Uploaded::Done { existed: true, .. })));
    let taken = Err(FileRejected::Taken { sha256: sha256.clone() });
    assert_eq!(bring(&world, &link, b"other"), taken);
    assert_eq!(bring(&world, &link, &noise(CHUNK_BYTES + 2)), taken);
    assert_eq!(world.run(|hub| hub::begin_upload(hub, &wrong)).0, Err(FileRejected::Taken { sha256 }));
    assert_eq!(world.db.dump(), before);
}

#[test]
fn the_later_of_two_uploads_by_one_link_takes_its_place() {
    let (world, _) = stage();
    let id = open(&world, "a.txt");
    let link = upload(UploadTo::Link(&id));
    let piece = || noise(CHUNK_BYTES);
    let begin = || match world.run(|hub| hub::begin_upload(hub, &link)).0.unwrap() {
        Uploaded::More(receiving) => receiving,
        done => panic!("{done:?}"),
    };
    let more = |receiving: &_| match world.run(|hub| hub::take_piece(hub, &link, receiving, piece(), false)).0 {
        Ok(Uploaded::More(receiving)) => Ok(receiving),
        Err(rejected) => Err(rejected),
        Ok(done) => panic!("{done:?}"),
    };
    let first = more(&begin()).unwrap();
    let second = more(&begin()).unwrap();
    assert_eq!(rows(&world), (1, 1), "the first has made way");
    assert_eq!(more(&first), Err(FileRejected::Displaced));
    let done = world.run(|hub| hub::take_piece(hub, &link, &second, b"end".to_vec(), true)).0;
    assert!(matches!(done, Ok(Uploaded::Done { existed: false, .. })));
    assert!(matches!(more(&first), Err(FileRejected::Taken { .. })), "what comes now is compared with what is there");
    let end = world.run(|hub| hub::take_piece(hub, &link, &first, b"other".to_vec(), true)).0;
    assert!(matches!(end, Err(FileRejected::Taken { .. })), "{end:?}");
    assert_eq!(rows(&world), (1, 2));
}

#[test]
fn what_no_task_takes_ends_after_its_time() {
    let (world, _) = stage();
    let (never, used) = (open(&world, "never"), open(&world, "used"));
    bring(&world, &upload(UploadTo::Link(&used)), b"x").unwrap();
    world.pass(2 * UPLOAD_MS - 1);
    purge(&world);
    assert_eq!(rows(&world), (2, 1), "who begins at the last moment has an hour");
    world.pass(1);
    purge(&world);
    assert_eq!(rows(&world), (1, 1));
    assert_eq!(bring(&world, &upload(UploadTo::Link(&never)), b"x"), Err(FileRejected::NotFound));
    world.pass(LOOSE_FILE_MS - 2 * UPLOAD_MS);
    purge(&world);
    assert_eq!((rows(&world), totals(&world)), ((0, 0), (0, 0)));
}

#[test]
fn an_upload_that_is_purged_in_the_middle_leaves_nothing() {
    let (world, _) = stage();
    let id = open(&world, "a");
    let link = upload(UploadTo::Link(&id));
    let Uploaded::More(begun) = world.run(|hub| hub::begin_upload(hub, &link)).0.unwrap() else { panic!() };
    let step = world.run(|hub| hub::take_piece(hub, &link, &begun, noise(CHUNK_BYTES), false)).0.unwrap();
    let Uploaded::More(receiving) = step else { panic!() };
    world.pass(2 * UPLOAD_MS);
    purge(&world);
    assert_eq!(rows(&world), (0, 0));
    let end = world.run(|hub| hub::take_piece(hub, &link, &receiving, vec![], true)).0;
    assert_eq!(end, Err(FileRejected::NotFound));
    assert_eq!(rows(&world), (0, 0));
}

#[test]
fn so_many_files_may_wait_for_a_task() {
    let (world, _) = stage();
    for _ in 0..LOOSE_FILES_MAX {
        open(&world, "a");
    }
    let refused = Err(FileRejected::TooManyLoose { files_max: LOOSE_FILES_MAX });
    assert_eq!(world.run(|hub| hub::open_upload(hub, "owner", "a", None)).0, refused);
    assert_eq!(world.run(|hub| hub::open_upload(hub, "owner", "/", None)).0, Err(FileRejected::NoName));
    world.pass(2 * UPLOAD_MS);
    for _ in 0..LOOSE_FILES_MAX / 10 {
        purge(&world);
    }
    assert_eq!(rows(&world), (0, 0), "a few at a time");
    open(&world, "a");
}

#[test]
fn files_whose_time_is_over_take_nobodys_place() {
    let (world, _) = stage();
    for _ in 0..LOOSE_FILES_MAX {
        open(&world, "a");
    }
    world.pass(2 * UPLOAD_MS);
    for _ in 0..2 * LOOSE_FILES_MAX {
        open(&world, "b");
        world.pass(2 * UPLOAD_MS / i64::from(LOOSE_FILES_MAX));
        assert!(rows(&world).0 <= LOOSE_FILES_MAX as usize, "no purge has come by");
    }
    world.pass(2 * UPLOAD_MS);
    let mut batches = 1;
    while world.run(hub::purge_files).0.unwrap() {
        batches += 1;
    }
    assert!(
        rows(&world) == (0, 0) && batches > 5,
        "one purge goes on until nothing is left, a few at a time: {batches}"
    );
}

#[test]
fn a_retry_shares_the_inputs_and_not_the_outputs() {
    let (world, key) = stage();
    let bytes = noise(CHUNK_BYTES + 3);
    let first = world.submit(&with(vec![inline("in.bin", &bytes)]));
    let held = world.claim(&key);
    attach(&world, &held, "out", b"out").unwrap();
    world.does("result", &held, serde_json::json!({ "status": "failed" }));
    let retry = world.run(|hub| hub::retry_task(hub, "owner", &first)).0.unwrap();
    assert_eq!(rows(&world), (3, 3));
    assert_eq!(totals(&world), (3, bytes.len() as i64 + 3));
    assert_eq!(world.run(|hub| hub::retry_task(hub, "owner", &first)).0.unwrap().id, retry.id);
    let files = world.run(|hub| hub::attachments(hub, &retry.id)).0.unwrap();
    assert_eq!((files.len(), files[0].name.as_str(), files[0].kind), (1, "in.bin", FileKind::Input));
    world.pass(31 * DAY_MS);
    purge(&world);
    assert_eq!(world.detail(&retry.id).full.head.retry_of.as_deref(), Some(first.as_str()));
    assert_eq!(
        (rows(&world), totals(&world)),
        ((1, 2), (1, bytes.len() as i64)),
        "the bytes outlive the task they came with"
    );
    assert!(read(&world, &files[0].id) == bytes);
    let again = world.claim(&key);
    world.does("result", &again, serde_json::json!({ "status": "completed" }));
    world.pass(31 * DAY_MS);
    purge(&world);
    assert_eq!((rows(&world), totals(&world)), ((0, 0), (0, 0)));
}
