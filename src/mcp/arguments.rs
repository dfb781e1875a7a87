//! Arguments of tools, checked against the schema that `tools/list` shows.
//!
//! Owns: the sentences that tell a model which field is wrong and what is right. All faults of a call are told at once.
//! Null stands for a field that is left out, and 5.0 for 5: both are what some clients make of correct arguments.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::answer::ToolError;
use super::schema;
use super::tools::Tool;
use crate::domain::text::shorten;

/// Faults told at once.
const FAULTS_MAX: usize = 5;

/// Reads the arguments of a tool.
pub fn read<T: DeserializeOwned>(tool: Tool, mut arguments: Map<String, Json>) -> Result<T, ToolError> {
    let schema = &schema::definition(tool)["inputSchema"];
    arguments.retain(|_, value| !value.is_null());
    for value in arguments.values_mut() {
        make_whole(value);
    }
    let faults = faults(tool, schema, &arguments);
    if !faults.is_empty() {
        return Err(ToolError::invalid(format!("{} Mend this and call the tool again.", faults.join(" "))));
    }
    // The schema is made from the type, so what passes the one fits the other. What does not is told without its text, which
    // may be a credential in the wrong place.
    serde_json::from_value(Json::Object(arguments)).map_err(|_| {
        ToolError::invalid(format!("The arguments do not fit {}; compare them with its inputSchema.", tool.name()))
    })
}

/// A number without a fraction as an integer.
fn make_whole(value: &mut Json) {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    if let Some(number) = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= EXACT)
        && value.is_f64()
    {
        *value = Json::from(number as i64);
    }
}

fn faults(tool: Tool, schema: &Json, arguments: &Map<String, Json>) -> Vec<String> {
    let none = Map::new();
    let fields = schema["properties"].as_object().unwrap_or(&none);
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let mut faults = Vec::new();
    for name in &required {
        if !arguments.contains_key(*name) {
            let what = fields.get(*name).and_then(|field| field["description"].as_str()).unwrap_or_default();
            faults.push(format!("{} needs {name}: {what}", tool.name()));
        }
    }
    for (name, value) in arguments {
        match fields.get(name) {
            None => faults.push(unknown(tool, name, fields, &required)),
            Some(field) => faults.extend(fault(field, value).map(|rule| format!("{name} {rule}"))),
        }
    }
    faults.truncate(FAULTS_MAX);
    faults
}

fn unknown(tool: Tool, name: &str, fields: &Map<String, Json>, required: &[&str]) -> String {
    let name = shorten(name, 60);
    let shown = |field: &String| {
        if required.contains(&field.as_str()) { format!("{field} (required)") } else { field.clone() }
    };
    let valid: Vec<String> = fields.keys().map(shown).collect();
    let tool = tool.name();
    if valid.is_empty() {
        format!("{tool} has no field \"{name}\"; it takes none.")
    } else {
        format!("{tool} has no field \"{name}\"; its fields are {}.", valid.join(", "))
    }
}

/// What is wrong with a value of this field, as the end of a sentence that begins with the field's name.
fn fault(field: &Json, value: &Json) -> Option<String> {
    if has_nul(value) {
        return Some("must not contain the character U+0000.".to_owned());
    }
    match field["type"].as_str() {
        Some("string") => text_fault(field, value),
        Some("integer") => integer_fault(field, value),
        Some("array") => array_fault(field, value),
        Some("number") if !value.is_number() => Some(format!("must be a number, but it is {}.", kind(value))),
        Some("boolean") if !value.is_boolean() => Some(format!("must be true or false, but it is {}.", kind(value))),
        Some("object") if !value.is_object() => Some(format!("must be an object, but it is {}.", kind(value))),
        _ => None,
    }
}

fn text_fault(field: &Json, value: &Json) -> Option<String> {
    let Json::String(text) = value else {
        return Some(format!("must be a text, but it is {}.", kind(value)));
    };
    if let Some(words) = field["enum"].as_array()
        && !words.contains(value)
    {
        let words: Vec<&str> = words.iter().filter_map(Json::as_str).collect();
        // A word shows a slip of the pen; anything else may be a credential in the wrong place.
        let is_word = text.len() <= 30 && text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-' || b == b'_');
        let given = if is_word { format!("\"{text}\"") } else { "something else".to_owned() };
        return Some(format!("must be one of {}, but it is {given}.", words.join(", ")));
    }
    let (min, max) = (field["minLength"].as_u64().unwrap_or(0), field["maxLength"].as_u64());
    let length = text.chars().count() as u64;
    if length < min && length == 0 {
        return Some("must not be empty.".to_owned());
    }
    if length < min || max.is_some_and(|max| length > max) {
        let rule = max.map_or_else(|| format!("at least {min}"), |max| format!("{min} to {max}"));
        return Some(format!("must have {rule} characters, but it has {length}."));
    }
    None
}

fn integer_fault(field: &Json, value: &Json) -> Option<String> {
    let (min, max) = (field["minimum"].as_i64(), field["maximum"].as_i64());
    let rule = match (min, max) {
        (Some(min), Some(max)) => format!("must be a whole number from {min} to {max}"),
        (Some(min), None) => format!("must be a whole number of at least {min}"),
        _ => "must be a whole number".to_owned(),
    };
    let Json::Number(number) = value else {
        return Some(format!("{rule}, but it is {}.", kind(value)));
    };
    let fits = number.as_i64().is_some_and(|n| min.is_none_or(|min| n >= min) && max.is_none_or(|max| n <= max));
    (!fits).then(|| format!("{rule}, but it is {number}."))
}

fn array_fault(field: &Json, value: &Json) -> Option<String> {
    let Json::Array(items) = value else {
        return Some(format!("must be a list, but it is {}.", kind(value)));
    };
    items
        .iter()
        .find_map(|item| fault(&field["items"], item))
        .map(|rule| format!("is a list, each item of which {rule}"))
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

fn has_nul(value: &Json) -> bool {
    match value {
        Json::String(text) => text.contains('\0'),
        Json::Array(items) => items.iter().any(has_nul),
        Json::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || has_nul(value)),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}
