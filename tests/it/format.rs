//! The files of an index: they match the documentation, a version's layout never changes, and
//! readers see only whole files, even if a writer is killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use forge_search::internal::format::disk::RealDisk;
use forge_search::internal::format::error::{FormatError, FormatErrorKind};
use forge_search::internal::format::lock::{DirLock, LockFile, create_private_dir};
use forge_search::internal::format::manifest::{
    BloomParams, EligibilityInput, FileRef, IgnoreRules, InputKind, InputStat, KeyParts,
    MANIFEST_VERSION, MAX_DENY_PATTERNS, MAX_ID_BYTES, MAX_INPUTS, MAX_MANIFEST_BYTES,
    MAX_PATH_BYTES, Manifest, PublicationState, SegmentRef,
};
use forge_search::internal::format::publish::{
    MAX_NAME_BYTES, is_unfinished, publish, remove_leftovers,
};
use forge_search::internal::format::section::{
    CONTAINER_VERSION, Container, FileKind, MAX_SECTIONS, PAGE_SIZE, SectionWriter, Summary,
};
use forge_search::internal::format::storage::{Privacy, Storage};

use crate::child_processes::{self, Started};
use crate::project_files::root;

/// Returns the example file that the document shows.
fn example() -> (Vec<u8>, Summary) {
    let mut file = Vec::new();
    let mut writer = SectionWriter::new(&mut file, FileKind::Segment, 1).unwrap();
    writer.section(7, b"hello").unwrap();
    let summary = writer.finish().unwrap();
    (file, summary)
}

/// Returns a manifest with a value in every field.
fn full_manifest() -> Manifest {
    Manifest {
        key: KeyParts {
            root: b"/home/\xff/tree".to_vec(),
            hidden: true,
            follow: false,
            rules: IgnoreRules::None,
            backend_id: "embedded@0.1.0".to_owned(),
            unicode_normalization: "NFC".to_owned(),
            casefold: "ASCII".to_owned(),
            tokenizer_id: "ngram3-xxh64".to_owned(),
            ngram_chars: 3,
            max_tokenized_bytes: 1 << 20,
            deny_patterns: vec!["**/*.pem".to_owned(), "**/.ssh/**".to_owned()],
            global_excludes: b"/home/u/ignore".to_vec(),
            excludes_base: b"/home/u".to_vec(),
            access: "uid=1000 gid=1000 groups=4,24,1000 caps=".to_owned(),
            schema_version: 1,
            implementation_version: 2,
        },
        bloom: BloomParams {
            bits: 5_025_332,
            hashes: 7,
            ngram_chars: 3,
            seed: 0x9e37_79b9_7f4a_7c15,
            basis_ngrams: 524_288,
            target_fp_rate_bits: 0.01_f64.to_bits(),
        },
        state: PublicationState {
            sequence: 5,
            created_ms: 1_700_000_000_000,
            updated_ms: 1_700_000_100_000,
            coverage_epoch: 4,
            enumeration_errors: 1,
        },
        segment: SegmentRef {
            file: FileRef {
                name: "segment-1.fsx".to_owned(),
                len: 4096,
                checksum: 0x0123_4567_89ab_cdef,
            },
            files: 100,
        },
        inputs: vec![
            EligibilityInput {
                path: b"/home/.git".to_vec(),
                stat: None,
            },
            EligibilityInput {
                path: b"/home/\xff/tree/.gitignore".to_vec(),
                stat: Some(InputStat {
                    kind: InputKind::File,
                    size: 17,
                    mtime_ns: 1_700_000_000_123_456_789,
                    ctime_ns: -1,
                    dev: 2049,
                    ino: 77,
                }),
            },
        ],
    }
}

mod document {
    use super::*;

    fn text() -> String {
        std::fs::read_to_string(root().join("docs/format.md")).unwrap()
    }

    /// Returns the cells of the `which`-th table below a heading.
    fn table(heading: &str, which: usize) -> Vec<Vec<String>> {
        let text = text();
        let below = text
            .lines()
            .skip_while(|line| {
                line.trim_start_matches('#').trim() != heading || !line.starts_with('#')
            })
            .skip(1)
            .take_while(|line| !line.starts_with('#'));
        let mut tables: Vec<Vec<Vec<String>>> = Vec::new();
        let mut inside = false;
        for line in below {
            let row = line
                .strip_prefix("| ")
                .and_then(|line| line.strip_suffix(" |"));
            match row {
                Some(row) if inside => {
                    let cells = row.split('|').map(|cell| cell.trim().to_owned());
                    tables.last_mut().unwrap().push(cells.collect());
                }
                Some(_) => tables.push(Vec::new()),
                None => {}
            }
            inside = row.is_some();
        }
        let mut rows = tables.swap_remove(which);
        // The line between the head and the rows.
        assert!(rows[0].iter().all(|cell| cell == "---"), "{rows:?}");
        rows.remove(0);
        assert!(!rows.is_empty(), "{heading}");
        rows
    }

