//! Colours of source code in previews.
//!
//! This module owns a small tokenizer for many languages. It finds comments, texts, numbers and
//! keywords by simple rules, so it may colour a part wrongly. It never changes a line: the parts
//! together are the line.

/// The kind of a part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Comment,
    Text,
    Number,
    Keyword,
}

/// The end of a comment or text over several lines, and its kind.
pub(super) type Open = Option<(&'static str, Kind)>;

/// The signs of a family of languages.
#[derive(Debug, PartialEq, Eq)]
struct Syntax {
    /// The start of a comment that ends with its line.
    comment: Option<&'static str>,
    /// The starts and ends of comments and texts that may have several lines.
    blocks: &'static [(&'static str, &'static str, Kind)],
    /// The quotes of texts in one line.
    quotes: &'static str,
    /// Whether the text in single quotes is a single character.
    has_chars: bool,
}

const C_COMMENT: (&str, &str, Kind) = ("/*", "*/", Kind::Comment);

const C: Syntax = Syntax {
    comment: Some("//"),
    blocks: &[C_COMMENT],
    quotes: "\"'",
    has_chars: true,
};

const JAVASCRIPT: Syntax = Syntax {
    blocks: &[C_COMMENT, ("`", "`", Kind::Text)],
    has_chars: false,
    ..C
};

const STYLE: Syntax = Syntax {
    comment: None,
    has_chars: false,
    ..C
};

const SHELL: Syntax = Syntax {
    comment: Some("#"),
    blocks: &[],
    has_chars: false,
    ..C
};

const PYTHON: Syntax = Syntax {
    blocks: &[("\"\"\"", "\"\"\"", Kind::Text), ("'''", "'''", Kind::Text)],
    ..SHELL
};

const LUA: Syntax = Syntax {
    comment: Some("--"),
    blocks: &[("--[[", "]]", Kind::Comment), C_COMMENT],
    ..SHELL
};

const LISP: Syntax = Syntax {
    comment: Some(";"),
    quotes: "\"",
    ..SHELL
};

const MARKUP: Syntax = Syntax {
    comment: None,
    blocks: &[("<!--", "-->", Kind::Comment)],
    quotes: "",
    has_chars: false,
};

/// The script of the web page that colours code. It has the keywords of both.
const PAGE_SCRIPT: &str = include_str!("../../../web/page/text.js");

/// A language: its signs, and its keywords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Language {
    syntax: &'static Syntax,
    keywords: Vec<&'static str>,
}

/// Returns the language of a file, by its name; absent for unknown languages.
pub(super) fn language_of(path: &str) -> Option<Language> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit('.').next().unwrap_or_default();
    Some(Language {
        syntax: syntax_of(ending)?,
        keywords: keywords_of(ending).collect(),
    })
}

/// Returns the keywords of a language, by the ending of its files.
fn keywords_of(ending: &str) -> impl Iterator<Item = &'static str> {
    let (_, table) = PAGE_SCRIPT.split_once("KEYWORDS = `").unwrap_or_default();
    let (table, _) = table.split_once('`').unwrap_or_default();
    let rows = table.lines().filter_map(|row| row.split_once(": "));
    let rows = rows.filter(move |(endings, _)| endings.split(' ').any(|one| one == ending));
    rows.flat_map(|(_, words)| words.split(' '))
}

/// Returns the signs of a language, by the ending of its files; absent for unknown languages.
fn syntax_of(ending: &str) -> Option<&'static Syntax> {
    Some(match ending {
        "rs" | "c" | "h" | "cc" | "cpp" | "cxx" | "hh" | "hpp" | "cs" | "java" | "kt" | "kts"
        | "scala" | "swift" | "m" | "mm" | "zig" | "proto" | "groovy" | "gradle" | "d" => &C,
        "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "go" | "php" | "dart" => &JAVASCRIPT,
        "css" | "scss" | "less" => &STYLE,
        "py" | "pyi" => &PYTHON,
        "sh" | "bash" | "zsh" | "fish" | "rb" | "pl" | "pm" | "r" | "R" | "ex" | "exs" | "jl"
        | "nix" | "mk" | "cmake" | "tcl" | "Makefile" | "Dockerfile" | "justfile" => &SHELL,
        "toml" | "yaml" | "yml" | "ini" | "cfg" | "conf" | "json" => &PYTHON,
        "lua" | "sql" | "hs" | "elm" => &LUA,
        "lisp" | "el" | "clj" | "scm" => &LISP,
        "html" | "xml" | "svg" | "vue" | "md" => &MARKUP,
        _ => return None,
    })
}

