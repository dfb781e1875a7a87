//! `src/mcp/tools.json` is what the Rust types say, and as plain as clients need it.

use serde_json::Value as Json;
use taskhub::domain::scope::{Scope, Scopes};
use taskhub::mcp::schema::{definition, generate, tools};
use taskhub::mcp::tools::Tool;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/mcp/tools.json");

#[test]
fn the_file_is_what_the_types_say() {
    let right = format!("{}\n", serde_json::to_string_pretty(&generate()).unwrap());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PATH, &right).unwrap();
    }
    let found = std::fs::read_to_string(PATH).unwrap();
    assert!(found == right, "src/mcp/tools.json is out of date: run UPDATE=1 cargo test mcp::schema");
}

#[test]
fn every_tool_is_listed_once_in_order() {
    let names: Vec<&str> = tools().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, Tool::ALL.map(Tool::name));
}

#[test]
fn tools_have_all_that_clients_want() {
    for tool in tools() {
        let name = tool["name"].as_str().unwrap();
        assert!(
            !name.is_empty() && name.len() <= 64 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
            "{name}"
        );
        assert!(tool["title"].as_str().is_some_and(|title| !title.is_empty()), "{name}");
        assert_eq!(tool["annotations"]["title"], tool["title"], "{name}");
        assert!(tool["description"].as_str().is_some_and(|text| text.len() > 80), "{name}");
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{name} {hint}");
        }
        assert_eq!(tool["inputSchema"]["type"], "object", "{name}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        assert!(tool["outputSchema"]["properties"].get("next").is_some(), "{name}");
        plain(&tool["inputSchema"], name);
        plain(&tool["outputSchema"], name);
    }
}

/// No references, no alternatives, no null, no type lists, nothing that only Rust knows.
fn plain(schema: &Json, path: &str) {
    let fields = schema.as_object().unwrap_or_else(|| panic!("{path}: {schema}"));
    for keyword in fields.keys() {
        let known = [
            "type",
            "properties",
            "required",
            "items",
            "enum",
            "description",
            "format",
            "minimum",
            "maximum",
            "minLength",
            "maxLength",
            "additionalProperties",
        ];
        assert!(known.contains(&keyword.as_str()), "{path}: {keyword}");
    }
    assert!(schema.get("type").is_none_or(|kind| kind.is_string() && kind != "null"), "{path}");
    if path.contains('.') && !fields.contains_key("type") {
        let any = ["context", "data", "external_actions", "checkpoint", "params", "outcome"];
        assert!(any.iter().any(|name| path.ends_with(name)), "{path}");
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        plain(property, &format!("{path}.{name}"));
    }
    if let Some(items) = schema.get("items") {
        plain(items, &format!("{path}.items"));
    }
}

#[test]
fn every_argument_is_explained() {
    for tool in tools() {
        for (name, property) in tool["inputSchema"]["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].as_str().is_some_and(|text| text.len() > 10), "{} {name}", tool["name"]);
        }
    }
}

#[test]
fn the_list_is_short_enough_to_be_read_at_every_start() {
    for scope in [Scope::HubAdmin, Scope::TasksExecute] {
        let shown = Tool::ALL.into_iter().filter(|tool| Scopes::NONE.with(scope).permit(tool.scope()));
        let mut shown: Vec<Json> = shown.map(|tool| definition(tool).clone()).collect();
        let bytes = |shown: &[Json]| serde_json::to_string(shown).unwrap().len();
        let whole = bytes(&shown);
        assert!(whole < 38_000, "{} {whole}", scope.name());
        // Clients give their models everything but the schemas of the answers.
        for tool in &mut shown {
            tool.as_object_mut().unwrap().remove("outputSchema");
        }
        let read = bytes(&shown);
        assert!(read < 22_000, "{} {read}", scope.name());
    }
}
