// These tests need files, which Miri does not provide.
#[cfg(not(miri))]
mod rows;

use std::io;

use proptest::prelude::*;

use super::layout::{ENTRY_LEN, HEADER_LEN, TRAILER_LEN};
use super::*;
use crate::format::error::{ChecksummedPart, FormatError, FormatErrorKind};
use crate::format::storage::{ALIGNMENT, Storage};

const KIND: FileKind = FileKind::Segment;

fn write(sections: &[(u32, Vec<u8>)]) -> (Vec<u8>, Summary) {
    let mut out = Vec::new();
    let mut writer = SectionWriter::new(&mut out, KIND, 1).unwrap();
    for (id, bytes) in sections {
        writer.section(*id, bytes).unwrap();
    }
    let summary = writer.finish().unwrap();
    (out, summary)
}

fn open(bytes: Vec<u8>) -> Result<Container, FormatError> {
    Container::open(Storage::from(bytes), KIND, 1)
}

#[track_caller]
fn error_of<T>(result: Result<T, FormatError>) -> FormatError {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error,
    }
}

/// Bytes that differ from offset to offset.
fn noise(len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

/// Three sections over several pages.
fn sample() -> Vec<(u32, Vec<u8>)> {
    vec![(7, noise(5000)), (3, Vec::new()), (9, noise(4097))]
}

/// The distance between the damaged offsets of a file: every byte, except under Miri.
const STEP: usize = if cfg!(miri) { 13 } else { 1 };

/// The longest random content.
const MAX_RANDOM: usize = if cfg!(miri) { 50 } else { 9000 };

/// A sample in which every bit can be flipped within seconds, also under Miri.
fn small_sample() -> Vec<(u32, Vec<u8>)> {
    let len = if cfg!(miri) { 40 } else { 4200 };
    vec![(1, noise(len)), (2, b"abc".to_vec())]
}

#[test]
fn sections_come_back() {
    let (bytes, summary) = write(&sample());
    assert_eq!(summary.len, bytes.len() as u64);
    let container = open(bytes).unwrap();
    assert_eq!(container.summary(), summary);
    assert_eq!(container.kind_version(), 1);
    assert_eq!(container.section_ids().collect::<Vec<_>>(), [7, 3, 9]);
    for (id, expected) in sample() {
        let section = container.section(id).unwrap();
        assert_eq!(section.all().unwrap(), expected);
        assert_eq!(section.id(), id);
        assert_eq!(section.len(), expected.len());
        assert_eq!(section.is_empty(), expected.is_empty());
        assert_eq!(section.range().start() % ALIGNMENT, 0);
        assert_eq!(container.find(id), Some(section.range()));
        for (offset, len) in [(0, 0), (0, 1), (4000, 97), (4095, 2), (5000, 0)] {
            let part = section.bytes(offset, len);
            match expected.get(offset..offset + len) {
                Some(expected) => assert_eq!(part.unwrap(), expected),
                None => assert!(part.unwrap_err().is_corrupt()),
            }
        }
    }
    container.verify_all().unwrap();
}

#[test]
fn a_file_without_sections_is_a_file() {
    let (bytes, _) = write(&[]);
    assert_eq!(bytes.len(), HEADER_LEN + 4 + TRAILER_LEN);
    let container = open(bytes).unwrap();
    container.verify_all().unwrap();
    assert_eq!(container.section_ids().count(), 0);
    let error = container.section(1).unwrap_err();
    assert!(error.to_string().contains("a section is missing"));
    assert!(error.is_corrupt());
    assert_eq!(container.find(1), None);
}

#[test]
fn equal_sections_make_equal_bytes_however_they_are_cut() {
    let (whole, summary) = write(&sample());
    let mut out = Vec::new();
    let mut writer = SectionWriter::new(&mut out, KIND, 1).unwrap();
    for (id, bytes) in sample() {
        writer.begin(id).unwrap();
        for part in bytes.chunks(171) {
            writer.write_all(part).unwrap();
        }
        assert_eq!(writer.section_len(), bytes.len() as u64);
        writer.end().unwrap();
        assert_eq!(writer.section_len(), 0);
    }
    assert_eq!(writer.finish().unwrap(), summary);
    assert_eq!(out, whole);
}

#[test]
fn the_checksum_tells_files_apart() {
    let checksum = |sections: &[(u32, Vec<u8>)]| write(sections).1.checksum;
    let base = checksum(&[(1, b"abc".to_vec())]);
    assert_eq!(base, checksum(&[(1, b"abc".to_vec())]));
    // Another byte, another id, another length with the same padded bytes.
    for other in [
        (1, b"abd".to_vec()),
        (2, b"abc".to_vec()),
        (1, b"abc\0".to_vec()),
    ] {
        assert_ne!(base, checksum(&[other]));
    }
    let mut out = Vec::new();
    let mut writer = SectionWriter::new(&mut out, KIND, 2).unwrap();
    writer.section(1, b"abc").unwrap();
    assert_ne!(base, writer.finish().unwrap().checksum);
}

#[test]
fn wrong_use_of_the_writer_is_refused() {
    let mut out = Vec::new();
    let refused = |result: io::Result<()>| {
        let kind = result.unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::InvalidInput);
    };
    refused(SectionWriter::new(Vec::new(), KIND, 0).map(|_| ()));
    let mut writer = SectionWriter::new(&mut out, KIND, 1).unwrap();
    refused(writer.write_all(b"x"));
    refused(writer.end());
    refused(writer.begin(0));
    writer.begin(5).unwrap();
    refused(writer.begin(6));
    writer.write_all(b"x").unwrap();
    writer.end().unwrap();
    refused(writer.begin(5));
    writer.begin(6).unwrap();
    refused(writer.finish().map(|_| ()));
}

