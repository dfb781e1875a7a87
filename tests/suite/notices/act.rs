//! `/act/{token}`: what a link of a notice does, and everything that it does not.

use serde_json::{Value as Json, json};
use taskhub::domain::action::{Action, LINK_MS, token};
use taskhub::domain::task::State;
use taskhub::http::front;
use taskhub::http::message::{Request, Response};
use taskhub::hub::{self, Submit};

use super::{only, said, telling};
use crate::support::{World, request, task_for};

/// A request as a phone sends it: without any credential but the link.
fn with_link(method: &str, link: &str) -> Request {
    Request { headers: vec![], ..request(method, &format!("/act/{link}"), "", &Json::Null) }
}

fn link(world: &World, action: Action, id: &str) -> String {
    token(&world.settings.hub_secret, action, id, (world.now() + LINK_MS) / 1000)
}

/// What front and object answer; they agree about what they both refuse.
fn send(world: &World, request: &Request) -> Response {
    let response = world.send(request);
    if let Some(refusal) = front::refuse(request, &world.settings, world.now()) {
        assert_eq!(refusal, response, "front and object refuse it alike");
    }
    response
}

fn press(world: &World, link: &str) -> (u16, String) {
    let response = send(world, &with_link("POST", link));
    (response.status, String::from_utf8(response.body).unwrap())
}

fn look(world: &World, link: &str) -> (u16, String) {
    let before = world.db.dump();
    let response = send(world, &with_link("GET", link));
    assert_eq!(world.db.dump(), before, "a look changes nothing");
    (response.status, String::from_utf8(response.body).unwrap())
}

fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers.iter().find(|(found, _)| *found == name).map(|(_, value)| value.as_str())
}

/// A hub with a task that waits for its executor.
fn waiting() -> (World, String, String) {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    let id = world.submit(&task_for("bot"));
    (world, key, id)
}

/// A hub with a task that failed.
fn failed() -> (World, String) {
    let (world, key, id) = waiting();
    let held = world.claim(&key);
    world.does("result", &held, json!({ "status": "failed", "error": "<b>no</b>" }));
    (world, id)
}

#[test]
fn a_button_cancels_once_and_says_so_twice() {
    let (world, _, id) = waiting();
    let link = link(&world, Action::Cancel, &id);
    let (status, page) = press(&world, &link);
    assert!(status == 200 && page.contains("<h1>Done</h1>") && page.contains("canceled"), "{page}");
    assert_eq!(world.state(&id), State::Canceled);
    let before = world.db.dump();
    let (status, page) = press(&world, &link);
    assert!(status == 200 && page.contains("Done already"), "{page}");
    assert_eq!(world.db.dump(), before);
}

#[test]
fn a_button_retries_once_and_names_the_same_task_twice() {
    let (world, id) = failed();
    let link = link(&world, Action::Retry, &id);
    let new_of = |page: &str| page.split("the task ").nth(1).unwrap().split('.').next().unwrap().to_owned();
    let (status, page) = press(&world, &link);
    let new = new_of(&page);
    assert_eq!((status, world.detail(&new).full.head.retry_of.as_deref()), (200, Some(id.as_str())));
    let tasks = world.db.rows("SELECT id FROM tasks").len();
    let (status, page) = press(&world, &link);
    assert!(status == 200 && page.contains("tried again before"), "{page}");
    assert_eq!((new_of(&page), world.db.rows("SELECT id FROM tasks").len()), (new, tasks));
}

/// Claude and a phone are not the same submitter, and the task has one retry all the same.
#[test]
fn a_retry_that_somebody_else_asked_for_is_the_same() {
    let (world, id) = failed();
    let first = world.run(|hub| hub::retry_task(hub, "client_of_claude", &id)).0.unwrap();
    let (status, page) = press(&world, &link(&world, Action::Retry, &id));
    assert!(status == 200 && page.contains("tried again before") && page.contains(&first.id), "{page}");
    let again = world.run(|hub| hub::retry_task(hub, "another", &id)).0.unwrap();
    assert_eq!((again.existed, &again.id), (true, &first.id));
    world.cancel(&first.id).unwrap();
    let next = world.run(|hub| hub::retry_task(hub, "owner", &first.id)).0.unwrap();
    assert!(!next.existed, "the retry can be retried");
}

#[test]
fn the_links_of_a_notice_are_those() {
    let (world, key, id) = waiting();
    let held = world.claim(&key);
    let effects = world.attempt_with_effects("result", &held, json!({ "status": "failed", "error": "no" }));
    let said = said(&only(&effects));
    let path = |url: &Json| url.as_str().unwrap().strip_prefix("https://hub.example/act/").unwrap().to_owned();
    assert_eq!(path(&said["actions"][0]["url"]), link(&world, Action::Retry, &id));
    assert_eq!(path(&said["click"]), link(&world, Action::Look, &id));
    assert_eq!(press(&world, &path(&said["actions"][0]["url"])).0, 200);
}

