use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::exec::stop::Clock;
use crate::tool::config::Config;
use crate::tool::engines::Engines;
use crate::tool::sandbox::Sandbox;
use crate::tool::search::{SearchTool, ToolContext};
use crate::tool::search_files::FilesTool;

/// An artificial answer: the length of each text, and the bytes around it.
#[derive(Debug)]
struct Made {
    texts: Vec<(usize, usize)>,
    errors: Vec<usize>,
    line: Option<usize>,
}

impl Made {
    /// Writes the answer, so that its bytes can be counted without a formula.
    fn written(&self, extent: Extent) -> String {
        let most = extent.line.unwrap_or(usize::MAX);
        let mut text = String::new();
        let mut shortened = 0;
        for (len, beside) in &self.texts[..extent.results] {
            text.push_str(&"x".repeat((*len).min(most) + beside));
            if *len > most {
                text.push_str(&format!("[+{}]", len - most));
                shortened += 1;
            }
        }
        self.rest(extent, shortened) + &text
    }

    fn rest(&self, extent: Extent, shortened: u64) -> String {
        let errors = &self.errors[..extent.errors];
        let errors: String = errors.iter().map(|len| "e".repeat(*len)).collect();
        let notes = extent.notes(&[Note::MaxResults(9)], self.errors.len(), shortened);
        format!("{} {errors} {notes:?}", extent.results)
    }
}

impl Draft for Made {
    const RESULTS: &'static str = "texts";

    fn whole(&self) -> Extent {
        Extent {
            line: self.line,
            results: self.texts.len(),
            errors: self.errors.len(),
            limit: None,
        }
    }

    fn pieces(&self, line: Option<usize>) -> impl Iterator<Item = Piece> + '_ {
        let most = line.unwrap_or(usize::MAX);
        self.texts.iter().map(move |(len, beside)| {
            let left_out = len.saturating_sub(most);
            let marker = format!("[+{left_out}]").len();
            Piece {
                bytes: (*len).min(most) + beside + if left_out > 0 { marker } else { 0 },
                shortened: u64::from(left_out > 0),
            }
        })
    }

    fn frame(&self, extent: Extent, shortened: u64) -> usize {
        self.rest(extent, shortened).len()
    }
}

proptest! {
    #[test]
    fn as_many_results_fit_as_there_is_any_way_to_write(
        texts in prop::collection::vec((0usize..400, 0usize..30), 0..12),
        errors in prop::collection::vec(12usize..60, 0..5),
        line in prop::option::of(1usize..300),
        max_bytes in 0usize..1500,
    ) {
        let made = Made { texts, errors, line };
        let whole = made.whole();
        let extents = |limit: Option<usize>| {
            let (results, errors) = (0..=whole.results, 0..=whole.errors);
            let numbers = results.flat_map(move |one| errors.clone().map(move |other| (one, other)));
            let numbers: Vec<(usize, usize)> = numbers.collect();
            lengths(whole.line).flat_map(move |line| {
                let numbers = numbers.clone().into_iter();
                numbers.map(move |(results, errors)| Extent { line, results, errors, limit })
            })
        };
        let fits = |extent: &Extent| made.written(*extent).len() <= max_bytes;
        let everything = lengths(whole.line).map(|line| Extent { line, ..whole }).find(&fits);
        match (fit(&made, Some(max_bytes)), everything) {
            (Ok(found), Some(everything)) => prop_assert_eq!(found, everything),
            (Ok(found), None) => {
                prop_assert!(fits(&found));
                prop_assert_eq!(found.limit, Some(max_bytes));
                let most = extents(Some(max_bytes)).filter(&fits).map(|extent| extent.results).max();
                prop_assert_eq!(Some(found.results), most);
                let longer = |extent: &Extent| extent.results == found.results
                    && extent.line.unwrap_or(usize::MAX) > found.line.unwrap_or(usize::MAX);
                prop_assert!(extents(Some(max_bytes)).filter(&fits).find(longer).is_none());
                let errors = extents(Some(max_bytes)).filter(&fits)
                    .filter(|extent| (extent.results, extent.line) == (found.results, found.line));
                prop_assert_eq!(Some(found.errors), errors.map(|extent| extent.errors).max());
            }
            (Err(error), everything) => {
                prop_assert_eq!(everything, None);
                prop_assert!(!extents(Some(max_bytes)).any(|extent| fits(&extent)));
                let enough = needed(&error.message());
                prop_assert!(fit(&made, Some(enough)).is_ok());
                prop_assert!(fit(&made, Some(enough - 1)).is_err());
            }
        }
    }
}

