//! Untyped configuration values, the kinds of values that keys allow, and their conversion from
//! TOML.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use toml::de::{DeInteger, DeValue};

use super::choice::{
    Backend, DaemonUse, Embed, FilesBackend, IndexMode, IndexStorage, IntegrityCheck, Mode,
    RegexStrategy,
};
use crate::exec::question::query::Case;
use crate::index::deny::DenySet;
use crate::tool::searcher::to_usize;

/// The largest integer that TOML can write.
const LARGEST: u64 = i64::MAX as u64;

/// The value of a key, of any type. Displays as TOML.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number that is not negative.
    Integer(u64),
    /// A number with a fraction.
    Number(f64),
    /// A string, displayed in quotes.
    Text(String),
    /// A list of whole numbers.
    Integers(Vec<u64>),
    /// A list of strings.
    Texts(Vec<String>),
}

/// The kind of values that a key allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number in a range.
    Integer {
        /// The smallest value allowed.
        min: u64,
        /// The largest value allowed.
        max: u64,
    },
    /// A number in a range.
    Number {
        /// The lower end of the range.
        min: f64,
        /// The upper end of the range.
        max: f64,
        /// Whether `min` and `max` themselves are allowed.
        inclusive: bool,
    },
    /// One of a few names.
    Choice {
        /// The names allowed.
        names: &'static [&'static str],
        /// Words that are known but not available in this build, with the reason.
        unavailable: &'static [(&'static str, &'static str)],
    },
    /// The name or path of a program; not empty.
    Program,
    /// A path, or an empty string for no path.
    OptionalPath,
    /// A non-empty list of distinct whole numbers in a range.
    Integers {
        /// The smallest value allowed.
        min: u64,
        /// The largest value allowed.
        max: u64,
    },
    /// A list of non-empty paths.
    Paths,
    /// A list of globs, in the notation of denied patterns.
    Globs,
}

impl Kind {
    pub(super) const COUNT: Self = Self::at_least(0);
    pub(super) const POSITIVE: Self = Self::at_least(1);

    pub(super) const fn at_least(min: u64) -> Self {
        Self::Integer { min, max: LARGEST }
    }

