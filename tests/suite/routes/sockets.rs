//! The two WebSockets up to the moment at which the edge accepts them, and what is said on them.

use serde_json::{Value as Json, json};
use taskhub::http::message::{Outcome, Request, Response};
use taskhub::http::socket::{self, Goodbye, Socket};
use taskhub::http::{front, router};
use taskhub::hub::{self, submit};
use taskhub::owner::feed;

use super::{header, problem};
use crate::support::{OWNER_TOKEN, World, request, task_for, task_in};

/// A request for the socket at this path.
fn socket_request(target: &str, bearer: &str) -> Request {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request { query: query.to_owned(), ..request("GET", path, bearer, &Json::Null) };
    request.headers.push(("upgrade".to_owned(), "WebSocket".to_owned()));
    request
}

fn opened(world: &World, request: &Request) -> Socket {
    assert_eq!(front::refuse(request, &world.settings, world.now()), None);
    match router::handle(&world.hub(), request) {
        Outcome::Upgrade(socket) => socket,
        other => panic!("it is not opened: {other:?}"),
    }
}

fn refused(world: &World, request: &Request) -> Response {
    match router::handle(&world.hub(), request) {
        Outcome::Reply(response) => response,
        other => panic!("it is not refused: {other:?}"),
    }
}

#[test]
fn an_executor_listens_at_its_own_address_and_its_queues() {
    let world = World::new();
    let key = world.executor("box", &["ops", "errands"]);
    let Socket::Listen { executor, addresses, is_ready } = opened(&world, &socket_request("/executor/listen", &key))
    else {
        panic!("another socket");
    };
    assert_eq!((executor.as_str(), is_ready), ("box", false));
    assert_eq!(addresses, ["@box", "errands", "ops"]);
    assert_eq!(world.presence.last_seen_at("box"), Some(world.now()));
}

#[test]
fn what_is_claimable_already_is_known_at_the_connect() {
    for task in [task_for("box"), task_in("ops")] {
        let world = World::new();
        let key = world.executor("box", &["ops"]);
        world.executor("other", &["others"]);
        let is_ready = || {
            let socket = opened(&world, &socket_request("/executor/listen", &key));
            matches!(socket, Socket::Listen { is_ready: true, .. })
        };
        submit(&world.hub(), &task_for("other")).expect("submitted");
        assert!(!is_ready(), "that is another's");
        submit(&world.hub(), &task).expect("submitted");
        assert!(is_ready());
        world.call("POST", "/executor/claim", &key, json!({}));
        assert!(!is_ready(), "it is taken");
    }
}

#[test]
fn junk_keys_and_other_credentials_are_refused_before_the_upgrade_is_looked_at() {
    let world = World::new();
    let key = world.executor("box", &[]);
    for (path, bearer) in [
        ("/executor/listen", "exk_box.AAAA.BBBB"),
        ("/executor/listen", OWNER_TOKEN),
        ("/api/events", key.as_str()),
        ("/api/events", "junk"),
    ] {
        for request in [socket_request(path, bearer), request("GET", path, bearer, &Json::Null)] {
            let at_front = front::refuse(&request, &world.settings, world.now()).expect("the front refuses it");
            problem(&at_front, 401, "unauthorized");
            problem(&refused(&world, &request), 401, "unauthorized");
        }
    }
    world.owner("POST", "/api/executors/box/keys", json!({ "revoke_others": true }));
    let request = socket_request("/executor/listen", &key);
    assert_eq!(front::refuse(&request, &world.settings, world.now()), None, "the front cannot know");
    problem(&refused(&world, &request), 401, "unauthorized");
}

#[test]
fn a_request_without_upgrade_is_told_to_upgrade() {
    let world = World::new();
    let key = world.executor("box", &[]);
    for (path, bearer) in [("/executor/listen", key.as_str()), ("/api/events", OWNER_TOKEN)] {
        let plain = request("GET", path, bearer, &Json::Null);
        let other = {
            let mut request = plain.clone();
            request.headers.push(("upgrade".to_owned(), "h2c".to_owned()));
            request
        };
        for request in [plain, other] {
            let at_front = front::refuse(&request, &world.settings, world.now()).expect("the front refuses it");
            for response in [at_front, refused(&world, &request)] {
                problem(&response, 426, "upgrade_required");
                assert_eq!(header(&response, "upgrade"), Some("websocket"));
            }
        }
    }
}

