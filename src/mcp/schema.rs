//! What `tools/list` shows: the tools with their schemas, as `tools.json` has them.
//!
//! The file is made natively from the Rust types and checked in; a test makes it anew and compares. After a change of a
//! tool's types or texts, `UPDATE=1 cargo test mcp::schema` writes it. The Worker carries only the file.

use std::sync::LazyLock;

use serde_json::Value as Json;

use super::tools::Tool;

static TOOLS: LazyLock<Vec<Json>> =
    LazyLock::new(|| serde_json::from_str(include_str!("tools.json")).unwrap_or_default());

/// The tools in the order of `Tool::ALL`, as `tools/list` shows them.
pub fn tools() -> &'static [Json] {
    &TOOLS
}

/// One tool as `tools/list` shows it.
pub fn definition(tool: Tool) -> &'static Json {
    tools().iter().find(|definition| definition["name"] == tool.name()).unwrap_or(&Json::Null)
}

#[cfg(not(target_arch = "wasm32"))]
pub use native::{generate, words};

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use schemars::generate::SchemaSettings;
    use schemars::{JsonSchema, Schema};
    use serde_json::{Map, Value as Json, json};

    use super::super::tools::Tool;

    /// What `tools.json` must contain.
    pub fn generate() -> Json {
        Json::Array(Tool::ALL.into_iter().map(definition).collect())
    }

    fn definition(tool: Tool) -> Json {
        let about = tool.about();
        json!({
            "name": tool.name(),
            "title": about.title,
            "description": about.description,
            "inputSchema": (about.input)(),
            "outputSchema": (about.output)(),
            "annotations": {
                // Before 2025-06-18 the title stood only here.
                "title": about.title,
                "readOnlyHint": about.reads_only,
                "destructiveHint": about.destroys,
                "idempotentHint": about.is_idempotent,
                "openWorldHint": about.reaches_out,
            },
        })
    }

    /// The schema of a tool's arguments.
    pub fn input<T: JsonSchema>() -> Json {
        plain(SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<T>())
    }

    /// The schema of a tool's answer.
    pub fn output<T: JsonSchema>() -> Json {
        plain(SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>())
    }

    /// A schema of the texts that `all` lists.
    pub fn words(all: impl IntoIterator<Item = &'static str>) -> Schema {
        let all: Vec<&str> = all.into_iter().collect();
        schemars::json_schema!({ "type": "string", "enum": all })
    }

    /// The schema as plainly as it can be said: everything in place, nothing that only Rust knows, and a field that may be
    /// absent is one that is not required, not one that may be null.
    fn plain(schema: Schema) -> Json {
        let mut schema = schema.to_value();
        let definitions = schema.get("$defs").and_then(Json::as_object).cloned().unwrap_or_default();
        if let Some(fields) = schema.as_object_mut() {
            fields.remove("$schema");
            fields.remove("$defs");
        }
        tidy(&mut schema, &definitions);
        schema
    }

    fn tidy(schema: &mut Json, definitions: &Map<String, Json>) {
        inline(schema, definitions);
        let Some(fields) = schema.as_object_mut() else { return };
        fields.remove("title");
        fields.remove("default");
        if fields.get("format").is_some_and(|format| format != "date-time") {
            fields.remove("format");
        }
        if let Some(Json::Array(types)) = fields.get_mut("type") {
            types.retain(|name| name != "null");
            if let [one] = types.as_slice() {
                let one = one.clone();
                fields.insert("type".to_owned(), one);
            }
        }
        if let Some(Json::String(text)) = fields.get_mut("description") {
            *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        if let Some(items) = fields.get_mut("items") {
            tidy(items, definitions);
        }
        for (_, property) in fields.get_mut("properties").and_then(Json::as_object_mut).into_iter().flatten() {
            tidy(property, definitions);
        }
    }

    /// Puts what a reference, or an optional reference, points to in its place.
    fn inline(schema: &mut Json, definitions: &Map<String, Json>) {
        let Some(fields) = schema.as_object_mut() else {
            // `true`: anything.
            *schema = json!({});
            return;
        };
        let alternatives = fields.remove("anyOf");
        let some =
            alternatives.as_ref().and_then(Json::as_array).and_then(|all| all.iter().find(|one| one["type"] != "null"));
        let reference = some.map_or_else(|| fields.get("$ref").cloned(), |one| one.get("$ref").cloned());
        fields.remove("$ref");
        let target = match reference.as_ref().and_then(Json::as_str) {
            Some(path) => path.rsplit('/').next().and_then(|name| definitions.get(name)).cloned(),
            None => some.cloned(),
        };
        for (name, value) in target.as_ref().and_then(Json::as_object).into_iter().flatten() {
            fields.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
pub(super) use native::{input, output};
