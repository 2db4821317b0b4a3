//! A segment's blocks, for whoever copies them, or keeps them in another form.
//!
//! Owns nothing; it hands out what a segment has, group by group.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::format::error::FormatError;
use crate::format::segment::PartRecord;
use crate::index::block::Shape;
use crate::index::sections::Slot;
use crate::index::segment::Segment;

/// A block as it is in a segment.
#[derive(Debug)]
pub(crate) struct BlockContent<'a> {
    /// Its shape.
    pub(crate) shape: Shape,
    /// What is in its slots.
    pub(crate) slots: Vec<Slot>,
    /// Its rows.
    pub(crate) rows: Cow<'a, [u8]>,
}

impl Segment {
    /// Returns the number of groups of blocks.
    pub(crate) fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Returns the ranks of the files in the slots of a group, in the order of the slots; none for a group that does not exist.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage.
    pub(crate) fn ranks_of(&self, group: usize) -> Result<Vec<u32>, FormatError> {
        let view = self.container.view();
        let blocks = self.groups.get(group).map(|group| &group.blocks[..]);
        let blocks = blocks.unwrap_or_default().iter();
        let slots = blocks
            .flat_map(|block| block.first_slot..block.first_slot + block.shape.files as usize);
        slots.map(|slot| self.slots.get(view, slot)).collect()
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

    /// Returns where the parts of files that have several start, by slot.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage.
    pub(crate) fn starts(&self) -> Result<BTreeMap<usize, u32>, FormatError> {
        let view = self.container.view();
        (0..self.parts.len())
            .map(|n| {
                let part: PartRecord = self.parts.get(view, n)?;
                Ok((part.slot as usize, part.start))
            })
            .collect()
    }

    /// Returns the blocks of a group; none for a group that does not exist. `starts` are those of [`Segment::starts`].
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage.
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
