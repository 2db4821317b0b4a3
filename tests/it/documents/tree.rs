//! The trees that the examples of the documents search, and the data of the guide's executor.
//!
//! The README shows lines of this project, so its examples search a copy of `src/format`. The guide
//! has a tree of its own: the lines that it shows stand where it shows them. All other lines are
//! fillers, in which the examples find nothing.

use std::collections::BTreeMap;
use std::fs;

use rusqlite::Connection;

use super::examples::World;
use crate::project_files::rust_files;

/// Lines of the tree: a file, the number of the line, and its text.
const LINES: &str = r#"
src/disk.rs:38:    fn open(&self, path: &Path) -> io::Result<File>;
src/disk.rs:46:    fn open_lock(&self, path: &Path, exclusive: bool) -> io::Result<File>;
src/disk.rs:119:        open_to_read(path)
src/disk.rs:128:        open_to_read(path).map_err(|_| refused)
src/disk.rs:199:fn open_to_write(path: &Path) -> io::Result<File> {
src/disk.rs:206:fn open_to_read(path: &Path) -> io::Result<File> {
src/disk.rs:222:fn open_to_write(path: &Path) -> io::Result<File> {
src/disk.rs:229:fn open_to_read(path: &Path) -> io::Result<File> {
src/lock.rs:20:        let lock = disk.open_lock(&path, true);
src/lock.rs:316:
src/lock.rs:317:    /// Returns true if the holder may change the directory.
src/lock.rs:318:    pub fn is_writer(&self) -> bool {
src/lock.rs:483:    #[test]
src/lock.rs:484:    fn a_free_lock_is_taken_at_once_and_again_after_it_was_given_back() {
src/lock.rs:485:        let dir = tempfile::tempdir().unwrap();
src/lock.rs:539:    #[test]
src/lock.rs:540:    fn a_lock_given_back_while_waiting_is_taken() {
src/lock.rs:541:        let dir = tempfile::tempdir().unwrap();
src/publish.rs:13:
src/publish.rs:14:    // The lock of the directory is taken before the file is written.
src/publish.rs:15:    let lock = disk.open_lock(&path, false)?;
src/publish.rs:16:    let file = disk.create(&unfinished)?;
src/storage.rs:93:    /// [`FormatErrorKind::Insecure`], [`FormatErrorKind::TooLarge`], [`FormatErrorKind::Io`].
src/storage.rs:94:    pub fn paged_on(disk: &dyn Disk, path: &Path) -> Result<Self, FormatError> {
src/storage.rs:95:        let in_file = |error: FormatError| error.in_file(path);
src/wire.rs:390:// the last line
drivers/sched.c:1:/* The lock order of the scheduler. */
drivers/sched.c:2:int parse_header(void) { return kmalloc_array(sys_open); }
drivers/sched.c:3:long schedule_hr_timeout(long left);
src/lib.rs:1:fn main() { let x = a[0].x; foo(retry, needle); }
src/lib.rs:2:// TODO: unsafe { bar() }
src/lib.rs:3:fn first_test() {}
tests/once.py:1:retry(needle) # status
"#;

/// Files that hold fillers only, so that the tree has as many files as the guide says.
const FILLED: &[&str] = &[
    "src/entry.rs",
    "src/manifest.rs",
    "src/mmap.rs",
    "src/nfc.rs",
    "src/paged.rs",
    "src/section.rs",
    "src/section/layout.rs",
    "src/section/pages.rs",
    "src/section/reader.rs",
    "src/section/writer.rs",
    "src/segment.rs",
    "src/sort_key.rs",
    "src/tables.rs",
    "src/trailer.rs",
];

/// The fewest lines of a file. With them, it is larger than a kibibyte.
const MIN_LINES: usize = 40;

/// A line in which no example finds anything.
const FILLER: &str = "// ------------------------------";

/// Copies the directory of the project that the examples of the README search.
pub(super) fn write_for_readme(world: &World) {
    let files = rust_files().into_iter();
    for file in files.filter(|file| file.path.starts_with("src/format/")) {
        world.place.write(&file.path, &file.text);
    }
}

/// Writes the tree of the guide, and the data of its executor.
pub(super) fn write_for_guide(world: &World) {
    let mut files: BTreeMap<&str, BTreeMap<usize, &str>> = BTreeMap::new();
    for line in LINES.trim().lines() {
        let mut parts = line.splitn(3, ':');
        let mut part = || parts.next().unwrap();
        let (name, number) = (part(), part().parse().unwrap());
        files.entry(name).or_default().insert(number, part());
    }
    for name in FILLED {
        files.entry(name).or_default();
    }
    for (name, lines) in files {
        let last = lines.last_key_value().map_or(0, |(number, _)| *number);
        let line = |number| *lines.get(&number).unwrap_or(&FILLER);
        let text: Vec<&str> = (1..=last.max(MIN_LINES)).map(line).collect();
        world.place.write(name, &(text.join("\n") + "\n"));
    }
    world.place.write("bin.dat", "x\0needle\n");
    let long = "x".repeat(1_100);
    world
        .place
        .write("patterns.txt", &format!("retry\n{long}\n"));
    let requests = format!("{{\"pattern\": \"needle|{long}\"}}\n");
    world.place.write("requests.jsonl", &requests);
    let dir = world.dir();
    for folder in ["docs", "mail/team/cur", "mail/team/new", "mail/team/tmp"] {
        fs::create_dir_all(dir.join(folder)).unwrap();
    }
    for plan in ["docs/plan.md", "docs/plan-2.md", "docs/other.md"] {
        fs::write(dir.join(plan), "").unwrap();
    }
    let shop = Connection::open(dir.join("shop.db")).unwrap();
    shop.execute_batch("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
        .unwrap();
}
