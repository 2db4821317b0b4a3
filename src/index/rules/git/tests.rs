//! Tests git's patterns, one by one.

use super::*;

fn parse(text: &[u8]) -> GitRules {
    GitRules::parse(Path::new("/r"), text.split(|byte| *byte == b'\n'))
}

/// Returns true if a file of one line ignores a path; a path that ends with a slash is a directory.
fn ignores(line: &str, path: &str) -> bool {
    let is_dir = path.ends_with('/');
    let path = format!("/r/{}", path.trim_end_matches('/'));
    parse(line.as_bytes())
        .matched(Path::new(&path), is_dir)
        .is_ignore()
}

/// A pattern, paths that it matches, and paths that it does not match.
type Case = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const CASES: &[Case] = &[
    // No bracket expression contains the slash.
    ("/a[!x]b", &["a-b"], &["a/b", "axb"]),
    ("/a[^x]b", &["a-b", "a^b"], &["a/b", "axb"]),
    ("a[/]b", &[], &["a/b", "a[/]b"]),
    ("/a[+-9]b", &["a+b", "a.b", "a0b"], &["a/b"]),
    ("a[[:punct:]/]b", &["a.b"], &["a/b"]),
    // The content of bracket expressions.
    ("[]a]", &["]", "a"], &["b", "[]a]"]),
    ("[!]a]", &["b"], &["]", "a"]),
    ("[a-]", &["a", "-"], &["b"]),
    ("[a-c-e]", &["a", "b", "c", "-", "e"], &["d"]),
    (r"[\]-a]", &["]", "^", "_", "a"], &["\\", "b"]),
    (r"[a-\c]", &["a", "b", "c"], &["\\"]),
    ("[z-ab]", &["z", "b"], &["a", "-", "[z-ab]"]),
    ("[[:alpha:]_]", &["a", "Z", "_"], &["0", ":"]),
    ("[[:digit:]-z]", &["0", "-", "z"], &["a", ":"]),
    ("[[:nothing:]]", &[], &["n", "[[:nothing:]]"]),
    ("[[:a]", &["[", ":", "a"], &["b"]),
    ("[[a]", &["[", "a"], &["[a"]),
    // Unclosed bracket expressions match nothing.
    ("a[", &[], &["a[", "a"]),
    ("a[b", &[], &["a[b", "ab"]),
    ("a[!", &[], &["a[!", "ab"]),
    ("a[]", &[], &["a[]", "a]"]),
    (r"[\]", &[], &["\\", r"[\]"]),
    ("[[:alpha:]", &[], &["a", "[[:alpha:]"]),
    // Lines without a pattern.
    ("!", &[], &["!", "a", "a/"]),
    ("!/", &[], &["!/", "a/"]),
    ("/", &[], &["a", "a/"]),
    ("//", &[], &["a", "a/"]),
    ("", &[], &["a"]),
    ("   ", &[], &["a", " "]),
    ("# a", &[], &["# a", "a"]),
    (" #a", &[" #a"], &["a"]),
    ("\r", &[], &["\r", "a"]),
    // Spaces and escapes at the end.
    ("x  ", &["x"], &["x ", "x  "]),
    (r"x\ ", &["x "], &["x", r"x\ "]),
    (r"x\   ", &["x "], &["x", "x  ", "x   "]),
    (r"x \ ", &["x  "], &["x", "x "]),
    ("x\t", &["x\t"], &["x"]),
    ("x\r", &["x"], &["x\r"]),
    ("x \r", &["x"], &["x ", "x \r"]),
    (r"x\", &[], &["x", r"x\"]),
    (r"nm\/", &[], &["nm/", "nm", r"nm\/"]),
    (r"\a\!\#", &["a!#"], &[r"\a\!\#"]),
    (r"\!x", &["!x", "d/!x"], &["x"]),
    (r"a\/b", &["a/b"], &["d/a/b"]),
    (r"\*", &["*"], &["a", r"\*"]),
    // Rules for directories only.
    ("d/", &["d/", "a/d/"], &["d", "d/a"]),
    ("/d/", &["d/"], &["a/d/", "da/"]),
    ("*/", &["d/", "a/d/"], &["d"]),
    // The reach of stars.
    ("*", &["a", "a/b", ".a"], &[]),
    ("a*b", &["ab", "axb", "d/ab"], &["a/b"]),
    ("/a*b", &["ab", "axb"], &["a/b", "d/ab"]),
    ("a/*", &["a/b", "a/b/"], &["a", "a/b/c"]),
    ("a/**", &["a/b", "a/b/c"], &["a", "a/"]),
    ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["ab", "a/xb"]),
    ("**/b", &["b", "x/b", "x/y/b"], &["xb"]),
    ("**/b/c", &["b/c", "x/b/c"], &["b", "xb/c"]),
    ("**", &["a", "a/b"], &[]),
    ("**/", &["a/", "a/b/"], &["a", "a/b"]),
    ("**//", &[], &["a", "a/", "a/b/"]),
    ("/**", &["a", "a/b"], &[]),
    ("****/?a", &["xa", "b/xa", "b/c/xa"], &["a", "xxa"]),
    ("x/***/y", &["x/y", "x/a/b/y"], &["xy"]),
    (r"a/**\/b", &["a/x/b", "a/x/y/b"], &["a/b"]),
    // After a literal beginning, stars are at the beginning of the rest.
    ("a**/b", &["ab", "a/b", "a/x/b", "ax/y/b"], &["b", "axb"]),
    ("x/a**", &["x/a", "x/ab", "x/ab/c"], &["x/b"]),
    ("?**/b", &["a/b", "xy/b"], &["b", "a/x/b"]),
    ("a/?**/b", &["a/x/b", "a/xy/b"], &["a/b", "a/x/y/b"]),
    // Patterns match bytes, and braces are not special.
    ("?", &["a"], &["é", "ab"]),
    ("??", &["é", "ab"], &["a"]),
    ("[é]", &[], &["é"]),
    ("{a,b}", &["{a,b}"], &["a", "b"]),
    ("a+(b)|.^$", &["a+(b)|.^$"], &["aab"]),
    // Rules for extensions.
    (
        "*.rs",
        &[".rs", "a.rs", "a.b.rs", "d/a.rs"],
        &["a.rs.b", "rs", "ars"],
    ),
    ("*.tar.gz", &["a.tar.gz"], &["a.gz", "tar.gz"]),
    ("*.", &["a."], &["a", "a.b"]),
    ("*rs", &["rs", "a.rs"], &["rsa"]),
];