    /// Returns the byte range of each fixed field by name. Checks that the ranges have no gaps.
    fn fields(heading: &str, total: usize) -> BTreeMap<String, std::ops::Range<usize>> {
        let mut fields = BTreeMap::new();
        let mut next = 0;
        for row in table(heading, 0) {
            let at: usize = row[0].parse().unwrap();
            let len: usize = row[1].parse().unwrap();
            assert_eq!(at, next, "{heading}: a gap before {row:?}");
            next = at + len;
            let name = if fields.contains_key(&row[2]) {
                format!("{} at the end", row[2])
            } else {
                row[2].clone()
            };
            fields.insert(name, at..next);
        }
        assert_eq!(next, total, "{heading}");
        fields
    }

    fn number(bytes: &[u8]) -> u64 {
        let fold = |number, byte: &u8| number << 8 | u64::from(*byte);
        bytes.iter().rev().fold(0, fold)
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits = text.trim_matches('`').split(' ');
        digits
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect()
    }

    /// Returns the documented value of a field.
    fn value(heading: &str, field: &str) -> String {
        let rows = table(heading, 0);
        let row = rows.iter().find(|row| row[2] == field).unwrap();
        row[3].clone()
    }

    #[test]
    fn the_parts_of_a_container_are_where_it_says() {
        let (file, summary) = example();
        let header = fields("Header", 64);
        let get = |name: &str| &file[header[name].clone()];
        assert_eq!(get("magic"), hex(&value("Header", "magic")));
        assert_eq!(get("byte order"), hex(&value("Header", "byte order")));
        assert_eq!(
            number(get("container version")),
            u64::from(CONTAINER_VERSION)
        );
        assert_eq!(
            value("Header", "container version"),
            CONTAINER_VERSION.to_string()
        );
        assert_eq!(number(get("kind")), 1);
        assert_eq!(number(get("kind version")), 1);
        assert_eq!(number(get("reserved")), 0);
        let crc = header["header checksum"].start;
        assert_eq!(
            number(get("header checksum")),
            u64::from(crc32fast::hash(&file[..crc]))
        );

        let at = file.len() - 64;
        let trailer = fields("Trailer", 64);
        let get = |name: &str| number(&file[at..][trailer[name].clone()]);
        let list = get("page checksums") as usize;
        let table = get("section table") as usize;
        assert_eq!((list, table), (128, 132));
        assert_eq!(get("file length"), summary.len);
        assert_eq!(get("file length"), file.len() as u64);
        assert_eq!(get("file checksum"), summary.checksum);
        let hashed = [&file[..64], &file[list..at]].concat();
        assert_eq!(summary.checksum, xxhash_rust::xxh64::xxh64(&hashed, 0));
        assert_eq!(get("sections"), 1);
        assert_eq!(get("reserved"), 0);
        for (name, covered) in [
            ("checksum of the page checksums", &file[list..table]),
            ("checksum of the section table", &file[table..at]),
            (
                "trailer checksum",
                &file[at..at + trailer["trailer checksum"].start],
            ),
        ] {
            assert_eq!(get(name), u64::from(crc32fast::hash(covered)), "{name}");
        }
        let magic = &file[at..][trailer["magic"].clone()];
        assert_eq!(magic, hex(&value("Trailer", "magic")));

        let entry = fields("Section table", at - table);
        let get = |name: &str| number(&file[table..][entry[name].clone()]);
        assert_eq!((get("id"), get("offset"), get("length")), (7, 64, 5));
        assert_eq!(get("reserved"), 0);
        assert_eq!(&file[64..69], b"hello");
        assert_eq!(
            number(&file[list..table]),
            u64::from(crc32fast::hash(&file[..list])),
            "one page, one checksum"
        );
        assert!(text().contains("A *page* is 4,096 bytes") && PAGE_SIZE == 4096);
    }

    #[test]
    fn the_kinds_have_these_numbers() {
        let kinds = [FileKind::Segment, FileKind::Manifest];
        let names = ["segment", "manifest"];
        let listed: Vec<String> = kinds
            .iter()
            .zip(names)
            .map(|(kind, name)| format!("{} {name}", kind.code()))
            .collect();
        assert_eq!(value("Header", "kind"), listed.join(", "));
    }

