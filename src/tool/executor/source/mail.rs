//! E-mails: directories with one a file, and files with many.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use mail_parser::mailbox::mbox::MessageIterator;
use mail_parser::{Address, HeaderName, HeaderValue, Message, MessageParser, MimeHeaders};
use sha2::{Digest, Sha256};

use super::{BUFFER, Steady, unavailable};
use crate::index::beneath::{EntryKind, RootDir};
use crate::tool::executor::failure::Reason;
use crate::tool::executor::order::{Order, Place};
use crate::tool::executor::search::{Fields, Record, Source, Visit};

/// A Maildir, with the folders in it that are named as in Maildir++ (`.Name`).
#[derive(Debug)]
pub(super) struct Maildir(RootDir);

impl Maildir {
    pub(super) fn open(location: &Path) -> Result<Maildir, Reason> {
        let root = RootDir::open(location).map_err(|error| unavailable(&error))?;
        // What is no Maildir has no mail, which must not pass for an empty one.
        match root.metadata(Path::new("cur")) {
            Ok(meta) if meta.kind == EntryKind::Dir => Ok(Maildir(root)),
            Ok(_) => Err(Reason::SourceMalformed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Reason::SourceMalformed),
            Err(error) => Err(unavailable(&error)),
        }
    }

    /// Lists a directory; nothing if there is none.
    fn entries(&self, dir: &Path) -> Result<Vec<(PathBuf, EntryKind)>, Reason> {
        match self.0.open_dir_entries(dir) {
            Ok(entries) => {
                let entries = entries.into_iter();
                Ok(entries.map(|one| (dir.join(one.name), one.kind)).collect())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(unavailable(&error)),
        }
    }
}

impl Source for Maildir {
    /// Reads one message after the other, in memory for one of them and for the names of one folder.
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<u64, Reason> {
        let mut reader = MailReader::default();
        let mut folders = vec![PathBuf::new()];
        for (path, kind) in self.entries(Path::new(""))? {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            if kind == EntryKind::Dir && name.starts_with(b".") {
                folders.push(path);
            }
        }
        let mut bytes = Vec::new();
        for folder in folders {
            let mut messages = self.entries(&folder.join("new"))?;
            messages.extend(self.entries(&folder.join("cur"))?);
            for (path, kind) in messages {
                let name = path.file_name().unwrap_or_default().as_encoded_bytes();
                // What starts with a dot is no message, by the rules of Maildir.
                if kind != EntryKind::File || name.starts_with(b".") {
                    continue;
                }
                let mut file = match self.0.open_file(&path) {
                    Ok(file) => file,
                    // One that was moved would be missed, or found twice.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        return Err(Reason::SourceChanged);
                    }
                    Err(error) => return Err(unavailable(&error)),
                };
                bytes.clear();
                file.read_to_end(&mut bytes)
                    .map_err(|error| unavailable(&error))?;
                let place = || Place::At(path.as_os_str().as_encoded_bytes().to_vec());
                reader.message(&bytes, &place, visit);
            }
        }
        Ok(reader.passed_over)
    }
}

/// A file of messages, each after a line that starts with `From `.
#[derive(Debug)]
pub(super) struct Mbox(Steady);

impl Mbox {
    pub(super) fn open(location: &Path) -> Result<Mbox, Reason> {
        Steady::open(location).map(Mbox)
    }
}

impl Source for Mbox {
    /// Reads one message after the other.
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<u64, Reason> {
        let passed_over = scan_mbox(BufReader::with_capacity(BUFFER, &self.0.file), visit)?;
        self.0.unchanged()?;
        Ok(passed_over)
    }
}

/// Hands over the messages of an mbox, and returns how many were passed over. In memory for one message.
///
/// # Errors
///
/// It does not begin as one, or can't be read.
pub fn scan_mbox(mut input: impl BufRead, visit: &mut Visit<'_>) -> Result<u64, Reason> {
    let start = input.fill_buf().map_err(|error| unavailable(&error))?;
    // What stands before the first such line would be left out.
    if !start.is_empty() && !start.starts_with(b"From ") {
        return Err(Reason::SourceMalformed);
    }
    let mut reader = MailReader::default();
    for (nth, message) in MessageIterator::new(input).enumerate() {
        let message = message.map_err(|error| unavailable(&error))?;
        reader.message(message.contents(), &|| Place::Nth(nth as u64), visit);
    }
    Ok(reader.passed_over)
}

/// What of messages is searched.
struct MailReader {
    parser: MessageParser,
    fields: Fields,
    text: String,
    passed_over: u64,
}

impl Default for MailReader {
    fn default() -> MailReader {
        // Times are read here: the parser takes some that are none, and for an obsolete zone a part of what follows it.
        let parser = MessageParser::new()
            .with_mime_headers()
            .header_address(HeaderName::From)
            .header_address(HeaderName::To)
            .header_text(HeaderName::Subject)
            .header_id(HeaderName::MessageId)
            .header_raw(HeaderName::Date)
            .header_raw(HeaderName::Received)
            .default_header_ignore();
        MailReader {
            parser,
            fields: Fields::default(),
            text: String::new(),
            passed_over: 0,
        }
    }
}

