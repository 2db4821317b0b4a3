//! The words that begin a definition.

pub(super) const TYPES: [&str; 29] = [
    "class",
    "struct",
    "enum",
    "trait",
    "interface",
    "protocol",
    "record",
    "object",
    "module",
    "namespace",
    "defmodule",
    "defprotocol",
    "defimpl",
    "union",
    "actor",
    "extension",
    "data",
    "newtype",
    "typeclass",
    "instance",
    "package",
    "mixin",
    "impl",
    "type",
    "typedef",
    "typealias",
    "mod",
    "opaque",
    "annotation",
];

/// Of these, the ones that add to something that is defined elsewhere.
pub(super) const REOPENING: [&str; 5] = ["extension", "impl", "instance", "defimpl", "package"];

pub(super) const FUNCTIONS: [&str; 16] = [
    "def",
    "defp",
    "defmacro",
    "defmacrop",
    "defguard",
    "defdelegate",
    "fn",
    "func",
    "function",
    "fun",
    "macro_rules!",
    "macro",
    "sub",
    "proc",
    "procedure",
    "operator",
];

pub(super) const VARIABLES: [&str; 6] = ["const", "let", "var", "val", "static", "local"];

pub(super) const MODIFIERS: [&str; 47] = [
    "pub",
    "public",
    "private",
    "protected",
    "internal",
    "fileprivate",
    "open",
    "static",
    "final",
    "abstract",
    "sealed",
    "export",
    "default",
    "async",
    "unsafe",
    "const",
    "extern",
    "override",
    "virtual",
    "inline",
    "partial",
    "readonly",
    "suspend",
    "data",
    "case",
    "implicit",
    "lazy",
    "local",
    "declare",
    "expect",
    "actual",
    "inner",
    "value",
    "companion",
    "indirect",
    "mutating",
    "nonisolated",
    "explicit",
    "constexpr",
    "template",
    "synchronized",
    "get",
    "set",
    "friend",
    "new",
    "noinline",
    "__always_inline",
];

/// Words in front of `(` that call or decide, and define nothing.
pub(super) const CONTROL: [&str; 38] = [
    "if",
    "for",
    "while",
    "switch",
    "catch",
    "return",
    "else",
    "function",
    "with",
    "match",
    "do",
    "try",
    "foreach",
    "using",
    "lock",
    "unless",
    "elif",
    "constructor",
    "new",
    "throw",
    "await",
    "yield",
    "in",
    "of",
    "is",
    "as",
    "and",
    "or",
    "not",
    "case",
    "goto",
    "sizeof",
    "typeof",
    "defined",
    "assert",
    "typedef",
    "super",
    "self",
];

/// For each first byte, the lengths of the words above that begin with it, one bit each. A
/// `!` at the end does not count.
pub(super) const KEYWORDS: [u32; 128] = {
    const fn add<const N: usize>(mut lengths: [u32; 128], words: [&str; N]) -> [u32; 128] {
        let mut n = 0;
        while n < N {
            let word = words[n].as_bytes();
            let mark = (word[word.len() - 1] == b'!') as usize;
            lengths[word[0] as usize] |= 1 << (word.len() - mark);
            n += 1;
        }
        lengths
    }
    add(
        add(add(add([0; 128], TYPES), FUNCTIONS), VARIABLES),
        MODIFIERS,
    )
};
