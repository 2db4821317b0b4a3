//! The order of what a directory has.
//!
//! Owns the comparison of entries as their ordering keys compare within paths, and which directories are one node.

use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DirNode, Entry, FoundFile, Member, Place, RuleSets};
use crate::format::sort_key::component_key;
use crate::index::beneath::RootDir;

/// Puts entries into emission order. `twins`: they are of several directories whose names sort as equal.
pub(super) fn in_order(mut keyed: Vec<Keyed>, twins: bool) -> Vec<Entry> {
    keyed.sort_unstable_by(|a, b| {
        let by_name = a.cmp_key(b).then_with(|| {
            // Only entries of twin directories, twin names and errors get here.
            if twins {
                let path = |k: &Keyed| k.logical_dir.logical.join(&k.name);
                bytes(path(a).as_os_str()).cmp(bytes(path(b).as_os_str()))
            } else {
                bytes(&a.name).cmp(bytes(&b.name))
            }
        });
        by_name.then_with(|| a.what.told().cmp(&b.what.told()))
    });
    let mut entries: Vec<Entry> = Vec::with_capacity(keyed.len());
    // The key of the directory that came last, if nothing came after it.
    let mut open_dir: Option<Keyed> = None;
    for mut item in keyed {
        match std::mem::replace(&mut item.what, What::Taken) {
            What::File(dir, target, sets) => {
                open_dir = None;
                let found = FoundFile {
                    dir,
                    name: item.name,
                    target,
                };
                entries.push(Entry::File(found, sets));
            }
            What::Error(path, message) => entries.push(Entry::Error(path, message)),
            What::Dir(member) => {
                if let Some(open) = &open_dir
                    && open.cmp_key(&item).is_eq()
                    && let Some(Entry::Dir(node)) = entries.last_mut()
                {
                    node.members.push(member);
                    continue;
                }
                open_dir = Some(item);
                entries.push(Entry::Dir(DirNode {
                    members: vec![member],
                }));
            }
            What::Taken => {}
        }
    }
    entries
}

/// An entry with what it sorts by.
pub(super) struct Keyed {
    /// The entry's part of the ordering key, where it differs from the name's bytes.
    pub(super) key: Option<Box<str>>,
    pub(super) is_dir: bool,
    pub(super) name: OsString,
    pub(super) logical_dir: Arc<Place>,
    pub(super) what: What,
}

pub(super) enum What {
    File(Arc<Place>, Option<Arc<(Arc<RootDir>, PathBuf)>>, RuleSets),
    Dir(Member),
    Error(PathBuf, String),
    /// Moved out.
    Taken,
}

impl What {
    /// Returns what is said of what could not be read.
    fn told(&self) -> Option<(&Path, &str)> {
        match self {
            What::Error(path, message) => Some((path, message)),
            What::File(..) | What::Dir(_) | What::Taken => None,
        }
    }
}

impl Keyed {
    /// Returns what is said of a directory before everything else that could come from it.
    pub(super) fn first(dir: &Arc<Place>, path: &Path, message: String) -> Keyed {
        Keyed {
            key: None,
            is_dir: false,
            name: OsString::new(),
            logical_dir: dir.clone(),
            what: What::Error(path.to_path_buf(), message),
        }
    }

    /// Compares as the keys would compare inside longer paths: a directory's is followed by a slash.
    fn cmp_key(&self, other: &Keyed) -> Ordering {
        let (a, b) = (self.key_bytes(), other.key_bytes());
        let common = a.len().min(b.len());
        a[..common].cmp(&b[..common]).then_with(|| {
            let next = |bytes: &[u8], is_dir: bool| match bytes.get(common) {
                Some(&byte) => Some(byte),
                None => is_dir.then_some(b'/'),
            };
            next(a, self.is_dir)
                .cmp(&next(b, other.is_dir))
                // Only a directory and a longer name with a slash could tie here, and names have none.
                .then(a.len().cmp(&b.len()))
        })
    }

    fn key_bytes(&self) -> &[u8] {
        self.key
            .as_ref()
            .map_or_else(|| bytes(&self.name), |key| key.as_bytes())
    }
}

/// Returns the ordering key of a name where it is not the name itself.
pub(super) fn key_of(name: &OsStr) -> Option<Box<str>> {
    let key = component_key(name);
    (key.as_bytes() != bytes(name)).then(|| key.into_owned().into_boxed_str())
}

pub(super) fn bytes(text: &OsStr) -> &[u8] {
    text.as_encoded_bytes()
}
