//! The manifest of an index: the file that describes the index and names its segment.
//!
//! Owns the manifest's fields, their encoding and their limits. The store publishes and reads a
//! [`Manifest`]. It is a plain value: `index` compares keys, hashes a key into a directory name,
//! and decides from the fields whether an index is stale. Every field is stored by itself, never as
//! a digest, so that a difference can be found and named.

mod codec;

use serde::{Deserialize, Serialize};

use super::error::FormatError;
#[cfg(doc)]
use super::error::FormatErrorKind;
use super::section::{Container, FileKind, SectionWriter};
use super::storage::Storage;

/// The version of the manifest's layout.
///
/// History: 1, the first.
pub const MANIFEST_VERSION: u32 = 1;

/// The longest manifest that is written or read, in bytes.
pub const MAX_MANIFEST_BYTES: usize = 512 << 20;

/// The longest path in a manifest, in bytes.
pub const MAX_PATH_BYTES: usize = 32_768;

/// The longest name of a strategy, backend or tokenizer, in bytes.
pub const MAX_ID_BYTES: usize = 1024;

/// The largest number of denied patterns.
pub const MAX_DENY_PATTERNS: usize = 65_536;

/// The largest number of eligibility inputs.
pub const MAX_INPUTS: usize = 4_000_000;

/// The description of an index, as of one publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The indexed tree, and the settings of the index.
    pub key: KeyParts,
    /// The parameters of the logical Bloom filter of every file and variant.
    pub bloom: BloomParams,
    /// The times of publication, and the completeness.
    pub state: PublicationState,
    /// The live segment.
    pub segment: SegmentRef,
    /// The files and directories that decided which files are eligible.
    pub inputs: Vec<EligibilityInput>,
}

/// The components of an index key. They include every setting that decides
/// which files and texts are in the index.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyParts {
    /// The canonical index root, in the system's path bytes.
    pub root: Vec<u8>,
    /// Whether hidden files are indexed.
    pub hidden: bool,
    /// Whether symbolic links are followed.
    pub follow: bool,
    /// The ignore files that apply.
    pub rules: IgnoreRules,
    /// Identity, version and capabilities of the engine that confirms candidates.
    pub backend_id: String,
    /// The Unicode normalization form of tokenized text: `NFC`.
    pub unicode_normalization: String,
    /// The casefold strategy of the insensitive variant: `ASCII`, `UNICODE_SIMPLE`.
    pub casefold: String,
    /// The algorithm that derives n-grams from text.
    pub tokenizer_id: String,
    /// The number of characters in an n-gram.
    pub ngram_chars: u32,
    /// The longest text that is tokenized, in bytes (`index_max_tokenized_bytes`).
    pub max_tokenized_bytes: u64,
    /// The denied patterns, in their configured order.
    pub deny_patterns: Vec<String>,
    /// Git's global excludes file, in the system's path bytes; empty without one.
    pub global_excludes: Vec<u8>,
    /// Empty: the patterns of the global excludes are relative to the top of each repository.
    /// Before implementation version 2, the directory that they were relative to.
    pub excludes_base: Vec<u8>,
    /// A description of the rights with which the building process read files. Compared, never
    /// interpreted.
    pub access: String,
    /// The version of the content of an index.
    pub schema_version: u32,
    /// The version of the algorithms: raised when the same files would result in another index.
    pub implementation_version: u32,
}

/// The set of ignore files that apply to a tree. The numbers are stored.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[repr(u8)]
pub enum IgnoreRules {
    /// All ignore files that ripgrep knows: `.rgignore`, `.ignore`, and git's.
    #[default]
    All = 0,
    /// No ignore files apply.
    None = 1,
    /// The repository's own ignore files: `.gitignore` and `.git/info/exclude`.
    Git = 2,
    /// The rules of [`IgnoreRules::All`] and of [`IgnoreRules::Git`], evaluated separately. An
    /// entry is in the index if either admits it; its record says which.
    AllAndGit = 3,
}

impl IgnoreRules {
    /// Returns the rules with a stored number.
    pub fn from_number(number: u8) -> Option<IgnoreRules> {
        let all = [
            IgnoreRules::All,
            IgnoreRules::None,
            IgnoreRules::Git,
            IgnoreRules::AllAndGit,
        ];
        all.into_iter().find(|rules| *rules as u8 == number)
    }

