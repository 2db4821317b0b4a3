//! The storage mode `mmap`: a manifest, and the segment file that it names.
//!
//! The segment is mapped, read on demand, or read into memory, depending on the store's settings.

use std::path::Path;

use super::storage_format::{Build, Publishing, StorageFormat, StoreSettings};
use super::{MANIFEST, UNFINISHED};
use crate::format::error::FormatError;
use crate::format::manifest::{KeyParts, MAX_MANIFEST_BYTES, Manifest};
use crate::format::publish::publish;
use crate::format::storage::{Privacy, Storage};
use crate::index::builder::{BuildError, BuiltSegment};
use crate::index::segment::Segment;
use crate::index::snapshot::StorageMode;

/// An index in files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Files;

impl StorageFormat for Files {
    fn mode(&self) -> StorageMode {
        StorageMode::Mmap
    }

    fn file(&self) -> &'static str {
        MANIFEST
    }

    fn publish(
        &self,
        settings: &StoreSettings,
        to: &Publishing<'_>,
        build: Build<'_>,
    ) -> Result<(BuiltSegment, Manifest, Segment), BuildError> {
        let dir = to.lock.dir();
        // A new name: readers may still be about to open the previous segment.
        let name = free_name(dir, to.sequence);
        let built = publish(&*settings.disk, to.lock, &name, |out| {
            build(out).map_err(|error| placed(error, &dir.join(&name)))
        })?;
        to.activating(&built);
        let manifest = (to.describe)(&built, name);
        let encoded = manifest.encode()?;
        if let Err(error) = settings.check_size(built.summary.len + encoded.len() as u64) {
            // If this fails, the next publication removes the file.
            let _left_behind = settings.disk.remove(&dir.join(&manifest.segment.file.name));
            return Err(error);
        }
        let file = match built.unfinished {
            Some(_) => UNFINISHED,
            None => MANIFEST,
        };
        publish(&*settings.disk, to.lock, file, |out| {
            let written = out.write_all(&encoded).map_err(BuildError::Output);
            written.map_err(|error| placed(error, &dir.join(file)))
        })?;
        let segment = open_segment(settings, dir, &manifest)?;
        Ok((built, manifest, segment))
    }

    fn manifest(&self, settings: &StoreSettings, dir: &Path) -> Result<Manifest, FormatError> {
        read_manifest(settings, &dir.join(MANIFEST))
    }

    fn unfinished(&self, settings: &StoreSettings, dir: &Path, key: &KeyParts) -> Option<Segment> {
        let manifest = read_manifest(settings, &dir.join(UNFINISHED)).ok()?;
        let segment = open_segment(settings, dir, &manifest).ok()?;
        // The next build copies from the whole segment, so it must be sound.
        let sound = manifest.key == *key && segment.verify().is_ok();
        sound.then_some(segment)
    }

    fn open(
        &self,
        settings: &StoreSettings,
        dir: &Path,
        asked: &dyn Fn(&KeyParts) -> bool,
    ) -> Result<Option<(Manifest, Segment)>, FormatError> {
        let manifest = self.manifest(settings, dir)?;
        if !asked(&manifest.key) {
            return Ok(None);
        }
        self.with_segment(settings, dir, manifest).map(Some)
    }

    fn check(
        &self,
        settings: &StoreSettings,
        dir: &Path,
        deep: bool,
    ) -> Result<Manifest, FormatError> {
        let manifest = self.manifest(settings, dir)?;
        let (manifest, segment) = self.with_segment(settings, dir, manifest)?;
        if deep {
            segment.verify()?;
        }
        Ok(manifest)
    }

    fn owns(&self, manifest: &Manifest, name: &str) -> bool {
        name == MANIFEST || name == manifest.segment.file.name
    }
}

impl Files {
    /// Opens the segment that a manifest names. If the segment is missing, reads the manifest
    /// again: a writer publishes a new manifest before it removes the old segment. An unchanged
    /// manifest means that the index is damaged. Each further round means another publication.
    fn with_segment(
        &self,
        settings: &StoreSettings,
        dir: &Path,
        mut manifest: Manifest,
    ) -> Result<(Manifest, Segment), FormatError> {
        loop {
            match open_segment(settings, dir, &manifest) {
                Err(error) if error.is_not_found() => {}
                opened => return Ok((manifest, opened?)),
            }
            let newer = self.manifest(settings, dir)?;
            if newer == manifest {
                let problem = "the segment that it names is gone";
                let error = FormatError::inconsistent("the manifest", 0, problem);
                return Err(error.in_file(&dir.join(MANIFEST)));
            }
            manifest = newer;
        }
    }
}

/// Adds the path of the file to an output error.
fn placed(error: BuildError, path: &Path) -> BuildError {
    match error {
        BuildError::Output(error) => {
            BuildError::Format(FormatError::io("write the new file", error).in_file(path))
        }
        other => other,
    }
}

/// Returns the key of the unfinished build in a directory, if there is one.
pub(super) fn unfinished_key(settings: &StoreSettings, dir: &Path) -> Option<KeyParts> {
    let manifest = read_manifest(settings, &dir.join(UNFINISHED)).ok()?;
    Some(manifest.key)
}

fn read_manifest(settings: &StoreSettings, path: &Path) -> Result<Manifest, FormatError> {
    let storage = Storage::read_on(&*settings.disk, path, MAX_MANIFEST_BYTES, settings.privacy)?;
    Manifest::decode(storage).map_err(|error| error.in_file(path))
}

/// Opens the segment that a manifest names.
fn open_segment(
    settings: &StoreSettings,
    dir: &Path,
    manifest: &Manifest,
) -> Result<Segment, FormatError> {
    let segment = &manifest.segment;
    let path = dir.join(&segment.file.name);
    let in_file = |error: FormatError| error.in_file(&path);
    let disk = &*settings.disk;
    let storage = match settings.privacy {
        Privacy::Required if settings.map => Storage::map_on(disk, &path)?,
        Privacy::Required => Storage::paged_on(disk, &path)?,
        Privacy::Waived => Storage::read_on(disk, &path, usize::MAX, settings.privacy)?,
    };
    let opened = Segment::open(storage).map_err(in_file)?;
    let summary = opened.summary();
    let bloom = &manifest.bloom;
    let meta = opened.meta();
    if (summary.len, summary.checksum) != (segment.file.len, segment.file.checksum)
        || (meta.bloom_bits, meta.bloom_hashes) != (bloom.bits, bloom.hashes)
        || (meta.bloom_seed, meta.ngram_chars) != (bloom.seed, bloom.ngram_chars)
        || u64::from(meta.files) != segment.files
    {
        return Err(in_file(FormatError::inconsistent(
            "the segment",
            0,
            "it is not the segment that the manifest names",
        )));
    }
    Ok(opened)
}

/// Returns a segment name that no file has.
fn free_name(dir: &Path, sequence: u64) -> String {
    let name = |n: u64| format!("segment-{n}.seg");
    let mut n = sequence;
    while dir.join(name(n)).exists() {
        n += 1;
    }
    name(n)
}

/// Returns the number in the name of a segment.
pub(super) fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix("segment-")?
        .strip_suffix(".seg")?
        .parse()
        .ok()
}
