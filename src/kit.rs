//! `/kit/…`: what a machine downloads to become an executor, out of `kit/` as it was when this was built (design §12).
//!
//! Owns: the files, their types and checksums, and the line that installs them. Invariants: the front answers, so a download
//! costs no call of the object; what is filled into the installer, which a shell runs, cannot be more than an address. It
//! refuses to know executors and codes.

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::domain::secret::sha256_hex;
use crate::domain::settings::Settings;
use crate::http::message::{Request, Response};
use crate::http::problem::Problem;
use crate::http::route::KitFile;

const INSTALLER: &str = include_str!("../kit/install.sh");
const RELAY: &str = include_str!("../kit/relay.py");
const SKILL: &str = include_str!("../kit/SKILL.md");

/// What stands in the files where the hub's address and the checksums of the others belong.
const HUB_URL: &str = "@HUB_URL@";
const RELAY_SHA256: &str = "@RELAY_SHA256@";
const SKILL_SHA256: &str = "@SKILL_SHA256@";

/// How long a cache may give out a file unasked. An installer that is older than the relay sees it by the checksum.
const CACHE_CONTROL: &str = "public, max-age=300";

static RELAY_SUM: LazyLock<String> = LazyLock::new(|| sha256_hex(RELAY));

/// The file, or 304 to who has it.
pub fn answer(request: &Request, settings: &Settings, file: KitFile) -> Response {
    let hub_url = settings.public_url.as_deref().unwrap_or(&request.origin);
    if !is_plain(hub_url) {
        let detail = "The Host header of this request is no address that a shell could be given. Ask for the file at the hub's own \
                      address, or let the owner set PUBLIC_URL.";
        return Problem::new(400, "bad_host", "Bad host", detail).response();
    }
    let text = text(file, hub_url);
    let etag = format!("\"{}\"", sum(file, &text));
    let is_known = request.header("if-none-match").is_some_and(|tags| names(tags, &etag));
    let response = if is_known { Response::empty(304) } else { whole(file, &text) };
    response.with("cache-control", CACHE_CONTROL).with("etag", etag).with("x-content-type-options", "nosniff")
}

fn whole(file: KitFile, text: &str) -> Response {
    let content_type = match file {
        KitFile::Installer => "text/x-shellscript; charset=utf-8",
        KitFile::Relay => "text/x-python; charset=utf-8",
        KitFile::Skill => "text/markdown; charset=utf-8",
        KitFile::Sums => "text/plain; charset=utf-8",
    };
    let headers = vec![("content-type", content_type.to_owned())];
    Response { status: 200, headers, body: text.as_bytes().to_vec() }
}

/// The line that installs the relay on a machine and enrols it. Only the code, good once and for ten minutes, is secret in it.
pub fn install_line(hub_url: &str, code: &str) -> String {
    let address = format!("{hub_url}/kit/{}", KitFile::Installer.name());
    // Brackets, as in the address of an IPv6 host, are a pattern to a shell.
    let needs_quotes = !is_plain(hub_url) || hub_url.contains('[');
    let address = if needs_quotes { format!("'{}'", address.replace('\'', "'\\''")) } else { address };
    format!("curl -fsSL {address} | sh -s -- --enroll {code}")
}

/// What is served under this name, with everything filled in.
fn text(file: KitFile, hub_url: &str) -> Cow<'static, str> {
    match file {
        KitFile::Relay => Cow::Borrowed(RELAY),
        KitFile::Skill => Cow::Owned(SKILL.replace(RELAY_SHA256, &RELAY_SUM).replace(HUB_URL, hub_url)),
        KitFile::Installer => {
            let skill = sha256_hex(&text(KitFile::Skill, hub_url));
            let filled = INSTALLER.replace(RELAY_SHA256, &RELAY_SUM).replace(SKILL_SHA256, &skill);
            Cow::Owned(filled.replace(HUB_URL, hub_url))
        }
        KitFile::Sums => {
            let listed = [KitFile::Installer, KitFile::Relay, KitFile::Skill];
            // As `sha256sum --check` reads them.
            let line = |file: KitFile| format!("{}  {}\n", sum(file, &text(file, hub_url)), file.name());
            Cow::Owned(listed.into_iter().map(line).collect())
        }
    }
}

fn sum(file: KitFile, text: &str) -> String {
    if file == KitFile::Relay { RELAY_SUM.clone() } else { sha256_hex(text) }
}

/// Whether an `If-None-Match` names this entity. A proxy that packs a file marks its tag as weak.
fn names(tags: &str, etag: &str) -> bool {
    tags.split(',').map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
}

/// Whether an address means nothing to a shell. A host name that a client sends may hold quotes and dollar signs.
fn is_plain(url: &str) -> bool {
    url.bytes().all(|b| b.is_ascii_alphanumeric() || b".:/-_[]".contains(&b))
}
