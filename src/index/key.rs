//! Index keys: the tree of an index and the way in which the index was made.
//!
//! Owns the components of a key and the directory name derived from them. All components are stored
//! and compared one by one.

use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::format::manifest::{BloomParts, KeyParts};
use crate::format::nfc::unicode_version;
use crate::index::bloom::BloomParams;
use crate::index::casefold::Casefold;
use crate::index::gram::NGRAM_CHARS;
use crate::index::names::{name_bytes, name_from_bytes};
use crate::index::walk::{Follow, TraversalOptions};
use crate::index::words;

/// The version of the content of an index.
pub const SCHEMA_VERSION: u32 = 1;

/// The version of the build. Raise it when the same files would give a different index.
pub const IMPLEMENTATION_VERSION: u32 = 7;

/// The name of the tokenizer. A key appends the bits and hashes of the logical filter, the version
/// of Unicode, on which the order of paths depends too, and the rules of words.
const TOKENIZER: &str = "utf8-lossy/nfc/lf/3";

/// The key of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexKey {
    parts: KeyParts,
}

/// The components of a key, except for the constants of this program.
#[derive(Clone, Copy, Debug)]
pub struct KeyInputs<'a> {
    /// The canonical index root.
    pub root: &'a Path,
    /// The canonical traversal options. `recursive` is a
    /// filter of requests and no part of the key.
    pub options: TraversalOptions,
    /// The identity and capabilities of the engine.
    pub backend: &'a str,
    /// The strategy of case-insensitive matching.
    pub casefold: Casefold,
    /// The length of the longest file that is tokenized, in bytes.
    pub max_tokenized_bytes: u64,
    /// The parameters of the logical filter; different ones give a different index.
    pub bloom: BloomParams,
    /// The denied patterns in force.
    pub deny: &'a [String],
    /// The path of Git's global excludes file.
    pub global_excludes: Option<&'a Path>,
    /// The rights with which the builder reads files. A search never opens a file that the index
    /// excludes, so it would miss the error that a full scan reports. An index is therefore only
    /// for processes with the same rights.
    pub access: &'a str,
}

impl IndexKey {
    /// Creates the key from its components.
    pub fn new(inputs: &KeyInputs<'_>) -> IndexKey {
        let bytes = |path: &Path| name_bytes(path.as_os_str()).to_vec();
        IndexKey {
            parts: KeyParts {
                root: bytes(inputs.root),
                hidden: inputs.options.hidden,
                follow: inputs.options.follow != Follow::Never,
                rules: inputs.options.rules,
                backend_id: inputs.backend.to_string(),
                unicode_normalization: "NFC".to_string(),
                casefold: inputs.casefold.as_str().to_string(),
                tokenizer_id: format!(
                    "{TOKENIZER}/{}x{}/unicode-{}/{}",
                    inputs.bloom.bits,
                    inputs.bloom.hashes,
                    unicode_version(),
                    words::rules(),
                ),
                ngram_chars: NGRAM_CHARS as u32,
                max_tokenized_bytes: inputs.max_tokenized_bytes,
                deny_patterns: inputs.deny.to_vec(),
                global_excludes: inputs.global_excludes.map(bytes).unwrap_or_default(),
                excludes_base: Vec::new(),
                access: inputs.access.to_string(),
                schema_version: SCHEMA_VERSION,
                implementation_version: IMPLEMENTATION_VERSION,
            },
        }
    }

    /// Returns the components of the key.
    pub fn parts(&self) -> &KeyParts {
        &self.parts
    }

    /// Returns the name of the index's directory: 32 hexadecimal digits. Keys are compared by their
    /// components, never by this hash.
    pub fn hash(&self) -> String {
        hash_of(&self.parts)
    }
}

/// Returns the name of the directory of an index with these key components.
pub fn hash_of(parts: &KeyParts) -> String {
    format!("{:032x}", xxh3_128(&parts.encode_key()))
}

/// Returns the index root of a key; `None` if its bytes are no path on this system.
pub fn root_of(parts: &KeyParts) -> Option<PathBuf> {
    name_from_bytes(&parts.root).map(PathBuf::from)
}

/// Converts the parameters of the logical filter to their stored form.
pub fn bloom_parts(params: &BloomParams) -> BloomParts {
    BloomParts {
        bits: params.bits,
        hashes: params.hashes,
        ngram_chars: params.ngram_chars,
        seed: params.seed,
        basis_ngrams: params.basis_ngrams,
        target_fp_rate_bits: params.target_fp_rate.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::manifest::IgnoreRules;

    fn inputs() -> KeyInputs<'static> {
        KeyInputs {
            root: Path::new("/src"),
            options: TraversalOptions {
                hidden: false,
                follow: Follow::Never,
                rules: IgnoreRules::All,
                recursive: true,
            },
            backend: "embedded",
            casefold: Casefold::Ascii,
            max_tokenized_bytes: 1 << 20,
            bloom: BloomParams::from_config(1 << 20, 0.01),
            deny: &[],
            global_excludes: None,
            access: "uid=1 gid=1 groups= caps=",
        }
    }

    #[test]
    fn every_component_makes_another_index_key() {
        let base = IndexKey::new(&inputs());
        assert_eq!(base, IndexKey::new(&inputs()));
        assert_eq!(base.hash().len(), 32);
        let deny = ["*.pem".to_string()];
        let options = |change: fn(&mut TraversalOptions)| {
            let mut all = inputs();
            change(&mut all.options);
            all
        };
        let others = [
            KeyInputs {
                root: Path::new("/src/a"),
                ..inputs()
            },
            KeyInputs {
                backend: "rg@13.0.0",
                ..inputs()
            },
            KeyInputs {
                casefold: Casefold::UnicodeSimple,
                ..inputs()
            },
            KeyInputs {
                max_tokenized_bytes: 1 << 21,
                ..inputs()
            },
            KeyInputs {
                bloom: BloomParams::from_config(1 << 20, 0.02),
                ..inputs()
            },
            KeyInputs {
                deny: &deny,
                ..inputs()
            },
            KeyInputs {
                global_excludes: Some(Path::new("/x")),
                ..inputs()
            },
            KeyInputs {
                global_excludes: Some(Path::new("/y")),
                ..inputs()
            },
            KeyInputs {
                access: "uid=1 gid=2 groups= caps=",
                ..inputs()
            },
            options(|options| options.hidden = true),
            options(|options| options.follow = Follow::All),
            options(|options| options.rules = IgnoreRules::None),
            options(|options| options.rules = IgnoreRules::Git),
        ];
        let mut hashes = vec![base.hash()];
        for other in others {
            let key = IndexKey::new(&other);
            assert_ne!(key, base, "{other:?}");
            hashes.push(key.hash());
        }
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), 14);
    }

    #[test]
    fn filters_of_requests_are_no_part_of_the_index_key() {
        let mut flat = inputs();
        flat.options.recursive = false;
        assert_eq!(IndexKey::new(&flat), IndexKey::new(&inputs()));
    }
}
