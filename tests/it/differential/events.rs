//! Compares the events of generated requests on real sources with ripgrep's.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use forge_search::internal::format::sort_key::cmp_paths;
use forge_search::internal::tool::response::ErrorEntry;
use serde_json::{Value, json};

use super::Seeded;
use super::rg::{Event, Ripgrep, parse_json};
use super::sources;
use crate::index_support::{self, Tally, VARIANTS};
use crate::support::{Setup, Tree, seeds, step};

/// A piece of an expression.
#[derive(Clone, Debug)]
enum Piece {
    /// Text, which is escaped, and folded if the search ignores case.
    Text(String),
    /// A piece of an expression without letters that fold.
    Raw(&'static str),
}

/// A generated request, as JSON and as arguments of ripgrep.
#[derive(Debug)]
struct Case {
    pieces: Vec<Piece>,
    literal: bool,
    /// Whether the expression can match a carriage return. ripgrep treats it as text.
    sees_carriage_return: bool,
    insensitive: bool,
    word: bool,
    dir: String,
    request: Value,
    args: Vec<String>,
}

/// The pattern for a request.
fn plain(pieces: &[Piece], literal: bool) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) if literal => text.clone(),
            Piece::Text(text) => regex::escape(text),
            Piece::Raw(raw) => raw.to_string(),
        })
        .collect()
}

/// The pattern as an expression, with ASCII folding spelled out.
fn folded(pieces: &[Piece]) -> String {
    let mut out = String::new();
    for piece in pieces {
        match piece {
            Piece::Raw(raw) => out.push_str(raw),
            Piece::Text(text) => {
                for c in text.chars() {
                    if c.is_ascii_alphabetic() {
                        out.push_str(&format!(
                            "[{}{}]",
                            c.to_ascii_lowercase(),
                            c.to_ascii_uppercase()
                        ));
                    } else {
                        out.push_str(&regex::escape(&c.to_string()));
                    }
                }
            }
        }
    }
    out
}

/// The tree, the words and lines for patterns, and the files with carriage returns.
struct World {
    tree: Tree,
    crates: Vec<String>,
    lines: Vec<String>,
    words: Vec<String>,
    with_carriage_returns: BTreeSet<PathBuf>,
}

fn collect(dir: &Path, root: &Path, world: &mut World) {
    let mut entries: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, root, world);
            continue;
        }
        let content = fs::read(&path).unwrap();
        if content.contains(&b'\r') {
            let below = path.strip_prefix(root).unwrap().to_path_buf();
            world.with_carriage_returns.insert(below);
        }
        let text = String::from_utf8_lossy(&content);
        for (n, line) in text.lines().enumerate() {
            if n % 61 == 7 && line.trim().chars().count() > 8 && !line.contains('\u{FFFD}') {
                world.lines.push(line.trim().to_string());
            }
            if n % 97 == 3 {
                let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
                world
                    .words
                    .extend(words.filter(|word| word.len() > 3).map(str::to_string));
            }
        }
    }
}

fn world() -> World {
    let tree = sources::tree();
    let root = tree.root().to_path_buf();
    let mut crates: Vec<String> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    crates.sort();
    let mut world = World {
        tree,
        crates,
        lines: Vec::new(),
        words: Vec::new(),
        with_carriage_returns: BTreeSet::new(),
    };
    collect(&root, &root, &mut world);
    world
}

/// Returns a random substring of a line of the tree, or `fn ` instead of a blank one.
fn substring(rng: &mut Seeded, lines: &[String]) -> String {
    let line: Vec<char> = rng.pick(lines).chars().collect();
    let length = 3 + rng.below(10.min(line.len() - 3));
    let start = rng.below(line.len() - length + 1);
    let text: String = line[start..start + length].iter().collect();
    if text.trim().is_empty() {
        "fn ".to_string()
    } else {
        text
    }
}

