//! The one file that says what an index consists of.
//!
//! Owns the manifest's fields, their encoding and their limits. It is a plain value: what makes two keys the same
//! index, how their hash names a directory, and when a manifest is out of date is decided above, from the
//! fields. All of them are stored one by one, never as a digest, so that a difference can be found and named
//! (`FR-LSI-IDX-KEY-02`).

mod codec;
#[cfg(test)]
mod tests;

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

/// The most deny patterns.
pub const MAX_DENY_PATTERNS: usize = 65_536;

/// The most segments.
pub const MAX_SEGMENTS: usize = 4096;

/// The most eligibility inputs.
pub const MAX_INPUTS: usize = 4_000_000;

/// What an index is, as of one publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// What was indexed, and how.
    pub key: KeyParts,
    /// The logical Bloom filter of every file and variant (`FR-LSI-CAND-LIT-04`).
    pub bloom: BloomParts,
    /// When and how completely.
    pub state: IndexState,
    /// The live segments, oldest first.
    pub segments: Vec<SegmentRef>,
    /// What decided which files are eligible.
    pub inputs: Vec<EligibilityInput>,
}

/// The components of an index key (`FR-LSI-IDX-KEY-01`), and the settings that decide which files and texts are in the
/// index at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyParts {
    /// The canonical index root, in the bytes of the system.
    pub root: Vec<u8>,
    /// Whether hidden files are in it.
    pub hidden: bool,
    /// Whether symbolic links are followed.
    pub follow: bool,
    /// Which ignore files count.
    pub rules: IgnoreRules,
    /// Identity, version and capabilities of the engine that confirms candidates.
    pub backend_id: String,
    /// The Unicode normalization form of tokenized text: `NFC`.
    pub unicode_normalization: String,
    /// The casefold strategy of the insensitive variant: `ASCII`, `UNICODE_SIMPLE`.
    pub casefold: String,
    /// The algorithm that makes n-grams of text.
    pub tokenizer_id: String,
    /// Characters in an n-gram.
    pub ngram_chars: u32,
    /// The longest text that is tokenized, in bytes (`index_max_tokenized_bytes`).
    pub max_tokenized_bytes: u64,
    /// The denied patterns, in the order in which they are configured (`SEC-LSI-02`).
    pub deny_patterns: Vec<String>,
    /// Git's global excludes file, in the bytes of the system; empty if there is none.
    pub global_excludes: Vec<u8>,
    /// Empty: the patterns of the global excludes are relative to the top of each repository. Before implementation 2, the
    /// directory that they were relative to.
    pub excludes_base: Vec<u8>,
    /// By which rights the process that built it reads files, in the words of the program: compared, never
    /// interpreted.
    pub access: String,
    /// The version of what an index holds.
    pub schema_version: u32,
    /// The version of how it is made: raised when the same files would give another index.
    pub implementation_version: u32,
}

/// Which files say what is left out of a tree. The numbers are those that are stored.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[repr(u8)]
pub enum IgnoreRules {
    /// All that ripgrep knows: `.rgignore`, `.ignore`, and git's.
    #[default]
    All = 0,
    /// None.
    None = 1,
    /// A repository's own: `.gitignore` and `.git/info/exclude`.
    Git = 2,
    /// Those of [`IgnoreRules::All`] and those of [`IgnoreRules::Git`], each by itself: an entry is found
    /// if one of the two leaves it in, and is known by which.
    AllAndGit = 3,
}

impl IgnoreRules {
    /// Returns the rules that a stored number stands for.
    pub fn from_number(number: u8) -> Option<IgnoreRules> {
        let all = [
            IgnoreRules::All,
            IgnoreRules::None,
            IgnoreRules::Git,
            IgnoreRules::AllAndGit,
        ];
        all.into_iter().find(|rules| *rules as u8 == number)
    }

    /// Returns how the rules are called where people see it.
    pub fn as_str(self) -> &'static str {
        match self {
            IgnoreRules::All => "all",
            IgnoreRules::None => "none",
            IgnoreRules::Git => "git",
            IgnoreRules::AllAndGit => "all, git",
        }
    }

    /// Returns true if an index that was made by these rules knows which files are eligible by the rules `asked`.
    pub fn serve(self, asked: IgnoreRules) -> bool {
        self == asked
            || self == IgnoreRules::AllAndGit
                && matches!(asked, IgnoreRules::All | IgnoreRules::Git)
    }

    /// Returns the sets of rules that a walk by these goes by.
    pub fn sets(self) -> RuleSets {
        match self {
            IgnoreRules::All => RuleSets::ALL,
            IgnoreRules::Git => RuleSets::GIT,
            // What no rule leaves out is eligible by every set.
            IgnoreRules::None | IgnoreRules::AllAndGit => RuleSets::EVERY,
        }
    }
}

/// Sets of ignore rules: those by which an entry is eligible, or which a request asks for.
///
/// # Examples
///
/// ```
/// use forge_search::format::manifest::{IgnoreRules, RuleSets};
///
/// // `.ignore` names the file, `.gitignore` does not.
/// let of_file = RuleSets::GIT;
/// assert!(of_file.hold(IgnoreRules::Git.sets()));
/// assert!(!of_file.hold(IgnoreRules::All.sets()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleSets(u8);

