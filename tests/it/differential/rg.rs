//! Runs ripgrep and parses its output.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forge_search::internal::exec::external::detect::{Detected, Tool};
use serde_json::Value;

use crate::peers::{peer, peers};
use crate::system::name_of;

/// An installed ripgrep and its major version.
#[derive(Clone, Debug)]
pub(crate) struct Ripgrep {
    pub(crate) program: OsString,
    pub(crate) major: u64,
}

impl Ripgrep {
    /// Returns the ripgrep in `PATH`, at least version 13. Returns `None` if it is missing and not
    /// required.
    pub(crate) fn on_path() -> Option<Ripgrep> {
        peer(Tool::Ripgrep).map(Ripgrep::over)
    }

    /// Returns the newest ripgrep on this machine.
    pub(crate) fn newest() -> Option<Ripgrep> {
        peers(Tool::Ripgrep)
            .into_iter()
            .max_by_key(|detected| detected.version)
            .map(Ripgrep::over)
    }

    fn over(detected: Detected) -> Ripgrep {
        Ripgrep {
            program: detected.path.into_os_string(),
            major: detected.version.major,
        }
    }

    /// Runs ripgrep in `dir` and returns its standard output. The exit code must be 0 or 1.
    pub(crate) fn run(&self, dir: &Path, args: &[String]) -> Vec<u8> {
        let output = Command::new(&self.program)
            .args(["--no-config", "--no-ignore-global", "--sort", "path"])
            .args(args)
            .current_dir(dir)
            .env_remove("RIPGREP_CONFIG_PATH")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "rg {args:?} in {dir:?}: {:?}\n{stderr}",
            output.status
        );
        output.stdout
    }
}

/// An event in the common form for comparisons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) path: PathBuf,
    pub(crate) line: u64,
    /// The column and the text of the first match, or `None` for context lines.
    pub(crate) found: Option<(u64, String)>,
    pub(crate) text: String,
}

/// Returns the bytes of ripgrep's `{"text": …}` or `{"bytes": base64}`.
fn bytes_of(value: &Value) -> Vec<u8> {
    match value["text"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => from_base64(value["bytes"].as_str().unwrap()),
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other} in base64"),
    };
    let mut out = Vec::new();
    for chunk in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits =
            chunk.iter().fold(0, |bits, &byte| bits << 6 | digit(byte)) << (6 * (4 - chunk.len()));
        out.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    out
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Parses the output of `rg --json`, and omits the matches of a file beyond `max_count`.
pub(crate) fn parse_json(output: &[u8], max_count: Option<u64>) -> Vec<Event> {
    let mut events = Vec::new();
    let mut matches: BTreeMap<PathBuf, u64> = BTreeMap::new();
    for line in output
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let message: Value = serde_json::from_slice(line).unwrap();
        let data = &message["data"];
        let is_match = match message["type"].as_str().unwrap() {
            "match" => true,
            "context" => false,
            _ => continue,
        };
        let path = bytes_of(&data["path"]);
        let path = PathBuf::from(name_of(path.strip_prefix(b"./").unwrap_or(&path).to_vec()));
        if is_match {
            let count = matches.entry(path.clone()).or_default();
            *count += 1;
            if max_count.is_some_and(|max| *count > max) {
                continue;
            }
        }
        let bytes = bytes_of(&data["lines"]);
        let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let found = is_match.then(|| {
            let first = &data["submatches"][0];
            let start = first["start"].as_u64().unwrap();
            let end = (first["end"].as_u64().unwrap() as usize).min(text.len());
            let start_in_line = (start as usize).min(end);
            (start + 1, lossy(&text[start_in_line..end]))
        });
        events.push(Event {
            path,
            line: data["line_number"].as_u64().unwrap(),
            found,
            text: lossy(text),
        });
    }
    events
}

/// Parses the output of `rg --files -0`.
pub(crate) fn parse_files(output: &[u8]) -> Vec<PathBuf> {
    output
        .split(|byte| *byte == 0)
        .filter(|path| !path.is_empty())
        .map(|path| PathBuf::from(name_of(path.strip_prefix(b"./").unwrap_or(path).to_vec())))
        .collect()
}

#[test]
fn base64_is_read() {
    assert_eq!(from_base64(""), b"");
    assert_eq!(from_base64("YQ=="), b"a");
    assert_eq!(from_base64("YWI="), b"ab");
    assert_eq!(from_base64("/+8A"), b"\xff\xef\x00");
}
