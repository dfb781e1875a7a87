//! JSON bodies: read strictly, refused with a sentence that a language model can act on.

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::message::Request;
use super::problem::{Problem, bad_request};
use crate::domain::text::shorten;

/// Characters of what was found in a body that its refusal repeats.
const FOUND_CHARS_MAX: usize = 120;

/// The body as JSON. An empty one is `{}`, and the content type does not matter, so that a bare `curl -d` works.
pub fn json(request: &Request) -> Result<Json, Problem> {
    if request.body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Json::Object(serde_json::Map::new()));
    }
    let text = std::str::from_utf8(&request.body)
        .map_err(|_| bad_request("The body is not UTF-8. Send JSON encoded in UTF-8."))?;
    let value: Json = serde_json::from_str(text).map_err(|error| {
        bad_request(format!("The body is not valid JSON: {error}. Mend it and send the same call again."))
    })?;
    if !value.is_object() {
        return Err(bad_request("The body must be one JSON object: {…}."));
    }
    if has_nul(&value) {
        return Err(bad_request("A text in the body contains the character U+0000; leave it out."));
    }
    Ok(value)
}

/// A JSON object as the type that a call takes. A field that is null counts as left out.
pub fn typed<T: DeserializeOwned>(value: &Json) -> Result<T, Problem> {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = shorten(&error.path().to_string(), FOUND_CHARS_MAX);
        let reason = in_words_of_json(&error.into_inner().to_string());
        let place = if path == "." { String::new() } else { format!("{path}: ") };
        bad_request(format!("The body does not fit this call: {place}{reason}. Mend it and send the call again."))
    })
}

/// What serde expects, without Rust's names of types, which say nothing to a caller, and without the text that it found,
/// which may be a credential in the wrong place or a megabyte long.
fn in_words_of_json(reason: &str) -> String {
    let Some((found, expected)) = reason.rsplit_once(", expected ") else { return shorten(reason, FOUND_CHARS_MAX) };
    let found = match found {
        "invalid type: null" => "it is null: leave the field out, or send what it takes".to_owned(),
        "invalid type: map" => "invalid type: object".to_owned(),
        "invalid type: sequence" => "invalid type: array".to_owned(),
        text if text.starts_with("invalid type: string ") => "invalid type: string".to_owned(),
        word if word.starts_with("unknown variant ") => "unknown word".to_owned(),
        other => shorten(other, FOUND_CHARS_MAX),
    };
    let expected = match expected {
        "u32" => "a whole number from 0 on",
        "f64" => "a number",
        "a sequence" => "an array",
        "string or map" => "a string",
        name if name.starts_with("struct ") || name.starts_with("internally tagged enum ") => "an object",
        other => other,
    };
    format!("{found}, expected {expected}")
}

/// Databases and terminals end a text at U+0000, so none is let in.
fn has_nul(value: &Json) -> bool {
    match value {
        Json::String(text) => text.contains('\0'),
        Json::Array(items) => items.iter().any(has_nul),
        Json::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || has_nul(value)),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}
