//! The owner's settings (design §15): names, defaults, permitted ranges, and their check at start.

use url::Url;

use super::ntfy::{self, Ntfy};
use super::secret::HUB_SECRET_BYTES_MIN;
use super::target::TargetPolicy;

/// What the owner configured, or the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a claim lives without a heartbeat, in milliseconds.
    pub lease_ms: i64,
    /// How long after an accepted wake an unclaimed task is woken again, in milliseconds.
    pub rewake_after_ms: i64,
    /// How long a wake covers the tasks that follow it, in milliseconds.
    pub wake_coalesce_ms: i64,
    /// Wakes in a row that may be refused before the hub gives up.
    pub wake_attempts_max: u32,
    /// How long a wake's request may take, in milliseconds.
    pub wake_timeout_ms: i64,
    /// How long a task waits for an answer before it fails, in milliseconds.
    pub input_timeout_ms: i64,
    /// How long a finished task is kept, in milliseconds.
    pub retention_ms: i64,
    /// Longest result or data, in bytes.
    pub result_bytes_max: usize,
    /// Longest instructions, in bytes.
    pub instructions_bytes_max: usize,
    /// Longest file, in bytes.
    pub attachment_bytes_max: i64,
    /// Most that the files of one task may have together, in bytes.
    pub task_attachments_bytes_max: i64,
    /// How long a link to a file is good, in milliseconds.
    pub file_link_ms: i64,
    /// How long an access token lives, in milliseconds.
    pub access_token_ms: i64,
    /// How long a refresh token lives unused, in milliseconds.
    pub refresh_token_ms: i64,
    /// Where the hub is reached from outside, without a trailing slash; `None`: as each request says.
    pub public_url: Option<String>,
    /// How long tasks wait for an executor that is not there before the owner is told, in milliseconds.
    pub silent_after_ms: i64,
    /// Where the owner is told of what happens, if anywhere; what is wrong with the configuration does not keep the hub from
    /// its work.
    pub ntfy: Result<Option<Ntfy>, String>,
    /// Which addresses wakes may go to.
    pub targets: TargetPolicy,
    /// The hub's own secret, from which keys and tokens are made.
    pub hub_secret: String,
    /// The static bearer token of headless clients, if the owner wants one.
    pub owner_token: Option<String>,
    /// The passphrase with which the owner first signs in; one that was changed later wins over it.
    pub owner_passphrase: Option<String>,
}

/// One setting that cannot be used, in words for the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The variable's name.
    pub name: &'static str,
    /// What is wrong and what to write instead.
    pub detail: String,
}

/// A number with its default and permitted range; `scale` turns the written unit into the stored one.
struct Number {
    name: &'static str,
    default: i64,
    min: i64,
    max: i64,
}

const LEASE_SECONDS: Number = Number { name: "LEASE_SECONDS", default: 300, min: 1, max: 86_400 };
const REWAKE_AFTER_SECONDS: Number = Number { name: "REWAKE_AFTER_SECONDS", default: 900, min: 1, max: 604_800 };
const WAKE_COALESCE_SECONDS: Number = Number { name: "WAKE_COALESCE_SECONDS", default: 120, min: 0, max: 86_400 };
const WAKE_MAX_ATTEMPTS: Number = Number { name: "WAKE_MAX_ATTEMPTS", default: 5, min: 1, max: 100 };
const WAKE_TIMEOUT_SECONDS: Number = Number { name: "WAKE_TIMEOUT_SECONDS", default: 10, min: 1, max: 25 };
const INPUT_TIMEOUT_SECONDS: Number = Number { name: "INPUT_TIMEOUT_SECONDS", default: 86_400, min: 1, max: 2_592_000 };
const SILENT_AFTER_SECONDS: Number = Number { name: "SILENT_AFTER_SECONDS", default: 900, min: 60, max: 604_800 };
const RETENTION_DAYS: Number = Number { name: "RETENTION_DAYS", default: 30, min: 1, max: 3_650 };
const RESULT_MAX_BYTES: Number = Number { name: "RESULT_MAX_BYTES", default: 262_144, min: 1_024, max: 393_216 };
const INSTRUCTIONS_MAX_BYTES: Number =
    Number { name: "INSTRUCTIONS_MAX_BYTES", default: 65_536, min: 1_024, max: 262_144 };
