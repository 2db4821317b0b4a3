//! The denied patterns: paths that match one are never opened.
//!
//! This module owns the syntax of the patterns and the set in force. It knows no configuration and
//! opens nothing.
//!
//! A pattern is a glob over a whole path with `/` between its components: `*` and `?` stay within
//! one component, `**` spans any number of them. A pattern denies a path if it matches the absolute
//! path or the path relative to its root. So `secrets/**` denies the directory `secrets` directly
//! below a root, and `**/secrets/**` denies such directories at any depth. A pattern that denies
//! everything in a directory (`…/**`) denies the directory too. Nothing in a denied directory is
//! reachable.

use std::borrow::Cow;
use std::path::Path;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use thiserror::Error;

use crate::index::names::without_verbatim_prefix;

/// The patterns in force unless they are switched off: private keys and their directories.
pub const DEFAULT_DENIES: [&str; 5] = [
    "**/.ssh/**",
    "**/.gnupg/**",
    "**/id_rsa*",
    "**/*.pem",
    "**/*.key",
];

/// Returns true if a default pattern denies a file or one of its parent directories. `relative` is
/// relative to a root. An index never holds text of such a file, even if the default patterns are
/// switched off.
pub fn is_withheld(relative: &Path) -> bool {
    static DEFAULTS: LazyLock<Option<(AhoCorasick, DenySet)>> = LazyLock::new(|| {
        let texts = DEFAULT_DENIES.map(longest_text);
        let texts = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .build(texts);
        Some((texts.ok()?, DenySet::new(&[], true).ok()?))
    });
    let Some((texts, set)) = DEFAULTS.as_ref() else {
        return true;
    };
    // The first search of a process asks about every file, and few paths have one of the texts.
    texts.is_match(relative.as_os_str().as_encoded_bytes())
        && set.denies_path_or_parent(relative, relative).is_some()
}

/// Returns the longest text without wildcards in a pattern of [`DEFAULT_DENIES`]. Each path that
/// the pattern matches contains it.
fn longest_text(pattern: &str) -> &str {
    let texts = pattern.split(['*', '/']);
    texts.max_by_key(|text| text.len()).unwrap_or_default()
}

/// The error for a denied pattern that is no valid glob.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("denied pattern `{pattern}`: {message}")]
pub struct DenyError {
    /// The pattern as configured.
    pub pattern: String,
    /// The problem with the pattern and how to fix it.
    pub message: String,
}

/// The compiled denied patterns in force.
#[derive(Clone, Debug)]
pub struct DenySet {
    /// Sorted and without repetitions.
    patterns: Vec<String>,
    /// Patterns that need only the absolute path: a match of the relative path implies one of it.
    anywhere: Globs,
    /// Patterns that are matched against both paths.
    anchored: Globs,
}

/// A group of compiled patterns.
#[derive(Clone, Debug, Default)]
struct Globs {
    set: GlobSet,
    /// For each glob of `set`, the index of its pattern in `patterns`.
    sources: Vec<usize>,
    /// Whether a glob has a wildcard for a single character. Globs match bytes, so a character of
    /// several bytes needs a second match (see `collapsed`).
    one_character: bool,
}

impl DenySet {
    /// Compiles `patterns`, plus the default patterns if `include_default` is set.
    ///
    /// # Errors
    ///
    /// [`DenyError`] for the first pattern that is no valid glob, or that could never match a path
    /// and so would protect nothing.
    pub fn new(patterns: &[String], include_default: bool) -> Result<Self, DenyError> {
        Self::for_roots(patterns, include_default, &[])
    }

