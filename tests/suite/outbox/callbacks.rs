//! Callbacks: who is told of what, and in which words.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use taskhub::domain::secret::mac_bytes;
use taskhub::hub::{self, Delivery, Submit, When};

use super::{TOLD, only, with_callback};
use crate::support::{World, settings, task_for};

#[test]
fn whoever_asked_for_it_is_told_how_a_task_ended() {
    let end = |world: &World, key: &str, how: &str| {
        let submit = Submit { deadline: (how == "deadline").then_some(When::In(60)), ..with_callback() };
        let id = world.submit(&submit);
        if how == "canceled" {
            return (id.clone(), world.run(|hub| hub::cancel(hub, "owner", &id, None)).1);
        }
        if how == "deadline" {
            return (id, world.pass_and_sweep(60_000));
        }
        let held = world.claim(key);
        let body = json!({ "task_id": held.id, "claim_token": held.token, "status": how, "result": "secret" });
        let request = crate::support::request("POST", "/executor/result", key, &body);
        let (response, effects) = world.run(|hub| taskhub::http::router::handle(hub, &request));
        assert!(format!("{response:?}").contains("200"), "{response:?}");
        (id, effects)
    };
    for (how, state, code) in [
        ("completed", "completed", json!(null)),
        ("failed", "failed", json!("executor_failed")),
        ("deadline", "failed", json!("deadline_exceeded")),
        ("canceled", "canceled", json!(null)),
    ] {
        let world = World::new();
        let key = world.executor("bot", &[]);
        let (id, effects) = end(&world, &key, how);
        let order = only(effects);
        assert_eq!((order.request.url.as_str(), order.row.id.as_str()), (TOLD, format!("end_{id}").as_str()));
        let body: Json = serde_json::from_str(&order.request.body).unwrap();
        assert_eq!((&body["type"], &body["data"]["task_id"]), (&json!(format!("task.{state}")), &json!(id)));
        assert_eq!((&body["data"]["state"], &body["data"]["error_code"]), (&json!(state), &code));
        assert_eq!(body["data"]["completed_at"], json!(world.now()));
        assert!(!order.request.body.contains("secret"), "what came of it is asked for, not sent");
    }
}

#[test]
fn nobody_is_told_who_did_not_ask_and_of_nothing_but_the_end() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    assert!(world.run(|hub| hub::cancel(hub, "owner", &held.id, None)).1.outbox.is_empty());
    let id = world.submit(&with_callback());
    world.claim(&key);
    assert!(world.pass_and_sweep(300_000).outbox.is_empty(), "a lease that expires is no end");
    let held = world.claim(&key);
    assert_eq!(held.id, id);
    world.does("defer", &held, json!({ "seconds": 5 }));
    assert!(world.pass_and_sweep(5_000).outbox.is_empty());
}

#[test]
fn the_receiver_can_verify_it_with_the_secret_that_the_owner_reads() {
    let world = World::new();
    world.executor("bot", &[]);
    let id = world.submit(&with_callback());
    let order = only(world.run(|hub| hub::cancel(hub, "owner", &id, None)).1);
    let (status, answer) = world.owner("GET", "/api/callbacks/secret", json!(null));
    let secret = answer["secret"].as_str().unwrap();
    assert_eq!(status, 200);
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let header = |name: &str| {
        order.request.headers.iter().find(|(found, _)| *found == name).map(|(_, value)| value.clone()).unwrap()
    };
    let signed = format!("{}.{}.{}", header("webhook-id"), header("webhook-timestamp"), order.request.body);
    assert_eq!(header("webhook-signature"), format!("v1,{}", STANDARD.encode(mac_bytes(&key, signed.as_bytes()))));
    let elsewhere = World::with(&[("HUB_SECRET", "another secret that is long enough")]);
    assert_ne!(elsewhere.owner("GET", "/api/callbacks/secret", json!(null)).1["secret"], json!(secret));
}

#[test]
fn a_callback_goes_to_public_https_addresses_only() {
    let world = World::new();
    world.executor("bot", &[]);
    for url in [
        "http://submitter.example/told",
        "https://localhost/told",
        "https://127.0.0.1/told",
        "https://0x7f.1/told",
        "https://2130706433/told",
        "https://[::1]/told",
        "https://[::ffff:127.0.0.1]/told",
        "https://[::ffff:a9fe:a9fe]/latest",
        "https://169.254.169.254/latest",
        "https://metadata.google.internal/",
        "https://10.0.0.1/",
        "https://user:pass@submitter.example/",
        "ftp://submitter.example/",
        "submitter.example",
        "",
    ] {
        let input = Submit { callback_url: Some(url.to_owned()), ..task_for("bot") };
        match world.run(|hub| hub::submit(hub, &input)).0 {
            Err(hub::SubmitRejected::Invalid { field: "callback_url", .. }) => {}
            other => panic!("{url}: {other:?}"),
        }
    }
}

#[test]
fn a_key_stands_for_one_callback_and_a_retry_has_the_same() {
    let world = World::new();
    world.executor("bot", &[]);
    let with_key = |url: Option<&str>| Submit {
        idempotency_key: Some("k".to_owned()),
        callback_url: url.map(str::to_owned),
        ..task_for("bot")
    };
    let id = world.submit(&with_key(Some(TOLD)));
    assert_eq!(world.submit(&with_key(Some(TOLD))), id);
    for other in [None, Some("https://submitter.example/other")] {
        let refused = world.run(|hub| hub::submit(hub, &with_key(other))).0;
        assert!(matches!(refused, Err(hub::SubmitRejected::IdempotencyConflict { .. })), "{refused:?}");
    }
    world.cancel(&id).unwrap();
    let again = world.run(|hub| hub::retry_task(hub, "owner", &id)).0.unwrap();
    assert_eq!(world.run(|hub| hub::retry_task(hub, "owner", &id)).0.unwrap().id, again.id);
    let order = only(world.run(|hub| hub::cancel(hub, "owner", &again.id, None)).1);
    assert_eq!((order.request.url.as_str(), order.row.task_id.as_deref()), (TOLD, Some(again.id.as_str())));
}

#[test]
fn one_whose_address_is_permitted_no_more_is_given_up_and_not_forgotten() {
    let private = || Submit { callback_url: Some("http://10.0.0.1/told".to_owned()), ..task_for("bot") };
    let mut world = World::with(&[("ALLOW_PRIVATE_WEBHOOKS", "true")]);
    world.executor("bot", &[]);
    let [tried, untried] = [world.submit(&private()), world.submit(&private())];
    let order = only(world.run(|hub| hub::cancel(hub, "owner", &tried, None)).1);
    world.record(&order, Delivery::rejected("answered 503"));
    world.settings = settings(&[]);
    assert!(world.run(|hub| hub::cancel(hub, "owner", &untried, None)).1.outbox.is_empty());
    assert!(world.pass_and_sweep(60_000).outbox.is_empty());
    let (due, dead) = world.run(hub::list_outbox).0.unwrap();
    let mut given_up: Vec<String> = dead.iter().map(|row| row.id.clone()).collect();
    given_up.sort();
    let mut right = [format!("end_{tried}"), format!("end_{untried}")];
    right.sort();
    assert_eq!((due, given_up), (vec![], right.to_vec()));
    assert!(dead.iter().all(|row| row.last_status.as_deref().is_some_and(|why| why.contains("is not any more"))));
}
