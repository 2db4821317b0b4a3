//! Reading the arguments of a call: from JSON to a request type, with errors that say what to write instead.
//!
//! Owns what holds of the requests of all tools. Which fields there are, the type of a request says, and its schema.

use std::borrow::Cow;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::tool::error::ToolError;
use crate::tool::tools::ToolName;

/// Globs that a request may include, and as many that it may exclude. Compiling them takes time that no
/// deadline can cut short: half a millisecond each.
pub(super) const MAX_GLOBS: usize = 1000;

/// The bytes of all of them together.
pub(super) const MAX_GLOB_BYTES: usize = 65_536;

/// Parses a text.
///
/// # Errors
///
/// [`ToolError::BadArgs`].
pub(super) fn json(tool: ToolName, text: &str) -> Result<Value, ToolError> {
    serde_json::from_str(text)
        .map_err(|error| tool.wrong(format!("the request is not valid JSON: {error}"), &[]))
}

/// Reads a request of a tool.
///
/// # Errors
///
/// [`ToolError::BadArgs`] that names the field, what it holds and what it may hold.
pub(super) fn parse<T: DeserializeOwned>(tool: ToolName, value: Value) -> Result<T, ToolError> {
    let Value::Object(mut fields) = value else {
        let kind = kind_of(&value);
        let message = format!("the request must be a JSON object, not {kind}");
        return Err(tool.wrong(message, &[]));
    };
    let schema = tool.request_schema();
    check_names(tool, &fields)?;
    for (name, value) in &mut fields {
        if value.is_null() {
            let message = format!("`{name}` is null; leave the field out to use its default");
            return Err(tool.wrong_field(name, message));
        }
        whole_number(value);
        check_type(tool, name, value)?;
    }
    let required = schema["required"].as_array().into_iter().flatten();
    let mut required = required.filter_map(Value::as_str);
    if let Some(name) = required.find(|name| !fields.contains_key(*name)) {
        return Err(tool.wrong(format!("`{name}` is missing"), &[]));
    }
    serde_path_to_error::deserialize(Value::Object(fields)).map_err(|error| {
        // The types were compared with the schema, which is made of the same type.
        let field = error.path();
        tool.wrong(format!("`{field}` has a value that it does not take"), &[])
    })
}

/// Shortens a message that repeats an argument as long as a request to its beginning and its end.
pub(super) fn refused(message: &str) -> Cow<'_, str> {
    /// Characters that are said of the beginning and of the end.
    const SAID: usize = 500;
    let (from, to) = (
        message.char_indices().nth(SAID),
        message.char_indices().nth_back(SAID),
    );
    match (from, to) {
        (Some((from, _)), Some((to, _))) if from < to => {
            format!("{} … {}", &message[..from], &message[to..]).into()
        }
        _ => message.into(),
    }
}

/// Refuses limits of 0.
///
/// # Errors
///
/// [`ToolError::BadArgs`] that names the field.
pub(super) fn check_positive(
    tool: ToolName,
    limits: &[(&str, Option<u64>)],
) -> Result<(), ToolError> {
    match limits.iter().find(|(_, value)| *value == Some(0)) {
        Some((name, _)) => {
            Err(tool.wrong_field(name, format!("`{name}` must be at least 1, not 0")))
        }
        None => Ok(()),
    }
}

/// Refuses too many globs.
///
/// # Errors
///
/// [`ToolError::BadArgs`] that names the field.
pub(super) fn check_globs(tool: ToolName, name: &str, globs: &[String]) -> Result<(), ToolError> {
    let bytes: usize = globs.iter().map(String::len).sum();
    if globs.len() > MAX_GLOBS || bytes > MAX_GLOB_BYTES {
        let message = format!(
            "`{name}` has {} globs of {bytes} bytes together; at most {MAX_GLOBS} globs and \
             {MAX_GLOB_BYTES} bytes are allowed. Write fewer and wider ones, or search a narrower `path`",
            globs.len()
        );
        return Err(tool.wrong_field(name, message));
    }
    Ok(())
}

/// Returns the limit that holds: the one asked for, or the cap (`FR-LS-VAL-08`).
///
/// # Errors
///
/// [`ToolError::BadArgs`] for one above the cap, which the tool's table configures.
pub(super) fn capped(
    tool: ToolName,
    field: &str,
    asked: Option<u64>,
    cap: u64,
) -> Result<u64, ToolError> {
    match asked {
        Some(asked) if asked > cap => {
            let table = tool.name().to_lowercase();
            let message = format!(
                "`{field}` is {asked}, above the cap of {cap}; ask for at most {cap}, or raise `{field}` in \
                 `[tools.{table}]`"
            );
            Err(tool.wrong(message, &[(field, cap.into())]))
        }
        asked => Ok(asked.unwrap_or(cap)),
    }
}

