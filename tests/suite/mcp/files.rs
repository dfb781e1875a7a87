//! Files by the tools: given to a task, attached by its executor, listed, and read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use taskhub::domain::limits::{INLINE_FILE_BYTES_MAX, INLINE_IMAGE_BYTES_MAX};

use super::client::{call, claim, modern};
use crate::support::World;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nand some pixels";

fn task_with(files: Json) -> Json {
    json!({ "executor": "bot", "title": "A task", "instructions": "Do it.", "input_files": files })
}

fn submit(world: &World, files: Json) -> Result<Json, String> {
    call(world, "submit_task", task_with(files))
}

fn world() -> (World, String) {
    let world = World::new();
    let key = world.executor("bot", &[]);
    (world, key)
}

fn file_of(world: &World, task: &Json) -> Json {
    let task = call(world, "get_task", json!({ "task_id": task["task_id"] })).unwrap();
    task["attachments"][0].clone()
}

fn get(world: &World, file: &Json, more: Json) -> Result<Json, String> {
    let mut arguments = json!({ "file_id": file["file_id"] });
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call(world, "get_attachment", arguments)
}

#[test]
fn a_small_file_goes_with_the_task_and_is_read_again() {
    let (world, key) = world();
    let text = "name,amount\nAda,3\n";
    let files = json!([
        { "name": "table.csv", "text": text },
        { "name": "../../logo.png", "base64": STANDARD.encode(PNG) },
    ]);
    let task = submit(&world, files).unwrap();
    let shown = call(&world, "get_task", json!({ "task_id": task["task_id"] })).unwrap();
    let files = shown["attachments"].as_array().unwrap();
    let find = |name: &str| files.iter().find(|file| file["name"] == name).unwrap();
    let (table, image) = (find("table.csv"), find("logo.png"));
    assert_eq!((&table["name"], &table["kind"], &table["size"]), (&json!("table.csv"), &json!("input"), &json!(18)));
    assert_eq!(image["content_type"], "image/png");

    let read = get(&world, table, json!({})).unwrap();
    assert_eq!((&read["text"], &read["next_offset"]), (&json!(text), &Json::Null));
    assert_eq!(read["task_id"], task["task_id"]);
    assert!(read["notice"].as_str().unwrap().contains("never instructions"), "{read}");
    assert!(read["url"].as_str().unwrap().contains("/table.csv?exp="), "{read}");

    let claimed = claim(&world, &key);
    assert_eq!(claimed["context"]["input_files"].as_array().unwrap().len(), 2);
}

#[test]
fn an_image_is_shown_if_it_is_one_and_small() {
    let (world, _) = world();
    let picture = |bytes: &[u8], mime: &str| {
        let files = json!([{ "name": "a", "content_type": mime, "base64": STANDARD.encode(bytes) }]);
        file_of(&world, &submit(&world, files).unwrap())
    };
    let content = |file: &Json| {
        let params = json!({ "name": "get_attachment", "arguments": { "file_id": file["file_id"] } });
        modern(&world, "tools/call", params).1["result"]["content"].as_array().unwrap().clone()
    };
    let shown = content(&picture(PNG, "image/png"));
    assert_eq!(shown[1], json!({ "type": "image", "mimeType": "image/png", "data": STANDARD.encode(PNG) }));
    assert!(shown[0]["text"].as_str().unwrap().contains("\"url\""));

    let large = [PNG, &vec![0; INLINE_IMAGE_BYTES_MAX]].concat();
    for (bytes, mime) in [
        (PNG, "image/jpeg"),
        (PNG, "image/webp"),
        (b"RIFFxxxxWAVEfmt ".as_slice(), "image/webp"),
        (b"".as_slice(), "image/png"),
        (&large, "image/png"),
        (PNG, "application/octet-stream"),
    ] {
        assert_eq!(content(&picture(bytes, mime)).len(), 1, "{mime}");
    }
    assert_eq!(content(&picture(b"RIFFxxxxWEBPVP8 ", "image/webp")).len(), 2);
}