/// Returns the pieces of a pattern, whether it is a literal, and whether it can match a carriage
/// return.
fn pattern(
    rng: &mut Seeded,
    world: &World,
    word: bool,
    rich_words: bool,
) -> (Vec<Piece>, bool, bool) {
    use Piece::{Raw, Text};
    let mut token = || Text(rng.pick(&world.words));
    let (mut a, mut b, c) = (token(), token(), token());
    if rng.one_in(2) {
        // Two words of one line, in their order.
        let line = rng.pick(&world.lines);
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let words: Vec<&str> = words.filter(|word| word.len() > 1).collect();
        if let [first, .., last] = words[..] {
            (a, b) = (Text(first.to_string()), Text(last.to_string()));
        }
    }
    if word && !rich_words {
        // All versions of ripgrep agree if the pattern has whole words at both ends.
        let either = vec![Raw("(?:"), a.clone(), Raw("|"), b, Raw(")")];
        let literal = vec![a.clone()];
        return match rng.below(3) {
            0 => (literal, true, false),
            1 => (vec![a], false, false),
            _ => (either, false, false),
        };
    }
    match rng.below(22) {
        19..=21 | 0..=5 => (vec![Text(substring(rng, &world.lines))], true, false),
        6 => (vec![Text(substring(rng, &world.lines))], false, false),
        7 => (vec![Raw(r"\b"), a, Raw(r"\b")], false, false),
        8 => (vec![a, Raw(r"\w*")], false, false),
        9 => (
            vec![Raw("(?:"), a, Raw("|"), b, Raw("|"), c, Raw(")")],
            false,
            false,
        ),
        10 => (vec![Text("fn".into()), Raw(r"[ ]+\w*?"), a], false, false),
        11 => (
            vec![
                Raw("^"),
                Text("use ".into()),
                Raw(r"[^;]*"),
                Text(";".into()),
            ],
            false,
            true,
        ),
        12 => (vec![Raw(r"^\s+"), a], false, true),
        13 => (vec![a, Raw(r".*"), b], false, true),
        14 => (vec![Raw(r"\d{2,}[.]\d+")], false, false),
        15 => (
            vec![
                Text("\"".into()),
                Raw("[^\"]*"),
                a,
                Raw("[^\"]*"),
                Text("\"".into()),
            ],
            false,
            true,
        ),
        16 => (vec![a, Raw(r"\W+"), b], false, true),
        17 => (vec![Raw(r"^[}\])]+;?$")], false, true),
        _ => (vec![Raw(r"\p{Lu}\p{Ll}+_"), a], false, false),
    }
}

/// Generates a request. With `rich_words`, `word_regexp` may come with any pattern.
fn case(rng: &mut Seeded, world: &World, rich_words: bool) -> Case {
    let word = rng.one_in(5);
    let (pieces, literal, sees_carriage_return) = pattern(rng, world, word, rich_words);
    let text = plain(&pieces, literal);
    let mode = rng.pick(&["sensitive", "insensitive", "smart"]);
    let insensitive = match mode {
        "sensitive" => false,
        "insensitive" => true,
        _ => !text.chars().any(|c| c.is_ascii_uppercase()),
    };
    // `\p{Lu}` folds its ASCII letters here. ripgrep has no equivalent expression.
    let (mode, insensitive) = match text.contains(r"\p{Lu}") {
        true => ("sensitive", false),
        false => (mode, insensitive),
    };
    let mut request = json!({
        "pattern": text, "fixed_strings": literal, "word_regexp": word, "case": mode,
    });
    let mut args: Vec<String> = ["--json", "--case-sensitive"].map(str::to_string).to_vec();
    let mut set = |key: &str, value: Value, flags: &[String]| {
        request[key] = value;
        args.extend_from_slice(flags);
    };
    let flag = |flag: &str| vec![flag.to_string()];
    if word {
        set("word_regexp", true.into(), &flag("--word-regexp"));
    }
    let dir = match rng.below(3) {
        0 | 1 => String::new(),
        _ => rng.pick(&world.crates),
    };
    let mut hidden = rng.one_in(3);
    let mut no_ignore = rng.one_in(3);
    if rng.one_in(4) {
        let context = 1 + rng.below(4);
        set(
            "context",
            context.into(),
            &flag(&format!("--context={context}")),
        );
    }
    if rng.one_in(4) {
        let most = 1 + rng.below(4);
        set(
            "max_matches_per_file",
            most.into(),
            &flag(&format!("--max-count={most}")),
        );
    }
    if rng.one_in(6) {
        let size = 500 + rng.below(20_000);
        set(
            "max_file_size_bytes",
            size.into(),
            &flag(&format!("--max-filesize={size}")),
        );
    }
    if rng.one_in(12) {
        set("recursive", false.into(), &flag("--max-depth=1"));
    }
    if rng.one_in(4) {
        let glob = rng.pick(&[
            "*.rs",
            "src/",
            "**/tests/**",
            "*.{toml,md}",
            "/src/*.rs",
            "[A-L]*",
            "lib*",
        ]);
        set(
            "exclude_glob",
            json!([glob]),
            &flag(&format!("--glob=!{glob}")),
        );
    } else if rng.one_in(4) {
        // In ripgrep, an include glob brings back ignored and hidden files, so this request
        // includes both.
        (hidden, no_ignore) = (true, true);
        // Here a glob that matches a directory includes all of it, as in an ignore file. ripgrep
        // differs.
        let glob = rng.pick(&[
            "*.rs",
            "*.{toml,md}",
            "**/src/**/*.rs",
            "[A-L]*.md",
            "*_*.rs",
        ]);
        set(
            "include_glob",
            json!([glob]),
            &flag(&format!("--glob={glob}")),
        );
    }
    if hidden {
        set("hidden", true.into(), &flag("--hidden"));
    }
    if no_ignore {
        set("no_ignore", true.into(), &flag("--no-ignore"));
    }
    if !dir.is_empty() {
        request["path"] = dir.clone().into();
    }
    let spelled = if insensitive { folded(&pieces) } else { text };
    if literal && !insensitive {
        args.push("--fixed-strings".to_string());
    }
    args.extend(["--".to_string(), spelled, "./".to_string()]);
    Case {
        pieces,
        literal,
        sees_carriage_return,
        insensitive,
        word,
        dir,
        request,
        args,
    }
}