/// Refuses a value of another type than its schema has, with an example of one that would do.
fn check_type(tool: ToolName, name: &str, value: &Value) -> Result<(), ToolError> {
    let schema = &tool.request_schema()["properties"][name];
    let refuse = |place: &str, value: &Value, wanted: &str| {
        let value = value.to_string();
        let value = shortened(&value, 100);
        let message = format!("`{place}` is {value}; it takes {wanted}");
        Err(tool.wrong_field(name, message))
    };
    let kind = schema["type"].as_str().unwrap_or_default();
    if let Some(words) = schema["enum"].as_array() {
        let known: Vec<String> = words.iter().map(Value::to_string).collect();
        return match words.contains(value) {
            true => Ok(()),
            false => refuse(name, value, &format!("one of {}", known.join(", "))),
        };
    }
    match (kind, value) {
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) => Ok(()),
        ("integer", value) if value.is_u64() => Ok(()),
        ("string", value) => refuse(name, value, "a string"),
        ("boolean", value) => refuse(name, value, "true or false"),
        ("integer", value) => {
            let least = schema["minimum"].as_u64().unwrap_or_default();
            refuse(name, value, &format!("a whole number, {least} or more"))
        }
        ("array", Value::Array(list)) => {
            match list.iter().enumerate().find(|(_, one)| !one.is_string()) {
                None => Ok(()),
                Some((at, one)) => refuse(&format!("{name}[{at}]"), one, "a string"),
            }
        }
        ("array", value) => refuse(name, value, "a list of strings"),
        _ => Ok(()),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Turns a number like `200.0`, which is an integer to JSON schema, into one.
fn whole_number(value: &mut Value) {
    if let Value::Number(number) = value
        && let Some(float) = number.as_f64().filter(|_| number.is_f64())
        && float.fract() == 0.0
        && (0.0..9e15).contains(&float)
    {
        *value = Value::from(float as u64);
    }
}

/// Names that models give to fields of other tools, and the fields that they may mean.
const SYNONYMS: [(&str, &[&str]); 12] = [
    ("pattern", &["query", "name"]),
    ("query", &["pattern", "name"]),
    ("regex", &["pattern", "query"]),
    ("text", &["pattern", "query"]),
    ("directory", &["path"]),
    ("dir", &["path"]),
    ("root", &["path"]),
    ("limit", &["max_results"]),
    ("head_limit", &["max_results"]),
    ("include", &["include_glob", "include_globs", "globs"]),
    ("exclude", &["exclude_glob", "exclude_globs", "globs"]),
    ("include_hidden", &["hidden"]),
];

/// Refuses unknown fields, with the nearest known one (FR-LS-02b).
fn check_names(tool: ToolName, fields: &Map<String, Value>) -> Result<(), ToolError> {
    let properties = tool.request_schema()["properties"].as_object();
    let known: Vec<&str> = properties
        .into_iter()
        .flat_map(|properties| properties.keys().map(String::as_str))
        .collect();
    let is_unknown = |name: &&String| !known.contains(&name.as_str());
    let Some(name) = fields.keys().find(is_unknown) else {
        return Ok(());
    };
    let synonyms = SYNONYMS.iter().find(|(other, _)| other == name);
    let synonym = synonyms.and_then(|(_, all)| all.iter().find(|one| known.contains(one)));
    let nearest = known
        .iter()
        .map(|known| (strsim::jaro_winkler(known, &shortened(name, 64)), *known))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness > 0.75);
    let nearest = synonym.copied().or(nearest.map(|(_, nearest)| nearest));
    let name = shortened(name, 64);
    Err(match nearest {
        Some(nearest) => {
            let message = format!("unknown field `{name}`; did you mean `{nearest}`?");
            tool.wrong_field(nearest, message)
        }
        None => {
            let known = known.join(", ");
            tool.wrong(
                format!("unknown field `{name}`; known fields are {known}"),
                &[],
            )
        }
    })
}

/// The start of a text that may be as long as a request. Comparing and repeating it has to have an end.
fn shortened(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

/// Returns the JSON schema of a request (draft 2020-12), generated from the type; with what the fields are for, if that is wanted.
pub(super) fn schema_of<T: JsonSchema>(described: bool) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut value = schema.to_value();
    contract_only(&mut value, described);
    value
}

/// Returns the JSON schema of what a type is written as (draft 2020-12): what is always there is required.
pub(super) fn written_schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|settings| settings.inline_subschemas = true);
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// Leaves out what a generated schema says beyond the contract: titles, number formats, the defaults that mean no more than "left out",
/// and descriptions unless they are wanted.
fn contract_only(value: &mut Value, described: bool) {
    let Value::Object(schema) = value else { return };
    for annotation in ["title", "format"] {
        schema.remove(annotation);
    }
    if !described {
        schema.remove("description");
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    // Each value of an enumeration comes with its description.
    if let Some(Value::Array(options)) = schema.remove("oneOf") {
        let values: Vec<Value> = options
            .iter()
            .filter_map(|option| option.get("const").cloned())
            .collect();
        schema.insert("type".into(), "string".into());
        schema.insert("enum".into(), values.into());
    }
    for (name, inner) in schema.iter_mut() {
        match (name.as_str(), inner) {
            ("properties", Value::Object(properties)) => {
                let properties = properties.values_mut();
                properties.for_each(|property| contract_only(property, described));
            }
            ("items", inner) => contract_only(inner, described),
            _ => {}
        }
    }
}
