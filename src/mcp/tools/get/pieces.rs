//! The long texts of a task: as much of each as fits into one answer, and any one of them page by page.

use serde_json::Value as Json;

use super::super::files::FileOut;
use super::super::view;
use super::output::{Earlier, Message, Output, Page, Part, Truncated};
use crate::domain::task::State;
use crate::hub::{self, FileView, TaskDetail};
use crate::mcp::answer::{NOTICE, ToolError};
use crate::mcp::budget::{self, Wish};
use crate::mcp::moment::Moment;

/// Earlier attempts that are shown, the newest.
const EARLIER_SHOWN_MAX: usize = 5;
/// What the list of truncated parts, and the hint to it, may cost.
const TRUNCATED_COST_MAX: usize = 2_000;

/// What the list of files may cost; of a hundred, some are shown.
const ATTACHMENTS_COST_MAX: usize = 6_000;

/// A task and its files.
pub(super) struct Shown<'t> {
    pub(super) task: &'t TaskDetail,
    pub(super) files: &'t [FileView],
}

/// A text that shares an answer with others.
struct Piece {
    part: Part,
    /// Which one, of those of which there are several.
    index: usize,
    content: Content,
}

enum Content {
    Text(String),
    /// Half a piece of JSON is none.
    Data(Json),
}

impl Piece {
    fn wish(&self) -> Wish {
        let weight = match self.part {
            Part::Result | Part::Data | Part::Question => 40,
            Part::Error => 20,
            Part::Note | Part::ExternalActions | Part::Actions => 10,
            Part::Messages | Part::EarlierAttempts | Part::Attachments | Part::Instructions | Part::Context => 2,
        };
        match &self.content {
            Content::Text(text) => Wish { cost: budget::text_cost(text), weight, all_or_nothing: false },
            Content::Data(data) => Wish { cost: budget::json_cost(data), weight, all_or_nothing: true },
        }
    }

    /// Whether its next page begins where it is cut; otherwise the whole of its part is read from the beginning.
    fn is_read_on_from_the_cut(&self) -> bool {
        !matches!(self.part, Part::Messages | Part::EarlierAttempts)
    }
}

fn pieces(task: &TaskDetail, earlier: &[Earlier]) -> Vec<Piece> {
    let full = &task.full;
    let question = full.head.question.as_ref().filter(|_| full.head.life.state == State::InputRequired);
    let texts = [
        (Part::Result, full.result.as_ref()),
        (Part::Error, full.error.as_ref()),
        (Part::Question, question),
        (Part::Note, full.head.note.as_ref()),
    ];
    let actions = actions(task);
    let data = [
        (Part::Data, full.data.as_ref()),
        (Part::ExternalActions, full.external_actions.as_ref()),
        (Part::Actions, actions.as_ref()),
    ];
    let text = |part, index, text: &String| Piece { part, index, content: Content::Text(text.clone()) };
    let mut pieces = Vec::new();
    pieces.extend(texts.into_iter().filter_map(|(part, found)| found.map(|found| text(part, 0, found))));
    pieces.extend(data.into_iter().filter_map(|(part, found)| {
        found.map(|found| Piece { part, index: 0, content: Content::Data(found.clone()) })
    }));
    let messages = task.messages.iter().enumerate();
    pieces.extend(messages.map(|(index, message)| text(Part::Messages, index, &message.text)));
    let notes = earlier.iter().enumerate();
    pieces.extend(
        notes.filter_map(|(index, one)| one.note.as_ref().map(|note| text(Part::EarlierAttempts, index, note))),
    );
    pieces
}

/// What was recorded of outside actions, as data; none if nothing was.
fn actions(task: &TaskDetail) -> Option<Json> {
    let shown: Vec<view::Action> = task.actions.iter().map(view::Action::from).collect();
    (!shown.is_empty()).then(|| serde_json::to_value(shown).unwrap_or_default())
}

fn messages(task: &TaskDetail) -> Vec<Message> {
    let shown = |message: &hub::Message| Message {
        at: Moment(message.at),
        from: message.from.clone(),
        text: message.text.clone(),
    };
    task.messages.iter().map(shown).collect()
}

fn earlier_attempts(task: &TaskDetail) -> Vec<Earlier> {
    let shown = |note: &hub::Note| Earlier {
        attempt: note.attempt,
        ended: note.ended.clone(),
        at: Moment(note.at),
        note: note.note.clone(),
    };
    task.notes.iter().map(shown).collect()
}

/// The files, the newest first: what the last attempt brought is what is looked for.
fn attachments(shown: &Shown<'_>) -> Vec<FileOut> {
    shown.files.iter().rev().map(FileOut::from).collect()
}

