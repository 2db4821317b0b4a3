//! The stored index reveals no content of files: no text, no n-gram as text, and no name of a
//! denied file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::disks::image_of;
use crate::cli::forge_search;

/// Words that are in one file each. The two trees have them in different files.
const WORDS: [&str; 6] = [
    "zqxjvkwy",
    "Pfmbqzgh",
    "wjxqkvzp",
    "QZJXWVKB",
    "kvjzqxwq",
    "éñüzqjxk",
];

/// The names of denied files, and the contents of these files.
const DENIED: [(&str, &str); 3] = [
    ("secret/xvqzinner.txt", "jxqzvwkq"),
    ("src/private-zvqx.secret", "wvqzjkxp"),
    ("src/id_rsa", "zqxvwkjj"),
];

struct World {
    place: tempfile::TempDir,
    /// The output of the program, on both of its channels.
    said: Vec<u8>,
}

impl World {
    /// Returns a tree with the words. The two worlds have only these words in common.
    fn new(number: usize, storage: &str) -> World {
        let place = tempfile::tempdir().unwrap();
        let mut world = World {
            place,
            said: Vec::new(),
        };
        for (n, word) in WORDS.iter().enumerate() {
            let text = format!("{word}\n{word} {word}{}\n", "\n".repeat(number * 3 + n));
            world.write(&format!("d{number}/f{n}"), &text);
        }
        for (name, text) in DENIED {
            world.write(name, text);
        }
        for args in [
            &["index", "build"][..],
            &["index", "verify"],
            &["index", "list"],
            &["doctor"],
        ] {
            let ran = world.run(storage, args);
            assert!(
                ran.status.success(),
                "{args:?}: {}",
                String::from_utf8_lossy(&ran.stderr)
            );
        }
        world
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.place.path().join("tree").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn command(&self, storage: &str, args: &[&str]) -> Command {
        let mut command = forge_search(&self.place.path().join("tree"));
        command
            .args(args)
            .args([
                "--set",
                "tools.sandbox.denied_patterns=[\"secret/**\", \"**/*.secret\", \"**/id_rsa\"]",
            ])
            .args(["--set", &format!("index_storage={storage}")])
            .env("XDG_CACHE_HOME", self.place.path().join("cache"))
            .stdin(Stdio::null());
        command
    }

    fn run(&mut self, storage: &str, args: &[&str]) -> Output {
        let output = self.command(storage, args).output().unwrap();
        self.said.extend_from_slice(&output.stdout);
        self.said.extend_from_slice(&output.stderr);
        output
    }

    /// Returns all bytes that were written anywhere, by file. Checks that other users can't read
    /// them.
    fn kept(&self) -> Vec<(PathBuf, Vec<u8>)> {
        check_private(&self.place.path().join("cache/forge/search-index"));
        let files = image_of(&self.place.path().join("cache")).into_iter();
        let mut kept: Vec<(PathBuf, Vec<u8>)> = files
            .filter_map(|(path, content)| Some((path, content?)))
            .collect();
        assert!(kept.iter().any(|(_, bytes)| bytes.len() > 1_000));
        kept.push(("what the program said".into(), self.said.clone()));
        kept
    }
}

/// Checks that only this user can access a directory and its contents. Returns the number of files
/// and directories.
fn check_private(dir: &Path) -> usize {
    let found: Vec<PathBuf> = image_of(dir).into_keys().collect();
    for path in found.iter().map(PathBuf::as_path).chain([dir]) {
        let mode = fs::symlink_metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
    }
    found.len()
}

fn holds(kept: &[(PathBuf, Vec<u8>)], part: &[u8]) -> Option<PathBuf> {
    let found = kept
        .iter()
        .find(|(_, bytes)| memchr::memmem::find(bytes, part).is_some());
    found.map(|(path, _)| path.clone())
}

/// Returns the n-grams of a text, as text in several encodings.
fn grams(text: &str) -> Vec<Vec<u8>> {
    let chars: Vec<char> = text.chars().collect();
    let mut grams = Vec::new();
    for three in chars.windows(3) {
        let gram: String = three.iter().collect();
        for gram in [gram.to_lowercase(), gram] {
            let units: Vec<u16> = gram.encode_utf16().collect();
            grams.push(gram.bytes().rev().collect());
            grams.push(units.iter().flat_map(|unit| unit.to_le_bytes()).collect());
            grams.push(units.iter().flat_map(|unit| unit.to_be_bytes()).collect());
            grams.push(gram.into_bytes());
        }
    }
    grams
}

fn check(storage: &str) {
    let worlds = [1, 2].map(|number| World::new(number, storage));
    let kept = worlds.each_ref().map(World::kept);
    let mut looked_for = 0;
    for word in WORDS.iter().chain(DENIED.iter().map(|(_, text)| text)) {
        for kept in &kept {
            for part in word.as_bytes().windows(5) {
                looked_for += 1;
                assert_eq!(holds(kept, part), None, "{word}: {part:?}");
            }
        }
        for gram in grams(word) {
            looked_for += 1;
            // Three bytes may occur by chance, in a checksum or a time, but hardly in both worlds.
            let found = kept.each_ref().map(|kept| holds(kept, &gram));
            assert!(found.contains(&None), "{word}: {gram:?} is in {found:?}");
        }
    }
    // The denied patterns are part of the stored key. So these are only the parts of denied names
    // that no pattern contains.
    for name in ["xvqzinner", "private-zvqx"] {
        for kept in &kept {
            looked_for += 1;
            assert_eq!(holds(kept, name.as_bytes()), None, "{name}");
        }
    }
    // Proves a premise of the test: names of other files are stored, and this search finds them.
    assert!(holds(&kept[0], b"d1").is_some());
    println!(
        "{storage}: {looked_for} pieces of text are not in {} files",
        kept[0].len()
    );
}

#[test]
fn nothing_that_is_kept_or_said_has_text_of_files_or_names_of_denied_ones() {
    check("mmap");
    #[cfg(feature = "sqlite")]
    check("sqlite");
}

/// The status that a live index publishes is no exception. Denied files change here, and the status
/// explains why the index is uncertain.
#[test]
fn what_a_living_index_tells_has_no_text_of_files_and_no_name_of_a_denied_one() {
    use std::io::{BufRead, BufReader, Write};

    let mut world = World::new(1, "mmap");
    let place = world.place.path().join("cache/forge/search-index");
    // Makes the index uncertain, so that its status has a reason. The watcher needs cookie files to
    // prove that all changes were reported. Here it can create them neither next to the indexes nor
    // in the temporary directory, which is inside the tree.
    let _ = fs::remove_dir_all(place.join("cookies"));
    fs::write(place.join("cookies"), "in the way").unwrap();
    let mut child = world
        .command("mmap", &["call", "--jsonl"])
        .env("TMPDIR", world.place.path().join("tree"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for (n, word) in WORDS.iter().enumerate() {
        for (name, text) in DENIED {
            world.write(name, &format!("{text}{}", "\n".repeat(n)));
        }
        world.write("secret/.ignore", "xvqzinner.txt\n");
        writeln!(stdin, "{}", serde_json::json!({"pattern": word})).unwrap();
        let answer = answers.next().unwrap().unwrap();
        assert!(answer.contains("\"count\":2"), "{answer}");
    }
    let told = || -> Vec<(PathBuf, Vec<u8>)> {
        let files = image_of(&place.join("living")).into_iter();
        let files = files.filter_map(|(path, content)| Some((path, content?)));
        files.filter(|(path, _)| path.ends_with("state")).collect()
    };
    let start = std::time::Instant::now();
    let all = loop {
        let all = told();
        if holds(&all, b"WATCHER_DOWN").is_some() {
            break all;
        }
        assert!(start.elapsed() < crate::support::GUARD, "{all:?}");
    };
    assert_eq!(all.len(), 1);
    for part in WORDS.iter().chain(DENIED.iter().map(|(_, text)| text)) {
        for part in part.as_bytes().windows(4) {
            assert_eq!(holds(&all, part), None, "{part:?}");
        }
    }
    for name in ["xvqz", "zvqx", "id_rsa", "secret"] {
        assert_eq!(holds(&all, name.as_bytes()), None, "{name}");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
    let status = world.run("mmap", &["index", "status"]);
    assert!(!String::from_utf8_lossy(&status.stdout).contains("in process"));
}

/// The temporary files that a killed build leaves behind are no exception.
#[test]
fn an_unfinished_file_has_no_text_of_files_either() {
    use super::edition::{Edition, key, store};

    let place = tempfile::tempdir().unwrap();
    let store = store(&place.path().join("store"), None);
    let left: std::cell::RefCell<Vec<(PathBuf, Vec<u8>)>> = Default::default();
    let edition = Edition::of(7, 40);
    edition.publish_seen(&store, &key(1), &|| {
        // There are the directory of the index, two locks, and a temporary file.
        assert!(check_private(store.root()) >= 4);
        let files = image_of(place.path()).into_iter();
        let files = files.filter_map(|(path, content)| Some((path, content?)));
        left.borrow_mut().extend(files);
    });
    let left = left.into_inner();
    let unfinished = |path: &Path| path.to_str().unwrap().ends_with(".tmp");
    assert!(
        left.iter()
            .any(|(path, bytes)| unfinished(path) && bytes.len() > 1_000)
    );
    for word in ["needle", "marmalade", "edition7x"] {
        for part in word.as_bytes().windows(5) {
            assert_eq!(holds(&left, part), None, "{word}");
        }
    }
}
