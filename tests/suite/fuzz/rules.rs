//! What holds for every answer, whatever was asked.

use serde_json::Value as Json;
use taskhub::http::message::Response;

/// Longest detail or message: something a person or a model still reads.
const SENTENCE_CHARS_MAX: usize = 1_200;
/// Words of Rust, which say nothing to a caller.
const WORDS_OF_RUST: [&str; 8] = ["struct ", "tagged enum", " u8", " u32", " u64", " i64", " f64", "Option<"];

fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers.iter().find(|(found, _)| *found == name).map(|(_, value)| value.as_str())
}

/// The body as JSON; null if there is none.
pub fn json(response: &Response) -> Json {
    if response.body.is_empty() {
        return Json::Null;
    }
    serde_json::from_slice(&response.body).unwrap_or_else(|error| panic!("{error} in an answer: {response:?}"))
}

/// Any answer: no fault of the hub, and headers that can be sent.
pub fn is_no_fault(response: &Response) {
    assert!((200..500).contains(&response.status), "{} {:?}", response.status, text(response));
    for (name, value) in &response.headers {
        let fits = |b: u8| b == b'\t' || (b' '..=b'~').contains(&b);
        assert!(value.bytes().all(fits), "the header {name} cannot be sent: {value:?}");
    }
}

/// An answer of the plain HTTP APIs: one that is not good is a problem that says what to do. Returns its code.
pub fn is_plain(response: &Response) -> Option<String> {
    is_no_fault(response);
    let body = json(response);
    if response.status < 300 {
        return None;
    }
    assert_eq!(header(response, "content-type"), Some("application/problem+json"), "{body}");
    assert_eq!(body["status"], response.status, "{body}");
    assert!(body["title"].is_string() && body["retryable"].is_boolean(), "{body}");
    let detail = body["detail"].as_str().expect("a detail");
    is_sentence(detail);
    assert!(detail.ends_with('.'), "{detail}");
    let code = body["code"].as_str().expect("a code");
    assert!(!code.is_empty() && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{code}");
    Some(code.to_owned())
}

/// Something that a caller can act on, and not a copy of what it sent.
pub fn is_sentence(text: &str) {
    let chars = text.chars().count();
    assert!(
        (15..=SENTENCE_CHARS_MAX).contains(&chars),
        "{chars} characters: {}",
        taskhub::domain::text::shorten(text, 300)
    );
    for word in WORDS_OF_RUST {
        assert!(!text.contains(word), "{word} in {text}");
    }
}

/// An answer of `/mcp` under a right token. Returns its messages.
pub fn is_rpc(response: &Response) -> Vec<Json> {
    is_no_fault(response);
    if response.status == 202 {
        assert!(response.body.is_empty());
        return vec![];
    }
    let messages = match json(response) {
        Json::Array(messages) => messages,
        message => vec![message],
    };
    for message in &messages {
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        let id = message.get("id").expect("an id");
        assert!(id.is_null() || id.is_string() || id.is_number(), "{message}");
        assert_eq!(message.as_object().map(serde_json::Map::len), Some(3), "{message}");
        match (message.get("result"), message.get("error")) {
            (Some(result), None) => assert!(result.is_object() && response.status == 200, "{message}"),
            (None, Some(error)) => {
                assert!(error["code"].is_i64(), "{message}");
                is_sentence(error["message"].as_str().expect("a message"));
            }
            _ => panic!("neither a result nor an error: {message}"),
        }
    }
    messages
}

/// No secret is in an answer that is an error.
pub fn tells_no_secret(response: &Response, secrets: &[&str]) {
    let text = format!("{:?} {}", response.headers, text(response));
    for secret in secrets {
        assert!(secret.is_empty() || !text.contains(secret), "{secret} in {text}");
    }
}

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}
