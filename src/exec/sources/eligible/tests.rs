use super::*;

fn globs(include: &[&str], exclude: &[&str]) -> Result<Globs, GlobError> {
    let own = |globs: &[&str]| {
        globs
            .iter()
            .map(|glob| glob.to_string())
            .collect::<Vec<_>>()
    };
    Globs::new(&own(include), &own(exclude))
}

#[test]
fn globs_are_gitignore_syntax_anchored_at_the_root() {
    let kept = |include: &[&str], exclude: &[&str], path: &str| {
        globs(include, exclude)
            .unwrap()
            .keep(Path::new(path), false)
    };
    assert!(kept(&["*.rs"], &[], "src/a.rs"));
    assert!(!kept(&["*.rs"], &[], "src/a.c"));
    assert!(kept(&["/src/*.rs"], &[], "src/a.rs"));
    assert!(!kept(&["/src/*.rs"], &[], "lib/src/a.rs"));
    assert!(kept(&["src/"], &[], "src/deep/a.rs"));
    assert!(!kept(&["*.rs", "!gen.rs"], &[], "gen.rs"));
    assert!(!kept(&["*.rs"], &["gen*"], "gen.rs"));
    assert!(kept(&[], &["gen*"], "main.rs"));
    assert!(
        !globs(&[], &["target/"])
            .unwrap()
            .keep(Path::new("target"), true)
    );
    assert!(kept(&[], &["target/"], "target"));
}

#[test]
fn the_same_globs_have_one_key_and_others_have_another() {
    let key =
        |include: &[&str], exclude: &[&str]| globs(include, exclude).unwrap().key().to_owned();
    assert_eq!(key(&["a", "b"], &["c"]), key(&["a", "b"], &["c"]));
    let all = [
        key(&["a", "b"], &["c"]),
        key(&["b", "a"], &["c"]),
        key(&["a"], &["b", "c"]),
        key(&["a\", \"b"], &["c"]),
        key(&["a"], &[]),
        key(&[], &["a"]),
        key(&[], &[]),
    ];
    let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
}

#[test]
fn useless_globs_are_refused() {
    for (include, word) in [
        ("", "empty"),
        ("  ", "empty"),
        ("#x", "comment"),
        ("a[", "invalid"),
        ("!a", "undoes an earlier glob"),
    ] {
        let error = globs(&[include], &[]).unwrap_err();
        assert_eq!(error.field, "include_glob");
        assert!(error.message.contains(word), "{error}");
    }
    assert_eq!(globs(&[], &["{a"]).unwrap_err().field, "exclude_glob");
}
