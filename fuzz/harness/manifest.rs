//! Claims about any bytes as a manifest: decoding never panics, and an accepted file is, byte for
//! byte, the encoding of the decoded manifest.

use forge_search::internal::format::manifest::{MANIFEST_VERSION, Manifest};
use forge_search::internal::format::section::{FileKind, SectionWriter};
use forge_search::internal::format::storage::Storage;

/// The number of sections in a manifest.
const SECTIONS: u32 = 5;

/// Reads the rest of `data` as a file, or as the sections of a file with valid checksums. The first
/// byte decides.
pub(crate) fn run(data: &[u8]) {
    let Some((mode, rest)) = data.split_first() else {
        return;
    };
    if mode % 2 == 0 {
        read(rest.to_vec());
    } else {
        read(framed(rest));
    }
}

fn read(file: Vec<u8>) {
    match Manifest::decode(Storage::from(file.clone())) {
        Ok(manifest) => assert_eq!(manifest.encode().unwrap(), file),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Returns a valid container with sections from `data`. Each section is a length of two bytes, then
/// its content.
fn framed(data: &[u8]) -> Vec<u8> {
    let mut rest = data;
    let mut file = Vec::new();
    let mut writer = SectionWriter::new(&mut file, FileKind::Manifest, MANIFEST_VERSION).unwrap();
    for id in 1..=SECTIONS {
        let (len, behind) = rest.split_at(rest.len().min(2));
        let len = len
            .iter()
            .rev()
            .fold(0, |len, byte| len << 8 | usize::from(*byte));
        let (content, behind) = behind.split_at(behind.len().min(len));
        writer.section(id, content).unwrap();
        rest = behind;
    }
    writer.finish().unwrap();
    file
}
