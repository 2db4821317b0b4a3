//! E-mails: Maildirs with one message a file, and mbox files with many.

mod head;
mod html;
mod text;
mod time;

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use jiff::Timestamp;
use mail_parser::mailbox::mbox::MessageIterator;
use mail_parser::{Addr, Address, HeaderName, HeaderValue, Message, MessageParser};
use sha2::{Digest, Sha256};

use self::head::Split;
use super::dirs::Dirs;
use super::{BUFFER, StableFile, State, unavailable};
use crate::index::root_dir::{EntryKind, RootDir};
use crate::tool::executor::failure::Reason;
use crate::tool::executor::order::{Order, Place};
use crate::tool::executor::search::{Fields, Record, Source, Visit};

/// A Maildir, with its folders that are named as in Maildir++ (`.Name`).
#[derive(Debug)]
pub(super) struct Maildir(RootDir);

impl Maildir {
    pub(super) fn open(location: &Path) -> Result<Maildir, Reason> {
        let root = RootDir::open(location).map_err(|error| unavailable(&error))?;
        // Another directory has no mail, and must not pass for an empty Maildir.
        match root.metadata(Path::new("cur")) {
            Ok(meta) if meta.kind == EntryKind::Dir => Ok(Maildir(root)),
            Ok(_) => Err(Reason::SourceMalformed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Reason::SourceMalformed),
            Err(error) => Err(unavailable(&error)),
        }
    }
}

impl Source for Maildir {
    /// Visits each message, in memory for one message and for the names of one folder.
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<u64, Reason> {
        let mut reader = MailReader::default();
        let mut dirs = Dirs::of(&self.0);
        let mut folders = vec![Dirs::ROOT];
        for entry in dirs.list(Dirs::ROOT)?.unwrap_or_default() {
            if entry.kind == EntryKind::Dir && entry.name.as_encoded_bytes().starts_with(b".") {
                folders.push(dirs.add(Dirs::ROOT, &entry.name)?);
            }
        }
        let mut bytes = Vec::new();
        for folder in folders {
            let mut messages = Vec::new();
            for name in ["new", "cur"] {
                let dir = dirs.add(folder, OsStr::new(name))?;
                let path = dirs.path(dir);
                let entries = match dirs.list(dir)? {
                    Some(entries) => entries,
                    // It existed a moment ago.
                    None if folder == Dirs::ROOT && name == "cur" => {
                        return Err(Reason::SourceChanged);
                    }
                    // A folder may lack one of them.
                    None => Vec::new(),
                };
                let entries = entries.into_iter();
                messages.extend(entries.map(|entry| (path.join(entry.name), entry.kind)));
            }
            for (path, kind) in messages {
                let name = path.file_name().unwrap_or_default().as_encoded_bytes();
                // In a Maildir, names that start with a dot are no messages.
                if kind != EntryKind::File || name.starts_with(b".") {
                    continue;
                }
                let mut file = match self.0.open_file(&path) {
                    Ok(file) => file,
                    // A message that was moved would be missed or found twice.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        return Err(Reason::SourceChanged);
                    }
                    Err(error) => return Err(unavailable(&error)),
                };
                bytes.clear();
                let was = State::of(&file)?;
                file.read_to_end(&mut bytes)
                    .map_err(|error| unavailable(&error))?;
                // Programs should not change a message in place, but some do.
                if State::of(&file)? != was {
                    return Err(Reason::SourceChanged);
                }
                let place = || Place::At(path.as_os_str().as_encoded_bytes().to_vec());
                reader.message(&bytes, &place, visit);
            }
        }
        dirs.unchanged()?;
        Ok(reader.passed_over)
    }
}

/// An mbox: a file of messages, each after a line that starts with `From `.
#[derive(Debug)]
pub(super) struct Mbox(StableFile);

impl Mbox {
    pub(super) fn open(location: &Path) -> Result<Mbox, Reason> {
        StableFile::open(location).map(Mbox)
    }
}

