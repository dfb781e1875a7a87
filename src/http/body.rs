//! JSON bodies: read strictly, refused with a sentence that a language model can act on.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

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
        let hint = hint(text, &error.to_string());
        bad_request(format!("The body is not valid JSON: {error}.{hint} Mend it and send the same call again."))
    })?;
    if !value.is_object() {
        return Err(bad_request("The body must be one JSON object: {…}."));
    }
    if has_nul(&value) {
        return Err(bad_request("A text in the body contains the character U+0000; leave it out."));
    }
    Ok(value)
}

/// What those who write JSON by hand, in a shell, get wrong.
fn hint(text: &str, reason: &str) -> &'static str {
    if reason.starts_with("control character") {
        return " Inside a text, a line break is written \\n.";
    }
    match text.trim_start().as_bytes() {
        [b'{', rest @ ..] if rest.trim_ascii_start().starts_with(b"'") => " Names and texts are in double quotes.",
        [b'{' | b'[' | b'"', ..] => "",
        _ if text.contains('=') => " It looks like a form: send one object, -d '{\"task_id\": \"t_…\", …}'.",
        _ => " Send one object: -d '{…}'.",
    }
}

/// A JSON object as the type that a call takes. A field that is null counts as left out.
pub fn typed<T: DeserializeOwned>(value: &Json) -> Result<T, Problem> {
    let fields = value.as_object().into_iter().flatten().filter(|(_, field)| !field.is_null());
    let fields: Map<String, Json> = fields.map(|(name, field)| (name.clone(), field.clone())).collect();
    T::deserialize(&Json::Object(fields.clone())).map_err(|error| {
        let place = wrong_field::<T>(&fields).map_or_else(String::new, |name| format!("{name}: "));
        let reason = in_words_of_json(&error.to_string());
        bad_request(format!("The body does not fit this call: {place}{reason}. Mend it and send the call again."))
    })
}

/// The field whose value does not fit, or in which something is wrong. serde does not say, but it reads the fields in order
/// and stops at the first that is wrong.
fn wrong_field<T: DeserializeOwned>(fields: &Map<String, Json>) -> Option<&String> {
    let mut so_far = Map::new();
    let mut before = String::new();
    for (name, field) in fields {
        so_far.insert(name.clone(), field.clone());
        let reason =
            T::deserialize(&Json::Object(so_far.clone())).err().map(|error| error.to_string()).unwrap_or_default();
        let is_own_name = reason.starts_with(&format!("unknown field `{name}`"));
        // What is missing is missing in an object of its own, if the reason came with it.
        let is_inside = field.is_object() && reason != before;
        if !reason.is_empty() && !is_own_name && (is_inside || !reason.starts_with("missing field")) {
            return Some(name);
        }
        before = reason;
    }
    None
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
