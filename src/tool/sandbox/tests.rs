//! Tests of path validation, step by step and in order.

use super::*;

struct Place {
    _dir: tempfile::TempDir,
    base: PathBuf,
}

/// `base/work` is the working directory, with `src/lib.rs`, `src/deep/` and `secrets/x`;
/// `base/other` is its sibling, with `f`.
fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let base = fs::canonicalize(dir.path()).unwrap();
    for path in ["work/src/deep", "work/secrets", "other"] {
        fs::create_dir_all(base.join(path)).unwrap();
    }
    for path in ["work/src/lib.rs", "work/secrets/x", "other/f"] {
        fs::write(base.join(path), "text").unwrap();
    }
    Place { _dir: dir, base }
}

impl Place {
    fn sandbox(&self, change: impl FnOnce(&mut SandboxConfig)) -> Sandbox {
        let mut config = SandboxConfig::default();
        change(&mut config);
        Sandbox::new(&config, &self.base.join("work")).unwrap()
    }

    fn text(&self, path: &str) -> String {
        self.base.join(path).to_str().unwrap().to_owned()
    }
}

#[track_caller]
fn assert_outside(result: Result<Resolved, ToolError>, expected: &Path) {
    match result.unwrap_err() {
        ToolError::SandboxViolation(DenialReason::PathOutsideSandbox { resolved, .. }) => {
            assert_eq!(resolved, expected);
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_denied(result: Result<Resolved, ToolError>, expected: &str) {
    match result.unwrap_err() {
        ToolError::SandboxViolation(DenialReason::DeniedPatternMatched { pattern, .. }) => {
            assert_eq!(pattern, expected);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn relative_paths_resolve_against_the_working_directory() {
    let place = place();
    let sandbox = place.sandbox(|_| {});
    for (path, relative) in [
        (None, ""),
        (Some(""), ""),
        (Some("."), ""),
        (Some("./"), ""),
        (Some("src"), "src"),
        (Some("src/"), "src"),
        (Some("./src//deep/."), "src/deep"),
        (Some("src/lib.rs"), "src/lib.rs"),
        (Some("src/none/at/all"), "src/none/at/all"),
        (Some("src/lib.rs/below-a-file"), "src/lib.rs/below-a-file"),
        (Some("~"), "~"),
        (Some("..."), "..."),
    ] {
        let resolved = sandbox.resolve(path).unwrap();
        assert_eq!(resolved.relative, Path::new(relative), "{path:?}");
        assert_eq!(resolved.root.path(), place.base.join("work"));
        let mut expected = place.base.join("work");
        expected.extend(Path::new(relative).components());
        assert_eq!(
            resolved.canonical.as_os_str(),
            expected.as_os_str(),
            "{path:?}"
        );
    }
    assert_eq!(sandbox.working_dir(), place.base.join("work"));
}

#[test]
fn a_path_that_is_no_path_is_a_bad_argument() {
    let sandbox = place().sandbox(|_| {});
    let long = "x/".repeat(20_000);
    for (path, words) in [("a\0b", "NUL"), (long.as_str(), "40000 bytes")] {
        let error = sandbox.resolve(Some(path)).unwrap_err();
        assert_eq!(error.kind(), "BadArgs");
        assert!(error.message().contains(words), "{error}");
    }
}

#[test]
fn step_1_absolute_paths_need_permission() {
    let place = place();
    let inside = place.text("work/src");
    assert_outside(
        place.sandbox(|_| {}).resolve(Some(&inside)),
        Path::new(&inside),
    );
    let permitted = place.sandbox(|config| config.allow_absolute = true);
    assert_eq!(
        permitted.resolve(Some(&inside)).unwrap().relative,
        Path::new("src")
    );
    let slashed = format!("{inside}//./deep/");
    assert_eq!(
        permitted.resolve(Some(&slashed)).unwrap().relative,
        Path::new("src/deep")
    );
}

#[test]
fn step_2_parent_components_are_refused_even_where_they_stay_inside() {
    let sandbox = place().sandbox(|_| {});
    for path in [
        "..",
        "../work",
        "src/..",
        "src/../src",
        "src/deep/../lib.rs",
        "none/../src",
    ] {
        assert_outside(sandbox.resolve(Some(path)), Path::new(path));
        let message = sandbox.resolve(Some(path)).unwrap_err().message();
        assert!(message.contains("`..`"), "{message}");
    }
}

#[test]
fn step_6_a_path_outside_every_root_is_refused() {
    let place = place();
    let sandbox = place.sandbox(|config| config.allow_absolute = true);
    for path in ["other", "other/f", "other/none/at/all", "workbench"] {
        let path = place.text(path);
        assert_outside(sandbox.resolve(Some(&path)), Path::new(&path));
    }
    // The working directory itself need not be an allowed root.
    let elsewhere = place.sandbox(|config| config.allowed_roots = vec![place.base.join("other")]);
    assert_outside(elsewhere.resolve(None), &place.base.join("work"));
    assert_outside(elsewhere.resolve(Some("src")), &place.base.join("work/src"));
}

#[test]
fn step_7_denied_paths_and_what_is_below_them_are_refused() {
    let place = place();
    fs::create_dir_all(place.base.join("work/src/.ssh/deep")).unwrap();
    let sandbox = place.sandbox(|config| config.denied_patterns = vec!["secrets".into()]);
    assert_denied(sandbox.resolve(Some("secrets")), "secrets");
    assert_denied(sandbox.resolve(Some("secrets/x")), "secrets");
    assert_denied(sandbox.resolve(Some("secrets/none/at/all")), "secrets");
    assert_denied(sandbox.resolve(Some("src/.ssh/deep")), "**/.ssh/**");
    assert_denied(sandbox.resolve(Some("src/.ssh")), "**/.ssh/**");
    assert_denied(sandbox.resolve(Some("src/id_rsa")), "**/id_rsa*");
    assert!(sandbox.resolve(Some("src")).is_ok());
    let without = place.sandbox(|config| config.include_default_denies = false);
    assert!(without.resolve(Some("src/.ssh/deep")).is_ok());
    let everything = place.sandbox(|config| config.denied_patterns = vec!["**".into()]);
    assert_denied(everything.resolve(None), "**");
    let reason = sandbox.resolve(Some("secrets/x")).unwrap_err().to_json();
    assert_eq!(reason["error"]["attempted"], "secrets/x");
    assert_eq!(sandbox.reach().deny().patterns().len(), 6);
}

#[test]
fn nested_roots_serve_a_path_through_the_deepest() {
    let place = place();
    let sandbox = place.sandbox(|config| {
        config.allow_absolute = true;
        config.allowed_roots = vec![
            ".".into(),
            "src/deep".into(),
            place.base.join("other"),
            "./src/deep/".into(),
        ];
    });
    let base = &place.base;
    let expected = [
        base.join("work/src/deep"),
        base.join("other"),
        base.join("work"),
    ];
    assert_eq!(sandbox.reach().roots(), expected);
    let deep = sandbox.resolve(Some("src/deep/x")).unwrap();
    assert_eq!(deep.root.path(), base.join("work/src/deep"));
    assert_eq!(deep.relative, Path::new("x"));
    assert_eq!(
        sandbox.resolve(Some("src")).unwrap().root.path(),
        base.join("work")
    );
    let (root, relative) = sandbox.reach().locate(&base.join("other/f")).unwrap();
    assert_eq!(
        (root.path(), relative.as_path()),
        (&*base.join("other"), Path::new("f"))
    );
    assert!(sandbox.reach().locate(base).is_none());
    assert!(sandbox.reach().locate(&base.join("workbench")).is_none());
}

/// A command that names many files of a directory elsewhere has that directory as a root for each
/// file.
#[test]
fn a_root_that_is_named_many_times_is_one() {
    let place = place();
    let sandbox = place.sandbox(|config| {
        config.allowed_roots = vec![place.base.join("other"); 3_000];
        config.denied_patterns = (0..20).map(|n| format!("private-{n}/**")).collect();
    });
    let roots = sandbox.reach().roots();
    assert_eq!(
        roots.into_iter().collect::<Vec<_>>(),
        [place.base.join("other")]
    );
}

#[test]
fn a_root_or_working_directory_that_can_not_be_used_is_a_clear_error() {
    let place = place();
    let work = place.base.join("work");
    for (root, words) in [
        ("none", "`none` can't be used"),
        ("src/lib.rs", "not a directory"),
        ("", "empty entry"),
        ("~/code", "`~` is not expanded"),
    ] {
        let config = SandboxConfig {
            allowed_roots: vec![root.into()],
            ..Default::default()
        };
        let error = Sandbox::new(&config, &work).unwrap_err();
        assert_eq!(error.kind(), "BadArgs");
        assert!(error.message().contains(words), "{error}");
        assert!(error.message().contains("allowed_roots"), "{error}");
    }
    let error = Sandbox::new(&SandboxConfig::default(), &work.join("none")).unwrap_err();
    assert!(error.message().contains("working directory"), "{error}");
    let config = SandboxConfig {
        denied_patterns: vec!["a[".into()],
        ..Default::default()
    };
    let error = Sandbox::new(&config, &work).unwrap_err();
    assert!(error.message().contains("`a[`"), "{error}");
}

#[test]
fn a_root_that_was_made_anew_is_served_and_one_that_is_gone_is_reported() {
    let place = place();
    let sandbox = place.sandbox(|_| {});
    let work = place.base.join("work");
    let before = sandbox.resolve(Some("src")).unwrap();
    fs::rename(&work, place.base.join("moved")).unwrap();
    let gone = sandbox.resolve(Some("src")).unwrap_err();
    assert_eq!(gone.kind(), "ExecutionFailed");
    assert!(gone.message().contains("can no longer be opened"), "{gone}");
    fs::create_dir_all(work.join("src")).unwrap();
    fs::write(work.join("src/new"), "").unwrap();
    let after = sandbox.resolve(Some("src")).unwrap();
    assert!(after.root.open_file(Path::new("src/new")).is_ok());
    // A running call keeps the directory with which it started. Windows only knows its path.
    let kept = before.root.open_file(Path::new("src/lib.rs"));
    assert!(kept.is_ok() || cfg!(windows));
}

#[cfg(unix)]
mod links {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn step_4_links_are_resolved_before_anything_is_compared() {
        let place = place();
        let work = place.base.join("work");
        symlink("src", work.join("inner")).unwrap();
        symlink("../other", work.join("escape")).unwrap();
        symlink("../other/f", work.join("escaping-file")).unwrap();
        symlink("secrets", work.join("open")).unwrap();
        let sandbox = place.sandbox(|config| config.denied_patterns = vec!["secrets/**".into()]);
        let inner = sandbox.resolve(Some("inner/lib.rs")).unwrap();
        assert_eq!(inner.canonical, work.join("src/lib.rs"));
        assert_eq!(inner.relative, Path::new("src/lib.rs"));
        assert_outside(sandbox.resolve(Some("escape")), &place.base.join("other"));
        assert_outside(
            sandbox.resolve(Some("escaping-file")),
            &place.base.join("other/f"),
        );
        assert_denied(sandbox.resolve(Some("open/x")), "secrets/**");
        // A path through a link into an allowed root is valid.
        let both =
            place.sandbox(|config| config.allowed_roots = vec![".".into(), "../other".into()]);
        let other = both.resolve(Some("escape/f")).unwrap();
        assert_eq!(other.root.path(), place.base.join("other"));
    }

    #[test]
    fn step_5_what_does_not_exist_is_rebuilt_under_its_deepest_ancestor() {
        let place = place();
        let work = place.base.join("work");
        symlink("src", work.join("inner")).unwrap();
        symlink("../other", work.join("escape")).unwrap();
        let sandbox = place.sandbox(|_| {});
        let missing = sandbox.resolve(Some("inner/none/x")).unwrap();
        assert_eq!(missing.canonical, work.join("src/none/x"));
        assert_outside(
            sandbox.resolve(Some("escape/none/x")),
            &place.base.join("other/none/x"),
        );
    }

    #[test]
    fn links_that_lead_nowhere_are_left_to_the_opening() {
        let place = place();
        let work = place.base.join("work");
        symlink("../other/none", work.join("dangling")).unwrap();
        symlink("loop", work.join("loop")).unwrap();
        let sandbox = place.sandbox(|_| {});
        for path in ["dangling", "loop", "loop/x"] {
            let resolved = sandbox.resolve(Some(path)).unwrap();
            let error = resolved.root.open_file(&resolved.relative).unwrap_err();
            assert!(error.to_string().contains("symbolic link"), "{error}");
        }
        // The target remains outside, even if it was created meanwhile.
        fs::write(place.base.join("other/none"), "secret").unwrap();
        assert_outside(
            sandbox.resolve(Some("dangling")),
            &place.base.join("other/none"),
        );
    }

    #[test]
    fn roots_and_the_working_directory_may_be_given_through_links() {
        let place = place();
        symlink("work", place.base.join("link")).unwrap();
        let config = SandboxConfig {
            allowed_roots: vec![place.base.join("link")],
            ..Default::default()
        };
        let sandbox = Sandbox::new(&config, &place.base.join("link")).unwrap();
        assert_eq!(sandbox.working_dir(), place.base.join("work"));
        assert_eq!(sandbox.reach().roots(), [place.base.join("work")]);
        assert_eq!(
            sandbox.resolve(Some("src")).unwrap().relative,
            Path::new("src")
        );
    }

    #[test]
    fn a_swap_between_validation_and_opening_is_noticed() {
        let place = place();
        let work = place.base.join("work");
        let sandbox = place.sandbox(|_| {});
        let resolved = sandbox.resolve(Some("src/lib.rs")).unwrap();
        fs::rename(work.join("src"), work.join("src-before")).unwrap();
        fs::write(place.base.join("other/lib.rs"), "secret").unwrap();
        symlink("../other", work.join("src")).unwrap();
        let error = resolved.root.open_file(&resolved.relative).unwrap_err();
        assert_eq!(error.to_string(), "is or passes through a symbolic link");
    }

    /// Each path breaks several rules; the first rule broken is the one reported.
    #[test]
    fn the_steps_are_taken_in_order() {
        let place = place();
        let work = place.base.join("work");
        symlink("../other", work.join("escape")).unwrap();
        symlink("secrets", work.join("open")).unwrap();
        let configure = |allow_absolute: bool| {
            place.sandbox(|config| {
                config.denied_patterns = vec!["**/other/**".into(), "**/secrets/**".into()];
                config.allow_absolute = allow_absolute;
            })
        };
        let other = place.base.join("other");
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        // (absolute paths allowed, path, what it is reported to lead to; `Err` names a pattern)
        let table: Vec<(bool, String, Result<PathBuf, &str>)> = vec![
            // The check of the text comes before all others: see the assertion below.
            // 1 before 2, 6 and 7: the path is reported as written, not even canonicalized.
            (
                false,
                text(&work.join("escape/../f")),
                Ok(work.join("escape/../f")),
            ),
            (
                false,
                text(&work.join("escape/f")),
                Ok(work.join("escape/f")),
            ),
            (
                false,
                text(&work.join("secrets/x")),
                Ok(work.join("secrets/x")),
            ),
            // 2 before 4, 6 and 7.
            (
                true,
                text(&other.join("../other/f")),
                Ok(other.join("../other/f")),
            ),
            (
                false,
                "escape/../secrets".into(),
                Ok("escape/../secrets".into()),
            ),
            (false, "secrets/../src".into(), Ok("secrets/../src".into())),
            // 3 and 4 before 6: the canonical path is compared.
            (false, "escape/f".into(), Ok(other.join("f"))),
            // 5 before 6.
            (false, "escape/none".into(), Ok(other.join("none"))),
            // 6 before 7: outside and denied.
            (true, text(&other.join("f")), Ok(other.join("f"))),
            (false, "escape".into(), Ok(other.clone())),
            // 7 last, on the canonical path.
            (false, "open/x".into(), Err("**/secrets/**")),
            (true, text(&work.join("open/none")), Err("**/secrets/**")),
        ];
        for (allow_absolute, path, expected) in table {
            let result = configure(allow_absolute).resolve(Some(&path));
            match expected {
                Ok(resolved) => assert_outside(result, &resolved),
                Err(pattern) => assert_denied(result, pattern),
            }
        }
        let nul = configure(false).resolve(Some("/../\0")).unwrap_err();
        assert_eq!(nul.kind(), "BadArgs");
    }
}

proptest::proptest! {
    /// Every result lies inside a root and is canonical, for any spelling of the path.
    #[test]
    fn no_path_leads_out(path in "(/|\\.|\\.\\.|src|deep|secrets|lib\\.rs|~|\\PC){0,12}") {
        let place = place();
        let sandbox = place.sandbox(|config| config.allow_absolute = true);
        if let Ok(resolved) = sandbox.resolve(Some(&path)) {
            let work = place.base.join("work");
            assert_eq!(resolved.root.path(), work);
            assert!(resolved.canonical.starts_with(&work), "{path}");
            assert!(!resolved.canonical.components().any(|part| part == Component::ParentDir));
            assert_eq!(work.join(&resolved.relative), resolved.canonical);
        }
    }
}
