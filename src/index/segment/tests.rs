use std::ffi::OsStr;

use super::*;
use crate::format::manifest::RuleSets;
use crate::format::section::SectionWriter;
use crate::format::wire::Field;
use crate::index::sections::Sections;

const NAME: NameRecord = NameRecord {
    offset: 0,
    len: 0,
    key_len: 0,
};

/// Writes a segment without files: with directories, by name and parent, and a file on the side
/// list.
fn written(dirs: &[(&str, u32)], side: (&str, u32)) -> Vec<u8> {
    let mut sections = Sections::default();
    for (name, parent) in dirs {
        let record = DirRecord {
            parent: *parent,
            name: NAME,
            first_rank: 0,
            end_rank: 0,
            sets: RuleSets::EVERY,
            stamp: Default::default(),
        };
        sections.push_dir(OsStr::new(name), record).unwrap();
    }
    let record = SideRecord {
        dir: 0,
        before_rank: side.1,
        name: NAME,
        sets: RuleSets::EVERY,
    };
    sections.push_side(OsStr::new(side.0), record).unwrap();
    let params = BloomParams::from_config(1 << 20, 0.01);
    let meta = MetaRecord {
        files: 0,
        dirs: dirs.len() as u32,
        side: 1,
        as_root: 0,
        blocks: 0,
        groups: 0,
        ngram_chars: params.ngram_chars,
        bloom_bits: params.bits,
        bloom_hashes: params.hashes,
        stored_hashes: STORED_HASHES as u32,
        casefold: Casefold::Ascii.number(),
        bloom_seed: params.seed,
        text_bytes: 0,
        ngrams: 0,
    };
    let mut file = Vec::new();
    let mut out = SectionWriter::new(&mut file, FileKind::Segment, SEGMENT_VERSION).unwrap();
    out.section(id::ROWS, b"").unwrap();
    sections.write(out, meta).unwrap();
    file
}

/// Returns the segment with one section modified by `change`, and with valid checksums.
fn changed(file: Vec<u8>, id: u32, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let storage = Storage::from(file);
    let container = Container::open(storage, FileKind::Segment, SEGMENT_VERSION).unwrap();
    let mut file = Vec::new();
    let mut out = SectionWriter::new(&mut file, FileKind::Segment, SEGMENT_VERSION).unwrap();
    for each in container.section_ids() {
        let mut content = container.section(each).unwrap().all().unwrap().to_vec();
        if each == id {
            change(&mut content);
        }
        out.section(each, &content).unwrap();
    }
    out.finish().unwrap();
    file
}

fn opened(file: Vec<u8>) -> Segment {
    Segment::open(Storage::from(file)).unwrap()
}

#[track_caller]
fn refused<T>(result: Result<T, FormatError>, problem: &str) {
    let error = result.err().unwrap();
    assert!(error.is_corrupt());
    assert!(error.to_string().contains(problem), "{error}");
}

#[test]
fn names_lead_nowhere_else() {
    let sound = opened(written(&[("", 0), ("a", 0), ("b", 1)], ("line\nbreak", 0)));
    sound.verify().unwrap();
    assert_eq!(sound.dir_path(2).unwrap(), Path::new("a/b"));
    // With the separator of the system.
    let joined = Path::new("a").join("b");
    assert_eq!(sound.find_dir(&joined).unwrap(), Some(2));
    for name in ["/", "..", ".", "a/b", "a\0b", "/etc"] {
        let dirs = opened(written(&[("", 0), (name, 0)], ("x\n", 0)));
        refused(dirs.dir_path(1), "a name is not valid");
        refused(dirs.find_dir(Path::new(name)), "a name is not valid");
        refused(dirs.verify(), "a name is not valid");
        let side = opened(written(&[("", 0)], (name, 0)));
        refused(side.name(side.side(0).unwrap().name), "a name is not valid");
        refused(side.verify(), "a name is not valid");
    }
    let dirs = opened(written(&[("", 0), ("", 0)], ("x\n", 0)));
    refused(dirs.dir(1), "no name");
    refused(dirs.verify(), "no name");
    let side = opened(written(&[("", 0)], ("", 0)));
    refused(side.side(0), "no name");
}

#[test]
fn files_of_the_side_list_stand_before_some_file_or_last() {
    let segment = opened(written(&[("", 0)], ("x\n", 1)));
    refused(segment.side(0), "a file that does not exist");
    refused(segment.verify(), "a file that does not exist");
}

#[test]
fn ordering_keys_are_verified() {
    let file = written(&[("", 0), ("dir", 0)], ("x\n", 0));
    // The length of the key in the name of the second directory.
    let key_len_at = DirRecord::LEN + 10;
    let damaged = changed(file, id::DIRS, |dirs| dirs[key_len_at] = 200);
    let segment = opened(damaged);
    refused(
        segment.sort_key(segment.dir(1).unwrap().name),
        "reaches beyond",
    );
    refused(segment.verify(), "reaches beyond");
}

#[test]
fn an_ordering_key_is_that_of_its_name() {
    // The name is decomposed, so its key differs from the name and is stored after it.
    let name = "cafe\u{301}";
    let file = written(&[("", 0), (name, 0)], ("x\n", 0));
    opened(file.clone()).verify().unwrap();
    let damaged = changed(file, id::NAMES, |names| {
        let composed = "caf\u{E9}".as_bytes();
        let at = names
            .windows(5)
            .position(|bytes| bytes == composed)
            .unwrap();
        names[at] = b'k';
    });
    refused(opened(damaged).verify(), "not that of its name");
}

#[test]
fn a_few_records_do_not_stand_for_gigabytes_of_paths() {
    let long = "x".repeat(60_000);
    let mut dirs = vec![("", 0)];
    // Each directory is in the previous one.
    dirs.extend((0..100).map(|parent| (long.as_str(), parent)));
    let segment = opened(written(&dirs, ("x\n", 0)));
    refused(segment.dir_path(0), "impossibly long");
    refused(segment.verify(), "impossibly long");
    // The deepest possible path on Linux.
    let mut dirs = vec![("", 0)];
    dirs.extend((0..2_048).map(|parent| ("x", parent)));
    let segment = opened(written(&dirs, ("x\n", 0)));
    segment.verify().unwrap();
    assert_eq!(segment.dir_path(2_048).unwrap().as_os_str().len(), 4_095);
}

#[test]
fn no_more_files_are_eligible_as_the_root_than_there_are() {
    let file = changed(written(&[("", 0)], ("x\n", 0)), id::META, |meta| {
        meta[12] = 1
    });
    refused(
        Segment::open(Storage::from(file)),
        "fewer files than eligible",
    );
}

#[test]
fn direct_ngrams_have_to_be_sorted() {
    let ngrams = |ngrams: [u32; 2]| {
        let file = written(&[("", 0)], ("x\n", 0));
        // No block, two n-grams, and an empty word list of 16 bytes.
        let group = [0_u32, 2, 0, 0, 0, 0, 16, 0].map(u32::to_le_bytes).concat();
        let file = changed(file, id::ROWS, |rows| rows.resize(16, 0));
        let file = changed(file, id::GROUPS, |groups| groups.clone_from(&group));
        let file = changed(file, id::META, |meta| meta[20] = 1);
        let list = ngrams.map(u32::to_le_bytes).concat();
        opened(changed(file, id::DIRECT, |direct| direct.clone_from(&list)))
    };
    ngrams([0, 7]).verify().unwrap();
    refused(ngrams([7, 0]).verify(), "not sorted");
    refused(ngrams([7, 7]).verify(), "not sorted");
}
