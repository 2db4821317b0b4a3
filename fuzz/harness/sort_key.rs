//! Claims about any bytes as file names: building the ordering key never panics, a path's key
//! consists of its components' keys, and the order is total.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use forge_search::internal::format::sort_key::{cmp_paths, component_key, sort_key};

/// Checks all claims for the paths in `data`, which NUL bytes separate.
pub(crate) fn run(data: &[u8]) {
    // The checks compare all pairs, so only a few paths are used: more would only be slower.
    let paths: Vec<PathBuf> = data.split(|byte| *byte == 0).take(4).map(path).collect();
    for a in &paths {
        check_key(a);
        for b in &paths {
            check_order(a, b);
        }
    }
    let mut sorted = paths;
    sorted.sort_by(|a, b| cmp_paths(a, b));
    for (index, a) in sorted.iter().enumerate() {
        for b in &sorted[index..] {
            assert_ne!(
                cmp_paths(a, b),
                Ordering::Greater,
                "sorting is not transitive: {a:?} {b:?}"
            );
        }
    }
}

/// Returns a relative path of the components in `bytes`, without empty, `.` and `..` components.
fn path(bytes: &[u8]) -> PathBuf {
    bytes
        .split(|byte| *byte == b'/')
        .filter(|name| !matches!(*name, b"" | b"." | b".."))
        .map(component)
        .collect()
}

#[cfg(unix)]
fn component(name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(name))
}

#[cfg(not(unix))]
fn component(name: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(name).replace(['\\', ':'], "_"))
}

fn check_key(path: &Path) {
    let key = sort_key(path);
    let parts: Vec<_> = path.iter().map(component_key).collect();
    assert_eq!(
        key,
        parts.join("/"),
        "the key of {path:?} is not made of its components' keys"
    );
    assert_eq!(
        sort_key(Path::new(key.as_ref())),
        key,
        "the key of {path:?} is not normalized"
    );
    let below = path.join("x");
    assert_eq!(
        cmp_paths(path, &below),
        Ordering::Less,
        "{path:?} sorts after what is below it"
    );
}

fn check_order(a: &Path, b: &Path) {
    let order = cmp_paths(a, b);
    assert_eq!(
        order,
        cmp_paths(b, a).reverse(),
        "the order of {a:?} and {b:?} depends on the side"
    );
    assert_eq!(
        order == Ordering::Equal,
        a.as_os_str() == b.as_os_str(),
        "{a:?} and {b:?} are equal in order only"
    );
    let by_key = sort_key(a).as_bytes().cmp(sort_key(b).as_bytes());
    assert!(
        by_key == order || by_key == Ordering::Equal,
        "{a:?} and {b:?} are not in key order"
    );
}
