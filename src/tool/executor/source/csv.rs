//! CSV files (RFC 4180) in UTF-8 with column names in the first line.

use std::io::{BufReader, Read};
use std::path::Path;

use ::csv::{ErrorKind, Reader, ReaderBuilder, StringRecord};

use super::{BUFFER, StableFile, unavailable};
use crate::tool::executor::failure::Reason;
use crate::tool::executor::order::{Key, Order, Place};
use crate::tool::executor::search::{Fields, Record, Source, Visit};

/// A CSV file.
#[derive(Debug)]
pub(super) struct Csv {
    file: StableFile,
    key: String,
}

impl Csv {
    pub(super) fn open(location: &Path, key: String) -> Result<Csv, Reason> {
        let file = StableFile::open(location)?;
        Ok(Csv { file, key })
    }
}

impl Source for Csv {
    /// Visits each line; skips lines with an empty key.
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<u64, Reason> {
        let passed_over = scan_csv(&self.file.file, &self.key, visit)?;
        self.file.unchanged()?;
        Ok(passed_over)
    }
}

fn scan_csv(input: impl Read, key: &str, visit: &mut Visit<'_>) -> Result<u64, Reason> {
    let mut reader: Reader<_> = ReaderBuilder::new().flexible(false).from_reader(Quotes {
        input: BufReader::with_capacity(BUFFER, input),
        at: At::Mark(0),
    });
    let names = reader.headers().map_err(wrong)?.clone();
    let mut keys = (0..names.len()).filter(|nth| &names[*nth] == key);
    // A duplicate key column is refused, since parsers disagree about which one counts.
    let (Some(at), None) = (keys.next(), keys.next()) else {
        return Err(Reason::SourceMalformed);
    };
    let (mut fields, mut record, mut passed_over) = (Fields::default(), StringRecord::new(), 0);
    let mut nth = 0;
    while reader.read_record(&mut record).map_err(wrong)? {
        nth += 1;
        let key = record.get(at).unwrap_or_default();
        if key.is_empty() {
            passed_over += 1;
            continue;
        }
        fields.clear();
        for (name, text) in names.iter().zip(&record) {
            fields.push(name, text);
        }
        visit(Record {
            fields: &fields,
            id: &|| key.to_string(),
            order: &|| Order::Key(Key::written(key), Place::Nth(nth)),
        });
    }
    // An unclosed quote has swallowed the lines after it.
    match reader.get_ref().at {
        At::Quoted => Err(Reason::SourceMalformed),
        _ => Ok(passed_over),
    }
}

/// A reader that checks quotes. RFC 4180 allows them only around whole fields. The CSV parser
/// accepts them anywhere, and so could take several records for one text.
struct Quotes<R> {
    input: R,
    at: At,
}

/// The state of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// After this many bytes of the byte order mark.
    Mark(usize),
    /// Before a field.
    Start,
    /// In a field without quotes.
    Plain,
    /// In a field with quotes.
    Quoted,
    /// After a quote in a quoted field: the end of the field or the first half of an escaped quote.
    Quote,
}

impl At {
    /// Returns the state after another byte; `None` if the byte is not allowed there.
    fn after(self, byte: u8) -> Option<At> {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        Some(match (self, byte) {
            (At::Mark(n), byte) if MARK.get(n) == Some(&byte) => At::Mark(n + 1),
            (At::Quoted, b'"') => At::Quote,
            (At::Quoted, _) => At::Quoted,
            (At::Quote, b'"') => At::Quoted,
            (_, b',' | b'\r' | b'\n') => At::Start,
            (At::Mark(_) | At::Start, b'"') => At::Quoted,
            (At::Quote, _) | (At::Plain, b'"') => return None,
            (At::Mark(_) | At::Start | At::Plain, _) => At::Plain,
        })
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(buffer)?;
        for &byte in &buffer[..read] {
            let Some(at) = self.at.after(byte) else {
                return Err(std::io::ErrorKind::InvalidData.into());
            };
            self.at = at;
        }
        Ok(read)
    }
}

fn wrong(error: ::csv::Error) -> Reason {
    match error.kind() {
        ErrorKind::Io(error) if error.kind() != std::io::ErrorKind::InvalidData => {
            unavailable(error)
        }
        // Misplaced quotes, lines of different lengths, and invalid UTF-8.
        _ => Reason::SourceMalformed,
    }
}
