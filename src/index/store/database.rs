//! The storage mode `sqlite`: an index in an SQLite database, which is read into memory.

use std::path::Path;

use super::DATABASE;
use super::storage_format::{Build, Publishing, StorageFormat, StoreSettings};
use crate::format::error::FormatError;
use crate::format::manifest::{KeyParts, Manifest};
use crate::format::publish::publish_path;
use crate::format::storage::Storage;
use crate::index::builder::{BuildError, BuiltSegment};
use crate::index::segment::Segment;
use crate::index::snapshot::StorageMode;
use crate::index::sqlite::{self, Access};

/// An index in a database.
#[derive(Clone, Copy, Debug)]
pub(super) struct Database;

impl StoreSettings {
    fn access(&self) -> Access {
        Access {
            privacy: self.privacy,
            busy: self.lock_timeout,
            check: self.check,
        }
    }

    /// For calls that need no check of the whole file, or that verify it themselves.
    fn unchecked(&self) -> Access {
        Access {
            check: false,
            ..self.access()
        }
    }
}

impl StorageFormat for Database {
    fn mode(&self) -> StorageMode {
        StorageMode::Sqlite
    }

    fn file(&self) -> &'static str {
        DATABASE
    }

    fn publish(
        &self,
        settings: &StoreSettings,
        to: &Publishing<'_>,
        build: Build<'_>,
    ) -> Result<(BuiltSegment, Manifest, Segment), BuildError> {
        let mut bytes = Vec::new();
        let built = build(&mut bytes)?;
        bytes.shrink_to_fit();
        let segment = Segment::open_own(Storage::from(bytes))?;
        let manifest = (to.describe)(&built, DATABASE.to_string());
        publish_path(&*settings.disk, to.lock, DATABASE, |path| {
            sqlite::write(path, &segment, &manifest, to.host, settings.lock_timeout)?;
            // A file without readable metadata can't be published either; the rename reports it.
            settings.check_size(std::fs::metadata(path).map_or(0, |meta| meta.len()))
        })?;
        to.activating(&built);
        Ok((built, manifest, segment))
    }

    fn manifest(&self, settings: &StoreSettings, dir: &Path) -> Result<Manifest, FormatError> {
        sqlite::load_manifest(&dir.join(DATABASE), settings.unchecked())
    }

    fn open(
        &self,
        settings: &StoreSettings,
        dir: &Path,
        asked: &dyn Fn(&KeyParts) -> bool,
    ) -> Result<Option<(Manifest, Segment)>, FormatError> {
        let loaded = sqlite::load(&dir.join(DATABASE), settings.access())?;
        Ok(Some(loaded).filter(|(manifest, _)| asked(&manifest.key)))
    }

    fn check(
        &self,
        settings: &StoreSettings,
        dir: &Path,
        deep: bool,
    ) -> Result<Manifest, FormatError> {
        match deep {
            true => sqlite::verify(&dir.join(DATABASE), settings.unchecked()),
            false => self.manifest(settings, dir),
        }
    }

    fn owns(&self, _: &Manifest, name: &str) -> bool {
        // Includes the files that SQLite creates next to an open database.
        name.starts_with(DATABASE)
    }
}
