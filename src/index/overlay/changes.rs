//! Changes an overlay by the findings in the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Content, DirState, Extra, ListingChange, Overlay};
use crate::format::error::FormatError;
use crate::format::manifest::RuleSets;
use crate::index::below::below;
use crate::index::enumerate::SurveyedFile;
use crate::index::names::has_line_break;
use crate::index::segment::Segment;
use crate::index::stamp::Stamp;

impl Overlay {
    /// Records a file with its stamp and the sets of ignore rules by which it is eligible. Returns
    /// true if that is a change; the known content is discarded then.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; the overlay is useless then.
    pub fn found(
        &mut self,
        segment: &Segment,
        path: &Path,
        stamp: Option<Stamp>,
        sets: RuleSets,
    ) -> Result<bool, FormatError> {
        let news = self.found_alone(segment, path, stamp, sets)?;
        if news {
            self.found_elsewhere(segment, path, stamp)?;
        }
        Ok(news)
    }

    /// Records the stamp of a file for its other names too. A write, or an additional name, raises
    /// an event for one name only. Returns true if anything changed.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; the overlay is useless then.
    pub fn found_elsewhere(
        &mut self,
        segment: &Segment,
        path: &Path,
        stamp: Option<Stamp>,
    ) -> Result<bool, FormatError> {
        let Some(stamp) = stamp.filter(|stamp| stamp.links() > 1) else {
            return Ok(false);
        };
        let mut news = false;
        let (device, inode) = stamp.identity();
        for rank in segment.with_identity(device, inode)? {
            let other = segment.path(rank)?;
            // A dead file is deleted, or listed as an extra file.
            if !self.dead.contains(rank) && other != path {
                let sets = segment.file(rank)?.sets;
                news |= self.found_at(segment, rank, &other, Some(stamp), sets)?;
            }
        }
        let names = self.names.get(&(device, inode)).into_iter().flatten();
        let others: Vec<Arc<Extra>> = names
            .filter_map(|name| self.extra(name))
            .filter(|extra| extra.stamp != Some(stamp))
            .cloned()
            .collect();
        for other in others {
            news |= self.put(&other.path, other.before_rank, Some(stamp), other.sets);
        }
        Ok(news)
    }

    /// Records that a file was written to after its current stamp had settled. Content that was
    /// read with this stamp, or is being read, may be old, and is discarded under all names of the
    /// file. Returns true if there was any.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged; the overlay is useless then.
    pub fn distrust(
        &mut self,
        segment: &Segment,
        path: &Path,
        stamp: Stamp,
    ) -> Result<bool, FormatError> {
        let (device, inode) = stamp.identity();
        let mut ranks: Vec<u32> = segment.find_file(path)?.into_iter().collect();
        if stamp.links() > 1 {
            ranks.extend(segment.with_identity(device, inode)?);
        }
        let mut news = false;
        for rank in ranks {
            let file = segment.file(rank)?;
            let as_read = Stamp::from_record(file.stamp) == stamp;
            // A dead file is deleted, or listed as an extra file.
            if as_read && !self.dead.contains(rank) {
                Arc::make_mut(&mut self.distrusted).insert(rank);
                self.set_dead(rank, true);
                news |= self.put(&segment.path(rank)?, rank, Some(stamp), file.sets);
            }
        }
        for path in self
            .names
            .get(&(device, inode))
            .cloned()
            .unwrap_or_default()
        {
            if let Ok(at) = self.extra_at(&path)
                && self.extras[at].stamp == Some(stamp)
            {
                // Also if it was not read, since another thread may be reading it.
                self.set_content(at, Content::Unread);
                news = true;
            }
        }
        Ok(news)
    }

    fn found_alone(
        &mut self,
        segment: &Segment,
        path: &Path,
        stamp: Option<Stamp>,
        sets: RuleSets,
    ) -> Result<bool, FormatError> {
        if has_line_break(path.as_os_str()) {
            return self.found_beside_catalog(segment, path, stamp, sets);
        }
        match segment.find_file(path)? {
            Some(rank) => self.found_at(segment, rank, path, stamp, sets),
            None => Ok(self.put(path, segment.position(path)?, stamp, sets)),
        }
    }

