//! The configuration of ntfy: what is taken, what is told, and that nothing of it keeps the hub from its work.

use serde_json::{Value as Json, json};
use taskhub::domain::notice::{NoticeEvent, NoticeEvents};
use taskhub::domain::settings::Settings;
use taskhub::hub::Delivery;

use super::{TOPIC, URL, telling};
use crate::support::{OWNER_TOKEN, World, request, settings, task_for};

fn words(vars: &[(&str, &str)]) -> String {
    settings(vars).ntfy.expect_err("it is wrong")
}

#[test]
fn nothing_is_told_where_nothing_is_configured() {
    assert_eq!(settings(&[]).ntfy, Ok(None));
    assert_eq!(settings(&[("NTFY_TOKEN", "tk_1"), ("NTFY_EVENTS", "failed")]).ntfy, Ok(None));
}

#[test]
fn a_right_configuration_is_taken_as_it_is() {
    let settings = settings(&[("NTFY_URL", "https://Ntfy.Example/"), TOPIC, ("NTFY_TOKEN", "tk_1")]);
    let ntfy = settings.notices().expect("it is right");
    assert_eq!((ntfy.server.as_str(), ntfy.topic.as_str()), ("https://ntfy.example", TOPIC.1));
    assert_eq!(ntfy.token.as_deref(), Some("tk_1"));
    let usual: Vec<&str> = ntfy.events.iter().map(NoticeEvent::as_str).collect();
    assert_eq!(
        usual,
        ["input_required", "approval_required", "wake_given_up", "failed", "executor_silent", "security"]
    );
}

#[test]
fn the_owner_chooses_the_events() {
    let events = |list: &str| settings(&[URL, TOPIC, ("NTFY_EVENTS", list)]).notices().map(|ntfy| ntfy.events);
    assert_eq!(events("failed, completed"), Some(NoticeEvents::of([NoticeEvent::Failed, NoticeEvent::Completed])));
    assert_eq!(events("none"), Some(NoticeEvents::NONE));
    assert_eq!(events("failed,,"), Some(NoticeEvents::of([NoticeEvent::Failed])));
    let words = words(&[URL, TOPIC, ("NTFY_EVENTS", "failed,fialed")]);
    assert!(words.contains("\"fialed\"") && words.contains("input_required, approval_required"), "{words}");
}

#[test]
fn a_wish_is_a_list_of_events() {
    let wish = NoticeEvents::of_names(["completed", "failed"]).unwrap();
    assert_eq!(NoticeEvents::of_wish(&wish.to_wish()), Some(wish));
    assert_eq!(NoticeEvents::of_wish("[]"), Some(NoticeEvents::NONE));
    for junk in ["", "null", "{}", "[1]", "[\"nonsense\"]", "\"failed\""] {
        assert_eq!(NoticeEvents::of_wish(junk), None, "{junk}");
    }
}

/// Every spelling of what must not be called, as for webhooks.
#[test]
fn only_a_public_server_by_https_is_called() {
    for url in [
        "http://ntfy.example",
        "https://localhost",
        "https://127.0.0.1",
        "https://127.1",
        "https://2130706433",
        "https://0x7f.1",
        "https://0177.0.0.1",
        "https://10.0.0.1",
        "https://169.254.169.254",
        "https://[::1]",
        "https://[::ffff:127.0.0.1]",
        "https://[fe80::1]",
        "https://[fd00::1]",
        "https://[64:ff9b::7f00:1]",
        "https://ntfy.local",
        "https://me:secret@ntfy.example",
        "ftp://ntfy.example",
        "ntfy.example",
        "https://ntfy.example/topic",
        "https://ntfy.example/?topic",
        "https://ntfy.example/#topic",
    ] {
        let words = words(&[("NTFY_URL", url), TOPIC]);
        assert!(words.starts_with("NTFY_URL") && words.ends_with('.'), "{url}: {words}");
    }
    let local = settings(&[("NTFY_URL", "http://127.0.0.1:2586"), TOPIC, ("ALLOW_PRIVATE_WEBHOOKS", "true")]);
    assert_eq!(local.notices().map(|ntfy| ntfy.server.as_str()), Some("http://127.0.0.1:2586"));
}

