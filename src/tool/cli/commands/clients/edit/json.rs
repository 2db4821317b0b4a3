//! An entry in JSON with comments.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;

use super::{Field, Server, no_command};

/// Sets the fields of an entry; creates it if it is missing.
pub(super) fn set(text: &str, server: &Server) -> Result<String, String> {
    let Server {
        keys, name, fields, ..
    } = server;
    let root = parse(text)?;
    let mut object = root.object_value_or_create().ok_or_else(not_an_object)?;
    for key in *keys {
        // Refuses a second property of this name.
        property(&object, key)?;
        let below = object.object_value_or_create(key);
        object = below.ok_or_else(|| format!("`{key}` is not an object"))?;
    }
    let Some(found) = property(&object, name)? else {
        let values = fields.iter();
        let values = values.map(|(key, value)| (key.to_string(), written(value)));
        object.append(name, CstInputValue::Object(values.collect()));
        return Ok(root.to_string());
    };
    let entry = found.object_value();
    let entry = entry.ok_or_else(|| format!("`{name}` is not an object"))?;
    if property(&entry, "command")?.is_none() && !entry.properties().is_empty() {
        return Err(no_command(name));
    }
    for (key, value) in fields {
        set_field(&entry, key, value)?;
    }
    Ok(root.to_string())
}

/// Sets a field of an entry. An equal field keeps its layout.
fn set_field(entry: &CstObject, key: &str, value: &Value) -> Result<(), String> {
    match property(entry, key)? {
        Some(found) if plain(&found).as_ref() == Some(value) => {}
        Some(found) => found.set_value(written(value)),
        None => {
            entry.append(key, written(value));
        }
    }
    Ok(())
}

/// Removes an entry.
pub(super) fn remove(text: &str, server: &Server) -> Result<Option<String>, String> {
    let root = parse(text)?;
    let Some(found) = entry(&root, server)? else {
        return Ok(None);
    };
    found.remove();
    Ok(Some(root.to_string()))
}

/// Gives the fields of an entry the values that another text has.
pub(super) fn restore(text: &str, former: &str, server: &Server) -> Result<Option<String>, String> {
    let root = parse(text)?;
    let former = entry(&parse(former)?, server)?.and_then(|found| found.object_value());
    let now = entry(&root, server)?.and_then(|found| found.object_value());
    let (Some(former), Some(now)) = (former, now) else {
        return Ok(None);
    };
    for (key, _) in &server.fields {
        match property(&former, key)?.and_then(|found| plain(&found)) {
            Some(value) => set_field(&now, key, &value)?,
            None => {
                if let Some(added) = property(&now, key)? {
                    added.remove();
                }
            }
        }
    }
    Ok(Some(root.to_string()))
}

/// Returns the values that a text has for some fields of an entry.
pub(super) fn read(text: &str, server: &Server) -> Result<Option<Vec<Field>>, String> {
    let Some(found) = entry(&parse(text)?, server)? else {
        return Ok(None);
    };
    let mut read = Vec::new();
    if let Some(entry) = found.object_value() {
        for (key, _) in &server.fields {
            let value = property(&entry, key)?.and_then(|found| plain(&found));
            read.extend(value.map(|value| (*key, value)));
        }
    }
    Ok(Some(read))
}

fn parse(text: &str) -> Result<CstRootNode, String> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    CstRootNode::parse(text, &options)
        .map_err(|error| format!("the file is no valid JSON: {error}"))
}

fn not_an_object() -> String {
    "the file is no JSON object".to_string()
}

/// Returns the entry of a server.
fn entry(root: &CstRootNode, server: &Server) -> Result<Option<CstObjectProp>, String> {
    let Some(mut object) = root.object_value() else {
        return Ok(None);
    };
    for key in server.keys {
        let below = property(&object, key)?.and_then(|found| found.object_value());
        let Some(below) = below else {
            return Ok(None);
        };
        object = below;
    }
    property(&object, server.name)
}

/// Returns the property of a name.
///
/// # Errors
///
/// If the object has two of them: programs differ in the one that they use.
fn property(object: &CstObject, name: &str) -> Result<Option<CstObjectProp>, String> {
    let properties = object.properties().into_iter();
    let mut found = properties.filter(|each| each.decoded_name().as_deref() == Some(name));
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(format!("the key `{name}` is there twice")),
        (first, None) => Ok(first),
    }
}

/// Returns the value of a property without its layout.
fn plain(property: &CstObjectProp) -> Option<Value> {
    property.value().as_ref().and_then(CstNode::to_serde_value)
}

/// Returns a value in the form that the parser writes.
fn written(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(written).collect()),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(key, value)| (key.clone(), written(value)));
            CstInputValue::Object(fields.collect())
        }
    }
}
