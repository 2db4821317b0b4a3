//! Git's global excludes, as they are for each repository.
//!
//! Owns that their patterns are relative to the top of the repository that a path is in.

use std::path::Path;
use std::sync::Arc;

use super::file::IgnoreFile;
use crate::format::manifest::IgnoreRules;

/// The file that git's `core.excludesFile` names.
#[derive(Debug)]
pub(super) struct GlobalExcludes {
    text: Vec<u8>,
    which: IgnoreRules,
    /// The rules for all repositories, where none of them is relative to a directory.
    everywhere: Option<Arc<IgnoreFile>>,
}

impl GlobalExcludes {
    /// Returns excludes without rules.
    pub(super) fn none() -> GlobalExcludes {
        GlobalExcludes::new(Vec::new(), IgnoreRules::None)
    }

    /// Takes the text of the file; `which` says whose syntax it has.
    pub(super) fn new(text: Vec<u8>, which: IgnoreRules) -> GlobalExcludes {
        let is_relative = text.split(|byte| *byte == b'\n').any(|line| {
            let line = line.trim_ascii_end();
            line.strip_suffix(b"/").unwrap_or(line).contains(&b'/')
        });
        let everywhere = (!is_relative).then(|| {
            let file = IgnoreFile::parse(Path::new("/"), &text, which);
            Arc::new(file)
        });
        GlobalExcludes {
            text,
            which,
            everywhere,
        }
    }

    /// Returns the rules for the repository with its top at `dir`.
    pub(super) fn for_repository(&self, dir: &Path) -> Arc<IgnoreFile> {
        let compiled = || Arc::new(IgnoreFile::parse(dir, &self.text, self.which));
        self.everywhere.clone().unwrap_or_else(compiled)
    }
}
