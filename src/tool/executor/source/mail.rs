//! E-mails: directories with one a file, and files with many.

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
use super::{BUFFER, State, Steady, unavailable};
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
}

impl Source for Maildir {
    /// Reads one message after the other, in memory for one of them and for the names of one folder.
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
                    // It was there a moment ago.
                    None if folder == Dirs::ROOT && name == "cur" => {
                        return Err(Reason::SourceChanged);
                    }
                    // A folder need not have both.
                    None => Vec::new(),
                };
                let entries = entries.into_iter();
                messages.extend(entries.map(|entry| (path.join(entry.name), entry.kind)));
            }
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
                let was = State::of(&file)?;
                file.read_to_end(&mut bytes)
                    .map_err(|error| unavailable(&error))?;
                // Messages are never written over, but for those who don't keep to that.
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
    /// Hands over a message; passes it over if it is none, has no valid time, or more headers or parts in parts than anybody writes.
    fn message(&mut self, bytes: &[u8], place: &dyn Fn() -> Place, visit: &mut Visit<'_>) {
        // Should the parser end in an unexpected way, that is the end of this message and not of the search.
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
            // There should be one, and whoever shows a message shows one of them; which one is not known.
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

/// Returns the headers of a name that are texts, in the order in which they stand there.
fn texts<'a>(message: &'a Message<'_>, name: HeaderName<'a>) -> impl Iterator<Item = &'a str> {
    let headers = message.headers().iter();
    let named = headers.filter(move |header| header.name == name);
    named.filter_map(|header| header.value.as_text())
}

/// Writes names and addresses of all headers of a name, separated by commas; groups with their names, as they are written.
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
