//! Cutting text without breaking a character.

/// The longest beginning of `text` that has at most `bytes_max` bytes and ends on a character boundary.
pub fn cut_bytes(text: &str, bytes_max: usize) -> &str {
    let end = text.floor_char_boundary(bytes_max.min(text.len()));
    text.get(..end).unwrap_or(text)
}

/// The longest beginning of `text` that has at most `chars_max` characters.
pub fn cut_chars(text: &str, chars_max: usize) -> &str {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

/// `text` in at most `chars_max` characters, with an ellipsis where something was left off.
pub fn shorten(text: &str, chars_max: usize) -> String {
    let head = cut_chars(text, chars_max);
    if head.len() == text.len() {
        text.to_owned()
    } else {
        format!("{}…", cut_chars(head, chars_max.saturating_sub(1)))
    }
}
