//! Index keys: the tree of an index and the way in which the index was made.
//!
//! This module owns the components of a key and the directory name derived from them. All
//! components are stored and compared one by one.

use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::format::manifest::KeyParts;
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
pub const IMPLEMENTATION_VERSION: u32 = 8;

/// The name of the tokenizer. A key appends the bits and hashes of the logical filter, the version
/// of Unicode, on which the order of paths depends too, and the rules of words.
const TOKENIZER: &str = "utf8-lossy/nfc/lf/3";

/// The settings that an index key depends on, besides the root.
#[derive(Clone, Debug)]
pub struct KeyInputs {
    /// The canonical traversal options. `recursive` is a
    /// filter of requests and no part of the key.
    pub options: TraversalOptions,
    /// The identity and capabilities of the engine.
    pub backend: String,
    /// The strategy of case-insensitive matching.
    pub casefold: Casefold,
    /// The length of the longest file that is tokenized, in bytes.
    pub max_tokenized_bytes: u64,
    /// The parameters of the logical filter; different ones give a different index.
    pub bloom: BloomParams,
    /// The denied patterns in force.
    pub deny: Vec<String>,
    /// The path of Git's global excludes file.
    pub global_excludes: Option<PathBuf>,
    /// The rights with which the builder reads files. A search never opens a file that the index
    /// excludes, so it would miss the error that a full scan reports. An index is therefore only
    /// for processes with the same rights.
    pub access: String,
}

impl KeyInputs {
    /// Returns the key of the index of a canonical root.
    pub fn key(&self, root: &Path) -> KeyParts {
        let bytes = |path: &Path| name_bytes(path.as_os_str()).to_vec();
        KeyParts {
            root: bytes(root),
            hidden: self.options.hidden,
            follow: self.options.follow != Follow::Never,
            rules: self.options.rules,
            backend_id: self.backend.clone(),
            unicode_normalization: "NFC".to_string(),
            casefold: self.casefold.as_str().to_string(),
            tokenizer_id: format!(
                "{TOKENIZER}/{}x{}/unicode-{}/{}",
                self.bloom.bits,
                self.bloom.hashes,
                unicode_version(),
                words::rules(),
            ),
            ngram_chars: NGRAM_CHARS as u32,
            max_tokenized_bytes: self.max_tokenized_bytes,
            deny_patterns: self.deny.clone(),
            global_excludes: self
                .global_excludes
                .as_deref()
                .map(bytes)
                .unwrap_or_default(),
            excludes_base: Vec::new(),
            access: self.access.clone(),
            schema_version: SCHEMA_VERSION,
            implementation_version: IMPLEMENTATION_VERSION,
        }
    }
}

/// Returns the name of the directory of an index with this key: 32 hexadecimal digits. Keys are
/// compared by their components, never by this hash.
pub fn hash_of(parts: &KeyParts) -> String {
    format!("{:032x}", xxh3_128(&parts.encode_key()))
}

/// Returns the index root of a key; `None` if its bytes are no path on this system.
pub fn root_of(parts: &KeyParts) -> Option<PathBuf> {
    name_from_bytes(&parts.root).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::manifest::IgnoreRules;

    fn inputs() -> KeyInputs {
        KeyInputs {
            options: TraversalOptions {
                hidden: false,
                follow: Follow::Never,
                rules: IgnoreRules::All,
                recursive: true,
            },
            backend: "embedded".to_string(),
            casefold: Casefold::Ascii,
            max_tokenized_bytes: 1 << 20,
            bloom: BloomParams::from_config(1 << 20, 0.01),
            deny: Vec::new(),
            global_excludes: None,
            access: "uid=1 gid=1 groups= caps=".to_string(),
        }
    }

    #[test]
    fn every_component_makes_another_index_key() {
        let root = Path::new("/src");
        let base = inputs().key(root);
        assert_eq!(base, inputs().key(root));
        assert_eq!(hash_of(&base).len(), 32);
        let changes: [fn(&mut KeyInputs); 12] = [
            |inputs| inputs.backend = "rg@13.0.0".to_string(),
            |inputs| inputs.casefold = Casefold::UnicodeSimple,
            |inputs| inputs.max_tokenized_bytes = 1 << 21,
            |inputs| inputs.bloom = BloomParams::from_config(1 << 20, 0.02),
            |inputs| inputs.deny = vec!["*.pem".to_string()],
            |inputs| inputs.global_excludes = Some("/x".into()),
            |inputs| inputs.global_excludes = Some("/y".into()),
            |inputs| inputs.access = "uid=1 gid=2 groups= caps=".to_string(),
            |inputs| inputs.options.hidden = true,
            |inputs| inputs.options.follow = Follow::All,
            |inputs| inputs.options.rules = IgnoreRules::None,
            |inputs| inputs.options.rules = IgnoreRules::Git,
        ];
        let mut keys = vec![inputs().key(Path::new("/src/a"))];
        for change in changes {
            let mut other = inputs();
            change(&mut other);
            keys.push(other.key(root));
        }
        let mut hashes = vec![hash_of(&base)];
        for key in keys {
            assert_ne!(key, base);
            hashes.push(hash_of(&key));
        }
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), 14);
    }

    #[test]
    fn filters_of_requests_are_no_part_of_the_index_key() {
        let root = Path::new("/src");
        let mut flat = inputs();
        flat.options.recursive = false;
        assert_eq!(flat.key(root), inputs().key(root));
    }
}
