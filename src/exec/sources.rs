//! Sources of eligible files, in emission order.
//!
//! [`eligible`] has the interface, the walk and fixed lists. [`catalog`] takes files from an index.
//! [`reach`] has the directories that a search may read, and [`types`] the file types. This module
//! joins one source for each searched path.

pub mod catalog;
pub mod eligible;
pub mod reach;
pub mod types;

use std::ops::Range;

use crate::exec::answer::outcome::FileError;
use crate::exec::sources::catalog::CatalogSource;
use crate::exec::sources::eligible::{FileSource, Item, ListSource, WalkSource};
use crate::exec::stop::Stop;
use crate::index::walk::DirNode;

/// The files of one searched path.
pub enum PathSource {
    /// Files that a walk finds.
    Walk(Box<WalkSource>),
    /// Files that an index lists.
    Catalog(Box<CatalogSource>),
    /// Files that the request names.
    List(ListSource),
    /// An error: the path can't be searched.
    Missing(FileError),
}

/// A part of a [`PathSource`] that is not expanded yet.
#[derive(Debug)]
pub enum PathUnit {
    /// A directory to be listed.
    Dir(DirNode),
    /// A range of ranks in a catalog.
    Ranks(Range<u32>),
}

impl PathSource {
    fn start(&self) -> Vec<Item<PathUnit>> {
        match self {
            PathSource::Walk(walk) => mapped(walk.start(), PathUnit::Dir),
            PathSource::Catalog(catalog) => mapped(catalog.start(), PathUnit::Ranks),
            PathSource::List(list) => mapped(list.start(), |unit| match unit {}),
            PathSource::Missing(error) => vec![Item::Error(error.clone())],
        }
    }

    fn expand(&self, unit: PathUnit, stop: &Stop) -> Vec<Item<PathUnit>> {
        match (self, unit) {
            (PathSource::Walk(walk), PathUnit::Dir(node)) => {
                mapped(walk.expand(node, stop), PathUnit::Dir)
            }
            (PathSource::Catalog(catalog), PathUnit::Ranks(ranks)) => {
                mapped(catalog.expand(ranks, stop), PathUnit::Ranks)
            }
            // A unit is always expanded by the source that created it.
            (_, _) => Vec::new(),
        }
    }

    fn has_failed(&self) -> bool {
        match self {
            PathSource::Catalog(catalog) => catalog.has_failed(),
            PathSource::Walk(_) | PathSource::List(_) | PathSource::Missing(_) => false,
        }
    }
}

fn mapped<U, V>(items: Vec<Item<U>>, into: impl Fn(U) -> V) -> Vec<Item<V>> {
    let one = |item| match item {
        Item::File(file) => Item::File(file),
        Item::Listed(files) => Item::Listed(files),
        Item::Passed(count) => Item::Passed(count),
        Item::Unit(unit) => Item::Unit(into(unit)),
        Item::Error(error) => Item::Error(error),
    };
    items.into_iter().map(one).collect()
}

/// The files of several searched paths, in the order of the paths.
pub struct Sources(pub Vec<PathSource>);

impl Sources {
    /// Labels the items of one path with its index.
    fn of_target(
        target: usize,
        items: Vec<Item<PathUnit>>,
    ) -> impl Iterator<Item = Item<(usize, PathUnit)>> {
        items.into_iter().map(move |item| match item {
            Item::File(mut file) => {
                file.target = target;
                Item::File(file)
            }
            Item::Listed(mut files) => {
                files.target = target;
                Item::Listed(files)
            }
            Item::Error(mut error) => {
                error.target = target;
                Item::Error(error)
            }
            Item::Passed(count) => Item::Passed(count),
            Item::Unit(unit) => Item::Unit((target, unit)),
        })
    }
}

impl FileSource for Sources {
    type Unit = (usize, PathUnit);

    fn start(&self) -> Vec<Item<Self::Unit>> {
        let all = self.0.iter().enumerate();
        all.flat_map(|(target, source)| Sources::of_target(target, source.start()))
            .collect()
    }

    fn expand(&self, (target, unit): Self::Unit, stop: &Stop) -> Vec<Item<Self::Unit>> {
        let source = self.0.get(target);
        let items = source.map(|source| source.expand(unit, stop));
        Sources::of_target(target, items.unwrap_or_default()).collect()
    }

    fn has_failed(&self) -> bool {
        self.0.iter().any(PathSource::has_failed)
    }
}
