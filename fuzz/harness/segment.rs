//! Claims about any bytes as a segment, and about valid segments with damage, with invalid or valid
//! checksums:
//!
//! - No query panics, or takes more memory than the length of the segment allows.
//! - A segment that was verified answers every query.
//! - A segment as it was written gives the right answers.

use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use forge_search::internal::format::error::FormatError;
use forge_search::internal::format::section::{Container, FileKind, SectionWriter};
use forge_search::internal::format::segment::{
    BlockRecord, NameRecord, PartRecord, SEGMENT_VERSION, id,
};
use forge_search::internal::format::storage::Storage;
use forge_search::internal::format::wire::Field;
use forge_search::internal::index::plan::{FOLD, SupersetSafe};
use forge_search::internal::index::segment::Segment;

use super::assembled::{Asked, Texts, assembled};

/// Runs a function. Returns the maximal number of bytes that it held at once; `None` if memory is
/// not measured.
pub(crate) type Measure = fn(&mut dyn FnMut()) -> Option<u64>;

/// The memory that an opened segment and any query may take: a constant, plus a factor for each
/// byte of the file.
///
/// Paths need the factor: a record of 64 bytes stands for one path, which is on average at most 4
/// KiB long.
const MEMORY: u64 = 256 << 10;
const MEMORY_PER_BYTE: u64 = 80;

/// The maximal number of changes in one input, the number of bytes that describe a change, and the
/// maximal length of a changed section.
const MAX_CHANGES: usize = 64;
const CHANGE_LEN: usize = 8;
const MAX_SECTION: usize = 64 << 10;

/// Runs one of four checks on the rest of `data`. The first byte selects the check and the sample.
pub(crate) fn run(data: &[u8], measure: Measure) {
    let Some((mode, rest)) = data.split_first() else {
        return;
    };
    let sample = &samples()[usize::from(mode >> 7)];
    match mode % 4 {
        0 => drop(ask(rest.to_vec(), measure)),
        1 => drop(ask(framed(rest, sample), measure)),
        2 => damage(rest, sample),
        _ => change(rest, sample, measure),
    }
}

/// A valid segment and its contents.
struct Sample {
    file: Vec<u8>,
    /// The sections with their numbers, in the order of the file.
    sections: Vec<(u32, Vec<u8>)>,
    /// For each pattern, the files that its plans must keep.
    kept: Vec<Vec<u32>>,
    answers: Vec<Option<String>>,
}

impl Sample {
    fn new(texts: &Texts) -> Sample {
        let file = assembled(texts, FOLD);
        let segment = Segment::open(Storage::from(file.clone())).expect("a sound segment");
        segment.verify().expect("a sound segment");
        let count = |len: usize| u32::try_from(len).expect("few");
        assert_eq!(segment.meta().files, count(texts.files.len()));
        assert_eq!(segment.dir_count(), count(texts.dirs.len()));
        assert_eq!(segment.side_count(), count(texts.side.len()));
        for (rank, (dir, name, _)) in (0..).zip(&texts.files) {
            let record = segment.file(rank).expect("a file");
            assert_eq!(record.dir, *dir);
            assert_eq!(&segment.name(record.name).expect("a name"), name);
        }
        for (number, (path, parent, ranks)) in (0..).zip(&texts.dirs) {
            let record = segment.dir(number).expect("a directory");
            assert_eq!(record.parent, *parent);
            assert_eq!(record.first_rank..record.end_rank, ranks.clone());
            assert_eq!(segment.dir_path(number).expect("a path"), path);
            assert_eq!(segment.find_dir(path).expect("a path"), Some(number));
        }
        let container = Container::open(
            Storage::from(file.clone()),
            FileKind::Segment,
            SEGMENT_VERSION,
        );
        let container = container.expect("a container");
        let section = |id| {
            let section = container.section(id).expect("it is listed");
            (id, section.all().expect("it is sound").to_vec())
        };
        let plans = plans().iter().map(|(asked, _)| {
            let search = asked.prepare().expect("a pattern");
            let found = (0..).zip(&texts.files);
            let found = found.filter(|(_, (_, _, text))| search.finds(text));
            found.map(|(rank, _)| rank).collect()
        });
        Sample {
            sections: container.section_ids().map(section).collect(),
            kept: plans.collect(),
            answers: answers(&segment),
            file,
        }
    }
}