    #[test]
    fn the_example_is_a_file_as_it_is_written() {
        let (file, _) = example();
        let lines = file.chunks(16).enumerate().map(|(index, row)| {
            let hex = |row: &[u8]| {
                let bytes: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
                bytes.join(" ")
            };
            let (left, right) = row.split_at(row.len().min(8));
            format!("{:08x}  {}  {}", index * 16, hex(left), hex(right))
                .trim_end()
                .to_owned()
        });
        let dump: Vec<String> = lines.collect();
        let dump = format!("```text\n{}\n```", dump.join("\n"));
        assert!(text().contains(&dump), "the example should be\n{dump}");
    }

    /// Skips one value of a documented type; returns the bytes after it.
    fn skip<'a>(bytes: &'a [u8], kind: &str) -> &'a [u8] {
        let block = |bytes: &'a [u8]| &bytes[8 + number(&bytes[..8]) as usize..];
        match kind {
            "u8" | "flag" => &bytes[1..],
            "u32" => &bytes[4..],
            "u64" | "i64" => &bytes[8..],
            "block" | "text" => block(bytes),
            "list of text" => (0..number(&bytes[..8])).fold(&bytes[8..], |rest, _| block(rest)),
            "file" => record(bytes, "Segment of a manifest", 1),
            other => panic!("the type {other} is not explained"),
        }
    }

    fn record<'a>(bytes: &'a [u8], heading: &str, which: usize) -> &'a [u8] {
        table(heading, which)
            .iter()
            .fold(bytes, |rest, row| skip(rest, &row[0]))
    }

    #[test]
    fn the_sections_of_a_manifest_have_the_fields_it_lists() {
        let file = full_manifest().encode().unwrap();
        let container =
            Container::open(Storage::from(file), FileKind::Manifest, MANIFEST_VERSION).unwrap();
        let listed: Vec<(u32, String)> = table("Manifest", 0)
            .into_iter()
            .map(|row| (row[0].parse().unwrap(), row[1].clone()))
            .collect();
        let ids: Vec<u32> = listed.iter().map(|(id, _)| *id).collect();
        assert!(container.section_ids().eq(ids));
        for (id, name) in listed {
            let bytes = container.section(id).unwrap().all().unwrap();
            let rest = match name.as_str() {
                "key" => record(bytes, "Key", 0),
                "filters" => record(bytes, "Filters", 0),
                "state" => record(bytes, "State", 0),
                "segment" => record(bytes, "Segment of a manifest", 0),
                "inputs" => {
                    (0..number(&bytes[..8])).fold(&bytes[8..], |rest, _| record(rest, "Inputs", 0))
                }
                other => panic!("a section {other} is not described"),
            };
            assert!(
                rest.is_empty(),
                "{name}: {} bytes are not listed",
                rest.len()
            );
        }
        assert!(text().contains(&format!("Kind 2, version {MANIFEST_VERSION}.")));
    }

    /// Returns the length of a record's field.
    fn width(kind: &str) -> usize {
        match kind {
            "u8" | "flag" => 1,
            "u16" => 2,
            "u32" => 4,
            "u64" | "i64" => 8,
            "name" | "state" => table("Fields of records", 0)
                .iter()
                .filter(|row| row[0] == kind)
                .map(|row| width(&row[1]))
                .sum(),
            other => panic!("the type {other} is not explained"),
        }
    }

    #[test]
    fn the_records_of_a_segment_have_the_fields_it_lists() {
        use forge_search::internal::format::segment::*;

        fn check<R: Record>(heading: &str) {
            let fields = table(heading, 0);
            let length: usize = fields.iter().map(|row| width(&row[0])).sum();
            assert_eq!(length, R::LEN, "{heading}");
        }

        check::<BlockRecord>("Block");
        check::<GroupRecord>("Group");
        check::<DirRecord>("Directory");
        check::<FileRecord>("File");
        check::<SideRecord>("Side");
        check::<PartRecord>("Part");
        check::<MetaRecord>("Description");
        let ids: Vec<u32> = table("Segments", 0)
            .iter()
            .map(|row| row[0].parse().unwrap())
            .collect();
        let program = [
            id::ROWS,
            id::BLOCKS,
            id::GROUPS,
            id::DIRECT,
            id::SLOTS,
            id::DIRS,
            id::FILES,
            id::SIDE,
            id::NAMES,
            id::ALWAYS,
            id::META,
            id::PARTS,
            id::WORD_FILES,
        ];
        assert_eq!(ids, program);
        assert!(text().contains(&format!("Kind 1, version {SEGMENT_VERSION}.")));
    }

    #[test]
    fn the_limits_are_those_of_the_program() {
        let limits = [
            ("MAX_SECTIONS", MAX_SECTIONS),
            ("MAX_MANIFEST_BYTES", MAX_MANIFEST_BYTES),
            ("MAX_PATH_BYTES", MAX_PATH_BYTES),
            ("MAX_ID_BYTES", MAX_ID_BYTES),
            ("MAX_DENY_PATTERNS", MAX_DENY_PATTERNS),
            ("MAX_INPUTS", MAX_INPUTS),
            ("MAX_NAME_BYTES", MAX_NAME_BYTES),
        ];
        let listed: Vec<(String, String)> = table("Limits", 0)
            .into_iter()
            .map(|row| (row[0].trim_matches('`').to_owned(), row[1].clone()))
            .collect();
        let expected = limits.map(|(name, value)| (name.to_owned(), value.to_string()));
        assert_eq!(listed, expected);
    }

    #[test]
    fn the_names_in_a_directory_are_those_of_the_program() {
        let names: Vec<String> = table("The directory", 0)
            .into_iter()
            .map(|row| row[0].trim_matches('`').to_owned())
            .collect();
        for lock in [LockFile::Writers, LockFile::Readers] {
            assert!(names.iter().any(|name| name == lock.name()), "{names:?}");
        }
        let unfinished = names[1]
            .replace("NAME", "manifest")
            .replace("PROCESS", "17")
            .replace("NUMBER", "0");
        assert!(is_unfinished(unfinished.as_ref()), "{unfinished}");
    }
}

