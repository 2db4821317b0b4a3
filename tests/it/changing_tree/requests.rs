//! Random requests about a changing tree, and the right answers to some of them. The right answers
//! come from ripgrep's own walker, and from no code of this crate.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::tree::Living;
use super::words;
use crate::differential::Seeded;
use crate::oracle::{Pattern, World, expected_among, in_order};

/// The number of events that a response may have if the request sets no limit. No request asks for
/// more.
const MANY: usize = 400;

/// A limit that these trees never reach.
const UNLIMITED: u64 = 1_000_000;

/// A request, with the data that is needed to know the right answer.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) request: Value,
    /// Present for literals without globs.
    plain: Option<Plain>,
}

#[derive(Clone, Debug)]
struct Plain {
    pattern: Pattern,
    case: &'static str,
    word: bool,
    path: Option<String>,
    world: World,
}

/// The part of a response that the oracle computes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Truth {
    /// The path, the line and the text of each event.
    pub(crate) events: Vec<String>,
    pub(crate) truncated: bool,
    pub(crate) files_scanned: u64,
}

impl Asked {
    /// Asks for a literal in the whole tree.
    pub(crate) fn literal(text: &str) -> Asked {
        let world = World {
            hidden: false,
            recursive: true,
            context: 0,
            max_results: MANY,
            per_file: UNLIMITED,
            max_files: UNLIMITED,
            max_size: UNLIMITED,
        };
        Asked {
            request: json!({"pattern": text, "fixed_strings": true, "max_results": MANY}),
            plain: Some(Plain {
                pattern: Pattern::Literal(text.to_string()),
                case: "smart",
                word: false,
                path: None,
                world,
            }),
        }
    }

    /// Draws a request. Most requests are about the text that was just written or just removed.
    pub(crate) fn draw(rng: &mut Seeded, living: &Living) -> Asked {
        let word = |rng: &mut Seeded| {
            let group = rng.pick(&[words::FREQUENT, words::SELDOM, words::RARE, words::RARE]);
            rng.pick(group).to_string()
        };
        let literal = match rng.below(12) {
            0..=3 => Some(living.written.clone()),
            4 | 5 => living.removed.clone().or(Some(living.written.clone())),
            6 => Some(format!("no{}", living.written)),
            7 | 8 => Some(word(rng)),
            _ => None,
        };
        let mut asked = match literal {
            Some(literal) => Asked::literal(&literal),
            None => {
                let (a, b) = (word(rng), word(rng));
                let expression = match rng.below(6) {
                    0 => format!("{a}|{b}"),
                    1 => format!("{a}.*{b}"),
                    2 => format!("{}|{a}", living.written),
                    3 => format!(r"\w+ {a}$"),
                    4 => format!("{}[a-z]{{2,}}", &living.written[..6]),
                    _ => format!("^.*({a} |{b} ){b}?"),
                };
                let request = json!({"pattern": expression, "max_results": MANY});
                Asked {
                    request,
                    plain: None,
                }
            }
        };
        asked.complicate(rng, living);
        asked
    }

