//! Enumeration of a whole tree for the catalog of an index.
//!
//! This module owns the list of all eligible files and entered directories in emission order, their
//! stamps, and the eligibility inputs met on the way. The walk decides which files are eligible, so
//! searches and indexes use the same enumeration.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rayon::prelude::*;

use crate::index::inputs::Inputs;
use crate::index::names::{can_be_kept, has_line_break};
use crate::index::root_dir::DirStat;
use crate::index::stamp::Stamp;
use crate::index::walk::{DirNode, Entry, FoundFile, Place, RuleSets, Walk};

/// The largest number of directories between two calls of `stopped`.
const CHUNK_DIRS: usize = 1024;

/// A directory that was entered.
#[derive(Debug)]
pub struct DirEntry {
    /// The place of the directory.
    pub place: Arc<Place>,
    /// The number of its parent directory; its own number for the root.
    pub parent: u32,
    /// The ranks of the files below it.
    pub ranks: std::ops::Range<u32>,
    /// Its stamp, if it was the same before and after listing.
    pub stamp: Option<Stamp>,
    /// The sets of ignore rules by which the directory is eligible.
    pub sets: RuleSets,
}

/// An eligible file.
#[derive(Debug)]
pub struct FileEntry {
    /// The number of its directory.
    pub dir: u32,
    /// Its name in the directory.
    pub name: OsString,
    /// Its stamp at the time of listing; `None` if it could not be determined.
    pub stamp: Option<Stamp>,
    /// Whether it was reached through a symbolic link.
    pub linked: bool,
    /// The sets of ignore rules by which the file is eligible.
    pub sets: RuleSets,
}

/// An eligible file with a line break in its path, which the catalog can't hold.
#[derive(Debug)]
pub struct SideEntry {
    /// The number of its directory.
    pub dir: u32,
    /// The rank of the next file in emission order.
    pub before_rank: u32,
    /// Its name in the directory.
    pub name: OsString,
    /// The sets of ignore rules by which the file is eligible.
    pub sets: RuleSets,
}

/// The result of an enumeration.
#[derive(Debug, Default)]
pub struct Enumeration {
    /// The directories in emission order, parents before children.
    pub dirs: Vec<DirEntry>,
    /// The files by rank, which is their position in emission order.
    pub files: Vec<FileEntry>,
    /// The files that the catalog can't hold.
    pub side: Vec<SideEntry>,
    /// The paths that could not be read, and why. They may hide eligible files.
    pub errors: Vec<(PathBuf, String)>,
    /// The eligibility inputs inside the tree.
    pub inputs: Inputs,
}

impl Enumeration {
    /// Lists the tree of a walk, level by level, on the threads of the current pool. The result
    /// does not depend on the number of threads. Costs one listing per directory and one lookup per
    /// file.
    ///
    /// If `stopped` returns true, the enumeration ends early and returns a part of the tree.
    /// `stopped` is called after at most 1024 directories, so it may be slow.
    ///
    /// `enter` is called with each directory (relative to the top) before the directory is listed.
    /// A caller that adds a watch there misses no later change.
    pub fn of(
        walk: &Walk,
        stopped: &(dyn Fn() -> bool + Sync),
        enter: &(dyn Fn(&Path) + Sync),
    ) -> Enumeration {
        let mut arena: Vec<Listing> = Vec::new();
        let mut level: Vec<DirNode> = vec![walk.start()];
        let mut ended = stopped();
        while !level.is_empty() && !ended {
            let first = arena.len();
            let next_first = first + level.len();
            let mut listed: Vec<(Listing, Vec<DirNode>)> = Vec::with_capacity(level.len());
            for some in level.chunks(CHUNK_DIRS) {
                let found = some.par_iter().map(|node| {
                    node.places().for_each(|place| enter(&place.logical));
                    Listing::of(walk, node)
                });
                listed.par_extend(found);
                ended = stopped();
                if ended {
                    // Children of unlisted directories have numbers beyond the end of the arena.
                    break;
                }
            }
            level = Vec::new();
            for (mut listing, children) in listed {
                for item in &mut listing.items {
                    if let Found::Dir(child) = item {
                        *child += next_first + level.len();
                    }
                }
                level.extend(children);
                arena.push(listing);
            }
        }
        Enumeration::flatten(arena)
    }

    /// Returns the file with rank `rank` as a walk would return it.
    pub fn found(&self, rank: usize) -> FoundFile {
        let file = &self.files[rank];
        FoundFile {
            dir: self.dirs[file.dir as usize].place.clone(),
            name: file.name.clone(),
            target: None,
        }
    }