    /// Records the stamp of the segment file with a rank.
    fn found_at(
        &mut self,
        segment: &Segment,
        rank: u32,
        path: &Path,
        stamp: Option<Stamp>,
        sets: RuleSets,
    ) -> Result<bool, FormatError> {
        let file = segment.file(rank)?;
        let kept = Stamp::from_record(file.stamp);
        if stamp == Some(kept) && sets == file.sets && !self.distrusted.contains(&rank) {
            // The file is as the segment has it, even if it differed meanwhile.
            let revived = self.set_dead(rank, false);
            return Ok(self.remove_extra(path) || revived);
        }
        self.set_dead(rank, true);
        Ok(self.put(path, rank, stamp, sets))
    }

    /// Records the listing of a directory that is entered by some sets of ignore rules: all
    /// eligible files, and the paths of all entered subdirectories. Takes linear time in the number
    /// of entries, plus a search in the segment for each new file.
    pub fn listed(
        &mut self,
        segment: &Segment,
        dir: &Path,
        sets: RuleSets,
        files: &[SurveyedFile],
        dirs: &BTreeSet<PathBuf>,
    ) -> Result<ListingChange, FormatError> {
        let mut news = self.entered(segment, dir, sets)?;
        // The directory may have replaced a file of the same name.
        news |= self.no_file(segment, dir)?;
        let mut ranks: BTreeMap<OsString, u32> = BTreeMap::new();
        if let Some(number) = segment.find_dir(dir)? {
            for &rank in segment.files_in(number)?.iter() {
                ranks.insert(segment.name(segment.file(rank)?.name)?.to_os_string(), rank);
            }
        }
        let names: BTreeSet<&OsStr> = files.iter().map(|file| &*file.name).collect();
        for path in self.extra_files_in(segment, dir)? {
            if !names.contains(path.file_name().unwrap_or_default()) {
                news |= self.no_file(segment, &path)?;
            }
        }
        // Before files are recorded: recording a file updates its other names, unless they are
        // known to be gone.
        for (_, &rank) in ranks.iter().filter(|(name, _)| !names.contains(&***name)) {
            news |= self.set_dead(rank, true);
        }
        for SurveyedFile { name, stamp, sets } in files {
            let path = dir.join(name);
            let own = match ranks.get(name) {
                Some(&rank) => self.found_at(segment, rank, &path, *stamp, *sets)?,
                None => self.found_alone(segment, &path, *stamp, *sets)?,
            };
            if own {
                self.found_elsewhere(segment, &path, *stamp)?;
            }
            news |= own;
        }
        let mut gone = self.dirs_in(segment, dir)?;
        gone.retain(|path| !dirs.contains(path));
        for path in &gone {
            news |= self.no_dir(segment, path)?;
        }
        Ok(ListingChange { news, gone })
    }

    /// Records a file with a line break in its path, which is never in the catalog.
    fn found_beside_catalog(
        &mut self,
        segment: &Segment,
        path: &Path,
        stamp: Option<Stamp>,
        sets: RuleSets,
    ) -> Result<bool, FormatError> {
        for n in 0..segment.side_count() {
            if segment.side_path(n)? != path {
                continue;
            }
            if segment.side(n)?.sets == sets {
                let is_dead = self.dead_side.contains(&n);
                let revived = is_dead && Arc::make_mut(&mut self.dead_side).remove(&n);
                return Ok(self.remove_extra(path) || revived);
            }
            Arc::make_mut(&mut self.dead_side).insert(n);
        }
        let position = segment.position(path)?;
        Ok(self.put(path, position, stamp, sets))
    }