#[test]
fn events_are_watched_from_where_the_client_says() {
    let world = World::new();
    world.executor("box", &[]);
    submit(&world.hub(), &task_for("box")).expect("submitted");
    let watched = |query: &str| opened(&world, &socket_request(&format!("/api/events{query}"), OWNER_TOKEN));
    let events = |after| Socket::Events { after, newest: 1, grant: None, until: None };
    assert_eq!(watched(""), events(None));
    assert_eq!(watched("?after=0"), events(Some(0)));
    assert_eq!(watched("?after=1"), events(Some(1)));
    for query in
        ["?after=2", "?after=-1", "?after=", "?after=1&after=1", "?after=1.0", "?after=9007199254740993", "?from=1"]
    {
        problem(&refused(&world, &socket_request(&format!("/api/events{query}"), OWNER_TOKEN)), 400, "bad_request");
    }
}

#[test]
fn events_are_told_in_the_words_of_the_wire() {
    let world = World::new();
    let key = world.executor("box", &[]);
    let id = submit(&world.hub(), &task_for("box")).expect("submitted").id;
    world.call("POST", "/executor/claim", &key, json!({}));
    let events = hub::events_after(&world.hub(), 0, 10).expect("read");
    let told: Vec<Json> =
        events.iter().map(|event| serde_json::from_str(&feed::event(event)).expect("it is JSON")).collect();
    let expected = |seq: i64, kind: &str, attempt: u32, actor: &str, data: &Json| {
        json!({
            "type": "event", "seq": seq, "task_id": id.to_string(), "at": world.now(), "kind": kind,
            "attempt": attempt, "actor": actor, "data": data,
        })
    };
    let data = &told[0]["data"];
    assert_eq!(told[0], expected(1, "submitted", 0, "submitter:owner", data));
    assert_eq!(told[1], expected(2, "claimed", 1, "executor:box", &Json::Null));
    assert_eq!(hub::events_after(&world.hub(), 1, 10).expect("read").len(), 1);
    assert_eq!(hub::newest_event(&world.hub()), Ok(2));
    assert_eq!(feed::hello(2), r#"{"seq":2,"type":"hello"}"#);
    assert_eq!(feed::changed(Some("t_1")), r#"{"task_id":"t_1","type":"changed"}"#);
}

#[test]
fn a_reason_for_a_close_fits_its_frame_and_says_what_to_do() {
    for goodbye in Goodbye::ALL {
        let reason = goodbye.reason();
        assert!(reason.len() <= 123 && reason.ends_with('.'), "{reason}");
        assert!((4000..5000).contains(&goodbye.code()));
        assert!(["Reconnect", "Keep one", "Get another"].iter().any(|what| reason.contains(what)), "{reason}");
    }
    let mistake: Json = serde_json::from_str(&socket::mistake()).expect("it is JSON");
    assert_eq!(mistake["error"]["code"], "unexpected_message");
}

#[test]
fn one_that_is_disabled_may_not_listen_and_one_that_is_paused_is_not_called() {
    let world = World::new();
    let key = world.executor("box", &["ops"]);
    submit(&world.hub(), &task_in("ops")).expect("submitted");
    let asked = socket_request("/executor/listen", &key);
    let set = |change: Json| assert_eq!(world.owner("PATCH", "/api/executors/box", change).0, 200);
    set(json!({ "paused": true }));
    assert!(matches!(opened(&world, &asked), Socket::Listen { is_ready: false, .. }));
    world.presence.set_listening("box", true);
    let (woken, effects) = world.run(|hub| hub::wake_executor(hub, "box", None).expect("it is there"));
    assert!(!woken.sent && effects.ready.is_empty() && effects.outbox.is_empty());
    set(json!({ "paused": false }));
    assert!(matches!(opened(&world, &asked), Socket::Listen { is_ready: true, .. }));
    set(json!({ "disabled": true }));
    problem(&refused(&world, &asked), 403, "executor_disabled");
}

#[test]
fn who_listens_is_online() {
    let world = World::new();
    let presence = &world.presence;
    assert!(!presence.is_online("box", world.now()));
    presence.seen("box", world.now());
    assert!(presence.is_online("box", world.now() + 59_999) && !presence.is_online("box", world.now() + 60_000));
    presence.set_listening("box", true);
    assert!(presence.is_listening("box") && presence.is_online("box", world.now() + 3_600_000));
    presence.forget("box");
    assert!(!presence.is_listening("box"));
    let asked = hub::Presence::of_sockets(|name| name == "bot");
    assert!(asked.is_listening("bot") && asked.is_online("bot", 0) && !asked.is_listening("box"));
}
