//! The piece of code that a question is made of, and the file that a question names.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use super::{parts, read};
use crate::exec::sources::eligible::EligibleFile;
use crate::index::text::decode;
use crate::index::walk::FoundFile;

/// A piece of a file that a question is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePiece {
    /// The file, by its real path.
    pub file: PathBuf,
    /// The place of the piece, in bytes of the decoded text.
    pub bytes: Range<usize>,
}

impl SourcePiece {
    pub(super) fn is_in(&self, found: &FoundFile) -> bool {
        self.file.file_name() == Some(&found.name) && self.file == found.absolute()
    }

    /// Returns the text without the words of the piece. Lines stay at their places.
    pub(super) fn blanked(&self, text: &[u8]) -> Vec<u8> {
        let mut text = text.to_vec();
        let end = self.bytes.end.min(text.len());
        let piece = text.get_mut(self.bytes.start..end).unwrap_or_default();
        let letters = piece.iter_mut().filter(|byte| **byte != b'\n');
        letters.for_each(|byte| *byte = b' ');
        text
    }
}

/// The content of a file that a question names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedContent {
    /// The decoded text. If not `is_whole`, binary data follows it in the file.
    Text {
        /// The bytes of the text.
        bytes: Vec<u8>,
        /// Whether the text is the whole file.
        is_whole: bool,
    },
    /// Binary data, which has no lines.
    Binary,
    /// The file is larger than allowed.
    TooLarge,
}

/// Reads a file that a question names, of at most `most` bytes.
///
/// # Errors
///
/// The file can't be read.
pub fn named_content(file: &EligibleFile, most: u64) -> io::Result<NamedContent> {
    let Some(read) = read(&file.found, most)? else {
        return Ok(NamedContent::TooLarge);
    };
    let decoded = decode(&read.bytes);
    Ok(match parts(&decoded) {
        (Some(text), binary) => NamedContent::Text {
            bytes: text.to_vec(),
            is_whole: binary.is_empty(),
        },
        (None, _) => NamedContent::Binary,
    })
}