    /// Returns the name of the rules for display.
    pub fn as_str(self) -> &'static str {
        match self {
            IgnoreRules::All => "all",
            IgnoreRules::None => "none",
            IgnoreRules::Git => "git",
            IgnoreRules::AllAndGit => "all, git",
        }
    }

    /// Returns true if an index with these rules knows which files are eligible under the rules
    /// `asked`.
    pub fn serve(self, asked: IgnoreRules) -> bool {
        self == asked
            || self == IgnoreRules::AllAndGit
                && matches!(asked, IgnoreRules::All | IgnoreRules::Git)
    }

    /// Returns the sets of rules that a walk evaluates.
    pub fn sets(self) -> RuleSets {
        match self {
            IgnoreRules::All => RuleSets::ALL,
            IgnoreRules::Git => RuleSets::GIT,
            // Without rules, every entry is eligible under every set.
            IgnoreRules::None | IgnoreRules::AllAndGit => RuleSets::EVERY,
        }
    }
}

/// Sets of ignore rules: the sets that admit an entry, or the sets of a request.
///
/// # Examples
///
/// ```
/// use forge_search::internal::format::manifest::{IgnoreRules, RuleSets};
///
/// // `.ignore` excludes the file, `.gitignore` does not.
/// let of_file = RuleSets::GIT;
/// assert!(of_file.hold(IgnoreRules::Git.sets()));
/// assert!(!of_file.hold(IgnoreRules::All.sets()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleSets(u8);

impl RuleSets {
    /// The empty set.
    pub const NONE: RuleSets = RuleSets(0);
    /// The rules of [`IgnoreRules::All`].
    pub const ALL: RuleSets = RuleSets(1);
    /// The rules of [`IgnoreRules::Git`].
    pub const GIT: RuleSets = RuleSets(2);
    /// Both sets of rules.
    pub const EVERY: RuleSets = RuleSets(3);

    /// Returns the sets with a stored number; `None` for zero and for unknown numbers.
    pub fn from_number(number: u8) -> Option<RuleSets> {
        (1..=RuleSets::EVERY.0)
            .contains(&number)
            .then_some(RuleSets(number))
    }

    /// Returns the number to store.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns the union of both.
    #[must_use]
    pub fn with(self, others: RuleSets) -> RuleSets {
        RuleSets(self.0 | others.0)
    }

    /// Returns true if these sets include all of `asked`.
    pub fn hold(self, asked: RuleSets) -> bool {
        self.0 & asked.0 == asked.0
    }

    /// Returns true if no set is included.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The parameters of the logical Bloom filter, the same for all files of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BloomParams {
    /// The number of bits in the filter.
    pub bits: u64,
    /// The number of bits that an n-gram sets.
    pub hashes: u32,
    /// The number of characters in an n-gram.
    pub ngram_chars: u32,
    /// The seed of the second hash.
    pub seed: u64,
    /// The number of n-grams that the filter is sized for.
    pub basis_ngrams: u64,
    /// The target rate of false positives, as the bits of an `f64`.
    pub target_fp_rate_bits: u64,
}

/// The times of publication of an index, and its coverage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublicationState {
    /// The publication number: larger in each later manifest of the same index.
    pub sequence: u64,
    /// When the index was first published, in milliseconds since 1970.
    pub created_ms: i64,
    /// When this manifest was published, in milliseconds since 1970.
    pub updated_ms: i64,
    /// The number of confirmed coverages.
    pub coverage_epoch: u64,
    /// The number of errors of the last enumeration.
    pub enumeration_errors: u64,
}

/// A reference to a file of the index, with its expected length and checksum.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileRef {
    /// The file name in the directory of the index;
    /// [`is_plain_name`](super::publish::is_plain_name) must accept it.
    pub name: String,
    /// The length of the file in bytes.
    pub len: u64,
    /// The checksum of the file, as [`Container::summary`] returns it.
    pub checksum: u64,
}

/// A reference to a live segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    /// The file of the segment.
    pub file: FileRef,
    /// The number of files that the segment describes, dead ones included.
    pub files: u64,
}

