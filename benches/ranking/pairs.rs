//! Writes the pairs of words that the word table learns from: the comment of a definition and its
//! code, and the name of a definition and its body.
//!
//! ```text
//! cargo run --release --example ranking_pairs -- PAIRS WORDS DIR...
//! ```
//!
//! Each directory is one package. `benches/ranking/train.py` calls this program and reads both
//! files. The words are those of a ranked question: parts of names, without case, cut to their
//! stems. So the table knows exactly the words that the program looks up.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use forge_search::internal::index::words::definition::{Kind, Language, definition};
use forge_search::internal::index::words::forms::each_form;
use forge_search::internal::index::words::names::Names;

/// Bytes of code that belong to a pair, at most.
const CODE_BYTES: usize = 700;

/// Bytes of the largest file that is read.
const MAX_FILE: u64 = 1 << 20;

/// How often one comment may come again. A comment such as "Returns the value" teaches nothing.
const REPEATS: u32 = 3;

/// Directories with tests, and with copies of other packages.
const SKIPPED: [&str; 14] = [
    "test",
    "tests",
    "testing",
    "testdata",
    "_vendor",
    "vendor",
    "vendored",
    "_vendored_packages",
    "third_party",
    "node_modules",
    "extern",
    "externals",
    "benches",
    "fixtures",
];

const EXTENSIONS: [&str; 22] = [
    "py", "rs", "js", "mjs", "ts", "go", "rb", "php", "java", "c", "h", "cc", "cpp", "hpp", "cs",
    "kt", "swift", "scala", "lua", "ex", "exs", "pyx",
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let usage = "usage: ranking_pairs PAIRS WORDS DIR...";
    let (pairs, words) = args.next().zip(args.next()).ok_or(usage)?;
    let mut writer = PairWriter {
        out: BufWriter::new(fs::File::create(pairs)?),
        words: BTreeMap::new(),
        seen: BTreeMap::new(),
        package: 0,
        count: 0,
    };
    for (number, dir) in args.enumerate() {
        writer.package = u32::try_from(number)?;
        let before = writer.count;
        for file in files(&dir)? {
            let text = fs::read(&file)?;
            writer.read(&file, &text)?;
        }
        println!("{}\t{}", writer.count - before, dir.display());
    }
    writer.out.flush()?;
    let mut out = BufWriter::new(fs::File::create(words)?);
    for (key, word) in &writer.words {
        writeln!(out, "{key}\t{word}")?;
    }
    out.flush()?;
    Ok(())
}

/// Returns the source files below a directory, in order.
fn files(dir: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut all = Vec::new();
    let mut waiting = vec![dir.to_path_buf()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir)? {
            let (entry, path) = entry.map(|entry| (entry.file_type(), entry.path()))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let extension = path.extension().unwrap_or_default().to_string_lossy();
            let kind = entry?;
            if kind.is_dir() && !SKIPPED.contains(&&*name) {
                waiting.push(path);
            } else if kind.is_file()
                && EXTENSIONS.contains(&&*extension)
                && !name.ends_with(".min.js")
                && fs::metadata(&path)?.len() <= MAX_FILE
            {
                all.push(path);
            }
        }
    }
    all.sort();
    Ok(all)
}

/// Writes pairs to one file. A pair is the number of its package and two lists of words, each with
/// its length before it; all numbers are little-endian and have four bytes.
struct PairWriter {
    out: BufWriter<fs::File>,
    words: BTreeMap<u32, String>,
    seen: BTreeMap<Vec<u32>, u32>,
    package: u32,
    count: u64,
}

impl PairWriter {
    fn read(&mut self, path: &Path, text: &[u8]) -> Result<(), Box<dyn Error>> {
        let shown = path.to_string_lossy();
        let language = Language::of(&shown);
        let is_python = path
            .extension()
            .is_some_and(|end| end == "py" || end == "pyx");
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        for (nth, line) in lines.iter().enumerate() {
            let indent = line.len() - line.trim_ascii_start().len();
            let Some(found) = definition(line, language) else {
                continue;
            };
            if indent > 8 || matches!(found.kind, Kind::Variable | Kind::Reopened) {
                continue;
            }
            let name = found.last(line);
            let (comment, body) = match is_python {
                true => docstring(&lines, nth),
                false => (comment_above(&lines, nth), nth + 1),
            };
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let body = code(&lines[body.min(lines.len())..]);
            let mut words = self.words_of(&body);
            if words.len() >= 8 {
                let name_words = self.words_of(name);
                if name_words.len() >= 2 {
                    self.pair(&name_words, &words)?;
                }
            }
            words.extend(self.words_of(&code(&lines[nth..=nth])));
            words.extend(self.words_of(stem.as_bytes()));
            let comment = self.words_of(first_sentence(&comment).as_bytes());
            if comment.len() >= 3 && words.len() >= 6 {
                self.pair(&comment[..comment.len().min(40)], &words)?;
            }
        }
        Ok(())
    }