    pub(super) const fn choice(names: &'static [&'static str]) -> Self {
        Self::Choice {
            names,
            unavailable: &[],
        }
    }

    /// Returns the allowed values in words, to follow "must be".
    pub fn allowed(&self) -> String {
        match self {
            Self::Boolean => "`true` or `false`".into(),
            Self::Integer { min, max: LARGEST } => format!("an integer of at least {min}"),
            Self::Integer { min, max } if min == max => format!("{min}"),
            Self::Integer { min, max } => format!("an integer from {min} to {max}"),
            Self::Number {
                min,
                max,
                inclusive: true,
            } => {
                format!("a number from {min:?} to {max:?}")
            }
            Self::Number {
                min,
                max,
                inclusive: false,
            } => {
                format!("a number between {min:?} and {max:?}, both excluded")
            }
            Self::Choice { names, .. } => {
                let quoted: Vec<String> =
                    names.iter().map(|name| format!("`\"{name}\"`")).collect();
                format!("one of {}", quoted.join(", "))
            }
            Self::Program => "a string with the name or path of a program, not empty".into(),
            Self::OptionalPath => "a string with a path, or an empty string".into(),
            Self::Integers { min, max } => format!(
                "a list of different integers from {min} to {max}, with at least one, such as \
                 `[{min}, {}]`",
                min + 1
            ),
            Self::Paths => {
                "a list of strings with paths, such as `[\"src\", \"/srv/code\"]`".into()
            }
            Self::Globs => {
                "a list of strings with globs, such as `[\"**/secrets/**\", \"*.bak\"]`".into()
            }
        }
    }

    /// Checks a value.
    ///
    /// # Errors
    ///
    /// The reason why the value is not allowed, with the allowed values.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let must = || Err(format!("must be {}", self.allowed()));
        match (self, value) {
            (Self::Boolean, Value::Boolean(_)) => Ok(()),
            (Self::Integer { min, max }, Value::Integer(value)) => {
                if (min..=max).contains(&value) {
                    Ok(())
                } else {
                    must()
                }
            }
            (
                Self::Number {
                    min,
                    max,
                    inclusive,
                },
                Value::Number(value),
            ) => {
                let ends = if *inclusive {
                    value >= min && value <= max
                } else {
                    value > min && value < max
                };
                if ends { Ok(()) } else { must() }
            }
            (Self::Choice { names, unavailable }, Value::Text(text)) => {
                if !names.contains(&text.as_str()) {
                    return must();
                }
                match unavailable.iter().find(|(name, _)| name == text) {
                    Some((_, reason)) => Err((*reason).into()),
                    None => Ok(()),
                }
            }
            (Self::Program, Value::Text(text)) => {
                if text.trim().is_empty() {
                    must()
                } else {
                    check_path_text(text)
                }
            }
            (Self::OptionalPath, Value::Text(text)) => check_path_text(text),
            (Self::Integers { min, max }, Value::Integers(values)) => {
                let distinct = values
                    .iter()
                    .enumerate()
                    .all(|(at, value)| !values[..at].contains(value));
                let in_range = values.iter().all(|value| (min..=max).contains(&value));
                if distinct && in_range && !values.is_empty() {
                    Ok(())
                } else {
                    must()
                }
            }
            (Self::Paths, Value::Texts(paths)) => {
                for path in paths {
                    if path.is_empty() {
                        return Err("has an empty entry; remove it or write `\".\"` for the \
                                    working directory"
                            .into());
                    }
                    check_path_text(path)?;
                }
                Ok(())
            }
            (Self::Globs, Value::Texts(globs)) => match DenySet::new(globs, false) {
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            },
            _ => must(),
        }
    }

    /// Reads and checks a TOML value.
    pub(super) fn read(&self, toml: &DeValue<'_>) -> Result<Value, String> {
        // For a value of the wrong type the list of allowed values is the whole message.
        let Some(value) = self.convert(toml) else {
            return Err(format!("must be {}", self.allowed()));
        };
        self.check(&value)?;
        Ok(value)
    }

    fn convert(&self, toml: &DeValue<'_>) -> Option<Value> {
        match (self, toml) {
            (Self::Boolean, DeValue::Boolean(value)) => Some(Value::Boolean(*value)),
            (Self::Integer { .. }, DeValue::Integer(value)) => integer(value).map(Value::Integer),
            (Self::Number { .. }, DeValue::Float(value)) => {
                value.as_str().parse().ok().map(Value::Number)
            }
            // Accept `1` where a fraction is expected, as `1.0`.
            (Self::Number { .. }, DeValue::Integer(value)) => {
                let value = u32::try_from(integer(value)?).ok()?;
                Some(Value::Number(f64::from(value)))
            }
            (Self::Choice { .. } | Self::Program | Self::OptionalPath, DeValue::String(value)) => {
                Some(Value::Text(value.to_string()))
            }
            (Self::Integers { .. }, DeValue::Array(items)) => items
                .iter()
                .map(|item| item.get_ref().as_integer().and_then(integer))
                .collect::<Option<_>>()
                .map(Value::Integers),
            (Self::Paths | Self::Globs, DeValue::Array(items)) => items
                .iter()
                .map(|item| match item.get_ref() {
                    DeValue::String(text) => Some(text.to_string()),
                    _ => None,
                })
                .collect::<Option<_>>()
                .map(Value::Texts),
            _ => None,
        }
    }
}

/// Reads an integer. Returns `None` if it is negative or too large for TOML.
fn integer(value: &DeInteger<'_>) -> Option<u64> {
    let number = i64::from_str_radix(value.as_str(), value.radix()).ok()?;
    u64::try_from(number).ok()
}

fn check_path_text(text: &str) -> Result<(), String> {
    if text.contains('\0') {
        return Err("contains a NUL byte, which no path can have; remove it".into());
    }
    Ok(())
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T>(f: &mut fmt::Formatter<'_>, items: &[T], show: fn(&T) -> String) -> fmt::Result {
            let shown: Vec<String> = items.iter().map(show).collect();
            write!(f, "[{}]", shown.join(", "))
        }
        match self {
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value:?}"),
            Self::Text(value) => f.write_str(&quoted(value)),
            Self::Integers(values) => list(f, values, u64::to_string),
            Self::Texts(values) => list(f, values, |text| quoted(text)),
        }
    }
}

