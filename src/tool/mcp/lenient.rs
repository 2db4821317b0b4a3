//! Repairs tool arguments of the wrong type, as models write them.
//!
//! This module owns the list of repairs, which are limited to mistakes with one clear meaning.
//! `"5"` becomes the number 5, `null` is removed, one glob becomes a list of one. The tool refuses
//! anything else.

use rmcp::model::JsonObject;
use serde_json::{Value, from_str};

/// Converts arguments to the types of the request's schema.
pub(super) fn mended(arguments: JsonObject, schema: &Value) -> JsonObject {
    let of = |name: &str| schema.get("properties").and_then(|all| all.get(name));
    let given = arguments.into_iter().filter(|(_, value)| !value.is_null());
    given
        .map(|(name, value)| match of(&name) {
            Some(schema) => {
                let value = to_type(value, schema);
                (name, value)
            }
            None => (name, value),
        })
        .collect()
}

/// Replaces the arguments of a call by an object if they are an object's JSON text or an empty
/// list. Returns false for other arguments.
pub(super) fn make_object(message: &mut Value) -> bool {
    let Some(arguments) = message.pointer_mut("/params/arguments") else {
        return false;
    };
    let object = match &arguments {
        Value::String(text) => from_str::<JsonObject>(text).ok(),
        Value::Array(list) => list.is_empty().then(JsonObject::new),
        _ => None,
    };
    let is_mended = object.is_some();
    if let Some(object) = object {
        *arguments = Value::Object(object);
    }
    is_mended
}

/// Converts one value to the type of its schema, if its meaning is clear.
fn to_type(value: Value, schema: &Value) -> Value {
    let kind = schema.get("type").and_then(Value::as_str);
    match (kind, &value) {
        (Some("integer"), Value::String(text)) => match from_str::<Value>(text.trim()) {
            Ok(number) if number.is_number() => whole_number(number).unwrap_or(value),
            _ => value,
        },
        (Some("integer"), Value::Number(_)) => whole_number(value.clone()).unwrap_or(value),
        (Some("boolean"), Value::String(text)) => match text.trim().to_lowercase().as_str() {
            "true" => true.into(),
            "false" => false.into(),
            _ => value,
        },
        (Some("string"), Value::Number(_) | Value::Bool(_)) => value.to_string().into(),
        (Some("string"), Value::String(text)) => match schema.get("enum") {
            Some(Value::Array(words)) => {
                let lower = Value::from(text.trim().to_lowercase());
                if words.contains(&lower) { lower } else { value }
            }
            _ => value,
        },
        (Some("array"), Value::String(text)) => match from_str::<Vec<String>>(text) {
            // Some models write the list as JSON text.
            Ok(list) => list.into(),
            Err(_) => vec![value].into(),
        },
        _ => value,
    }
}

/// Converts a number without a fraction, such as 5.0 or a very large one, to a whole number.
fn whole_number(number: Value) -> Option<Value> {
    let float = number.as_f64()?;
    match number.is_u64() {
        true => Some(number),
        false if float >= 0.0 && float.fract() == 0.0 => Some((float as u64).into()),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::request::search_schema;

    #[test]
    fn mcp_arguments_with_a_clear_meaning_are_mended() {
        let schema = search_schema();
        let mended = |value: Value| match value {
            Value::Object(given) => Value::Object(mended(given, &schema)),
            _ => Value::Null,
        };
        for (given, expected) in [
            (json!({"context": "2"}), json!({"context": 2})),
            (json!({"context": " 12 "}), json!({"context": 12})),
            (json!({"context": "5.0"}), json!({"context": 5})),
            (json!({"max_files": 2e30}), json!({"max_files": u64::MAX})),
            (json!({"path": null, "hidden": null}), json!({})),
            (
                json!({"include_glob": "*.rs"}),
                json!({"include_glob": ["*.rs"]}),
            ),
            (
                json!({"include_glob": "[\"*.rs\", \"*.c\"]"}),
                json!({"include_glob": ["*.rs", "*.c"]}),
            ),
            (
                json!({"include_glob": "[ab].rs"}),
                json!({"include_glob": ["[ab].rs"]}),
            ),
            (json!({"hidden": "True"}), json!({"hidden": true})),
            (json!({"pattern": 404}), json!({"pattern": "404"})),
            (json!({"case": "Smart"}), json!({"case": "smart"})),
        ] {
            assert_eq!(mended(given.clone()), expected, "{given}");
        }
        for unclear in [
            json!({"context": "two"}),
            json!({"context": "-1"}),
            json!({"context": 1.5}),
            json!({"hidden": "perhaps"}),
            json!({"case": "loud"}),
            json!({"pattern": ["x"]}),
            json!({"unknown": "5"}),
        ] {
            assert_eq!(mended(unclear.clone()), unclear);
        }
    }
}