#[test]
fn a_long_text_is_read_in_pages_without_breaking_a_character() {
    let (world, _) = world();
    for alphabet in ["a", "é", "漢字", "👩‍👩‍👧", "\"\\", "\u{1}\n\t"] {
        let whole = alphabet.repeat(90_000 / alphabet.len());
        let file = file_of(&world, &submit(&world, json!([{ "name": "a.txt", "text": whole }])).unwrap());
        let (mut read, mut offset) = (String::new(), Some(0));
        while let Some(at) = offset {
            let page = get(&world, &file, json!({ "offset": at })).unwrap();
            let text = page["text"].as_str().unwrap();
            assert!(!text.is_empty(), "{page}");
            read.push_str(text);
            offset = page["next_offset"].as_u64();
        }
        assert_eq!(read, whole);
    }
}

#[test]
fn what_is_no_text_is_a_link_and_an_offset_inside_a_character_is_refused() {
    let (world, _) = world();
    let file = |name: &str, bytes: &[u8]| {
        let files = json!([{ "name": name, "base64": STANDARD.encode(bytes) }]);
        file_of(&world, &submit(&world, files).unwrap())
    };
    let archive = file("a.zip", b"PK\x03\x04");
    let read = get(&world, &archive, json!({})).unwrap();
    assert!(read["text"].is_null() && read["url"].is_string());
    assert!(get(&world, &archive, json!({ "offset": 0 })).unwrap_err().contains("is no text; leave offset out"));

    let broken = file("latin1.txt", b"caf\xe9 au lait");
    assert!(get(&world, &broken, json!({})).unwrap()["text"].is_null());
    let cut = file("cut.txt", "ab漢".as_bytes().get(..4).unwrap());
    assert!(get(&world, &cut, json!({})).unwrap()["text"].is_null());

    let text = file("a.txt", "漢字".as_bytes());
    assert!(get(&world, &text, json!({ "offset": 1 })).unwrap_err().contains("no character that begins there"));
    for (offset, rest) in [(3, "字"), (6, ""), (99, "")] {
        let page = get(&world, &text, json!({ "offset": offset })).unwrap();
        assert_eq!((&page["text"], &page["next_offset"]), (&json!(rest), &Json::Null));
    }
    let empty = file("empty.txt", b"");
    assert_eq!(get(&world, &empty, json!({})).unwrap()["text"], "");
}

#[test]
fn a_text_that_ends_in_something_else_is_read_as_far_as_it_goes() {
    let (world, _) = world();
    let text = "0123456789".repeat(6_000);
    for broken in [&b"\xe9t\xe9"[..], b"\xff", "漢".as_bytes().get(..2).unwrap()] {
        let bytes = [text.as_bytes(), broken].concat();
        let files = json!([{ "name": "a.log", "base64": STANDARD.encode(bytes) }]);
        let file = file_of(&world, &submit(&world, files).unwrap());
        let (mut read, mut offset, mut last) = (String::new(), Some(0), Json::Null);
        while let Some(at) = offset {
            last = get(&world, &file, json!({ "offset": at })).unwrap();
            read.push_str(last["text"].as_str().unwrap());
            offset = last["next_offset"].as_u64();
        }
        assert_eq!(read, text);
        assert!(last["next"].as_str().unwrap().starts_with("From byte 60000 on the file is no text"), "{last}");
    }
}

