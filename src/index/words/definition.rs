//! Lines that define a name, told by how they look.
//!
//! There is no parser here: one line decides, in any language. A wrong guess moves a file in the
//! order of an answer, and changes nothing else. For example, `pub fn open(path: &str)`,
//! `def open(path):`, `#define OPEN(path) …` and `static int open(char *path)` each define `open`.

mod functions;
mod keywords;
pub mod offers;

use std::ops::Range;

use keywords::{CONTROL, FUNCTIONS, KEYWORDS, MODIFIERS, REOPENING, TYPES, VARIABLES};

/// Bytes of a line that are looked at.
const MAX_LINE: usize = 400;

/// The kinds of definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A type, a module or another thing that holds others.
    Type,
    /// A function, a method or a macro with arguments.
    Function,
    /// A variable or a constant at the top level.
    Variable,
    /// A name of another module that is offered: `pub use a::X;`.
    Offered,
    /// Something that is defined elsewhere: `impl X`, `extension X`, `package x`, `struct x;`.
    Reopened,
}

/// A name that a line defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The kind of the definition.
    pub kind: Kind,
    /// Where the name stands in the line, qualifiers such as `Outer::` included.
    pub name: Range<usize>,
}

impl Definition {
    /// Returns the last part of a qualified name: `bar` of `Foo::bar`.
    pub fn last<'l>(&self, line: &'l [u8]) -> &'l [u8] {
        let name = &line[self.name.clone()];
        let from = name.iter().rposition(|byte| matches!(byte, b':' | b'.'));
        &name[from.map_or(0, |at| at + 1)..]
    }
}

/// Languages with a definition syntax of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// C, C++ and Objective-C.
    C,
    /// Haskell and its dialects.
    Haskell,
    /// JavaScript and TypeScript.
    JavaScript,
    /// Shells of Unix.
    Shell,
    /// Any other language.
    #[default]
    Other,
}

impl Language {
    /// Tells the language by the end of a path.
    pub fn of(path: &str) -> Language {
        let name = path.rsplit('/').next().unwrap_or(path);
        match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "c" | "h" | "cc" | "cpp" | "hpp" | "cxx" | "hh" | "m" | "mm" => Language::C,
            "hs" => Language::Haskell,
            "js" | "ts" | "mjs" | "cjs" | "jsx" | "tsx" | "mts" | "cts" => Language::JavaScript,
            "sh" | "bash" | "bats" | "zsh" => Language::Shell,
            _ => Language::Other,
        }
    }
}

/// Returns false if a line certainly defines nothing. Takes a small part of the time of
/// [`definition`].
fn may_define(line: &[u8], indent: usize, language: Language) -> bool {
    let rest = &line[indent..];
    let len = word_len(rest);
    let lengths = rest
        .first()
        .and_then(|first| KEYWORDS.get(usize::from(*first)));
    if lengths.is_some_and(|lengths| len < 32 && lengths >> len & 1 == 1) || rest[0] == b'@' {
        return true;
    }
    let has = |byte| memchr::memchr(byte, rest).is_some();
    let by_form = match language {
        Language::C => indent == 0 && has(b'('),
        Language::Haskell => indent == 0,
        Language::JavaScript => (1..=4).contains(&indent) && has(b'('),
        Language::Shell => has(b'('),
        Language::Other => false,
    };
    by_form || indent == 0 && has(b'=')
}

/// Returns the definition in a line without its terminator. Takes time linear in the bytes that are
/// looked at.
pub fn definition(line: &[u8], language: Language) -> Option<Definition> {
    let line = &line[..line.len().min(MAX_LINE)];
    let indent = line.len() - line.trim_ascii_start().len();
    let found = match line.get(indent)? {
        b'#' => directive(line, indent),
        b'/' | b'*' | b';' => None,
        b'-' if line[indent..].starts_with(b"--") => None,
        _ if !may_define(line, indent, language) => None,
        _ => Reader {
            line,
            at: indent,
            indent,
            language,
        }
        .definition(),
    };
    found.filter(|found| {
        let name = &line[found.name.clone()];
        !name.is_empty() && !CONTROL.iter().any(|word| word.as_bytes() == name)
    })
}

