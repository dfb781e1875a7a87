//! What happened in a world, for the report of a failure.
//!
//! Writing it down takes longer than the world itself, so a world is walked again for that: its seed replays it.

use std::fmt::Write as _;

/// The latest lines are enough, even for a world that has nothing to be shortened.
const LINES_MAX: usize = 40;

struct Line {
    step: u64,
    now: i64,
    text: String,
    /// Whether it concerns everyone.
    is_common: bool,
}

/// The steps of a world in words, if it is wanted.
#[derive(Default)]
pub struct Trace {
    lines: Option<Vec<Line>>,
}

impl Trace {
    /// One that is written.
    pub fn wanted() -> Self {
        Self { lines: Some(Vec::new()) }
    }

    /// Something happened to whatever the text names.
    pub fn note(&mut self, step: u64, now: i64, text: impl FnOnce() -> String) {
        self.write(step, now, text, false);
    }

    /// Something happened that concerns everyone.
    pub fn note_common(&mut self, step: u64, now: i64, text: impl FnOnce() -> String) {
        self.write(step, now, text, true);
    }

    fn write(&mut self, step: u64, now: i64, text: impl FnOnce() -> String, is_common: bool) {
        if let Some(lines) = &mut self.lines {
            lines.push(Line { step, now, text: text(), is_common });
        }
    }

    /// What touched any of these, with what concerned everyone in between; everything if there are none.
    pub fn about(&self, names: &[String]) -> String {
        let lines = self.lines.as_deref().unwrap_or_default();
        let touches = |line: &&Line| names.is_empty() || names.iter().any(|name| line.text.contains(name.as_str()));
        let first = lines.iter().find(touches).map_or(u64::MAX, |line| line.step);
        let wanted = lines.iter().filter(|line| touches(line) || (line.is_common && line.step > first));
        let wanted: Vec<&Line> = wanted.collect();
        let mut text = String::new();
        if wanted.len() > LINES_MAX {
            writeln!(text, "  ({} earlier lines are left out)", wanted.len() - LINES_MAX).expect("a String grows");
        }
        let mut before = wanted.first().map_or(0, |line| line.now);
        for line in wanted.iter().skip(wanted.len().saturating_sub(LINES_MAX)) {
            let Line { step, now, text: what, .. } = line;
            writeln!(text, "  step {step:>5}  {:>+9} ms  {what}", now - before).expect("a String grows");
            before = *now;
        }
        text
    }
}

/// The tasks that this complaint names, or else the executors.
pub fn concerned(complaint: &str) -> Vec<String> {
    const NAMES_MAX: usize = 3;
    let words = complaint.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-'));
    let starting = |prefix: &str| {
        let mut found: Vec<String> = Vec::new();
        for word in words.clone().filter(|word| word.starts_with(prefix)) {
            if found.len() < NAMES_MAX && !found.iter().any(|name| name == word) {
                found.push(word.to_owned());
            }
        }
        found
    };
    let tasks = starting("t_");
    if tasks.is_empty() { starting("bot-") } else { tasks }
}