    /// Records that a directory is entered by some sets of ignore rules.
    fn entered(
        &mut self,
        segment: &Segment,
        dir: &Path,
        sets: RuleSets,
    ) -> Result<bool, FormatError> {
        let kept = match segment.find_dir(dir)? {
            Some(number) => Some(segment.dir(number)?.sets),
            None => None,
        };
        let state = self.dirs.get(dir).copied();
        let now = DirState::Entered(sets);
        Ok(match kept == Some(sets) {
            true => state.is_some() && Arc::make_mut(&mut self.dirs).remove(dir).is_some(),
            false if state == Some(now) => false,
            false => {
                Arc::make_mut(&mut self.dirs).insert(dir.to_path_buf(), now);
                true
            }
        })
    }

    /// Records that there is no eligible file at a path. Returns true if that is a change.
    pub fn no_file(&mut self, segment: &Segment, path: &Path) -> Result<bool, FormatError> {
        let mut news = self.remove_extra(path);
        if has_line_break(path.as_os_str()) {
            for n in 0..segment.side_count() {
                if segment.side_path(n)? == path && !self.dead_side.contains(&n) {
                    news |= Arc::make_mut(&mut self.dead_side).insert(n);
                }
            }
        } else if let Some(rank) = segment.find_file(path)? {
            news |= self.set_dead(rank, true);
        }
        Ok(news)
    }

    /// Records that there is no entered directory at a path, so nothing below it is eligible.
    /// Returns true if that is a change. Takes linear time in the number of known entries below.
    pub fn no_dir(&mut self, segment: &Segment, dir: &Path) -> Result<bool, FormatError> {
        let mut news = false;
        let below = self.range_below(dir);
        if self.extras[below.clone()]
            .iter()
            .any(|extra| extra.path.starts_with(dir))
        {
            let extras = Arc::make_mut(&mut self.extras);
            let (gone, kept): (Vec<Arc<Extra>>, Vec<Arc<Extra>>) = extras
                .drain(below.clone())
                .partition(|extra| extra.path.starts_with(dir));
            extras.splice(below.start..below.start, kept);
            for extra in gone {
                self.forget_name(&extra);
            }
            news = true;
        }
        if let Some(number) = segment.find_dir(dir)? {
            let own = segment.dir(number)?;
            for rank in own.first_rank..own.end_rank {
                // The range is shared with directories whose names sort as equal.
                let below = segment.dir_path(segment.file(rank)?.dir)?.starts_with(dir);
                news |= below && self.set_dead(rank, true);
            }
            for n in 0..segment.side_count() {
                if !self.dead_side.contains(&n) && segment.side_path(n)?.starts_with(dir) {
                    news |= Arc::make_mut(&mut self.dead_side).insert(n);
                }
            }
        }
        news |= self.leave(segment, dir)?;
        Ok(news)
    }

    /// Records that no directory at and below a path is entered.
    fn leave(&mut self, segment: &Segment, dir: &Path) -> Result<bool, FormatError> {
        let mut news = false;
        let entered: Vec<PathBuf> = below(&self.dirs, dir)
            .filter(|(_, state)| **state != DirState::Gone)
            .map(|(path, _)| path.clone())
            .collect();
        for path in entered {
            Arc::make_mut(&mut self.dirs).remove(&path);
            news = true;
        }
        let mut below: Vec<u32> = segment.find_dir(dir)?.into_iter().collect();
        while let Some(number) = below.pop() {
            below.extend_from_slice(&segment.dirs_in(number)?);
            let path = segment.dir_path(number)?;
            if !self.dirs.contains_key(path) {
                Arc::make_mut(&mut self.dirs).insert(path.to_path_buf(), DirState::Gone);
                news = true;
            }
        }
        Ok(news)
    }

