//! `POST /api/notify/test`: one notice, and what became of it.

use serde_json::{Value as Json, json};
use taskhub::http::message::{Outcome, Request, Sent, SentHow};
use taskhub::http::router;

use super::{TOPIC, URL, telling};
use crate::support::{OWNER_TOKEN, World, request};

fn test_request() -> Request {
    request("POST", "/api/notify/test", OWNER_TOKEN, &Json::Null)
}

fn told(how: SentHow) -> Json {
    let world = telling(&[]);
    let sent = Some(Sent { took_ms: 12, how });
    let response = world.send(&Request { sent, ..test_request() });
    assert_eq!(response.status, 200);
    serde_json::from_slice(&response.body).unwrap()
}

#[test]
fn the_notice_is_sent_before_the_answer_and_owed_to_nobody() {
    let world = telling(&[("NTFY_TOKEN", "tk_1")]);
    let Outcome::Send(sent) = router::handle(&world.hub(), &test_request()) else { panic!("it is not sent") };
    assert_eq!((sent.url.as_str(), world.owed()), ("https://ntfy.example/", 0));
    assert!(sent.headers.contains(&("authorization", "Bearer tk_1".to_owned())));
    assert!(sent.timeout_ms < 10_000, "less than the front waits");
    let said: Json = serde_json::from_str(&sent.body).unwrap();
    assert_eq!(said["topic"], TOPIC.1);
    assert!(said["message"].as_str().unwrap().contains("failed"), "{said}");
}

#[test]
fn what_became_of_it_is_said_with_what_to_mend() {
    let good = told(SentHow::Status(200));
    assert_eq!((&good["delivered"], &good["status"], &good["took_ms"]), (&json!(true), &json!(200), &json!(12)));
    for (how, status, hint) in [
        (SentHow::Status(302), json!(302), "NTFY_URL"),
        (SentHow::Status(400), json!(400), "NTFY_URL"),
        (SentHow::Status(401), json!(401), "NTFY_TOKEN"),
        (SentHow::Status(403), json!(403), "NTFY_TOKEN"),
        (SentHow::Status(404), json!(404), "NTFY_URL"),
        (SentHow::Status(413), json!(413), "limit"),
        (SentHow::Status(429), json!(429), "too many"),
        (SentHow::Status(500), json!(500), "tried again"),
        (SentHow::NoAnswer, Json::Null, "may have arrived"),
        (SentHow::Failed("refused".to_owned()), Json::Null, "refused"),
    ] {
        let told = told(how);
        assert_eq!((&told["delivered"], &told["status"]), (&json!(false), &status), "{told}");
        assert!(told["detail"].as_str().unwrap().contains(hint), "{told}");
    }
}

#[test]
fn it_says_what_to_set_where_notices_are_off_or_wrong() {
    let answer = |world: World| world.call("POST", "/api/notify/test", OWNER_TOKEN, Json::Null);
    let (status, off) = answer(World::new());
    assert_eq!((status, &off["code"]), (409, &json!("notifications_off")), "{off}");
    let (status, wrong) = answer(World::with(&[URL]));
    assert_eq!((status, &wrong["code"]), (409, &json!("notifications_misconfigured")));
    assert!(wrong["detail"].as_str().unwrap().contains("NTFY_TOPIC is missing"), "{wrong}");
}

#[test]
fn only_the_owner_may_send_one() {
    let world = telling(&[]);
    let key = world.executor("bot", &[]);
    for bearer in ["", "junk", &key] {
        let request = request("POST", "/api/notify/test", bearer, &Json::Null);
        assert_eq!(world.send(&request).status, 401, "{bearer}");
    }
}