/// Returns the sufficient limit that the error message names.
fn needed(message: &str) -> usize {
    let (_, number) = message.split_once("it needs ").unwrap();
    number.split_once('.').unwrap().0.parse().unwrap()
}

#[derive(Debug)]
struct Still(Instant);

impl Clock for Still {
    fn now(&self) -> Instant {
        self.0
    }
}

/// The tools, and the forms of their answers.
#[derive(Clone, Copy, Debug)]
enum Way {
    Search,
    SearchText,
    Files,
    FilesText,
    Find,
    FindText,
}

const WAYS: [Way; 6] = [
    Way::Search,
    Way::SearchText,
    Way::Files,
    Way::FilesText,
    Way::Find,
    Way::FindText,
];

/// Names of links with missing targets.
const BROKEN: [&str; 3] = ["a", "n2", "z"];

struct World {
    search: SearchTool,
    files: FilesTool,
    context: ToolContext,
    dir: tempfile::TempDir,
}

impl World {
    /// Creates files with lines of many lengths below 400 bytes; the first file has a long line.
    fn new(max_line_bytes: u64) -> World {
        let dir = tempfile::tempdir().unwrap();
        for (n, lens) in [&[380, 12][..], &[70], &[31, 120, 260], &[11], &[33]]
            .iter()
            .enumerate()
        {
            let lines = lens.iter().map(|len| {
                let before = "\u{e9}\"".repeat(len / 9);
                let after = "x".repeat(len - 8 - before.len());
                format!("<{before}needle{after}>\n")
            });
            // Windows has no names with control characters.
            let escaped = if cfg!(windows) {
                "n.txt"
            } else {
                "n\n\u{1b}.txt"
            };
            let name = ["long.txt", "m", escaped, "o", "p"][n];
            std::fs::write(dir.path().join(name), lines.collect::<String>()).unwrap();
        }
        for n in 0..12 {
            std::fs::write(dir.path().join(format!("empty{n}")), "").unwrap();
        }
        let mut config = Config::library_default();
        config.search.enabled = true;
        config.search.max_line_bytes = max_line_bytes;
        config.search_files.enabled = true;
        config.search_files.max_line_bytes = max_line_bytes;
        let sandbox = Arc::new(Sandbox::new(&config.sandbox, dir.path()).unwrap());
        let mut context = ToolContext::new(sandbox);
        // Times have digits.
        context.clock = Arc::new(Still(Instant::now()));
        World {
            files: FilesTool::new(&config, Engines::embedded()),
            search: SearchTool::new(config.search, Engines::embedded()),
            context,
            dir,
        }
    }

    /// Adds broken links, which are errors if links are followed.
    #[cfg(unix)]
    fn with_errors(self) -> World {
        for name in BROKEN {
            std::os::unix::fs::symlink("nowhere", self.dir.path().join(name)).unwrap();
        }
        self
    }

    /// Returns the answer as JSON, or only its text if it has one.
    fn ask(&self, way: Way, limit: Option<usize>) -> Result<String, String> {
        let mut context = self.context.clone();
        context.max_output_bytes = limit;
        let context = &context;
        let search = json!({"pattern": "needle", "follow": true});
        let files = json!({"path": ".", "query": "needle", "follow_symlinks": true});
        let sent = |text: String| Value::String(text).to_string();
        let answer = match way {
            Way::Search => self.search.call(search, context).map(|one| one.to_json()),
            Way::Files => self.files.call(files, context).map(|one| one.to_json()),
            Way::Find => {
                let found = self.search.call_find_files(json!({}), context);
                found.map(|one| one.to_json())
            }
            Way::SearchText => {
                let answer = self.search.call_for_text(search, context);
                answer.map(|one| sent(one.text))
            }
            Way::FilesText => {
                let answer = self.files.call_for_text(files, context);
                answer.map(|one| sent(one.text))
            }
            Way::FindText => {
                let answer = self.search.call_find_files_for_text(json!({}), context);
                answer.map(|one| sent(one.text))
            }
        };
        answer.map_err(|error| {
            assert_eq!(error.code(), "limits_exceeded");
            error.message()
        })
    }
}

