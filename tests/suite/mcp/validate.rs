//! JSON Schema 2020-12, as far as the tools use it. A keyword that is not known here fails the test, so that nothing is
//! passed over.

use serde_json::Value as Json;

/// What is wrong with `value`; nothing if it fits.
pub fn faults(schema: &Json, value: &Json) -> Vec<String> {
    let mut faults = Vec::new();
    check(schema, value, "$", &mut faults);
    faults
}

fn check(schema: &Json, value: &Json, path: &str, faults: &mut Vec<String>) {
    let keywords = schema.as_object().unwrap_or_else(|| panic!("{path}: a schema is an object: {schema}"));
    let mut fault = |what: String| faults.push(format!("{path}: {what}"));
    for (keyword, rule) in keywords {
        match keyword.as_str() {
            "description" => {}
            "type" => {
                if !is_of(rule.as_str().expect("one type"), value) {
                    fault(format!("{value} is no {rule}"));
                }
            }
            "enum" => {
                if !rule.as_array().expect("a list").contains(value) {
                    fault(format!("{value} is not in {rule}"));
                }
            }
            "format" => {
                assert_eq!(rule, "date-time", "{path}");
                let text = value.as_str().unwrap_or_default();
                if !(text.ends_with('Z') && text.get(10..11) == Some("T")) {
                    fault(format!("{value} is no time"));
                }
            }
            "minLength" | "maxLength" => {
                let length = value.as_str().unwrap_or_default().chars().count() as u64;
                let limit = rule.as_u64().expect("a number");
                if (keyword == "minLength" && length < limit) || (keyword == "maxLength" && length > limit) {
                    fault(format!("it has {length} characters, {keyword} is {limit}"));
                }
            }
            "minimum" | "maximum" => {
                let (number, limit) = (value.as_f64().unwrap_or(f64::NAN), rule.as_f64().expect("a number"));
                if !((keyword == "minimum" && number >= limit) || (keyword == "maximum" && number <= limit)) {
                    fault(format!("{value} breaks {keyword} {limit}"));
                }
            }
            "required" => {
                for name in rule.as_array().expect("a list").iter().filter_map(Json::as_str) {
                    if value.get(name).is_none() {
                        fault(format!("{name} is missing"));
                    }
                }
            }
            "properties" | "items" => {}
            "additionalProperties" => {
                assert_eq!(rule, false, "{path}");
                let known = |name: &String| schema["properties"].get(name).is_some();
                for name in value.as_object().into_iter().flat_map(|fields| fields.keys()).filter(|name| !known(name)) {
                    fault(format!("{name} is not known"));
                }
            }
            other => panic!("{path}: the keyword {other} is not known to this test"),
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            check(property, value, &format!("{path}.{name}"), faults);
        }
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (index, value) in values.iter().enumerate() {
            check(items, value, &format!("{path}[{index}]"), faults);
        }
    }
}

fn is_of(kind: &str, value: &Json) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("the type {other} is not known to this test"),
    }
}
