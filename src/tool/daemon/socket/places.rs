//! The directories for sockets and notes of daemons.
//!
//! This module owns the choice of the first directory from the environment that this user can use.
//! It creates nothing.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::LONGEST;
use crate::tool::daemon::handshake::ServedTree;
use crate::tool::daemon::identity::socket_name;

/// The subdirectory of this program.
const OWN: &str = "forge-search";

/// The candidate directories for sockets, from the environment.
#[derive(Clone, Debug, Default)]
pub struct SocketPlaces {
    /// The value of `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// The value of `XDG_STATE_HOME`, or `~/.local/state`.
    pub state: Option<PathBuf>,
    /// The value of `TMPDIR`.
    pub temporary: Option<PathBuf>,
}

/// A directory that may be created.
struct SocketDir {
    /// The part of the path that is not this program's.
    base: PathBuf,
    /// Whether the base may be created, too.
    makes_base: bool,
    /// The directories below the base, which belong to this user.
    own: Vec<String>,
}

impl SocketDir {
    fn new(base: &Path, makes_base: bool, own: &[&str]) -> SocketDir {
        SocketDir {
            base: base.to_path_buf(),
            makes_base,
            own: own.iter().map(|name| (*name).to_string()).collect(),
        }
    }

    fn dir(&self) -> PathBuf {
        let mut dir = self.base.clone();
        dir.extend(&self.own);
        dir
    }

    /// Returns whether this user can keep files there without locking other users out. The existing
    /// part has to belong to this user, and the rest has to be creatable. With `private`, no other
    /// user may be able to enter it.
    fn is_usable(&self, private: bool) -> bool {
        let mut dir = self.base.clone();
        let mut there = nearest(&dir);
        let has_base = there.as_deref() == Some(&*dir);
        if !has_base && !self.makes_base {
            return false;
        }
        if has_base {
            for name in &self.own {
                dir.push(name);
                match fs::symlink_metadata(&dir) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                    // A link of another user could change its target later.
                    Ok(meta) if meta.uid() == me() && is_own_dir(&dir) => there = Some(dir.clone()),
                    _ => return false,
                }
            }
        }
        let Some(there) = there else { return false };
        let is_private = !private || there != self.dir() || is_private(&there);
        is_private && (is_own_dir(&there) || is_for_all(&there)) && is_writable(&there)
    }
}

fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the nearest existing directory at or above a path.
fn nearest(path: &Path) -> Option<PathBuf> {
    let there = path.ancestors().find(|dir| fs::metadata(dir).is_ok());
    there.map(Path::to_path_buf)
}

fn is_own_dir(dir: &Path) -> bool {
    fs::metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == me())
}

/// Returns whether every user can create files in a directory that no other user can remove.
fn is_for_all(dir: &Path) -> bool {
    fs::metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.mode() & 0o1002 == 0o1002)
}

/// Returns whether a path is a directory, not a link, that no other user can enter.
fn is_private(dir: &Path) -> bool {
    fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.mode() & 0o077 == 0)
}

fn is_writable(dir: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    accessat(CWD, dir, wanted, AtFlags::EACCESS).is_ok()
}

/// Returns whether root would create files at a path in a directory of another user, and so could
/// lock that user out.
pub fn is_foreign(path: &Path) -> bool {
    let there = nearest(path);
    me() == 0 && there.is_some_and(|there| !is_own_dir(&there) && !is_for_all(&there))
}

impl SocketPlaces {
    /// Returns the path of the socket of a tree: the first place that this user can use and whose
    /// path is short enough.
    ///
    /// The places are, in this order, below the runtime directory, the state directory, `TMPDIR`
    /// and `/tmp`. Without a usable place it returns the last one: listening there fails with the
    /// reason.
    pub fn path_for(&self, served: &ServedTree) -> PathBuf {
        let name = socket_name(&served.store_id, &served.config_fingerprint);
        let runtime = self
            .runtime_dir
            .iter()
            .map(|dir| SocketDir::new(dir, false, &[OWN]));
        let state = self
            .state
            .iter()
            .map(|dir| SocketDir::new(dir, true, &[OWN, "daemon"]));
        let places: Vec<SocketDir> = runtime
            .chain(state)
            .chain(self.temporary("daemon"))
            .collect();
        let path = |place: &SocketDir| place.dir().join(&name);
        let is_short = |place: &SocketDir| path(place).as_os_str().len() <= LONGEST;
        let usable = places
            .iter()
            .find(|place| is_short(place) && place.is_usable(true));
        usable.or(places.last()).map(path).unwrap_or_default()
    }

    /// Returns the directory in which all daemons of this user note where they listen. It is below
    /// the state directory, or a private temporary directory if that can't be used.
    pub fn state_dir(&self) -> Option<PathBuf> {
        let state = self
            .state
            .iter()
            .map(|dir| SocketDir::new(dir, true, &[OWN]));
        let mut places = state.chain(self.temporary("state"));
        let usable = places.find(|place| place.is_usable(false))?;
        Some(usable.dir())
    }

