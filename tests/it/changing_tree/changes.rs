//! The implementation of each kind of change. A change that is impossible in the current tree
//! fails, and changes next to nothing.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::tree::Kind::{self, *};
use super::tree::{DEEP, Listing, Living};
use super::words;
use crate::support::keeping_time;

/// The maximal number of files that one change may remove.
const MOST_LOST: usize = 10;

impl Living {
    fn one_of(&mut self, paths: &[PathBuf]) -> io::Result<PathBuf> {
        match paths {
            [] => Err(io::ErrorKind::NotFound.into()),
            paths => {
                let path = self.rng.pick(paths);
                Ok(self.root().join(path))
            }
        }
    }

    /// Returns a random directory other than the top.
    fn subdirectory(&mut self, listing: &Listing) -> io::Result<PathBuf> {
        self.one_of(&listing.dirs[1..])
    }

    /// Returns a path for a new file in some directory. The path may be taken.
    fn place(&mut self, listing: &Listing) -> io::Result<PathBuf> {
        let shallow: Vec<PathBuf> = listing
            .dirs
            .iter()
            .filter(|dir| depth(dir) < DEEP)
            .cloned()
            .collect();
        Ok(self.one_of(&shallow)?.join(words::name(&mut self.rng)))
    }

    fn content(&mut self, token: &str) -> Vec<u8> {
        words::content(&mut self.rng, token)
    }

    /// Reads a file that is about to be lost, and records its token.
    fn losing(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let bytes = fs::read(path)?;
        self.removed = words::last_token(&bytes).map(|(_, token)| token);
        Ok(bytes)
    }

    fn shown(&self, path: &Path) -> String {
        format!("{:?}", path.strip_prefix(self.root()).unwrap_or(path))
    }

    /// Makes one change. Returns its description.
    pub(super) fn make(
        &mut self,
        kind: Kind,
        listing: &Listing,
        token: &str,
    ) -> io::Result<String> {
        match kind {
            Create | Rewrite | RewriteKeepingTime | Patch | PatchKeepingTime | Append
            | Truncate | Touch | Replace | WriteThroughLink => self.write(kind, listing, token),
            RenameFile | RenameOver | RenameDir | RenameDirOntoEmpty | RenameDirInto
            | DeleteFile | DeleteDir => self.move_or_delete(kind, listing),
            Symlink | SwapForLink | HardLink => self.link(kind, listing, token),
            DeepDir | FileToDir | DirToFile => self.grow(kind, listing, token),
            Chmod | ChmodBack => self.permit(kind, listing),
            IgnoreFile | Exclude | Repository => self.rule(kind, listing),
        }
    }

