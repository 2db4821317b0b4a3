//! A segment's blocks, for whoever keeps them in another form.
//!
//! Owns nothing; it hands out what a segment has, group by group.

use crate::format::error::FormatError;
use crate::index::block::Shape;
use crate::index::segment::Segment;

/// A block as it is in a segment.
#[derive(Debug)]
pub(crate) struct BlockContent<'a> {
    /// Its shape.
    pub(crate) shape: Shape,
    /// The ranks of its files, slot by slot.
    pub(crate) ranks: Vec<u32>,
    /// Its rows.
    pub(crate) rows: &'a [u8],
}

impl Segment {
    /// Returns the number of groups of blocks.
    pub(crate) fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Returns the n-grams with rows of their own in the blocks of a group; none for a group that does not exist.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage.
    pub(crate) fn direct_of(&self, group: usize) -> Result<Vec<u32>, FormatError> {
        let view = self.container.view();
        let range = self.groups.get(group).map(|group| group.direct.clone());
        let numbers = range.unwrap_or_default();
        numbers.map(|n| self.direct.get(view, n)).collect()
    }

    /// Returns the blocks of a group; none for a group that does not exist.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage.
    pub(crate) fn blocks_of(&self, group: usize) -> Result<Vec<BlockContent<'_>>, FormatError> {
        let view = self.container.view();
        let group = self.groups.get(group);
        let blocks = group.map(|group| &group.blocks[..]).unwrap_or_default();
        blocks
            .iter()
            .map(|block| {
                let slots = block.first_slot..block.first_slot + block.shape.files as usize;
                Ok(BlockContent {
                    shape: block.shape,
                    ranks: slots
                        .map(|slot| self.slots.get(view, slot))
                        .collect::<Result<_, _>>()?,
                    rows: view.bytes(block.rows_at, block.shape.bytes() as usize)?,
                })
            })
            .collect()
    }
}