/// The task with as much of each of its texts as fits.
pub(super) fn filled(mut output: Output, shown: &Shown<'_>) -> Output {
    let task = shown.task;
    let mut earlier = earlier_attempts(task);
    earlier.drain(..earlier.len().saturating_sub(EARLIER_SHOWN_MAX));
    let pieces = pieces(task, &earlier);
    let files = attachments(shown);
    let listed = budget::fitting(&files, ATTACHMENTS_COST_MAX);
    output.attachments = files.get(..listed).unwrap_or_default().to_vec();
    if listed < files.len() {
        note_truncated(&mut output, shown, Part::Attachments, 0);
    }
    output.earlier_attempts = earlier;
    output.messages = messages(task);
    output.notice = (!pieces.is_empty()).then_some(NOTICE);
    for piece in &pieces {
        put(&mut output, piece, Some(""));
    }
    let cost_max = budget::COST_MAX.saturating_sub(budget::cost(&output) + TRUNCATED_COST_MAX);
    let wishes: Vec<Wish> = pieces.iter().map(Piece::wish).collect();
    for ((piece, wish), grant) in pieces.iter().zip(&wishes).zip(budget::share(&wishes, cost_max)) {
        let chars = match &piece.content {
            Content::Text(text) => {
                let (shown, chars) = budget::cut(text, grant);
                let is_cut = shown.len() < text.len() && !piece.is_read_on_from_the_cut();
                put(&mut output, piece, Some(&if is_cut { format!("{shown}…") } else { shown.to_owned() }));
                chars
            }
            Content::Data(_) if grant >= wish.cost => {
                put(&mut output, piece, None);
                0
            }
            Content::Data(_) => {
                leave_out(&mut output, piece.part);
                0
            }
        };
        if grant < wish.cost {
            note_truncated(&mut output, shown, piece.part, if piece.is_read_on_from_the_cut() { chars } else { 0 });
        }
    }
    if !output.truncated.is_empty() {
        output
            .next
            .push_str(" Some texts are too long for one answer: read on with part and offset, as truncated says.");
    }
    output
}

/// Puts a piece in its place: this beginning of it, or, if `beginning` is none, the whole of it.
fn put(output: &mut Output, piece: &Piece, beginning: Option<&str>) {
    let text = match (&piece.content, beginning) {
        (Content::Text(_), Some(beginning)) => beginning.to_owned(),
        (Content::Text(text), None) => text.clone(),
        (Content::Data(data), beginning) => {
            let data = if beginning.is_some() { Json::Null } else { data.clone() };
            match piece.part {
                Part::ExternalActions => output.external_actions = Some(data),
                Part::Actions => output.actions = Some(data),
                _ => output.data = Some(data),
            }
            return;
        }
    };
    match piece.part {
        Part::Result => output.result = Some(text),
        Part::Error => output.error = Some(text),
        Part::Question => output.question = Some(text),
        Part::Note => output.note = Some(text),
        Part::Messages => {
            if let Some(message) = output.messages.get_mut(piece.index) {
                message.text = text;
            }
        }
        Part::EarlierAttempts => {
            if let Some(earlier) = output.earlier_attempts.get_mut(piece.index) {
                earlier.note = Some(text);
            }
        }
        Part::Data | Part::ExternalActions | Part::Actions => {}
        Part::Attachments | Part::Instructions | Part::Context => {}
    }
}

fn leave_out(output: &mut Output, part: Part) {
    match part {
        Part::ExternalActions => output.external_actions = None,
        Part::Actions => output.actions = None,
        _ => output.data = None,
    }
}

fn note_truncated(output: &mut Output, task: &Shown<'_>, part: Part, next_offset: usize) {
    if output.truncated.iter().any(|truncated| truncated.part == part) {
        return;
    }
    let length = whole(task, part).map_or(0, |whole| whole.chars().count());
    output.truncated.push(Truncated { part, next_offset, length });
}

/// The whole of a part, as text.
fn whole(shown: &Shown<'_>, part: Part) -> Option<String> {
    let task = shown.task;
    let json = |value: &Option<Json>| value.as_ref().map(Json::to_string);
    let list = |text: serde_json::Result<String>| text.ok().filter(|text| text != "[]");
    match part {
        Part::Result => task.full.result.clone(),
        Part::Data => json(&task.full.data),
        Part::Error => task.full.error.clone(),
        Part::Question => task.full.head.question.clone(),
        Part::Note => task.full.head.note.clone(),
        Part::Messages => list(serde_json::to_string(&messages(task))),
        Part::EarlierAttempts => list(serde_json::to_string(&earlier_attempts(task))),
        Part::ExternalActions => json(&task.full.external_actions),
        Part::Actions => json(&actions(task)),
        Part::Attachments => list(serde_json::to_string(&attachments(shown))),
        Part::Instructions => Some(task.full.instructions.clone()),
        Part::Context => json(&task.full.context),
    }
}

/// The task with one page of one part.
pub(super) fn paged(mut output: Output, shown: &Shown<'_>, part: Part, offset: u64) -> Result<Output, ToolError> {
    let Some(whole) = whole(shown, part) else {
        let part = serde_json::to_value(part).unwrap_or_default();
        let sentence = format!(
            "This task has no {}; its state is {}. Call get_task without part to see what there is.",
            part.as_str().unwrap_or_default(),
            output.state
        );
        return Err(ToolError::new("no_such_part", sentence));
    };
    let length = whole.chars().count();
    let offset = usize::try_from(offset).unwrap_or(length).min(length);
    let begin = whole.char_indices().nth(offset).map_or(whole.len(), |(at, _)| at);
    output.notice = (!matches!(part, Part::Instructions | Part::Context)).then_some(NOTICE);
    output.page = Some(Page { part, offset, text: String::new(), next_offset: Some(length), length });
    let cost_max = budget::COST_MAX.saturating_sub(budget::cost(&output) + TRUNCATED_COST_MAX);
    let (text, chars) = budget::cut(whole.get(begin..).unwrap_or_default(), cost_max);
    let next_offset = Some(offset + chars).filter(|next| *next < length);
    output.next = match next_offset {
        Some(next) => format!("There is more: call get_task with the same part and offset {next}."),
        None => "This is the end of the part.".to_owned(),
    };
    output.page = Some(Page { part, offset, text: text.to_owned(), next_offset, length });
    Ok(output)
}
