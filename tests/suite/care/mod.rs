//! What the owner does for executors, and what the hub knows of them: presence, switches, keys, limits, approval, and how
//! they go.

mod approval;
mod enrolment;
mod keys;
mod limits;
mod presence;
mod removal;
mod switches;

use serde_json::{Value as Json, json};

use crate::mcp::client::call;
use crate::support::World;

/// The executor as the list shows it.
fn shown(world: &World, name: &str) -> Json {
    let (status, list) = world.owner("GET", "/api/executors", Json::Null);
    assert_eq!(status, 200, "{list}");
    let all = list["executors"].as_array().expect("a list").clone();
    all.into_iter().find(|executor| executor["name"] == name).unwrap_or_else(|| panic!("{name} is not listed"))
}

/// Changes an executor; the answer is as the list shows it.
fn change(world: &World, name: &str, change: Json) -> Json {
    let (status, answer) = world.owner("PATCH", &format!("/api/executors/{name}"), change);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer, shown(world, name), "it is answered as the list shows it");
    answer
}

/// The status of an empty claim, or of a claim that finds something.
fn claim_status(world: &World, key: &str) -> u16 {
    world.call("POST", "/executor/claim", key, json!({})).0
}

fn ping(world: &World, key: &str) -> Json {
    let (status, pong) = world.call("POST", "/executor/ping", key, json!({}));
    assert_eq!(status, 200, "{pong}");
    pong
}

/// The text of a tool's error of this code.
fn refused(world: &World, tool: &str, arguments: Json, code: &str) -> String {
    let text = call(world, tool, arguments).expect_err("it is refused");
    assert!(text.starts_with(&format!("{code}: ")), "{text}");
    text
}

/// What the owner API says needs attention about a task.
fn attention(world: &World, id: &str) -> Option<String> {
    let (status, answer) = world.owner("GET", &format!("/api/tasks/{id}"), Json::Null);
    assert_eq!(status, 200, "{answer}");
    answer["attention"].as_str().map(str::to_owned)
}
