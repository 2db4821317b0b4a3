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
fn each_path_with_a_withheld_name_contains_the_text_of_a_pattern() {
    let texts = DEFAULT_DENIES.map(longest_text);
    assert_eq!(texts, [".ssh", ".gnupg", "id_rsa", ".pem", ".key"]);
    // Only wildcards and separators are removed, so no other syntax may occur.
    let others = DEFAULT_DENIES.concat();
    assert!(!others.contains(['?', '[', '{', '\\']), "{others}");
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