/// Returns two samples: a small tree with all kinds of names and texts, and a tree of many small
/// files. The latter has several blocks, and direct rows for common n-grams.
fn samples() -> &'static [Sample; 2] {
    static SAMPLES: OnceLock<[Sample; 2]> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let [mixed, many] = [mixed(), many()].map(|texts| Sample::new(&texts));
        let direct = many.sections.iter().find(|(id, _)| *id == id::DIRECT);
        assert!(direct.is_some_and(|(_, ngrams)| !ngrams.is_empty()));
        let blocks = many.sections.iter().find(|(id, _)| *id == id::BLOCKS);
        assert!(blocks.is_some_and(|(_, blocks)| blocks.len() > BlockRecord::LEN));
        let parts = many.sections.iter().find(|(id, _)| *id == id::PARTS);
        assert!(parts.is_some_and(|(_, parts)| parts.len() > PartRecord::LEN));
        [mixed, many]
    })
}

fn mixed() -> Texts {
    let dir = |path: &str, parent, ranks| (PathBuf::from(path), parent, ranks);
    let file = |dir, name: &str, text: &[u8]| (dir, OsString::from(name), text.to_vec());
    Texts {
        dirs: vec![
            dir("", 0, 0..7),
            dir("a", 0, 0..3),
            // The ordering key differs from the name.
            dir("a/e\u{301}te\u{301}", 1, 1..3),
            dir("b", 0, 3..4),
        ],
        files: vec![
            file(
                1,
                "main.c",
                b"int main(void)\r\n{\r\n\treturn needle(0);\r\n}\r\n",
            ),
            file(2, "u\u{308}ber", "Größe NEEDLE Straße\n".as_bytes()),
            // Normalization changes this text.
            file(2, "über", "neédle e\u{301}\n".as_bytes()),
            file(3, "x", b"\xFF\xFEn\0e\0e\0d\0l\0e\0\n\0"),
            file(0, "empty", b""),
            file(0, "invalid", b"before \xFF\xC3( needle after\n"),
            file(0, "z", b"Int needless;\nhay\n"),
        ],
        side: vec![
            (0, 4, OsString::from("line\nbreak")),
            (2, 3, OsString::from("\r")),
        ],
    }
}

fn many() -> Texts {
    let mut texts = Texts::default();
    texts.dirs.push((PathBuf::new(), 0, 0..73));
    for n in 0..72_u32 {
        // Less than half of the files are much longer. They get a block of their own.
        let words = if n % 9 < 5 { 1 } else { 8 };
        let mut text = String::from("common");
        for word in 0..words {
            let number = (n * 8 + word).wrapping_mul(0x9E37_79B1);
            text.push_str(&format!(" {number:08x}"));
        }
        if n % 24 == 7 {
            text.push_str(" needle");
        }
        let name = OsString::from(format!("{n:02}"));
        texts.files.push((0, name, text.into_bytes()));
    }
    // This file is split into parts. One part contains the needle.
    let mut large = "a line like all\n".repeat(3_000);
    large.insert_str(40_000, "needle");
    let name = OsString::from("72");
    texts.files.push((0, name, large.into_bytes()));
    texts
}

/// Returns the patterns and plans that every segment is queried with. One plan keeps everything.
fn plans() -> &'static [(Asked, Vec<SupersetSafe>)] {
    static PLANS: OnceLock<Vec<(Asked, Vec<SupersetSafe>)>> = OnceLock::new();
    PLANS.get_or_init(|| {
        let patterns = [
            ("needle", true, false),
            ("NEEDLE", true, true),
            ("Straße", true, false),
            ("common 0", true, false),
            ("ne(é|e)dle", false, false),
            ("int.*main|hay[a-f]?|[0-9a-f]{4}7", false, true),
            ("x", false, false),
        ];
        let plan = |(pattern, fixed, fold): (&str, bool, bool)| {
            let asked = Asked {
                pattern: pattern.to_owned(),
                fixed,
                word: false,
                fold,
            };
            let plans = asked.prepare().expect("a pattern").plans();
            (asked, plans)
        };
        patterns.into_iter().map(plan).collect()
    })
}