/// The parts of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// The file and line of each result, in order.
    results: Vec<(String, u64)>,
    /// The numbers of listed errors and of errors that are only counted.
    errors: (u64, u64),
    /// The number of shortened lines according to the note.
    shortened: u64,
    /// The number of lines that are shortened.
    parts: u64,
    says_cut: bool,
}

/// Returns the number before `words` in a note.
fn number_before(text: &str, words: &str) -> u64 {
    let Some((before, _)) = text.split_once(words) else {
        return 0;
    };
    let digits = before.rsplit('[').next().unwrap_or_default();
    digits.trim().parse().unwrap_or(0)
}

fn seen(way: Way, answer: &str) -> Seen {
    let answer: Value = serde_json::from_str(answer).unwrap();
    let mut seen = Seen::default();
    let whole_line = |text: &str| text.starts_with('<') && text.ends_with('>');
    let notes = match way {
        Way::Search => answer["content"].as_str().unwrap().to_string(),
        Way::Files => String::new(),
        Way::Find => format!("[{}", answer["notes"]),
        _ => answer.as_str().unwrap().to_string(),
    };
    seen.says_cut = notes.contains("truncated: the output was cut to fit");
    seen.shortened =
        number_before(&notes, " lines are longer") + number_before(&notes, " line is longer");
    seen.errors.1 = number_before(&notes.replace("[\"", "["), " further file");
    if let Some(listed) = answer["errors"].as_array() {
        seen.errors.0 = listed.len() as u64;
    }
    match way {
        Way::Search => {
            for one in answer["matches"].as_array().unwrap() {
                let data = &one["data"];
                let path = data["path"]["text"].as_str().unwrap();
                seen.results
                    .push((path.to_string(), data["line_number"].as_u64().unwrap()));
            }
            seen.parts = notes
                .lines()
                .filter(|line| line.contains(" bytes]"))
                .count() as u64;
            assert_eq!(answer["count"], seen.results.len());
        }
        Way::Files => {
            for one in answer["matches"].as_array().unwrap() {
                let path = one["path"].as_str().unwrap();
                seen.results
                    .push((path.to_string(), one["line"].as_u64().unwrap()));
                seen.parts += u64::from(!whole_line(one["line_text"].as_str().unwrap()));
            }
            let stats = &answer["stats"];
            seen.shortened = stats["lines_shortened"].as_u64().unwrap_or(0);
            seen.errors.1 = stats["errors_left_out"].as_u64().unwrap_or(0);
            seen.says_cut = answer["truncated_reason"] == "max_output_bytes";
        }
        Way::Find => {
            for one in answer["files"].as_array().unwrap() {
                seen.results
                    .push((one["path"].as_str().unwrap().to_string(), 0));
            }
        }
        _ => read_lines(way, &notes, &mut seen),
    }
    seen
}

/// Parses the lines of a text.
fn read_lines(way: Way, text: &str, seen: &mut Seen) {
    let mut path = String::new();
    for line in text.lines() {
        if line.starts_with('[') {
            let is_listed = BROKEN
                .iter()
                .any(|name| line.starts_with(&format!("[{name}: ")));
            seen.errors.0 += u64::from(is_listed);
            continue;
        }
        match line.split_once(':') {
            Some((number, _)) => {
                seen.results.push((path.clone(), number.parse().unwrap()));
                seen.parts += u64::from(line.contains(" bytes]"));
            }
            None if matches!(way, Way::FindText) => seen.results.push((line.to_string(), 0)),
            None => path = line.to_string(),
        }
    }
}

/// The long proofs, with `FORGE_SEARCH_TEST_SEEDS=all`, try every limit; other runs try every
/// fifth.
fn step() -> usize {
    match std::env::var("FORGE_SEARCH_TEST_SEEDS").as_deref() {
        Ok("all") => 1,
        Ok(other) => panic!("FORGE_SEARCH_TEST_SEEDS={other}: only `all` is known"),
        Err(_) => 5,
    }
}