    fn complicate(&mut self, rng: &mut Seeded, living: &Living) {
        let length = self.request["pattern"].as_str().map(str::len);
        let mut plain = self.plain.as_mut();
        let mut set = |name: &str, value: Value| self.request[name] = value;
        if rng.one_in(4) {
            let case = rng.pick(&["sensitive", "insensitive"]);
            set("case", case.into());
            plain.iter_mut().for_each(|plain| plain.case = case);
        }
        if rng.one_in(6) {
            set("word_regexp", true.into());
            plain.iter_mut().for_each(|plain| plain.word = true);
        }
        if rng.one_in(5) {
            let context = 1 + rng.below(3);
            set("context", context.into());
            plain
                .iter_mut()
                .for_each(|plain| plain.world.context = context);
        }
        if rng.one_in(5) {
            let most = 1 + rng.below(6);
            set("max_results", most.into());
            plain
                .iter_mut()
                .for_each(|plain| plain.world.max_results = most);
        }
        for (name, most) in [
            ("max_files", 40),
            ("max_matches_per_file", 4),
            ("max_file_size_bytes", 3_000),
        ] {
            if rng.one_in(10) {
                let limit = 1 + rng.below(most) as u64;
                set(name, limit.into());
                if let Some(plain) = &mut plain {
                    match name {
                        "max_files" => plain.world.max_files = limit,
                        "max_matches_per_file" => plain.world.per_file = limit,
                        _ => plain.world.max_size = limit,
                    }
                }
            }
        }
        if rng.one_in(6) {
            set("hidden", true.into());
            plain.iter_mut().for_each(|plain| plain.world.hidden = true);
        }
        if rng.one_in(10) {
            set("recursive", false.into());
            plain
                .iter_mut()
                .for_each(|plain| plain.world.recursive = false);
        }
        if rng.one_in(4) {
            let places = match rng.one_in(8) {
                true => living.files(),
                false => living.directories(),
            };
            if !places.is_empty() {
                let place = rng.pick(&places);
                set("path", place.clone().into());
                plain
                    .iter_mut()
                    .for_each(|plain| plain.path = Some(place.clone()));
            }
        }
        // The oracle does not cover these options, so there is no right answer to compare with.
        match rng.below(20) {
            0 => set(
                "include_glob",
                json!([rng.pick(&["*.rs", "a*", "**/log", "b/"])]),
            ),
            1 => set(
                "exclude_glob",
                json!([rng.pick(&["*.rs", "[ab]*", "build/", "z*"])]),
            ),
            2 => set("no_ignore", true.into()),
            3 => set("follow", true.into()),
            // Only for literals that are long enough. A request with as many edits as characters is
            // refused, and most expressions have such a short alternative.
            4 | 5 if self.plain.is_some() && length > Some(2) => {
                set("fuzzy", (1 + rng.below(2)).into());
            }
            _ => return,
        }
        self.plain = None;
    }

    /// Returns true if the request's path still leads to the place that it was drawn for, and
    /// through no link.
    pub(crate) fn is_in_place(&self, root: &Path) -> bool {
        let path = self.request["path"].as_str().map(|path| root.join(path));
        path.is_none_or(|path| path.canonicalize().is_ok_and(|real| real == path))
    }

    /// Returns the right answer, if the oracle can compute it.
    pub(crate) fn truth(&self, root: &Path) -> Option<Truth> {
        let plain = self.plain.as_ref().filter(|_| self.is_in_place(root))?;
        let world = &plain.world;
        let path = plain.path.as_deref();
        let files = eligible(root, path, world.hidden, world.recursive);
        let found = expected_among(root, &files, &plain.pattern, plain.case, plain.word, world);
        Some(Truth {
            events: found.events,
            truncated: found.truncated,
            files_scanned: found.files_scanned,
        })
    }
}

/// Lists the files of a request with ripgrep's walker.
pub(crate) fn eligible(
    root: &Path,
    path: Option<&str>,
    hidden: bool,
    recursive: bool,
) -> Vec<PathBuf> {
    let top = path.map_or(root.to_path_buf(), |path| root.join(path));
    let walk = ignore::WalkBuilder::new(top)
        .hidden(!hidden)
        .git_global(false)
        .add_custom_ignore_filename(".rgignore")
        .max_depth((!recursive).then_some(1))
        .build();
    // A directory that can't be listed has no files to find.
    let files = walk
        .flatten()
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    let paths = files.map(|entry| entry.path().strip_prefix(root).unwrap().to_path_buf());
    in_order(paths.collect())
}

impl Truth {
    /// Reads the same data from a response; `None` for an error.
    pub(crate) fn claimed(response: &Value) -> Option<Truth> {
        let events = response["matches"].as_array()?.iter().map(event);
        Some(Truth {
            events: events.collect(),
            truncated: response["truncated"].as_bool()?,
            files_scanned: response["files_scanned"].as_u64()?,
        })
    }
}

/// Returns an event as one line, in the oracle's format.
fn event(record: &Value) -> String {
    let data = &record["data"];
    let text = |value: &Value| value.as_str().unwrap().to_string();
    let (path, line) = (text(&data["path"]["text"]), &data["line_number"]);
    let shown = text(&data["lines"]["text"]);
    match data.get("column") {
        Some(column) => format!(
            "{path}:{line}:{column}:{}|{shown}",
            text(&data["match_text"])
        ),
        None => format!("{path}-{line}-{shown}"),
    }
}