impl Language {
    /// Splits a line into parts. `open` is the comment or text that began in an earlier line, and
    /// becomes the one that goes on in the next line.
    pub(super) fn parts<'a>(&self, line: &'a str, open: &mut Open) -> Vec<(Kind, &'a str)> {
        let mut parts = Vec::new();
        let mut at = 0;
        while at < line.len() {
            let (before, rest) = line.split_at(at);
            let (kind, len) = match open.take() {
                Some((end, kind)) => match rest.find(end) {
                    Some(start) => (kind, start + end.len()),
                    None => {
                        *open = Some((end, kind));
                        (kind, rest.len())
                    }
                },
                None => self.token(before, rest, open),
            };
            parts.push((kind, &rest[..len]));
            at += len;
        }
        parts
    }

    /// Returns the kind and length of the first token of `rest`.
    fn token(&self, before: &str, rest: &str, open: &mut Open) -> (Kind, usize) {
        let blocks = &mut self.syntax.blocks.iter();
        if let Some((start, end, kind)) = blocks.find(|block| rest.starts_with(block.0)) {
            *open = Some((*end, *kind));
            return (*kind, start.len());
        }
        if let Some(sign) = self.syntax.comment.filter(|sign| rest.starts_with(sign)) {
            // In a shell, `$#` is no comment.
            if sign != "#" || before.is_empty() || before.ends_with(char::is_whitespace) {
                return (Kind::Comment, rest.len());
            }
        }
        let first = rest.chars().next().unwrap_or_default();
        if self.syntax.quotes.contains(first)
            && let Some(len) = self.quoted(first, rest)
        {
            return (Kind::Text, len);
        }
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        match word.unwrap_or(rest.len()) {
            0 => (Kind::Plain, first.len_utf8()),
            len if first.is_ascii_digit() => (Kind::Number, len),
            len if self.keywords.contains(&&rest[..len]) => (Kind::Keyword, len),
            len => (Kind::Plain, len),
        }
    }

    /// Returns the length of the text in quotes at the start of `rest`, if it ends in this line.
    fn quoted(&self, quote: char, rest: &str) -> Option<usize> {
        let mut is_escaped = false;
        for (nth, (at, c)) in rest.char_indices().enumerate().skip(1) {
            if !is_escaped && c == quote {
                return Some(at + 1);
            }
            // In Rust, `'a` may be a lifetime.
            if self.syntax.has_chars && quote == '\'' && nth > 1 && !rest[1..].starts_with('\\') {
                return None;
            }
            is_escaped = !is_escaped && c == '\\';
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the parts of lines that are not plain.
    fn coloured<'a>(path: &str, lines: &[&'a str]) -> Vec<(Kind, &'a str)> {
        let (language, mut open) = (language_of(path).unwrap(), None);
        let mut all = Vec::new();
        for line in lines {
            let parts = language.parts(line, &mut open);
            let whole: String = parts.iter().map(|(_, part)| *part).collect();
            assert_eq!(whole, *line);
            all.extend(parts);
        }
        all.retain(|(kind, _)| *kind != Kind::Plain);
        all
    }

    #[test]
    fn tui_code_has_colours() {
        use Kind::{Comment, Keyword, Number, Text};
        assert_eq!(
            coloured(
                "a.rs",
                &["fn é<'a>(x: &'a str) { x2 + 0x1f + 'c' } // \"x\""]
            ),
            [
                (Keyword, "fn"),
                (Number, "0x1f"),
                (Text, "'c'"),
                (Comment, "// \"x\"")
            ]
        );
        assert_eq!(
            coloured("a.c", &[r#"a = "x \" y" + '\n'; /* one"#, "two */ if 'é'"]),
            [
                (Text, r#""x \" y""#),
                (Text, r"'\n'"),
                (Comment, "/*"),
                (Comment, " one"),
                (Comment, "two */"),
                (Keyword, "if"),
                (Text, "'é'")
            ]
        );
        assert_eq!(
            coloured("d/a.sh", &["echo $# 'it is' # it's", "x \"open"]),
            [(Text, "'it is'"), (Comment, "# it's")]
        );
        assert_eq!(
            coloured("a.py", &["\"\"\"Doc", "if", "\"\"\" + 1"]),
            [
                (Text, "\"\"\""),
                (Text, "Doc"),
                (Text, "if"),
                (Text, "\"\"\""),
                (Number, "1")
            ]
        );
        assert_eq!(coloured("a.md", &["if it's <!-- no"]).len(), 2);
        assert!(language_of("a.unheard-of").is_none());
    }

    #[test]
    fn tui_keywords_are_those_of_the_language() {
        let word = |path| coloured(path, &["end"]);
        for path in ["a.rb", "a.lua", "a.jl", "a.sql"] {
            assert_eq!(word(path), [(Kind::Keyword, "end")], "{path}");
        }
        for path in ["a.rs", "a.js", "a.py", "a.c", "a.sh", "a.toml", "Makefile"] {
            assert_eq!(word(path), [], "{path}");
        }
        assert!(keywords_of("ts").eq(keywords_of("tsx")));
        assert!(keywords_of("rs").count() > 30 && keywords_of("css").count() == 0);
    }
}
