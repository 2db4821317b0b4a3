//! Questions in other languages than English, over comments in these languages.
//!
//! Each set has a tree of source files with comments in one language, and questions with the place
//! that answers them: `benches/ranking/languages`.

use std::fs;
use std::path::{Path, PathBuf};

use forge_search::internal::tool::config::{IndexMode, IndexStorage};
use forge_search::internal::tool::daemon::server::Settings;
use serde::Deserialize;
use serde_json::{Value, json};

use super::World;
use super::queries::{with_snapshot, with_words};
use crate::support::Tree;

/// The least normalized discounted cumulative gain of the first ten results, the mean over a set.
const DEMAND: f64 = 0.8;

#[derive(Deserialize)]
struct RequestBody {
    question: String,
    file: String,
    lines: (u64, u64),
}

struct Set {
    tree: PathBuf,
    questions: Vec<RequestBody>,
}

fn set(language: &str) -> Set {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/ranking/languages");
    let dir = dir.join(language);
    let questions = fs::read(dir.join("questions.json")).unwrap();
    Set {
        tree: dir.join("tree"),
        questions: serde_json::from_slice(&questions).unwrap(),
    }
}

fn copied(from: &Path) -> Tree {
    let tree = Tree::new();
    let mut dirs = vec![PathBuf::new()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(from.join(&dir)).unwrap() {
            let entry = entry.unwrap();
            let path = dir.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => dirs.push(path),
                false => {
                    tree.file(path.to_str().unwrap(), fs::read(entry.path()).unwrap());
                }
            }
        }
    }
    tree
}

/// Returns the gain of an answer: 1 if its first result is right, less if a later one is.
fn gain(answer: &Value, is_right: impl Fn(&Value) -> bool) -> f64 {
    let results = answer["results"].as_array().unwrap();
    let rank = results.iter().take(10).position(is_right);
    rank.map_or(0.0, |rank| 1.0 / (rank as f64 + 2.0).log2())
}

fn is_in(result: &Value, asked: &RequestBody) -> bool {
    let line = |name: &str| result[name].as_u64().unwrap();
    result["path"] == asked.file.as_str()
        && line("start_line") <= asked.lines.1
        && asked.lines.0 <= line("end_line")
}

#[test]
fn questions_in_other_languages_are_answered() {
    let storages = [
        IndexStorage::Mmap,
        IndexStorage::Memory,
        IndexStorage::Sqlite,
    ];
    for (nth, language) in ["zh", "ja", "ko", "ru", "de"].into_iter().enumerate() {
        let Set { tree, questions } = set(language);
        assert!(questions.len() >= 40, "{language}");
        let cache = tempfile::tempdir().unwrap();
        let with = World::with(copied(&tree), Settings::default(), |config| {
            config.search.index_storage = storages[nth % storages.len()];
            config.search.index_path = Some(cache.path().join("index"));
        });
        let without = World::with(copied(&tree), Settings::default(), |config| {
            config.search.index_mode = IndexMode::Off;
        });
        let first = json!({"type": "search", "query": questions[0].question});
        with_words(&with, &first);
        let (mut files, mut places) = (0.0, 0.0);
        let mut worst = Vec::new();
        for asked in &questions {
            let query = json!({"type": "search", "query": asked.question, "limit": 10});
            let answer = with_snapshot(&with, &query);
            let same = without.client().found(query);
            assert_eq!(answer["results"], same["results"], "{}", asked.question);
            files += gain(&answer, |result| result["path"] == asked.file.as_str());
            let place = gain(&answer, |result| is_in(result, asked));
            places += place;
            if place < 0.5 {
                worst.push(format!(
                    "{place:.2} {}:{} {}",
                    asked.file, asked.lines.0, asked.question
                ));
            }
        }
        let count = questions.len() as f64;
        let (files, places) = (files / count, places / count);
        println!("{language}: files {files:.3}, places {places:.3}");
        assert!(
            places >= DEMAND && files >= DEMAND,
            "{language}: files {files:.3}, places {places:.3}\n{}",
            worst.join("\n")
        );
    }
}