// Takes minutes under Miri, and only compares two numbers.
#[cfg(not(miri))]
#[test]
fn there_are_no_more_sections_than_allowed() {
    let mut out = Vec::new();
    let mut writer = SectionWriter::new(&mut out, KIND, 1).unwrap();
    for id in 1..=MAX_SECTIONS as u32 {
        writer.section(id, b"").unwrap();
    }
    assert!(writer.begin(u32::MAX).is_err());
    writer.finish().unwrap();
    assert_eq!(open(out).unwrap().section_ids().count(), MAX_SECTIONS);
}

#[test]
fn a_failing_output_fails_the_writer() {
    struct Full(usize);
    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let Some(left) = self.0.checked_sub(bytes.len()) else {
                return Err(io::ErrorKind::StorageFull.into());
            };
            self.0 = left;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (bytes, summary) = write(&small_sample());
    for room in (0..=bytes.len()).rev().step_by(STEP) {
        let run = || {
            let mut writer = SectionWriter::new(Full(room), KIND, 1)?;
            for (id, bytes) in small_sample() {
                writer.section(id, &bytes)?;
            }
            writer.finish()
        };
        match run() {
            Ok(written) => assert_eq!((room, written), (bytes.len(), summary)),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::StorageFull),
        }
    }
}

#[test]
fn every_truncation_is_noticed_at_open() {
    let (bytes, _) = write(&small_sample());
    for len in (0..bytes.len()).step_by(STEP) {
        let error = error_of(open(bytes[..len].to_vec()));
        assert!(error.is_corrupt(), "{len}: {error}");
        let kind = error.kind();
        assert!(
            matches!(kind, FormatErrorKind::Truncated { .. }),
            "{len}: {kind:?}"
        );
    }
    // Appended bytes are detected too.
    let mut longer = bytes;
    longer.push(0);
    assert!(error_of(open(longer)).is_corrupt());
}