/// Returns a valid container with sections from `data` and the section numbers of `sample`. Each
/// section is a length of two bytes, then its content.
fn framed(data: &[u8], sample: &Sample) -> Vec<u8> {
    let mut rest = data;
    let mut sections = Vec::new();
    for (id, _) in &sample.sections {
        let (len, behind) = rest.split_at(rest.len().min(2));
        let len = len
            .iter()
            .rev()
            .fold(0, |len, byte| len << 8 | usize::from(*byte));
        let (content, behind) = behind.split_at(behind.len().min(len));
        sections.push((*id, content.to_vec()));
        rest = behind;
    }
    written(&sections)
}

/// Returns the segment of these sections, with valid checksums.
fn written(sections: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = SectionWriter::new(&mut file, FileKind::Segment, SEGMENT_VERSION)
        .expect("memory takes everything");
    for (id, content) in sections {
        writer.section(*id, content).expect("each occurs once");
    }
    writer.finish().expect("memory takes everything");
    file
}

/// Damages a valid segment in a way that checksums detect for certain. Checks that each answer is
/// missing or equal to that of the valid segment.
fn damage(data: &[u8], sample: &Sample) {
    let Some((head, rest)) = data.split_at_checked(8) else {
        return;
    };
    let mut file = sample.file.clone();
    let at = usize::from(u16::from_le_bytes([head[1], head[2]])) % file.len();
    match head[0] % 4 {
        0 => file.truncate(at),
        1 => file.extend_from_slice(rest),
        // Copies a piece of the file to another place.
        2 => {
            let from = usize::from(u16::from_le_bytes([head[3], head[4]])) % file.len();
            let most = file.len() - at.max(from);
            let len = usize::from(u16::from_le_bytes([head[5], head[6]])).min(most);
            file.copy_within(from..from + len, at);
        }
        _ => {
            for (byte, change) in file[at..].iter_mut().zip(&head[4..]) {
                *byte ^= change;
            }
        }
    }
    let damaged = file != sample.file;
    let segment = match Segment::open(Storage::from(file)) {
        Ok(segment) => segment,
        Err(error) => {
            assert!(damaged, "a segment as it was written is refused: {error}");
            return check(&error);
        }
    };
    for (answer, expected) in answers(&segment).into_iter().zip(&sample.answers) {
        match answer {
            Some(answer) => assert_eq!(
                Some(&answer),
                expected.as_ref(),
                "damage is taken for content"
            ),
            None => assert!(damaged, "a segment as it was written does not answer"),
        }
    }
    assert_eq!(segment.verify().is_err(), damaged);
}

/// Changes the sections of a valid segment, gives them valid checksums, and queries the segment.
fn change(data: &[u8], sample: &Sample, measure: Measure) {
    let mut sections = sample.sections.clone();
    for change in data.chunks_exact(CHANGE_LEN).take(MAX_CHANGES) {
        change_section(&mut sections, change);
    }
    let file = written(&sections);
    let same = file == sample.file;
    let kept = ask(file, measure);
    if same {
        let kept = kept.expect("a segment as it was written is refused");
        assert_eq!(kept.len(), sample.kept.len());
        for ((kept, must), (asked, _)) in kept.iter().zip(&sample.kept).zip(plans()) {
            for plan in kept {
                let missing = must.iter().find(|rank| !plan.contains(rank));
                assert_eq!(missing, None, "left out for {asked:?}");
            }
        }
    }
}

/// Makes one change. Its bytes are the kind of change, the number of a section, a place in the
/// section, and four bytes.
fn change_section(sections: &mut Vec<(u32, Vec<u8>)>, change: &[u8]) {
    let number = |at: usize| usize::from(u16::from_le_bytes([change[at], change[at + 1]]));
    if sections.is_empty() {
        return;
    }
    let n = usize::from(change[1]) % sections.len();
    let other = usize::from(change[4]) % sections.len();
    let value = &change[4..];
    let section = &mut sections[n].1;
    let at = number(2) % (section.len() + 1);
    match change[0] % 8 {
        0 => overwrite(section, at, &value[..1]),
        1 => overwrite(section, at, &value[..2]),
        2 => overwrite(section, at, value),
        3 => section.truncate(at),
        // Repeats a piece of the section, for example a record.
        4 => {
            let len = usize::from(value[0]).min(section.len() - at);
            let piece = section[at..at + len].to_vec();
            for _ in 0..number(5) {
                if section.len() + len > MAX_SECTION || len == 0 {
                    break;
                }
                section.extend_from_slice(&piece);
            }
        }
        // Copies a piece of the section to another place.
        5 => {
            let from = number(6) % (section.len() + 1);
            let most = section.len() - at.max(from);
            section.copy_within(from..from + usize::from(value[0]).min(most), at);
        }
        6 => {
            let content = sections[other].1.clone();
            sections[n].1 = content;
        }
        _ => drop(sections.remove(n)),
    }
}

