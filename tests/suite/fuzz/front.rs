//! Credentials and headers: whatever is not exactly right is refused, and nothing else happens.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use taskhub::domain::secret::{attempt_of_token, executor_of_key};
use taskhub::http::front;

use super::hub::{Fuzzed, request};
use super::shapes::text;
use super::{check, rules};
use crate::support::OWNER_TOKEN;

const HEADERS: [&str; 15] = [
    "authorization",
    "x-claim-token",
    "content-type",
    "content-length",
    "content-encoding",
    "x-sha256",
    "range",
    "accept",
    "origin",
    "host",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "mcp-session-id",
    "x-test-panic",
];

const PATHS: [&str; 17] = [
    "/",
    "/healthz",
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-authorization-server",
    "/mcp",
    "/api/clients",
    "/api/grants/$ID",
    "/api/passphrase",
    "/executor/attachment",
    "/files/f_000000000_0000000000000000",
    "/files/f_000000000_0000000000000000/a.txt",
    "/executor/claim",
    "/executor/ping",
    "/api/executors",
    "/api/executors/bot",
    "/api/tasks/$ID",
    "/__internal/sweep",
];

#[test]
fn no_header_breaks_a_request() {
    let fuzzed = Fuzzed::new();
    let value = prop_oneof![
        3 => text(),
        1 => Just(format!("Bearer {OWNER_TOKEN}")),
        1 => Just("Bearer $KEY".to_owned()),
        1 => text().prop_map(|text| format!("Bearer {text}")),
        1 => text().prop_map(|text| format!("https://{text}")),
        1 => text().prop_map(|text| format!("=?base64?{text}?=")),
    ];
    let headers = proptest::collection::vec((select(&HEADERS[..]), value), 0..5);
    let method =
        prop_oneof![4 => select(vec!["GET", "HEAD", "POST", "DELETE", "OPTIONS"]).prop_map(str::to_owned), 1 => text()];
    let body = proptest::collection::vec(any::<u8>(), 0..30);
    check(250, &(method, select(&PATHS[..]), headers, body), |(method, path, headers, body)| {
        let headers: Vec<(&str, String)> =
            headers.iter().map(|(name, value)| (*name, fuzzed.filled_text(value))).collect();
        let request = request(&method, &fuzzed.filled_text(path), &headers, body);
        let response = fuzzed.send(&request);
        if path != "/mcp" || [401, 405].contains(&response.status) {
            rules::is_plain(&response);
        } else {
            rules::is_rpc(&response);
        }
        front::is_repeatable(&request);
    });
}

/// A small change of a text: a character put in, taken out, or put in the place of another.
pub fn changed(right: &str, at: &Index, with: char, how: u8) -> String {
    let mut chars: Vec<char> = right.chars().collect();
    let at = at.index(chars.len());
    match how {
        0 => chars.insert(at, with),
        1 => drop(chars.remove(at)),
        2 => chars[at] = with,
        _ => chars.truncate(at),
    }
    chars.into_iter().collect()
}

#[test]
fn a_credential_that_is_nearly_right_is_refused() {
    let fuzzed = Fuzzed::new();
    let with = prop_oneof!["[A-Za-z0-9_.-]".prop_map(|text| text.chars().next().expect("one")), any::<char>()];
    check(200, &(any::<bool>(), any::<Index>(), with, 0_u8..4), |(is_owner, at, with, how)| {
        let (right, path) = if is_owner { (OWNER_TOKEN, "/api/executors") } else { (&*fuzzed.key, "/executor/ping") };
        let wrong = changed(right, &at, with, how);
        // White space around a credential is no part of it.
        if wrong.trim() == right {
            return;
        }
        let headers = [("authorization", format!("Bearer {wrong}"))];
        let method = if is_owner { "GET" } else { "POST" };
        let response = fuzzed.send(&request(method, path, &headers, vec![]));
        assert_eq!(response.status, 401, "{wrong:?}");
        rules::is_plain(&response);
        assert_eq!(executor_of_key(&fuzzed.world.settings.hub_secret, &wrong), None);
    });
}

#[test]
fn a_claim_token_that_is_nearly_right_changes_nothing() {
    let fuzzed = Fuzzed::new();
    let with = "[A-Za-z0-9_.-]".prop_map(|text| text.chars().next().expect("one"));
    check(80, &(any::<Index>(), with, 0_u8..4), |(at, with, how)| {
        let wrong = changed(&fuzzed.held.token, &at, with, how);
        if wrong == fuzzed.held.token {
            return;
        }
        attempt_of_token(&wrong);
        let body = format!(r#"{{"task_id":"{}","claim_token":"{wrong}"}}"#, fuzzed.held.id);
        let headers = [("authorization", format!("Bearer {}", fuzzed.key))];
        let response = fuzzed.send(&request("POST", "/executor/release", &headers, body.into_bytes()));
        assert_eq!(rules::is_plain(&response).as_deref(), Some("lease_lost"), "{wrong}");
    });
}
