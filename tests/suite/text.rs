//! Cutting text.

use taskhub::domain::text::{cut_bytes, cut_chars, shorten};

const TEXT: &str = "aé✓😀";

#[test]
fn bytes_are_cut_on_a_character_boundary() {
    let cuts: Vec<&str> = (0..=11).map(|bytes| cut_bytes(TEXT, bytes)).collect();
    let right = ["", "a", "a", "aé", "aé", "aé", "aé✓", "aé✓", "aé✓", "aé✓", TEXT, TEXT];
    assert_eq!(cuts, right);
}

#[test]
fn characters_are_counted_as_characters() {
    let cuts: Vec<&str> = (0..=5).map(|chars| cut_chars(TEXT, chars)).collect();
    assert_eq!(cuts, ["", "a", "aé", "aé✓", TEXT, TEXT]);
}

#[test]
fn what_is_left_off_leaves_an_ellipsis_within_the_limit() {
    assert_eq!(shorten(TEXT, 4), TEXT);
    assert_eq!(shorten(TEXT, 3), "aé…");
    assert_eq!(shorten(TEXT, 1), "…");
    assert_eq!(shorten(TEXT, 0), "…", "an ellipsis says at least that there was something");
    assert_eq!(shorten("", 0), "");
}