    /// Returns the known files directly in a directory that are not in the segment's catalog.
    fn extra_files_in(&self, segment: &Segment, dir: &Path) -> Result<Vec<PathBuf>, FormatError> {
        let below = &self.extras[self.range_below(dir)];
        let own = below.iter().filter(|extra| extra.dir() == dir);
        let mut paths: Vec<PathBuf> = own.map(|extra| extra.path.clone()).collect();
        for n in 0..segment.side_count() {
            let path = segment.side_path(n)?;
            if !self.dead_side.contains(&n) && path.parent() == Some(dir) {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    /// Returns the known entered subdirectories of a directory.
    fn dirs_in(&self, segment: &Segment, dir: &Path) -> Result<Vec<PathBuf>, FormatError> {
        let mut paths = Vec::new();
        if let Some(number) = segment.find_dir(dir)? {
            for &child in segment.dirs_in(number)?.iter() {
                let path = segment.dir_path(child)?;
                if self.dirs.get(path) != Some(&DirState::Gone) {
                    paths.push(path.to_path_buf());
                }
            }
        }
        let own = below(&self.dirs, dir)
            .filter(|(path, state)| **state != DirState::Gone && path.parent() == Some(dir));
        let own = own.map(|(path, _)| path.clone());
        // Directories of the segment whose rules changed are already in `paths`.
        let known: BTreeSet<PathBuf> = paths.iter().cloned().collect();
        paths.extend(own.filter(|path| !known.contains(path)));
        Ok(paths)
    }

    /// Stores the content of an extra file, if the file was not changed, recorded or written to
    /// since `extra` was taken from the overlay. Returns true if it was stored.
    pub fn read(&mut self, extra: &Arc<Extra>, content: Content) -> bool {
        let Ok(at) = self.extra_at(&extra.path) else {
            return false;
        };
        if !Arc::ptr_eq(&self.extras[at], extra) {
            return false;
        }
        self.set_content(at, content);
        true
    }

    fn set_content(&mut self, at: usize, content: Content) {
        let extra = Extra {
            content,
            ..Extra::clone(&self.extras[at])
        };
        Arc::make_mut(&mut self.extras)[at] = Arc::new(extra);
    }

    fn put(&mut self, path: &Path, before_rank: u32, stamp: Option<Stamp>, sets: RuleSets) -> bool {
        let found = self.extra_at(path);
        let before = found.ok().map(|at| self.extras[at].clone());
        if let Some(before) = &before {
            // Without a stamp, the file may have changed.
            if stamp.is_some() && before.stamp == stamp && before.sets == sets {
                return false;
            }
            self.forget_name(before);
        }
        if let Some(stamp) = stamp {
            let names = self.names.entry(stamp.identity()).or_default();
            names.insert(path.to_path_buf());
        }
        let extra = Arc::new(Extra {
            path: path.to_path_buf(),
            before_rank,
            stamp,
            sets,
            content: Content::Unread,
        });
        let extras = Arc::make_mut(&mut self.extras);
        match found {
            Ok(at) => extras[at] = extra,
            Err(at) => extras.insert(at, extra),
        }
        true
    }

    fn remove_extra(&mut self, path: &Path) -> bool {
        let found = self.extra_at(path);
        if let Ok(at) = found {
            let extra = Arc::make_mut(&mut self.extras).remove(at);
            self.forget_name(&extra);
        }
        found.is_ok()
    }

    fn forget_name(&mut self, extra: &Extra) {
        let Some(identity) = extra.stamp.map(Stamp::identity) else {
            return;
        };
        if let Some(names) = self.names.get_mut(&identity) {
            names.remove(&extra.path);
            if names.is_empty() {
                self.names.remove(&identity);
            }
        }
    }

    fn set_dead(&mut self, rank: u32, dead: bool) -> bool {
        if self.dead.contains(rank) == dead {
            return false;
        }
        let set = Arc::make_mut(&mut self.dead);
        let changed = match dead {
            true => set.insert(rank),
            false => set.remove(rank),
        };
        match (changed, dead) {
            (true, true) => self.dead_count += 1,
            (true, false) => self.dead_count -= 1,
            (false, _) => {}
        }
        changed
    }
}
