//! Lists the eligible files of a tree, directory by directory, in emission order.
//!
//! Searches and index builds find files only with this module, so both agree about eligibility. It
//! applies the ignore rules, the hidden-file rule, the denied patterns and the rules for symbolic
//! links. A directory is listed on demand, and its entries are sorted by the ordering key. So a
//! depth-first visit yields files in emission order without knowledge of the rest of the tree. The
//! module knows no requests: callers pass the path filters of a request as a [`PathFilter`].
//!
//! `chains` has the ignore rules of a directory, `order` sorts entries, and `links` resolves
//! symbolic links.

mod chains;
mod links;
mod node;
mod order;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use crate::format::manifest::{IgnoreRules, RuleSets};
use crate::index::deny::DenySet;
use crate::index::root_dir::{EntryKind, EntryMeta, RootDir};
use crate::index::rules::{ControlFiles, RulesReadError};

use self::chains::Chains;
use self::order::{Keyed, WalkItem, in_order, key_of};
pub use node::{DirNode, FoundFile, Place, join};

/// The options that decide which entries of a tree are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraversalOptions {
    /// Visit entries whose names start with a dot.
    pub hidden: bool,
    /// Follow symbolic links.
    pub follow: Follow,
    /// The ignore files that apply.
    pub rules: IgnoreRules,
    /// Enter subdirectories, not only the top directory.
    pub recursive: bool,
}

/// Which symbolic links are followed, inside the allowed roots only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Follow {
    /// No link is followed.
    #[default]
    Never,
    /// Links to files are followed.
    Files,
    /// All links are followed.
    All,
}

/// A directory prepared for [`Walk::look`]: its entries can be looked up by name, under the rules
/// at the time of entering.
#[derive(Clone, Debug)]
pub struct EnteredDir {
    member: Member,
    /// The rules for the entries of the directory.
    rules: Chains,
}

/// The result of looking up one entry of a directory.
#[derive(Debug)]
pub enum LookupResult {
    /// An eligible file, its metadata, and the sets of ignore rules that keep it.
    File(FoundFile, EntryMeta, RuleSets),
    /// An eligible directory.
    Dir(DirNode),
    /// The entry exists but is not eligible; its metadata.
    LeftOut(EntryMeta),
    /// The entry does not exist.
    Nothing,
    /// The lookup failed, and why.
    Error(String),
}

#[derive(Clone, Debug)]
struct Member {
    place: Arc<Place>,
    /// The rules for the name of the directory. The rules inside it come with its listing.
    rules: Chains,
    /// The real paths of the directories that led here; only if links to directories are followed.
    above: Option<Arc<Ancestor>>,
}

#[derive(Debug)]
struct Ancestor {
    real: PathBuf,
    parent: Option<Arc<Ancestor>>,
}

/// An item of a listing, in emission order.
#[derive(Debug)]
pub enum Entry {
    /// A file, and the sets of ignore rules that keep it.
    File(FoundFile, RuleSets),
    /// A directory, to be listed at this point of the order.
    Dir(DirNode),
    /// A path that could not be read, and why. The path is relative to the top, or absolute for
    /// rules above the top.
    Error(PathBuf, String),
}

/// Returns the allowed root that contains a canonical path, and the path in that root. Decides
/// where symbolic links may lead.
pub type Locate = dyn Fn(&Path) -> Option<(Arc<RootDir>, PathBuf)> + Send + Sync;

/// Returns true if the walk includes a path, given relative to the top; the flag is true for a
/// directory. Excluded directories are not entered.
pub type PathFilter<'a> = dyn Fn(&Path, bool) -> bool + Send + Sync + 'a;

/// A walk over one tree.
pub struct Walk {
    options: TraversalOptions,
    deny: Arc<DenySet>,
    locate: Arc<Locate>,
    /// The absolute path of the top, against which ignore rules match, and the same path in its
    /// root.
    top: PathBuf,
    top_in_root: PathBuf,
    node: DirNode,
    /// Ignore files above the top that could not be read.
    unread_above: Vec<RulesReadError>,
}