#[test]
fn a_look_shows_the_task_and_one_button_and_changes_nothing() {
    let (world, _, id) = waiting();
    for _ in 0..3 {
        let (status, page) = look(&world, &link(&world, Action::Cancel, &id));
        assert_eq!(status, 200);
        for part in ["book a table", "bot", "submitted", "<form method=\"post\">", "Cancel the task", &id] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert_eq!(page.matches("<button").count(), 1);
    }
    assert_eq!(world.state(&id), State::Submitted);
    let (status, page) = look(&world, &link(&world, Action::Look, &id));
    assert!(status == 200 && !page.contains("<form"), "{page}");
    let posted = press(&world, &link(&world, Action::Look, &id));
    assert_eq!((posted.0, world.state(&id)), (200, State::Submitted));
}

#[test]
fn a_page_says_where_there_is_nothing_to_do() {
    let (world, id) = failed();
    for (action, status) in [(Action::Cancel, 409), (Action::Approve, 409), (Action::Deny, 409)] {
        let (shown, page) = look(&world, &link(&world, action, &id));
        assert!(shown == 200 && page.contains("nothing to do") && !page.contains("<form"), "{page}");
        let before = world.db.dump();
        assert_eq!(press(&world, &link(&world, action, &id)).0, status, "{action:?}");
        assert_eq!(world.db.dump(), before);
    }
    let (world, _, id) = waiting();
    assert_eq!(press(&world, &link(&world, Action::Retry, &id)).0, 409, "it is not over");
}

#[test]
fn a_page_is_made_as_the_consent_page_is() {
    let (world, id) = failed();
    let response = send(&world, &with_link("GET", &link(&world, Action::Retry, &id)));
    let policy = header(&response, "content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-") && policy.ends_with("form-action 'self'"));
    assert_eq!(header(&response, "x-frame-options"), Some("DENY"));
    assert_eq!(header(&response, "cache-control"), Some("no-store"));
    assert_eq!(header(&response, "referrer-policy"), Some("same-origin"), "the link is a credential");
    let page = String::from_utf8(response.body).unwrap();
    assert!(page.contains("&lt;b&gt;no&lt;/b&gt;") && !page.contains("<b>"), "{page}");
    assert!(!page.contains("<script") && page.contains("viewport"), "{page}");
}

/// Every way to make one link into another, and every byte of it changed, cut off or added.
#[test]
fn a_link_cannot_be_made_into_another() {
    let (world, _, id) = waiting();
    let other = world.submit(&Submit { title: "another".to_owned(), ..task_for("bot") });
    let good = link(&world, Action::Look, &id);
    let cancel = link(&world, Action::Cancel, &id);
    let (head, mac) = good.rsplit_once('.').unwrap();
    let mut junk = vec![
        good.replace("look", "cancel"),
        good.replace(&id, &other),
        format!("cancel.{}", good.split_once('.').unwrap().1),
        format!("{}.{mac}", cancel.rsplit_once('.').unwrap().0),
        format!("{head}."),
        format!("{good}.x"),
        format!("{good}="),
        format!("{good}%00"),
        good.to_uppercase(),
        token("another secret, also long enough!", Action::Cancel, &id, (world.now() + LINK_MS) / 1000),
        token(&world.settings.hub_secret, Action::Cancel, "t_1", (world.now() + LINK_MS) / 1000),
        "x".repeat(5_000),
        "....".to_owned(),
        "cancel".to_owned(),
    ];
    let expiry = head.rsplit_once('.').unwrap().1;
    for later in ["99999999999", "9223372036854775807", "-1", "", "+1"] {
        junk.push(good.replace(expiry, later));
    }
    for at in 0..good.len() {
        junk.push(format!("{}{}", &good[..at], &good[at + 1..]));
        junk.push(good[..at].to_owned());
        let swapped = if good.as_bytes()[at] == b'A' { "B" } else { "A" };
        junk.push(format!("{}{swapped}{}", &good[..at], &good[at + 1..]));
    }
    let before = world.db.dump();
    for link in junk.iter().filter(|link| **link != good && !link.is_empty()) {
        for method in ["GET", "POST"] {
            let request = with_link(method, link);
            let refusal = front::refuse(&request, &world.settings, world.now());
            let refusal = refusal.unwrap_or_else(|| panic!("{method} {link} reaches the object"));
            assert_eq!(refusal.status, 404, "{link}");
            assert_eq!(world.send(&request), refusal);
        }
    }
    assert_eq!(world.db.dump(), before);
    assert_eq!(look(&world, &good).0, 200);
}

