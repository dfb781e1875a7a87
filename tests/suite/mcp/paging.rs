//! Nothing is too long for one answer, no character is broken, and nothing is lost.

use serde_json::{Value as Json, json};
use taskhub::domain::limits::TOOL_RESULT_BYTES_MAX;

use super::client::{attempt, call, claim, submit};
use crate::support::{OWNER_TOKEN, World};

/// Texts that weigh the most in different ways: one to four bytes a character, and what JSON must escape once or twice.
const ALPHABETS: [&str; 6] = ["a", "é", "漢字", "👩‍👩‍👧", "\"\\", "\u{1}\n\t"];

fn long(alphabet: &str, bytes: usize) -> String {
    alphabet
        .chars()
        .cycle()
        .scan(0, |sum, c| {
            *sum += c.len_utf8();
            (*sum <= bytes).then_some(c)
        })
        .collect()
}

/// Reads a part page by page from `offset` on.
fn read_on(world: &World, id: &str, part: &str, mut offset: u64) -> String {
    let mut text = String::new();
    for _ in 0..100 {
        let task = call(world, "get_task", json!({ "task_id": id, "part": part, "offset": offset })).unwrap();
        let page = &task["page"];
        assert_eq!((&page["part"], &page["offset"]), (&json!(part), &json!(offset)));
        text.push_str(page["text"].as_str().unwrap());
        match page["next_offset"].as_u64() {
            Some(next) => {
                assert!(next > offset && task["next"].as_str().unwrap().contains(&next.to_string()));
                offset = next;
            }
            None => return text,
        }
    }
    panic!("the pages of {part} never end");
}

fn truncated<'t>(task: &'t Json, part: &str) -> Option<&'t Json> {
    task["truncated"].as_array().into_iter().flatten().find(|one| one["part"] == part)
}

fn finished(body: Json) -> (World, String) {
    let world = World::new();
    let key = world.executor("nas", &[]);
    let id = submit(&world, "nas");
    let claimed = claim(&world, &key);
    attempt(&world, &key, &claimed, "result", body);
    (world, id)
}

#[test]
fn long_results_are_read_in_pages() {
    for alphabet in ALPHABETS {
        let whole = long(alphabet, 100_000);
        let (world, id) = finished(json!({ "status": "completed", "result": whole }));
        let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
        let shown = task["result"].as_str().unwrap();
        assert!(whole.starts_with(shown) && shown.chars().count() > 1_000, "{alphabet:?}");
        let cut = truncated(&task, "result").expect("it is told");
        assert_eq!(cut["length"], json!(whole.chars().count()));
        assert_eq!(cut["next_offset"], json!(shown.chars().count()));
        assert!(task["next"].as_str().unwrap().contains("part and offset"));
        let rest = read_on(&world, &id, "result", cut["next_offset"].as_u64().unwrap());
        assert!(format!("{shown}{rest}") == whole, "{alphabet:?}");
        // An offset alone means the result.
        let page = call(&world, "get_task", json!({ "task_id": id, "offset": 10 })).unwrap();
        assert_eq!(page["page"]["part"], "result");
    }
}

#[test]
fn answers_are_used_to_the_full() {
    let (world, id) = finished(json!({ "status": "completed", "result": long("a", 200_000) }));
    let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
    assert!(2 * task["result"].as_str().unwrap().len() > TOOL_RESULT_BYTES_MAX * 8 / 10);
    let page = call(&world, "get_task", json!({ "task_id": id, "offset": 5 })).unwrap();
    assert!(2 * page["page"]["text"].as_str().unwrap().len() > TOOL_RESULT_BYTES_MAX * 8 / 10);
}

#[test]
fn offsets_beyond_the_end_and_parts_that_are_not_there() {
    let (world, id) = finished(json!({ "status": "completed", "result": "häß" }));
    for offset in [3_u64, 4, u64::MAX >> 12] {
        let page = call(&world, "get_task", json!({ "task_id": id, "offset": offset })).unwrap()["page"].clone();
        assert_eq!((&page["text"], &page["offset"], &page["length"]), (&json!(""), &json!(3), &json!(3)));
        assert!(page.get("next_offset").is_none());
    }
    let page = call(&world, "get_task", json!({ "task_id": id, "offset": 1 })).unwrap()["page"].clone();
    assert_eq!(page["text"], "äß");
    for part in ["data", "error", "question", "note", "messages", "earlier_attempts", "external_actions", "context"] {
        let text = call(&world, "get_task", json!({ "task_id": id, "part": part })).unwrap_err();
        assert!(text.starts_with("no_such_part: ") && text.contains(part), "{text}");
    }
}

#[test]
fn data_come_whole_or_in_pages() {
    let small = json!({ "rows": [1, 2, { "ä": null }] });
    let (world, id) = finished(json!({ "status": "completed", "data": small }));
    let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
    assert_eq!(task["data"], small);
    assert!(task.get("truncated").is_none());

    let rows: Vec<Json> = (0..2_000).map(|n| json!({ "n": n, "text": "漢\"字" })).collect();
    let large = json!({ "rows": rows });
    let (world, id) = finished(json!({ "status": "completed", "data": large, "result": "short" }));
    let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
    assert!(task.get("data").is_none());
    assert_eq!(task["result"], "short");
    assert_eq!(truncated(&task, "data").unwrap()["next_offset"], 0);
    let text = read_on(&world, &id, "data", 0);
    assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), large);
}