mod golden {
    use super::*;

    /// Compares a committed file with the bytes that are written today. `UPDATE_FORMAT=1`
    /// overwrites the file; use it only for a new version.
    #[track_caller]
    fn check(name: &str, written: &[u8]) -> Vec<u8> {
        let path = root().join("tests/data/format").join(name);
        if std::env::var_os("UPDATE_FORMAT").is_some() {
            std::fs::write(&path, written).unwrap();
        }
        let committed = std::fs::read(&path).unwrap();
        assert!(
            committed == written,
            "{name} would be written otherwise today: that needs a new version"
        );
        committed
    }

    fn pages() -> Vec<u8> {
        (0..9000_u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect()
    }

    #[test]
    fn containers_of_version_1_are_read_and_written() {
        let mut file = Vec::new();
        let mut writer = SectionWriter::new(&mut file, FileKind::Segment, 1).unwrap();
        writer.section(7, b"hello").unwrap();
        writer.section(3, b"").unwrap();
        writer.section(9, &pages()).unwrap();
        writer.finish().unwrap();
        let committed = check("container-1.bin", &file);
        let container = Container::open(Storage::from(committed), FileKind::Segment, 1).unwrap();
        container.verify_all().unwrap();
        assert!(container.section_ids().eq([7, 3, 9]));
        assert_eq!(container.section(7).unwrap().all().unwrap(), b"hello");
        assert_eq!(container.section(9).unwrap().all().unwrap(), pages());
    }

    #[test]
    fn manifests_of_version_1_are_read_and_written() {
        let manifest = full_manifest();
        let committed = check("manifest-1.bin", &manifest.encode().unwrap());
        assert_eq!(
            Manifest::decode(Storage::from(committed)).unwrap(),
            manifest
        );
    }

    /// Seeds with an old layout would be refused at their first field, and the fuzzer would start
    /// with nothing.
    #[test]
    fn fuzzing_starts_with_manifests_of_today() {
        let seed = |name: &str, written: Vec<u8>| {
            check(&format!("../../../fuzz/seeds/manifest/{name}"), &written);
        };
        let mut bare = full_manifest();
        bare.key = KeyParts::default();
        bare.state = PublicationState::default();
        bare.inputs.clear();
        for (name, manifest) in [("full", full_manifest()), ("bare", bare)] {
            let file = manifest.encode().unwrap();
            seed(name, [&[0][..], &file[..]].concat());
            // The sections of the manifest alone, each after its length in two bytes.
            let container =
                Container::open(Storage::from(file), FileKind::Manifest, MANIFEST_VERSION).unwrap();
            let mut framed = vec![1];
            for id in container.section_ids() {
                let section = container.section(id).unwrap().all().unwrap();
                framed.extend_from_slice(&u16::try_from(section.len()).unwrap().to_le_bytes());
                framed.extend_from_slice(section);
            }
            seed(&format!("framed_{name}"), framed);
        }
    }
}

fn sleep(pause: Duration) {
    std::thread::sleep(pause);
}

fn exclusive(dir: &Path, timeout_ms: u64) -> Result<DirLock, FormatError> {
    let timeout = Duration::from_millis(timeout_ms);
    DirLock::exclusive(dir, LockFile::Writers, timeout, &mut sleep)
}

#[test]
fn a_published_file_is_mapped_and_read() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("cache/index");
    create_private_dir(&dir, Privacy::Required).unwrap();
    let lock = exclusive(&dir, 0).unwrap();
    let content: Vec<u8> = (0..100_000_u32).map(|i| (i % 255) as u8).collect();
    let summary = publish(&RealDisk, &lock, "segment-1.fsx", |out| {
        let write = || {
            let mut writer = SectionWriter::new(out, FileKind::Segment, 1)?;
            writer.section(1, &content)?;
            writer.finish()
        };
        write().map_err(|error| panic!("{error}"))
    });
    let summary: Result<Summary, FormatError> = summary;
    let path = dir.join("segment-1.fsx");
    let storage = Storage::map(&path).unwrap();
    let container = Container::open(storage, FileKind::Segment, 1).unwrap();
    assert_eq!(container.summary(), summary.unwrap());
    assert_eq!(container.section(1).unwrap().all().unwrap(), content);

