//! The order of the entries of a directory.
//!
//! This module compares entries by their ordering keys, as these compare within longer paths. It
//! also decides which sibling directories form one node.

use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DirNode, Entry, FoundFile, Member, Place, RuleSets};
use crate::format::sort_key::component_key;
use crate::index::root_dir::RootDir;

/// Sorts entries into emission order. `twins` is true if the entries come from several directories
/// with equal ordering keys.
pub(super) fn in_order(mut keyed: Vec<Keyed>, twins: bool) -> Vec<Entry> {
    keyed.sort_unstable_by(|a, b| {
        let by_name = a.cmp_key(b).then_with(|| {
            // Only entries of twin directories, twin names and errors reach this comparison.
            if twins {
                let path = |k: &Keyed| k.logical_dir.logical.join(&k.name);
                bytes(path(a).as_os_str()).cmp(bytes(path(b).as_os_str()))
            } else {
                bytes(&a.name).cmp(bytes(&b.name))
            }
        });
        by_name.then_with(|| a.what.error().cmp(&b.what.error()))
    });
    let mut entries: Vec<Entry> = Vec::with_capacity(keyed.len());
    // The last directory, if no file followed it.
    let mut open_dir: Option<Keyed> = None;
    for mut item in keyed {
        match std::mem::replace(&mut item.what, WalkItem::Taken) {
            WalkItem::File(dir, target, sets) => {
                open_dir = None;
                let found = FoundFile {
                    dir,
                    name: item.name,
                    target,
                };
                entries.push(Entry::File(found, sets));
            }
            WalkItem::Error(path, message) => entries.push(Entry::Error(path, message)),
            WalkItem::Dir(member) => {
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
            WalkItem::Taken => {}
        }
    }
    entries
}

/// An entry with its sort key.
pub(super) struct Keyed {
    /// The component of the ordering key, if it differs from the bytes of the name.
    pub(super) key: Option<Box<str>>,
    pub(super) is_dir: bool,
    pub(super) name: OsString,
    pub(super) logical_dir: Arc<Place>,
    pub(super) what: WalkItem,
}

pub(super) enum WalkItem {
    File(Arc<Place>, Option<Arc<(Arc<RootDir>, PathBuf)>>, RuleSets),
    Dir(Member),
    Error(PathBuf, String),
    /// The value was moved out.
    Taken,
}

impl WalkItem {
    /// Returns the path and the message of an error.
    fn error(&self) -> Option<(&Path, &str)> {
        match self {
            WalkItem::Error(path, message) => Some((path, message)),
            WalkItem::File(..) | WalkItem::Dir(_) | WalkItem::Taken => None,
        }
    }
}

impl Keyed {
    /// Returns an error about a directory that sorts before all entries of the directory.
    pub(super) fn first(dir: &Arc<Place>, path: &Path, message: String) -> Keyed {
        Keyed {
            key: None,
            is_dir: false,
            name: OsString::new(),
            logical_dir: dir.clone(),
            what: WalkItem::Error(path.to_path_buf(), message),
        }
    }

    /// Compares keys as they compare inside longer paths, where a slash follows a directory.
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
                // Only a directory and a longer name with a slash could tie here, but names have no
                // slash.
                .then(a.len().cmp(&b.len()))
        })
    }

    fn key_bytes(&self) -> &[u8] {
        self.key
            .as_ref()
            .map_or_else(|| bytes(&self.name), |key| key.as_bytes())
    }
}

/// Returns the ordering key of a name if it differs from the name.
pub(super) fn key_of(name: &OsStr) -> Option<Box<str>> {
    let key = component_key(name);
    (key.as_bytes() != bytes(name)).then(|| key.into_owned().into_boxed_str())
}

fn bytes(text: &OsStr) -> &[u8] {
    text.as_encoded_bytes()
}
