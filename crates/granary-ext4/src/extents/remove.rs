//! Extents that go.

use super::{At, Owner, Step};
use crate::fs::Ext4;
use crate::journal::Handle;
use crate::layout::extent::{self as node_bytes, ExtentEntry, ROOT_MAX};
use granary_fs::Result;
use granary_sim::costs;

impl Ext4 {
    /// Frees what is mapped from logical block `from` on, last extent first, as far as the handle's credits
    /// go. Returns whether there is more. The caller marks the inode.
    pub(crate) fn remove_extents(&self, h: &mut Handle<'_>, owner: Owner<'_>, from: u32) -> Result<bool> {
        loop {
            // One step changes bitmap and descriptor of at most two groups, a node, its parent and the inode;
            // what the caller does after the last step, another inode, its bitmap and descriptor, and the
            // superblock.
            if h.room() < 16 {
                return Ok(true);
            }
            let mut parents: Vec<At> = Vec::new();
            let mut at = At::Root;
            let (n, depth) = loop {
                let (n, depth, last) = owner.view(&at, |b| {
                    let n = node_bytes::count(b);
                    (n, node_bytes::depth(b), n.checked_sub(1).map(|i| node_bytes::entry(b, i)))
                });
                let Some(e) = last.filter(|_| depth > 0) else { break (n, depth) };
                parents.push(std::mem::replace(&mut at, At::Block(self.child(e, depth - 1)?)));
            };
            if n == 0 {
                let At::Block(block) = &at else {
                    if depth > 0 {
                        owner.edit(h, &At::Root, |b| node_bytes::init(b, ROOT_MAX, 0));
                    }
                    return Ok(false);
                };
                self.groups.free_meta(h, block.lpa().0, 1)?;
                owner.node.state.lock().blocks -= 1;
                let parent = parents.last().expect("a block has a parent");
                owner.edit(h, parent, |b| node_bytes::remove(b, node_bytes::count(b) - 1));
                continue;
            }
            let e = owner.view(&at, |b| node_bytes::entry(b, n - 1));
            if e.key + e.len <= from {
                return Ok(false);
            }
            let keep = from.saturating_sub(e.key);
            let (start, len) = (e.start + keep as u64, e.len - keep);
            match owner.meta {
                true => self.groups.free_meta(h, start, len)?,
                false => self.groups.free(h, start, len)?,
            }
            {
                // A damaged inode may count too few.
                let mut state = owner.node.state.lock();
                state.blocks = state.blocks.saturating_sub(len as u64);
            }
            h.work(costs().extent_update);
            owner.edit(h, &at, |b| match keep {
                0 => node_bytes::remove(b, n - 1),
                _ => node_bytes::set(b, n - 1, ExtentEntry { len: keep, ..e }),
            });
        }
    }

    /// Unmaps the last mapped part of `from..to` that lies in one extent; returns it and where the search
    /// goes on (the part's beginning), or `None` where nothing is mapped there. The caller frees the blocks
    /// and marks the inode.
    ///
    /// # Errors
    /// `NoSpace` where an extent is cut in two and the second half has no place, with nothing changed.
    pub(crate) fn unmap_last(
        &self,
        h: &mut Handle<'_>,
        owner: Owner<'_>,
        from: u32,
        to: u32,
    ) -> Result<Option<ExtentEntry>> {
        let mut to = to;
        let (path, index, e) = loop {
            if from >= to {
                return Ok(None);
            }
            let path = self.path(owner, to - 1)?;
            let leaf = path.last().expect("a path has a leaf");
            match leaf.index {
                Some(i) => {
                    let e = owner.view(&leaf.at, |b| node_bytes::entry(b, i));
                    break (path, i, e);
                }
                // An empty leaf, or one that begins later: go on before what leads here.
                None => {
                    let first = path[..path.len() - 1].iter().rev().find_map(|s| {
                        let i = s.index.filter(|i| *i > 0)?;
                        Some(owner.view(&s.at, |b| node_bytes::entry(b, i)).key)
                    });
                    match first {
                        Some(key) if key < to => to = key,
                        _ => return Ok(None),
                    }
                }
            }
        };
        let (start, end) = (e.key.max(from), (e.key + e.len).min(to));
        if start >= end {
            return Ok(None);
        }
        let leaf = &path.last().expect("a path has a leaf").at;
        let behind = e.part(end, e.key + e.len);
        let part = e.part(start, end);
        match (start - e.key, behind.len) {
            (0, 0) => {
                let left = owner.edit(h, leaf, |b| {
                    node_bytes::remove(b, index);
                    node_bytes::count(b)
                });
                if left == 0 {
                    self.drop_leaf(h, owner, &path)?;
                }
            }
            (0, _) => owner.edit(h, leaf, |b| node_bytes::set(b, index, behind)),
            (before, 0) => {
                owner.edit(h, leaf, |b| node_bytes::set(b, index, ExtentEntry { len: before, ..e }))
            }
            (before, _) => {
                owner.edit(h, leaf, |b| node_bytes::set(b, index, ExtentEntry { len: before, ..e }));
                if let Err(error) = self.enter_extent(h, owner, behind) {
                    // The tree may have grown meanwhile: look again where the first half is.
                    let path = self.path(owner, e.key)?;
                    let leaf = path.last().expect("a path has a leaf");
                    if let Some(i) = leaf.index {
                        owner.edit(h, &leaf.at, |b| node_bytes::set(b, i, e));
                    }
                    return Err(error);
                }
            }
        }
        Ok(Some(part))
    }

    /// Frees an empty leaf where its parent has others. (An empty one that stays is harmless: truncation
    /// frees it.)
    pub(super) fn drop_leaf(&self, h: &mut Handle<'_>, owner: Owner<'_>, path: &[Step]) -> Result<()> {
        let [.., parent, leaf] = path else { return Ok(()) };
        let (At::Block(block), Some(i)) = (&leaf.at, parent.index) else { return Ok(()) };
        if owner.view(&parent.at, node_bytes::count) < 2 {
            return Ok(());
        }
        self.groups.free_meta(h, block.lpa().0, 1)?;
        owner.node.state.lock().blocks -= 1;
        owner.edit(h, &parent.at, |b| node_bytes::remove(b, i));
        Ok(())
    }
}