#[test]
fn words_say_what_to_mend_and_repeat_no_value() {
    let long = "t".repeat(65);
    for (vars, name) in [
        (vec![URL], "NTFY_TOPIC"),
        (vec![TOPIC], "NTFY_URL"),
        (vec![URL, ("NTFY_TOPIC", "my topic-s3cret")], "NTFY_TOPIC"),
        (vec![URL, ("NTFY_TOPIC", "s3cret/x")], "NTFY_TOPIC"),
        (vec![URL, ("NTFY_TOPIC", "ümlaut-s3cret")], "NTFY_TOPIC"),
        (vec![URL, ("NTFY_TOPIC", &long)], "NTFY_TOPIC"),
        (vec![URL, ("NTFY_TOPIC", "settings")], "NTFY_TOPIC"),
        (vec![URL, TOPIC, ("NTFY_TOKEN", "tk_s3cret with space")], "NTFY_TOKEN"),
        (vec![URL, TOPIC, ("NTFY_TOKEN", "tk_s3cretü")], "NTFY_TOKEN"),
    ] {
        let words = words(&vars);
        assert!(words.starts_with(name) && words.ends_with('.') && !words.contains("s3cret"), "{words}");
    }
}

#[test]
fn a_wrong_configuration_is_shown_and_disturbs_no_task() {
    let world = World::with(&[URL, ("NTFY_TOPIC", "not a topic")]);
    let health = world.send(&request("GET", "/healthz", "", &Json::Null));
    let body: Json = serde_json::from_slice(&health.body).unwrap();
    assert_eq!((health.status, &body["ok"]), (200, &json!(true)));
    assert!(body["notifications"].as_str().unwrap().starts_with("NTFY_TOPIC must"), "{body}");

    assert!(attention(&world).contains("NTFY_TOPIC must"));

    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    world.does("result", &held, json!({ "status": "failed", "error": "no" }));
    assert_eq!(world.owed(), 0);
}

/// A mistake in a variable must not cost what was owed before it.
#[test]
fn what_is_owed_waits_until_the_configuration_is_mended() {
    let mut world = telling(&[]);
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    let sent = super::only(&world.attempt_with_effects("result", &held, json!({ "status": "failed", "error": "no" })));
    world.delivered(&sent, &Delivery::rejected("answered 503"));
    let right = std::mem::replace(&mut world.settings, settings(&[URL, ("NTFY_TOPIC", "not a topic")]));
    world.pass(60_000);
    assert_eq!((super::notices(&world.dispatch()), world.owed()), (vec![], 1));
    assert_eq!(super::notices(&world.dispatch()), [], "it is not looked at all the time");
    world.settings = right;
    world.pass(3_600_000);
    let again = super::only(&world.dispatch());
    assert_eq!((again.row.id, again.request.body), (sent.row.id, sent.request.body));

    world.settings = settings(&[]);
    world.pass(3_600_000);
    assert_eq!((super::notices(&world.dispatch()), world.owed()), (vec![], 0), "off is off");
}

/// What `hub_status` says first.
fn attention(world: &World) -> String {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "hub_status", "arguments": {} } });
    let mut asked = request("POST", "/mcp", OWNER_TOKEN, &call);
    asked.headers.push(("content-type".to_owned(), "application/json".to_owned()));
    asked.headers.push(("accept".to_owned(), "application/json, text/event-stream".to_owned()));
    let answer: Json = serde_json::from_slice(&world.send(&asked).body).unwrap();
    answer["result"]["structuredContent"]["attention"][0].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_token_that_is_refused_shows_at_the_first_try() {
    let world = telling(&[("NTFY_TOKEN", "tk_wrong")]);
    let key = world.executor("bot", &[]);
    let held = world.working("bot", &key);
    let effects = world.attempt_with_effects("result", &held, json!({ "status": "failed", "error": "no" }));
    assert_eq!(attention(&world), "");
    world.delivered(&super::only(&effects), &Delivery::rejected("answered 401"));
    assert!(attention(&world).contains("answered 401"), "{}", attention(&world));
}

#[test]
fn health_tells_whether_notices_are_on() {
    let health = |world: &World| -> Json {
        serde_json::from_slice(&world.send(&request("GET", "/healthz", "", &Json::Null)).body).unwrap()
    };
    assert_eq!(health(&World::new())["notifications"], "off");
    assert_eq!(health(&telling(&[]))["notifications"], "on");
}

/// Without ntfy, a task writes and reads what it did before.
#[test]
fn no_row_is_written_where_nothing_is_told() {
    let world = World::new();
    let key = world.executor("bot", &[]);
    let id = world.submit(&task_for("bot"));
    let held = world.claim(&key);
    world.does("result", &held, json!({ "status": "failed", "error": "no" }));
    assert_eq!((world.owed(), held.id), (0, id));
    assert!(Settings::from_vars(|_| None).is_err());
}