impl Walk {
    /// Prepares a walk over the directory `real` beneath `root`.
    ///
    /// `global_excludes` is described at [`Rules::above`](crate::index::rules::Rules::above). Reads
    /// only the ignore files above the directory.
    pub fn new(
        root: Arc<RootDir>,
        real: PathBuf,
        options: TraversalOptions,
        deny: Arc<DenySet>,
        locate: Arc<Locate>,
        global_excludes: Option<&Path>,
    ) -> Walk {
        let top = join(root.path(), &real);
        let mut unread_above = Vec::new();
        let rules = Chains::above(&top, options.rules, global_excludes, &mut unread_above);
        let above = (options.follow == Follow::All).then(|| {
            Arc::new(Ancestor {
                real: top.clone(),
                parent: None,
            })
        });
        let top_in_root = real.clone();
        let place = Arc::new(Place {
            root,
            real,
            logical: PathBuf::new(),
        });
        let node = DirNode {
            members: vec![Member {
                place,
                rules,
                above,
            }],
        };
        Walk {
            options,
            deny,
            locate,
            top,
            top_in_root,
            node,
            unread_above,
        }
    }

    /// Returns the options of the walk.
    pub fn options(&self) -> TraversalOptions {
        self.options
    }

    /// Returns the same walk, which also visits entries whose names start with a dot.
    pub(crate) fn with_hidden(mut self) -> Walk {
        self.options.hidden = true;
        self
    }

    /// Returns the absolute path of the top directory.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Returns the node of the top directory.
    pub fn start(&self) -> DirNode {
        self.node.clone()
    }

    /// Lists a directory: its entries in emission order. Costs one listing, a sort of its entries,
    /// and one match per entry and ignore file.
    pub fn list(&self, node: &DirNode, filter: &PathFilter<'_>) -> Vec<Entry> {
        self.list_noting(node, filter, &mut |_, _| {})
    }

    /// Lists a directory like [`Walk::list`], and calls `note` with each listed directory and the
    /// control files in it. The path is the absolute path against which ignore rules match.
    pub fn list_noting(
        &self,
        node: &DirNode,
        filter: &PathFilter<'_>,
        note: &mut dyn FnMut(&Path, ControlFiles),
    ) -> Vec<Entry> {
        let mut keyed = Vec::new();
        for member in &node.members {
            self.list_member(member, filter, note, &mut keyed);
        }
        in_order(keyed, node.members.len() > 1)
    }

    /// Enters a directory without listing it, so that [`Walk::look`] can look up its entries. Costs
    /// one lookup per possible control file. Returns `None` for a node of several directories.
    ///
    /// # Errors
    ///
    /// Returns the rules that could not be read; without them, no entry can be decided.
    pub fn enter(&self, node: &DirNode) -> Result<Option<EnteredDir>, String> {
        let [member] = &node.members[..] else {
            return Ok(None);
        };
        let logical_abs = join(&self.top, &member.place.logical);
        let mut unread = self.unread_above(&member.place).to_vec();
        let rules = match self.options.rules {
            IgnoreRules::None => member.rules.clone(),
            _ => {
                let found = ControlFiles::probe(&logical_abs);
                member.rules.child(&logical_abs, found, &mut unread)
            }
        };
        if let Some(unread) = unread.first() {
            return Err(unread.to_string());
        }
        let member = member.clone();
        Ok(Some(EnteredDir { member, rules }))
    }

    /// Returns the unreadable ignore files above the top, if `place` is the top, which reports
    /// them.
    fn unread_above(&self, place: &Place) -> &[RulesReadError] {
        match place.logical.as_os_str().is_empty() {
            true => &self.unread_above,
            false => &[],
        }
    }

