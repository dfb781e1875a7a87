//! What the owner sees of the outbox, and can do about it.

use serde_json::{Value as Json, json};
use taskhub::hub::{self, Delivery};

use super::{TOLD, only, with_callback};
use crate::mcp::client::call;
use crate::support::World;

/// A hub with a callback that was given up.
fn given_up() -> (World, String) {
    let world = World::new();
    world.executor("bot", &[]);
    let id = world.submit(&with_callback());
    let mut order = only(world.run(|hub| hub::cancel(hub, "owner", &id, None)).1);
    for _ in 0..7 {
        world.record(&order, Delivery::rejected("answered 500"));
        order = only(world.pass_and_sweep(8_640_000));
    }
    world.record(&order, Delivery::rejected("answered 500"));
    (world, format!("end_{id}"))
}

fn outbox(world: &World) -> Json {
    let (status, answer) = world.owner("GET", "/api/outbox", json!(null));
    assert_eq!(status, 200);
    answer
}

#[test]
fn what_was_given_up_is_listed_without_its_body() {
    let (world, id) = given_up();
    let answer = outbox(&world);
    let dead = &answer["dead"][0];
    assert_eq!((&dead["id"], &dead["kind"], &dead["to"]), (&json!(id), &json!("callback"), &json!(TOLD)));
    assert_eq!((&dead["tries"], &dead["last_status"]), (&json!(8), &json!("answered 500")));
    assert_eq!((&dead["given_up_at"], &dead["body"]), (&json!(world.now()), &json!(null)));
    assert_eq!(answer["due"], json!([]));
}

#[test]
fn it_needs_attention() {
    let (world, _) = given_up();
    let status = world.run(hub::hub_status).0.unwrap();
    assert_eq!(status.dead.len(), 1);
}

/// Every client may ask for the status of the hub, and an address may be a credential of the one that gave it.
#[test]
fn other_clients_are_told_the_host_of_a_callback_alone() {
    let (world, _) = given_up();
    let status = call(&world, "hub_status", json!({})).unwrap();
    let said = status["attention"][0].as_str().unwrap();
    assert!(said.contains("a callback to submitter.example (answered 500)"), "{said}");
}

#[test]
fn it_is_sent_again_as_it_was_if_the_owner_wants() {
    let (world, id) = given_up();
    assert_eq!(world.owner("POST", &format!("/api/outbox/{id}/retry"), json!(null)).0, 200);
    assert_eq!(outbox(&world)["due"][0]["id"], json!(id));
    let order = only(world.pass_and_sweep(1));
    assert_eq!(order.row.id, id);
    let (status, answer) = world.owner("POST", &format!("/api/outbox/{id}/retry"), json!(null));
    assert_eq!((status, &answer["code"]), (404, &json!("message_not_found")), "it is on its way");
    world.record(&order, Delivery::Accepted);
    assert_eq!(outbox(&world), json!({ "due": [], "dead": [] }));
}

#[test]
fn it_is_forgotten_if_the_owner_wants_and_with_time() {
    let (world, id) = given_up();
    assert_eq!(world.owner("DELETE", &format!("/api/outbox/{id}"), json!(null)).0, 200);
    assert_eq!(world.owner("DELETE", &format!("/api/outbox/{id}"), json!(null)).0, 404);
    assert_eq!(outbox(&world)["dead"], json!([]));

    let (world, _) = given_up();
    world.pass(30 * 86_400_000);
    world.run(hub::purge_outbox).0.unwrap();
    assert_eq!(outbox(&world)["dead"].as_array().unwrap().len(), 1, "it is kept as long as a task");
    world.pass(1);
    world.run(hub::purge_outbox).0.unwrap();
    assert_eq!(outbox(&world)["dead"], json!([]));
}
