//! Profiles: the purpose of an answer, which decides the mix of files in it.

use super::score::Weights;

/// The kind of a file, derived from its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bucket {
    /// Source code.
    Code,
    /// Tests of source code.
    Tests,
    /// Documents for people.
    Docs,
    /// Configuration and data.
    Config,
}

impl Bucket {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [Bucket; 4] = [Bucket::Code, Bucket::Tests, Bucket::Docs, Bucket::Config];

    /// Returns the name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Bucket::Code => "code",
            Bucket::Tests => "tests",
            Bucket::Docs => "docs",
            Bucket::Config => "config",
        }
    }

    /// Returns the kind of a file. Linear in the length of its path.
    pub fn of(path: &str) -> Bucket {
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
            || stem.ends_with("_test")
            || stem.ends_with(".test")
            || stem.ends_with(".spec");
        if is_test || in_dir(&["test", "tests", "testing", "testdata", "spec", "__tests__"]) {
            Bucket::Tests
        } else if in_dir(&["doc", "docs", "documentation"]) {
            Bucket::Docs
        } else {
            Bucket::Code
        }
    }
}

/// The largest share of an answer for each kind of file, in percent. Results beyond their quota
/// fill the space that other kinds leave free.
pub type Quota = [u32; 4];

/// The purpose of an answer (`mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// No special purpose.
    #[default]
    Balanced,
    /// Getting an overview: many files, each once.
    Discovery,
    /// Writing code: definitions first.
    Implementation,
    /// Planning a change: documents and interfaces.
    Planning,
    /// Finding a defect: uses, tests and configuration.
    Debug,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Profile; 5] = [
        Profile::Balanced,
        Profile::Discovery,
        Profile::Implementation,
        Profile::Planning,
        Profile::Debug,
    ];

    /// Returns the name of the profile.
    pub fn as_str(self) -> &'static str {
        match self {
            Profile::Balanced => "balanced",
            Profile::Discovery => "discovery",
            Profile::Implementation => "implementation",
            Profile::Planning => "planning",
            Profile::Debug => "debug",
        }
    }

    /// Returns the quota of each kind of file, in the order of [`Bucket::ALL`].
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
    pub fn weights(self) -> Weights {
        let (path, definition, content) = match self {
            Profile::Balanced => (2.0, 3.0, 1.0),
            Profile::Discovery => (4.0, 2.0, 1.0),
            Profile::Implementation => (2.0, 6.0, 1.0),
            Profile::Planning => (3.0, 2.0, 1.0),
            Profile::Debug => (1.0, 1.5, 1.5),
        };
        Weights {
            path,
            definition,
            content,
        }
    }

    /// Returns how many places of one file are shown by default.
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