    /// Compiles like [`new`](Self::new), with several canonical roots. A pattern that is relative
    /// to a root applies below each of `roots`, independent of the root that a lookup passes. Roots
    /// may be nested.
    ///
    /// # Errors
    ///
    /// The errors of [`new`](Self::new).
    pub fn for_roots(
        patterns: &[String],
        include_default: bool,
        roots: &[&Path],
    ) -> Result<Self, DenyError> {
        let mut effective: Vec<String> = patterns.to_vec();
        if include_default {
            effective.extend(DEFAULT_DENIES.map(String::from));
        }
        effective.sort_unstable();
        effective.dedup();

        let (mut anywhere, mut anchored) = (Builder::default(), Builder::default());
        for (source, pattern) in effective.iter().enumerate() {
            let fail = |message: String| DenyError {
                pattern: pattern.clone(),
                message,
            };
            let glob = normalize(pattern, cfg!(windows)).map_err(fail)?;
            // `**/x` matches an absolute path if it matches any tail of it.
            let is_anywhere = glob == "**" || glob.starts_with("**/") || is_absolute(&glob);
            let into = if is_anywhere {
                &mut anywhere
            } else {
                &mut anchored
            };
            into.add(compile(&glob).map_err(fail)?, &glob, source);
            if let Some(directory) = whole_directory(&glob)
                && let Ok(compiled) = compile(directory)
            {
                into.add(compiled, directory, source);
            }
            if is_anywhere {
                continue;
            }
            for root in roots {
                // In the form in which paths are matched.
                let root = String::from_utf8_lossy(&Spelling::new(root).0).into_owned();
                let root = globset::escape(&root);
                let below = format!("{}/{glob}", root.trim_end_matches('/'));
                for glob in [Some(below.as_str()), whole_directory(&below)]
                    .into_iter()
                    .flatten()
                {
                    anywhere.add(compile(glob).map_err(fail)?, glob, source);
                }
            }
        }
        let fail = |error: globset::Error| DenyError {
            pattern: effective.join(", "),
            message: format!("the patterns are too large together: {error}"),
        };
        let anywhere = anywhere.build().map_err(fail)?;
        let anchored = anchored.build().map_err(fail)?;
        Ok(Self {
            patterns: effective,
            anywhere,
            anchored,
        })
    }

    /// Returns the patterns in force, sorted and without repetitions. Two sets with the same
    /// patterns deny the same paths.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Returns the first pattern that denies this path itself. `relative_to_root` is the tail of
    /// `absolute` below the root, empty for the root.
    ///
    /// A walk may call this for every directory before it enters it, and for every file. Any other
    /// path needs [`denies_path_or_parent`](Self::denies_path_or_parent).
    pub fn denies(&self, absolute: &Path, relative_to_root: &Path) -> Option<&str> {
        let absolute = Spelling::new(absolute);
        if self.anchored.sources.is_empty() {
            if !self.anywhere.matches(&absolute) {
                return None;
            }
            return self.name(self.anywhere.first(&absolute));
        }
        let relative = Spelling::new(relative_to_root);
        let denied = self.anywhere.matches(&absolute)
            || self.anchored.matches(&relative)
            || self.anchored.matches(&absolute);
        if !denied {
            return None;
        }
        let found = [
            self.anywhere.first(&absolute),
            self.anchored.first(&relative),
            self.anchored.first(&absolute),
        ];
        self.name(found.into_iter().flatten().min())
    }

    /// Returns the pattern that denies this path or a directory between the root and the path.
    pub fn denies_path_or_parent(&self, absolute: &Path, relative_to_root: &Path) -> Option<&str> {
        if relative_to_root.as_os_str().is_empty() {
            return self.denies(absolute, relative_to_root);
        }
        absolute
            .ancestors()
            .zip(relative_to_root.ancestors())
            .take_while(|(_, relative)| !relative.as_os_str().is_empty())
            .find_map(|(absolute, relative)| self.denies(absolute, relative))
    }

    fn name(&self, source: Option<usize>) -> Option<&str> {
        source
            .and_then(|source| self.patterns.get(source))
            .map(String::as_str)
    }
}

impl Globs {
    fn matches(&self, path: &Spelling<'_>) -> bool {
        self.set.is_match_candidate(&path.candidate())
            || self.one_character
                && path
                    .collapsed()
                    .is_some_and(|collapsed| self.set.is_match(collapsed))
    }

    /// Returns the first pattern that matches.
    fn first(&self, path: &Spelling<'_>) -> Option<usize> {
        let mut matching = self.set.matches_candidate(&path.candidate());
        if self.one_character
            && let Some(collapsed) = path.collapsed()
        {
            matching.extend(self.set.matches(collapsed));
        }
        matching
            .into_iter()
            .filter_map(|glob| self.sources.get(glob).copied())
            .min()
    }
}