#[test]
fn everything_long_at_once_still_fits() {
    for alphabet in ALPHABETS {
        let world = World::new();
        let key = world.executor("nas", &[]);
        let arguments = json!({
            "title": long(alphabet, 200).replace(['\u{1}', '\n', '\t'], "x"), "executor": "nas",
            "instructions": long(alphabet, 65_000), "context": long(alphabet, 10_000),
        });
        let id = call(&world, "submit_task", arguments).unwrap()["task_id"].as_str().unwrap().to_owned();
        let text = |chars: usize| alphabet.chars().cycle().take(chars).collect::<String>();
        let claimed = claim(&world, &key);
        let is_thorough = alphabet == "漢字";
        let rounds = if is_thorough { 10 } else { 2 };
        for _ in 0..rounds {
            let question = json!({ "state": "input-required", "question": text(8_000), "note": text(2_000) });
            attempt(&world, &key, &claimed, "heartbeat", question);
            call(&world, "answer_task", json!({ "task_id": id, "answer": text(8_000) })).unwrap();
            attempt(&world, &key, &claimed, "heartbeat", json!({}));
        }
        let question = json!({ "state": "input-required", "question": text(8_000), "note": text(2_000) });
        attempt(&world, &key, &claimed, "heartbeat", question);
        let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
        assert!(task["question"].as_str().unwrap().chars().count() > 300, "{alphabet:?}");
        assert_eq!(task["messages"].as_array().map(Vec::len), Some(20.min(2 * rounds + 1)));
        assert!(task["messages"][0]["text"].as_str().unwrap().ends_with('…'));
        if is_thorough {
            assert!(read_on(&world, &id, "question", 0) == text(8_000));
            assert!(read_on(&world, &id, "instructions", 0) == long(alphabet, 65_000));
            let messages: Json = serde_json::from_str(&read_on(&world, &id, "messages", 0)).unwrap();
            assert!(messages[19]["text"] == json!(text(8_000)));
        }

        attempt(
            &world,
            &key,
            &claimed,
            "result",
            json!({
                "status": "failed", "error": text(8_000), "result": long(alphabet, 250_000), "data": long(alphabet, 40_000),
                "external_actions": [long(alphabet, 8_000)],
            }),
        );
        let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
        assert!(task["result"].as_str().unwrap().chars().count() > 300);
        assert!(truncated(&task, "error").is_some_and(|cut| cut["length"] == 8_000));
    }
}

#[test]
fn earlier_attempts_are_the_newest_and_all_can_be_read() {
    let world = World::new();
    let key = world.executor("nas", &[]);
    let arguments = json!({ "title": "x", "instructions": "y", "executor": "nas", "max_attempts": 100 });
    let id = call(&world, "submit_task", arguments).unwrap()["task_id"].as_str().unwrap().to_owned();
    for n in 1..=9 {
        let claimed = claim(&world, &key);
        let body = json!({ "note": format!("{n}{}", "é".repeat(1_990)) });
        attempt(&world, &key, &claimed, "release", body);
    }
    let task = call(&world, "get_task", json!({ "task_id": id })).unwrap();
    let attempts: Vec<u64> =
        task["earlier_attempts"].as_array().unwrap().iter().map(|one| one["attempt"].as_u64().unwrap()).collect();
    assert_eq!(attempts, [5, 6, 7, 8, 9]);
    let all: Json = serde_json::from_str(&read_on(&world, &id, "earlier_attempts", 0)).unwrap();
    assert_eq!(all.as_array().map(Vec::len), Some(9));
}

#[test]
fn lists_are_cut_to_fit_and_go_on_without_a_gap() {
    for (alphabet, page_size) in [("a", 50), ("漢", 50), ("\"", 50), ("👩", 20), ("é", 3)] {
        let world = World::new();
        world.executor("nas", &[]);
        let mut right = Vec::new();
        for _ in 0..57 {
            world.pass(1);
            let title: String = alphabet.chars().cycle().take(200).collect();
            let arguments = json!({ "title": title, "instructions": "y", "executor": "nas" });
            right.push(call(&world, "submit_task", arguments).unwrap()["task_id"].clone());
        }
        right.reverse();
        let mut found = Vec::new();
        let mut cursor = Json::Null;
        for _ in 0..60 {
            let page = call(&world, "list_tasks", json!({ "page_size": page_size, "cursor": cursor })).unwrap();
            found.extend(page["tasks"].as_array().unwrap().iter().map(|task| task["task_id"].clone()));
            cursor = page["next_cursor"].clone();
            if cursor.is_null() {
                break;
            }
            assert!(page["next"].as_str().unwrap().contains("next_cursor"));
        }
        assert_eq!(found, right, "{alphabet}");
    }
}

#[test]
fn many_executors_and_queues_fit() {
    let world = World::new();
    let mut names = Vec::new();
    for n in 0..64 {
        let name = format!("{n:02}{}", "e".repeat(38));
        let queues: Vec<String> = (0..16).map(|q| format!("{n:02}-{q:02}-{}", "q".repeat(58))).collect();
        let body = json!({ "name": name, "queues": queues });
        assert_eq!(world.call("POST", "/api/executors", OWNER_TOKEN, body).0, 201);
        names.push(json!(name));
    }
    let mut found = Vec::new();
    let mut cursor = Json::Null;
    for _ in 0..64 {
        let page = call(&world, "list_executors", json!({ "cursor": cursor })).unwrap();
        found.extend(page["executors"].as_array().unwrap().iter().map(|one| one["name"].clone()));
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(found, names);
    let status = call(&world, "hub_status", json!({})).unwrap();
    assert_eq!(status["left_out"], true);
    let text = call(&world, "submit_task", json!({ "title": "x", "instructions": "y", "queue": "none" })).unwrap_err();
    assert!(text.contains("24 more") && text.len() < 10_000, "{}", text.len());
    call(&world, "wake_executor", json!({ "executor": "none" })).unwrap_err();
}
