//! The history of the interactive search: earlier patterns, kept in a private file.
//!
//! This module owns the order and the number of the patterns, and the file: one pattern a line,
//! oldest first.

use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::format::disk::RealDisk;
use crate::format::error::FormatError;
use crate::format::lock::{DirLock, LockFile, create_private_dir};
use crate::format::publish::replace;
use crate::format::storage::{Privacy, Storage};

/// Maximum number of patterns in the file.
const MAX_PATTERNS: usize = 500;

/// Maximum length of a pattern in the file, in bytes. Longer patterns are not kept.
const MAX_PATTERN: usize = 1_000;

/// The name of the file.
const NAME: &str = "history";

/// How long to wait for another process that writes the file.
const PATIENCE: Duration = Duration::from_secs(1);

/// The patterns of earlier searches, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    patterns: Vec<String>,
    /// The patterns that are not yet in the file.
    added: Vec<String>,
    /// The position of the pattern that the user went back to.
    at: Option<usize>,
    /// The pattern that the user typed before.
    draft: String,
}

impl History {
    /// Reads the file in a directory. A missing file has no patterns.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the file can't be read, or if other users can change it.
    pub(super) fn load(dir: &Path) -> Result<History, FormatError> {
        let most = MAX_PATTERNS * (MAX_PATTERN + 1);
        let file = match Storage::read(&dir.join(NAME), most, Privacy::Required) {
            Err(error) if error.is_not_found() => return Ok(History::default()),
            file => file?,
        };
        let text = String::from_utf8_lossy(file.as_bytes()).into_owned();
        Ok(History {
            patterns: text.lines().map(str::to_string).collect(),
            ..History::default()
        })
    }

    /// Adds the patterns of this run to the file. Patterns that other processes have added since it
    /// was read stay.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the directory or the file can't be written, or if other users have access
    /// to the directory.
    pub(super) fn save(&self, dir: &Path) -> Result<(), FormatError> {
        if self.added.is_empty() {
            return Ok(());
        }
        create_private_dir(dir, Privacy::Required)?;
        let lock = DirLock::exclusive(dir, LockFile::Writers, PATIENCE, &mut thread::sleep)?;
        let mut all = History::load(dir)?;
        for pattern in &self.added {
            all.add(pattern);
        }
        let lines = all.patterns.iter().map(|pattern| format!("{pattern}\n"));
        replace(&RealDisk, &lock, NAME, lines.collect::<String>().as_bytes())
    }

    /// Adds a pattern as the latest one. Patterns that fit no line of the file are ignored.
    pub(super) fn add(&mut self, pattern: &str) {
        self.at = None;
        let is_long = pattern.len() > MAX_PATTERN;
        if is_long || pattern.trim().is_empty() || pattern.contains(char::is_control) {
            return;
        }
        for list in [&mut self.patterns, &mut self.added] {
            list.retain(|earlier| earlier != pattern);
            list.push(pattern.to_string());
            let surplus = list.len().saturating_sub(MAX_PATTERNS);
            list.drain(..surplus);
        }
    }

    /// Returns the pattern before the current one, if there is one.
    pub(super) fn older(&mut self, current: &str) -> Option<&str> {
        let at = self.at.unwrap_or(self.patterns.len()).checked_sub(1)?;
        if self.at.is_none() {
            self.draft = current.to_string();
        }
        self.at = Some(at);
        self.patterns.get(at).map(String::as_str)
    }

    /// Returns the pattern after the current one. The last one is the pattern that the user typed.
    pub(super) fn newer(&mut self) -> Option<&str> {
        let next = self.at? + 1;
        self.at = Some(next).filter(|next| *next < self.patterns.len());
        self.patterns
            .get(next)
            .or(Some(&self.draft))
            .map(String::as_str)
    }

    /// Ends going back: the user has changed the pattern.
    pub(super) fn leave(&mut self) {
        self.at = None;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn tui_earlier_patterns_come_back() {
        let mut history = History::default();
        assert_eq!(history.older("x"), None);
        assert_eq!(history.newer(), None);
        for pattern in [
            "a",
            "b",
            "a",
            " ",
            "two\nlines",
            &"x".repeat(MAX_PATTERN + 1),
        ] {
            history.add(pattern);
        }
        assert_eq!(history.older("typed"), Some("a"));
        assert_eq!(history.older("a"), Some("b"));
        assert_eq!(history.older("b"), None);
        assert_eq!(history.newer(), Some("a"));
        assert_eq!(history.newer(), Some("typed"));
        assert_eq!(history.newer(), None);
        history.older("typed");
        history.leave();
        assert_eq!(history.older("changed"), Some("a"));
    }

    #[test]
    fn tui_the_history_is_a_private_file_of_bounded_length() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("state/tui");
        assert_eq!(History::load(&dir).unwrap(), History::default());
        History::default().save(&dir).unwrap();
        assert!(!dir.exists());
        let added = |pattern: &str| {
            let mut history = History::default();
            history.add(pattern);
            history.save(&dir)
        };
        added("one").unwrap();
        // Another process has added a pattern meanwhile.
        added("two").unwrap();
        let text = || fs::read_to_string(dir.join(NAME)).unwrap();
        assert_eq!(text(), "one\ntwo\n");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir), mode(&dir.join(NAME))), (0o700, 0o600));
        let mut history = History::default();
        for n in 0..MAX_PATTERNS {
            history.add(&n.to_string());
        }
        history.save(&dir).unwrap();
        assert_eq!(text().lines().count(), MAX_PATTERNS);
        assert!(text().starts_with("0\n"));
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(added("three").is_err());
        fs::set_permissions(dir.join(NAME), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(History::load(&dir).is_err());
    }
}