// Cloudflare takes no longer body than this.
const ATTACHMENT_MAX_BYTES: Number =
    Number { name: "ATTACHMENT_MAX_BYTES", default: 26_214_400, min: 1_024, max: 104_857_600 };
const TASK_ATTACHMENTS_MAX_BYTES: Number =
    Number { name: "TASK_ATTACHMENTS_MAX_BYTES", default: 104_857_600, min: 1_024, max: 1_073_741_824 };
const FILE_LINK_SECONDS: Number = Number { name: "FILE_LINK_SECONDS", default: 900, min: 1, max: 86_400 };

const ACCESS_TOKEN_SECONDS: Number = Number { name: "ACCESS_TOKEN_SECONDS", default: 86_400, min: 60, max: 2_592_000 };
const REFRESH_TOKEN_SECONDS: Number =
    Number { name: "REFRESH_TOKEN_SECONDS", default: 7_776_000, min: 3_600, max: 31_536_000 };

/// Shortest passphrase, in characters.
pub const PASSPHRASE_CHARS_MIN: usize = 10;
/// Longest passphrase, in bytes.
pub const PASSPHRASE_BYTES_MAX: usize = 1_024;

/// The names of all variables that `Settings::from_vars` reads, for the README's table and the Worker's bindings.
pub const NAMES: [&str; 24] = [
    "LEASE_SECONDS",
    "REWAKE_AFTER_SECONDS",
    "WAKE_COALESCE_SECONDS",
    "WAKE_MAX_ATTEMPTS",
    "WAKE_TIMEOUT_SECONDS",
    "INPUT_TIMEOUT_SECONDS",
    "RETENTION_DAYS",
    "RESULT_MAX_BYTES",
    "INSTRUCTIONS_MAX_BYTES",
    "ATTACHMENT_MAX_BYTES",
    "TASK_ATTACHMENTS_MAX_BYTES",
    "FILE_LINK_SECONDS",
    "ACCESS_TOKEN_SECONDS",
    "REFRESH_TOKEN_SECONDS",
    "SILENT_AFTER_SECONDS",
    "NTFY_URL",
    "NTFY_TOPIC",
    "NTFY_EVENTS",
    "PUBLIC_URL",
    "ALLOW_PRIVATE_WEBHOOKS",
    "HUB_SECRET",
    "OWNER_TOKEN",
    "OWNER_PASSPHRASE",
    "NTFY_TOKEN",
];

impl Settings {
    /// Reads every setting through `var` (`None` or an empty text: not set). All errors are collected, so that an owner
    /// mends them in one go.
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Self, Vec<SettingError>> {
        let var = |name: &str| var(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let mut errors = Vec::new();
        let mut number = |spec: &Number| read_number(spec, var(spec.name), &mut errors);

        let lease_ms = number(&LEASE_SECONDS) * 1000;
        let rewake_after_ms = number(&REWAKE_AFTER_SECONDS) * 1000;
        let wake_coalesce_ms = number(&WAKE_COALESCE_SECONDS) * 1000;
        let wake_attempts_max = number(&WAKE_MAX_ATTEMPTS).unsigned_abs() as u32;
        let wake_timeout_ms = number(&WAKE_TIMEOUT_SECONDS) * 1000;
        let input_timeout_ms = number(&INPUT_TIMEOUT_SECONDS) * 1000;
        let retention_ms = number(&RETENTION_DAYS) * 86_400_000;
        let result_bytes_max = number(&RESULT_MAX_BYTES).unsigned_abs() as usize;
        let instructions_bytes_max = number(&INSTRUCTIONS_MAX_BYTES).unsigned_abs() as usize;

        let attachment_bytes_max = number(&ATTACHMENT_MAX_BYTES);
        let task_attachments_bytes_max = number(&TASK_ATTACHMENTS_MAX_BYTES);
        let file_link_ms = number(&FILE_LINK_SECONDS) * 1000;

        let access_token_ms = number(&ACCESS_TOKEN_SECONDS) * 1000;
        let refresh_token_ms = number(&REFRESH_TOKEN_SECONDS) * 1000;
        let silent_after_ms = number(&SILENT_AFTER_SECONDS) * 1000;

        let public_url = var("PUBLIC_URL").and_then(|text| read_public_url(&text, &mut errors));
        let targets = read_targets(var("ALLOW_PRIVATE_WEBHOOKS").as_deref(), &mut errors);
        let ntfy = ntfy::read(var, targets);
        let hub_secret = read_hub_secret(var("HUB_SECRET"), &mut errors);
        let (owner_token, owner_passphrase) = (var("OWNER_TOKEN"), var("OWNER_PASSPHRASE"));
        check_owners_secrets(owner_token.as_deref(), owner_passphrase.as_deref(), &mut errors);

        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self {
            lease_ms,
            rewake_after_ms,
            wake_coalesce_ms,
            wake_attempts_max,
            wake_timeout_ms,
            input_timeout_ms,
            retention_ms,
            result_bytes_max,
            instructions_bytes_max,
            attachment_bytes_max,
            task_attachments_bytes_max,
            file_link_ms,
            access_token_ms,
            refresh_token_ms,
            silent_after_ms,
            ntfy,
            public_url,
            targets,
            hub_secret,
            owner_token,
            owner_passphrase,
        })
    }
}

