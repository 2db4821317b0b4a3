//! Profiles of ranked answers: the purpose of an answer, which decides the mix of files in it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::score::Weights;
use crate::format::choices::choices;

choices! {
    /// The kind of a file, derived from its path.
    #[derive(PartialOrd, Ord)]
    Bucket {
        /// Source code, except for tests.
        Code = "code",
        /// Tests of source code.
        Tests = "tests",
        /// Documents for people.
        Docs = "docs",
        /// Configuration and data.
        Config = "config",
    }
}

impl Bucket {
    /// Returns the kind of a file. Linear in the length of its path.
    pub fn of(path: &str) -> Bucket {
        let name_as_written = path.rsplit('/').next().unwrap_or(path);
        let path = path.to_ascii_lowercase();
        let (dirs, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        let in_dir = |names: &[&str]| dirs.split('/').any(|dir| names.contains(&dir));
        match extension {
            "md" | "rst" | "txt" | "adoc" | "org" | "tex" | "texi" | "man" => return Bucket::Docs,
            "toml" | "json" | "yaml" | "yml" | "ini" | "cfg" | "conf" | "lock" | "xml" | "csv" => {
                return Bucket::Config;
            }
            _ => {}
        }
        let stem = name.strip_suffix(extension).unwrap_or(name);
        let stem = stem.trim_end_matches('.');
        let is_test = stem.starts_with("test_")
            || stem == "conftest"
            || ["_", ".", "-"].iter().any(|joint| {
                let last = stem.rsplit_once(joint).map_or("", |(_, last)| last);
                ["test", "tests", "spec", "bench", "mock"].contains(&last)
            })
            || own_name_is_of_test(name_as_written);
        if is_test || in_dir(&TEST_DIRECTORIES) {
            Bucket::Tests
        } else if in_dir(&["doc", "docs", "documentation"]) {
            Bucket::Docs
        } else {
            Bucket::Code
        }
    }
}

impl Bucket {
    /// Whether a file shows how something is used, or is somebody else's: examples, samples,
    /// vendored and old code. Linear in the length of its path.
    pub fn is_example(path: &str) -> bool {
        let (directories, _) = path.rsplit_once('/').unwrap_or(("", path));
        directories.split('/').any(|name| {
            EXAMPLE_DIRECTORIES
                .iter()
                .any(|example| name.eq_ignore_ascii_case(example))
        })
    }
}

const TEST_DIRECTORIES: [&str; 14] = [
    "test",
    "tests",
    "testing",
    "testdata",
    "test-utils",
    "spec",
    "specs",
    "__tests__",
    "fixtures",
    "mock",
    "mocks",
    "benches",
    "benchmark",
    "benchmarks",
];

const EXAMPLE_DIRECTORIES: [&str; 16] = [
    "example",
    "examples",
    "_example",
    "_examples",
    "sample",
    "samples",
    "demo",
    "demos",
    "site",
    "website",
    "compat",
    "_compat",
    "legacy",
    "vendor",
    "third_party",
    "deprecated",
];

/// Whether a file is named as tests in Java and its like are: `ParserTest.java`,
/// `ParserSpec.scala`.
fn own_name_is_of_test(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name);
    ["Test", "Tests", "Spec", "Suite", "TestCase", "Benchmark"]
        .iter()
        .any(|end| {
            let before = stem
                .strip_suffix(end)
                .and_then(|before| before.bytes().last());
            before.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        })
}

/// The largest share of an answer for each kind of file, in percent. Results beyond their quota
/// fill the space that other kinds leave free.
pub type Quota = [u32; 4];

choices! {
    /// The purpose of a search. It decides which files rank first.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[schemars(inline)]
    Profile {
        /// No special purpose.
        #[default]
        Balanced = "balanced",
        /// Getting an overview: many files, each once.
        Discovery = "discovery",
        /// Writing code: definitions first.
        Implementation = "implementation",
        /// Planning a change: documents and interfaces.
        Planning = "planning",
        /// Finding a defect: uses, tests and configuration.
        Debug = "debug",
    }
}

impl Profile {
    /// Returns the quota of each kind of file, in the order of [`Bucket::ALL`].
    #[doc(hidden)]
    pub fn quota(self) -> Quota {
        match self {
            Profile::Balanced => [100, 40, 40, 30],
            Profile::Discovery => [80, 30, 50, 30],
            Profile::Implementation => [100, 30, 15, 15],
            Profile::Planning => [60, 20, 60, 20],
            Profile::Debug => [80, 60, 20, 40],
        }
    }

    /// Returns the weights of the fields for the score.
    #[doc(hidden)]
    pub fn weights(self) -> Weights {
        let (path, definition, content) = match self {
            Profile::Balanced => (1.0, 1.0, 1.0),
            Profile::Discovery => (1.5, 0.8, 1.0),
            Profile::Implementation => (1.0, 1.5, 1.0),
            Profile::Planning => (1.3, 0.8, 1.0),
            Profile::Debug => (0.7, 0.7, 1.3),
        };
        // Code, tests, documents, settings, examples.
        let buckets = match self {
            Profile::Balanced => [1.0, 0.6, 0.3, 0.3, 0.4],
            Profile::Discovery => [1.0, 0.6, 0.6, 0.4, 0.5],
            Profile::Implementation => [1.0, 0.5, 0.2, 0.2, 0.4],
            Profile::Planning => [1.0, 0.4, 1.0, 0.4, 0.5],
            Profile::Debug => [1.0, 1.0, 0.3, 0.6, 0.4],
        };
        Weights {
            path,
            definition,
            content,
            buckets,
        }
    }

    /// Returns how many places of one file are shown by default.
    #[doc(hidden)]
    pub fn per_file(self) -> u32 {
        match self {
            Profile::Discovery => 1,
            _ => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_apart_by_their_paths() {
        for (path, bucket) in [
            ("src/main.rs", Bucket::Code),
            ("Makefile", Bucket::Code),
            ("tests/it/main.rs", Bucket::Tests),
            ("pkg/a_test.go", Bucket::Tests),
            ("test_a.py", Bucket::Tests),
            ("src/contest.rs", Bucket::Code),
            ("src/ParserTest.java", Bucket::Tests),
            ("src/Latest.java", Bucket::Code),
            ("benches/scan.rs", Bucket::Tests),
            ("web/a.spec.ts", Bucket::Tests),
            ("README.md", Bucket::Docs),
            ("docs/build.py", Bucket::Docs),
            ("Cargo.toml", Bucket::Config),
            (".gitignore", Bucket::Code),
        ] {
            assert_eq!(Bucket::of(path), bucket, "{path}");
        }
    }

    #[test]
    fn each_profile_lets_an_answer_be_filled() {
        for profile in Profile::ALL {
            assert!(profile.quota().iter().sum::<u32>() >= 100, "{profile:?}");
            assert!(profile.per_file() >= 1);
        }
    }
}