    /// Looks up entries of a directory by name, without listing it. Decides about them like
    /// [`Walk::list`]. Costs one lookup per name.
    pub fn look<'a>(
        &self,
        dir: &EnteredDir,
        names: impl Iterator<Item = &'a OsStr>,
    ) -> Vec<LookupResult> {
        let EnteredDir { member, rules } = dir;
        let place = &member.place;
        let logical_abs = join(&self.top, &place.logical);
        let names: Vec<&OsStr> = names.collect();
        let stat = match place.root.stat_entries(&place.real, names.iter().copied()) {
            Ok(stat) => stat.entries,
            Err(error) if is_gone(&error) => {
                return names.iter().map(|_| LookupResult::Nothing).collect();
            }
            Err(error) => {
                let failed = |_| LookupResult::Error(error.to_string());
                return names.iter().map(failed).collect();
            }
        };
        let mut out = Vec::new();
        let pairs = names.into_iter().zip(stat);
        pairs
            .map(|(name, meta)| {
                let meta = match meta {
                    Ok(meta) => meta,
                    Err(error) if is_gone(&error) => return LookupResult::Nothing,
                    Err(error) => return LookupResult::Error(error.to_string()),
                };
                let real = place.real.join(name);
                let paths = EntryPaths {
                    absolute: &logical_abs.join(name),
                    logical: &place.logical.join(name),
                    real_absolute: &join(place.root.path(), &real),
                    real: &real,
                };
                let all = |_: &Path, _: bool| true;
                let name = name.to_os_string();
                self.consider(
                    member,
                    rules,
                    name.clone(),
                    meta.kind,
                    &paths,
                    &all,
                    &mut out,
                );
                match out.pop().map(|keyed| keyed.what) {
                    Some(WalkItem::File(dir, target, sets)) => {
                        LookupResult::File(FoundFile { dir, name, target }, meta, sets)
                    }
                    Some(WalkItem::Dir(member)) => LookupResult::Dir(DirNode {
                        members: vec![member],
                    }),
                    Some(WalkItem::Error(_, message)) => LookupResult::Error(message),
                    Some(WalkItem::Taken) | None => LookupResult::LeftOut(meta),
                }
            })
            .collect()
    }

    fn list_member(
        &self,
        member: &Member,
        filter: &PathFilter<'_>,
        note: &mut dyn FnMut(&Path, ControlFiles),
        out: &mut Vec<Keyed>,
    ) {
        let place = &member.place;
        let listing = match place.root.open_dir_entries(&place.real) {
            Ok(listing) => listing,
            Err(error) => {
                out.push(Keyed::first(place, &place.logical, error.to_string()));
                return;
            }
        };
        let logical_abs = join(&self.top, &place.logical);
        let rules = if self.options.rules == IgnoreRules::None {
            member.rules.clone()
        } else {
            let mut found = ControlFiles::default();
            for entry in &listing {
                if entry.name.as_encoded_bytes().first() == Some(&b'.') {
                    found.note(entry.name.as_encoded_bytes());
                }
            }
            note(&logical_abs, found);
            let mut unread = self.unread_above(place).to_vec();
            let rules = member.rules.child(&logical_abs, found, &mut unread);
            out.extend(
                unread
                    .into_iter()
                    .map(|unread| self.unread_error(place, unread)),
            );
            rules
        };
        out.reserve(listing.len());
        let real_absolute = place.absolute();
        // The real paths differ only below links.
        let mut reals = (place.real != place.logical || real_absolute != logical_abs)
            .then(|| (Child::of(place.real.clone()), Child::of(real_absolute)));
        let mut absolute = Child::of(logical_abs);
        let mut logical = Child::of(place.logical.clone());
        for entry in listing {
            let absolute = absolute.named(&entry.name);
            let logical = logical.named(&entry.name);
            let (real, real_absolute) = match &mut reals {
                Some((real, absolute)) => (real.named(&entry.name), absolute.named(&entry.name)),
                None => (logical, absolute),
            };
            let paths = EntryPaths {
                absolute,
                logical,
                real,
                real_absolute,
            };
            self.consider(member, &rules, entry.name, entry.kind, &paths, filter, out);
        }
    }

    /// Returns the error for unreadable rules, sorted before the entries that the rules might
    /// affect. The error has the path of the rule file if that is in the directory itself, and its
    /// absolute path if it is above the top. Otherwise, it has the path of the `.git` that refers
    /// to it.
    fn unread_error(&self, place: &Arc<Place>, unread: RulesReadError) -> Keyed {
        let own = unread.path.strip_prefix(&self.top);
        let (path, message) = match own {
            Ok(path) if path.parent() == Some(&place.logical) => (path.to_path_buf(), unread.why),
            _ if self.unread_above(place).contains(&unread) => (unread.path, unread.why),
            _ => (place.logical.join(".git"), unread.to_string()),
        };
        Keyed::first(place, &path, message)
    }

    #[allow(clippy::too_many_arguments)]
    fn consider(
        &self,
        member: &Member,
        rules: &Chains,
        name: OsString,
        kind: EntryKind,
        paths: &EntryPaths<'_>,
        filter: &PathFilter<'_>,
        out: &mut Vec<Keyed>,
    ) {
        let place = &member.place;
        let mut fail = |name: OsString, message: String| {
            out.push(Keyed {
                key: key_of(&name),
                is_dir: false,
                name,
                logical_dir: place.clone(),
                what: WalkItem::Error(paths.logical.to_path_buf(), message),
            });
        };
        let (is_dir, target) = match kind {
            EntryKind::File => (false, None),
            EntryKind::Dir => (true, None),
            EntryKind::Symlink if self.options.follow != Follow::Never => {
                // Hidden and ignored links are not resolved.
                let kept = |is_dir| rules.keep(self.options.hidden, &name, paths.absolute, is_dir);
                if kept(false).is_empty() && kept(true).is_empty() {
                    return;
                }
                // Links outside the filter are not resolved either, regardless of their targets.
                if !filter(paths.logical, false) && !filter(paths.logical, true) {
                    return;
                }
                match self.resolve_link(member, paths) {
                    Ok(Some((true, ..))) if self.options.follow == Follow::Files => return,
                    Ok(Some((is_dir, root, real))) => (is_dir, Some((root, real))),
                    Ok(None) => return,
                    Err(message) => return fail(name, message),
                }
            }
            EntryKind::Symlink | EntryKind::Other => return,
        };
        if is_dir && !self.options.recursive {
            return;
        }
        let sets = rules.keep(self.options.hidden, &name, paths.absolute, is_dir);
        if sets.is_empty() {
            return;
        }
        // The target of a link was checked when it was resolved.
        if target.is_none() && self.deny.denies(paths.real_absolute, paths.real).is_some() {
            return;
        }
        // If links are followed, the denied patterns also apply to the path that led here.
        if self.options.follow != Follow::Never {
            let from_root = self.top_in_root.join(paths.logical);
            if self.deny.denies(paths.absolute, &from_root).is_some() {
                return;
            }
        }
        if !filter(paths.logical, is_dir) {
            return;
        }
        let what = if is_dir {
            let (root, real) = match target {
                Some((root, real)) => (root, real),
                None => (place.root.clone(), paths.real.to_path_buf()),
            };
            let above = member.above.as_ref().map(|above| {
                Arc::new(Ancestor {
                    real: join(root.path(), &real),
                    parent: Some(above.clone()),
                })
            });
            let place = Arc::new(Place {
                root,
                real,
                logical: paths.logical.to_path_buf(),
            });
            WalkItem::Dir(Member {
                place,
                rules: rules.of(sets),
                above,
            })
        } else {
            WalkItem::File(place.clone(), target.map(Arc::new), sets)
        };
        out.push(Keyed {
            key: key_of(&name),
            is_dir,
            name,
            logical_dir: place.clone(),
            what,
        });
    }
}

/// Returns true if the error says that the path does not exist.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Builds the paths of the entries of a directory, one after the other, in the same buffer.
struct Child {
    dir: PathBuf,
    path: PathBuf,
}

impl Child {
    fn of(dir: PathBuf) -> Child {
        let path = PathBuf::new();
        Child { dir, path }
    }

    /// Returns the path of the entry `name`. Copies the directory each time: removing the last name
    /// would search the path for its last separator.
    fn named(&mut self, name: &OsStr) -> &Path {
        self.path.clear();
        self.path.push(&self.dir);
        self.path.push(name);
        &self.path
    }
}

struct EntryPaths<'a> {
    absolute: &'a Path,
    logical: &'a Path,
    real: &'a Path,
    real_absolute: &'a Path,
}
