//! The ordering key of paths.
//!
//! This module owns the order in which files are enumerated, searched, cut and shown: the *emission
//! order*. All code that depends on the order compares paths through it, so that two layers never
//! disagree. It knows paths as bytes. It does not know their content, and does not touch the
//! filesystem.
//!
//! The key is the path relative to the search's order root, with `/` between the components,
//! invalid UTF-8 replaced by U+FFFD, in Unicode Normalization Form C. Keys compare bytewise, so the
//! order is the same on every platform and in every locale. A path sorts before all paths that it
//! is a prefix of.
//!
//! The key alone is not unique. On a filesystem that stores names as bytes, a composed and a
//! decomposed `é` are two files with one key; so are two names that differ only in invalid bytes.
//! [`cmp_paths`] breaks such ties by the raw bytes of the path, which makes the order total.
//!
//! # Sorting one directory at a time
//!
//! `/` is a starter that composes with nothing, and it ends every UTF-8 sequence. Normalization and
//! replacement therefore never reach across it: the key of a path *is* the `/`-join of its
//! components' keys. A walk that orders the entries of each directory by [`component_key`], with
//! `/` appended for directories, visits files in the order of [`sort_key`] without having seen the
//! rest of the tree.
//!
//! One case needs care: sibling directories with *equal* component keys. Their files interleave
//! (`é/a` of one, `é/b` of the other, `é/c` of the first), so a walk has to enter such twins
//! together and merge their entries by [`cmp_paths`].

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ffi::OsStr;
use std::path::{MAIN_SEPARATOR, Path};

use crate::format::nfc::normalize;

/// Returns the ordering key of `rel`, a path relative to the order root.
///
/// The path is used as it is written. It should contain no `.` or `..` components, and no doubled
/// or trailing separators. Nothing is allocated for valid UTF-8 in Normalization Form C, which
/// nearly all paths are. The key is for comparisons; it need not name a file.
///
/// # Examples
///
/// ```
/// use std::path::Path;
/// use forge_search::internal::format::sort_key::sort_key;
///
/// assert_eq!(sort_key(Path::new("src/main.rs")), "src/main.rs");
/// // A decomposed name has the key of its composed twin.
/// assert_eq!(sort_key(Path::new("cafe\u{301}")), "caf\u{e9}");
/// ```
pub fn sort_key(rel: &Path) -> Cow<'_, str> {
    let key = normalize(rel.as_os_str().to_string_lossy());
    if MAIN_SEPARATOR == '/' {
        return key;
    }
    if key.contains(MAIN_SEPARATOR) {
        Cow::Owned(key.replace(MAIN_SEPARATOR, "/"))
    } else {
        key
    }
}

/// Returns the ordering key of one path component: its share of the [`sort_key`] of any path that
/// contains it.
///
/// To order the entries of one directory, append `/` to the key of each entry that is itself a
/// directory.
///
/// # Examples
///
/// ```
/// use std::ffi::OsStr;
/// use forge_search::internal::format::sort_key::component_key;
///
/// let directory = format!("{}/", component_key(OsStr::new("lib")));
/// // "lib-old" sorts before everything in "lib", "lib0" after it.
/// assert!(component_key(OsStr::new("lib-old")).as_ref() < directory.as_str());
/// assert!(directory.as_str() < component_key(OsStr::new("lib0")).as_ref());
/// ```
pub fn component_key(name: &OsStr) -> Cow<'_, str> {
    normalize(name.to_string_lossy())
}

