//! The owner's settings: defaults, ranges, and what an owner is told.

use taskhub::domain::settings::{NAMES, SettingError, Settings};
use taskhub::domain::target::TargetPolicy;

const SECRET: (&str, &str) = ("HUB_SECRET", "a secret of the tests, long enough");

fn read(vars: &[(&str, &str)]) -> Result<Settings, Vec<SettingError>> {
    let vars: Vec<_> = vars.iter().chain(std::iter::once(&SECRET)).collect();
    Settings::from_vars(|name| vars.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
}

#[test]
fn defaults_are_the_designs() {
    let settings = read(&[]).unwrap();
    let right = Settings {
        lease_ms: 300_000,
        rewake_after_ms: 900_000,
        wake_coalesce_ms: 120_000,
        wake_attempts_max: 5,
        wake_timeout_ms: 10_000,
        input_timeout_ms: 86_400_000,
        retention_ms: 30 * 86_400_000,
        result_bytes_max: 262_144,
        instructions_bytes_max: 65_536,
        attachment_bytes_max: 26_214_400,
        task_attachments_bytes_max: 104_857_600,
        file_link_ms: 900_000,
        access_token_ms: 86_400_000,
        refresh_token_ms: 7_776_000_000,
        silent_after_ms: 900_000,
        ntfy: Ok(None),
        public_url: None,
        targets: TargetPolicy::PublicOnly,
        hub_secret: SECRET.1.to_owned(),
        owner_token: None,
        owner_passphrase: None,
    };
    assert_eq!(settings, right);
    assert_eq!(read(&[("LEASE_SECONDS", ""), ("PUBLIC_URL", " ")]).unwrap(), right, "empty is not set");
}

#[test]
fn a_number_has_a_range() {
    let ranges = [
        ("LEASE_SECONDS", 1, 86_400),
        ("REWAKE_AFTER_SECONDS", 1, 604_800),
        ("WAKE_COALESCE_SECONDS", 0, 86_400),
        ("WAKE_MAX_ATTEMPTS", 1, 100),
        ("WAKE_TIMEOUT_SECONDS", 1, 25),
        ("INPUT_TIMEOUT_SECONDS", 1, 2_592_000),
        ("RETENTION_DAYS", 1, 3_650),
        ("RESULT_MAX_BYTES", 1_024, 393_216),
        ("INSTRUCTIONS_MAX_BYTES", 1_024, 262_144),
        ("ATTACHMENT_MAX_BYTES", 1_024, 104_857_600),
        ("TASK_ATTACHMENTS_MAX_BYTES", 1_024, 1_073_741_824),
        ("FILE_LINK_SECONDS", 1, 86_400),
        ("ACCESS_TOKEN_SECONDS", 60, 2_592_000),
        ("REFRESH_TOKEN_SECONDS", 3_600, 31_536_000),
        ("SILENT_AFTER_SECONDS", 60, 604_800),
    ];
    for (name, min, max) in ranges {
        assert!(NAMES.contains(&name));
        for right in [min, max] {
            assert!(read(&[(name, &right.to_string())]).is_ok(), "{name}={right}");
        }
        for wrong in [(min - 1).to_string(), (max + 1).to_string(), "ten".to_owned(), "1.5".to_owned()] {
            let errors = read(&[(name, &wrong)]).unwrap_err();
            assert_eq!((errors.len(), errors[0].name), (1, name), "{wrong}");
            assert!(errors[0].detail.contains(&format!("from {min} to {max}")), "{}", errors[0].detail);
        }
    }
}

#[test]
fn all_errors_are_told_at_once() {
    let errors = Settings::from_vars(|name| match name {
        "LEASE_SECONDS" => Some("0".to_owned()),
        "OWNER_TOKEN" => Some("short".to_owned()),
        "OWNER_PASSPHRASE" => Some("too short".to_owned()),
        "PUBLIC_URL" => Some("hub.example".to_owned()),
        "ALLOW_PRIVATE_WEBHOOKS" => Some("perhaps".to_owned()),
        _ => None,
    })
    .unwrap_err();
    let names: Vec<&str> = errors.iter().map(|error| error.name).collect();
    assert_eq!(
        names,
        ["LEASE_SECONDS", "PUBLIC_URL", "ALLOW_PRIVATE_WEBHOOKS", "HUB_SECRET", "OWNER_TOKEN", "OWNER_PASSPHRASE"]
    );
}

#[test]
fn secrets_have_a_shortest_length() {
    let hub_secret = |length: usize| Settings::from_vars(|name| (name == "HUB_SECRET").then(|| "s".repeat(length)));
    assert!(hub_secret(32).is_ok());
    assert_eq!(hub_secret(31).unwrap_err()[0].name, "HUB_SECRET");
    assert!(read(&[("OWNER_TOKEN", &"t".repeat(16))]).is_ok());
    assert_eq!(read(&[("OWNER_TOKEN", &"t".repeat(15))]).unwrap_err()[0].name, "OWNER_TOKEN");
}

#[test]
fn an_error_does_not_tell_a_secret() {
    let errors = read(&[("OWNER_TOKEN", "s3cret")]).unwrap_err();
    assert!(!format!("{errors:?}").contains("s3cret"));
    let short = Settings::from_vars(|name| (name == "HUB_SECRET").then(|| "s3cret".to_owned())).unwrap_err();
    assert!(!format!("{short:?}").contains("s3cret"));
}

#[test]
fn a_public_url_is_scheme_and_host() {
    for (given, kept) in [
        ("https://hub.example", "https://hub.example"),
        ("https://hub.example/", "https://hub.example"),
        ("https://Hub.Example:443", "https://hub.example"),
        ("http://localhost:8787", "http://localhost:8787"),
        ("HTTPS://Hub.Example:443/", "https://hub.example"),
    ] {
        assert_eq!(read(&[("PUBLIC_URL", given)]).unwrap().public_url.as_deref(), Some(kept));
    }
    for wrong in [
        "hub.example",
        "https://",
        "https://hub example",
        "https://me@hub.example",
        "javascript://hub.example",
        "https://hub.example/path",
        "https://hub.example?q",
        "ftp://hub.example",
    ] {
        assert_eq!(read(&[("PUBLIC_URL", wrong)]).unwrap_err()[0].name, "PUBLIC_URL", "{wrong}");
    }
}

#[test]
fn the_switch_for_private_webhooks_is_read_strictly() {
    for (text, policy) in [
        ("true", TargetPolicy::PrivateAllowed),
        ("1", TargetPolicy::PrivateAllowed),
        ("false", TargetPolicy::PublicOnly),
        ("0", TargetPolicy::PublicOnly),
    ] {
        assert_eq!(read(&[("ALLOW_PRIVATE_WEBHOOKS", text)]).unwrap().targets, policy);
    }
    assert!(read(&[("ALLOW_PRIVATE_WEBHOOKS", "on")]).is_err());
}

#[test]
fn every_setting_that_is_read_is_named() {
    let asked = std::cell::RefCell::new(std::collections::BTreeSet::new());
    let _ = Settings::from_vars(|name| {
        asked.borrow_mut().insert(name.to_owned());
        None
    });
    let named: std::collections::BTreeSet<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(*asked.borrow(), named);
}
