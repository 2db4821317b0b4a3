//! Access to the blocks of a segment, group by group.
//!
//! An incremental build uses it to copy blocks; the SQLite backend uses it to store them in another
//! form.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::format::error::FormatError;
use crate::format::segment::PartRecord;
use crate::index::block::Shape;
use crate::index::sections::Slot;
use crate::index::segment::Segment;

/// A block of a segment.
#[derive(Debug)]
pub(crate) struct BlockContent<'a> {
    /// The shape of the block.
    pub(crate) shape: Shape,
    /// The file and the start of each slot.
    pub(crate) slots: Vec<Slot>,
    /// The encoded rows.
    pub(crate) rows: Cow<'a, [u8]>,
}

impl Segment {
    /// Returns the number of groups of blocks.
    pub(crate) fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Returns the ranks of the files in the slots of a group, in the order of the slots. An
    /// unknown group has no files.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub(crate) fn ranks_of(&self, group: usize) -> Result<Vec<u32>, FormatError> {
        let view = self.container.view();
        let blocks = self.groups.get(group).map(|group| &group.blocks[..]);
        let blocks = blocks.unwrap_or_default().iter();
        let slots = blocks
            .flat_map(|block| block.first_slot..block.first_slot + block.shape.files as usize);
        slots.map(|slot| self.slots.get(view, slot)).collect()
    }

    /// Returns the direct n-grams of the blocks of a group. An unknown group has no n-grams.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub(crate) fn direct_of(&self, group: usize) -> Result<Vec<u32>, FormatError> {
        let view = self.container.view();
        let range = self.groups.get(group).map(|group| group.direct.clone());
        let numbers = range.unwrap_or_default();
        numbers.map(|n| self.direct.get(view, n)).collect()
    }

    /// Returns the start of each part, by slot. Files with a single part are not included.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub(crate) fn starts(&self) -> Result<BTreeMap<usize, u32>, FormatError> {
        let view = self.container.view();
        (0..self.parts.len())
            .map(|n| {
                let part: PartRecord = self.parts.get(view, n)?;
                Ok((part.slot as usize, part.start))
            })
            .collect()
    }

    /// Returns the blocks of a group, given the result of [`Segment::starts`]. An unknown group has
    /// no blocks.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub(crate) fn blocks_of(
        &self,
        group: usize,
        starts: &BTreeMap<usize, u32>,
    ) -> Result<Vec<BlockContent<'_>>, FormatError> {
        let view = self.container.view();
        let group = self.groups.get(group);
        let blocks = group.map(|group| &group.blocks[..]).unwrap_or_default();
        blocks
            .iter()
            .map(|block| {
                let slots = block.first_slot..block.first_slot + block.shape.files as usize;
                Ok(BlockContent {
                    shape: block.shape,
                    slots: slots
                        .map(|slot| {
                            let rank = self.slots.get(view, slot)?;
                            let start = starts.get(&slot).copied().unwrap_or(0);
                            Ok(Slot { rank, start })
                        })
                        .collect::<Result<_, FormatError>>()?,
                    rows: self
                        .container
                        .passing(block.rows_at, block.shape.bytes() as usize)?,
                })
            })
            .collect()
    }
}
