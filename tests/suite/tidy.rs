//! House rules that a compiler does not check: sizes, words, layers, leftovers.

use std::collections::BTreeSet;

use crate::support::rust_sources;

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;

/// Words that say nothing, or something else here (design §2).
const WORDS: [&str; 9] = ["job", "jobs", "lock", "worker", "manager", "util", "utils", "helper", "common"];

/// Names that others have given.
const FOREIGN: [&str; 2] = ["futures_util", "LazyLock"];

/// What each module may name of the crate: itself and what stands left of it.
const LAYERS: &[(&str, &[&str])] = &[
    ("domain", &["domain", "faults"]),
    ("outbound", &["domain", "outbound"]),
    ("store", &["domain", "store"]),
    ("hub", &["domain", "store", "outbound", "hub", "hooks", "faults"]),
    ("executor", &["domain", "store", "hub", "http", "executor"]),
    ("kit", &["domain", "http", "kit"]),
    ("files", &["domain", "hub", "http", "executor", "files"]),
    ("owner", &["domain", "store", "hub", "outbound", "kit", "http", "owner"]),
    ("mcp", &["domain", "store", "hub", "kit", "http", "executor", "mcp"]),
    ("oauth", &["domain", "store", "hub", "http", "oauth"]),
    ("http", &["domain", "store", "hub", "outbound", "kit", "http", "executor", "files", "owner", "mcp", "oauth"]),
];

/// Of `http`, only the router knows who answers; what needs no object, the front answers.
const HTTP_VALUES: &[&str] = &["domain", "outbound", "kit", "http"];

/// The text without comments and without what stands in quotes.
fn code(source: &str) -> String {
    let source = source.replace("'\"'", "' '");
    let mut code = String::new();
    let mut rest = source.as_str();
    while let Some(at) = rest.find(['"', '/']) {
        code.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(quoted) = rest.strip_prefix('"') {
            1 + quoted_bytes(quoted)
        } else {
            code.push('/');
            1
        };
        rest = &rest[end..];
    }
    code + rest
}

/// How much of the text belongs to the string that has just begun, with its closing quote.
fn quoted_bytes(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// `SnakeCase` and `snake_case` in their words.
fn words(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in identifier.chars() {
        if c == '_' || c.is_uppercase() {
            words.push(String::new());
        }
        if c != '_' {
            words.last_mut().expect("there is one").extend(c.to_lowercase());
        }
    }
    words
}

fn layer(path: &str) -> &str {
    let inside = path.strip_prefix("src/").unwrap_or(path);
    inside.split(['/', '.']).next().unwrap_or_default()
}

#[test]
fn files_have_a_size_that_can_be_read() {
    for directory in ["src", "tests"] {
        for (path, source) in rust_sources(directory) {
            let lines = source.lines().count();
            assert!(lines <= FILE_LINES_MAX, "{path} has {lines} lines");
        }
    }
}

#[test]
fn functions_fit_a_screen() {
    for (path, source) in rust_sources("src") {
        let lines: Vec<&str> = source.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let indent = &line[..line.len() - line.trim_start().len()];
            let is_function = identifiers(line.split('(').next().unwrap_or_default()).any(|word| word == "fn");
            if !is_function || line.trim_start().starts_with("//") || line.ends_with(['}', ';']) {
                continue;
            }
            // A body ends with a brace, a declaration without one with its parameters.
            let (end, declared) = (format!("{indent}}}"), format!("{indent})"));
            let is_end = |line: &str| line == end || (line.starts_with(&declared) && line.ends_with(';'));
            let length = lines[index..].iter().take_while(|line| !is_end(line)).count() + 1;
            assert!(length <= FUNCTION_LINES_MAX, "{path}:{}: {length} lines", index + 1);
        }
    }
}

