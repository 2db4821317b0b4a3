//! How a file is named to somebody who stands in a directory.

use std::path::{Component, Path, PathBuf};

/// Returns the path by which the file `there` can be opened from the directory `here`: relative where
/// it lies below `here`, over `..` where both lie in `top`, else absolute. All three are absolute,
/// without links.
///
/// From `/home/me/tree/src`, with `/home/me/tree` as the top, `/home/me/tree/a.rs` is `../a.rs`.
pub(super) fn seen_from(here: &Path, there: &Path, top: &Path) -> PathBuf {
    if !here.starts_with(top) && !there.starts_with(here) {
        return there.to_path_buf();
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
        for (here, there, shown) in [
            ("/t", "/t/a/b.rs", "a/b.rs"),
            ("/t/a", "/t/a/b.rs", "b.rs"),
            ("/t/a", "/t/c/b.rs", "../c/b.rs"),
            ("/t/a/d", "/t/b.rs", "../../b.rs"),
            // The directory lies above the tree, or beside it.
            ("/", "/t/a/b.rs", "t/a/b.rs"),
            ("/other", "/t/a/b.rs", "/t/a/b.rs"),
            ("/tt", "/t/a/b.rs", "/t/a/b.rs"),
        ] {
            let seen = seen_from(Path::new(here), Path::new(there), Path::new("/t"));
            assert_eq!(seen, Path::new(shown), "{here}");
        }
    }
}
