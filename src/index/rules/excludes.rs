//! Git's global excludes, as they apply to each repository.
//!
//! Their patterns are relative to the top of the repository that contains the path.

use std::path::Path;
use std::sync::Arc;

use super::file::IgnoreFile;
use crate::format::manifest::IgnoreRules;

/// The content of the file that git's `core.excludesFile` names.
#[derive(Debug)]
pub(super) struct GlobalExcludes {
    text: Vec<u8>,
    which: IgnoreRules,
    /// The compiled rules, if no pattern is relative to a directory; they apply to all
    /// repositories.
    everywhere: Option<Arc<IgnoreFile>>,
}

impl GlobalExcludes {
    /// Returns excludes without rules.
    pub(super) fn none() -> GlobalExcludes {
        GlobalExcludes::new(Vec::new(), IgnoreRules::None)
    }

    /// Creates excludes from the text of the file; `which` selects the syntax.
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
