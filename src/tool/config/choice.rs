//! Enums for the keys that take one of a few names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::choices::choices;

choices! {
    /// The engine that searches the files (`backend`).
    Backend {
        /// The built-in engine, which is the same on every machine.
        Embedded = "embedded",
        /// The first of `binary` and `fallback_binary` that can answer.
        Auto = "auto",
        /// The program ugrep, never ripgrep.
        Ugrep = "ugrep",
        /// The program ripgrep, never ugrep.
        Rg = "rg",
    }

    /// Whether the daemon of a tree answers searches of the command line (`searches`).
    DaemonUse {
        /// Never: the called process searches itself.
        Off = "off",
        /// If a daemon is running.
        Use = "use",
        /// If a daemon is running. If not, and the tree is large enough for an index, the search
        /// starts a daemon for later searches.
        Start = "start",
    }

    /// The engine that searches the files for `search_files` (`backend`).
    FilesBackend {
        /// The built-in engine, which is the same on every machine.
        Native = "native",
        /// ripgrep for exact and regular-expression searches; the built-in engine for fuzzy ones.
        Rg = "rg",
        /// ugrep for exact and regular-expression searches; the built-in engine for fuzzy ones.
        Ugrep = "ugrep",
    }

    /// How ranked questions compare the meanings of texts (`embed`).
    Embed {
        /// Not at all: only the words of the question count.
        Off = "off",
        /// By the word table of the program.
        Words = "words",
    }

    /// How `search_files` searches for a query (`mode`).
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[schemars(inline)]
    Mode {
        /// For the literal text.
        #[default]
        Exact = "exact",
        /// As a regular expression.
        Regex = "regex",
        /// For the literal text or similar text.
        Fuzzy = "fuzzy",
    }

    /// When an index is built and used (`index_mode`).
    IndexMode {
        /// Never, whatever the size of the tree.
        Off = "off",
        /// For trees above the thresholds.
        Auto = "auto",
        /// Always, whatever the size of the tree.
        On = "on",
    }

    /// The storage of an index (`index_storage`).
    IndexStorage {
        /// Memory only; the index ends with the process.
        Memory = "memory",
        /// Files that are mapped into memory.
        Mmap = "mmap",
        /// An SQLite database.
        Sqlite = "sqlite",
    }

    /// The regular expressions that may exclude files by the index (`index_regex_strategy`).
    RegexStrategy {
        /// Expressions with a literal that every match must contain.
        RequiredLiteral = "required_literal",
        /// All expressions for which a required combination of n-grams can be proven.
        Boolean = "boolean",
    }

    /// When a stored index is checked for damage (`index_integrity_check`).
    IntegrityCheck {
        /// Never as a whole. Readers still validate the parts that they read.
        Off = "off",
        /// When it is opened.
        OnOpen = "on_open",
        /// When it is opened, and after every `index_integrity_period_calls` searches.
        Periodic = "periodic",
    }
}
