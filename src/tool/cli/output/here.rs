//! Paths of files as a user in a directory writes them.
//!
//! For example, the file `a.rs` of the tree `/home/me/tree` is `../a.rs` from `/home/me/tree/src`.

use std::path::{Component, Path, PathBuf};

/// Returns a path that opens a file of a tree from the directory `here`. The path is relative if
/// the file lies below `here`, starts with `..` if `here` lies in the tree, and is absolute
/// otherwise. `here` and `root` must be absolute and without links; `path` is relative to `root`.
///
/// For example, the file `a.rs` of the tree `/home/me/tree` is `../a.rs` from `/home/me/tree/src`.
pub(in crate::tool::cli) fn seen_from(here: &Path, root: &Path, path: &Path) -> PathBuf {
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
            // The directory lies above the tree or outside of it.
            ("/", "a/b.rs", "t/a/b.rs"),
            ("/other", "a/b.rs", "/t/a/b.rs"),
            ("/tt", "a/b.rs", "/t/a/b.rs"),
        ] {
            let seen = seen_from(Path::new(here), Path::new("/t"), Path::new(path));
            assert_eq!(seen, Path::new(shown), "{here}");
        }
    }
}