    /// Returns the places for temporary files, in a directory of this user.
    fn temporary(&self, name: &str) -> impl Iterator<Item = SocketDir> {
        let all = self.temporary.iter().map(PathBuf::as_path);
        let all = all.chain([Path::new("/tmp")]);
        let own = format!("{OWN}-{}", me());
        all.map(move |dir| SocketDir::new(dir, false, &[&own, name]))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn served() -> ServedTree {
        ServedTree {
            store_id: "s".repeat(64),
            config_fingerprint: "c".repeat(64),
        }
    }

    fn make(dir: &Path, mode: u32) -> PathBuf {
        fs::create_dir_all(dir).unwrap();
        fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
        dir.to_path_buf()
    }

    /// Three directories with short names, all unused.
    fn places() -> (tempfile::TempDir, SocketPlaces) {
        let dir = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
        let places = SocketPlaces {
            runtime_dir: Some(make(&dir.path().join("run"), 0o700)),
            state: Some(dir.path().join("home/state")),
            temporary: Some(make(&dir.path().join("tmp"), 0o1777)),
        };
        make(&dir.path().join("home"), 0o755);
        (dir, places)
    }

    fn at(dir: &tempfile::TempDir, places: &SocketPlaces) -> String {
        let path = places.path_for(&served());
        let dir = path.parent().unwrap().strip_prefix(dir.path());
        dir.map_or_else(
            |_| path.display().to_string(),
            |dir| dir.display().to_string(),
        )
    }

    #[test]
    fn the_first_usable_directory_for_sockets_is_taken() {
        let (dir, places) = places();
        let own = format!("tmp/forge-search-{}", me());
        assert_eq!(at(&dir, &places), "run/forge-search");
        assert_eq!(
            places.state_dir().unwrap(),
            dir.path().join("home/state/forge-search")
        );
        // The directory is missing, or other users can enter it, or it is a link.
        let own_run = dir.path().join("run/forge-search");
        let reasons: [&dyn Fn(); 3] = [
            &|| drop(make(&own_run, 0o750)),
            &|| symlink(dir.path().join("home"), &own_run).unwrap(),
            &|| fs::remove_dir(dir.path().join("run")).unwrap(),
        ];
        for reason in reasons {
            reason();
            // A missing directory is created, but not where other users could interfere.
            assert_eq!(at(&dir, &places), "home/state/forge-search/daemon");
            let _ = fs::remove_dir(&own_run);
            let _ = fs::remove_file(&own_run);
        }
        fs::remove_dir(dir.path().join("home")).unwrap();
        fs::write(dir.path().join("home"), "").unwrap();
        assert_eq!(at(&dir, &places), format!("{own}/daemon"));
        assert_eq!(
            places.state_dir().unwrap(),
            dir.path().join(&own).join("state")
        );
        assert!(!dir.path().join(&own).exists(), "looking makes nothing");
    }

    #[test]
    fn a_socket_directory_with_too_long_a_path_is_skipped() {
        let (dir, places) = places();
        let long = make(&dir.path().join("x".repeat(LONGEST)), 0o700);
        let places = SocketPlaces {
            runtime_dir: Some(long.clone()),
            ..places
        };
        assert_eq!(at(&dir, &places), "home/state/forge-search/daemon");
        let all_long = SocketPlaces {
            runtime_dir: Some(long.clone()),
            state: Some(long.clone()),
            temporary: Some(long.clone()),
        };
        let path = format!("/tmp/forge-search-{}/daemon", me());
        assert!(at(&dir, &all_long).starts_with(&path));
        // The note directory needs no short path.
        assert_eq!(all_long.state_dir().unwrap(), long.join("forge-search"));
    }

    #[test]
    fn a_link_of_another_user_in_a_shared_directory_is_not_followed() {
        if me() != 0 {
            return;
        }
        let (dir, places) = places();
        let own = dir.path().join("tmp").join("forge-search-0");
        let only = SocketPlaces {
            runtime_dir: None,
            state: None,
            ..places
        };
        symlink(make(&dir.path().join("mine"), 0o700), &own).unwrap();
        assert_eq!(at(&dir, &only), "tmp/forge-search-0/daemon");
        std::os::unix::fs::lchown(&own, Some(65_534), None).unwrap();
        assert!(!only.path_for(&served()).starts_with(dir.path()));
        fs::remove_file(&own).unwrap();
        std::os::unix::fs::chown(make(&own, 0o700), Some(65_534), None).unwrap();
        assert!(!only.path_for(&served()).starts_with(dir.path()));
        let foreign = own.join("below").join("more");
        assert!(is_foreign(&foreign));
        assert!(!is_foreign(&dir.path().join("tmp/new")));
    }
}