    let manifest = full_manifest();
    let bytes = manifest.encode().unwrap();
    let written: Result<(), FormatError> = publish(&RealDisk, &lock, "manifest", |out| {
        out.write_all(&bytes).unwrap();
        Ok(())
    });
    written.unwrap();
    let path = dir.join("manifest");
    let read = Storage::read(&path, MAX_MANIFEST_BYTES, Privacy::Required).unwrap();
    assert_eq!(Manifest::decode(read).unwrap(), manifest);
}

/// The environment variable that names the directory in which a child process works.
const CHILD_DIR: &str = "FORGE_SEARCH_TEST_CHILD_DIR";

fn start(test: &str, dir: &Path) -> Started {
    Started::new(test, &[(CHILD_DIR, dir)])
}

fn check_locked(result: Result<DirLock, FormatError>) {
    let error = result.unwrap_err();
    let kind = error.kind();
    assert!(matches!(kind, FormatErrorKind::Locked { .. }), "{kind:?}");
}

#[test]
fn a_lock_is_seen_by_other_processes_and_ends_with_its_holder() {
    if let Some(dir) = std::env::var_os(CHILD_DIR) {
        let lock = exclusive(Path::new(&dir), 0).unwrap();
        child_processes::pause();
        assert!(lock.is_writer());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let test = "format::a_lock_is_seen_by_other_processes_and_ends_with_its_holder";
    let child = start(test, dir.path());
    check_locked(exclusive(dir.path(), 0));
    check_locked(exclusive(dir.path(), 30));
    let other = DirLock::shared(dir.path(), LockFile::Readers, Duration::ZERO, &mut sleep);
    assert!(other.is_ok(), "it is another lock");
    child.finish();
    drop(exclusive(dir.path(), 0).unwrap());

    let child = start(test, dir.path());
    check_locked(exclusive(dir.path(), 0));
    child.kill();
    assert!(exclusive(dir.path(), 0).is_ok());
}

#[test]
fn a_writer_that_is_killed_leaves_the_old_file() {
    let write = |dir: &Path, content: &[u8], pause: bool| {
        let lock = exclusive(dir, 0).unwrap();
        let written: Result<(), FormatError> = publish(&RealDisk, &lock, "manifest", |out| {
            let (half, rest) = content.split_at(content.len() / 2);
            out.write_all(half).unwrap();
            if pause {
                child_processes::pause();
            }
            out.write_all(rest).unwrap();
            Ok(())
        });
        written.unwrap();
    };
    let new = vec![b'n'; 2_000_000];
    if let Some(dir) = std::env::var_os(CHILD_DIR) {
        write(Path::new(&dir), &new, true);
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), b"old", false);
    let path = dir.path().join("manifest");
    let test = "format::a_writer_that_is_killed_leaves_the_old_file";
    let child = start(test, dir.path());
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    child.kill();
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    let lock = exclusive(dir.path(), 0).unwrap();
    assert_eq!(remove_leftovers(&RealDisk, &lock).unwrap(), 1);
    drop(lock);
    assert_eq!(std::fs::read(&path).unwrap(), b"old");

    // A child that is not killed, for comparison.
    let child = start(test, dir.path());
    child.finish();
    assert!(std::fs::read(&path).unwrap() == new);
    let lock = exclusive(dir.path(), 0).unwrap();
    assert_eq!(remove_leftovers(&RealDisk, &lock).unwrap(), 0);
}
