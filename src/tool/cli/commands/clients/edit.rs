//! Changes of one entry in the text of a configuration file.
//!
//! This module guarantees that bytes outside of the entry stay as they are, except for the comma
//! and the brackets that an entry needs. Within an entry, only the fields of this program change. A
//! text that can't be parsed is an error. Each of [`json`], [`toml`] and [`paragraph`] is for one
//! format.

mod json;
mod paragraph;
mod toml;

use std::borrow::Cow;

use serde_json::Value;

/// The character that some editors write at the begin of a file, to say that it is UTF-8.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A field of an entry and its value: a text, a list of texts, or `true`.
pub(super) type Field = (&'static str, Value);

/// The format of a file with entries of servers.
#[derive(Clone, Copy)]
pub(super) enum Format {
    /// JSON; comments and trailing commas are kept.
    Json,
    Toml,
}

/// An entry of a file: where it belongs, and its content.
pub(super) enum Entry {
    /// A server of the Model Context Protocol.
    Server(Server),
    /// Lines of Markdown between two markers.
    Paragraph(Cow<'static, str>),
}

/// The entry of a server: an object or a table with a name, below `keys`.
pub(super) struct Server {
    pub(super) format: Format,
    pub(super) keys: &'static [&'static str],
    pub(super) name: &'static str,
    /// The fields of this program. The user may have added others.
    pub(super) fields: Vec<Field>,
}

impl Entry {
    /// Returns the text with the entry. In an entry of the same name, the fields of this program
    /// change, and others stay.
    pub(super) fn set(&self, text: &str) -> Result<String, String> {
        self.edit(text, |text| match self {
            Entry::Server(server) => match server.format {
                Format::Json => json::set(text, server),
                Format::Toml => toml::set(text, server),
            },
            Entry::Paragraph(content) => paragraph::set(text, content),
        })
    }

    /// Returns the text without the entry, or `None` if it has no such entry.
    pub(super) fn remove(&self, text: &str) -> Result<Option<String>, String> {
        self.edit_if(text, |text| match self {
            Entry::Server(server) => match server.format {
                Format::Json => json::remove(text, server),
                Format::Toml => toml::remove(text, server),
            },
            Entry::Paragraph(_) => paragraph::remove(text),
        })
    }

    /// Returns the text with the entry that `former` has: the fields of this program get their
    /// former values, and others stay. Returns `None` if `former` has no such entry.
    pub(super) fn restore(&self, text: &str, former: &str) -> Result<Option<String>, String> {
        let (_, former) = Layout::of(self, former)?;
        self.edit_if(text, |text| match self {
            Entry::Server(server) => match server.format {
                Format::Json => json::restore(text, &former, server),
                Format::Toml => toml::restore(text, &former, server),
            },
            Entry::Paragraph(_) => paragraph::restore(text, &former),
        })
    }

    /// Returns the entry with the values that a text has. Returns `None` if the text has no such
    /// entry.
    pub(super) fn with_fields_of(&self, text: &str) -> Result<Option<Entry>, String> {
        let (_, text) = Layout::of(self, text)?;
        let Entry::Server(server) = self else {
            return paragraph::read(&text);
        };
        let read = match server.format {
            Format::Json => json::read(&text, server)?,
            Format::Toml => toml::read(&text, server)?,
        };
        Ok(read.map(|fields| Entry::Server(Server { fields, ..*server })))
    }

    /// Returns the command that the entry starts, and its arguments. It is empty for a paragraph,
    /// and for an entry without a command.
    pub(super) fn command(&self) -> Vec<String> {
        let Entry::Server(server) = self else {
            return Vec::new();
        };
        let texts = |value: &Value| -> Vec<String> {
            let items = match value {
                Value::Array(items) => items.as_slice(),
                value => std::slice::from_ref(value),
            };
            let texts = items.iter().filter_map(Value::as_str);
            texts.map(str::to_string).collect()
        };
        let mut command = Vec::new();
        for wanted in ["command", "args"] {
            let mut fields = server.fields.iter();
            command.extend(
                fields
                    .find(|(key, _)| *key == wanted)
                    .map(|(_, value)| texts(value)),
            );
        }
        command.concat()
    }

    /// Runs an edit on the text in the layout that parsers expect.
    fn edit(
        &self,
        text: &str,
        edit: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<String, String> {
        let (layout, plain) = Layout::of(self, text)?;
        Ok(layout.restored(edit(&plain)?))
    }

    /// The same for an edit that may find nothing to change.
    fn edit_if(
        &self,
        text: &str,
        edit: impl FnOnce(&str) -> Result<Option<String>, String>,
    ) -> Result<Option<String>, String> {
        let (layout, plain) = Layout::of(self, text)?;
        Ok(edit(&plain)?.map(|text| layout.restored(text)))
    }
}

/// The parts of a text's layout that an edit would lose.
struct Layout {
    has_mark: bool,
    has_crlf: bool,
}

impl Layout {
    /// Splits a text into its layout, and the text that is edited.
    ///
    /// # Errors
    ///
    /// If TOML has both kinds of line ends, which its parser can't keep.
    fn of(entry: &Entry, text: &str) -> Result<(Layout, String), String> {
        let plain = text.strip_prefix(BYTE_ORDER_MARK);
        let has_mark = plain.is_some();
        let plain = plain.unwrap_or(text);
        let (lines, crlf) = (plain.matches('\n').count(), plain.matches("\r\n").count());
        let has_crlf = match entry {
            // The parser of JSON keeps line ends.
            Entry::Server(server) if matches!(server.format, Format::Json) => false,
            Entry::Server(_) if crlf != 0 && crlf != lines => {
                return Err("some lines end with CR LF and some with LF".to_string());
            }
            _ => crlf != 0 && crlf == lines,
        };
        let plain = match has_crlf {
            true => plain.replace("\r\n", "\n"),
            false => plain.to_string(),
        };
        Ok((Layout { has_mark, has_crlf }, plain))
    }

    fn restored(&self, text: String) -> String {
        let text = match self.has_crlf {
            true => text.replace('\n', "\r\n"),
            false => text,
        };
        match self.has_mark {
            true => format!("{BYTE_ORDER_MARK}{text}"),
            false => text,
        }
    }
}

/// Returns the error for an entry of the same name that starts no program.
fn no_command(name: &str) -> String {
    format!("the entry `{name}` has no command, so it is another kind of server; rename it")
}
