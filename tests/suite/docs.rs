//! Documents that are made from the code or must agree with it.

use std::fmt::Write as _;
use std::fs;

use taskhub::domain::lifecycle::Refused;
use taskhub::domain::settings::NAMES;
use taskhub::domain::task::{Lane, Life, State, WakeStatus};

use crate::lifecycle::samples::{Happening, happenings, samples};
use crate::support::{check_golden, root, settings};

const HEAD: &str = "# The life of a task

Made from `src/domain/lifecycle.rs` by `tests/suite/docs.rs`; `UPDATE=1 cargo test docs` makes it anew. Times are those of the
default settings. A pair of state and event that has no line is refused; the second table says how.

| from | event | to | what else |
|---|---|---|---|
";

const REFUSALS: &str = "
## Every state and every event

Where two outcomes stand, the first table tells them apart. A dash: the event cannot happen there, and changes nothing.
`lease_lost` is what an attempt is told; it is told so in every state when the token, the attempt or the executor is not that of
the present claim, or when the lease, the input limit or the deadline is over. In `completed` and `failed` an attempt is told
`already_finished`, in `canceled` it is told `canceled`; nothing leaves these three.

| event | submitted | dispatched | waiting | working | input-required |
|---|---|---|---|---|---|
";

/// A duration as a person writes it.
fn duration(ms: i64) -> String {
    match ms {
        0 => "now".to_owned(),
        ms if ms % 3_600_000 == 0 => format!("in {} h", ms / 3_600_000),
        ms if ms % 60_000 == 0 => format!("in {} min", ms / 60_000),
        ms => format!("in {} s", ms / 1_000),
    }
}

fn to(life: &Life) -> String {
    match (life.failure, life.waiting_on) {
        (Some(code), _) => format!("`{}` (`{}`)", life.state, code.as_str()),
        (None, Some(on)) if life.state == State::Waiting => format!("`{}` on `{}`", life.state, on.as_str()),
        _ => format!("`{}`", life.state),
    }
}

/// What changes beside the state, from the two lives.
fn what_else(before: &Life, after: &Life, now: i64) -> String {
    let mut all: Vec<String> = Vec::new();
    let mut say = |applies: bool, what: &str| {
        if applies {
            all.push(what.to_owned());
        }
    };
    let until = |at: Option<i64>| at.map_or_else(String::new, |at| duration(at - now));
    say(after.attempt > before.attempt, "attempt + 1");
    say(after.failures > before.failures, "failures + 1");
    let renewed = after.lease_expires_at != before.lease_expires_at && after.lease_expires_at.is_some();
    say(renewed, &format!("the lease ends {}", until(after.lease_expires_at)));
    let limit = after.input_expires_at.filter(|_| before.input_expires_at.is_none_or(|_| after.answered_at.is_none()));
    let starts = limit.is_some() && after.input_expires_at != before.input_expires_at;
    say(starts, &format!("the input limit ends {}", until(limit)));
    say(before.answered_at.is_none() && after.answered_at.is_some(), "the attempt gets it with its next heartbeat");
    let was_held = before.state.lane() == Some(Lane::Held);
    let is_open_to_others = matches!(after.state.lane(), Some(Lane::Ready | Lane::Waiting));
    say(was_held && is_open_to_others && !before.is_asked_by_hub(), "the claim is over");
    let is_asked_now = after.is_asked_by_hub() && !before.is_asked_by_hub();
    say(is_asked_now, "the claim is over, and the hub asks what came of the action");
    say(after.visible_at.is_some(), &format!("claimable {}", until(after.visible_at)));
    let wake_moved = after.next_wake_at != before.next_wake_at || before.state != after.state;
    let gave_up = after.last_wake_status == Some(WakeStatus::GivenUp);
    say(gave_up, "no further wake: it waits for a poll or for `wake_executor`");
    let wake = match before.state.lane() {
        Some(Lane::Ready) if after.last_wake_status == Some(WakeStatus::Sent) => {
            "unless its outcome says otherwise, the next wake"
        }
        Some(Lane::Ready) => "the next wake",
        _ => "a wake is due",
    };
    let due = after.next_wake_at.filter(|_| wake_moved);
    say(due.is_some(), &format!("{wake} {}", until(due)));
    all.join("; ")
}

