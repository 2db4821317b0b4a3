//! The rules of one ignore file.
//!
//! This module limits the number of lines, compiles all of them regardless of their size, and
//! selects the syntax: ripgrep's or git's.

use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::git::GitRules;
use crate::format::manifest::IgnoreRules;

/// The most lines of a file that count. A compiled line can take a kilobyte, and no file with more
/// lines is written by hand.
pub(super) const MAX_LINES: usize = 100_000;

/// The rules of a file.
#[derive(Debug)]
pub(super) struct IgnoreFile {
    /// The rules in order; several parts if they are too large to be compiled together.
    parts: Vec<Gitignore>,
    /// The rules in git's own syntax. If it is used, there are no parts.
    git: GitRules,
}

impl IgnoreFile {
    /// Returns an ignore file without rules.
    pub(super) fn empty() -> IgnoreFile {
        IgnoreFile {
            parts: Vec::new(),
            git: GitRules::default(),
        }
    }

    /// Compiles the lines of a file in the directory `dir`; malformed lines are skipped. Takes
    /// linear time in the number of lines.
    ///
    /// In ripgrep's syntax, lines from the first invalid UTF-8 on don't count. In git's syntax,
    /// invalid UTF-8 is allowed.
    pub(super) fn parse(dir: &Path, bytes: &[u8], which: IgnoreRules) -> IgnoreFile {
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let lines = bytes.split(|&byte| byte == b'\n').take(MAX_LINES);
        let mut file = IgnoreFile::empty();
        match which {
            IgnoreRules::Git => file.git = GitRules::parse(dir, lines),
            IgnoreRules::All | IgnoreRules::None | IgnoreRules::AllAndGit => {
                let lines = lines.map_while(|line| std::str::from_utf8(line).ok());
                file.add(dir, &lines.collect::<Vec<_>>());
            }
        }
        file
    }

    fn add(&mut self, dir: &Path, lines: &[&str]) {
        let mut builder = GitignoreBuilder::new(dir);
        for line in lines {
            let line = line.strip_suffix('\r').unwrap_or(line);
            // A malformed glob is skipped; `doctor` reports it.
            let _ = builder.add_line(None, line);
        }
        match builder.build() {
            Ok(rules) if rules.is_empty() => {}
            Ok(rules) => self.parts.push(rules),
            Err(_) if lines.len() > 1 => {
                let (first, rest) = lines.split_at(lines.len() / 2);
                self.add(dir, first);
                self.add(dir, rest);
            }
            // A single line that can't be compiled is malformed too.
            Err(_) => {}
        }
    }

    /// Returns true if there is no rule.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.git.is_empty()
    }

    /// Returns the effect of the last matching rule.
    pub(super) fn matched(&self, path: &Path, is_dir: bool) -> Match<()> {
        if !self.git.is_empty() {
            return self.git.matched(path, is_dir);
        }
        let parts = self.parts.iter().rev();
        let mut decided = parts.map(|part| part.matched(path, is_dir).map(|_| ()));
        decided.find(|what| !what.is_none()).unwrap_or(Match::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ignored(rules: &IgnoreFile, name: &str) -> bool {
        rules
            .matched(&Path::new("/r").join(name), false)
            .is_ignore()
    }

    #[test]
    fn all_rules_of_a_large_file_count_and_the_last_one_decides() {
        let many = |range: std::ops::Range<u32>| -> String {
            range.map(|n| format!("p{n}*x\n")).collect()
        };
        let text = format!(
            "first\nlater\n{}!later\n{}last\n",
            many(0..30_000),
            many(30_000..60_000)
        );
        let rules = IgnoreFile::parse(Path::new("/r"), text.as_bytes(), IgnoreRules::All);
        // Otherwise this test proves nothing.
        assert!(rules.parts.len() > 1);
        for name in ["first", "last", "p7x", "p59999yx"] {
            assert!(is_ignored(&rules, name), "{name}");
        }
        for name in ["later", "p7", "other"] {
            assert!(!is_ignored(&rules, name), "{name}");
        }
    }

    #[test]
    fn lines_beyond_the_limit_have_no_effect() {
        let text = format!("{}last\n", "a\n".repeat(MAX_LINES - 1));
        let rules = IgnoreFile::parse(Path::new("/r"), text.as_bytes(), IgnoreRules::All);
        assert!(is_ignored(&rules, "last"));
        let text = format!("{}last\n", "a\n".repeat(MAX_LINES));
        let rules = IgnoreFile::parse(Path::new("/r"), text.as_bytes(), IgnoreRules::All);
        assert!(is_ignored(&rules, "a") && !is_ignored(&rules, "last"));
    }

    #[test]
    fn a_line_that_is_no_utf_8_ends_the_rules_of_ripgrep_and_not_those_of_git() {
        let text = b"before\n# B\xf6se\nafter\n";
        let parse = |which| IgnoreFile::parse(Path::new("/r"), text, which);
        let (ripgrep, git) = (parse(IgnoreRules::All), parse(IgnoreRules::Git));
        assert!(is_ignored(&ripgrep, "before") && !is_ignored(&ripgrep, "after"));
        assert!(is_ignored(&git, "before") && is_ignored(&git, "after"));
    }
}