#[test]
fn a_link_is_good_for_a_day() {
    let (world, _, id) = waiting();
    let link = link(&world, Action::Cancel, &id);
    world.pass(LINK_MS - 1_000);
    assert_eq!(look(&world, &link).0, 200);
    world.pass(1_000);
    for method in ["GET", "POST"] {
        let refusal = front::refuse(&with_link(method, &link), &world.settings, world.now()).expect("at the front");
        assert_eq!(refusal.status, 410);
        assert!(String::from_utf8(refusal.body).unwrap().contains("expired"));
    }
    assert_eq!((press(&world, &link).0, world.state(&id)), (410, State::Submitted));
}

#[test]
fn a_form_of_another_site_is_refused() {
    let (world, _, id) = waiting();
    let from = |origin: &str, method: &str| {
        let headers = vec![("origin".to_owned(), origin.to_owned())];
        send(&world, &Request { headers, ..with_link(method, &link(&world, Action::Cancel, &id)) })
    };
    for origin in ["https://evil.example", "null", "http://hub.example", "https://hub.example.evil.example", ""] {
        assert_eq!(from(origin, "POST").status, 403, "{origin}");
    }
    assert_eq!(world.state(&id), State::Submitted);
    assert_eq!(from("https://evil.example", "GET").status, 200, "following a link from anywhere is fine");
    assert_eq!(from("https://hub.example", "POST").status, 200);
    let pressed = from("https://ntfy.example", "POST");
    assert_eq!(pressed.status, 200, "ntfy's own web page");
    assert_eq!(header(&pressed, "access-control-allow-origin"), Some("https://ntfy.example"));
}

#[test]
fn only_looking_and_pressing_are_ways_to_use_it() {
    let (world, _, id) = waiting();
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "BREW"] {
        let request = with_link(method, &link(&world, Action::Cancel, &id));
        assert_eq!(send(&world, &request).status, 405, "{method}");
    }
    assert_eq!(world.state(&id), State::Submitted);
}

#[test]
fn a_task_that_is_gone_is_said_to_be() {
    let (world, id) = failed();
    let links: Vec<String> = Action::ALL.iter().map(|action| link(&world, *action, &id)).collect();
    world.db.connection().execute("DELETE FROM tasks", []).unwrap();
    for link in links {
        assert_eq!((look(&world, &link).0, press(&world, &link).0), (404, 404), "{link}");
    }
}

#[test]
fn a_database_that_fails_is_said_to_and_leaves_nothing() {
    let (world, _, id) = waiting();
    let link = link(&world, Action::Cancel, &id);
    let before = world.db.dump();
    world.db.fail_in(Some(1));
    let (status, page) = press(&world, &link);
    assert!(status == 500 && page.contains("did not work"), "{page}");
    assert_eq!(world.db.dump(), before);
}

/// A hub that tells of a task which waits for its owner's word, and the notice.
fn asking() -> (World, String, Json) {
    let world = telling(&[]);
    let body = json!({ "name": "bot", "approval": "always" });
    assert_eq!(world.owner("POST", "/api/executors", body).0, 201);
    let (id, effects) = world.submit_with_effects(&task_for("bot"));
    let said = said(&only(&effects));
    (world, id, said)
}

#[test]
fn a_task_that_waits_for_approval_is_approved_once_by_a_button() {
    let (world, id, said) = asking();
    assert_eq!((said["title"].as_str(), said["priority"].as_u64()), (Some("Approve? book a table"), Some(4)));
    assert!(said["message"].as_str().unwrap().contains("owner wrote: “for two, at eight”"), "{said}");
    let labels: Vec<&str> = said["actions"].as_array().unwrap().iter().filter_map(|a| a["label"].as_str()).collect();
    assert_eq!(labels, ["Approve", "Deny"]);
    let approve = link(&world, Action::Approve, &id);
    let (status, page) = look(&world, &approve);
    assert!(status == 200 && page.contains("for two, at eight") && page.contains("Approve</button>"), "{page}");
    assert_eq!(press(&world, &approve).0, 200);
    assert_eq!(world.state(&id), State::Submitted);
    let before = world.db.dump();
    assert!(press(&world, &approve).1.contains("Done already"));
    assert_eq!(press(&world, &link(&world, Action::Deny, &id)).0, 409, "it was approved");
    assert_eq!(world.db.dump(), before);
}

#[test]
fn a_task_that_waits_for_approval_is_denied_once_by_a_button() {
    let (world, id, _) = asking();
    let deny = link(&world, Action::Deny, &id);
    let request = with_link("POST", &deny);
    let (_, effects) = world.run(|hub| taskhub::http::router::handle(hub, &request));
    assert_eq!(world.state(&id), State::Failed);
    assert_eq!(super::notices(&effects), [], "the owner knows");
    assert!(press(&world, &deny).1.contains("Done already"));
    assert_eq!(press(&world, &link(&world, Action::Approve, &id)).0, 409);
}
