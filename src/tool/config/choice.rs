//! The values of keys that take one of a few words.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Defines an enum with its words, so that no list of them can fall behind.
macro_rules! choices {
    ($(
        $(#[$about:meta])+
        $name:ident { $( $(#[$says:meta])+ $variant:ident = $word:literal, )+ }
    )+) => {$(
        $(#[$about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[$says])+ $variant, )+
        }

        impl $name {
            /// All values, in the order they are documented.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The words of all values, in the same order.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// Returns the word that stands for the value in a configuration.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// Returns the value that a word stands for.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )+};
}

choices! {
    /// Which engine looks into the files (`backend`).
    Backend {
        /// The built-in engine, on every machine the same.
        Embedded = "embedded",
        /// The first of `binary` and `fallback_binary` that can answer (`FR-LS-EXE-01`).
        Auto = "auto",
        /// Only ugrep.
        Ugrep = "ugrep",
        /// Only ripgrep.
        Rg = "rg",
    }

    /// Whether a search of the command line is answered by the daemon of its tree (`searches`).
    DaemonUse {
        /// Never: the process that was called searches.
        Off = "off",
        /// If it runs.
        Use = "use",
        /// If it runs; where none does and the tree is large enough for an index, one is started for
        /// the searches that follow.
        Start = "start",
    }

    /// Which engine looks into the files for `search_files` (`backend`).
    FilesBackend {
        /// The built-in engine, on every machine the same.
        Native = "native",
        /// ripgrep; what is similar is looked for by the built-in engine.
        Rg = "rg",
        /// ugrep; what is similar is looked for by the built-in engine.
        Ugrep = "ugrep",
    }

    /// How a query is looked for by `search_files` (`mode`).
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[schemars(inline)]
    Mode {
        /// As it is.
        #[default]
        Exact = "exact",
        /// As a regular expression.
        Regex = "regex",
        /// As it is, or something similar.
        Fuzzy = "fuzzy",
    }

    /// How letters compare (`case`).
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[schemars(inline)]
    Case {
        /// Sensitive if the pattern holds an ASCII uppercase letter.
        #[default]
        Smart = "smart",
        /// Always sensitive.
        Sensitive = "sensitive",
        /// ASCII letters compare without case.
        Insensitive = "insensitive",
    }

    /// When an index is built and used (`index_mode`).
    IndexMode {
        /// Never.
        Off = "off",
        /// For trees above the thresholds (`CFG-LSI-IDX-02`).
        Auto = "auto",
        /// Always.
        On = "on",
    }

    /// Where an index lives (`index_storage`, `FR-LSI-IDX-STOR-01`).
    IndexStorage {
        /// In memory only; it ends with the process.
        Memory = "memory",
        /// In files that are mapped into memory.
        Mmap = "mmap",
        /// In an SQLite database.
        Sqlite = "sqlite",
    }

    /// Which regular expressions may exclude files by the index (`index_regex_strategy`).
    RegexStrategy {
        /// Those with a literal that every match must contain (`FR-LSI-CAND-RE-02`).
        RequiredLiteral = "required_literal",
        /// All from which a combination of n-grams can be proven to be required.
        Boolean = "boolean",
    }

    /// When a stored index is checked for damage (`index_integrity_check`).
    IntegrityCheck {
        /// Never as a whole; what is read is still validated.
        Off = "off",
        /// When it is opened.
        OnOpen = "on_open",
        /// When it is opened, and after every `index_integrity_period_calls` searches.
        Periodic = "periodic",
    }
}