impl Settings {
    /// Where the owner is told of what happens, if that is configured and can be used.
    pub fn notices(&self) -> Option<&Ntfy> {
        self.ntfy.as_ref().ok()?.as_ref()
    }
}

fn check_owners_secrets(token: Option<&str>, passphrase: Option<&str>, errors: &mut Vec<SettingError>) {
    if token.is_some_and(|token| token.len() < 16) {
        let detail = "is shorter than 16 characters; use a long random text".to_owned();
        errors.push(SettingError { name: "OWNER_TOKEN", detail });
    }
    if let Some(Err(detail)) = passphrase.map(check_passphrase) {
        errors.push(SettingError { name: "OWNER_PASSPHRASE", detail });
    }
}

/// Whether a passphrase may be used; if not, what is wrong with it.
pub fn check_passphrase(text: &str) -> Result<(), String> {
    if text.chars().count() < PASSPHRASE_CHARS_MIN {
        return Err(format!("is shorter than {PASSPHRASE_CHARS_MIN} characters; use several words"));
    }
    if text.len() > PASSPHRASE_BYTES_MAX {
        return Err(format!("is longer than {PASSPHRASE_BYTES_MAX} bytes"));
    }
    Ok(())
}

fn read_number(spec: &Number, text: Option<String>, errors: &mut Vec<SettingError>) -> i64 {
    let Some(text) = text else { return spec.default };
    match text.parse::<i64>() {
        Ok(value) if (spec.min..=spec.max).contains(&value) => value,
        _ => {
            let Number { name, default, min, max } = spec;
            let shown = super::text::shorten(&text, 40);
            let detail = format!("is \"{shown}\", not a whole number from {min} to {max} (default {default})");
            errors.push(SettingError { name, detail });
            spec.default
        }
    }
}

fn read_public_url(text: &str, errors: &mut Vec<SettingError>) -> Option<String> {
    let bare = text.trim_end_matches('/');
    let host = bare.split_once("://").map(|(_, host)| host).filter(|host| !host.contains(['/', '?', '#', '@', ' ']));
    let url = host.and_then(|_| Url::parse(bare).ok()).filter(|url| matches!(url.scheme(), "https" | "http"));
    if let Some(url) = url {
        // As browsers write it in Origin, which the consent form compares: lower case, without a default port.
        return Some(url.origin().ascii_serialization());
    }
    let detail = "must be scheme and host only, such as https://taskhub.example.workers.dev".to_owned();
    errors.push(SettingError { name: "PUBLIC_URL", detail });
    None
}

fn read_targets(text: Option<&str>, errors: &mut Vec<SettingError>) -> TargetPolicy {
    match text {
        None | Some("false" | "0" | "no") => TargetPolicy::PublicOnly,
        Some("true" | "1" | "yes") => TargetPolicy::PrivateAllowed,
        Some(_) => {
            let detail = "must be true or false".to_owned();
            errors.push(SettingError { name: "ALLOW_PRIVATE_WEBHOOKS", detail });
            TargetPolicy::PublicOnly
        }
    }
}

fn read_hub_secret(text: Option<String>, errors: &mut Vec<SettingError>) -> String {
    let secret = text.unwrap_or_default();
    if secret.len() < HUB_SECRET_BYTES_MIN {
        let detail = format!(
            "is missing or shorter than {HUB_SECRET_BYTES_MIN} characters; set it to a long random text \
             (wrangler secret put HUB_SECRET)"
        );
        errors.push(SettingError { name: "HUB_SECRET", detail });
    }
    secret
}