/// Collects the globs of a group before they are compiled together.
struct Builder {
    set: GlobSetBuilder,
    globs: Globs,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            set: GlobSetBuilder::new(),
            globs: Globs::default(),
        }
    }
}

impl Builder {
    fn add(&mut self, compiled: Glob, glob: &str, source: usize) {
        self.set.add(compiled);
        self.globs.sources.push(source);
        self.globs.one_character |= glob.contains(['?', '[']);
    }

    fn build(self) -> Result<Globs, globset::Error> {
        Ok(Globs {
            set: self.set.build()?,
            ..self.globs
        })
    }
}

/// Converts a pattern to the form of canonical paths: forward slashes, no empty and no `.`
/// components, no slash at the end. `windows` selects the separators and prefixes of Windows.
fn normalize(pattern: &str, windows: bool) -> Result<String, String> {
    if pattern.trim().is_empty() {
        return Err("is empty; remove it or write a glob such as `**/secrets/**`".into());
    }
    if pattern.contains('\0') {
        return Err("contains a NUL byte, which no path has; remove it".into());
    }
    // On Windows the backslash separates components, so it can't be the escape character too.
    let slashed = if windows {
        without_verbatim_prefix(pattern)
    } else {
        pattern.to_owned()
    };
    if slashed.split('/').any(|part| part == "..") {
        return Err(
            "contains a `..` component, which no resolved path has, so it would deny nothing; \
             write the resolved path"
                .into(),
        );
    }
    let parts: Vec<&str> = slashed
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    let start = match slashed.as_str() {
        // The path of a share keeps both slashes.
        share if windows && share.starts_with("//") => "//",
        absolute if absolute.starts_with('/') => "/",
        _ => "",
    };
    let normal = format!("{start}{}", parts.join("/"));
    if normal.is_empty() {
        return Err("names no path; write `**` to deny everything below the roots".into());
    }
    Ok(normal)
}

fn is_absolute(glob: &str) -> bool {
    glob.starts_with('/') || cfg!(windows) && glob.get(1..3) == Some(":/")
}

/// Returns the directory in which a pattern denies everything.
fn whole_directory(glob: &str) -> Option<&str> {
    let mut directory = glob.strip_suffix("/**")?;
    while let Some(shorter) = directory.strip_suffix("/**") {
        directory = shorter;
    }
    Some(if directory.is_empty() { "/" } else { directory })
}

fn compile(glob: &str) -> Result<Glob, String> {
    GlobBuilder::new(glob)
        .literal_separator(true)
        .backslash_escape(true)
        // On these systems a path in another case opens the same file.
        .case_insensitive(cfg!(any(windows, target_os = "macos", target_os = "ios")))
        .build()
        .map_err(|error| format!("is not a valid glob: {}", error.kind()))
}

/// A path in the form that the globs match.
struct Spelling<'a>(Cow<'a, [u8]>);

impl<'a> Spelling<'a> {
    fn new(path: &'a Path) -> Self {
        if cfg!(windows) {
            let plain = without_verbatim_prefix(&path.to_string_lossy());
            return Self(Cow::Owned(plain.into_bytes()));
        }
        // Unix paths are matched as bytes, whether or not they are valid UTF-8.
        Self(Cow::Borrowed(path.as_os_str().as_encoded_bytes()))
    }

    fn candidate(&self) -> Candidate<'_> {
        Candidate::from_bytes(&self.0)
    }

    /// Returns the path with one byte in place of each non-ASCII character and each invalid byte,
    /// so that a single-character wildcard matches it. `None` for an ASCII path.
    fn collapsed(&self) -> Option<String> {
        const STAND_IN: char = '\u{1a}';
        if self.0.is_ascii() {
            return None;
        }
        let mut collapsed = String::with_capacity(self.0.len());
        for chunk in self.0.utf8_chunks() {
            let ascii = |c: char| if c.is_ascii() { c } else { STAND_IN };
            collapsed.extend(chunk.valid().chars().map(ascii));
            collapsed.extend(chunk.invalid().iter().map(|_| STAND_IN));
        }
        Some(collapsed)
    }
}

#[cfg(test)]
mod tests;