#[test]
fn names_are_the_fields() {
    for (path, source) in rust_sources("src") {
        let is_edge = layer(&path) == "edge";
        let code = code(&source);
        let names = identifiers(&code).chain(path.split(['/', '.']));
        for name in names.filter(|name| !FOREIGN.contains(name)) {
            for word in words(name) {
                let is_platform = is_edge && word == "worker";
                assert!(is_platform || !WORDS.contains(&word.as_str()), "{path} names {name}");
            }
        }
    }
}

#[test]
fn modules_depend_leftwards_only() {
    let mut seen = BTreeSet::new();
    for (path, source) in rust_sources("src") {
        let Some((layer, permitted)) = LAYERS.iter().find(|(name, _)| *name == layer(&path)) else { continue };
        seen.insert(*layer);
        let is_router = path == "src/http/router.rs";
        let permitted = if *layer == "http" && !is_router { HTTP_VALUES } else { permitted };
        let code = code(&source);
        for named in code.split("crate::").skip(1) {
            // `use crate::{a, b}` names several at once.
            let first: Vec<&str> = match named.strip_prefix('{') {
                Some(list) => list.split('}').next().unwrap_or_default().split(',').map(str::trim).collect(),
                None => vec![named],
            };
            for name in first.iter().filter_map(|name| identifiers(name).next()) {
                assert!(permitted.contains(&name), "{path} names crate::{name}");
            }
        }
    }
    assert_eq!(seen.len(), LAYERS.len());
}

#[test]
fn only_the_edge_names_the_platform() {
    for (path, source) in rust_sources("src") {
        let code = code(&source);
        for platform in ["worker", "wasm_bindgen", "js_sys"] {
            let names = identifiers(&code).any(|name| name == platform);
            assert!(!names || layer(&path) == "edge", "{path} names {platform}");
        }
    }
}

/// A synchronous library: the clock, chance, threads and files are the edge's.
#[test]
fn the_library_asks_nobody_for_the_time() {
    for (path, source) in rust_sources("src") {
        if layer(&path) == "edge" {
            continue;
        }
        let code = code(&source);
        for word in
            ["SystemTime", "Instant", "now_utc", "getrandom", "thread::", "async fn", ".await", "std::fs", "std::env"]
        {
            assert!(!code.contains(word), "{path} uses {word}");
        }
    }
}

#[test]
fn nothing_unfinished_is_left() {
    let marks = ["TODO", "FIXME", "XXX", "unimplemented!", "todo!", "dbg!", "println!", "#[ignore"];
    for directory in ["src", "tests"] {
        for (path, source) in rust_sources(directory).iter().filter(|(path, _)| !path.ends_with("suite/tidy.rs")) {
            let is_output = |mark: &str| mark == "println!" && directory == "tests";
            for mark in marks.into_iter().filter(|mark| !is_output(mark)) {
                assert!(!source.contains(mark), "{path} has {mark}");
            }
        }
    }
}

/// `unwrap` and `expect` are denied by clippy; an exception states its reason.
#[test]
fn exceptions_state_their_reason() {
    for (path, source) in rust_sources("src") {
        assert!(!source.contains("#[allow(") && !source.contains("#![allow("), "{path} allows what it should expect");
        for exception in source.split("#[expect(").skip(1) {
            let exception = exception.split(")]").next().unwrap_or_default();
            assert!(exception.contains("reason ="), "{path}: {exception}");
        }
    }
}

#[test]
fn every_module_says_what_it_is() {
    for (path, source) in rust_sources("src") {
        assert!(source.starts_with("//! "), "{path} begins without a word about itself");
    }
}

/// Nobody else has this machine's directories.
#[test]
fn no_path_of_one_machine_is_written_down() {
    for directory in ["src", "tests"] {
        for (path, source) in rust_sources(directory).iter().filter(|(path, _)| !path.ends_with("suite/tidy.rs")) {
            for place in ["/root/", "/home/", "/work/", "/tmp/"] {
                assert!(!source.contains(place), "{path} names {place}");
            }
        }
    }
}