fn overwrite(section: &mut [u8], at: usize, value: &[u8]) {
    for (byte, new) in section[at..].iter_mut().zip(value) {
        *byte = *new;
    }
}

/// Opens a file as a segment, runs all queries and checks the memory that they take. Returns the
/// files that the plans keep, if the segment is valid.
fn ask(file: Vec<u8>, measure: Measure) -> Option<Vec<Vec<Vec<u32>>>> {
    let allowed = MEMORY + MEMORY_PER_BYTE * file.len() as u64;
    let storage = Storage::from(file);
    // The plans are made before memory is measured.
    plans();
    let mut segment = None;
    let mut answered = false;
    let held = measure(&mut || {
        segment = match Segment::open(storage.clone()) {
            Ok(segment) => Some(segment),
            Err(error) => return check(&error),
        };
        answered = segment.as_ref().is_some_and(ask_catalog);
    });
    if let Some(held) = held {
        assert!(held <= allowed, "{held} bytes of {allowed}");
    }
    let segment = segment?;
    let mut sound = false;
    let mut kept = None;
    let held = measure(&mut || {
        kept = ask_plans(&segment);
        sound = segment.verify().map_err(|error| check(&error)).is_ok();
    });
    if let Some(held) = held {
        assert!(held <= allowed, "{held} bytes of {allowed}");
    }
    if !sound {
        return None;
    }
    assert!(answered, "a sound catalog does not answer");
    let kept = kept.expect("a sound segment has no candidates");
    for rank in 0..segment.file_count() {
        let file = segment.file(rank).expect("it has answered");
        let left_out = kept.iter().flatten().any(|kept| !kept.contains(&rank));
        assert!(file.excludable || !left_out, "file {rank} is left out");
    }
    let free = kept
        .iter()
        .flatten()
        .zip(plans().iter().flat_map(|(_, plans)| plans));
    for (kept, _) in free.filter(|(_, plan)| plan.keeps_everything()) {
        assert_eq!(kept.len(), segment.file_count() as usize);
    }
    Some(kept)
}

fn check(error: &FormatError) {
    assert!(!error.to_string().is_empty());
}

/// Returns the value of a result. For an error, checks the error and sets `all` to false.
fn got<T>(result: Result<T, FormatError>, all: &mut bool) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            check(&error);
            *all = false;
            None
        }
    }
}

/// Queries everything in the catalog, and some numbers that are out of range. Returns true if the
/// segment answers for everything that exists.
fn ask_catalog(segment: &Segment) -> bool {
    let meta = *segment.meta();
    let all = &mut true;
    let names = |name: NameRecord, all: &mut bool| {
        got(segment.name(name), all);
        got(segment.sort_key(name), all);
    };
    for rank in 0..meta.files {
        if let Some(file) = got(segment.file(rank), all) {
            assert!(file.dir < meta.dirs);
            names(file.name, all);
        }
    }
    for n in 0..meta.side {
        if let Some(side) = got(segment.side(n), all) {
            assert!(side.dir < meta.dirs);
            assert!(
                side.before_rank <= meta.files,
                "a file that is never passed"
            );
            names(side.name, all);
        }
    }
    // Either all paths are readable or none.
    let paths = got(segment.dir_path(0), all).is_some();
    for number in 0..meta.dirs {
        if let Some(dir) = got(segment.dir(number), all) {
            assert!(dir.parent < number || number == 0 && dir.parent == 0);
            assert!(dir.first_rank <= dir.end_rank && dir.end_rank <= meta.files);
            got(segment.sort_key(dir.name), all);
        }
        if paths {
            let path = segment.dir_path(number).expect("paths are known");
            let found = segment.find_dir(path).expect("paths are known");
            let found = found.expect("the path of a directory");
            let again = segment.dir_path(found).expect("paths are known");
            assert_eq!(path.as_os_str(), again.as_os_str());
            check_path(segment, number, path);
        }
    }
    if let Some(Some(found)) = got(segment.find_dir(Path::new("no/such")), all) {
        assert_eq!(segment.dir_path(found).ok(), Some(Path::new("no/such")));
    }
    for beyond in [0, 1, u32::MAX / 2] {
        assert!(segment.file(meta.files.saturating_add(beyond)).is_err());
        assert!(segment.dir(meta.dirs.saturating_add(beyond)).is_err());
        assert!(segment.dir_path(meta.dirs.saturating_add(beyond)).is_err());
        assert!(segment.side(meta.side.saturating_add(beyond)).is_err());
    }
    for (offset, len, key_len) in [(u32::MAX, 0, 0), (u32::MAX, 9, 9), (0, u16::MAX, u16::MAX)] {
        let name = NameRecord {
            offset,
            len,
            key_len,
        };
        let ends = u64::from(offset) + u64::from(len) + u64::from(key_len);
        let both = segment.name(name).is_ok() && segment.sort_key(name).is_ok();
        assert!(!both || ends <= segment.storage().len() as u64);
    }
    *all
}