/// Compares two relative paths in emission order: bytewise by [`sort_key`], then by the raw bytes
/// of the paths.
///
/// The order is total: two paths are equal only if they have the same bytes. (On a system where
/// paths are not bytes, the platform's own encoding replaces the bytes.)
///
/// # Examples
///
/// ```
/// use std::cmp::Ordering;
/// use std::path::Path;
/// use forge_search::internal::format::sort_key::cmp_paths;
///
/// assert_eq!(cmp_paths(Path::new("a"), Path::new("a/b")), Ordering::Less);
/// assert_eq!(cmp_paths(Path::new("a.rs"), Path::new("a/b")), Ordering::Less);
/// assert_eq!(cmp_paths(Path::new("B"), Path::new("a")), Ordering::Less);
/// ```
pub fn cmp_paths(a: &Path, b: &Path) -> Ordering {
    let raw_a = a.as_os_str().as_encoded_bytes();
    let raw_b = b.as_os_str().as_encoded_bytes();
    // Most comparisons are of two plain names; their raw bytes are their keys.
    if MAIN_SEPARATOR == '/' && raw_a.is_ascii() && raw_b.is_ascii() {
        return raw_a.cmp(raw_b);
    }
    sort_key(a)
        .as_bytes()
        .cmp(sort_key(b).as_bytes())
        .then_with(|| raw_a.cmp(raw_b))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;
    use unicode_normalization::UnicodeNormalization;

    use super::*;

    /// A relative path of raw bytes.
    #[cfg(unix)]
    fn raw(bytes: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        PathBuf::from(OsStr::from_bytes(bytes))
    }

    fn sorted(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
        paths.sort_by(|a, b| cmp_paths(a, b));
        paths
    }

    #[test]
    fn plain_and_composed_paths_are_not_copied() {
        for path in [
            "",
            "a",
            "src/main.rs",
            "caf\u{e9}/\u{17f}",
            "日本/語",
            "src/\u{1f980}.rs",
        ] {
            assert!(
                matches!(sort_key(Path::new(path)), Cow::Borrowed(key) if key == path),
                "{path}"
            );
        }
    }

    #[test]
    fn order_is_bytewise_over_slash_separated_keys() {
        let path = |components: &[&str]| components.iter().collect::<PathBuf>();
        let expected = vec![
            path(&["B.rs"]),
            path(&["a"]),
            path(&["a b"]),
            path(&["a-b", "c"]),
            path(&["a.rs"]),
            path(&["a", "b"]),
            path(&["a", "b", "c"]),
            path(&["a0"]),
            path(&["aa"]),
            path(&["b"]),
            path(&["z"]),
            path(&["\u{e9}"]),
            path(&["\u{65e5}"]),
            path(&["\u{1f980}"]),
        ];
        let mut shuffled = expected.clone();
        shuffled.reverse();
        shuffled.swap(1, 7);
        assert_eq!(sorted(shuffled), expected);
        assert_eq!(sort_key(&path(&["a", "b", "c"])), "a/b/c");
    }

    #[cfg(unix)]
    #[test]
    fn invalid_bytes_in_names_become_replacement_characters_and_stay_ordered() {
        assert_eq!(sort_key(&raw(b"a\xff/b\xc3\x28")), "a\u{fffd}/b\u{fffd}(");
        assert_eq!(component_key(raw(b"\xe6\x97").as_os_str()), "\u{fffd}");
        let expected = vec![
            raw(b"a"),
            raw(b"a\xc3\xa9"),
            // These three have one key; their bytes decide.
            raw(b"a\xef\xbf\xbd"),
            raw(b"a\xfe"),
            raw(b"a\xff"),
            // U+10000 sorts after U+FFFD, as its UTF-8 does.
            raw("a\u{10000}".as_bytes()),
        ];
        assert_eq!(sort_key(&expected[2]), sort_key(&expected[4]));
        let mut reversed = expected.clone();
        reversed.reverse();
        assert_eq!(sorted(reversed), expected);
    }

    #[test]
    fn composed_and_decomposed_names_share_a_key() {
        let twins = [
            ("caf\u{e9}", "cafe\u{301}"),
            ("\u{ac01}", "\u{1100}\u{1161}\u{11a8}"),
            ("\u{1e69}", "s\u{307}\u{323}"),
            ("\u{3a9}", "\u{2126}"),
        ];
        for (composed, other) in twins {
            assert_eq!(sort_key(Path::new(other)), composed);
            assert_eq!(component_key(OsStr::new(other)), composed);
            assert_eq!(sort_key(Path::new(composed)), composed);
        }
    }

    #[test]
    fn names_that_differ_in_composition_are_neighbours_in_a_total_order() {
        let composed = PathBuf::from("caf\u{e9}");
        let decomposed = PathBuf::from("cafe\u{301}");
        assert_eq!(cmp_paths(&decomposed, &composed), Ordering::Less);
        assert_eq!(cmp_paths(&composed, &decomposed), Ordering::Greater);
        // Raw bytes alone would put "cafe1" between them.
        let between = PathBuf::from("cafe1");
        assert_eq!(
            sorted(vec![composed.clone(), between.clone(), decomposed.clone()]),
            [between, decomposed, composed]
        );
    }

    #[test]
    fn files_of_twin_directories_interleave() {
        let path = |directory: &str, file: &str| Path::new(directory).join(file);
        let (composed, decomposed) = ("\u{e9}", "e\u{301}");
        assert_eq!(
            sorted(vec![
                path(composed, "c"),
                path(decomposed, "b"),
                path(composed, "a")
            ]),
            [
                path(composed, "a"),
                path(decomposed, "b"),
                path(composed, "c")
            ]
        );
    }

    /// Pieces that provoke every branch: separators' neighbours, combining marks, both sides of
    /// compositions, Hangul parts, replacement characters and, where the platform has them, invalid
    /// bytes.
    const PIECES: &[&[u8]] = &[
        b"a",
        b"b",
        b"A",
        b"=",
        b"<",
        b".",
        b"-",
        b"0",
        b" ",
        b"\n",
        b"\\",
        "e".as_bytes(),
        "\u{e9}".as_bytes(),
        "\u{301}".as_bytes(),
        "\u{323}".as_bytes(),
        "\u{338}".as_bytes(),
        "\u{345}".as_bytes(),
        "\u{1100}".as_bytes(),
        "\u{1161}".as_bytes(),
        "\u{11a8}".as_bytes(),
        "\u{ac00}".as_bytes(),
        "\u{2126}".as_bytes(),
        "\u{958}".as_bytes(),
        "\u{fffd}".as_bytes(),
        "\u{1d15e}".as_bytes(),
        #[cfg(unix)]
        b"\xff",
        #[cfg(unix)]
        b"\xe6\x97",
        #[cfg(unix)]
        b"\xcc",
        #[cfg(unix)]
        b"\x81",
    ];

    /// A path component: pieces in any order, never empty, `.` or `..`.
    fn component() -> impl Strategy<Value = PathBuf> {
        prop::collection::vec(prop::sample::select(PIECES), 1..5).prop_filter_map(
            "a special name",
            |pieces| {
                let name = pieces.concat();
                if matches!(name.as_slice(), b"." | b"..")
                    || (MAIN_SEPARATOR != '/' && name.contains(&b'\\'))
                {
                    return None;
                }
                #[cfg(unix)]
                return Some(raw(&name));
                #[cfg(not(unix))]
                return String::from_utf8(name).ok().map(PathBuf::from);
            },
        )
    }

    fn components() -> impl Strategy<Value = Vec<PathBuf>> {
        prop::collection::vec(component(), 1..4)
    }

    fn path() -> impl Strategy<Value = PathBuf> {
        components().prop_map(|components| components.iter().collect())
    }

    /// The order as the specification defines it, without the shortcuts.
    fn reference_key(path: &Path) -> Vec<u8> {
        let text = path.to_string_lossy().nfc().collect::<String>();
        text.replace(MAIN_SEPARATOR, "/").into_bytes()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn key_of_a_path_is_the_join_of_its_component_keys(components in components()) {
            let joined: PathBuf = components.iter().collect();
            let keys: Vec<_> = components.iter().map(|name| component_key(name.as_os_str())).collect();
            prop_assert_eq!(sort_key(&joined), keys.join("/"));
        }

        #[test]
        fn key_equals_the_normative_definition(path in path()) {
            let key = sort_key(&path);
            prop_assert_eq!(key.as_bytes(), reference_key(&path));
            // Normalizing a key changes nothing.
            prop_assert_eq!(sort_key(Path::new(key.as_ref())), key.as_ref());
        }

        #[test]
        fn order_is_by_key_then_by_raw_bytes(a in path(), b in path()) {
            let expected = reference_key(&a)
                .cmp(&reference_key(&b))
                .then_with(|| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
            prop_assert_eq!(cmp_paths(&a, &b), expected);
        }

        #[test]
        fn order_is_total_and_antisymmetric(a in path(), b in path()) {
            prop_assert_eq!(cmp_paths(&a, &b), cmp_paths(&b, &a).reverse());
            prop_assert_eq!(cmp_paths(&a, &b) == Ordering::Equal, a.as_os_str() == b.as_os_str());
            prop_assert_eq!(cmp_paths(&a, &a), Ordering::Equal);
        }

        #[test]
        fn order_is_transitive(a in path(), b in path(), c in path()) {
            let mut three = [a, b, c];
            three.sort_by(|a, b| cmp_paths(a, b));
            prop_assert_ne!(cmp_paths(&three[0], &three[1]), Ordering::Greater);
            prop_assert_ne!(cmp_paths(&three[1], &three[2]), Ordering::Greater);
            prop_assert_ne!(cmp_paths(&three[0], &three[2]), Ordering::Greater);
        }

        #[test]
        fn a_path_sorts_before_everything_below_it(path in path(), below in components()) {
            let longer = below.iter().fold(path.clone(), |path, name| path.join(name));
            prop_assert_eq!(cmp_paths(&path, &longer), Ordering::Less);
        }

        /// The invariant of a walk: the keys of siblings, with `/` after a directory's, order whole
        /// subtrees.
        #[test]
        fn subtrees_follow_the_order_of_their_directories(
            parent in components(),
            a in component(),
            b in component(),
            below_a in components(),
            below_b in prop::option::of(components()),
        ) {
            let parent: PathBuf = parent.iter().collect();
            let key_a = format!("{}/", component_key(a.as_os_str()));
            let mut key_b = component_key(b.as_os_str()).into_owned();
            if below_b.is_some() {
                key_b.push('/');
            }
            prop_assume!(key_a != key_b);
            let in_a = below_a.iter().fold(parent.join(&a), |path, name| path.join(name));
            let in_b = below_b.iter().flatten().fold(parent.join(&b), |path, name| path.join(name));
            prop_assert_eq!(cmp_paths(&in_a, &in_b), key_a.as_bytes().cmp(key_b.as_bytes()));
        }
    }
}