#[test]
fn patterns_match_as_in_git() {
    for (line, matching, others) in CASES {
        for path in *matching {
            assert!(ignores(line, path), "{line:?} does not match {path:?}");
        }
        // On Windows, a backslash separates the parts of a path.
        let is_other_path = |path: &&&str| cfg!(windows) && path.contains('\\');
        for path in others.iter().filter(|path| !is_other_path(path)) {
            assert!(!ignores(line, path), "{line:?} matches {path:?}");
        }
    }
}

#[test]
fn the_last_matching_rule_of_git_decides() {
    let rules = parse(b"*.log\n!keep.log\nlast/\n!/d/last\n/d/keep.log\nx\0y\n\xff*\n");
    let says = |path: &str, is_dir| rules.matched(&Path::new("/r").join(path), is_dir);
    assert!(says("a.log", false).is_ignore());
    assert!(says("keep.log", false).is_whitelist());
    assert!(says("d/keep.log", false).is_ignore());
    assert!(says("last", true).is_ignore());
    assert!(says("last", false).is_none());
    assert!(says("d/last", true).is_whitelist());
    // A NUL ends a pattern.
    assert!(says("x", false).is_ignore());
    assert!(rules.matched(Path::new("/other/a.log"), false).is_none());
    assert!(rules.matched(Path::new("/rest/a.log"), false).is_none());
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(std::ffi::OsStr::from_bytes(b"/r/\xffa"));
        assert!(rules.matched(path, false).is_ignore());
    }
}

#[test]
fn ignore_rules_at_the_root_of_the_filesystem_count() {
    let rules = GitRules::parse(Path::new("/"), [&b"/a"[..]].into_iter());
    assert!(rules.matched(Path::new("/a"), false).is_ignore());
    assert!(rules.matched(Path::new("/b/a"), false).is_none());
}

#[test]
fn hostile_ignore_patterns_take_linear_time() {
    let many = "**/".repeat(300) + "x";
    assert!(!ignores(&many, &"a/".repeat(300)));
    let stars = "*a".repeat(300) + "b";
    assert!(!ignores(&stars, &"a".repeat(200)));
    assert!(ignores(&("?".repeat(200) + "*"), &"a".repeat(200)));
}