    /// Returns the words of a text, in order, with repetitions.
    fn words_of(&mut self, text: &[u8]) -> Vec<u32> {
        let mut keys = Vec::new();
        for name in Names::of(text) {
            each_form(&text[name], |form| {
                let is_word = form.text.len() >= 2 && !form.text[0].is_ascii_digit();
                if form.kind.is_part() && is_word {
                    keys.push(form.key);
                    self.words
                        .entry(form.key)
                        .or_insert_with(|| String::from_utf8_lossy(form.text).into_owned());
                }
            });
        }
        keys
    }

    fn pair(&mut self, question: &[u32], code: &[u32]) -> Result<(), Box<dyn Error>> {
        let seen = self.seen.entry(question.to_vec()).or_default();
        *seen += 1;
        if *seen > REPEATS {
            return Ok(());
        }
        self.count += 1;
        self.out.write_all(&self.package.to_le_bytes())?;
        for words in [question, code] {
            self.out
                .write_all(&u32::try_from(words.len())?.to_le_bytes())?;
            for word in words {
                self.out.write_all(&word.to_le_bytes())?;
            }
        }
        Ok(())
    }
}

/// Returns the first lines of code, without comments.
fn code(lines: &[&[u8]]) -> Vec<u8> {
    let mut code = Vec::new();
    for line in lines {
        let start = line.trim_ascii_start();
        let is_comment = [&b"//"[..], b"/*", b"*", b"# ", b"--"]
            .iter()
            .any(|mark| start.starts_with(mark));
        if is_comment {
            continue;
        }
        if code.len() + line.len() > CODE_BYTES {
            break;
        }
        code.extend_from_slice(line);
        code.push(b'\n');
    }
    code
}

/// Returns the text of the comment above a line.
fn comment_above(lines: &[&[u8]], below: usize) -> String {
    let mut comment = Vec::new();
    for line in lines[..below].iter().rev().take(60) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim();
        let is_attribute = line.starts_with("#[") || line.starts_with('@') && !line.contains(' ');
        if is_attribute && comment.is_empty() {
            continue;
        }
        let marks = ["///", "//", "/**", "/*", "*/", "*", "# ", "#", "--"];
        let Some(mark) = marks.iter().find(|mark| line.starts_with(**mark)) else {
            break;
        };
        let text = line
            .trim_start_matches(mark)
            .trim()
            .trim_end_matches("*/")
            .trim();
        comment.push(text.to_string());
        if line.starts_with("/*") {
            break;
        }
    }
    comment.reverse();
    comment.join("\n")
}

/// Returns the text of the docstring below the head of a definition, and the line after it.
fn docstring(lines: &[&[u8]], head: usize) -> (String, usize) {
    let text = |nth: usize| {
        let line = lines.get(nth).copied().unwrap_or_default();
        String::from_utf8_lossy(line).trim().to_string()
    };
    let end = (head..head + 8)
        .find(|nth| text(*nth).ends_with(':'))
        .unwrap_or(head);
    let first = text(end + 1);
    let open = first.trim_start_matches(['r', 'R', 'u', 'b']);
    let Some(quote) = ["\"\"\"", "'''"]
        .iter()
        .find(|quote| open.starts_with(**quote))
    else {
        return (String::new(), end + 1);
    };
    let first = &open[3..];
    if let Some(at) = first.find(quote) {
        return (first[..at].to_string(), end + 2);
    }
    let mut comment = first.to_string();
    for nth in end + 2..end + 200 {
        let line = text(nth);
        if line.contains(quote) {
            return (comment, nth + 1);
        }
        comment.push('\n');
        comment.push_str(&line);
    }
    (comment, end + 1)
}

/// Returns the first sentence of a comment.
fn first_sentence(comment: &str) -> String {
    let comment = comment.trim_start();
    let paragraph = comment.split("\n\n").next().unwrap_or_default();
    let mut sentence = String::new();
    for line in paragraph.lines() {
        if line.starts_with('@') || line.starts_with(':') || line.starts_with('\\') {
            break;
        }
        sentence.push_str(line);
        sentence.push(' ');
    }
    match sentence.find(". ") {
        Some(at) => sentence[..at].to_string(),
        None => sentence,
    }
}