    /// Returns the time after `now_ns` until every change of these directories, files and ignore
    /// rules is certain to show in a stamp.
    pub fn settle_in(&self, now_ns: i64) -> Duration {
        let dirs = self.dirs.iter().filter_map(|dir| dir.stamp);
        let files = self.files.iter().filter_map(|file| file.stamp);
        dirs.chain(files)
            .map(|stamp| stamp.settles_in(now_ns))
            .max()
            .unwrap_or_default()
            .max(self.inputs.settle_in(now_ns))
    }

    /// Puts listings into emission order, depth first. Uses an explicit stack, since the tree may
    /// be deep.
    fn flatten(mut arena: Vec<Listing>) -> Enumeration {
        let mut all = Enumeration::default();
        let mut stack: Vec<OpenListing> = Vec::new();
        if !arena.is_empty() {
            let top = all.enter(0, &mut arena[0], &[]);
            stack.push(top);
        }
        while let Some(open) = stack.last_mut() {
            let item = arena[open.listing].items.get_mut(open.at);
            open.at += 1;
            match item.map(|item| std::mem::replace(item, Found::Taken)) {
                Some(Found::File {
                    member,
                    name,
                    stamp,
                    linked,
                    sets,
                }) => {
                    let dir = open.dirs[member];
                    all.add_file(FileEntry {
                        dir,
                        name,
                        stamp,
                        linked,
                        sets,
                    });
                }
                Some(Found::Dir(child)) if child < arena.len() => {
                    let above = open.dirs.clone();
                    let open = all.enter(child, &mut arena[child], &above);
                    stack.push(open);
                }
                Some(Found::Dir(_) | Found::Taken) => {}
                None => {
                    let end = all.files.len() as u32;
                    for &dir in &open.dirs {
                        all.dirs[dir as usize].ranks.end = end;
                    }
                    stack.pop();
                }
            }
        }
        all
    }

    /// Adds the directories of a listing, and starts with its items. `above` are the directories
    /// of the listing above it.
    fn enter(&mut self, number: usize, listing: &mut Listing, above: &[u32]) -> OpenListing {
        let mut dirs = Vec::with_capacity(listing.places.len());
        for (place, stamp, sets) in listing.places.drain(..) {
            let number = self.dirs.len() as u32;
            let parent = above.iter().copied().find(|&dir| {
                place.logical.parent() == Some(&*self.dirs[dir as usize].place.logical)
            });
            dirs.push(number);
            let rank = self.files.len() as u32;
            self.dirs.push(DirEntry {
                place,
                parent: parent.unwrap_or(number),
                ranks: rank..rank,
                stamp,
                sets,
            });
        }
        self.inputs.append(std::mem::take(&mut listing.inputs));
        self.errors.append(&mut listing.errors);
        OpenListing {
            listing: number,
            dirs,
            at: 0,
        }
    }

    /// Adds a file. A path with a line break goes to the side list.
    fn add_file(&mut self, file: FileEntry) {
        let place = &self.dirs[file.dir as usize].place;
        if has_line_break(&file.name) || has_line_break(place.logical.as_os_str()) {
            self.side.push(SideEntry {
                dir: file.dir,
                before_rank: self.files.len() as u32,
                name: file.name,
                sets: file.sets,
            });
        } else {
            self.files.push(file);
        }
    }
}

/// A listing whose items are being put in order.
struct OpenListing {
    /// The number of the listing.
    listing: usize,
    /// The numbers of its directories.
    dirs: Vec<u32>,
    /// The position of the next item.
    at: usize,
}

/// An eligible file in a [`Survey`].
#[derive(Clone, Debug)]
pub struct SurveyedFile {
    /// Its name in the directory.
    pub name: OsString,
    /// Its stamp; `None` if it could not be determined.
    pub stamp: Option<Stamp>,
    /// The sets of ignore rules by which the file is eligible.
    pub sets: RuleSets,
}

/// The result of listing a single directory.
#[derive(Debug)]
pub struct Survey {
    /// Its stamp, if it was the same before and after listing.
    pub stamp: Option<Stamp>,
    /// The sets of ignore rules by which the directory is eligible.
    pub sets: RuleSets,
    /// Its eligible files.
    pub files: Vec<SurveyedFile>,
    /// Its eligible subdirectories.
    pub dirs: Vec<DirNode>,
    /// The paths that could not be read, and why.
    pub errors: Vec<(PathBuf, String)>,
    /// The eligibility inputs in the directory.
    pub inputs: Inputs,
}

