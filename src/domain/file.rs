//! Files: what they are called, which type they have, the links by which they travel, and an upload that is under way.
//!
//! A name is the sender's, made safe: it can be a file's name on every system and stand in every header, and is never a way
//! to anywhere. A link carries a MAC of the file and its end by the hub's secret, so one cannot be made into another, and
//! junk is told without a look at the store. An upload's hash runs along in a value, so that nothing of it is stored twice.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::ids::FileId;
use super::limits::{CONTENT_TYPE_BYTES_MAX, FILE_NAME_BYTES_MAX};
use super::secret::{self, equal, short_mac};
use super::text::cut_bytes;

/// The type of what has none.
pub const UNKNOWN_TYPE: &str = "application/octet-stream";
/// Longest extension that survives the cut of a name, in bytes.
const EXTENSION_BYTES_MAX: usize = 20;
/// Characters of a SHA-256 in hex.
const SHA256_CHARS: usize = 64;

/// Which way a file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// From the submitter to whoever does the task.
    Input,
    /// From an attempt to the submitter.
    Output,
}

impl FileKind {
    /// The kind's name on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
        }
    }

    /// The kind of this name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Input, Self::Output].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// A file's name out of what a sender calls it; `None` if nothing is left. Doing it twice is the same as once.
pub fn clean_name(given: &str) -> Option<String> {
    let last = given.rsplit(['/', '\\']).find(|part| !part.trim().is_empty())?;
    let plain: String = last.chars().filter(|c| !is_unseen(*c)).map(plain).collect();
    let name = trimmed(&plain);
    // First of all the longest name, for a prefix and the cut must not make one another necessary.
    let room = FILE_NAME_BYTES_MAX - usize::from(is_reserved(name));
    let cut = cut_name(name, room);
    let cut = trimmed(&cut);
    match cut {
        "" => None,
        name if is_reserved(name) => Some(format!("_{name}")),
        name => Some(name.to_owned()),
    }
}

fn trimmed(name: &str) -> &str {
    let dot_or_space = |c: char| c == '.' || c.is_whitespace();
    name.trim_start_matches(dot_or_space).trim_end_matches(dot_or_space)
}

/// What no reader sees, and some are led astray by: controls, marks of direction, characters without width.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{e0000}'..='\u{e0fff}')
}

fn plain(c: char) -> char {
    match c {
        '<' | '>' | ':' | '"' | '|' | '?' | '*' | '\\' | '/' => '_',
        c if c.is_whitespace() => ' ',
        c => c,
    }
}

/// Names of devices on Windows, whatever their extension.
fn is_reserved(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let is_port = |stem: &str| {
        let port = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
        port.is_some_and(|rest| rest.chars().count() == 1 && rest.chars().all(|c| "0123456789¹²³".contains(c)))
    };
    matches!(stem.as_str(), "con" | "prn" | "aux" | "nul" | "conin$" | "conout$") || is_port(&stem)
}

/// At most so many bytes, with the extension if it is one.
fn cut_name(name: &str, bytes_max: usize) -> String {
    if name.len() <= bytes_max {
        return name.to_owned();
    }
    let extension = name.rfind('.').filter(|at| *at > 0 && name.len() - at <= EXTENSION_BYTES_MAX);
    let extension = extension.map_or("", |at| &name[at..]);
    let stem = cut_bytes(name, bytes_max - extension.len());
    format!("{}{extension}", trimmed(stem))
}

/// The type of a file: what its sender says if that says anything, else what its name tells.
pub fn content_type(given: Option<&str>, name: &str) -> String {
    const SAYS_NOTHING: [&str; 3] = [UNKNOWN_TYPE, "application/x-www-form-urlencoded", "binary/octet-stream"];
    let given = given.map(|text| text.trim().to_ascii_lowercase()).filter(|text| is_content_type(text));
    let essence = |text: &str| text.split(';').next().unwrap_or_default().trim_end().to_owned();
    match given.filter(|text| !SAYS_NOTHING.contains(&essence(text).as_str())) {
        Some(text) => text,
        None => type_of_name(name).unwrap_or(UNKNOWN_TYPE).to_owned(),
    }
}

/// A type and its parameters, all of plain tokens. A boundary belongs to a form, and a form is no file.
fn is_content_type(text: &str) -> bool {
    let is_token =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b));
    let mut parts = text.split(';').map(str::trim);
    let is_type = parts
        .next()
        .and_then(|essence| essence.split_once('/'))
        .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype) && kind != "multipart");
    let is_parameter = |text: &str| text.split_once('=').is_some_and(|(name, value)| is_token(name) && is_token(value));
    text.len() <= CONTENT_TYPE_BYTES_MAX && is_type && parts.all(is_parameter)
}

fn type_of_name(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    let (_, content_type) = TYPES
        .iter()
        .find(|(extensions, _)| extensions.split(' ').any(|known| known.eq_ignore_ascii_case(extension)))?;
    Some(content_type)
}