/// Checks that a directory's path is its parent's path plus its own name.
fn check_path(segment: &Segment, number: u32, path: &Path) {
    let Ok(dir) = segment.dir(number) else {
        panic!("a path leads through damage");
    };
    if number == 0 {
        assert_eq!(path, Path::new(""));
        return;
    }
    let parent = segment.dir_path(dir.parent).expect("paths are known");
    let name = segment.name(dir.name).expect("it is in the path");
    assert_eq!(path.parent(), Some(parent), "{path:?}");
    assert_eq!(path.file_name(), Some(name), "{path:?}");
}

/// Returns the files that each plan of each pattern keeps. Checks that another order of tests keeps
/// the same files. Returns `None` if an answer is missing.
fn ask_plans(segment: &Segment) -> Option<Vec<Vec<Vec<u32>>>> {
    let all = &mut true;
    let mut answers = Vec::new();
    for (_, plans) in plans() {
        let mut kept = Vec::new();
        for plan in plans {
            let found = got(segment.candidates(plan), all);
            let mut ordered = plan.clone();
            got(segment.order(&mut ordered), all);
            let again = got(segment.candidates(&ordered), all);
            if let (Some(found), Some(again)) = (&found, &again) {
                assert_eq!(found, again, "the order of tests matters");
            }
            let files: Vec<u32> = found
                .iter()
                .flat_map(|found| found.files().iter(0..u32::MAX))
                .collect();
            assert!(files.last().is_none_or(|last| *last < segment.file_count()));
            if let Some(found) = &found {
                for &rank in &files {
                    if let Some(Some(spans)) = got(segment.spans(rank, found), all) {
                        check_spans(segment, rank, &spans);
                    }
                }
            }
            kept.push(files);
        }
        answers.push(kept);
    }
    all.then_some(answers)
}

/// Checks that the parts of a file are inside of the file, in order and apart from each other.
fn check_spans(segment: &Segment, rank: u32, spans: &[Range<u64>]) {
    let mut end = 0;
    for (n, span) in spans.iter().enumerate() {
        assert!(
            span.start < span.end && (n == 0 || span.start > end),
            "{spans:?}"
        );
        end = span.end;
    }
    let file = segment.file(rank).expect("its parts are known");
    assert!(end <= file.stamp.len, "{spans:?} of {file:?}");
}

/// Returns the answer to each query; `None` for damage.
fn answers(segment: &Segment) -> Vec<Option<String>> {
    let mut answers = vec![Some(format!("{:?}", segment.meta()))];
    for rank in 0..segment.file_count() {
        let file = segment.file(rank);
        let name = file.as_ref().ok().map(|file| file.name);
        answers.push(file.ok().map(|file| format!("{file:?}")));
        answers.push(name.and_then(|name| segment.name(name).ok().map(|name| format!("{name:?}"))));
        answers
            .push(name.and_then(|name| segment.sort_key(name).ok().map(|key| format!("{key:?}"))));
    }
    for n in 0..segment.side_count() {
        answers.push(segment.side(n).ok().map(|side| format!("{side:?}")));
    }
    for number in 0..segment.dir_count() {
        answers.push(segment.dir(number).ok().map(|dir| format!("{dir:?}")));
        answers.push(
            segment
                .dir_path(number)
                .ok()
                .map(|path| format!("{path:?}")),
        );
    }
    for plan in plans().iter().flat_map(|(_, plans)| plans) {
        answers.push(
            segment
                .candidates(plan)
                .ok()
                .map(|kept| format!("{kept:?}")),
        );
    }
    answers
}