/// `#define NAME`, with or without arguments.
fn directive(line: &[u8], indent: usize) -> Option<Definition> {
    let after = line[indent + 1..].trim_ascii_start();
    let after = after.strip_prefix(b"define")?;
    let name_at = line.len() - after.trim_ascii_start().len();
    let name = name_at..name_at + word_len(&line[name_at..]);
    let kind = match line.get(name.end) {
        Some(b'(') => Kind::Function,
        _ => Kind::Variable,
    };
    (after.len() > line.len() - name_at).then_some(Definition { kind, name })
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

fn word_len(text: &[u8]) -> usize {
    text.iter().take_while(|byte| is_word(**byte)).count()
}

/// Returns the place of the word at the end of a text.
fn last_word(text: &[u8]) -> Range<usize> {
    let len = text.iter().rev().take_while(|byte| is_word(**byte)).count();
    text.len() - len..text.len()
}

/// Bytes of a name with its qualifiers: `Foo::bar`, `Foo.bar`.
fn qualified_len(text: &[u8]) -> usize {
    let in_name = |byte: &&u8| is_word(**byte) || matches!(**byte, b':' | b'.');
    let len = text.iter().take_while(in_name).count();
    let name = &text[..len];
    len - name
        .iter()
        .rev()
        .take_while(|byte| matches!(byte, b':' | b'.'))
        .count()
}

struct Reader<'l> {
    line: &'l [u8],
    at: usize,
    indent: usize,
    language: Language,
}

