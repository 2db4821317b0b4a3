//! Claims about any bytes as an index file:
//!
//! - Reading never panics.
//! - An accepted file is equal to the file that the writer would write.
//! - Damaged bytes are never returned as content.

use forge_search::internal::format::section::{Container, FileKind, PAGE_SIZE, SectionWriter};
use forge_search::internal::format::storage::Storage;

const HEADER_LEN: usize = 64;
const TRAILER_LEN: usize = 64;

/// Runs one of three checks on the rest of `data`. The first byte selects the check.
pub(crate) fn run(data: &[u8]) {
    let Some((mode, rest)) = data.split_first() else {
        return;
    };
    match mode % 3 {
        0 => read(rest.to_vec()),
        1 => read(sealed(rest)),
        _ => damage(rest),
    }
}

/// Opens the file as each kind and reads all sections.
fn read(bytes: Vec<u8>) {
    let storage = Storage::from(bytes);
    let kinds = [FileKind::Segment, FileKind::Manifest];
    let opened = kinds.map(|kind| match Container::open(storage.clone(), kind, 3) {
        Ok(container) => Some((kind, container)),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    });
    let mut opened = opened.into_iter().flatten();
    let Some((kind, container)) = opened.next() else {
        return;
    };
    assert!(opened.next().is_none(), "a file of two kinds");
    assert_eq!(container.summary().len, storage.len() as u64);
    let touched: Vec<bool> = sections(&container)
        .into_iter()
        .map(|(_, content)| content.is_some())
        .collect();
    let sound = container.verify_all().is_ok();
    assert!(!sound || touched.iter().all(|touched| *touched));
    if sound {
        assert_eq!(write(kind, &container), storage.as_bytes());
    }
}

/// Returns the sections; `None` in place of a section with damaged pages.
fn sections(container: &Container) -> Vec<(u32, Option<Vec<u8>>)> {
    let ids: Vec<u32> = container.section_ids().collect();
    let read = ids.into_iter().map(|id| {
        let section = container.section(id).unwrap();
        // Small reads come first, so that the pages are checked one by one.
        let mut joined = Some(Vec::new());
        for offset in (0..section.len()).step_by(1000) {
            let part = section.bytes(offset, (section.len() - offset).min(1000));
            joined = joined.zip(part.ok()).map(|(mut joined, part)| {
                joined.extend_from_slice(part);
                joined
            });
        }
        assert!(section.bytes(0, section.len() + 1).is_err());
        assert!(section.bytes(usize::MAX, 2).is_err());
        assert_eq!(section.all().ok().map(<[u8]>::to_vec), joined);
        (id, joined)
    });
    read.collect()
}

/// Writes the sections of a valid container again.
fn write(kind: FileKind, container: &Container) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = SectionWriter::new(&mut out, kind, container.kind_version()).unwrap();
    for (id, content) in sections(container) {
        writer.section(id, &content.unwrap()).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), container.summary());
    out
}

/// Returns `data` as a file with valid fixed parts, and with valid checksums where they have a
/// place. So the fuzzer reaches the code behind the checksums.
fn sealed(data: &[u8]) -> Vec<u8> {
    let mut file = data.to_vec();
    file.resize(data.len().max(HEADER_LEN + 4 + TRAILER_LEN), 0);
    let len = file.len();
    let trailer = len - TRAILER_LEN;
    file[..16].copy_from_slice(b"\x89FSX\r\n\x1a\n\x01\x02\x03\x04\x01\0\0\0");
    // Small kinds and versions stay unchanged.
    file[16] %= 4;
    file[20] %= 4;
    for at in [17..20, 21..24, 24..60] {
        file[at].fill(0);
    }
    put_crc(&mut file, 0..60, 60);
    file[trailer + 44..trailer + 52].fill(0);
    file[len - 8..].copy_from_slice(b"\nend FSX");
    let number = |file: &[u8], at: usize| {
        let bytes: [u8; 8] = file[trailer + at..trailer + at + 8].try_into().unwrap();
        usize::try_from(u64::from_le_bytes(bytes)).unwrap_or(usize::MAX)
    };
    let (list, table) = (number(&file, 0), number(&file, 8));
    if (list..=trailer).contains(&table) && list >= HEADER_LEN {
        let pages: Vec<u32> = file[..list]
            .chunks(PAGE_SIZE)
            .map(crc32fast::hash)
            .collect();
        for (slot, crc) in file[list..table].chunks_exact_mut(4).zip(pages) {
            slot.copy_from_slice(&crc.to_le_bytes());
        }
        put_crc(&mut file, list..table, trailer + 36);
        put_crc(&mut file, table..trailer, trailer + 40);
        // Fix the length too, except in half of the inputs.
        if file[trailer + 16].is_multiple_of(2) {
            file[trailer + 16..trailer + 24].copy_from_slice(&(len as u64).to_le_bytes());
        }
    }
    put_crc(&mut file, trailer..trailer + 52, trailer + 52);
    file
}

fn put_crc(file: &mut [u8], covered: std::ops::Range<usize>, at: usize) {
    let crc = crc32fast::hash(&file[covered]);
    file[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Writes sections from `data`, damages up to four neighbouring bytes and reads the file. A CRC-32
/// detects such damage for certain.
fn damage(data: &[u8]) {
    let Some((head, mut rest)) = data.split_at_checked(6) else {
        return;
    };
    let mut contents = Vec::new();
    while let Some((len, behind)) = rest.split_first() {
        let (content, behind) = behind.split_at(behind.len().min(usize::from(*len) * 31));
        contents.push(content.to_vec());
        rest = behind;
        if contents.len() == 20 {
            break;
        }
    }
    let mut file = Vec::new();
    let mut writer = SectionWriter::new(&mut file, FileKind::Segment, 1).unwrap();
    for (id, content) in (1..).zip(&contents) {
        writer.section(id, content).unwrap();
    }
    writer.finish().unwrap();
    let at = usize::from(u16::from_le_bytes([head[0], head[1]])) % file.len();
    let sound = file.clone();
    for (byte, change) in file[at..].iter_mut().zip(&head[2..]) {
        *byte ^= change;
    }
    let damaged = file != sound;
    let Ok(container) = Container::open(Storage::from(file), FileKind::Segment, 1) else {
        assert!(damaged, "a file as it was written is refused");
        return;
    };
    for ((id, read), content) in sections(&container).into_iter().zip(&contents) {
        match read {
            Some(read) => assert_eq!(&read, content, "section {id}: damage is taken for content"),
            None => assert!(damaged),
        }
    }
    assert_eq!(container.verify_all().is_err(), damaged);
}