#[test]
fn every_turned_bit_is_noticed_at_the_latest_when_touched() {
    let (bytes, _) = write(&small_sample());
    for bit in (0..bytes.len() * 8).step_by(STEP) {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let container = match open(damaged) {
            Err(error) => {
                // A larger version is not damage for a reader, but its checksum would then match.
                assert!(error.is_corrupt(), "bit {bit}: {error}");
                continue;
            }
            Ok(container) => container,
        };
        let error = error_of(container.verify_all());
        let page = bit / 8 / PAGE_SIZE;
        let what = match error.kind() {
            FormatErrorKind::Checksum { what, .. } => *what,
            other => panic!("bit {bit}: {other:?}"),
        };
        assert!(
            matches!(what, ChecksummedPart::Page { index, .. } if index == page as u64),
            "bit {bit}: {what:?}"
        );
        let mut noticed = false;
        for (id, expected) in small_sample() {
            match container.section(id).unwrap().all() {
                Ok(read) => assert_eq!(read, expected, "bit {bit}: wrong bytes were accepted"),
                Err(error) => {
                    assert!(error.is_corrupt());
                    noticed = true;
                }
            }
        }
        assert!(noticed, "bit {bit}");
    }
}

#[test]
fn damage_is_found_in_its_page_and_nowhere_else() {
    let (mut bytes, _) = write(&sample());
    bytes[PAGE_SIZE + 5] ^= 1;
    let container = open(bytes).unwrap();
    let section = container.section(7).unwrap();
    // The first page ends 4032 bytes into the section.
    let first = PAGE_SIZE - section.range().start();
    assert_eq!(section.bytes(0, first).unwrap(), &noise(5000)[..first]);
    for _ in 0..2 {
        let error = error_of(section.bytes(first - 1, 2));
        let kind = error.kind();
        let what = ChecksummedPart::Page {
            index: 1,
            section: Some(7),
        };
        assert!(
            matches!(kind, FormatErrorKind::Checksum { what: w, offset: 4096, len: 4096 } if *w == what),
            "{kind:?}"
        );
    }
    assert!(section.bytes(first, 0).is_ok(), "nothing is read of it");
    assert!(section.all().is_err());
    // The other section starts after the damaged page.
    let other = container.section(9).unwrap();
    assert!(other.range().start() / PAGE_SIZE == 1 && other.all().is_err());
    assert_eq!(other.bytes(4000, 97).unwrap(), &noise(4097)[4000..]);
}

#[test]
fn what_the_process_wrote_itself_counts_as_checked() {
    let (mut bytes, _) = write(&sample());
    bytes[HEADER_LEN] ^= 1;
    let container = Container::open_own(Storage::from(bytes), KIND, 1).unwrap();
    assert!(container.section(7).unwrap().all().is_ok());
    assert!(container.verify_all().is_err(), "but not when asked for");
}

#[test]
fn ranges_outside_are_refused() {
    let (bytes, _) = write(&sample());
    let len = bytes.len();
    let container = open(bytes).unwrap();
    container.verify_all().unwrap();
    let view = container.view();
    for (start, count) in [
        (0, len),
        (len, 1),
        (usize::MAX, 1),
        (1, usize::MAX),
        (usize::MAX, usize::MAX),
        (len - TRAILER_LEN, 1),
        (usize::MAX, 0),
    ] {
        let error = error_of(view.bytes(start, count));
        assert!(error.is_corrupt(), "{error}");
        assert!(container.bytes(start, count).is_err());
    }
    assert_eq!(view.bytes(0, 0).unwrap(), b"");
    let range = container.find(9).unwrap();
    assert!(!range.is_empty());
    let part = range.part(10, 20).unwrap();
    assert_eq!((part.start(), part.len()), (range.start() + 10, 20));
    assert_eq!(view.bytes_in(part, 5, 15).unwrap(), &noise(4097)[15..30]);
    for (offset, count) in [(20, 1), (5, 16), (usize::MAX, 2), (2, usize::MAX)] {
        assert!(part.part(offset, count).unwrap_err().is_corrupt());
        assert!(view.bytes_in(part, offset, count).unwrap_err().is_corrupt());
    }
    assert!(part.part(20, 0).unwrap().is_empty());
}