/// Returns this program's events for the comparison, with paths relative to the requested
/// directory.
fn ours(setup: &Setup, case: &Case) -> Vec<Event> {
    let response = setup.search(case.request.clone());
    let per_file = case.request["max_matches_per_file"].is_u64();
    assert!(!response.timed_out && (per_file || !response.truncated));
    // A match in a binary file is an error entry here. ripgrep reports it in another way.
    let is_binary = |error: &ErrorEntry| error.error.contains("matches, and");
    assert!(response.errors.iter().all(is_binary));
    let events = response.matches.into_iter().map(|record| {
        let path = PathBuf::from(record.data.path.text);
        Event {
            path: path.strip_prefix(&case.dir).unwrap().to_path_buf(),
            line: record.data.line_number,
            found: record.data.column.zip(record.data.match_text),
            text: record.data.lines.text,
        }
    });
    events.collect()
}

fn theirs(rg: &Ripgrep, world: &World, case: &Case) -> Vec<Event> {
    let output = rg.run(&world.tree.root().join(&case.dir), &case.args);
    let mut events = parse_json(&output, case.request["max_matches_per_file"].as_u64());
    events.sort_by(|a, b| cmp_paths(&a.path, &b.path).then(a.line.cmp(&b.line)));
    events
}

#[track_caller]
fn compare(rg: &Ripgrep, world: &World, setup: &Setup, case: &Case) -> usize {
    let mut expected = theirs(rg, world, case);
    let mut found = ours(setup, case);
    if case.sees_carriage_return {
        let comparable = |event: &Event| {
            !world
                .with_carriage_returns
                .contains(&Path::new(&case.dir).join(&event.path))
        };
        expected.retain(comparable);
        found.retain(comparable);
    }
    if found != expected {
        let at = found.iter().zip(&expected).position(|(a, b)| a != b);
        let at = at.unwrap_or(found.len().min(expected.len()));
        panic!(
            "{}\n  as rg {:?} in {:?}\n  {} events against {} of ripgrep {}; the first difference is at {at}:\n  \
             ours    {:?}\n  ripgrep {:?}",
            case.request,
            case.args,
            case.dir,
            found.len(),
            expected.len(),
            rg.major,
            found.get(at),
            expected.get(at),
        );
    }
    found.len()
}

#[test]
fn generated_requests_give_the_events_of_ripgrep() {
    let (Some(on_path), Some(newest)) = (Ripgrep::on_path(), Ripgrep::newest()) else {
        return;
    };
    let world = world();
    let setup = world
        .tree
        .setup()
        .generous()
        .sandbox(|sandbox| sandbox.include_default_denies = false);
    // Since version 14, ripgrep finds the boundaries of words in every pattern as this program
    // does.
    let rich_words = newest.major >= 14;
    let mut rng = Seeded::new(2026);
    let (mut requests, mut events, mut empty) = (0, 0, 0);
    let mut kinds = [0; 4];
    // The long tests use every index variant. Other runs use one that looks at the tree, and one
    // that does not.
    let variants = VARIANTS.into_iter().step_by(step().min(3));
    let indexed: Vec<Setup> = variants
        .map(|variant| setup.clone().indexed(variant))
        .collect();
    let mut tally = Tally::default();
    while requests < seeds(320) as usize {
        let case = case(&mut rng, &world, rich_words);
        let rg = if case.word { &newest } else { &on_path };
        let compared = compare(rg, &world, &setup, &case);
        // The request also runs with one of the index variants, sometimes with a limit.
        let mut request = case.request.clone();
        for option in ["hidden", "no_ignore"] {
            request[option] = false.into();
        }
        match requests % 3 {
            0 => request["max_results"] = (1 + rng.below(60)).into(),
            1 => request["max_files"] = (1 + rng.below(2_000)).into(),
            _ => {}
        }
        let (one, _) = index_support::compare(&indexed[requests % indexed.len()], &request);
        tally.add(one);
        requests += 1;
        events += compared;
        empty += usize::from(compared == 0);
        for (n, kind) in [case.literal, !case.literal, case.insensitive, case.word]
            .into_iter()
            .enumerate()
        {
            kinds[n] += usize::from(kind);
        }
        assert!(!case.pieces.is_empty());
    }
    tally.check(2);
    println!(
        "{requests} requests and {events} events are equal to ripgrep {}'s ({} for words): {} literals, {} \
         expressions, {} without case, {} words; {empty} had no events",
        on_path.major, newest.major, kinds[0], kinds[1], kinds[2], kinds[3]
    );
    assert!(
        empty < requests * 2 / 3 && events > 15 * requests,
        "{events} events, {empty} empty answers"
    );
}