const TYPES: &[(&str, &str)] = &[
    ("txt log text ini cfg conf toml env patch diff", "text/plain; charset=utf-8"),
    ("md markdown", "text/markdown; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("tsv", "text/tab-separated-values; charset=utf-8"),
    ("html htm", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js mjs", "text/javascript; charset=utf-8"),
    ("py rs go c h cpp java ts sh rb sql", "text/plain; charset=utf-8"),
    ("xml", "application/xml"),
    ("json", "application/json"),
    ("jsonl ndjson", "application/x-ndjson"),
    ("yaml yml", "application/yaml"),
    ("ics", "text/calendar; charset=utf-8"),
    ("vcf", "text/vcard; charset=utf-8"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("jpg jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("svg", "image/svg+xml"),
    ("heic", "image/heic"),
    ("tif tiff", "image/tiff"),
    ("bmp", "image/bmp"),
    ("ico", "image/x-icon"),
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("ogg oga opus", "audio/ogg"),
    ("m4a", "audio/mp4"),
    ("flac", "audio/flac"),
    ("mp4 m4v", "video/mp4"),
    ("webm", "video/webm"),
    ("mov", "video/quicktime"),
    ("zip", "application/zip"),
    ("gz tgz", "application/gzip"),
    ("tar", "application/x-tar"),
    ("7z", "application/x-7z-compressed"),
    ("zst", "application/zstd"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("epub", "application/epub+zip"),
    ("wasm", "application/wasm"),
    ("sqlite db", "application/vnd.sqlite3"),
    ("eml", "message/rfc822"),
];

/// A SHA-256 in hex as a sender wrote it, in lower case; `None` if it is none.
pub fn parse_sha256(text: &str) -> Option<String> {
    let is_hex = text.len() == SHA256_CHARS && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then(|| text.to_ascii_lowercase())
}

/// What a link to a file lets its bearer do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPurpose {
    /// Read it.
    Download,
    /// Bring it.
    Upload,
}

/// Why a link to a file is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkRefused {
    /// This hub did not make it, or made it for something else.
    Foreign,
    /// Its time is over.
    Expired,
}

/// The query of a link that ends at `expires_at` (seconds of Unix time): `exp=<seconds>&sig=<mac>`.
pub fn link_query(secret: &str, purpose: LinkPurpose, id: &str, expires_at: i64) -> String {
    format!("exp={expires_at}&sig={}", link_mac(secret, purpose, id, &expires_at.to_string()))
}

fn link_mac(secret: &str, purpose: LinkPurpose, id: &str, expires_at: &str) -> String {
    let purpose = match purpose {
        LinkPurpose::Download => "file-link",
        LinkPurpose::Upload => "upload-link",
    };
    short_mac(secret, purpose, &[id, expires_at])
}

/// The file that a link is for, if this hub made the link for that and it is good at `now` (milliseconds).
pub fn read_link(secret: &str, purpose: LinkPurpose, id: &str, query: &str, now: i64) -> Result<FileId, LinkRefused> {
    let file = FileId::parse(id).ok_or(LinkRefused::Foreign)?;
    let field = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let (Some(end), Some(mac)) = (field("exp"), field("sig")) else { return Err(LinkRefused::Foreign) };
    if !equal(mac, &link_mac(secret, purpose, id, end)) {
        return Err(LinkRefused::Foreign);
    }
    let end: i64 = end.parse().map_err(|_| LinkRefused::Foreign)?;
    if end.saturating_mul(1000) <= now { Err(LinkRefused::Expired) } else { Ok(file) }
}

/// The SHA-256 of some bytes, in lower-case hex.
pub fn sha256_of(bytes: &[u8]) -> String {
    secret::hex(&Sha256::digest(bytes))
}

/// An upload that is under way: what has come so far.
#[derive(Clone)]
pub struct Receiving {
    /// The file's id.
    pub file_id: FileId,
    /// Under which its pieces are kept, until the next upload of the same takes its place.
    pub content_id: String,
    /// When it began, in milliseconds.
    pub began_at: i64,
    /// Most that it may have, in bytes.
    pub bytes_max: i64,
    /// Whether the pieces are kept; if not, they are only compared with a file that is there.
    pub is_kept: bool,
    /// Pieces so far.
    pub pieces: u32,
    /// Bytes so far.
    pub size: i64,
    hash: Sha256,
}

impl Receiving {
    /// One that begins at `now` (milliseconds).
    pub fn begin(file_id: FileId, content_id: String, now: i64, bytes_max: i64, is_kept: bool) -> Self {
        let hash = Sha256::new();
        Self { file_id, content_id, began_at: now, bytes_max, is_kept, pieces: 0, size: 0, hash }
    }

    /// The same with one more piece.
    #[must_use]
    pub fn with(&self, piece: &[u8]) -> Self {
        let mut next = self.clone();
        next.hash.update(piece);
        next.pieces += 1;
        next.size += i64::try_from(piece.len()).unwrap_or(i64::MAX / 2);
        next
    }

    /// The SHA-256 of what has come, in lower-case hex.
    pub fn sha256(&self) -> String {
        secret::hex(&self.hash.clone().finalize())
    }
}

impl fmt::Debug for Receiving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file_id, pieces, size, .. } = self;
        write!(f, "Receiving({}: {pieces} pieces, {size} bytes)", file_id.as_str())
    }
}

impl PartialEq for Receiving {
    fn eq(&self, other: &Self) -> bool {
        self.file_id == other.file_id && self.content_id == other.content_id && self.sha256() == other.sha256()
    }
}

impl Eq for Receiving {}

/// What comes of the body of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The next bytes: as many as a stored piece has, but for the last.
    Bytes {
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether nothing follows.
        is_last: bool,
    },
    /// Nothing came for too long.
    Stalled,
    /// The sender is gone.
    Broken,
}