impl<'l> Reader<'l> {
    fn rest(&self) -> &'l [u8] {
        &self.line[self.at..]
    }

    /// Returns the word that comes next.
    fn word(&self) -> &'l str {
        let len = word_len(self.rest());
        let len = len + usize::from(self.rest()[len..].starts_with(b"!"));
        std::str::from_utf8(&self.rest()[..len]).unwrap_or("")
    }

    /// Whether the character at a place can begin a name.
    fn begins_name(&self, at: usize) -> bool {
        let first = self.line.get(at);
        first.is_some_and(|byte| is_word(*byte) && !byte.is_ascii_digit())
    }

    fn skip_blanks(&mut self) -> bool {
        let blanks = self.rest().len() - self.rest().trim_ascii_start().len();
        self.at += blanks;
        blanks > 0
    }

    /// Skips a pair of brackets and their content, if an opening bracket comes next.
    fn skip_brackets(&mut self, open: u8, close: u8) -> bool {
        if self.rest().first() != Some(&open) {
            return false;
        }
        let mut depth = 0usize;
        for (at, byte) in self.rest().iter().enumerate() {
            if *byte == open {
                depth += 1;
            } else if *byte == close {
                depth -= 1;
                if depth == 0 {
                    self.at += at + 1;
                    return true;
                }
            }
        }
        false
    }

    fn definition(mut self) -> Option<Definition> {
        let begin = self.at;
        let modifiers = self.skip_modifiers();
        let after_modifiers = self.at;
        let keyword = self.word();
        let after_keyword = self.at + keyword.len();
        let is_keyword = self
            .line
            .get(after_keyword)
            .is_some_and(|byte| !is_word(*byte));
        if is_keyword && TYPES.contains(&keyword) {
            let (at, found) = (self.at, self.type_after(keyword, after_keyword));
            if found.is_some() {
                return found;
            }
            self.at = at;
        }
        if is_keyword && FUNCTIONS.contains(&keyword) {
            return self.function_after(after_keyword);
        }
        self.at = after_modifiers;
        self.by_language(modifiers).or_else(|| {
            self.at = begin;
            self.variable()
        })
    }

    /// Skips words such as `pub(crate)`, `export default` and `@Override`, unless nothing would be
    /// left to define. Returns how many.
    fn skip_modifiers(&mut self) -> usize {
        let mut count = 0;
        loop {
            let before = self.at;
            if self.rest().first() == Some(&b'@') {
                self.at += 1 + qualified_len(&self.rest()[1..]);
                self.skip_brackets(b'(', b')');
            } else {
                let word = self.word();
                if !MODIFIERS.contains(&word) {
                    return count;
                }
                self.at += word.len();
                if word == "pub" {
                    self.skip_brackets(b'(', b')');
                }
                let had_blanks = self.skip_blanks();
                if word == "template" {
                    self.skip_brackets(b'<', b'>');
                } else if word == "extern" && self.rest().first() == Some(&b'"') {
                    let text = &self.rest()[1..];
                    let len = text.iter().take_while(|byte| **byte != b'"').count();
                    self.at = (self.at + len + 2).min(self.line.len());
                } else if !had_blanks {
                    self.at = before;
                    return count;
                }
            }
            self.skip_blanks();
            if word_len(self.rest()) == 0 && self.rest().first() != Some(&b'@') {
                self.at = before;
                return count;
            }
            count += 1;
        }
    }

    fn type_after(&mut self, keyword: &str, after: usize) -> Option<Definition> {
        self.at = after;
        if keyword == "impl" {
            self.skip_brackets(b'<', b'>');
        }
        if !self.skip_blanks() {
            return None;
        }
        if keyword == "typedef" {
            return self.typedef();
        }
        for word in ["class ", "struct "] {
            if self.rest().starts_with(word.as_bytes()) {
                self.at += word.len();
            }
        }
        let has_macros = self.skip_macros();
        if self.skip_brackets(b'(', b')') {
            self.skip_blanks();
        }
        let name = self.at..self.at + qualified_len(self.rest());
        let rest = self.line[name.end..].trim_ascii();
        let is_forward = rest == b";";
        if has_macros && is_forward {
            // `struct COLOR red;`: a variable.
            return None;
        }
        let in_c = matches!(keyword, "struct" | "enum" | "union") && self.language == Language::C;
        if in_c && !(is_forward || rest.is_empty() || matches!(rest[0], b'{' | b':' | b'/')) {
            // `struct x *f(…)`: the type of something else.
            return None;
        }
        if rest.starts_with(b"(")
            && matches!(keyword, "type" | "module")
            && self.language != Language::Other
        {
            return None;
        }
        if rest.starts_with(b"=")
            && matches!(keyword, "data" | "object" | "record" | "module" | "package")
            && self.language != Language::Haskell
        {
            return None;
        }
        let kind = match is_forward || REOPENING.contains(&keyword) {
            true => Kind::Reopened,
            false => Kind::Type,
        };
        self.begins_name(name.start)
            .then_some(Definition { kind, name })
    }

    /// Skips macros between the keyword and the name of a C type, such as `class LIBRARY_API`.
    /// Returns false if there are none.
    fn skip_macros(&mut self) -> bool {
        let start = self.at;
        while self.language == Language::C {
            let before = self.at;
            let word = self.word();
            let is_macro =
                |byte: u8| byte.is_ascii_uppercase() || byte == b'_' || byte.is_ascii_digit();
            self.at += word.len();
            self.skip_brackets(b'(', b')');
            if word.len() < 3
                || !word.bytes().all(is_macro)
                || !self.skip_blanks()
                || !self.begins_name(self.at)
            {
                self.at = before;
                break;
            }
        }
        self.at > start
    }

    /// `typedef … name;`
    fn typedef(&mut self) -> Option<Definition> {
        let line = self.line.trim_ascii_end().strip_suffix(b";")?;
        let line = line.trim_ascii_end();
        if let Some(star) = memchr::memmem::find(line, b"(*") {
            let name = star + 2..star + 2 + word_len(&line[star + 2..]);
            return Some(Definition {
                kind: Kind::Type,
                name,
            });
        }
        let name = last_word(line);
        (name.start > self.at).then_some(Definition {
            kind: Kind::Type,
            name,
        })
    }

    fn function_after(&mut self, after: usize) -> Option<Definition> {
        self.at = after;
        if self.rest().first() == Some(&b'*') {
            self.at += 1;
        }
        if !self.skip_blanks() {
            return None;
        }
        if self.skip_brackets(b'(', b')') {
            self.skip_blanks();
        }
        self.skip_brackets(b'<', b'>');
        self.skip_blanks();
        let mut name = self.at..self.at + qualified_len(self.rest());
        if matches!(self.line.get(name.end), Some(b'!' | b'?')) {
            name.end += 1;
        }
        self.begins_name(name.start).then_some(Definition {
            kind: Kind::Function,
            name,
        })
    }

    fn by_language(&mut self, modifiers: usize) -> Option<Definition> {
        match self.language {
            Language::Haskell if self.indent == 0 => {
                let name = 0..self
                    .line
                    .iter()
                    .take_while(|byte| is_word(**byte) || **byte == b'\'')
                    .count();
                let rest = self.line[name.end..].trim_ascii_start();
                rest.starts_with(b"::").then_some(Definition {
                    kind: Kind::Function,
                    name,
                })
            }
            Language::Shell => {
                let is_name = |byte: &&u8| is_word(**byte) || **byte == b'-';
                let name = self.at..self.at + self.rest().iter().take_while(is_name).count();
                let rest = self.line[name.end..].trim_ascii_start();
                rest.starts_with(b"()").then_some(Definition {
                    kind: Kind::Function,
                    name,
                })
            }
            Language::C if self.indent == 0 => self.c_function(),
            Language::JavaScript if (1..=4).contains(&self.indent) => {
                self.method(modifiers).or_else(|| self.script_method())
            }
            _ => self.method(modifiers),
        }
    }

    fn variable(&mut self) -> Option<Definition> {
        let at_top = self.indent == 0;
        for word in ["pub ", "export ", "public "] {
            if self.rest().starts_with(word.as_bytes()) {
                self.at += word.len();
            }
        }
        let keyword = self.word();
        if VARIABLES.contains(&keyword) && at_top {
            self.at += keyword.len();
            if !self.skip_blanks() {
                return None;
            }
            for word in ["mut ", "ref "] {
                if self.rest().starts_with(word.as_bytes()) {
                    self.at += word.len();
                }
            }
            let name = self.at..self.at + word_len(self.rest());
            let value = self.line[name.end..].trim_ascii_start();
            return Some(Definition {
                kind: kind_of_value(value),
                name,
            });
        }
        at_top.then(|| self.assignment()).flatten()
    }

    /// `exports.open = …`, `Foo.prototype.open = …`, and constants such as `MAX = 5` of Python.
    fn assignment(&mut self) -> Option<Definition> {
        let name = self.at..self.at + qualified_len(self.rest());
        let rest = self.line[name.end..].trim_ascii_start();
        let is_typed = rest.starts_with(b":") && memchr::memmem::find(rest, b" = ").is_some();
        let value = match rest.strip_prefix(b"=") {
            Some(value) if !value.starts_with(b"=") && !value.starts_with(b">") => {
                value.trim_ascii_start()
            }
            _ if is_typed => b"",
            _ => return None,
        };
        let kind = match self.line[name.clone()].contains(&b'.') {
            true if is_name(value) => Kind::Reopened,
            true => Kind::Function,
            false => kind_of_value(value),
        };
        Some(Definition { kind, name })
    }
}

/// Returns true for the name of something that is defined elsewhere: `res` in
/// `exports.response = res;`.
fn is_name(value: &[u8]) -> bool {
    let value = value.trim_ascii_end();
    let value = value.strip_suffix(b";").unwrap_or(value);
    let begins = value
        .first()
        .is_some_and(|byte| is_word(*byte) && !byte.is_ascii_digit());
    begins && qualified_len(value) == value.len()
}

/// A function that is assigned is a function; and in Zig, a type is a type.
fn kind_of_value(value: &[u8]) -> Kind {
    let value = value.strip_prefix(b"=").unwrap_or(value).trim_ascii_start();
    let begins = |words: &[&str]| words.iter().any(|word| value.starts_with(word.as_bytes()));
    if begins(&["function", "async ", "lambda"]) || memchr::memmem::find(value, b"=>").is_some() {
        Kind::Function
    } else if begins(&[
        "struct",
        "packed struct",
        "extern struct",
        "enum",
        "union",
        "opaque",
        "error{",
    ]) {
        Kind::Type
    } else {
        Kind::Variable
    }
}

#[cfg(test)]
mod tests;