/// A path that decided which files are eligible, but is not indexed itself: an ignore file, or the
/// directory of a repository. A missing one counts too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EligibilityInput {
    /// The absolute path, in the system's path bytes.
    pub path: Vec<u8>,
    /// The file state at the time of the build; `None` if the path did not exist.
    pub stat: Option<InputStat>,
}

/// The metadata that changes when an [`EligibilityInput`] changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputStat {
    /// The file type.
    pub kind: InputKind,
    /// The length in bytes.
    pub size: u64,
    /// The last change of the content, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// The last change of content or metadata, in nanoseconds since 1970; 0 if unavailable.
    pub ctime_ns: i64,
    /// The device number; 0 if unavailable.
    pub dev: u64,
    /// The inode number; 0 if unavailable.
    pub ino: u64,
}

/// The file type of an [`EligibilityInput`]. The numbers are stored; 0 stands for no file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum InputKind {
    /// A regular file.
    File = 1,
    /// A directory, with any content.
    Directory = 2,
    /// A symbolic link.
    Symlink = 3,
    /// Any other type.
    #[default]
    Other = 4,
}

impl InputKind {
    /// Returns the file type with a stored number.
    pub fn from_number(number: u8) -> Option<InputKind> {
        let all = [
            InputKind::File,
            InputKind::Directory,
            InputKind::Symlink,
            InputKind::Other,
        ];
        all.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// The sections of a manifest. Every manifest has all of them, in this order.
mod section {
    pub(super) const KEY: u32 = 1;
    pub(super) const BLOOM: u32 = 2;
    pub(super) const STATE: u32 = 3;
    pub(super) const SEGMENTS: u32 = 4;
    pub(super) const INPUTS: u32 = 5;
}

impl Manifest {
    /// Encodes the manifest as the bytes of a file.
    ///
    /// # Errors
    ///
    /// [`FormatErrorKind::OverLimit`] and [`FormatErrorKind::Refused`] for a manifest that
    /// [`decode`](Self::decode) would reject.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        self.check()?;
        let mut out = Vec::new();
        self.write(&mut out)
            .map_err(|e| FormatError::io("write the manifest to memory", e))?;
        codec::limit("the length of the manifest", out.len(), MAX_MANIFEST_BYTES)?;
        Ok(out)
    }

    /// Decodes a manifest, after checking every page.
    ///
    /// # Errors
    ///
    /// Those of [`Container::open`], and [`FormatErrorKind::Inconsistent`] for content that
    /// [`encode`](Self::encode) never writes.
    pub fn decode(storage: Storage) -> Result<Self, FormatError> {
        codec::readable(
            "the length of the manifest",
            storage.len(),
            MAX_MANIFEST_BYTES,
        )?;
        let container = Container::open(storage, FileKind::Manifest, MANIFEST_VERSION)?;
        container.verify_all()?;
        Self::read(&container)
    }

    fn write(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
        let mut file = SectionWriter::new(out, FileKind::Manifest, MANIFEST_VERSION)?;
        file.section(section::KEY, &self.key.encode_key())?;
        file.section(section::BLOOM, &self.bloom.encode())?;
        file.section(section::STATE, &self.state.encode())?;
        file.section(section::SEGMENTS, &codec::encode_segment(&self.segment))?;
        file.section(section::INPUTS, &codec::encode_inputs(&self.inputs))?;
        file.finish()?;
        Ok(())
    }

    fn read(container: &Container) -> Result<Self, FormatError> {
        if !container.section_ids().eq(section::KEY..=section::INPUTS) {
            let problem = "the sections are not those of a manifest";
            return Err(FormatError::inconsistent("the manifest", 0, problem));
        }
        let bytes = |id| container.section(id)?.all();
        Ok(Self {
            key: KeyParts::decode(bytes(section::KEY)?)?,
            bloom: BloomParams::decode(bytes(section::BLOOM)?)?,
            state: PublicationState::decode(bytes(section::STATE)?)?,
            segment: codec::decode_segment(bytes(section::SEGMENTS)?)?,
            inputs: codec::decode_inputs(bytes(section::INPUTS)?)?,
        })
    }
}

#[cfg(test)]
mod tests;
