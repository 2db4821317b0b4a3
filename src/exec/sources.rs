//! Sources of eligible files, in emission order.
//!
//! [`eligible`] has the interface, the walk and fixed lists. [`catalog`] takes files from an index.
//! [`reach`] has the directories that a search may read, and [`types`] the file types. This module
//! joins one source for each searched path.

pub mod catalog;
pub mod eligible;
pub mod reach;
pub mod types;

use crate::exec::sources::eligible::{FileSource, Item, PathUnit};
use crate::exec::stop::Stop;

/// The files of one searched path.
pub type PathSource = Box<dyn FileSource<Unit = PathUnit>>;

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
        self.0.iter().any(|source| source.has_failed())
    }
}