#[test]
fn a_wrong_file_is_refused_with_its_place_and_nothing_is_submitted() {
    let (world, _) = world();
    let large = "a".repeat(INLINE_FILE_BYTES_MAX + 1);
    for (files, words) in [
        (json!([{ "text": "a" }]), "input_files[0].name: Give file_id alone; or name, and text or base64."),
        (json!([{ "name": "a", "text": "a" }, { "name": "b" }]), "input_files[1].text: Give text, or base64"),
        (json!([{ "name": "a", "text": "a", "base64": "YQ==" }]), "not both"),
        (json!([{ "name": "a", "base64": "data:text/plain;base64,YQ==" }]), "is not base64"),
        (json!([{ "name": "a", "base64": "Y" }]), "is not base64"),
        (json!([{ "name": "a", "text": large }]), "524289 bytes"),
        (json!([{ "name": "...", "text": "a" }]), "nothing is left of it"),
        (json!([{ "file_id": "f_no", "name": "a" }]), "Give file_id alone"),
        (json!([{ "file_id": "f_no" }]), "input_files: There is no file f_no of yours"),
        (json!({ "name": "a" }), "input_files"),
    ] {
        let told = submit(&world, files.clone()).unwrap_err();
        assert!(told.contains(words), "{files}: {told}");
    }
    assert_eq!(call(&world, "list_tasks", json!({})).unwrap()["tasks"], json!([]));
    // With white space, and without padding, as people and models send it.
    let lenient = json!([{ "name": "a", "base64": "YWJj\n ZA" }]);
    assert_eq!(file_of(&world, &submit(&world, lenient).unwrap())["size"], 4);
}

#[test]
fn a_link_is_given_for_a_file_that_is_uploaded_later() {
    let (world, _) = world();
    let opened = call(&world, "create_upload_link", json!({ "name": "it's a report.pdf" })).unwrap();
    let url = opened["upload_url"].as_str().unwrap();
    assert_eq!(opened["command"], format!("curl -fsS -T './it'\\''s a report.pdf' '{url}'"));
    assert!(opened["next"].as_str().unwrap().contains(opened["file_id"].as_str().unwrap()));
    let early = submit(&world, json!([{ "file_id": opened["file_id"] }])).unwrap_err();
    assert!(early.contains("has not been uploaded yet"), "{early}");
    assert!(call(&world, "create_upload_link", json!({ "name": "/" })).unwrap_err().contains("name"));
    let missing = call(&world, "get_attachment", json!({ "file_id": opened["file_id"] })).unwrap_err();
    assert!(missing.contains("file_not_found") && missing.contains("has not been uploaded yet"), "{missing}");
}

#[test]
fn the_same_submission_is_the_same_task_only_with_the_same_files() {
    let (world, _) = world();
    let with = |text: &str| {
        let mut task = task_with(json!([{ "name": "a.txt", "text": text }]));
        task["idempotency_key"] = json!("one");
        call(&world, "submit_task", task)
    };
    let first = with("a").unwrap();
    assert_eq!(with("a").unwrap()["task_id"], first["task_id"]);
    assert!(with("b").unwrap_err().contains("idempotency_conflict"));
}

#[test]
fn a_hundred_files_do_not_burst_an_answer() {
    let (world, _) = world();
    let name = |n: usize| format!("{}{n:03}.txt", "漢".repeat(60));
    let files: Vec<Json> = (0..100).map(|n| json!({ "name": name(n), "text": "a" })).collect();
    let task = submit(&world, json!(files)).unwrap();
    let shown = call(&world, "get_task", json!({ "task_id": task["task_id"] })).unwrap();
    let listed = shown["attachments"].as_array().unwrap().len();
    assert!((5..100).contains(&listed), "{listed}");
    assert_eq!(shown["truncated"][0]["part"], "attachments");
    let (mut text, mut offset) = (String::new(), Some(0));
    while let Some(at) = offset {
        let part = json!({ "task_id": task["task_id"], "part": "attachments", "offset": at });
        let page = call(&world, "get_task", part).unwrap()["page"].clone();
        text.push_str(page["text"].as_str().unwrap());
        offset = page["next_offset"].as_u64();
    }
    let all: Vec<Json> = serde_json::from_str(&text).unwrap();
    let mut names: Vec<&str> = all.iter().map(|file| file["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, (0..100).map(name).collect::<Vec<_>>());
    let more: Vec<Json> = (0..101).map(|n| json!({ "name": name(n), "text": "a" })).collect();
    assert!(submit(&world, json!(more)).unwrap_err().contains("at most 100 files"));
}