/// Writes `change` into a fixed part of a file, and stores a matching checksum.
fn reseal(bytes: &mut [u8], part: std::ops::Range<usize>, crc_at: usize, change: (usize, &[u8])) {
    let part = &mut bytes[part];
    part[change.0..change.0 + change.1.len()].copy_from_slice(change.1);
    let crc = crc32fast::hash(&part[..crc_at]);
    part[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
}

fn with_header(change: (usize, &[u8])) -> FormatError {
    let (mut bytes, _) = write(&small_sample());
    reseal(&mut bytes, 0..HEADER_LEN, HEADER_LEN - 4, change);
    error_of(open(bytes))
}

fn with_trailer(change: (usize, &[u8])) -> FormatError {
    let (mut bytes, _) = write(&small_sample());
    let part = bytes.len() - TRAILER_LEN..bytes.len();
    reseal(&mut bytes, part, TRAILER_LEN - 12, change);
    error_of(open(bytes))
}

#[test]
fn foreign_files_are_told_apart() {
    let check = |error: FormatError, corrupt: bool, needle: &str| {
        assert_eq!(error.is_corrupt(), corrupt, "{error}");
        assert!(error.to_string().contains(needle), "{error}");
    };
    check(
        error_of(open(b"SQLite format 3\0".to_vec())),
        true,
        "not an index file",
    );
    check(error_of(open(vec![0; 4096])), true, "not an index file");
    check(error_of(open(Vec::new())), true, "cut short");
    check(with_header((8, &[4, 3, 2, 1])), true, "another byte order");
    check(with_header((8, &[9, 2, 3, 4])), true, "checksum");
    check(
        with_header((12, &[2])),
        false,
        "the container has version 2",
    );
    check(with_header((12, &[0])), true, "the container has version 0");
    check(with_header((16, &[2])), true, "kind 2, but kind 1");
    check(with_header((20, &[2])), false, "the content has version 2");
    check(with_header((20, &[0])), true, "the content has version 0");
    check(with_header((30, &[1])), true, "reserved");
    check(with_header((0, b"x")), true, "not an index file");
}

#[test]
fn a_trailer_that_lies_is_inconsistent() {
    let huge = u64::MAX.to_le_bytes();
    let almost = (u64::MAX - 63).to_le_bytes();
    // List offset, table offset, length, number of sections, reserved.
    for at in [0, 8, 16] {
        for value in [
            &huge,
            &almost,
            &[0; 8],
            &65_u64.to_le_bytes(),
            &128_u64.to_le_bytes(),
        ] {
            let error = with_trailer((at, value));
            assert!(error.is_corrupt(), "{at} {value:?}: {error}");
        }
    }
    for sections in [0, 1, 3, MAX_SECTIONS as u32 + 1, u32::MAX] {
        let error = with_trailer((32, &sections.to_le_bytes()));
        assert!(error.is_corrupt(), "{sections}: {error}");
    }
    for at in [36, 40] {
        let error = with_trailer((at, &[1, 2, 3, 4]));
        let kind = error.kind();
        assert!(matches!(kind, FormatErrorKind::Checksum { .. }), "{kind:?}");
    }
    assert!(with_trailer((44, &[1])).to_string().contains("reserved"));
    // Opening does not check the checksum of the whole file; other files compare with it.
    let (mut bytes, _) = write(&small_sample());
    let part = bytes.len() - TRAILER_LEN..bytes.len();
    reseal(&mut bytes, part, TRAILER_LEN - 12, (24, &[1, 2, 3]));
    let error = error_of(open(bytes).unwrap().verify_all());
    let kind = error.kind();
    assert!(
        matches!(
            kind,
            FormatErrorKind::Checksum {
                what: ChecksummedPart::File,
                ..
            }
        ),
        "{kind:?}"
    );
}

#[test]
fn a_table_that_lies_is_inconsistent() {
    let (bytes, _) = write(&small_sample());
    let trailer = bytes.len() - TRAILER_LEN;
    let table = trailer - 2 * ENTRY_LEN;
    let second = ENTRY_LEN;
    let huge = u64::MAX.to_le_bytes();
    for (at, value) in [
        (0, &[0, 0, 0, 0][..]),
        (0, &[2, 0, 0, 0]),
        (4, &[1]),
        (8, &[0]),
        (8, &[65]),
        (8, &huge),
        (16, &huge),
        (16, &[0, 0, 0]),
        (second + 8, &[64, 0]),
        (second + 8, &huge),
        (second + 16, &huge),
        (second + 16, &[65]),
    ] {
        let mut damaged = bytes.clone();
        damaged[table + at..table + at + value.len()].copy_from_slice(value);
        let crc = crc32fast::hash(&damaged[table..trailer]);
        let part = trailer..bytes.len();
        reseal(
            &mut damaged,
            part,
            TRAILER_LEN - 12,
            (40, &crc.to_le_bytes()),
        );
        let error = error_of(open(damaged));
        let kind = error.kind();
        assert!(
            matches!(kind, FormatErrorKind::Inconsistent { .. }),
            "{at} {value:?}: {kind:?}"
        );
    }
}

#[test]
fn threads_check_pages_at_once() {
    let sections = [(1, noise(if cfg!(miri) { 5_000 } else { 300_000 }))];
    let (bytes, _) = write(&sections);
    let container = open(bytes).unwrap();
    let range = container.find(1).unwrap();
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let (view, expected) = (container.view(), &sections[0].1);
            scope.spawn(move || {
                for offset in (0..expected.len() - 100).step_by(701 + worker) {
                    let read = view.bytes_in(range, offset, 100).unwrap();
                    assert_eq!(read, &expected[offset..offset + 100]);
                }
            });
        }
    });
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Accesses every section of a container of arbitrary bytes. Must not panic; the content may be
/// anything.
fn touch(bytes: Vec<u8>) {
    let Ok(container) = open(bytes) else { return };
    let verified = container.verify_all().is_ok();
    for id in container.section_ids().collect::<Vec<_>>() {
        let section = container.section(id).unwrap();
        assert!(section.all().is_ok() || !verified);
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_sections_come_back(
        sections in proptest::collection::btree_map(1_u32.., proptest::collection::vec(any::<u8>(), 0..MAX_RANDOM), 0..5)
    ) {
        let sections: Vec<_> = sections.into_iter().collect();
        let (bytes, summary) = write(&sections);
        let container = open(bytes).unwrap();
        prop_assert_eq!(container.summary(), summary);
        for (id, expected) in &sections {
            prop_assert_eq!(container.section(*id).unwrap().all().unwrap(), expected.as_slice());
        }
        container.verify_all().unwrap();
    }

    #[test]
    fn any_bytes_are_an_error_or_a_container(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        touch(bytes.clone());
        let (mut framed, _) = write(&[]);
        let at = framed.len() - TRAILER_LEN;
        framed.splice(at..at, bytes);
        touch(framed);
    }

    #[test]
    fn any_overwritten_bytes_are_noticed(
        at in any::<prop::sample::Index>(),
        patch in proptest::collection::vec(any::<u8>(), 1..40),
    ) {
        let (bytes, _) = write(&small_sample());
        let mut damaged = bytes.clone();
        let at = at.index(bytes.len());
        for (old, new) in damaged[at..].iter_mut().zip(&patch) {
            *old = *new;
        }
        let sound = open(damaged.clone()).is_ok_and(|c| c.verify_all().is_ok());
        prop_assert_eq!(sound, damaged == bytes);
    }
}