    /// Changes the content of one file.
    fn write(&mut self, kind: Kind, listing: &Listing, token: &str) -> io::Result<String> {
        let path = match kind {
            Create => self.place(listing)?,
            WriteThroughLink => {
                let root = self.root().to_path_buf();
                let linked = |path: &&PathBuf| {
                    fs::symlink_metadata(root.join(path)).is_ok_and(|meta| meta.nlink() > 1)
                };
                let linked: Vec<PathBuf> = listing.files.iter().filter(linked).cloned().collect();
                self.one_of(&linked)?
            }
            _ => self.one_of(&listing.files)?,
        };
        if kind == Create {
            let content = self.content(token);
            File::create_new(&path)?.write_all(&content)?;
            return Ok(format!("{} of {} bytes", self.shown(&path), content.len()));
        }
        let before = self.losing(&path)?;
        let open = || File::options().write(true).open(&path);
        let size = before.len();
        match kind {
            Rewrite => fs::write(&path, self.content(token))?,
            RewriteKeepingTime => {
                let content = self.content(token);
                keeping_time(&path, || fs::write(&path, content))?;
            }
            Patch | WriteThroughLink => {
                let at = self.spot(&before, token)?;
                open()?.write_all_at(token.as_bytes(), at)?;
            }
            PatchKeepingTime => {
                let at = self.spot(&before, token)?;
                keeping_time(&path, || open()?.write_all_at(token.as_bytes(), at))?;
            }
            Append => {
                self.removed = None;
                let line = words::line(&mut self.rng, Some(token));
                let line = format!("{}{line}\n", self.rng.pick(&["", "\n"]));
                File::options()
                    .append(true)
                    .open(&path)?
                    .write_all(line.as_bytes())?;
            }
            Truncate => {
                let to = if self.rng.one_in(2) {
                    0
                } else {
                    self.rng.below(size + 1)
                };
                open()?.set_len(to as u64)?;
            }
            Touch => {
                self.removed = None;
                let past = self.rng.below(4_000_000_000) as u64;
                open()?.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(past))?;
            }
            Replace => {
                let temporary = path.with_file_name(format!(".{token}.tmp"));
                fs::write(&temporary, self.content(token))?;
                fs::rename(&temporary, &path)?;
            }
            _ => unreachable!("{kind:?} is no way of writing"),
        }
        Ok(format!("{} of {size} bytes", self.shown(&path)))
    }

    /// Returns an offset where a token fits without making the content longer. If there is another
    /// token, its place is used.
    fn spot(&mut self, before: &[u8], token: &str) -> io::Result<u64> {
        let at = match words::last_token(before) {
            Some((at, _)) => at,
            None if before.len() < token.len() => return Err(io::ErrorKind::InvalidInput.into()),
            None => self.rng.below(before.len() - token.len() + 1),
        };
        Ok(at as u64)
    }

    fn move_or_delete(&mut self, kind: Kind, listing: &Listing) -> io::Result<String> {
        let from = match kind {
            RenameDir | RenameDirOntoEmpty | RenameDirInto | DeleteDir => {
                self.subdirectory(listing)?
            }
            DeleteFile if self.rng.one_in(4) && !listing.links.is_empty() => {
                self.one_of(&listing.links)?
            }
            _ => self.one_of(&listing.files)?,
        };
        let to = match kind {
            RenameFile | RenameDir => self.place(listing)?,
            RenameOver => self.one_of(&listing.files)?,
            RenameDirOntoEmpty => self.one_of(&listing.dirs[1..])?,
            RenameDirInto => {
                let into = self.subdirectory(listing)?;
                into.join(from.file_name().unwrap())
            }
            _ => {
                self.doom(&from, listing)?;
                match kind {
                    DeleteFile => fs::remove_file(&from)?,
                    _ => fs::remove_dir_all(&from)?,
                }
                return Ok(self.shown(&from));
            }
        };
        let into_itself =
            kind == RenameDirOntoEmpty && from.starts_with(&to) || to.starts_with(&from);
        let taken = matches!(kind, RenameFile | RenameDir) && fs::symlink_metadata(&to).is_ok();
        let below = |path: &&PathBuf| self.root().join(path).starts_with(&from);
        let tall = listing
            .dirs
            .iter()
            .filter(below)
            .map(|dir| depth(dir))
            .max();
        let gained = depth(&to).saturating_sub(depth(&from));
        if into_itself || taken || tall.is_some_and(|tall| tall + gained > DEEP) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.doom(&to, listing)?;
        if kind == RenameDirOntoEmpty {
            fs::remove_dir_all(&to)?;
            fs::create_dir(&to)?;
        }
        fs::rename(&from, &to)?;
        Ok(format!("{} to {}", self.shown(&from), self.shown(&to)))
    }

    /// Records a token that is removed with a path. Fails if the path contains too many files.
    fn doom(&mut self, path: &Path, listing: &Listing) -> io::Result<()> {
        let files = listing.files.iter().map(|file| self.root().join(file));
        let lost: Vec<PathBuf> = files.filter(|file| file.starts_with(path)).collect();
        if lost.len() > MOST_LOST {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if let Some(lost) = lost.last() {
            let _ = self.losing(lost);
        }
        Ok(())
    }

    fn link(&mut self, kind: Kind, listing: &Listing, token: &str) -> io::Result<String> {
        match kind {
            HardLink => {
                // The link is next to the file. In a hidden or ignored directory, the watcher
                // reports neither the new name nor writes through it: that is a stated limit.
                let file = self.one_of(&listing.files)?;
                let name = file.with_file_name(words::name(&mut self.rng));
                fs::hard_link(&file, &name)?;
                let mut shown = format!("{} is also {}", self.shown(&file), self.shown(&name));
                if self.rng.one_in(2) {
                    self.losing(&name)?;
                    fs::write(&name, self.content(token))?;
                    shown.push_str(", written through that");
                }
                Ok(shown)
            }
            Symlink => {
                let at = self.place(listing)?;
                let target: OsString = match self.rng.below(5) {
                    0 => self.one_of(&listing.files)?.into(),
                    1 => self.one_of(&listing.dirs)?.into(),
                    2 => self.root().parent().unwrap().into(),
                    3 => words::name(&mut self.rng),
                    _ => "..".into(),
                };
                symlink(&target, &at)?;
                Ok(format!("{} to {target:?}", self.shown(&at)))
            }
            _ => {
                // Moves a directory away. A link to it or to another directory takes its place.
                let (from, to) = (self.subdirectory(listing)?, self.place(listing)?);
                if fs::symlink_metadata(&to).is_ok() || to.starts_with(&from) {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                let target = match self.rng.one_in(2) {
                    true => to.clone(),
                    false => self.one_of(&listing.dirs)?,
                };
                self.doom(&from, listing)?;
                fs::rename(&from, &to)?;
                symlink(&target, &from)?;
                Ok(format!(
                    "{} is now {}, and a link to {}",
                    self.shown(&from),
                    self.shown(&to),
                    self.shown(&target)
                ))
            }
        }
    }

    /// Creates directories with contents, or replaces a file by a directory or the reverse.
    fn grow(&mut self, kind: Kind, listing: &Listing, token: &str) -> io::Result<String> {
        match kind {
            DeepDir => {
                let mut dir = self.place(listing)?;
                for _ in 0..self.rng.below(3) {
                    dir.push(words::name(&mut self.rng));
                }
                fs::create_dir_all(&dir)?;
                let name = words::name(&mut self.rng);
                let content = self.content(token);
                File::create_new(dir.join(name))?.write_all(&content)?;
                for _ in 0..self.rng.below(3) {
                    let name = words::name(&mut self.rng);
                    let line = words::line(&mut self.rng, None);
                    let _ = fs::write(dir.join(name), line);
                }
                Ok(self.shown(&dir))
            }
            FileToDir => {
                let path = self.one_of(&listing.files)?;
                self.losing(&path)?;
                fs::remove_file(&path)?;
                fs::create_dir(&path)?;
                let content = self.content(token);
                fs::write(path.join(words::name(&mut self.rng)), content)?;
                Ok(self.shown(&path))
            }
            _ => {
                let path = self.subdirectory(listing)?;
                self.doom(&path, listing)?;
                fs::remove_dir_all(&path)?;
                fs::write(&path, self.content(token))?;
                Ok(self.shown(&path))
            }
        }
    }

    fn permit(&mut self, kind: Kind, listing: &Listing) -> io::Result<String> {
        let entries = [&listing.files[..], &listing.dirs[1..]].concat();
        if kind == ChmodBack {
            for path in &entries {
                open_up(&self.root().join(path))?;
            }
            return Ok("of everything".to_string());
        }
        let path = self.one_of(&entries)?;
        let mode = self.rng.pick(&[0o000, 0o200, 0o300, 0o400, 0o500]);
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        Ok(format!("{} {mode:o}", self.shown(&path)))
    }

    /// Changes an ignore file.
    fn rule(&mut self, kind: Kind, listing: &Listing) -> io::Result<String> {
        let dir = match kind {
            Exclude => self.root().to_path_buf(),
            _ if self.rng.one_in(3) => self.root().to_path_buf(),
            _ => self.one_of(&listing.dirs)?,
        };
        let rules = words::rules(&mut self.rng);
        let shown = String::from_utf8_lossy(&rules).into_owned();
        let path = match kind {
            IgnoreFile => {
                dir.join(
                    self.rng
                        .pick(&[".gitignore", ".gitignore", ".ignore", ".rgignore"]),
                )
            }
            Exclude => dir.join(".git/info/exclude"),
            _ => dir.join(".git"),
        };
        if kind == Repository {
            match fs::symlink_metadata(&path) {
                Ok(meta) if meta.is_dir() => fs::remove_dir_all(&path)?,
                Ok(_) => fs::remove_file(&path)?,
                Err(_) => fs::create_dir_all(path.join("info"))?,
            }
            return Ok(self.shown(&path));
        }
        match self.rng.one_in(6) {
            true => fs::remove_file(&path)?,
            false => fs::write(&path, rules)?,
        }
        Ok(format!("{} {shown:?}", self.shown(&path)))
    }
}

/// Gives the owner all permissions again.
pub(super) fn open_up(path: &Path) -> io::Result<()> {
    let mode = fs::symlink_metadata(path)?.permissions().mode();
    if mode & 0o700 == 0o700 || mode & 0o777 == 0o644 {
        return Ok(());
    }
    let full = if path.is_dir() { 0o755 } else { 0o644 };
    fs::set_permissions(path, Permissions::from_mode(full))
}

fn depth(path: &Path) -> usize {
    path.components().count()
}
