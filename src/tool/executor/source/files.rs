//! Names of files below a directory.

use std::io;
use std::path::{Path, PathBuf};

use super::unavailable;
use crate::index::beneath::{EntryKind, RootDir};
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
    /// Hands over every regular file; links are neither listed nor followed. Memory for the entries of one directory, and one path for each
    /// directory that is known and not listed yet.
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<u64, Reason> {
        let mut fields = Fields::default();
        let mut todo = vec![PathBuf::new()];
        while let Some(dir) = todo.pop() {
            let entries = match self.0.open_dir_entries(&dir) {
                Ok(entries) => entries,
                // It has gone since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound && dir != Path::new("") => {
                    continue;
                }
                Err(error) => return Err(unavailable(&error)),
            };
            for entry in entries {
                match entry.kind {
                    EntryKind::Dir => todo.push(dir.join(&entry.name)),
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
        Ok(0)
    }
}
