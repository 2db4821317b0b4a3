//! Reading the arguments of a call: from JSON to a request type, with errors that say what to write instead.
//!
//! Owns what holds of the requests of all tools. Which fields there are, the type of a request says, and its schema.

use std::borrow::Cow;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::tool::error::ToolError;

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
pub(super) fn json(text: &str) -> Result<Value, ToolError> {
    serde_json::from_str(text)
        .map_err(|error| ToolError::bad_args(format!("the request is not valid JSON: {error}")))
}

/// Reads a request with the fields that `schema` has. `example` is one, for who sends no object at all.
///
/// # Errors
///
/// [`ToolError::BadArgs`] that names the field, what it holds and what it may hold.
pub(super) fn parse<T: DeserializeOwned>(
    value: Value,
    schema: &Value,
    example: &str,
) -> Result<T, ToolError> {
    let Value::Object(mut fields) = value else {
        return Err(ToolError::bad_args(format!(
            "the request must be a JSON object such as {example}, not {}",
            kind_of(&value)
        )));
    };
    check_names(&fields, schema)?;
    for (name, value) in &mut fields {
        if value.is_null() {
            return Err(ToolError::bad_args(format!(
                "`{name}` is null; leave the field out to use its default"
            )));
        }
        whole_number(value);
        check_type(name, value, &schema["properties"][name.as_str()])?;
    }
    let required = schema["required"].as_array().into_iter().flatten();
    let mut required = required.filter_map(Value::as_str);
    if let Some(name) = required.find(|name| !fields.contains_key(*name)) {
        return Err(ToolError::bad_args(format!(
            "`{name}` is missing; a request looks like {example}"
        )));
    }
    serde_path_to_error::deserialize(Value::Object(fields))
        .map_err(|error| ToolError::bad_args(explain(&error)))
}

/// Returns the error that says this of an argument; of what repeats an argument as long as a request, the beginning and the end.
pub(super) fn refused(message: &str) -> ToolError {
    /// Characters that are said of the beginning and of the end.
    const SAID: usize = 500;
    let (from, to) = (
        message.char_indices().nth(SAID),
        message.char_indices().nth_back(SAID),
    );
    match (from, to) {
        (Some((from, _)), Some((to, _))) if from < to => {
            ToolError::bad_args(format!("{} … {}", &message[..from], &message[to..]))
        }
        _ => ToolError::bad_args(message),
    }
}

/// Refuses limits of 0.
///
/// # Errors
///
/// [`ToolError::BadArgs`] that names the field.
pub(super) fn check_positive(limits: &[(&str, Option<u64>)]) -> Result<(), ToolError> {
    for (name, value) in limits {
        if *value == Some(0) {
            return Err(ToolError::bad_args(format!(
                "`{name}` must be at least 1, not 0"
            )));
        }
    }
    Ok(())
}

/// Refuses too many globs.
///
/// # Errors
///
/// [`ToolError::BadArgs`] that names the field.
pub(super) fn check_globs(name: &str, globs: &[String]) -> Result<(), ToolError> {
    let bytes: usize = globs.iter().map(String::len).sum();
    if globs.len() > MAX_GLOBS || bytes > MAX_GLOB_BYTES {
        return Err(ToolError::bad_args(format!(
            "`{name}` has {} globs of {bytes} bytes together; at most {MAX_GLOBS} globs and \
             {MAX_GLOB_BYTES} bytes are allowed. Write fewer and wider ones, or search a narrower `path`",
            globs.len()
        )));
    }
    Ok(())
}

/// Returns the limit that holds: the one asked for, or the cap (`FR-LS-VAL-08`).
///
/// # Errors
///
/// [`ToolError::BadArgs`] for one above the cap, which `table` configures.
pub(super) fn capped(
    table: &str,
    field: &str,
    asked: Option<u64>,
    cap: u64,
) -> Result<u64, ToolError> {
    match asked {
        Some(asked) if asked > cap => Err(ToolError::bad_args(format!(
            "`{field}` is {asked}, above the cap of {cap}; ask for at most {cap}, or raise `{field}` in \
             `[{table}]`"
        ))),
        asked => Ok(asked.unwrap_or(cap)),
    }
}

/// Refuses a value of another type than its schema has, with an example of one that would do.
fn check_type(name: &str, value: &Value, schema: &Value) -> Result<(), ToolError> {
    let refuse = |place: &str, value: &Value, wanted: &str| {
        let value = value.to_string();
        let value = shortened(&value, 100);
        let message = format!("`{place}` is {value}; it takes {wanted}");
        Err(ToolError::bad_args(message))
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
        ("string", value) => refuse(name, value, "a string, such as \"text\""),
        ("boolean", value) => refuse(name, value, "true or false"),
        ("integer", value) => {
            let least = schema["minimum"].as_u64().unwrap_or_default();
            refuse(
                name,
                value,
                &format!("a whole number, {least} or more, such as 2"),
            )
        }
        ("array", Value::Array(list)) => {
            match list.iter().enumerate().find(|(_, one)| !one.is_string()) {
                None => Ok(()),
                Some((at, one)) => {
                    let place = format!("{name}[{at}]");
                    refuse(&place, one, "a string, such as \"*.rs\"")
                }
            }
        }
        ("array", value) => refuse(name, value, "a list of strings, such as [\"*.rs\"]"),
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
fn check_names(fields: &Map<String, Value>, schema: &Value) -> Result<(), ToolError> {
    let known: Vec<&str> = schema["properties"]
        .as_object()
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default();
    for name in fields.keys() {
        if known.contains(&name.as_str()) {
            continue;
        }
        let synonyms = SYNONYMS.iter().find(|(other, _)| other == name);
        let synonym = synonyms.and_then(|(_, all)| all.iter().find(|one| known.contains(one)));
        let nearest = known
            .iter()
            .map(|known| (strsim::jaro_winkler(known, &shortened(name, 64)), *known))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(likeness, _)| *likeness > 0.75);
        let nearest = synonym.copied().or(nearest.map(|(_, nearest)| nearest));
        let hint = match nearest {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("known fields are {}", known.join(", ")),
        };
        return Err(ToolError::bad_args(format!(
            "unknown field `{}`; {hint}",
            shortened(name, 64)
        )));
    }
    Ok(())
}

/// The start of a text that may be as long as a request. Comparing and repeating it has to have an end.
fn shortened(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

fn explain(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let path = error.path().to_string();
    let inner = error.inner().to_string();
    let inner = shortened(&inner, 200);
    if path == "." {
        format!("invalid request: {inner}")
    } else {
        format!("`{path}`: {inner}")
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
