//! The rules of an ignore file as git reads them.
//!
//! This module owns git's pattern syntax: it parses lines to rules, and matches paths. Patterns
//! become regular expressions over bytes, so a match takes linear time for any pattern.
//! (`exec::process::git` runs the program git.)

use std::collections::BTreeMap;
use std::path::Path;

use ignore::Match;
use regex_automata::meta::{Config, Regex};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet};

/// The largest size in bytes of a compiled set of patterns; more patterns are split into several
/// sets.
const SET_BYTES: usize = 10 << 20;

/// A parsed rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// Whether it reverts earlier rules.
    negated: bool,
    /// Whether it applies to directories only.
    only_dir: bool,
    matches: Matches,
}

/// The paths that a rule matches, relative to the directory of the file. Names are the last
/// components of paths.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Matches {
    /// Exactly this name.
    Name(Vec<u8>),
    /// Names with this text after their last dot.
    Extension(Vec<u8>),
    /// Names that match the expression.
    Names(String),
    /// Exactly this path.
    Path(Vec<u8>),
    /// Paths that match the expression.
    Paths(String),
}

/// The effect of a rule on a path that it matches.
#[derive(Clone, Copy, Debug)]
struct Effect {
    negated: bool,
    only_dir: bool,
}

/// Rule numbers in ascending order, by the matched text.
type Table = BTreeMap<Vec<u8>, Vec<usize>>;

/// The rules of a file, in order.
#[derive(Debug, Default)]
pub(super) struct GitRules {
    /// The directory of the file, without a trailing separator.
    base: Vec<u8>,
    effects: Vec<Effect>,
    names: Table,
    extensions: Table,
    paths: Table,
    names_like: Vec<Expressions>,
    paths_like: Vec<Expressions>,
}

impl GitRules {
    /// Parses the lines of a file in the directory `dir`. Lines that are no valid pattern match
    /// nothing in git, and are skipped. Takes linear time in the number of lines.
    pub(super) fn parse<'a>(dir: &Path, lines: impl Iterator<Item = &'a [u8]>) -> GitRules {
        let base = separated(dir.as_os_str().as_encoded_bytes());
        let mut rules = GitRules {
            base: base.strip_suffix(b"/").unwrap_or(&base).to_vec(),
            ..GitRules::default()
        };
        let (mut names, mut paths) = (Vec::new(), Vec::new());
        for rule in lines.filter_map(rule_of) {
            let number = rules.effects.len();
            rules.effects.push(Effect {
                negated: rule.negated,
                only_dir: rule.only_dir,
            });
            let (table, key) = match rule.matches {
                Matches::Name(name) => (&mut rules.names, name),
                Matches::Extension(extension) => (&mut rules.extensions, extension),
                Matches::Path(path) => (&mut rules.paths, path),
                Matches::Names(expression) => {
                    names.push((number, expression));
                    continue;
                }
                Matches::Paths(expression) => {
                    paths.push((number, expression));
                    continue;
                }
            };
            table.entry(key).or_default().push(number);
        }
        compile(&names, &mut rules.names_like);
        compile(&paths, &mut rules.paths_like);
        rules
    }

    /// Returns true if there is no rule.
    pub(super) fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// Returns the effect of the last matching rule. A path that is not below the directory of the
    /// file matches no rule.
    pub(super) fn matched(&self, path: &Path, is_dir: bool) -> Match<()> {
        let path = separated(path.as_os_str().as_encoded_bytes());
        let below = path.strip_prefix(&self.base[..]);
        let Some(path) = below.and_then(|path| path.strip_prefix(b"/")) else {
            return Match::None;
        };
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let mut last = None;
        let mut consider = |numbers: &[usize]| {
            let counts = |number: &&usize| is_dir || !self.effects[**number].only_dir;
            last = last.max(numbers.iter().rev().find(counts).copied());
        };
        let mut look_up = |table: &Table, key: &[u8]| {
            if let Some(numbers) = table.get(key) {
                consider(numbers);
            }
        };
        look_up(&self.names, name);
        look_up(&self.paths, path);
        if let Some(dot) = memchr::memrchr(b'.', name) {
            look_up(&self.extensions, &name[dot + 1..]);
        }
        for set in &self.names_like {
            set.matching(name, &mut consider);
        }
        for set in &self.paths_like {
            set.matching(path, &mut consider);
        }
        match last.map(|number| self.effects[number].negated) {
            None => Match::None,
            Some(false) => Match::Ignore(()),
            Some(true) => Match::Whitelist(()),
        }
    }
}

/// Expressions that are compiled together, with the numbers of their rules.
#[derive(Debug)]
struct Expressions {
    compiled: Regex,
    numbers: Vec<usize>,
}

