//! The requests themselves.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};
use taskhub::domain::wake::{Wake, WakeAuth};
use taskhub::hub::{Delivery, Submit};
use taskhub::outbound::webhook::{Message, wake, wake_body};

use super::{header, hook, only, wake_id};
use crate::support::{World, task_for};

/// HMAC-SHA-256 as RFC 2104 defines it, apart from the code under test.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::new().chain_update(block.map(|b| b ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|b| b ^ 0x5c)).chain_update(inner).finalize().to_vec()
}

fn with_auth(auth: Json) -> Json {
    json!({ "adapter": "webhook", "url": "https://bot.example/wake", "auth": auth })
}

#[test]
fn an_executor_that_polls_is_sent_nothing() {
    let world = World::new();
    world.executor("bot", &[]);
    let (id, effects) = world.submit_with_effects(&task_for("bot"));
    assert!(effects.outbox.is_empty());
    assert_eq!(world.life(&id).next_wake_at, None);
    assert_eq!(world.hub().next_due(), Ok(None), "and nothing is due");
}

#[test]
fn a_bearer_is_sent_as_one() {
    let world = World::new();
    world.webhook_executor("bot", &[], with_auth(json!({ "kind": "bearer", "token": "s3cret" })));
    let order = only(world.submit_with_effects(&task_for("bot")).1);
    assert_eq!(order.request.url, "https://bot.example/wake");
    assert_eq!(header(&order.request, "authorization"), Some("Bearer s3cret"));
    assert_eq!(header(&order.request, "content-type"), Some("application/json"));
    assert!(header(&order.request, "user-agent").is_some_and(|agent| agent.starts_with("taskhub/")));
    assert_eq!(header(&order.request, "webhook-signature"), None);
    assert_eq!(order.request.timeout_ms, 10_000);
    let body: Json = serde_json::from_str(&order.request.body).unwrap();
    assert_eq!(body, json!({ "event": "wake", "executor": "bot", "hub": "https://hub.example" }));
}

#[test]
fn a_signature_is_that_of_standard_webhooks() {
    let world = World::new();
    let key: Vec<u8> = (0..32).collect();
    let secret = format!("whsec_{}", STANDARD.encode(&key));
    world.webhook_executor("bot", &[], with_auth(json!({ "kind": "hmac", "secret": secret })));
    let order = only(world.submit_with_effects(&task_for("bot")).1);
    let request = &order.request;
    let timestamp = header(request, "webhook-timestamp").unwrap();
    assert_eq!(timestamp, (world.now() / 1000).to_string());
    let signed = format!("{}.{timestamp}.{}", wake_id(&order), request.body);
    let right = format!("v1,{}", STANDARD.encode(hmac(&key, signed.as_bytes())));
    assert_eq!(header(request, "webhook-signature"), Some(right.as_str()));
    assert_eq!(header(request, "authorization"), None);
}

/// The same key, id, time and body, signed by Python's own `hmac`.
#[test]
fn a_signature_that_another_implementation_made() {
    let hook = Wake::Webhook {
        url: "https://bot.example/wake".to_owned(),
        auth: WakeAuth::Hmac { secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned() },
        body: Some(json!({ "test": 2_432_232_314_i64 })),
    };
    let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    let body = wake_body(&hook, "bot", "").unwrap();
    let request = wake(&hook, &Message { id, body: &body, now: 1_614_265_330_999, timeout_ms: 1 }).unwrap();
    assert_eq!(request.body, r#"{"test":2432232314}"#);
    assert_eq!(header(&request, "webhook-signature"), Some("v1,Vif40peJBP7Iyl0XGmu61n4MwdrcHov5CFREBpE0svs="));
}

#[test]
fn no_credential_is_sent_where_none_is_wanted() {
    let world = World::new();
    world.webhook_executor("bot", &[], hook());
    let order = only(world.submit_with_effects(&task_for("bot")).1);
    let names: Vec<&str> = order.request.headers.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["content-type", "user-agent", "webhook-id"]);
}

#[test]
fn a_body_of_the_owners_is_sent_as_it_is() {
    let world = World::new();
    let mut wake = hook();
    wake["body"] = json!({ "text": "there is work ✓", "n": 1 });
    world.webhook_executor("bot", &[], wake);
    let order = only(world.submit_with_effects(&task_for("bot")).1);
    assert_eq!(order.request.body, r#"{"n":1,"text":"there is work ✓"}"#);
}

/// A wake is a hint: whoever intercepts it learns nothing of the work.
#[test]
fn a_wake_never_carries_the_task() {
    let world = World::new();
    world.webhook_executor("bot", &[], hook());
    let input = Submit {
        title: "a private title".to_owned(),
        instructions: "private instructions".to_owned(),
        context: Some(json!({ "private": "context" })),
        ..task_for("bot")
    };
    let order = only(world.submit_with_effects(&input).1);
    assert!(!format!("{:?}", order.request).contains("private"), "{:?}", order.request);
}

#[test]
fn the_hub_names_itself_by_its_public_address() {
    let world = World::with(&[("PUBLIC_URL", "https://tasks.example/"), ("WAKE_TIMEOUT_SECONDS", "3")]);
    world.webhook_executor("bot", &[], hook());
    let order = only(world.submit_with_effects(&task_for("bot")).1);
    assert!(order.request.body.contains(r#""hub":"https://tasks.example""#), "{}", order.request.body);
    assert_eq!(order.request.timeout_ms, 3_000);
}

/// documenso#3204: a receiver deduplicates on the id, so a wake that is sent again has the same id and the same bytes.
#[test]
fn a_wake_sent_again_is_the_same_wake() {
    let world = World::new();
    let secret = format!("whsec_{}", STANDARD.encode([7; 24]));
    world.webhook_executor("bot", &[], with_auth(json!({ "kind": "hmac", "secret": secret })));
    let first = only(world.submit_with_effects(&task_for("bot")).1);
    world.record(&first, Delivery::rejected("answered 503"));
    let second = only(world.pass_and_sweep(60_000));
    assert_eq!(wake_id(&second), wake_id(&first));
    assert_eq!(second.request.body, first.request.body);
    assert_ne!(
        header(&second.request, "webhook-signature"),
        header(&first.request, "webhook-signature"),
        "the time of sending is signed, and it is another"
    );
}

#[test]
fn a_secret_is_never_shown_again() {
    let world = World::new();
    world.webhook_executor("bot", &[], with_auth(json!({ "kind": "bearer", "token": "s3cret-t0ken" })));
    let (_, list) = world.owner("GET", "/api/executors", Json::Null);
    assert_eq!(list["executors"][0]["wake"], with_auth(json!({ "kind": "bearer" })));
    assert!(!list.to_string().contains("s3cret"));
}
