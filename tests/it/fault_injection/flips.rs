//! A small store with each single bit flipped, and with its files truncated to each length.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;

use forge_search::internal::format::manifest::KeyParts;
use forge_search::internal::index::store::Store;

use super::edition::{Edition, key, load, names, store};

/// A store with a small index.
struct Small {
    _place: tempfile::TempDir,
    store: Store,
    key: KeyParts,
    edition: Edition,
}

impl Small {
    fn new(number: u64) -> Small {
        let place = tempfile::tempdir().unwrap();
        // Not mapped: each load reads the files again, as after a restart. Other tests change files
        // under a mapping.
        let store = store(&place.path().join("store"), None).mapped(false);
        let (key, edition) = (key(1), Edition::of(number, 3));
        edition.publish(&store, &key).unwrap();
        Small {
            _place: place,
            store,
            key,
            edition,
        }
    }

    /// Returns the files of the index and their contents. Makes them writable.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let dir = self.store.dir_of(&self.key);
        let names = names(&dir).into_iter();
        let kept = names.filter(|name| name == "manifest" || name.starts_with("segment-"));
        let files: Vec<_> = kept
            .map(|name| {
                let path = dir.join(name);
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
                let bytes = fs::read(&path).unwrap();
                (path, bytes)
            })
            .collect();
        assert_eq!(files.len(), 2);
        files
    }

    /// Loads the index. Returns true if it was refused. If it was loaded, its answers must be
    /// right.
    #[track_caller]
    fn is_refused(&self, what: &dyn Fn() -> String) -> bool {
        match load(&self.store, &self.key) {
            Err(error) => {
                let newer = error.to_string().contains("newer program");
                assert!(error.is_corrupt() || newer, "{}: {error}", what());
                true
            }
            Ok(Some(answer)) => {
                assert!(answer == self.edition.answer, "{}: {answer}", what());
                false
            }
            // The flip has changed the key, so there is no index for the key that was asked for.
            Ok(None) => true,
        }
    }

    /// Returns true if a check of the whole index finds damage.
    fn is_found(&self) -> bool {
        let dir = self.store.dir_of(&self.key);
        let checked = self.store.check(&dir, true, &mut std::thread::sleep);
        checked.is_err()
    }

    /// Builds the index again in place of the damaged one.
    #[track_caller]
    fn rebuild(&self) {
        self.edition.publish(&self.store, &self.key).unwrap();
        assert!(!self.is_refused(&|| "built again".to_string()));
        assert!(!self.is_found());
    }
}

#[test]
fn no_flipped_bit_of_a_store_changes_an_answer() {
    let small = Small::new(1);
    let (mut flips, mut refused) = (0, 0);
    for (path, bytes) in small.files() {
        let file = fs::File::options().write(true).open(&path).unwrap();
        for (at, byte) in bytes.iter().enumerate() {
            for bit in 0..8 {
                let what = || format!("bit {bit} of byte {at} of {}", path.display());
                file.write_all_at(&[byte ^ 1 << bit], at as u64).unwrap();
                flips += 1;
                refused += usize::from(small.is_refused(&what));
                // Only one flip of sixteen is checked completely: the check takes as long as the
                // rest of the test.
                if (at + bit) % 16 == 0 {
                    assert!(small.is_found(), "{}", what());
                }
            }
            file.write_all_at(&[*byte], at as u64).unwrap();
        }
        assert!(!small.is_found());
    }
    println!("{flips} flipped bits, {refused} of which made the index be refused");
    assert!(
        flips > 20_000 && refused * 10 > flips * 3,
        "{refused} of {flips}"
    );
    small.rebuild();
}

#[test]
fn no_length_of_a_file_of_a_store_changes_an_answer() {
    let small = Small::new(2);
    let mut lengths = 0;
    for (path, bytes) in small.files() {
        let file = fs::File::options().write(true).open(&path).unwrap();
        for len in (0..bytes.len()).rev() {
            let what = || format!("{} bytes of {}", len, path.display());
            file.set_len(len as u64).unwrap();
            assert!(small.is_refused(&what), "{}", what());
            lengths += 1;
        }
        fs::write(&path, &bytes).unwrap();
        for more in [1, 7, 4096] {
            let mut longer = bytes.clone();
            longer.resize(bytes.len() + more, 0);
            fs::write(&path, longer).unwrap();
            assert!(small.is_refused(&|| format!("{more} bytes more")));
        }
        fs::write(&path, &bytes).unwrap();
        assert!(!small.is_found());
    }
    println!("{lengths} lengths, all of which made the index be refused");
    assert!(lengths > 2_500);
    for (path, _) in small.files() {
        fs::write(&path, "").unwrap();
    }
    small.rebuild();
}
