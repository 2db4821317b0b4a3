//! Rewrites the globs of tool calls, so that they are relative to the searched path.
//!
//! This module owns the prefixes that a glob may have, for all tools. Globs have gitignore syntax,
//! which supports neither `./` nor absolute paths. Globs on the command line (`-g`) are not
//! rewritten: they mean the same as in ripgrep.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::Path;

use crate::exec::as_text::shown;
use crate::exec::question::Question;
use crate::exec::sources::reach::{EntryKind, Resolved};
use crate::tool::sandbox::Sandbox;

/// A glob that repeats the searched path and would match nothing unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepeatedPath {
    /// The glob of the request.
    pub(crate) glob: String,
    /// The glob that was used instead.
    pub(crate) taken_as: String,
}

/// A question with globs relative to the searched path.
pub(crate) struct AtTarget<'a> {
    pub(crate) question: Cow<'a, Question>,
    /// The rewrites that are guesses. The answer reports them in notes.
    pub(crate) repeated: Vec<RepeatedPath>,
}

/// Rewrites the globs of a tool's question. If the path can't be searched, the globs stay
/// unchanged, and the search reports the error.
pub(crate) fn at_target<'a>(question: &'a Question, sandbox: &Sandbox) -> AtTarget<'a> {
    let files = &question.files;
    let mut all = [&files.include, &files.exclude, &files.globs]
        .into_iter()
        .flatten();
    let mut rewritten = AtTarget {
        question: Cow::Borrowed(question),
        repeated: Vec::new(),
    };
    if files.globs_from.is_some() || !all.any(|glob| glob.contains('/')) {
        return rewritten;
    }
    let path = files.paths.first().map_or(Path::new("."), |path| path);
    let Ok(target) = sandbox.resolve_path(path) else {
        return rewritten;
    };
    let start = Start::of(target, sandbox.working_dir());
    let files = &mut rewritten.question.to_mut().files;
    for glob in [&mut files.include, &mut files.exclude, &mut files.globs]
        .into_iter()
        .flatten()
    {
        if let Some((taken_as, is_guess)) = start.rewrite(glob) {
            let glob = std::mem::replace(glob, taken_as.clone());
            if is_guess {
                rewritten.repeated.push(RepeatedPath { glob, taken_as });
            }
        }
    }
    rewritten
}

/// The directory to which globs are relative.
struct Start {
    /// Its canonical path, if a glob can name it.
    absolute: Option<String>,
    /// Its path relative to the working directory, if it is below that.
    below: Option<String>,
    target: Resolved,
    is_file: bool,
}

impl Start {
    fn of(target: Resolved, working_dir: &Path) -> Start {
        let meta = target.root.metadata(&target.relative);
        let is_file = meta.is_ok_and(|meta| meta.kind == EntryKind::File);
        // A glob matches the name of a searched file.
        let dir = match is_file {
            true => target.canonical.parent().unwrap_or(Path::new("/")),
            false => &target.canonical,
        };
        let text = |path: &Path| {
            path.to_str()
                .filter(|text| !text.is_empty())
                .map(|_| shown(path).into_owned())
        };
        let below = dir.strip_prefix(working_dir).ok().and_then(text);
        Start {
            absolute: text(dir).filter(|path| path != "/"),
            below,
            target,
            is_file,
        }
    }

    /// Returns the rewritten glob, and whether the rewrite is a guess. `None` if the glob stays
    /// unchanged.
    fn rewrite(&self, glob: &str) -> Option<(String, bool)> {
        let (sign, rest) = match glob.strip_prefix('!') {
            Some(rest) => ("!", rest),
            None => ("", glob),
        };
        let anchored = |below: &str| match below.trim_start_matches('/') {
            "" => format!("{sign}/**"),
            below => format!("{sign}/{below}"),
        };
        let within = |dir: &Option<String>, path: &str| -> Option<String> {
            let below = path.strip_prefix(dir.as_deref()?)?;
            (below.is_empty() || below.starts_with('/')).then(|| below.to_string())
        };
        if let Some(below) = within(&self.absolute, rest) {
            return Some((anchored(&below), false));
        }
        let mut from_here = rest;
        while let Some(below) = from_here.strip_prefix("./") {
            from_here = below.trim_start_matches('/');
        }
        let from_start = from_here.trim_start_matches('/');
        let repeated = within(&self.below, from_start).filter(|below| below.len() > 1);
        if let Some(below) = repeated.filter(|_| !self.has(from_start)) {
            return Some((anchored(&below), true));
        }
        (from_here.len() < rest.len()).then(|| (anchored(from_here), false))
    }

    /// Returns true unless the first component of a glob is certain not to exist in the directory.
    fn has(&self, glob: &str) -> bool {
        let name = glob.split('/').next().unwrap_or_default();
        let dir = match self.is_file {
            true => self.target.relative.parent().unwrap_or(Path::new("")),
            false => &self.target.relative,
        };
        let found = self.target.root.metadata(&dir.join(name));
        !found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }
}