/// Samples of one state that differ in nothing that the line shows share it.
fn from(names: &[&str]) -> String {
    let open = samples().iter().filter(|sample| !sample.life.state.is_terminal()).count();
    if names.len() == open {
        return "any that is not terminal".to_owned();
    }
    let waiting = names.iter().filter(|name| name.starts_with("waiting for")).count();
    let mut parts: Vec<String> = Vec::new();
    for name in names {
        let state = name.split([',', ' ']).next().unwrap_or(name);
        let all_of_state = |state: &str| {
            let of_state = |name: &str| name.split([',', ' ']).next() == Some(state);
            let here = names.iter().filter(|name| of_state(name)).count();
            here == samples().iter().filter(|sample| of_state(sample.name)).count()
        };
        let rest = name[state.len()..].trim_start_matches(" for");
        let part = if all_of_state(state) { format!("`{state}`") } else { format!("`{state}`{}", on(rest)) };
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    if waiting == names.len() && parts.len() > 1 {
        let reasons: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix("waiting for ")).collect();
        return format!("`waiting` on `{}`", reasons.join("`, `"));
    }
    parts.join(", ")
}

fn on(rest: &str) -> String {
    match rest.strip_prefix(' ') {
        Some(reason) if !reason.is_empty() && !rest.starts_with(',') => format!(" on `{reason}`"),
        _ => rest.to_owned(),
    }
}

/// One line of the table: which samples share it, and the rest of it.
fn lines_of(happening: &Happening) -> Vec<(Vec<&'static str>, String)> {
    let settings = settings(&[]);
    let mut lines: Vec<(Vec<&'static str>, String)> = Vec::new();
    for sample in samples() {
        let name = sample.name;
        let (before, Ok(after), now) = happening.happen(&sample, &settings) else { continue };
        let else_ = if after.state.is_terminal() { String::new() } else { what_else(&before, &after, now) };
        let spent = if after.failures > before.failures && after.state.is_terminal() { "failures + 1" } else { &else_ };
        let rest = format!("{} | {} | {spent}", happening.name, to(&after));
        match lines.iter_mut().find(|(_, known)| *known == rest) {
            Some((names, _)) => names.push(name),
            None => lines.push((vec![name], rest)),
        }
    }
    lines
}

/// What becomes of a state, with all the differences that its samples make.
fn cell(state: State, happening: &Happening) -> String {
    let settings = settings(&[]);
    let mut outcomes: Vec<String> = Vec::new();
    for sample in samples().iter().filter(|sample| sample.life.state == state) {
        let outcome = match happening.happen(sample, &settings).1 {
            Ok(after) => after.state.to_string(),
            Err(Refused::LeaseLost) => "`lease_lost`".to_owned(),
            Err(Refused::WrongState) => "–".to_owned(),
            Err(Refused::Canceled | Refused::AlreadyFinished) => panic!("{state} is not terminal"),
        };
        if !outcomes.contains(&outcome) {
            outcomes.push(outcome);
        }
    }
    outcomes.join(", ")
}

fn lifecycle() -> String {
    let mut text = HEAD.to_owned();
    for happening in happenings() {
        for (names, rest) in lines_of(&happening) {
            writeln!(text, "| {} | {rest} |", from(&names)).unwrap();
        }
    }
    text.push_str(REFUSALS);
    for happening in happenings() {
        write!(text, "| {} |", happening.name).unwrap();
        for state in State::ALL.into_iter().filter(|state| !state.is_terminal()) {
            write!(text, " {} |", cell(state, &happening)).unwrap();
        }
        text.push('\n');
    }
    text
}

#[test]
fn the_table_of_the_lifecycle_is_the_codes() {
    check_golden("docs/lifecycle.md", &lifecycle());
}

#[test]
fn the_readme_names_every_setting() {
    let readme = fs::read_to_string(root().join("README.md")).expect("there is a README");
    for name in NAMES {
        assert!(readme.contains(&format!("`{name}`")), "README.md does not explain {name}");
    }
}

/// Links in the documents lead to files that are there.
#[test]
fn links_lead_somewhere() {
    for (document, directory) in
        [("README.md", ""), ("docs/architecture.md", "docs"), ("docs/lifecycle.md", "docs"), ("docs/oauth.md", "docs")]
    {
        let text = fs::read_to_string(root().join(document)).unwrap_or_default();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            assert!(root().join(directory).join(path).exists(), "{document} links to {target}");
        }
    }
}

