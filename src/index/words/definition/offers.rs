//! Statements that offer names of other modules.
//!
//! A name may be defined outside of a tree, such as in a library. A question for it is answered by
//! the statement that offers it. For example, `pub use http::{Request, Response as Answer};` offers
//! `Request` and `Answer`, and so does `export { Request, Response as Answer } from './http';`. In
//! the `__init__.py` of a Python package, `from .http import Request` offers `Request`.

use std::ops::Range;

use memchr::memchr;
use memchr::memmem::find;

use super::{Language, word_len};

/// Bytes of a statement that are looked at.
const MAX_STATEMENT: usize = 4096;

/// How the statements of a language look.
struct Form {
    /// The text that begins a statement.
    begins: &'static str,
    /// The text between that and the names, besides the name of a module.
    opens: &'static str,
    /// The bytes that end a statement. A bracket before the names ends it instead.
    ends: &'static [u8],
}

impl Form {
    const fn new(begins: &'static str, opens: &'static str, ends: &'static [u8]) -> Form {
        Form {
            begins,
            opens,
            ends,
        }
    }
}

const RUST: [Form; 1] = [Form::new("pub use ", "", b";")];

const SCRIPT: [Form; 2] = [
    Form::new("export {", "", b"};"),
    Form::new("export type {", "", b"};"),
];

const PYTHON: [Form; 1] = [Form::new("from .", " import ", b"\n")];

/// Returns the forms of the statements in a file.
fn forms(path: &str) -> &'static [Form] {
    let name = path.rsplit('/').next().unwrap_or(path);
    match Language::of(path) {
        Language::JavaScript => &SCRIPT,
        _ if name.ends_with(".rs") => &RUST,
        _ if name == "__init__.py" => &PYTHON,
        _ => &[],
    }
}

/// Calls `each` with the places of the names that the statements of a text offer. Takes linear
/// time.
pub fn each_offer(path: &str, text: &[u8], mut each: impl FnMut(Range<usize>)) {
    for form in forms(path) {
        let mut from = 0;
        while let Some(found) = find(&text[from..], form.begins.as_bytes()) {
            let start = from + found + form.begins.len();
            let list = match begins_line(&text[..from + found]) {
                true => list_after(text, start, form),
                false => start..start,
            };
            from = list.end;
            each_name(&text[list.clone()], |name| {
                each(list.start + name.start..list.start + name.end);
            });
        }
    }
}

/// Whether the text after `before` begins a line.
fn begins_line(before: &[u8]) -> bool {
    let mut last = before.iter().rev();
    let last = last.find(|byte| !matches!(byte, b' ' | b'\t'));
    last.is_none_or(|byte| *byte == b'\n')
}

/// Returns the place of the names of a statement whose beginning ends at `start`. It is empty if
/// the text there is no statement, or a very long one.
fn list_after(text: &[u8], start: usize, form: &Form) -> Range<usize> {
    let most = &text[start..text.len().min(start + MAX_STATEMENT)];
    let line = memchr(b'\n', most).map_or(most, |feed| &most[..feed]);
    let Some(opens) = find(line, form.opens.as_bytes()) else {
        return start..start;
    };
    let names = opens + form.opens.len();
    let (names, ends) = match most.get(names) {
        Some(b'(') => (names + 1, b")".as_slice()),
        _ => (names, form.ends),
    };
    let end = most[names..].iter().position(|byte| ends.contains(byte));
    // The text may end with a statement.
    let last = start + most.len();
    let end = end.or((last == text.len()).then(|| most.len() - names));
    end.map_or(last..last, |end| start + names..start + names + end)
}

/// Calls `each` with the names in the list of a statement: those that a comma, a bracket or nothing
/// follows. So of `a::B as C` it is `C`. Comments to the end of a line have none.
fn each_name(list: &[u8], mut each: impl FnMut(Range<usize>)) {
    let mut at = 0;
    while at < list.len() {
        if list[at] == b'#' || list[at..].starts_with(b"//") {
            let line = memchr(b'\n', &list[at..]);
            at += line.unwrap_or(list.len() - at);
            continue;
        }
        let len = word_len(&list[at..]);
        let name = at..at + len;
        let rest = list[name.end..].trim_ascii_start();
        let ends = matches!(rest.first(), None | Some(b',' | b'}'));
        if len > 0 && ends && &list[name.clone()] != b"self" {
            each(name);
        }
        at += len.max(1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::is_word;
    use super::*;

    fn offered(path: &str, text: &str) -> Vec<String> {
        let mut names = Vec::new();
        each_offer(path, text.as_bytes(), |name| {
            names.push(text[name].to_string());
        });
        names
    }

    #[test]
    fn names_of_other_modules_are_found() {
        let rust = "pub use a::B;\nmod x {\n    pub use c::{\n        self, D, e::{F as G, H},\n        z::*,\n    };\n}\n";
        assert_eq!(offered("lib.rs", rust), ["B", "D", "G", "H"]);
        let script =
            "export { a, b as c, type D } from './x';\nexport type {\n  E,\n} from './y'\n";
        assert_eq!(offered("index.ts", script), ["a", "c", "D", "E"]);
        let python = "from .a import B, c as d\nfrom . import e\nfrom .f import (\n    G,\n    H,  # noqa\n)\nfrom .i import J";
        assert_eq!(
            offered("a/__init__.py", python),
            ["B", "d", "e", "G", "H", "J"]
        );
    }

    #[test]
    fn other_text_offers_nothing() {
        for (path, text) in [
            ("a.rs", "// pub use a::B;\nuse a::B;\n"),
            ("a.rs", "let x = \"pub use a::B;\";\n"),
            ("a.py", "from .a import B\n"),
            ("__init__.py", "from .a\nimport B\nfrom a import B\n"),
            ("a.go", "export { a };\n"),
            ("a.ts", "import { a } from 'b';\nexport * from 'b';\n"),
        ] {
            assert_eq!(offered(path, text), [""; 0], "{path}: {text}");
        }
    }

    #[test]
    fn an_endless_statement_offers_nothing() {
        let text = format!("pub use a::{{{}", "B, ".repeat(10_000));
        assert!(offered("a.rs", &text).is_empty());
        assert!(offered("a.rs", &"pub use \n".repeat(100_000)).len() < 2);
    }

    proptest! {
        #[test]
        fn names_ascend_and_are_words(text in "(pub use |export \\{|from \\.|import|[a-c:,;{}() \n]){0,40}") {
            for path in ["a.rs", "a.ts", "__init__.py"] {
                let mut last = 0;
                each_offer(path, text.as_bytes(), |name| {
                    assert!(name.start >= last && name.end > name.start);
                    assert!(text.as_bytes()[name.clone()].iter().all(|byte| is_word(*byte)));
                    last = name.end;
                });
            }
        }
    }
}
