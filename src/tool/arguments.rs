//! Parsing the arguments of a call: from JSON to a request type, with errors that say how to fix
//! the request.
//!
//! This module owns the rules that apply to the requests of all tools. The request types and their
//! schemas define the fields.

use std::borrow::Cow;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::tool::error::ToolError;
use crate::tool::tools::ToolName;

/// The maximum number of include globs in a request, and of exclude globs. Compiling a glob takes
/// half a millisecond, which no deadline can interrupt.
pub(super) const MAX_GLOBS: usize = 1000;

/// The maximum size of all these globs together, in bytes.
pub(super) const MAX_GLOB_BYTES: usize = 65_536;

/// Parses a request as JSON.
///
/// # Errors
///
/// [`ToolError::BadArgs`] for invalid JSON.
pub(super) fn json(tool: ToolName, text: &str) -> Result<Value, ToolError> {
    serde_json::from_str(text)
        .map_err(|error| tool.wrong(format!("the request is not valid JSON: {error}"), &[]))
}

/// Adds `from_json` and `from_value` to the type of a tool's requests, which has `validate`.
macro_rules! from_json {
    ($Request:ident, $tool:expr) => {
        impl $Request {
            /// Parses and validates a request.
            ///
            /// # Errors
            ///
            /// [`ToolError::BadArgs`], which names the field, its value and the allowed values.
            pub fn from_json(text: &str) -> Result<$Request, ToolError> {
                $Request::from_value(arguments::json($tool, text)?)
            }

            /// Validates a request that is already JSON.
            ///
            /// # Errors
            ///
            /// Those of [`from_json`](Self::from_json).
            pub fn from_value(value: Value) -> Result<$Request, ToolError> {
                let request: $Request = arguments::parse($tool, value)?;
                request.validate()?;
                Ok(request)
            }
        }
    };
}
pub(super) use from_json;

/// Converts JSON to a request of a tool.
///
/// # Errors
///
/// [`ToolError::BadArgs`] with the field, its value and the allowed values.
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
        // The types match the schema, which is generated from this request type.
        let field = error.path();
        tool.wrong(format!("`{field}` has a value that is not allowed"), &[])
    })
}

/// Truncates a message to its beginning and its end: it may repeat an argument as long as a
/// request.
pub(super) fn refused(message: &str) -> Cow<'_, str> {
    /// The maximum length of the beginning and of the end, in characters.
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

/// Checks that no limit is 0.
///
/// # Errors
///
/// [`ToolError::BadArgs`] with the name of the field.
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

/// Checks the number and the size of globs.
///
/// # Errors
///
/// [`ToolError::BadArgs`] with the name of the field.
pub(super) fn check_globs(tool: ToolName, name: &str, globs: &[String]) -> Result<(), ToolError> {
    let bytes: usize = globs.iter().map(String::len).sum();
    if globs.len() > MAX_GLOBS || bytes > MAX_GLOB_BYTES {
        let message = format!(
            "`{name}` has {} globs of {bytes} bytes together; at most {MAX_GLOBS} globs and \
             {MAX_GLOB_BYTES} bytes are allowed. Write fewer, wider globs, or search a narrower \
             `path`",
            globs.len()
        );
        return Err(tool.wrong_field(name, message));
    }
    Ok(())
}

/// Returns the requested limit, or the cap if the request sets none.
///
/// # Errors
///
/// [`ToolError::BadArgs`] for a limit above the cap. The tool's table configures the cap.
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

/// Checks the type of a value against the schema. The error describes the values that the field
/// takes.
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

/// Converts a number like `200.0` to an integer, which it is in JSON Schema.
fn whole_number(value: &mut Value) {
    if let Value::Number(number) = value
        && let Some(float) = number.as_f64().filter(|_| number.is_f64())
        && float.fract() == 0.0
        && (0.0..9e15).contains(&float)
    {
        *value = Value::from(float as u64);
    }
}

/// Names that models use for fields of other tools, with the fields that they may mean.
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

/// Checks the names of fields. The error suggests the nearest known name.
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

/// Returns the start of a text. The text may be as long as a request; this bounds the time to
/// compare and repeat it.
fn shortened(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

/// Returns the JSON schema of a request (draft 2020-12), generated from its type. With `described`
/// it contains descriptions of the fields.
pub(super) fn schema_of<T: JsonSchema>(described: bool) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut value = schema.to_value();
    contract_only(&mut value, described);
    value
}

/// Returns the JSON schema of a serialized type (draft 2020-12): fields that are always present are
/// required.
pub(super) fn written_schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|settings| settings.inline_subschemas = true);
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// Removes the parts of a generated schema that are not in the contract: titles, number formats,
/// `null` defaults, and descriptions unless `described` is set.
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
    // The generator describes each value of an enumeration separately.
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