/// Asks with every `step`th limit, up to the size of the whole answer.
fn with_limits(world: &World, way: Way, step: usize) {
    let unlimited = world.ask(way, None).unwrap();
    let all = seen(way, &unlimited);
    let mut before = None;
    let mut by_limit = BTreeMap::new();
    let whole = unlimited.len();
    for limit in (0..whole).step_by(step).chain(whole - 1..whole + 2) {
        let answer = match world.ask(way, Some(limit)) {
            Ok(answer) => answer,
            Err(message) => {
                assert_eq!(before, None, "{way:?}: less fits {limit} bytes than before");
                let enough = needed(&message);
                assert!(enough > limit, "{way:?}: {message}");
                if limit % 50 < step {
                    assert!(world.ask(way, Some(enough)).is_ok(), "{way:?}: {message}");
                    assert!(
                        world.ask(way, Some(enough - 1)).is_err(),
                        "{way:?}: {message}"
                    );
                }
                continue;
            }
        };
        let place = format!("{way:?} with {limit} bytes: {answer}");
        assert!(answer.len() <= limit, "{place}");
        let seen = seen(way, &answer);
        assert!(all.results.starts_with(&seen.results), "{place}");
        let previous: usize = before.replace(seen.results.len()).unwrap_or(0);
        assert!(previous <= seen.results.len(), "{place}");
        assert_eq!(seen.shortened, seen.parts, "{place}");
        assert_eq!(seen.errors.0 + seen.errors.1, all.errors.0, "{place}");
        let is_whole = seen.results.len() == all.results.len() && seen.errors.1 == 0;
        assert_eq!(seen.says_cut, !is_whole, "{place}");
        assert_eq!(answer == unlimited, limit >= whole, "{place}");
        by_limit.insert(limit, (answer.len(), seen));
    }
    let mut counts = BTreeSet::new();
    for (len, seen) in by_limit.values() {
        counts.insert(seen.results.len());
        // An answer with exactly this many bytes fits this limit.
        if let Some((_, exact)) = by_limit.get(len) {
            assert_eq!(exact.results, seen.results, "{way:?}: {len}");
        }
    }
    // All results in a shorter form may take no more space than some results and the note about the
    // missing ones.
    assert!(
        counts.len() > 2 && counts.contains(&0),
        "{way:?}: {counts:?}"
    );
}

#[test]
fn a_higher_limit_gives_no_less_and_results_are_dropped_only_after_the_ends_of_lines() {
    let some = 11.max(3 * step() + 2);
    for (max_line_bytes, step) in [
        (200, step()),
        (0, some),
        (300, some),
        (33, some),
        (20, some),
    ] {
        let world = World::new(max_line_bytes);
        for way in WAYS {
            with_limits(&world, way, step);
        }
    }
}

#[cfg(unix)]
#[test]
fn errors_that_do_not_fit_into_the_limit_are_counted() {
    let world = World::new(0).with_errors();
    for way in WAYS {
        with_limits(&world, way, step() + 2);
    }
}

/// An answer holds each result that, in its shortest form, fits after the results before it.
#[test]
fn a_long_line_does_not_drop_later_files() {
    let short = World::new(32).ask(Way::Search, None).unwrap();
    let short: Value = serde_json::from_str(&short).unwrap();
    let content = short["content"].as_str().unwrap().lines();
    let records = short["matches"].as_array().unwrap().iter();
    let pieces: Vec<usize> = records
        .zip(content)
        .map(|(record, line)| {
            let line = Value::String(format!("{line}\n")).to_string();
            record.to_string().len() + 1 + line.len() - 2
        })
        .collect();
    let world = World::new(200);
    let message = world.ask(Way::Search, Some(1)).unwrap_err();
    // Room for the note about shortened lines, and for the digits of numbers.
    let base = needed(&message) + 120;
    let limits = needed(&message)..base + pieces.iter().sum::<usize>();
    for limit in limits.step_by(step()) {
        let answer = world.ask(Way::Search, Some(limit)).unwrap();
        let results = seen(Way::Search, &answer).results.len();
        let room = |results: usize| base + pieces[..results].iter().sum::<usize>();
        let fits = (0..=pieces.len())
            .rev()
            .find(|results| room(*results) <= limit);
        assert!(
            results >= fits.unwrap_or(0),
            "{results} of {fits:?} with {limit}"
        );
    }
}
