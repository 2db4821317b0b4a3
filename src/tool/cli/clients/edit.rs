//! Changes of one entry in the text of a configuration file.
//!
//! Guarantees that bytes outside of the entry stay as they are, except for the comma and the
//! brackets that an entry needs. A text that can't be parsed is an error.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::{Value, json};
use toml_edit::{Array, DocumentMut, Item, Table, TableLike};

/// The lines around the paragraph of instructions.
const BEGIN: &str = "<!-- forge-search: begin -->\n";
const END: &str = "<!-- forge-search: end -->\n";

/// A field of an entry.
pub(super) enum Field {
    Text(String),
    List(Vec<String>),
    /// The value `true`.
    Yes,
}

/// An entry of a file: where it belongs, and its content.
pub(super) enum Entry {
    /// A property of JSON, below `keys`.
    Json {
        keys: &'static [&'static str],
        name: &'static str,
        fields: Vec<(&'static str, Field)>,
    },
    /// A table of TOML, below `keys`.
    Toml {
        keys: &'static [&'static str],
        name: &'static str,
        fields: Vec<(&'static str, Field)>,
    },
    /// Lines of Markdown between two markers.
    Paragraph(&'static str),
}

impl Entry {
    /// Returns the text with the entry. An entry of the same name is replaced.
    pub(super) fn set(&self, text: &str) -> Result<String, String> {
        match self {
            Entry::Json { keys, name, fields } => {
                let root = parse_json(text)?;
                let mut object = root.object_value_or_create().ok_or_else(not_an_object)?;
                for key in *keys {
                    let below = object.object_value_or_create(key);
                    object = below.ok_or_else(|| format!("`{key}` is not an object"))?;
                }
                let value = written(fields);
                match object.get(name) {
                    // An equal entry keeps its layout.
                    Some(property) if is_equal(&property.value(), fields) => {}
                    Some(property) => property.set_value(value),
                    None => {
                        object.append(name, value);
                    }
                }
                Ok(root.to_string())
            }
            Entry::Toml { keys, name, fields } => {
                let mut document = parse_toml(text)?;
                let mut table: &mut dyn TableLike = document.as_table_mut();
                for key in *keys {
                    let below = table.entry(key).or_insert_with(implicit_table);
                    let below = below.as_table_like_mut();
                    table = below.ok_or_else(|| format!("`{key}` is not a table"))?;
                }
                let mut entry = Table::new();
                for (key, value) in fields {
                    entry.insert(key, toml(value));
                }
                let is_same = |old: &Item| plain(old) == plain(&Item::Table(entry.clone()));
                if !table.get(name).is_some_and(is_same) {
                    table.insert(name, Item::Table(entry));
                }
                Ok(document.to_string())
            }
            Entry::Paragraph(paragraph) => {
                let block = format!("{BEGIN}{paragraph}{END}");
                Ok(match marked(text)? {
                    Some((start, end)) => format!("{}{block}{}", &text[..start], &text[end..]),
                    None if text.is_empty() => block,
                    None => format!("{}\n\n{block}", text.trim_end_matches('\n')),
                })
            }
        }
    }

    /// Returns the text without the entry, or `None` if it has no such entry.
    pub(super) fn remove(&self, text: &str) -> Result<Option<String>, String> {
        match self {
            Entry::Json { keys, name, .. } => {
                let root = parse_json(text)?;
                let Some(property) = json_entries(&root, keys).and_then(|found| found.get(name))
                else {
                    return Ok(None);
                };
                property.remove();
                Ok(Some(root.to_string()))
            }
            Entry::Toml { keys, name, .. } => {
                let mut document = parse_toml(text)?;
                let mut table: &mut dyn TableLike = document.as_table_mut();
                for key in *keys {
                    let Some(below) = table.get_mut(key).and_then(Item::as_table_like_mut) else {
                        return Ok(None);
                    };
                    table = below;
                }
                let removed = table.remove(name);
                Ok(removed.map(|_| document.to_string()))
            }
            Entry::Paragraph(_) => Ok(marked(text)?.map(|(start, end)| {
                let before = text[..start].strip_suffix('\n').unwrap_or_default();
                format!("{before}{}", &text[end..])
            })),
        }
    }