impl Expressions {
    /// Calls `each` with the rules that match a text.
    fn matching(&self, text: &[u8], each: &mut dyn FnMut(&[usize])) {
        let mut found = PatternSet::new(self.compiled.pattern_len());
        self.compiled
            .which_overlapping_matches(&Input::new(text), &mut found);
        if found.is_empty() {
            return;
        }
        let numbers = found
            .iter()
            .filter_map(|at| self.numbers.get(at.as_usize()));
        let numbers: Vec<usize> = numbers.copied().collect();
        each(&numbers);
    }
}

/// Compiles expressions, in as many sets as necessary. An expression that is too large on its own
/// is skipped.
fn compile(rules: &[(usize, String)], sets: &mut Vec<Expressions>) {
    if rules.is_empty() {
        return;
    }
    let expressions: Vec<&str> = rules.iter().map(|(_, text)| text.as_str()).collect();
    match regex(&expressions) {
        Some(compiled) => sets.push(Expressions {
            compiled,
            numbers: rules.iter().map(|(number, _)| *number).collect(),
        }),
        None if rules.len() > 1 => {
            let (first, rest) = rules.split_at(rules.len() / 2);
            compile(first, sets);
            compile(rest, sets);
        }
        None => {}
    }
}

fn regex(expressions: &[&str]) -> Option<Regex> {
    let config = Config::new()
        .match_kind(MatchKind::All)
        .utf8_empty(false)
        .nfa_size_limit(Some(SET_BYTES));
    let bytes = syntax::Config::new()
        .unicode(false)
        .utf8(false)
        .dot_matches_new_line(true);
    Regex::builder()
        .configure(config)
        .syntax(bytes)
        .build_many(expressions)
        .ok()
}

/// Returns true if a pattern matches a whole path.
pub(super) fn matches_path(pattern: &[u8], path: &[u8]) -> bool {
    let expression = expression_of(b"", pattern);
    let compiled = expression.and_then(|expression| regex(&[&expression]));
    compiled.is_some_and(|compiled| compiled.is_match(path))
}

/// Returns a path with `/` as its separator.
fn separated(path: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    if cfg!(windows) && path.contains(&b'\\') {
        let parts = path.iter();
        let slashed = parts.map(|byte| if *byte == b'\\' { b'/' } else { *byte });
        return slashed.collect::<Vec<u8>>().into();
    }
    path.into()
}

/// Returns true for a byte with a special meaning in patterns.
fn is_special(byte: u8) -> bool {
    matches!(byte, b'*' | b'?' | b'[' | b'\\')
}