impl MailReader {
    /// Hands over a message; passes it over if it is none, or has no valid time.
    fn message(&mut self, bytes: &[u8], place: &dyn Fn() -> Place, visit: &mut Visit<'_>) {
        // Should the parser end in an unexpected way, that is the end of this message and not of the search.
        let parser = &self.parser;
        let parse = |bytes| {
            let parse = std::panic::AssertUnwindSafe(|| parser.parse(bytes));
            std::panic::catch_unwind(parse).ok().flatten()
        };
        let mut message = parse(bytes);
        let closed: Vec<u8>;
        if let Some(end) = message
            .as_ref()
            .and_then(|message| unclosed(message, bytes))
        {
            closed = [bytes, end.as_bytes()].concat();
            message = parse(&closed);
        }
        let Some((message, received)) = message.and_then(|message| {
            let received = received(&message)?;
            Some((message, received))
        }) else {
            self.passed_over += 1;
            return;
        };
        self.fields.clear();
        let mut add = |name: &str, write: &mut dyn FnMut(&mut String)| {
            self.text.clear();
            write(&mut self.text);
            self.fields.push(name, &self.text);
        };
        add("from", &mut |text| {
            addresses(&message, HeaderName::From, text)
        });
        add("to", &mut |text| addresses(&message, HeaderName::To, text));
        add("subject", &mut |text| {
            text.push_str(message.subject().unwrap_or_default())
        });
        add("body", &mut |text| body(&message, text));
        let id = || match message.message_id() {
            Some(id) => id.to_string(),
            None => {
                let digest = Sha256::digest(bytes);
                digest.iter().fold(String::new(), |mut out, byte| {
                    use std::fmt::Write;
                    // Writing to a string does not fail.
                    let _ = write!(out, "{byte:02x}");
                    out
                })
            }
        };
        visit(Record {
            fields: &self.fields,
            id: &id,
            order: &|| Order::Received(received, id(), place()),
        });
    }
}

/// Returns when a message was received: what the last server says that took it in, or else when it was sent.
fn received(message: &Message<'_>) -> Option<Timestamp> {
    let of = |name: HeaderName<'_>| {
        let mut all = message
            .headers()
            .iter()
            .filter(|header| header.name == name);
        all.next().and_then(|header| header.value.as_text())
    };
    let received = of(HeaderName::Received).and_then(|text| text.rsplit_once(';'));
    let times = [received.map(|(_, time)| time), of(HeaderName::Date)];
    times.into_iter().flatten().find_map(time)
}

/// Reads a time as mail has it (RFC 5322, with what was allowed before).
fn time(text: &str) -> Option<Timestamp> {
    static PARSER: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);
    // Headers are folded, and words of comments are no part of a time.
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.split(" (").next().unwrap_or_default();
    PARSER.parse_timestamp(line).ok()
}

/// Returns what is missing at the end of a message in parts that was cut off: the end of the message ends its last part.
fn unclosed(message: &Message<'_>, bytes: &[u8]) -> Option<String> {
    let content = message
        .content_type()
        .filter(|content| content.ctype().eq_ignore_ascii_case("multipart"))?;
    let end = format!("--{}--", content.attribute("boundary")?);
    match memchr::memmem::find(bytes, end.as_bytes()) {
        Some(_) => None,
        None => Some(format!("\n{end}\n")),
    }
}

/// Writes names and addresses of all headers of a name, separated by commas.
fn addresses(message: &Message<'_>, name: HeaderName<'_>, out: &mut String) {
    let headers = message
        .headers()
        .iter()
        .filter(|header| header.name == name);
    for header in headers {
        let mut add = |name: Option<&str>, address: Option<&str>| {
            if !out.is_empty() {
                out.push_str(", ");
            }
            match (name, address) {
                (Some(name), Some(address)) => out.extend([name, " <", address, ">"]),
                (Some(one), None) | (None, Some(one)) => out.push_str(one),
                (None, None) => {}
            }
        };
        match &header.value {
            HeaderValue::Address(Address::List(list)) => {
                for one in list {
                    add(one.name(), one.address());
                }
            }
            HeaderValue::Address(Address::Group(groups)) => {
                for one in groups.iter().flat_map(|group| &group.addresses) {
                    add(one.name(), one.address());
                }
            }
            HeaderValue::Text(text) => add(Some(text), None),
            _ => {}
        }
    }
}

/// Writes the text of a message; of one that has only HTML, what a reader would see of that. Attachments are no text.
fn body(message: &Message<'_>, out: &mut String) {
    for at in 0..message.text_body.len() {
        let Some(text) = message.body_text(at) else {
            continue;
        };
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(&text);
    }
}
