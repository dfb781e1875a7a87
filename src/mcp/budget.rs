//! Keeping a result under its limit without breaking a character.
//!
//! Owns: what a piece of data costs in a result, where it stands twice (as itself in the structured content, and once more
//! escaped in the text), and how pieces that are too much together share what there is. Costs are exact, so that a result
//! that was planned fits.

use serde::Serialize;
use serde_json::Value as Json;

use crate::domain::limits::TOOL_RESULT_BYTES_MAX;

/// What stands around the data of a result: names, brackets, and what the modern era adds.
const FRAME_BYTES: usize = 600;

/// What all data of one result may cost.
pub const COST_MAX: usize = TOOL_RESULT_BYTES_MAX - FRAME_BYTES;

/// Bytes of a character inside a JSON string, and inside a JSON string inside a JSON string.
fn char_bytes(c: char) -> (usize, usize) {
    match c {
        '"' | '\\' => (2, 4),
        '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => (2, 3),
        '\0'..='\u{1f}' => (6, 7),
        _ => (c.len_utf8(), c.len_utf8()),
    }
}

fn char_cost(c: char) -> usize {
    let (once, twice) = char_bytes(c);
    once + twice
}

/// What a text costs, without the quotes around it.
pub fn text_cost(text: &str) -> usize {
    text.chars().map(char_cost).sum()
}

/// What any data cost.
pub fn cost<T: Serialize>(data: &T) -> usize {
    json_cost(&serde_json::to_value(data).unwrap_or_default())
}

/// What a piece of JSON costs.
pub fn json_cost(data: &Json) -> usize {
    let text = data.to_string();
    let escaped: usize = text.chars().map(|c| char_bytes(c).0).sum();
    text.len() + escaped
}

/// The longest beginning of `text` that costs at most `cost_max`, and how many characters it has.
pub fn cut(text: &str, cost_max: usize) -> (&str, usize) {
    let mut spent = 0;
    let mut chars = 0;
    for (at, c) in text.char_indices() {
        spent += char_cost(c);
        if spent > cost_max {
            return (text.get(..at).unwrap_or_default(), chars);
        }
        chars += 1;
    }
    (text, chars)
}

/// A piece of data that wants a share.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// What the whole of it costs.
    pub cost: usize,
    /// How much it matters beside the others.
    pub weight: usize,
    /// Whether a part of it is of no use.
    pub all_or_nothing: bool,
}

/// What each piece gets of `cost_max`. Those that need less than their share get all they need, and leave the rest to the
/// others.
pub fn share(wishes: &[Wish], cost_max: usize) -> Vec<usize> {
    let mut grants: Vec<Option<usize>> = vec![None; wishes.len()];
    let mut left = cost_max;
    loop {
        let open = || wishes.iter().zip(&grants).enumerate().filter(|(_, (_, grant))| grant.is_none());
        let weights: usize = open().map(|(_, (wish, _))| wish.weight).sum();
        if weights == 0 {
            break;
        }
        let part = |wish: &Wish| left * wish.weight / weights;
        // One that is content, or else one that cannot be cut and will not fit; when there is neither, all are cut.
        let content = open().find(|(_, (wish, _))| wish.cost <= part(wish));
        let hopeless = || open().find(|(_, (wish, _))| wish.all_or_nothing);
        match content.or_else(hopeless).map(|(index, (wish, _))| (index, *wish)) {
            Some((index, wish)) => {
                let granted = if wish.cost <= part(&wish) { wish.cost } else { 0 };
                grants[index] = Some(granted);
                left -= granted;
            }
            None => {
                let parts: Vec<(usize, usize)> = open().map(|(index, (wish, _))| (index, part(wish))).collect();
                for (index, part) in parts {
                    grants[index] = Some(part);
                }
            }
        }
    }
    grants.into_iter().map(Option::unwrap_or_default).collect()
}

/// How many of these items fit from the beginning.
pub fn fitting<T: Serialize>(items: &[T], cost_max: usize) -> usize {
    let mut spent = 0;
    let fits = |item: &&T| {
        // A comma in both places.
        spent += cost(*item) + 2;
        spent <= cost_max
    };
    items.iter().take_while(fits).count()
}