impl RuleSets {
    /// No set.
    pub const NONE: RuleSets = RuleSets(0);
    /// The rules of [`IgnoreRules::All`].
    pub const ALL: RuleSets = RuleSets(1);
    /// The rules of [`IgnoreRules::Git`].
    pub const GIT: RuleSets = RuleSets(2);
    /// Both.
    pub const EVERY: RuleSets = RuleSets(3);

    /// Returns the sets that a stored number stands for; `None` if it stands for none at all, or for sets that there
    /// are not.
    pub fn from_number(number: u8) -> Option<RuleSets> {
        (1..=RuleSets::EVERY.0)
            .contains(&number)
            .then_some(RuleSets(number))
    }

    /// Returns the number that is stored.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns the sets of both.
    #[must_use]
    pub fn with(self, others: RuleSets) -> RuleSets {
        RuleSets(self.0 | others.0)
    }

    /// Returns true if all of `asked` are among these.
    pub fn hold(self, asked: RuleSets) -> bool {
        self.0 & asked.0 == asked.0
    }

    /// Returns true if there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The parameters of the logical Bloom filter, the same for all files of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BloomParts {
    /// Bits in the filter.
    pub bits: u64,
    /// Bits that an n-gram sets.
    pub hashes: u32,
    /// Characters in an n-gram.
    pub ngram_chars: u32,
    /// The seed of the second hash.
    pub seed: u64,
    /// The number of n-grams it is sized for.
    pub basis_ngrams: u64,
    /// The target rate of false positives, as the bits of an `f64`.
    pub target_fp_rate_bits: u64,
}

/// When an index was made, and what is known of its coverage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexState {
    /// Counts publications: the next manifest of the same index has a larger number.
    pub sequence: u64,
    /// When the index was first published, in milliseconds since 1970.
    pub created_ms: i64,
    /// When this manifest was published, in milliseconds since 1970.
    pub updated_ms: i64,
    /// Counts confirmed coverages.
    pub coverage_epoch: u64,
    /// How many errors the last enumeration met.
    pub enumeration_errors: u64,
}

/// A file of the index, as its writer left it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileRef {
    /// Its name in the directory of the index; one that [`is_plain_name`](super::publish::is_plain_name) allows.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
    /// Its checksum, as [`Container::summary`] tells it.
    pub checksum: u64,
}

/// A live segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    /// Where it is.
    pub file: FileRef,
    /// How many files it describes, dead ones included.
    pub files: u64,
    /// Which of them are dead, if any.
    pub tombstones: Option<FileRef>,
}

/// Something outside of the indexed files that decided which files are eligible: an ignore file, a repository's
/// directory. That it was not there counts too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EligibilityInput {
    /// Its absolute path, in the bytes of the system.
    pub path: Vec<u8>,
    /// What was there, or nothing.
    pub stat: Option<InputStat>,
}

/// What tells one state of an [`EligibilityInput`] from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputStat {
    /// What it is.
    pub kind: InputKind,
    /// Its length in bytes.
    pub size: u64,
    /// When its content was changed, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// When it was changed in any way, in nanoseconds since 1970; 0 where the system does not know.
    pub ctime_ns: i64,
    /// The device that holds it; 0 where the system has none.
    pub dev: u64,
    /// Its number on the device; 0 where the system has none.
    pub ino: u64,
}

/// What an [`EligibilityInput`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Anything else.
    Other,
}

/// The sections of a manifest. All of them are there, in this order.
mod section {
    pub(super) const KEY: u32 = 1;
    pub(super) const BLOOM: u32 = 2;
    pub(super) const STATE: u32 = 3;
    pub(super) const SEGMENTS: u32 = 4;
    pub(super) const INPUTS: u32 = 5;
}

impl Manifest {
    /// Returns the manifest as a file.
    ///
    /// # Errors
    ///
    /// [`FormatErrorKind::OverLimit`] and
    /// [`FormatErrorKind::Refused`] for what [`decode`](Self::decode) would not take.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        self.check()?;
        let mut out = Vec::new();
        self.write(&mut out)
            .map_err(|e| FormatError::io("write the manifest to memory", e))?;
        codec::limit("the length of the manifest", out.len(), MAX_MANIFEST_BYTES)?;
        Ok(out)
    }

    /// Reads a manifest, all of whose pages are checked.
    ///
    /// # Errors
    ///
    /// Those of [`Container::open`], and [`FormatErrorKind::Inconsistent`] for
    /// content that [`encode`](Self::encode) does not write.
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
        file.section(section::SEGMENTS, &codec::encode_segments(&self.segments))?;
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
            bloom: BloomParts::decode(bytes(section::BLOOM)?)?,
            state: IndexState::decode(bytes(section::STATE)?)?,
            segments: codec::decode_segments(bytes(section::SEGMENTS)?)?,
            inputs: codec::decode_inputs(bytes(section::INPUTS)?)?,
        })
    }
}