impl Survey {
    /// Lists one directory and looks up its files, without its subdirectories. `node` must hold a
    /// single directory.
    pub fn of(walk: &Walk, node: &DirNode) -> Survey {
        let (listing, children) = Listing::of(walk, node);
        let files = listing.items.into_iter().filter_map(|item| match item {
            Found::File {
                name, stamp, sets, ..
            } => Some(SurveyedFile { name, stamp, sets }),
            Found::Dir(_) | Found::Taken => None,
        });
        Survey {
            stamp: listing.places.first().and_then(|(_, stamp, _)| *stamp),
            sets: node.sets(),
            files: files.collect(),
            dirs: children
                .into_iter()
                .flat_map(DirNode::into_singles)
                .collect(),
            errors: listing.errors,
            inputs: listing.inputs,
        }
    }
}

/// The listing of one node.
#[derive(Debug)]
struct Listing {
    places: Vec<(Arc<Place>, Option<Stamp>, RuleSets)>,
    items: Vec<Found>,
    errors: Vec<(PathBuf, String)>,
    inputs: Inputs,
}

#[derive(Debug)]
enum Found {
    File {
        /// The index of the file's directory among those of the node.
        member: usize,
        name: OsString,
        stamp: Option<Stamp>,
        linked: bool,
        sets: RuleSets,
    },
    /// The number of the child's listing: at first among the children of this node, later in the
    /// arena.
    Dir(usize),
    Taken,
}

impl Listing {
    /// Lists a node and looks up its files.
    fn of(walk: &Walk, node: &DirNode) -> (Listing, Vec<DirNode>) {
        let places: Vec<Arc<Place>> = node.places().cloned().collect();
        let state = |place: &Arc<Place>| {
            let stat = place.root.stat_entries(&place.real, std::iter::empty());
            stat.ok().and_then(|stat| Stamp::of(&stat.dir))
        };
        let before: Vec<Option<Stamp>> = places.iter().map(state).collect();
        let mut inputs = Inputs::default();
        let entries =
            walk.list_noting(node, &|_, _| true, &mut |dir, found| inputs.add(dir, found));
        let mut items = Vec::with_capacity(entries.len());
        let mut children = Vec::new();
        let mut errors = Vec::new();
        for entry in entries {
            match entry {
                Entry::File(file, _) if !can_be_kept(&file.name) => errors.push((
                    file.logical(),
                    "an index can't store its name on this system".to_string(),
                )),
                Entry::File(file, sets) => items.push(Found::File {
                    member: places
                        .iter()
                        .position(|place| Arc::ptr_eq(place, &file.dir))
                        .unwrap_or(0),
                    linked: file.target.is_some(),
                    name: file.name,
                    stamp: None,
                    sets,
                }),
                Entry::Dir(child) => {
                    items.push(Found::Dir(children.len()));
                    children.push(child);
                }
                Entry::Error(path, message) => errors.push((path, message)),
            }
        }
        let mut after = Vec::with_capacity(places.len());
        for (member, place) in places.iter().enumerate() {
            after.push(look_at_files(place, member, &mut items));
        }
        let places = places
            .into_iter()
            .zip(node.sets_of_each())
            .zip(before.into_iter().zip(after))
            // If a directory changed while it was listed, neither stamp belongs to the list.
            .map(|((place, sets), (before, after))| {
                (place, before.filter(|_| before == after), sets)
            })
            .collect();
        let listing = Listing {
            places,
            items,
            errors,
            inputs,
        };
        (listing, children)
    }
}

/// Fills in the stamps of the files of one directory, and returns the stamp of the directory.
fn look_at_files(place: &Place, member: usize, items: &mut [Found]) -> Option<Stamp> {
    let names = items.iter().filter_map(|item| match item {
        Found::File {
            member: of, name, ..
        } if *of == member => Some(&**name),
        _ => None,
    });
    let DirStat { dir, entries } = place.root.stat_entries(&place.real, names).ok()?;
    let own = items.iter_mut().filter_map(|item| match item {
        Found::File {
            member: of, stamp, ..
        } if *of == member => Some(stamp),
        _ => None,
    });
    for (stamp, meta) in own.zip(entries) {
        *stamp = meta.ok().and_then(|meta| Stamp::of(&meta));
    }
    Stamp::of(&dir)
}
