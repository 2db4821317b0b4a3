//! Tests of parsing.

use super::*;

fn args(typed: &[&str]) -> Args {
    let typed: Vec<OsString> = typed.iter().map(OsString::from).collect();
    parse(&typed, None).unwrap()
}

fn error(typed: &[&str]) -> String {
    let typed: Vec<OsString> = typed.iter().map(OsString::from).collect();
    parse(&typed, None).unwrap_err()
}

#[test]
fn the_last_flag_wins() {
    assert_eq!(args(&["-i", "-s", "-S"]).case, Case::Smart);
    assert_eq!(
        args(&["--color=always", "--color", "never"]).colour,
        Colour::Never
    );
    assert!(!args(&["--hidden", "--no-hidden"]).hidden);
    assert!(args(&["--no-hidden", "-."]).hidden);
    assert_eq!(args(&["-l", "-c"]).mode, Mode::Count);
    assert_eq!(args(&["--files", "-l"]).mode, Mode::FilesWithMatches);
    assert_eq!(args(&["--json", "--no-json"]).mode, Mode::Lines);
    assert_eq!(args(&["-c", "--no-json"]).mode, Mode::Count);
    assert_eq!(args(&["-w", "-x"]).boundary, Some(Boundary::Line));
    assert_eq!(args(&["-A1", "-A", "2"]).context, args(&["-A2"]).context);
    assert_eq!(args(&["-M5", "-M0"]).max_columns, None);
    assert!(args(&["--sort", "path", "--sort=none"]).sort.is_none());
}

#[test]
fn flags_undo_flags_that_contradict_them() {
    let both = args(&["--crlf", "--null-data"]);
    assert_eq!((both.crlf, both.null_data), (false, true));
    let both = args(&["--null-data", "--crlf"]);
    assert_eq!((both.crlf, both.null_data), (true, false));
    let both = args(&["-U", "--stop-on-nonmatch"]);
    assert_eq!((both.multiline, both.stop_on_nonmatch), (false, true));
    let both = args(&["-z", "--pre", "cat"]);
    assert_eq!((both.search_zip, both.pre.is_some()), (false, true));
    let both = args(&["--pre", "cat", "-z"]);
    assert_eq!((both.search_zip, both.pre.is_some()), (true, false));
    assert!(args(&["--pre", "cat", "--no-pre"]).pre.is_none());
    assert!(
        args(&["--no-context-separator"])
            .context_separator
            .is_none()
    );
}

#[test]
fn context_is_the_most_specific_number() {
    let lines = |typed: &[&str]| {
        let Context { all, lines } = args(typed).context;
        assert!(!all);
        (lines.before(), lines.after())
    };
    assert_eq!(lines(&["-A1", "-C5"]), (5, 1));
    assert_eq!(lines(&["-C5", "-B0"]), (0, 5));
    assert_eq!(lines(&["--passthru", "-A3"]), (0, 3));
    assert_eq!(args(&["-A3", "--passthru"]).context, Context::all());
}

#[test]
fn each_repetition_of_u_filters_less() {
    let one = args(&["-u"]);
    assert!(one.no_ignore_vcs && one.no_ignore_dot && !one.hidden && !one.no_ignore_files);
    let two = args(&["-uu"]);
    assert!(two.hidden && two.binary == Binary::Auto);
    assert_eq!(args(&["-uuu"]).binary, Binary::Search);
    assert_eq!(
        error(&["-uuuu"]),
        "error parsing flag -u: flag can only be repeated up to 3 times"
    );
}

#[test]
fn all_that_follows_two_hyphens_is_positional() {
    let args = args(&["-e", "-a", "b", "--", "-c"]);
    assert_eq!(args.patterns, [PatternSource::Text("-a".to_string())]);
    assert_eq!(args.positional, ["b", "-c"]);
}

#[test]
fn errors_name_the_flag_as_it_was_typed() {
    assert_eq!(error(&["-Z"]), "unrecognized flag -Z");
    assert!(error(&["--hiden"]).starts_with("unrecognized flag --hiden\n\nsimilar flags"));
    assert!(error(&["-A"]).starts_with("missing value for flag -A: "));
    assert!(error(&["-Ax"]).starts_with("error parsing flag -A: value is not a valid number: "));
    assert!(error(&["--hidden=x"]).starts_with("invalid CLI arguments: "));
    assert_eq!(
        error(&["--sort", "x"]),
        "error parsing flag --sort: choice 'x' is unrecognized"
    );
    assert_eq!(
        error(&["--engine=x"]),
        "error parsing flag --engine: unrecognized regex engine 'x'"
    );
    let colours = "error parsing flag --colors: unrecognized style attribute ''";
    assert!(error(&["--colors=match:style:"]).starts_with(colours));
}

#[test]
fn a_configuration_file_has_one_argument_a_line() {
    let reporter = Args::default().reporter();
    let file = b"# comment\n--context=1\n   -i \n\n\t\n-e\nfoo bar\r\n";
    let found = configured(file, Path::new("x"), &reporter);
    assert_eq!(found, ["--context=1", "-i", "-e", "foo bar"]);
}

#[test]
fn the_command_line_wins_over_the_configuration_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rc");
    fs::write(&file, "--hidden\n-i\n").unwrap();
    let parsed = |typed: &[&str]| {
        let typed: Vec<OsString> = typed.iter().map(OsString::from).collect();
        parse(&typed, Some(&file)).unwrap()
    };
    let configured = parsed(&["-s"]);
    assert!(configured.hidden && configured.case == Case::Sensitive);
    assert!(!parsed(&["--no-config"]).hidden);
}
