//! The deny patterns: paths that are never opened.
//!
//! Owns the syntax of the patterns and the set in force. It knows no configuration and opens
//! nothing.
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
    static DEFAULTS: LazyLock<Option<DenySet>> = LazyLock::new(|| DenySet::new(&[], true).ok());
    let denies = |set: &DenySet| set.denies_path_or_parent(relative, relative).is_some();
    DEFAULTS.as_ref().is_none_or(denies)
}

/// The error for a deny pattern that is no valid glob.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("denied pattern `{pattern}`: {message}")]
pub struct DenyError {
    /// The pattern as configured.
    pub pattern: String,
    /// The problem with the pattern and how to fix it.
    pub message: String,
}

/// The compiled deny patterns in force.
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
mod tests {
    use super::*;

    const ROOT: &str = "/home/user/project";

    fn set(patterns: &[&str]) -> DenySet {
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).into()).collect();
        DenySet::new(&patterns, false).unwrap()
    }

    /// Whether a path below [`ROOT`] is denied, by itself and with its parents considered.
    fn denied(set: &DenySet, relative: &str) -> (bool, bool) {
        let absolute = Path::new(ROOT).join(relative);
        (
            set.denies(&absolute, Path::new(relative)).is_some(),
            set.denies_path_or_parent(&absolute, Path::new(relative))
                .is_some(),
        )
    }

    #[track_caller]
    fn check(pattern: &str, denied_ones: &[&str], others: &[&str]) {
        let set = set(&[pattern]);
        for path in denied_ones {
            assert_eq!(
                denied(&set, path),
                (true, true),
                "{pattern} should deny {path}"
            );
        }
        for path in others {
            assert_eq!(
                denied(&set, path),
                (false, false),
                "{pattern} should not deny {path}"
            );
        }
    }

    #[test]
    fn default_denies_protect_keys_wherever_they_are() {
        let set = DenySet::new(&[], true).unwrap();
        for (path, pattern) in [
            (".ssh", "**/.ssh/**"),
            (".ssh/config", "**/.ssh/**"),
            ("backup/.ssh/deep/known_hosts", "**/.ssh/**"),
            (".gnupg/trustdb.gpg", "**/.gnupg/**"),
            ("id_rsa", "**/id_rsa*"),
            ("deploy/id_rsa.pub", "**/id_rsa*"),
            ("tls/server.pem", "**/*.pem"),
            ("server.key", "**/*.key"),
            (".key", "**/*.key"),
            ("line\nbreak.key", "**/*.key"),
        ] {
            let absolute = Path::new(ROOT).join(path);
            assert_eq!(
                set.denies(&absolute, Path::new(path)),
                Some(pattern),
                "{path}"
            );
        }
        for path in [
            "ssh/config",
            "a.pem.txt",
            "src/key.rs",
            "my_id_rsa",
            "x.ssh/f",
            "keyfile",
        ] {
            assert_eq!(denied(&set, path), (false, false), "{path}");
        }
    }

    #[test]
    fn keys_and_what_lies_beside_them_are_withheld() {
        for path in [
            "id_rsa",
            "id_rsa.pub",
            "a/server.pem",
            ".ssh/config",
            "home/.ssh/known/hosts",
            "x.key/readme",
        ] {
            assert!(is_withheld(Path::new(path)), "{path}");
        }
        for path in ["", "src/key.rs", "ssh/config", "my_id_rsa", "a.pem.txt"] {
            assert!(!is_withheld(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn default_denies_can_be_switched_off_and_added_to() {
        let none = DenySet::new(&[], false).unwrap();
        assert_eq!(denied(&none, ".ssh/id_rsa"), (false, false));
        assert!(none.patterns().is_empty());
        let own = DenySet::new(&["secret.txt".into()], true).unwrap();
        assert_eq!(denied(&own, "secret.txt"), (true, true));
        assert_eq!(denied(&own, "x.pem"), (true, true));
    }

    #[test]
    fn a_wildcard_stays_within_its_component() {
        check("*.txt", &["a.txt"], &["d/a.txt"]);
        check(
            "d/*.txt",
            &["d/a.txt"],
            &["a.txt", "d/e/a.txt", "x/d/a.txt"],
        );
        check("d?e", &["dxe"], &["d/e", "de", "dxxe"]);
        check("d[!x]e", &["dye"], &["dxe", "de"]);
        check("{a,b}/c", &["a/c", "b/c"], &["c/c"]);
        check("**/a/**/z", &["a/z", "q/a/b/c/z"], &["a", "z"]);
        // On Windows, a backslash separates the parts of a path.
        #[cfg(not(windows))]
        check("\\*.txt", &["*.txt"], &["a.txt"]);
    }

    #[test]
    fn everything_in_a_directory_includes_the_directory() {
        check("d/**", &["d", "d/f", "d/e/f"], &["de", "x/d", "x/d/f"]);
        check("**/d/**", &["d", "x/d", "x/d/f"], &["de", "xd/f"]);
        check("**", &["a", "a/b"], &[]);
        check("d/**/**", &["d", "d/f"], &["e"]);
        assert!(
            set(&["**"])
                .denies(Path::new(ROOT), Path::new(""))
                .is_some()
        );
        let absolute = set(&["/home/user/project/**"]);
        assert!(absolute.denies(Path::new(ROOT), Path::new("")).is_some());
    }

    #[test]
    fn absolute_patterns_match_absolute_paths() {
        check(
            "/home/user/project/private/**",
            &["private", "private/x"],
            &["x/private"],
        );
        check("/home/*/project/*.cfg", &["a.cfg"], &["d/a.cfg"]);
        check("/", &[], &["a"]);
        // A root inside a denied directory is denied as a whole.
        let set = set(&["**/user/**"]);
        assert_eq!(denied(&set, "any/file"), (true, true));
        assert!(
            set.denies_path_or_parent(Path::new(ROOT), Path::new(""))
                .is_some()
        );
    }

    #[test]
    fn a_denied_directory_denies_what_is_in_it() {
        let set = set(&["**/vault", "top"]);
        assert_eq!(denied(&set, "a/vault"), (true, true));
        assert_eq!(denied(&set, "a/vault/b/c"), (false, true));
        assert_eq!(denied(&set, "top/x"), (false, true));
        assert_eq!(denied(&set, "a/vaults/b"), (false, false));
        let absolute = Path::new(ROOT).join("a/vault/b");
        let by = set.denies_path_or_parent(&absolute, Path::new("a/vault/b"));
        assert_eq!(by, Some("**/vault"));
        // Directories above the root are not checked: the configuration allows the root.
        let above = DenySet::new(&["**/user".into()], false).unwrap();
        assert_eq!(denied(&above, "x"), (false, false));
    }

    #[test]
    fn spellings_of_one_pattern_mean_the_same() {
        for pattern in ["./d/f", "d//f", "d/./f", "d/f/", "d/f"] {
            check(pattern, &["d/f"], &["f", "d"]);
        }
        check("d/", &["d"], &["e"]);
        check(".//./d/**/", &["d", "d/x"], &["e"]);
    }

    #[test]
    fn a_wildcard_for_one_character_matches_one_character() {
        check(
            "key?.txt",
            &["key1.txt", "keyé.txt", "key語.txt"],
            &["key.txt", "keyéé.txt"],
        );
        check("key[!0-9].txt", &["keyä.txt", "keyx.txt"], &["key1.txt"]);
        check("é?", &["éx"], &["é", "e1"]);
        check("**/g?heim/**", &["a/gëheim/f"], &["a/gxxheim/f"]);
    }

    #[cfg(unix)]
    #[test]
    fn names_that_are_not_utf_8_are_denied_too() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;

        let defaults = DenySet::new(&["k?y".into()], true).unwrap();
        for name in [
            &b"bad\xff.key"[..],
            b"d\xff/.ssh/\xfe",
            b"id_rsa\xff",
            b"\xf0\x9f.pem",
            b"k\xe9y",
        ] {
            let relative = Path::new(OsStr::from_bytes(name));
            let absolute = Path::new(ROOT).join(relative);
            assert!(
                defaults.denies(&absolute, relative).is_some(),
                "{relative:?}"
            );
            assert!(
                defaults
                    .denies_path_or_parent(&absolute, relative)
                    .is_some()
            );
        }
        let harmless = Path::new(OsStr::from_bytes(b"bad\xff.keys"));
        assert!(
            defaults
                .denies(&Path::new(ROOT).join(harmless), harmless)
                .is_none()
        );
    }

    #[test]
    fn invalid_and_useless_patterns_are_refused() {
        for (pattern, words) in [
            ("a[", "character class"),
            ("{a,b", "alternate"),
            #[cfg(not(windows))]
            ("a\\", "dangling"),
            ("", "is empty"),
            ("  ", "is empty"),
            ("a\0", "NUL"),
            ("../x", "`..`"),
            ("a/../b", "`..`"),
            ("./", "names no path"),
        ] {
            let error = DenySet::new(&["fine".into(), pattern.into()], true).unwrap_err();
            assert_eq!(error.pattern, pattern);
            assert!(error.message.contains(words), "{pattern}: {error}");
        }
    }

    #[test]
    fn patterns_are_listed_in_one_order_whatever_the_order_given() {
        let one = set(&["b", "a", "b"]);
        let other = set(&["a", "b"]);
        assert_eq!(one.patterns(), ["a", "b"]);
        assert_eq!(one.patterns(), other.patterns());
        let defaults = DenySet::new(&["**/*.pem".into()], true).unwrap();
        assert_eq!(defaults.patterns().len(), DEFAULT_DENIES.len());
        assert!(defaults.patterns().is_sorted());
        // The first of several is named, in that order.
        let several = set(&["x*", "**/x", "/home/user/project/x"]);
        let path = Path::new(ROOT).join("x");
        assert_eq!(several.denies(&path, Path::new("x")), Some("**/x"));
    }

    #[test]
    fn patterns_of_windows_take_the_form_of_its_paths() {
        for (pattern, expected) in [
            (r"**\secret\*.key", "**/secret/*.key"),
            (r"\\?\C:\tree\.\x\", "C:/tree/x"),
            (r"C:\\tree", "C:/tree"),
            (r"\\server\share\x", "//server/share/x"),
            (r"\\?\UNC\server\share\x", "//server/share/x"),
            (r"\tree", "/tree"),
        ] {
            assert_eq!(normalize(pattern, true).unwrap(), expected, "{pattern}");
        }
        assert_eq!(normalize("//a//b/", false).unwrap(), "/a/b");
        assert_eq!(normalize(r"a\*b", false).unwrap(), r"a\*b");
    }
}
