//! The tree that the examples of the documents search, and the data of their executor.
//!
//! The lines that the documents show stand where they show them. All other lines are fillers, in
//! which the examples find nothing.

use std::collections::BTreeMap;
use std::fs;

use rusqlite::Connection;

use super::examples::World;

/// Lines of the tree: a file, the number of the line, and its text. `FORMAT` stands for the
/// directory that is `src/format` in the README, and `src` in the guide.
const LINES: &str = r#"
FORMAT/disk.rs:38:    fn open(&self, path: &Path) -> io::Result<File>;
FORMAT/disk.rs:46:    fn open_lock(&self, path: &Path, exclusive: bool) -> io::Result<File>;
FORMAT/disk.rs:119:        open_to_read(path)
FORMAT/disk.rs:128:        open_to_read(path).map_err(|_| refused)
FORMAT/disk.rs:199:fn open_to_write(path: &Path) -> io::Result<File> {
FORMAT/disk.rs:206:fn open_to_read(path: &Path) -> io::Result<File> {
FORMAT/disk.rs:222:fn open_to_write(path: &Path) -> io::Result<File> {
FORMAT/disk.rs:229:fn open_to_read(path: &Path) -> io::Result<File> {
FORMAT/lock.rs:20:        let lock = disk.open_lock(&path, true);
FORMAT/lock.rs:316:
FORMAT/lock.rs:317:    /// Returns true if the holder may change the directory.
FORMAT/lock.rs:318:    pub fn is_writer(&self) -> bool {
FORMAT/lock.rs:483:    #[test]
FORMAT/lock.rs:484:    fn a_free_lock_is_taken_at_once_and_again_after_it_was_given_back() {
FORMAT/lock.rs:485:        let dir = tempfile::tempdir().unwrap();
FORMAT/lock.rs:539:    #[test]
FORMAT/lock.rs:540:    fn a_lock_given_back_while_waiting_is_taken() {
FORMAT/lock.rs:541:        let dir = tempfile::tempdir().unwrap();
FORMAT/publish.rs:13:
FORMAT/publish.rs:14:    // The lock of the directory is taken before the file is written.
FORMAT/publish.rs:15:    let lock = disk.open_lock(&path, false)?;
FORMAT/publish.rs:16:    let file = disk.create(&unfinished)?;
FORMAT/storage.rs:93:    /// [`FormatErrorKind::Insecure`], [`FormatErrorKind::TooLarge`], [`FormatErrorKind::Io`].
FORMAT/storage.rs:94:    pub fn paged_on(disk: &dyn Disk, path: &Path) -> Result<Self, FormatError> {
FORMAT/storage.rs:95:        let in_file = |error: FormatError| error.in_file(path);
FORMAT/wire.rs:390:// the last line
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
    "FORMAT/entry.rs",
    "FORMAT/manifest.rs",
    "FORMAT/mmap.rs",
    "FORMAT/nfc.rs",
    "FORMAT/paged.rs",
    "FORMAT/section.rs",
    "FORMAT/section/layout.rs",
    "FORMAT/section/pages.rs",
    "FORMAT/section/reader.rs",
    "FORMAT/section/writer.rs",
    "FORMAT/segment.rs",
    "FORMAT/sort_key.rs",
    "FORMAT/tables.rs",
    "FORMAT/trailer.rs",
];

/// The fewest lines of a file. With them, it is larger than a kibibyte.
const MIN_LINES: usize = 40;

/// A line in which no example finds anything.
const FILLER: &str = "// ------------------------------";

/// Writes the tree, with `format` as the directory of most files, and the data of the executor.
pub(super) fn write(world: &World, format: &str) {
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
        world
            .place
            .write(&name.replace("FORMAT", format), &(text.join("\n") + "\n"));
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