/// Writes a text as a one-line TOML string. JSON strings have the same syntax, except for DEL.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text)
        .to_string()
        .replace('\u{7f}', "\\u007f")
}

/// Formats a TOML value for a message: as written if it is short.
pub(super) fn shown(toml: &DeValue<'_>) -> String {
    const LONGEST: usize = 60;
    match toml {
        DeValue::String(text) if text.chars().count() > LONGEST => {
            let start: String = text.chars().take(LONGEST).collect();
            format!("`{}`…", quoted(&start))
        }
        DeValue::String(text) => format!("`{}`", quoted(text)),
        DeValue::Integer(value) if value.as_str().len() > LONGEST => "a huge integer".into(),
        DeValue::Integer(value) => format!("`{value}`"),
        DeValue::Float(value) if value.as_str().len() > LONGEST => "a long number".into(),
        DeValue::Float(value) => format!("`{value}`"),
        DeValue::Boolean(value) => format!("`{value}`"),
        DeValue::Datetime(value) => format!("the date or time `{value}`"),
        DeValue::Array(items) if items.is_empty() => "`[]`".into(),
        DeValue::Array(items) => {
            let inner: Vec<String> = items
                .iter()
                .map(|item| shown(item.get_ref()).replace('`', ""))
                .collect();
            let inner = inner.join(", ");
            if inner.chars().count() > LONGEST {
                format!("a list of {}", items.len())
            } else {
                format!("`[{inner}]`")
            }
        }
        DeValue::Table(_) => "a table".into(),
    }
}

/// A typed field of the configuration.
pub(super) trait Field {
    /// Returns the field's value.
    fn to_value(&self) -> Value;

    /// Sets the field. Leaves it unchanged if the value has the wrong type.
    fn assign(&mut self, value: &Value);
}

/// Implements [`Field`] for types: the kind of their values, the value of a field, and the field
/// for a value, if there is one.
macro_rules! fields {
    ($($($type:ty),+ => $kind:ident, $write:expr, $read:expr;)+) => {$($(
        impl Field for $type {
            fn to_value(&self) -> Value {
                let write: fn(&$type) -> _ = $write;
                Value::$kind(write(self))
            }

            fn assign(&mut self, value: &Value) {
                let read: fn(&_) -> Option<$type> = $read;
                if let Value::$kind(value) = value
                    && let Some(value) = read(value)
                {
                    *self = value;
                }
            }
        }
    )+)+};
}

fields! {
    bool => Boolean, |field| *field, |value| Some(*value);
    f64 => Number, |field| *field, |value| Some(*value);
    u64 => Integer, |field| *field, |value| Some(*value);
    // A larger integer than the type has means its maximum.
    u8 => Integer, |field| (*field).into(), |value| Some(u8::try_from(*value).unwrap_or(u8::MAX));
    usize => Integer, |field| *field as u64, |value| Some(to_usize(*value));
    Backend, Case, FilesBackend, Mode, DaemonUse, Embed, IndexMode, IndexStorage, IntegrityCheck,
    RegexStrategy => Text, |field| field.as_str().into(), |word: &String| Self::from_name(word);
    String => Text, String::clone, |text: &String| Some(text.clone());
    Option<PathBuf> => Text,
        |path| path.as_deref().map(written).unwrap_or_default(),
        |text: &String| Some((!text.is_empty()).then(|| text.into()));
    Vec<u8> => Integers,
        |bytes| bytes.iter().copied().map(u64::from).collect(),
        |values: &Vec<u64>| {
            Some(values.iter().filter_map(|value| u8::try_from(*value).ok()).collect())
        };
    Vec<String> => Texts, Vec::clone, |texts: &Vec<String>| Some(texts.clone());
    Vec<PathBuf> => Texts,
        |paths| paths.iter().map(|path| written(path)).collect(),
        |texts: &Vec<String>| Some(texts.iter().map(PathBuf::from).collect());
}

fn written(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
