//! How a file is named to somebody who stands in a directory.

use std::path::{Component, Path, PathBuf};

/// Returns the path by which a file of a tree can be opened from the directory `here`: relative where
/// the file lies below `here`, over `..` where `here` lies in the tree, else absolute. `here` and the
/// root of the tree are absolute, without links; `path` is relative to the root.
///
/// From `/home/me/tree/src`, `a.rs` of the tree `/home/me/tree` is `../a.rs`.
pub(super) fn seen_from(here: &Path, root: &Path, path: &Path) -> PathBuf {
    let there = root.join(path);
    if !here.starts_with(root) && !there.starts_with(here) {
        return there;
    }
    let common = here.components().zip(there.components());
    let common = common.take_while(|(here, there)| here == there).count();
    let up = here.components().skip(common).map(|_| Component::ParentDir);
    up.chain(there.components().skip(common)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_so_that_it_can_be_opened() {
        for (here, path, shown) in [
            ("/t", "a/b.rs", "a/b.rs"),
            ("/t/a", "a/b.rs", "b.rs"),
            ("/t/a", "c/b.rs", "../c/b.rs"),
            ("/t/a/d", "b.rs", "../../b.rs"),
            // The directory lies above the tree, or beside it.
            ("/", "a/b.rs", "t/a/b.rs"),
            ("/other", "a/b.rs", "/t/a/b.rs"),
            ("/tt", "a/b.rs", "/t/a/b.rs"),
        ] {
            let seen = seen_from(Path::new(here), Path::new("/t"), Path::new(path));
            assert_eq!(seen, Path::new(shown), "{here}");
        }
    }
}
