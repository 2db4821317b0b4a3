//! Names of files below a directory.

use std::path::Path;

use super::dirs::Dirs;
use super::unavailable;
use crate::index::root_dir::{EntryKind, RootDir};
use crate::tool::executor::failure::Reason;
use crate::tool::executor::order::Order;
use crate::tool::executor::search::{Fields, Record, Source, Visit};

/// A directory tree.
#[derive(Debug)]
pub(super) struct Tree(RootDir);

impl Tree {
    pub(super) fn open(location: &Path) -> Result<Tree, Reason> {
        match RootDir::open(location) {
            Ok(root) => Ok(Tree(root)),
            Err(error) => Err(unavailable(&error)),
        }
    }
}

impl Source for Tree {
    /// Visits every regular file; links are neither listed nor followed. Needs memory for the
    /// entries of one directory, and for the name of each directory.
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<u64, Reason> {
        let mut fields = Fields::default();
        let mut dirs = Dirs::of(&self.0);
        let mut todo = vec![Dirs::ROOT];
        while let Some(id) = todo.pop() {
            let Some(entries) = dirs.list(id)? else {
                // The directory was removed since it was listed.
                return Err(Reason::SourceChanged);
            };
            let dir = dirs.path(id);
            for entry in entries {
                match entry.kind {
                    EntryKind::Dir => todo.push(dirs.add(id, &entry.name)?),
                    EntryKind::File => {
                        fields.clear();
                        fields.push("name", &entry.name.to_string_lossy());
                        let path = || dir.join(&entry.name);
                        visit(Record {
                            fields: &fields,
                            id: &|| path().to_string_lossy().into_owned(),
                            order: &|| Order::Path(path().as_os_str().as_encoded_bytes().to_vec()),
                        });
                    }
                    _ => {}
                }
            }
        }
        dirs.unchanged()?;
        Ok(0)
    }
}
