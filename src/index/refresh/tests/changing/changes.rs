//! Random changes of the tree.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use super::*;
use crate::index::dirty::Extent;

impl Changing {
    /// Makes one change, and records its events.
    pub(crate) fn change(&mut self) {
        loop {
            let (files, dirs) = self.list();
            self.ever.extend(dirs.iter().cloned());
            self.written += 1;
            if let Some(what) = self.make(&files, &dirs) {
                self.note(what);
                return;
            }
        }
    }

    pub(super) fn note(&mut self, what: String) {
        self.history.push_back(what);
        if self.history.len() > 40 {
            self.history.pop_front();
        }
    }

    fn make(&mut self, files: &[PathBuf], dirs: &[PathBuf]) -> Option<String> {
        let dir = self.rng.pick(dirs)?;
        let file = self.rng.pick(files);
        let new_file = dir.join(self.rng.pick(&FILES)?);
        let new_dir = dir.join(self.rng.pick(&DIRS)?);
        let free = |path: &Path| fs::symlink_metadata(self.root.join(path)).is_err();
        let is_shallow = dir.components().count() < DEEP;
        match self.rng.below(20) {
            0..=3 if free(&new_file) => {
                self.write(&new_file);
                self.subtree(&new_file);
                Some(format!("Create {new_file:?}"))
            }
            4 | 5 => {
                let file = file?;
                self.write(&file);
                self.record_change(&file, Extent::File);
                Some(format!("Write {file:?}"))
            }
            6 => {
                let file = file?;
                self.unlink(&file);
                fs::remove_file(self.root.join(&file)).ok()?;
                self.subtree(&file);
                Some(format!("Delete {file:?}"))
            }
            7 | 8 if is_shallow && free(&new_dir) => {
                self.plant(&new_dir);
                // Changes made before the directory is watched raise no event.
                self.subtree(&new_dir);
                Some(format!("Plant {new_dir:?}"))
            }
            9 if !dir.as_os_str().is_empty() && self.rng.one_in(2) => {
                self.unlink(&dir);
                fs::remove_dir_all(self.root.join(&dir)).unwrap();
                self.subtree(&dir);
                Some(format!("RemoveDir {dir:?}"))
            }
            10 if !dir.as_os_str().is_empty() => self.rename_dir(&dir, dirs),
            11 if !dir.as_os_str().is_empty() => {
                self.unlink(&dir);
                let place = self.aside.join(self.rng.below(4).to_string());
                fs::rename(self.root.join(&dir), place).ok()?;
                fs::write(self.aside.join("last"), dir.as_os_str().as_encoded_bytes()).unwrap();
                self.subtree(&dir);
                Some(format!("Away {dir:?}"))
            }
            12 | 13 => self.bring_back(new_dir),
            14 => {
                let file = file?;
                self.unlink(&file);
                fs::remove_file(self.root.join(&file)).ok()?;
                self.plant(&file);
                self.subtree(&file);
                Some(format!("FileToDir {file:?}"))
            }
            15 if !dir.as_os_str().is_empty() && self.rng.one_in(2) => {
                self.unlink(&dir);
                fs::remove_dir_all(self.root.join(&dir)).unwrap();
                self.write(&dir);
                self.subtree(&dir);
                Some(format!("DirToFile {dir:?}"))
            }
            16 => self.change_rules(&dir),
            17 if free(&new_file) => self.link(&file?, &new_file),
            18 => {
                let file = file?;
                self.unlink(&file);
                self.unlink(&new_file);
                fs::rename(self.root.join(&file), self.root.join(&new_file)).ok()?;
                self.subtree(&file);
                self.subtree(&new_file);
                Some(format!("RenameFile {file:?} {new_file:?}"))
            }
            19 if free(&new_file) => {
                symlink("/nowhere", self.root.join(&new_file)).unwrap();
                self.subtree(&new_file);
                Some(format!("Symlink {new_file:?}"))
            }
            _ => None,
        }
    }

    /// Renames a directory.
    fn rename_dir(&mut self, dir: &Path, dirs: &[PathBuf]) -> Option<String> {
        let onto = self.rng.pick(dirs)?.join(self.rng.pick(&DIRS)?);
        let is_there = fs::symlink_metadata(self.root.join(&onto)).is_ok();
        if is_there || onto.starts_with(dir) || onto.components().count() > DEEP + 1 {
            return None;
        }
        fs::rename(self.root.join(dir), self.root.join(&onto)).ok()?;
        self.subtree(dir);
        self.subtree(&onto);
        Some(format!("RenameDir {dir:?} {onto:?}"))
    }

    /// Moves a directory from outside of the tree into it, often back to its old place.
    fn bring_back(&mut self, new_dir: PathBuf) -> Option<String> {
        let place = self.aside.join(self.rng.below(4).to_string());
        let last = fs::read_to_string(self.aside.join("last")).ok()?;
        let back = match self.rng.one_in(3) {
            true => new_dir,
            false => PathBuf::from(last),
        };
        let is_there = fs::symlink_metadata(self.root.join(&back)).is_ok();
        if is_there || back.components().count() > DEEP {
            return None;
        }
        fs::rename(place, self.root.join(&back)).ok()?;
        self.subtree(&back);
        Some(format!("Back {back:?}"))
    }

