//! What a model is told when its arguments do not fit: which field, and what is right.

use serde_json::{Value as Json, json};

use super::client::{call, submit};
use crate::support::World;

fn told(tool: &str, arguments: Json) -> String {
    let world = World::new();
    world.executor("nas", &[]);
    let text = call(&world, tool, arguments).expect_err("it is refused");
    assert!(text.starts_with("invalid_arguments: "), "{text}");
    text
}

fn task(more: Json) -> Json {
    let mut arguments = json!({ "title": "x", "instructions": "y", "executor": "nas" });
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

#[test]
fn missing_fields_are_named_and_explained() {
    let text = told("submit_task", json!({ "executor": "nas" }));
    assert!(text.contains("submit_task needs title: What the task is, in one line."), "{text}");
    assert!(text.contains("submit_task needs instructions:"), "{text}");
    assert!(told("answer_task", json!({ "task_id": "t" })).contains("needs answer"));
}

#[test]
fn unknown_fields_are_named_with_the_valid_ones() {
    let text = told("submit_task", task(json!({ "depends_on": ["t"] })));
    assert!(text.contains("submit_task has no field \"depends_on\"; its fields are "), "{text}");
    assert!(text.contains("title (required)") && text.contains("deadline_seconds"), "{text}");
    assert!(told("hub_status", json!({ "verbose": true })).contains("it takes none"));
    let long = "ä".repeat(5_000);
    assert!(told("hub_status", json!({ long: 1 })).len() < 400);
}

#[test]
fn wrong_values_are_named_with_the_rule() {
    let cases = [
        (json!({ "title": 5 }), "title must be a text, but it is a number."),
        (json!({ "title": "" }), "title must not be empty."),
        (json!({ "title": "ä".repeat(201) }), "title must have 1 to 200 characters, but it has 201."),
        (json!({ "title": "a\u{0}b" }), "title must not contain the character U+0000."),
        (json!({ "context": { "a": ["\u{0}"] } }), "context must not contain"),
        (json!({ "priority": "high" }), "priority must be a whole number from 0 to 9, but it is a text."),
        (json!({ "priority": 10 }), "priority must be a whole number from 0 to 9, but it is 10."),
        (json!({ "priority": 2.5 }), "but it is 2.5."),
        (json!({ "priority": -1 }), "but it is -1."),
        (json!({ "max_attempts": 0 }), "from 1 to 100"),
        (json!({ "deadline_seconds": 1e300 }), "from 1 to 31536000"),
        (json!({ "executor": ["nas"] }), "executor must be a text, but it is a list."),
    ];
    for (wrong, rule) in cases {
        let text = told("submit_task", task(wrong.clone()));
        assert!(text.contains(rule), "{wrong}: {text}");
    }
    assert!(told("list_tasks", json!({ "states": "working" })).contains("states must be a list, but it is a text."));
    assert!(told("list_tasks", json!({ "states": [5] })).contains("each item of which must be a text"));
    assert!(told("get_task", json!({ "task_id": "t", "wait_seconds": 51 })).contains("from 0 to 50"));
    assert!(told("get_task", json!({ "task_id": "t", "part": "everything" })).contains("must be one of result, data,"));
    assert!(told("get_task", json!({ "task_id": "t", "offset": -1 })).contains("at least 0"));
}

#[test]
fn all_faults_are_told_at_once() {
    let text = told("submit_task", json!({ "title": 1, "priority": "x", "nonsense": 1 }));
    for part in ["title", "instructions", "priority", "nonsense"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_clients_make_of_right_arguments_is_taken() {
    let world = World::new();
    world.executor("nas", &[]);
    let arguments = task(json!({ "priority": 7.0, "queue": null, "context": null, "deadline": null }));
    let id = call(&world, "submit_task", arguments).unwrap()["task_id"].clone();
    let task = call(&world, "get_task", json!({ "task_id": id, "wait_seconds": 0.0 })).unwrap();
    assert_eq!(task["priority"], 7);
}

#[test]
fn limits_of_the_hub_itself_are_told_too() {
    let text = told("submit_task", task(json!({ "instructions": "x".repeat(70_000) })));
    assert!(text.contains("instructions") && text.contains("65536"), "{text}");
    let text = told("submit_task", task(json!({ "context": "x".repeat(70_000) })));
    assert!(text.contains("context"), "{text}");
    let text = told("submit_task", task(json!({ "idempotency_key": "ä".repeat(150) })));
    assert!(text.contains("idempotency_key"), "{text}");
    let world = World::new();
    world.executor("nas", &[]);
    let id = submit(&world, "nas");
    assert!(call(&world, "cancel_task", json!({ "task_id": id, "reason": "x".repeat(2_001) })).is_err());
}

/// A model may put its claim token into the wrong field; a transcript of the refusal must not hold it.
#[test]
fn a_wrong_word_is_repeated_and_anything_else_is_not() {
    let world = World::new();
    world.executor("bot", &[]);
    let bearer = world.connected_as("bot").access;
    let token = "clm_1.AAAAAAAAAAAAAAAAAAAAAA";
    for (status, is_repeated) in [("done", true), ("COMPLETED", true), (token, false), ("a b", false), ("é", false)] {
        let arguments = json!({ "task_id": "t_000000000_0000000000000000", "claim_token": token, "status": status });
        let response = world.tool(&bearer, "finish_task", arguments);
        let text = String::from_utf8(response.body).expect("UTF-8");
        assert!(text.contains("status must be one of"), "{text}");
        assert_eq!(text.contains(status), is_repeated, "{text}");
    }
}

#[test]
fn a_number_that_is_none_is_told_by_its_kind() {
    let world = World::new();
    world.executor("bot", &[]);
    let bearer = world.connected_as("bot").access;
    let token = "clm_1.AAAAAAAAAAAAAAAAAAAAAA";
    for (progress, says) in [
        (json!(token), "progress must be a number"),
        (json!(true), "progress must be a number"),
        (json!([0.5]), "progress must be a number"),
    ] {
        let id = "t_000000000_0000000000000000";
        let arguments = json!({ "task_id": id, "claim_token": "x", "progress": progress });
        let text = String::from_utf8(world.tool(&bearer, "heartbeat_task", arguments).body).expect("UTF-8");
        assert!(text.contains(says) && !text.contains(token) && !text.contains("f64"), "{text}");
    }
}