/// The tests that a text names in backticks, as `file::function`: native ones by their file under `tests/suite/`, those of a
/// running hub by their file under `tests/` and their title.
fn named_tests(text: &str) -> Vec<(&str, &str)> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted
        .filter_map(|quoted| quoted.split_once("::"))
        .filter(|(file, _)| file.ends_with(".rs") || file.ends_with(".mjs"))
        .collect()
}

fn is_a_test(file: &str, name: &str) -> bool {
    let native = file.ends_with(".rs");
    let path = root().join(if native { "tests/suite" } else { "tests" }).join(file);
    let source = fs::read_to_string(path).unwrap_or_default();
    let marked = [format!("#[test]\nfn {name}()"), format!("test(\"{name}\"")];
    source.contains(&marked[usize::from(!native)])
}

/// Both tables of OAuth, from clause and from symptom to test, name tests that there are.
#[test]
fn every_test_that_a_table_names_is_there() {
    for file in ["src/oauth/mod.rs", "docs/oauth.md"] {
        let text = fs::read_to_string(root().join(file)).expect("there are tables");
        let named = named_tests(&text);
        assert!(named.len() >= 33, "{file} names {} tests", named.len());
        for (test_file, name) in named {
            assert!(is_a_test(test_file, name), "{file}: there is no test {test_file}::{name}");
        }
        for line in text.lines().filter(|line| line.contains("| RFC ") || line.contains("| CIMD")) {
            assert!(!named_tests(line).is_empty(), "{file}: {line}");
        }
    }
}

/// Each of the 33 rows is there once, in order, with a test that bears its number.
#[test]
fn every_row_of_the_field_notes_has_its_test() {
    let text = fs::read_to_string(root().join("docs/oauth.md")).expect("there is a table");
    let numbered = |line: &str| line.split('|').nth(1).and_then(|cell| cell.trim().parse::<u32>().ok());
    let rows: Vec<(u32, &str)> = text.lines().filter_map(|line| Some((numbered(line)?, line))).collect();
    assert_eq!(rows.iter().map(|(number, _)| *number).collect::<Vec<_>>(), (1..=33).collect::<Vec<_>>());
    for (number, line) in rows {
        let name = format!("row_{number:02}_");
        assert!(named_tests(line).iter().any(|(_, test)| test.starts_with(&name)), "{line}");
    }
}

/// What stands between these two, on the line of `wrangler.toml` or `scripts/workerd.capnp` that has it.
fn configured(text: &str, name: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}"));
    let (_, value) = line.split_once('=').expect("a value");
    value.trim().trim_end_matches(',').to_owned()
}

/// A hub behaves alike under bare workerd and on Cloudflare.
#[test]
fn workerd_and_wrangler_are_configured_alike() {
    let read = |file: &str| fs::read_to_string(root().join(file)).expect("a configuration can be read");
    let (wrangler, workerd) = (read("wrangler.toml"), read("scripts/workerd.capnp"));
    for (there, here) in [("compatibility_date", "compatibilityDate"), ("compatibility_flags", "compatibilityFlags")] {
        assert_eq!(configured(&wrangler, there), configured(&workerd, here));
    }
    for name in NAMES {
        let binding = format!("( name = \"{name}\", fromEnvironment = \"{name}\" )");
        assert!(workerd.contains(&binding), "workerd.capnp does not bind {name}");
    }
}
