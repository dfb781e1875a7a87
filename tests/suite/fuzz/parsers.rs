//! The pure parsers: they take what was written by their own hand, refuse the rest, and never panic.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value as Json;
use taskhub::domain::ids::{TaskId, is_executor_name, is_queue_name};
use taskhub::domain::secret::{attempt_of_token, claim_token, executor_key, executor_of_key};
use taskhub::domain::settings::{NAMES, Settings};
use taskhub::domain::target::{self, TargetPolicy};
use taskhub::domain::task::{Address, State};
use taskhub::domain::text::{cut_bytes, cut_chars, shorten};
use taskhub::domain::wake::{Wake, WakeAuth, signing_key};

use super::check;
use super::shapes::text;

const SECRET: &str = "a secret of the tests, long enough";

#[test]
fn task_ids_are_read_as_they_are_written_and_sort_by_time() {
    const END: i64 = 101_559_956_668_416;
    check(400, &(0..END, 0..END, any::<[u8; 10]>(), any::<[u8; 10]>()), |(first, second, one, other)| {
        let (left, right) = (TaskId::new(first, one), TaskId::new(second, other));
        assert_eq!(TaskId::parse(left.as_str()), Some(left.clone()));
        if first != second {
            assert_eq!(left < right, first < second);
        }
        assert!(left.as_str().starts_with(&TaskId::time_prefix(first)));
        assert_eq!(left == right, (first, one) == (second, other));
    });
}

#[test]
fn what_is_read_as_an_id_or_a_name_is_plain() {
    let near = "(t_[0-9a-z]{8,10}_[0-9a-zA-Z]{15,17}|[@a-z0-9._-]{0,70})";
    check(600, &prop_oneof![2 => near.prop_map(|text: String| text), 1 => text()], |text| {
        if let Some(id) = TaskId::parse(&text) {
            assert_eq!((id.as_str(), text.len()), (text.as_str(), 28));
        }
        if let Some(address) = Address::parse(&text) {
            assert_eq!(address.to_string(), text);
            assert_eq!(Address::parse(&address.to_string()), Some(address));
        }
        assert_eq!(Address::executor(&text).is_some(), is_executor_name(&text));
        assert_eq!(Address::queue(&text).is_some(), is_queue_name(&text));
        if is_executor_name(&text) || is_queue_name(&text) {
            assert!(text.is_ascii() && !text.contains([' ', '/', '~', '@', '%', '"']) && text.len() <= 64);
        }
        if let Some(state) = State::parse(&text) {
            assert_eq!(state.as_str(), text);
        }
    });
}

#[test]
fn keys_and_tokens_are_known_by_their_own_secret_only() {
    let name = "[a-z0-9][a-z0-9-]{0,39}";
    let cases = (name, any::<[u8; 24]>(), any::<u32>(), text(), text());
    check(200, &cases, |(name, random, attempt, secret, other)| {
        let key = executor_key(&secret, &name, random);
        assert_eq!(executor_of_key(&secret, &key), Some(name.as_str()));
        // HMAC pads a key with zeros.
        if secret.trim_end_matches('\0') != other.trim_end_matches('\0') {
            assert_eq!(executor_of_key(&other, &key), None);
        }
        assert_eq!(attempt_of_token(&claim_token(&secret, "t", attempt, &name)), Some(attempt));
        assert_eq!(executor_of_key(SECRET, &other), None);
        if let Some(key) = signing_key(&format!("whsec_{other}")) {
            assert!((24..=64).contains(&key.len()));
        }
    });
}

/// An address, most of it plausible.
pub fn url() -> impl Strategy<Value = String> {
    let scheme = select(vec!["https://", "http://", "HTTPS://", "https:", "ftp://", "//", "https:\\\\", ""]);
    let user = select(vec!["", "", "", "u@", "u:p@", "@"]);
    let host = prop_oneof![
        4 => any::<[u8; 4]>().prop_map(|octets| Ipv4Addr::from(octets).to_string()),
        2 => any::<u32>().prop_map(|number| number.to_string()),
        2 => any::<u32>().prop_map(|number| format!("0x{number:x}")),
        2 => any::<u128>().prop_map(|number| format!("[{}]", std::net::Ipv6Addr::from_bits(number))),
        3 => select(vec!["bot.example", "localhost", "a.localhost.", "LOCALHOST", "x.internal", "169.254.169.254", "127.1", "A.XN--MNCHEN-3YA.EXAMPLE"])
            .prop_map(str::to_owned),
        1 => text(),
    ];
    let rest = prop_oneof![
        2 => select(vec!["", "/", ":443/x", ":99999", "/a b", "/?q#f", "/../..", ":0"]).prop_map(str::to_owned),
        1 => text(),
    ];
    (scheme, user, host, rest).prop_map(|(scheme, user, host, rest)| format!("{scheme}{user}{host}{rest}"))
}

