//! Lines that define a function without a keyword for it: those of C, and methods.

use super::{Definition, Kind, Reader, is_word, last_word, word_len};

impl<'l> Reader<'l> {
    /// A line that begins with a type, goes on with a name and its arguments, and does not end as a
    /// declaration. The type may be on the line before.
    pub(super) fn c_function(&mut self) -> Option<Definition> {
        let first = self.word();
        if matches!(
            first,
            "return"
                | "else"
                | "case"
                | "goto"
                | "if"
                | "for"
                | "while"
                | "switch"
                | "using"
                | "typedef"
        ) {
            return None;
        }
        let is_declared = self.line.trim_ascii_end().ends_with(b";")
            || self.line.starts_with(b"extern ")
                && !self.line.starts_with(b"extern inline ")
                && !self.line.starts_with(b"extern \"");
        if is_declared {
            return None;
        }
        let open = self.c_arguments()?;
        let before = self.line[..open].trim_ascii_end();
        let name = last_word(before);
        // A destructor has the name of its type, but does not define that.
        let is_destructor = before[..name.start].ends_with(b"~");
        let is_function = match name.start {
            0 => self.may_be_parameters(open + 1) && before.iter().any(u8::is_ascii_lowercase),
            _ => !is_destructor,
        };
        (!name.is_empty() && is_function).then_some(Definition {
            kind: Kind::Function,
            name,
        })
    }

    /// Returns the place of the bracket before the arguments of a function. Attributes before its
    /// name are skipped: `static __alloc_size(1, 2) void *open(`.
    fn c_arguments(&mut self) -> Option<usize> {
        let is_type = |byte: &u8| {
            is_word(*byte)
                || matches!(
                    byte,
                    b' ' | b'\t' | b'*' | b'&' | b':' | b'<' | b'>' | b',' | b'~'
                )
        };
        let mut from = 0;
        loop {
            let open = from + memchr::memchr(b'(', &self.line[from..])?;
            let before = &self.line[from..open];
            if !before.iter().all(is_type) {
                return None;
            }
            let is_attribute = before[last_word(before)].starts_with(b"__");
            self.at = open;
            if !is_attribute || !self.skip_brackets(b'(', b')') {
                return Some(open);
            }
            // The type and the name of a function follow, not another attribute or the body.
            let after = &self.line[self.at..];
            let Some(next) = memchr::memchr(b'(', after) else {
                return Some(open);
            };
            let words = after[..next].split(|byte| !is_word(*byte));
            if words.filter(|word| !word.is_empty()).count() < 2
                || !after[..next].iter().all(is_type)
            {
                return Some(open);
            }
            from = self.at;
        }
    }

    /// Returns true if the text after a bracket reads like the parameters of a function: `int n` or
    /// `void`. The arguments of a call are single words or expressions.
    fn may_be_parameters(&self, at: usize) -> bool {
        let text = &self.line[at..];
        let end = text.iter().position(|byte| matches!(byte, b',' | b')'));
        let first = &text[..end.unwrap_or(text.len())];
        let is_parameter = |byte: &u8| is_word(*byte) || matches!(byte, b' ' | b'\t' | b'*' | b'&');
        let mut words = first
            .split(|byte| !is_word(*byte))
            .filter(|word| !word.is_empty());
        let is_typed = words.clone().count() >= 2 && first.iter().all(is_parameter);
        is_typed || words.next() == Some(b"void")
    }

    /// A method with modifiers in front: `public static int open(…)`.
    pub(super) fn method(&mut self, modifiers: usize) -> Option<Definition> {
        if self.indent == 0 || modifiers == 0 {
            return None;
        }
        let open = memchr::memchr(b'(', self.rest())? + self.at;
        let mut before = self.line[self.at..open].trim_ascii_end();
        if before.ends_with(b">") {
            let generic = memchr::memrchr(b'<', before)?;
            before = before[..generic].trim_ascii_end();
        }
        let is_type = |byte: &u8| {
            is_word(*byte)
                || matches!(
                    byte,
                    b' ' | b'\t'
                        | b'*'
                        | b'&'
                        | b':'
                        | b'<'
                        | b'>'
                        | b','
                        | b'.'
                        | b'['
                        | b']'
                        | b'?'
                )
        };
        if !before.iter().all(is_type) {
            return None;
        }
        let name = last_word(before);
        (!name.is_empty()).then_some(Definition {
            kind: Kind::Function,
            name: self.at + name.start..self.at + name.end,
        })
    }

    /// A method without modifiers, as JavaScript has them: `open(path) {`.
    pub(super) fn script_method(&mut self) -> Option<Definition> {
        self.at = self.indent;
        for word in ["async ", "static ", "get ", "set ", "*", "#"] {
            if self.rest().starts_with(word.as_bytes()) {
                self.at += word.len();
            }
        }
        let name = self.at..self.at + word_len(self.rest());
        self.at = name.end;
        self.skip_brackets(b'<', b'>');
        let is_method = self.rest().starts_with(b"(")
            && self.line.trim_ascii_end().ends_with(b"{")
            && !self.rest().contains(&b';');
        is_method.then_some(Definition {
            kind: Kind::Function,
            name,
        })
    }
}