impl Source for Mbox {
    /// Visits each message.
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<u64, Reason> {
        let passed_over = scan_mbox(BufReader::with_capacity(BUFFER, &self.0.file), visit)?;
        self.0.unchanged()?;
        Ok(passed_over)
    }
}

/// Visits the messages of an mbox, and returns how many were skipped. Needs memory for one message.
///
/// # Errors
///
/// The input does not begin like an mbox, or can't be read.
pub fn scan_mbox(mut input: impl BufRead, visit: &mut Visit<'_>) -> Result<u64, Reason> {
    let start = input.fill_buf().map_err(|error| unavailable(&error))?;
    // The parser would drop text before the first such line.
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

/// Reads the searched fields of messages.
struct MailReader {
    parser: MessageParser,
    fields: Fields,
    text: String,
    passed_over: u64,
}

impl Default for MailReader {
    fn default() -> MailReader {
        // Times are parsed here: the library accepts some invalid ones, and misreads obsolete
        // zones.
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
    /// Visits a message. Skips it if it is malformed, has no valid time, or exceeds the limits on
    /// headers and nesting.
    fn message(&mut self, bytes: &[u8], place: &dyn Fn() -> Place, visit: &mut Visit<'_>) {
        // A panic of the parser skips this message, and does not end the search.
        let parser = &self.parser;
        let Ok(head) = Split::of(bytes).to_parse() else {
            self.passed_over += 1;
            return;
        };
        let read = || {
            let message = parser.parse_headers(&*head)?;
            let received = received(&message)?;
            let mut body = String::new();
            text::write(bytes, &mut body).ok()?;
            Some((message, received, body))
        };
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
        let Some((message, received, body)) = read.ok().flatten() else {
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
            // There should be one subject. Mail programs disagree about which of several they show,
            // so all are searched.
            for (nth, subject) in texts(&message, HeaderName::Subject).enumerate() {
                text.push_str(if nth == 0 { "" } else { "\n" });
                text.push_str(subject);
            }
        });
        self.fields.push("body", &body);
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

/// Returns when a message was received.
fn received(message: &Message<'_>) -> Option<Timestamp> {
    let of = |name| texts(message, name).next();
    time::received(of(HeaderName::Received), of(HeaderName::Date))
}

/// Returns the text headers of a name, in their order in the message.
fn texts<'a>(message: &'a Message<'_>, name: HeaderName<'a>) -> impl Iterator<Item = &'a str> {
    let headers = message.headers().iter();
    let named = headers.filter(move |header| header.name == name);
    named.filter_map(|header| header.value.as_text())
}

/// Appends the names and addresses of all headers of a name, separated by commas; groups with their
/// names, as written.
fn addresses(message: &Message<'_>, name: HeaderName<'_>, out: &mut String) {
    let separate = |out: &mut String, start: &mut bool| {
        if !std::mem::take(start) {
            out.push_str(", ");
        }
    };
    let add = |out: &mut String, start: &mut bool, one: &Addr<'_>| {
        separate(out, start);
        match (one.name(), one.address()) {
            (Some(name), Some(address)) => out.extend([name, " <", address, ">"]),
            (Some(one), None) | (None, Some(one)) => out.push_str(one),
            (None, None) => {}
        }
    };
    let mut start = true;
    let headers = message.headers().iter();
    for header in headers.filter(|header| header.name == name) {
        match &header.value {
            HeaderValue::Address(Address::List(list)) => {
                for one in list {
                    add(out, &mut start, one);
                }
            }
            HeaderValue::Address(Address::Group(groups)) => {
                for group in groups {
                    if let Some(name) = &group.name {
                        separate(out, &mut start);
                        out.extend([name, ": "]);
                        start = true;
                    }
                    for one in &group.addresses {
                        add(out, &mut start, one);
                    }
                    if group.name.is_some() {
                        out.push(';');
                        start = false;
                    }
                }
            }
            HeaderValue::Text(text) => {
                separate(out, &mut start);
                out.push_str(text);
            }
            _ => {}
        }
    }
}
