//! Any bytes as a manifest: reading never panics, and what is accepted is, byte for byte, what would be written for
//! the manifest that was read.

use forge_search::format::manifest::{MANIFEST_VERSION, Manifest};
use forge_search::format::section::{FileKind, SectionWriter};
use forge_search::format::storage::Storage;

/// How many sections a manifest has.
const SECTIONS: u32 = 5;

/// Takes the rest of `data` for a file or, so that checksums are no obstacle, for the sections of one; the first
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

/// A sound container with sections of what `data` holds: for each a length of two bytes, then the content.
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
