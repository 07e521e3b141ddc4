//! Unwritten extents that become written.

use super::{Mapping, Owner, set_kind};
use crate::fs::Ext4;
use crate::journal::Handle;
use crate::layout::extent::{self as node_bytes, MAX_LEN};
use granary_fs::Result;

impl Ext4 {
    /// Marks the mapped blocks of `from..to` as written: they hold data from now on. The caller marks the
    /// inode.
    ///
    /// # Errors
    /// `NoSpace` where an extent falls into parts that need a tree block and there is none: the tree is
    /// valid, and the blocks from there on are still unwritten.
    pub(crate) fn mark_written(
        &self,
        h: &mut Handle<'_>,
        owner: Owner<'_>,
        from: u32,
        to: u32,
    ) -> Result<()> {
        let mut at = from;
        while at < to {
            at = match self.map_locked(owner.node, at)? {
                Mapping::Hole { len } | Mapping::Mapped { len, unwritten: false, .. } => {
                    at.saturating_add(len)
                }
                Mapping::Mapped { len, unwritten: true, .. } => {
                    self.mark_part(h, owner, at, to.min(at.saturating_add(len)), false)?
                }
            };
        }
        Ok(())
    }

    /// The part `from..to` of one extent is unwritten or written from now on, or its beginning is: where that
    /// ends. The caller marks the inode.
    ///
    /// # Errors
    /// `NoSpace` where a tree block is needed and there is none: the extent is as it was.
    pub(crate) fn mark_part(
        &self,
        h: &mut Handle<'_>,
        owner: Owner<'_>,
        from: u32,
        to: u32,
        unwritten: bool,
    ) -> Result<u32> {
        let to = if unwritten { to.min(from.saturating_add(MAX_LEN - 1)) } else { to };
        loop {
            let path = self.path(owner, from)?;
            let leaf = path.last().expect("a path has a leaf");
            let i = leaf.index.expect("it is mapped");
            // A copy decides, as in enter_extent.
            let (e, changed) = owner.view(&leaf.at, |b| {
                let mut copy = b.to_vec();
                let fits = set_kind(&mut copy, i, from, to, unwritten);
                (node_bytes::entry(b, i), fits.then_some(copy))
            });
            let Some(copy) = changed else {
                self.make_room(h, owner, &path, e)?;
                continue;
            };
            owner.edit(h, &leaf.at, |b| b.copy_from_slice(&copy));
            self.fold(h, owner);
            return Ok(to);
        }
    }
}
