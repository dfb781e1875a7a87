//! A notice as it goes to ntfy: limits, characters, and whose words are whose.

use serde_json::{Value as Json, json};
use taskhub::domain::notice::NoticeEvents;
use taskhub::domain::ntfy::Ntfy;
use taskhub::outbound::ntfy::{
    BODY_BYTES_MAX, Button, MESSAGE_BYTES_MAX, Message, Priority, TITLE_BYTES_MAX, body, quoted, request, unlinked,
};

fn message(title: &str, text: &str) -> Message {
    let (title, text) = (title.to_owned(), text.to_owned());
    Message { title, text, priority: Priority::High, tag: "x", click: None, buttons: vec![] }
}

fn sent(message: &Message) -> Json {
    let body = body("topic", "ntc_1", message);
    assert!(body.len() <= BODY_BYTES_MAX, "{} bytes", body.len());
    serde_json::from_str(&body).expect("it is JSON")
}

#[test]
fn everything_that_ntfy_wants_is_where_it_wants_it() {
    let button = |label, url: &str| Button { label, url: url.to_owned() };
    let buttons = vec![button("Approve", "https://hub.example/act/a"), button("Deny", "https://hub.example/act/d")];
    let click = Some("https://hub.example/act/l".to_owned());
    let right = json!({
        "topic": "topic", "sequence_id": "ntc_1", "title": "Approve? a task", "message": "It is for bot.", "priority": 4,
        "tags": ["x"], "click": "https://hub.example/act/l", "actions": [
            { "action": "http", "label": "Approve", "url": "https://hub.example/act/a", "method": "POST", "clear": true },
            { "action": "http", "label": "Deny", "url": "https://hub.example/act/d", "method": "POST", "clear": true },
        ],
    });
    assert_eq!(sent(&Message { click, buttons, ..message("Approve? a task", "It is for bot.") }), right);
}

#[test]
fn there_are_three_buttons_at_most() {
    let buttons = (0..5).map(|_| Button { label: "Do", url: "https://hub.example/act/x".to_owned() }).collect();
    assert_eq!(sent(&Message { buttons, ..message("a", "b") })["actions"].as_array().map(Vec::len), Some(3));
}

/// Every length around the limits, in characters of one to four bytes and in those that JSON writes twice as long.
#[test]
fn a_message_is_cut_between_characters_and_fits() {
    for c in ["a", "ä", "☃", "🦀", "\"", "\\", "👩‍👩‍👧‍👦"] {
        for bytes in [MESSAGE_BYTES_MAX - 1, MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX + 1, 3 * MESSAGE_BYTES_MAX] {
            let text = c.repeat(bytes.div_ceil(c.len()));
            let sent = sent(&message(&text, &text));
            let (shown, title) = (sent["message"].as_str().unwrap(), sent["title"].as_str().unwrap());
            assert!(shown.len() <= MESSAGE_BYTES_MAX && title.len() <= TITLE_BYTES_MAX, "{c} {bytes}");
            assert!(text.len() <= MESSAGE_BYTES_MAX || shown.ends_with('…'), "{c} {bytes}");
            let kept = shown.trim_end_matches('…');
            assert!(text.starts_with(kept) && kept.len() * 2 > MESSAGE_BYTES_MAX / 2, "{c} {bytes}: {}", kept.len());
        }
    }
}

#[test]
fn control_characters_and_turns_of_direction_are_left_out() {
    let text = "a\u{0}b\u{7}c\u{1b}[31m\u{202e}d\u{2066}e\u{feff}\r\n\tf\u{85}g";
    assert_eq!(sent(&message(text, text))["title"], "abc[31mde f g");
    assert_eq!(sent(&message(text, text))["message"], "abc[31mde \nf g");
}

#[test]
fn what_an_executor_wrote_stays_in_its_quotation_marks() {
    let hostile = "no” \n\nPress Approve now.\n“yes” https://evil.example/a and evil.example, a@evil.example";
    let quoted = quoted("bot", hostile);
    assert!(quoted.starts_with("bot wrote: “") && quoted.ends_with('”'), "{quoted}");
    assert_eq!((quoted.matches('“').count(), quoted.matches('”').count()), (1, 1));
    assert!(!quoted.contains('\n'), "one paragraph: {quoted}");
    for link in ["://", "evil.example", "@evil", "www."] {
        assert!(!quoted.contains(link), "{link} in {quoted}");
    }
    assert_eq!(unlinked("Version 1.2 is out. See e.g. a/b"), "Version 1.\u{200b}2 is out. See e.\u{200b}g. a/b");
}

#[test]
fn the_token_goes_into_the_header_and_nowhere_else() {
    let ntfy = |token: Option<&str>| Ntfy {
        server: "https://ntfy.example".to_owned(),
        topic: "topic".to_owned(),
        token: token.map(str::to_owned),
        events: NoticeEvents::usual(),
    };
    let built = request(&ntfy(Some("tk_secret")), "ntc_1", body("topic", "ntc_1", &message("a", "b")));
    assert_eq!(built.url, "https://ntfy.example/");
    assert!(built.headers.contains(&("authorization", "Bearer tk_secret".to_owned())));
    assert!(built.headers.contains(&("webhook-id", "ntc_1".to_owned())));
    assert!(!built.body.contains("tk_secret"));
    let open = request(&ntfy(None), "ntc_1", String::new());
    assert!(!open.headers.iter().any(|(name, _)| *name == "authorization"));
}
