//! `/executor/*`

use serde_json::json;
use taskhub::hub::{Submit, submit};

use crate::support::World;

fn submitted(world: &World, executor: &str) -> String {
    let input = Submit {
        submitter: "owner".into(),
        title: "book a table".into(),
        instructions: "for two".into(),
        executor: Some(executor.into()),
        ..Submit::default()
    };
    world.run(|hub| submit(hub, &input)).0.expect("the task is taken").id
}

#[test]
fn the_main_job_end_to_end() {
    let world = World::new();
    let key = world.executor("bot", &["default"]);
    let id = submitted(&world, "bot");
    let (status, claim) = world.call("POST", "/executor/claim", &key, json!({ "request_id": "one" }));
    assert_eq!(status, 200, "{claim}");
    assert_eq!(claim["task"]["id"], json!(id));
    let token = &claim["claim_token"];
    let (status, beat) = world.call(
        "POST",
        "/executor/heartbeat",
        &key,
        json!({ "task_id": id, "claim_token": token, "note": "on it" }),
    );
    assert_eq!(status, 200, "{beat}");
    let result = json!({ "task_id": id, "claim_token": token, "status": "completed", "result": "20:00" });
    let (status, ended) = world.call("POST", "/executor/result", &key, result.clone());
    assert_eq!((status, &ended["state"]), (200, &json!("completed")), "{ended}");
    let again = world.call("POST", "/executor/result", &key, result);
    assert_eq!(again, (200, ended), "the same result again is the same answer");
}