#[test]
fn a_target_that_is_permitted_is_public_and_in_its_normal_form() {
    check(800, &url(), |text| {
        let _ = target::check(&text, TargetPolicy::PrivateAllowed).map(|normal| {
            assert_eq!(target::check(&normal, TargetPolicy::PrivateAllowed), Ok(normal.clone()));
        });
        let Ok(normal) = target::check(&text, TargetPolicy::PublicOnly) else { return };
        assert_eq!(target::check(&normal, TargetPolicy::PublicOnly), Ok(normal.clone()), "{text}");
        let rest = normal.strip_prefix("https://").expect("https only");
        let authority = rest.split(['/', '?', '#']).next().expect("a host");
        assert!(!authority.contains('@'), "{text}");
        let host = url::Url::parse(&normal).expect("an address");
        let host = host.host_str().expect("a host").trim_matches(['[', ']']);
        match host.parse::<IpAddr>() {
            Ok(IpAddr::V4(v4)) => assert!(!v4.is_private() && !v4.is_loopback() && !v4.is_link_local(), "{text}"),
            Ok(IpAddr::V6(v6)) => assert!(!v6.is_loopback() && !v6.is_unique_local() && !v6.is_multicast(), "{text}"),
            Err(_) => assert!(host.contains('.') && !host.trim_end_matches('.').ends_with("localhost"), "{text}"),
        }
    });
}

#[test]
fn settings_are_right_or_every_wrong_one_is_named() {
    let value = prop_oneof![
        2 => Just(None),
        2 => text().prop_map(Some),
        3 => (-2_i64..700_000).prop_map(|number| Some(number.to_string())),
        1 => select(vec!["true", "no", "https://hub.example/", "http://x", "https://a/b", "99999999999999999999"])
            .prop_map(|text| Some(text.to_owned())),
        2 => "[a-z ]{16,60}".prop_map(Some),
    ];
    check(400, &proptest::collection::vec(value, NAMES.len()), |values| {
        let var = |name: &str| {
            let index = NAMES.iter().position(|known| *known == name).expect("a known name");
            values[index].clone()
        };
        match Settings::from_vars(var) {
            Ok(settings) => {
                assert!((1_000..=86_400_000).contains(&settings.lease_ms) && settings.retention_ms >= 86_400_000);
                assert!(settings.hub_secret.len() >= 32 && settings.owner_token.is_none_or(|token| token.len() >= 16));
                assert!(settings.public_url.is_none_or(|url| url.starts_with("http") && !url.ends_with('/')));
            }
            Err(errors) => {
                assert!(!errors.is_empty());
                let secrets = [var("HUB_SECRET"), var("OWNER_TOKEN")];
                for error in errors {
                    assert!(NAMES.contains(&error.name) && error.detail.len() > 15 && error.detail.len() < 400);
                    let is_secret = |text: &String| text.trim().len() > 8 && error.detail.contains(text.trim());
                    assert!(!secrets.iter().flatten().any(is_secret) || !error.name.contains("SECRET"), "{error:?}");
                }
            }
        }
    });
}

#[test]
fn a_cut_text_is_a_beginning_and_no_longer_than_it_may_be() {
    check(300, &(text(), 0_usize..300), |(text, max)| {
        let (bytes, chars, short) = (cut_bytes(&text, max), cut_chars(&text, max), shorten(&text, max));
        assert!(text.starts_with(bytes) && bytes.len() <= max && (text.len() <= max || bytes.len() + 4 > max));
        assert!(text.starts_with(chars) && chars.chars().count() == max.min(text.chars().count()));
        assert!(short.chars().count() <= max.max(1));
    });
}

#[test]
fn a_wake_survives_its_text() {
    let auth = prop_oneof![
        text().prop_map(|token| WakeAuth::Bearer { token }),
        text().prop_map(|secret| WakeAuth::Hmac { secret }),
        Just(WakeAuth::None {}),
    ];
    let body = proptest::option::of(text().prop_map(Json::from));
    check(200, &(url(), auth, body), |(url, auth, body)| {
        let wake = Wake::Webhook { url, auth, body };
        let text = serde_json::to_string(&wake).expect("a text");
        assert_eq!(serde_json::from_str::<Wake>(&text).expect("the same"), wake);
        if let Ok(checked) = wake.checked(TargetPolicy::PublicOnly) {
            assert_eq!(checked.clone().checked(TargetPolicy::PublicOnly), Ok(checked));
        }
    });
}
