//! Files of JSON objects, one a line.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{BUFFER, StableFile, unavailable};
use crate::tool::executor::failure::Reason;
use crate::tool::executor::order::{Key, Order, Place};
use crate::tool::executor::search::{Fields, Record, Source, Visit};

/// A file of objects.
#[derive(Debug)]
pub(super) struct Jsonl {
    file: StableFile,
    key: String,
}

impl Jsonl {
    pub(super) fn open(location: &Path, key: String) -> Result<Jsonl, Reason> {
        let file = StableFile::open(location)?;
        Ok(Jsonl { file, key })
    }
}

impl Source for Jsonl {
    /// Visits each line; skips empty lines, and objects whose key is neither a number nor a text.
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<u64, Reason> {
        let input = BufReader::with_capacity(BUFFER, &self.file.file);
        let passed_over = scan_jsonl(input, &self.key, visit)?;
        self.file.unchanged()?;
        Ok(passed_over)
    }
}

fn scan_jsonl(mut input: impl BufRead, key: &str, visit: &mut Visit<'_>) -> Result<u64, Reason> {
    let (mut texts, mut line) = (Texts::default(), Vec::new());
    let (mut nth, mut passed_over) = (0, 0);
    loop {
        line.clear();
        let read = input.read_until(b'\n', &mut line);
        if read.map_err(|error| unavailable(&error))? == 0 {
            return Ok(passed_over);
        }
        nth += 1;
        let object = match nth {
            1 => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line),
            _ => &line,
        };
        if object.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        texts.read(object, key)?;
        let Some((key, id)) = texts.key.take() else {
            passed_over += 1;
            continue;
        };
        visit(Record {
            fields: &texts.fields,
            id: &|| id.clone(),
            order: &|| Order::Key(key.clone(), Place::Nth(nth)),
        });
    }
}

/// The texts of one object, with the path of each.
#[derive(Default)]
struct Texts {
    fields: Fields,
    /// The path of the current value, for example `user.name`.
    way: String,
    /// The key, and its original text.
    key: Option<(Key, String)>,
}

impl Texts {
    fn read(&mut self, object: &[u8], key: &str) -> Result<(), Reason> {
        self.fields.clear();
        self.way.clear();
        self.key = None;
        let mut json = serde_json::Deserializer::from_slice(object);
        let top = Value {
            texts: self,
            key: Some(key),
        };
        // The parser's message quotes the data, so it is dropped.
        top.deserialize(&mut json)
            .and_then(|()| json.end())
            .map_err(|_| Reason::SourceMalformed)
    }

    /// Appends a member to the path.
    fn enter(&mut self, name: &str) {
        let is_plain = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        if !name.is_empty() && name.chars().all(is_plain) {
            if !self.way.is_empty() {
                self.way.push('.');
            }
            self.way.push_str(name);
        } else {
            self.way.push('[');
            // A string always serializes.
            self.way
                .push_str(&serde_json::to_string(name).unwrap_or_default());
            self.way.push(']');
        }
    }
}

/// A value of an object. For the object itself, `key` is the name of its key member.
struct Value<'a> {
    texts: &'a mut Texts,
    key: Option<&'a str>,
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        only_within(self.key)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        only_within(self.key)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        only_within(self.key)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        only_within(self.key)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        only_within(self.key)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        only_within(self.key)?;
        self.texts.fields.push(&self.texts.way, text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        only_within(self.key)?;
        let start = self.texts.way.len();
        for nth in 0_usize.. {
            self.texts.way.truncate(start);
            self.texts.way.push_str(&format!("[{nth}]"));
            let value = Value {
                texts: &mut *self.texts,
                key: None,
            };
            if seq.next_element_seed(value)?.is_none() {
                break;
            }
        }
        self.texts.way.truncate(start);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let start = self.texts.way.len();
        let mut is_keyed = false;
        while let Some(name) = map.next_key::<String>()? {
            self.texts.enter(&name);
            if self.key == Some(name.as_str()) {
                // A duplicate key is refused, since parsers disagree about which one counts.
                if is_keyed {
                    return Err(A::Error::custom("the key twice"));
                }
                is_keyed = true;
                let KeyValue(key) = map.next_value()?;
                // A number is no text field.
                if let Some((Key::Text(_), text)) = &key {
                    self.texts.fields.push(&self.texts.way, text);
                }
                self.texts.key = key;
            } else {
                map.next_value_seed(Value {
                    texts: &mut *self.texts,
                    key: None,
                })?;
            }
            self.texts.way.truncate(start);
        }
        Ok(())
    }
}

/// Checks that a line is an object.
fn only_within<E: Error>(top: Option<&str>) -> Result<(), E> {
    match top {
        None => Ok(()),
        Some(_) => Err(E::custom("not an object")),
    }
}

/// The value of the key: a number or a text; `None` for other types.
struct KeyValue(Option<(Key, String)>);

impl<'de> Deserialize<'de> for KeyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KeyValue, D::Error> {
        // The original text: numbers may have more digits than a float.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = raw.get();
        let key = match text.as_bytes().first() {
            Some(b'"') => {
                let text: String = serde_json::from_str(text).map_err(D::Error::custom)?;
                Some((Key::Text(text.clone()), text))
            }
            Some(b'-' | b'0'..=b'9') => Some((Key::written(text), text.to_string())),
            _ => None,
        };
        Ok(KeyValue(key))
    }
}