    /// Returns true if the text has an entry of this name.
    pub(super) fn is_in(&self, text: &str) -> Result<bool, String> {
        Ok(self.remove(text)?.is_some())
    }
}

/// Parses JSON that may have comments and trailing commas.
fn parse_json(text: &str) -> Result<CstRootNode, String> {
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

/// Returns the object below some keys.
fn json_entries(root: &CstRootNode, keys: &[&str]) -> Option<CstObject> {
    let mut object = root.object_value()?;
    for key in keys {
        object = object.object_value(key)?;
    }
    Some(object)
}

/// Returns true if a value of a file has these fields, in any layout.
fn is_equal(value: &Option<CstNode>, fields: &[(&'static str, Field)]) -> bool {
    let value = value.as_ref().and_then(CstNode::to_serde_value);
    value == Some(json(fields))
}

fn json(fields: &[(&'static str, Field)]) -> Value {
    let value = |field: &Field| match field {
        Field::Text(text) => json!(text),
        Field::List(items) => json!(items),
        Field::Yes => json!(true),
    };
    let fields = fields.iter();
    fields
        .map(|(key, field)| (key.to_string(), value(field)))
        .collect()
}

/// Returns fields in the order in which they are written.
fn written(fields: &[(&'static str, Field)]) -> CstInputValue {
    let value = |field: &Field| match field {
        Field::Text(text) => CstInputValue::String(text.clone()),
        Field::List(items) => {
            let items = items.iter().cloned().map(CstInputValue::String);
            CstInputValue::Array(items.collect())
        }
        Field::Yes => CstInputValue::Bool(true),
    };
    let fields = fields.iter();
    CstInputValue::Object(
        fields
            .map(|(key, field)| (key.to_string(), value(field)))
            .collect(),
    )
}

fn parse_toml(text: &str) -> Result<DocumentMut, String> {
    text.parse()
        .map_err(|error| format!("the file is no valid TOML: {}", first_line(&error)))
}

fn first_line(error: &toml_edit::TomlError) -> String {
    error
        .to_string()
        .lines()
        .next()
        .unwrap_or_default()
        .to_string()
}

/// Returns a table without a heading of its own.
fn implicit_table() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

fn toml(field: &Field) -> Item {
    match field {
        Field::Text(text) => toml_edit::value(text.as_str()),
        Field::List(items) => toml_edit::value(items.iter().collect::<Array>()),
        Field::Yes => toml_edit::value(true),
    }
}

/// Returns an item as text without its layout, to compare two of them.
fn plain(item: &Item) -> Option<Vec<(String, String)>> {
    let table = item.as_table_like()?;
    let bare = |item: &Item| match item.as_value() {
        Some(value) => {
            let mut value = value.clone();
            value.decor_mut().clear();
            if let Some(array) = value.as_array_mut() {
                array.iter_mut().for_each(|item| item.decor_mut().clear());
            }
            value.to_string()
        }
        None => item.to_string(),
    };
    let mut fields: Vec<_> = table
        .iter()
        .map(|(key, item)| (key.to_string(), bare(item)))
        .collect();
    fields.sort();
    Some(fields)
}

/// Returns the range of the paragraph, its markers included.
fn marked(text: &str) -> Result<Option<(usize, usize)>, String> {
    let (begin, end) = (BEGIN.trim_end(), END.trim_end());
    let start = text.find(begin);
    let length = start.and_then(|start| text[start..].find(end));
    match (start, length) {
        (Some(start), Some(length)) => {
            let end = start + length + end.len();
            let newline = text[end..].starts_with('\n');
            Ok(Some((start, end + usize::from(newline))))
        }
        (Some(_), None) => Err(format!("`{begin}` has no `{end}` behind it")),
        (None, _) => Ok(None),
    }
}