/// Parses a line, passed without its line feed. Returns `None` if it matches nothing.
fn rule_of(line: &[u8]) -> Option<Rule> {
    if line.first() == Some(&b'#') {
        return None;
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // In git, a NUL ends the text.
    let line = line.split(|byte| *byte == 0).next().unwrap_or(line);
    let line = without_trailing_spaces(line);
    let (negated, line) = match line.strip_prefix(b"!") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (only_dir, pattern) = match line.strip_suffix(b"/") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    if pattern.is_empty() {
        return None;
    }
    let matches = match pattern.contains(&b'/') {
        true => path_pattern(pattern.strip_prefix(b"/").unwrap_or(pattern))?,
        false => name_pattern(pattern)?,
    };
    Some(Rule {
        negated,
        only_dir,
        matches,
    })
}

/// Removes trailing spaces, except one after a backslash. Tabs remain.
fn without_trailing_spaces(line: &[u8]) -> &[u8] {
    let mut spaces = None;
    let mut at = 0;
    while let Some(byte) = line.get(at) {
        match byte {
            b' ' => {
                spaces.get_or_insert(at);
            }
            b'\\' if at + 1 == line.len() => return line,
            b'\\' => {
                at += 1;
                spaces = None;
            }
            _ => spaces = None,
        }
        at += 1;
    }
    &line[..spaces.unwrap_or(line.len())]
}

fn name_pattern(pattern: &[u8]) -> Option<Matches> {
    if !pattern.iter().copied().any(is_special) {
        return Some(Matches::Name(pattern.to_vec()));
    }
    if let Some(extension) = pattern.strip_prefix(b"*.")
        && !extension
            .iter()
            .any(|byte| is_special(*byte) || *byte == b'.')
    {
        return Some(Matches::Extension(extension.to_vec()));
    }
    expression_of(b"", pattern).map(Matches::Names)
}

fn path_pattern(pattern: &[u8]) -> Option<Matches> {
    if pattern.is_empty() {
        return None;
    }
    // Git compares the part before the first special character literally, and the rest as a
    // separate pattern. So the stars in `a**/b` are at the beginning of a pattern.
    let plain = pattern.iter().position(|byte| is_special(*byte));
    let Some(plain) = plain else {
        return Some(Matches::Path(pattern.to_vec()));
    };
    let (plain, rest) = pattern.split_at(plain);
    expression_of(plain, rest).map(Matches::Paths)
}

/// Translates a literal text and the pattern that follows it. Returns `None` for a pattern that
/// matches nothing.
fn expression_of(plain: &[u8], pattern: &[u8]) -> Option<String> {
    let mut out = String::from(r"\A");
    plain.iter().for_each(|byte| push_byte(*byte, &mut out));
    let mut at = 0;
    while let Some(&byte) = pattern.get(at) {
        match byte {
            b'\\' => {
                push_byte(*pattern.get(at + 1)?, &mut out);
                at += 2;
            }
            b'?' => {
                out.push_str("[^/]");
                at += 1;
            }
            b'[' => {
                let (set, end) = bracket(pattern, at + 1)?;
                push_set(&set, &mut out)?;
                at = end;
            }
            b'*' => at = stars(pattern, at, &mut out),
            byte => {
                push_byte(byte, &mut out);
                at += 1;
            }
        }
    }
    out.push_str(r"\z");
    Some(out)
}

/// Translates the stars at `at`; returns the position after them. Two or more stars match across
/// directories only if they are a whole component.
fn stars(pattern: &[u8], at: usize, out: &mut String) -> usize {
    let count = pattern[at..].iter().take_while(|byte| **byte == b'*');
    let end = at + count.count();
    let rest = &pattern[end..];
    let begins = at == 0 || pattern[at - 1] == b'/';
    let ends = rest.is_empty() || rest.starts_with(b"/") || rest.starts_with(b"\\/");
    if end - at < 2 || !begins || !ends {
        out.push_str("[^/]*");
        return end;
    }
    if rest.starts_with(b"/") {
        out.push_str("(?:.*/)?");
        return end + 1;
    }
    out.push_str(".*");
    end
}

fn push_byte(byte: u8, out: &mut String) {
    match byte.is_ascii_alphanumeric() {
        true => out.push(byte as char),
        false => out.push_str(&format!("\\x{byte:02x}")),
    }
}

/// The bytes that a bracket expression matches.
type ByteSet = [bool; 256];

/// Writes a set of bytes; returns `None` if it is empty.
fn push_set(set: &ByteSet, out: &mut String) -> Option<()> {
    let mut bytes = (0..=u8::MAX)
        .filter(|byte| set[usize::from(*byte)])
        .peekable();
    bytes.peek()?;
    out.push('[');
    while let Some(first) = bytes.next() {
        let mut last = first;
        while let Some(next) = bytes.next_if(|next| Some(*next) == last.checked_add(1)) {
            last = next;
        }
        out.push_str(&format!("\\x{first:02x}-\\x{last:02x}"));
    }
    out.push(']');
    Some(())
}

/// Parses a bracket expression, from the position after its bracket. Returns its bytes, and the
/// position after it. No expression contains the slash. Returns `None` if it is not closed, or
/// names an unknown class: the pattern matches nothing then.
fn bracket(pattern: &[u8], mut at: usize) -> Option<(ByteSet, usize)> {
    let mut set: ByteSet = [false; 256];
    let negated = matches!(pattern.get(at)?, b'!' | b'^');
    at += usize::from(negated);
    // The possible start of a range; `None` after a class or another range.
    let mut before = None;
    loop {
        let byte = *pattern.get(at)?;
        let next = pattern.get(at + 1).copied();
        match (byte, before, next) {
            (b'\\', _, _) => {
                at += 1;
                let escaped = *pattern.get(at)?;
                set[usize::from(escaped)] = true;
                before = Some(escaped);
            }
            (b'-', Some(first), Some(next)) if next != b']' => {
                at += 1;
                if next == b'\\' {
                    at += 1;
                }
                let last = *pattern.get(at)?;
                (first..=last).for_each(|byte| set[usize::from(byte)] = true);
                before = None;
            }
            (b'[', _, Some(b':')) => {
                let begin = at + 2;
                let end = begin
                    + pattern
                        .get(begin..)?
                        .iter()
                        .position(|byte| *byte == b']')?;
                match pattern[begin..end].strip_suffix(b":") {
                    Some(name) => {
                        let class = class_of(name)?;
                        let ascii = (0..128u8).filter(class);
                        ascii.for_each(|byte| set[usize::from(byte)] = true);
                        at = end;
                        before = None;
                    }
                    None => {
                        set[usize::from(b'[')] = true;
                        before = Some(b'[');
                    }
                }
            }
            _ => {
                set[usize::from(byte)] = true;
                before = Some(byte);
            }
        }
        at += 1;
        if *pattern.get(at)? == b']' {
            break;
        }
    }
    if negated {
        set.iter_mut().for_each(|has| *has = !*has);
    }
    set[usize::from(b'/')] = false;
    Some((set, at + 1))
}

/// Returns the predicate of a named class of ASCII characters.
fn class_of(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| (b' '..=b'~').contains(byte),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
