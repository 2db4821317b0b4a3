//! An entry in TOML.

use serde_json::{Value, json};
use toml_edit::{Array, DocumentMut, Item, Table, TableLike};

use super::{Field, Server, no_command};

/// Sets the fields of an entry; creates it if it is missing.
pub(super) fn set(text: &str, server: &Server) -> Result<String, String> {
    let Server {
        keys, name, fields, ..
    } = server;
    let mut document = parse(text)?;
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for key in *keys {
        let below = table.entry(key).or_insert_with(implicit_table);
        let below = below.as_table_like_mut();
        table = below.ok_or_else(|| format!("`{key}` is not a table"))?;
    }
    match table.get_mut(name) {
        None => {
            let mut entry = Table::new();
            for (key, value) in fields {
                entry.insert(key, written(value));
            }
            table.insert(name, Item::Table(entry));
        }
        Some(found) => {
            let entry = found.as_table_like_mut();
            let entry = entry.ok_or_else(|| format!("`{name}` is not a table"))?;
            if !entry.contains_key("command") && !entry.is_empty() {
                return Err(no_command(name));
            }
            for (key, value) in fields {
                let is_equal = entry.get(key).and_then(plain).as_ref() == Some(value);
                if !is_equal {
                    set_field(entry, key, written(value));
                }
            }
        }
    }
    Ok(document.to_string())
}

/// Sets a field of an entry. The comment behind the former value stays.
fn set_field(entry: &mut dyn TableLike, key: &str, mut item: Item) {
    let former = entry.get(key).and_then(Item::as_value);
    if let (Some(former), Some(value)) = (former, item.as_value_mut()) {
        *value.decor_mut() = former.decor().clone();
    }
    match entry.get_mut(key) {
        // The key keeps the comments above it.
        Some(found) => *found = item,
        None => {
            entry.insert(key, item);
        }
    }
}

/// Removes an entry.
pub(super) fn remove(text: &str, server: &Server) -> Result<Option<String>, String> {
    let mut document = parse(text)?;
    let Some(table) = below(&mut document, server.keys) else {
        return Ok(None);
    };
    let removed = table.remove(server.name);
    Ok(removed.map(|_| document.to_string()))
}

/// Gives the fields of an entry the values that another text has.
pub(super) fn restore(text: &str, former: &str, server: &Server) -> Result<Option<String>, String> {
    let mut document = parse(text)?;
    let mut former = parse(former)?;
    let (Some(former), Some(now)) = (entry(&mut former, server), entry(&mut document, server))
    else {
        return Ok(None);
    };
    for (key, _) in &server.fields {
        match former.get(key) {
            Some(item) => set_field(now, key, item.clone()),
            None => {
                now.remove(key);
            }
        }
    }
    Ok(Some(document.to_string()))
}

/// Returns the values that a text has for some fields of an entry.
pub(super) fn read(text: &str, server: &Server) -> Result<Option<Vec<Field>>, String> {
    let mut document = parse(text)?;
    let Some(found) = below(&mut document, server.keys).and_then(|table| table.get(server.name))
    else {
        return Ok(None);
    };
    let value = |key: &'static str| {
        let item = found.as_table_like()?.get(key)?;
        Some((key, plain(item)?))
    };
    Ok(Some(
        server
            .fields
            .iter()
            .filter_map(|(key, _)| value(key))
            .collect(),
    ))
}

/// Parses a text, if the parser would write the same bytes.
fn parse(text: &str) -> Result<DocumentMut, String> {
    let document: DocumentMut = text
        .parse()
        .map_err(|error| format!("the file is no valid TOML: {}", first_line(&error)))?;
    // The parser ends the last line, which is the only change that it may make.
    let again = document.to_string();
    match again == text || again.strip_suffix('\n') == Some(text) {
        true => Ok(document),
        false => Err("other lines of the file would change; add the entry by hand".to_string()),
    }
}

fn first_line(error: &toml_edit::TomlError) -> String {
    error
        .to_string()
        .lines()
        .next()
        .unwrap_or_default()
        .to_string()
}

/// Returns the table below some keys.
fn below<'a>(document: &'a mut DocumentMut, keys: &[&str]) -> Option<&'a mut dyn TableLike> {
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for key in keys {
        table = table.get_mut(key)?.as_table_like_mut()?;
    }
    Some(table)
}

/// Returns the entry of a server, if it is a table.
fn entry<'a>(document: &'a mut DocumentMut, server: &Server) -> Option<&'a mut dyn TableLike> {
    below(document, server.keys)?
        .get_mut(server.name)?
        .as_table_like_mut()
}

/// Returns a table without a heading of its own.
fn implicit_table() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

/// Returns a text, a list of texts or a truth value without its layout.
fn plain(item: &Item) -> Option<Value> {
    if let Some(items) = item.as_array() {
        let texts: Option<Vec<&str>> = items.iter().map(|item| item.as_str()).collect();
        return Some(json!(texts?));
    }
    let text = item.as_str().map(|text| json!(text));
    text.or_else(|| item.as_bool().map(|value| json!(value)))
}

/// Returns a value in the form that the parser writes.
fn written(value: &Value) -> Item {
    match value {
        Value::Array(items) => {
            let texts = items.iter().filter_map(Value::as_str);
            toml_edit::value(texts.collect::<Array>())
        }
        Value::Bool(value) => toml_edit::value(*value),
        value => toml_edit::value(value.as_str().unwrap_or_default()),
    }
}