    /// Changes a file of ignore rules.
    fn change_rules(&mut self, dir: &Path) -> Option<String> {
        let name = self.rng.pick(&[".gitignore", ".ignore", ".git"])?;
        let path = dir.join(name);
        let absolute = self.root.join(&path);
        let what = match (name, absolute.exists()) {
            (".git", true) => fs::remove_dir(absolute).is_ok(),
            (".git", false) => fs::create_dir(absolute).is_ok(),
            (_, true) if self.rng.one_in(2) => fs::remove_file(absolute).is_ok(),
            _ => fs::write(absolute, self.rng.pick(&RULES)?).is_ok(),
        };
        self.subtree(&path);
        // The handler of events does the same for rules files.
        self.subtree(dir);
        Some(format!("Rules {path:?} {what}"))
    }

    /// Gives a file a second name.
    fn link(&mut self, file: &Path, new_file: &Path) -> Option<String> {
        // A name in a directory that is not watched raises no event. Like a name outside of
        // the tree, it is beyond the guarantee.
        self.write(new_file);
        let is_seen = listed(&self.enumerate())
            .iter()
            .any(|one| one.path == new_file);
        fs::remove_file(self.root.join(new_file)).unwrap();
        if !is_seen {
            return None;
        }
        fs::hard_link(self.root.join(file), self.root.join(new_file)).ok()?;
        self.subtree(new_file);
        if self.rng.one_in(2) {
            self.write(new_file);
            self.record_change(new_file, Extent::File);
        }
        // Process the events before the name can disappear again.
        self.process_marks();
        Some(format!("Link {file:?} {new_file:?}"))
    }

    /// Records an event for something that did not happen.
    pub(crate) fn noise(&mut self) {
        let (files, dirs) = self.list();
        let dir = self.rng.pick(&dirs).unwrap_or_default();
        let names = [
            dir.join("nothing"),
            dir.join("no/such/dir"),
            dir.clone(),
            self.rng.pick(&files).unwrap_or_default(),
        ];
        let path = self.rng.pick(&names).unwrap_or_default();
        let extent = match self.rng.one_in(2) {
            true => Extent::File,
            false => Extent::Subtree,
        };
        // No event reports the root as a file.
        match path.as_os_str().is_empty() {
            true => self.subtree(&path),
            false => self.record_change(&path, extent),
        }
    }

    fn record_change(&mut self, path: &Path, extent: Extent) {
        self.heard.mark(path, extent, self.written as u64);
    }

    fn subtree(&mut self, path: &Path) {
        self.record_change(path, Extent::Subtree);
    }

    /// Called before names are removed. If a name is created, written through and removed before a
    /// look, no event tells about the file's other names. So files with several names are looked at
    /// before.
    fn unlink(&mut self, path: &Path) {
        let mut todo = vec![self.root.join(path)];
        while let Some(path) = todo.pop() {
            let Ok(meta) = fs::symlink_metadata(&path) else {
                continue;
            };
            if meta.is_dir() {
                todo.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            } else if meta.nlink() > 1 {
                self.process_marks();
                return;
            }
        }
    }

    /// Writes a file, with a length that no file had before.
    pub(super) fn write(&mut self, path: &Path) {
        let words = [self.rng.pick(&WORDS), self.rng.pick(&WORDS)];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        let text = format!("{}\n{}\n", words.join(" "), "#".repeat(self.written));
        self.written += 1;
        fs::write(self.root.join(path), text).unwrap();
    }

    /// Creates a directory with some content.
    fn plant(&mut self, dir: &Path) {
        fs::create_dir(self.root.join(dir)).unwrap();
        self.ever.insert(dir.to_path_buf());
        for _ in 0..self.rng.below(4) {
            let name = self.rng.pick(&FILES).unwrap_or("x");
            self.write(&dir.join(name));
        }
        if self.rng.one_in(3) {
            let rules = self.rng.pick(&RULES).unwrap_or("\n");
            fs::write(self.root.join(dir).join(".ignore"), rules).unwrap();
        }
        let below = dir.join(self.rng.pick(&DIRS).unwrap_or("b"));
        if self.rng.one_in(2) && fs::create_dir(self.root.join(&below)).is_ok() {
            self.ever.insert(below.clone());
            self.write(&below.join("x"));
        }
    }

    /// Lists regular files, except rules files, and directories, relative to the top and in a fixed
    /// order.
    fn list(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let (mut files, mut dirs) = (Vec::new(), vec![PathBuf::new()]);
        let mut at = 0;
        while let Some(dir) = dirs.get(at).cloned() {
            at += 1;
            for entry in fs::read_dir(self.root.join(&dir)).unwrap() {
                let entry = entry.unwrap();
                let (path, kind) = (dir.join(entry.file_name()), entry.file_type().unwrap());
                if crate::index::rules::is_control_name(&entry.file_name()) {
                    continue;
                }
                match kind.is_dir() {
                    true => dirs.push(path),
                    false if kind.is_file() => files.push(path),
                    false => {}
                }
            }
        }
        files.sort();
        dirs.sort();
        (files, dirs)
    }
}
