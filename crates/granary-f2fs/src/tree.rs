//! The pointers of a file or directory: finding, setting, reserving and cutting them.
//!
//! ```text
//!   inode -> [direct] ; [indirect -> direct] x 2 ; [indirect -> indirect -> direct]
//!   pointer: 0 hole | NEW_ADDR reserved, reads as zeros | block
//! ```

use crate::cache::CachedBlock;
use crate::fs::F2fs;
use crate::layout::forward::Cut;
use crate::layout::node::{
    self, ADDRS_AT, Footer, INODE_ADDRS, MAX_BLOCKS, NIDS_AT, NODE_ADDRS, Path, addr, addr_at, addrs, used,
};
use crate::layout::{NEW_ADDR, NULL_ADDR, is_real, le32, put32};
use crate::node::Node;
use crate::segs::log;
use granary_fs::{FsError, Result};
use std::sync::Arc;

/// A node that holds addresses, and one of them.
#[derive(Clone)]
pub(crate) struct Dnode {
    pub entry: Arc<CachedBlock>,
    pub nid: u32,
    pub place: u32,
    pub ofs: usize,
}

impl Dnode {
    pub fn addr(&self) -> u32 {
        u32::from_le_bytes(self.entry.bytes_at(addr_at(self.place, self.ofs)))
    }

    /// Addresses from this one to the node's end.
    pub fn left(&self) -> usize {
        addrs(self.place) - self.ofs
    }
}

/// Where pointer `slot` of the node at depth `depth` of a path lies.
fn slot_at(depth: usize, slot: usize) -> usize {
    if depth == 0 { NIDS_AT + 4 * slot } else { 4 * slot }
}

impl F2fs {
    /// The node with the address of block `index`; `Err(n)`: there is none, nor for the `n` blocks from there
    /// on (all below the missing node).
    pub(crate) fn dnode(&self, ino: u32, index: u64) -> Result<Result<Dnode, u64>> {
        let Path { depth, slots, places, ofs } = node::path(index);
        let mut entry = self.inode_node(ino)?;
        let mut nid = ino;
        for (d, slot) in slots.into_iter().enumerate().take(depth) {
            nid = entry.with(|b| le32(b, slot_at(d, slot)));
            if nid == NULL_ADDR {
                let n = NODE_ADDRS as u64;
                let inside =
                    slots[d + 1..depth].iter().fold(0, |at, slot| at * n + *slot as u64) * n + ofs as u64;
                return Ok(Err(n.pow((depth - d) as u32) - inside));
            }
            entry = self.node(ino, nid)?;
        }
        let place = if depth == 0 { 0 } else { places[depth - 1] };
        Ok(Ok(Dnode { entry, nid, place, ofs }))
    }

    /// The same; missing nodes are made. Under the grow lock.
    pub(crate) fn grow(&self, owner: &Node, index: u64) -> Result<Dnode> {
        let Path { depth, slots, places, ofs } = node::path(index);
        let mut entry = self.inode_node(owner.ino)?;
        let flags = entry.with(Footer::read).flags;
        let mut nid = owner.ino;
        for d in 0..depth {
            let at = slot_at(d, slots[d]);
            nid = entry.with(|b| le32(b, at));
            entry = if nid == NULL_ADDR {
                let made = self.make_node(owner, places[d], flags)?;
                nid = made.0;
                self.nodes.change(&entry, |b| put32(b, at, nid));
                made.1
            } else {
                self.node(owner.ino, nid)?
            };
        }
        let place = if depth == 0 { 0 } else { places[depth - 1] };
        Ok(Dnode { entry, nid, place, ofs })
    }

    pub(crate) fn set_addr(&self, d: &Dnode, to: u32) {
        self.nodes.change(&d.entry, |b| put32(b, addr_at(d.place, d.ofs), to));
    }

    /// Where blocks `first..first + n` lie.
    pub(crate) fn addrs(&self, ino: u32, first: u64, n: usize) -> Result<Vec<u32>> {
        let mut list = Vec::with_capacity(n);
        while list.len() < n {
            let at = first + list.len() as u64;
            if at >= MAX_BLOCKS {
                list.resize(n, NULL_ADDR);
                break;
            }
            let want = n - list.len();
            match self.dnode(ino, at)? {
                Ok(d) => d.entry.with(|b| {
                    let end = d.ofs + want.min(d.left());
                    list.extend((d.ofs..end).map(|o| addr(b, d.place, o)));
                }),
                Err(hole) => list.resize(list.len() + want.min(hole as usize), NULL_ADDR),
            }
        }
        Ok(list)
    }

    /// Reserves blocks for holes among `first..end`; after an error none of them.
    pub(crate) fn reserve_blocks(&self, owner: &Node, first: u64, end: u64) -> Result<()> {
        if end > MAX_BLOCKS {
            return Err(FsError::TooBig);
        }
        let _grow = self.grow_lock(owner.ino);
        let mut taken: Vec<Dnode> = Vec::new();
        let mut at = first;
        while at < end {
            let d = match self.grow(owner, at) {
                Ok(d) => d,
                Err(e) => return self.unreserve(owner, taken, e),
            };
            let n = d.left().min((end - at) as usize);
            let holes: Vec<usize> =
                d.entry.with(|b| (d.ofs..d.ofs + n).filter(|o| addr(b, d.place, *o) == NULL_ADDR).collect());
            at += n as u64;
            if holes.is_empty() {
                continue;
            }
            if let Err(e) = self.take_blocks(holes.len() as u64) {
                return self.unreserve(owner, taken, e);
            }
            owner.state.lock().blocks += holes.len() as u64;
            self.nodes.change(&d.entry, |b| {
                holes.iter().for_each(|o| put32(b, addr_at(d.place, *o), NEW_ADDR));
            });
            taken.extend(holes.into_iter().map(|ofs| Dnode { ofs, ..d.clone() }));
        }
        Ok(())
    }

    fn unreserve(&self, owner: &Node, taken: Vec<Dnode>, error: FsError) -> Result<()> {
        self.give_blocks(taken.len() as u64);
        owner.state.lock().blocks -= taken.len() as u64;
        for d in taken {
            self.set_addr(&d, NULL_ADDR);
        }
        Err(error)
    }

    /// Frees addresses `from..` of a node; returns how many pointed somewhere.
    fn cut_addrs(&self, entry: &Arc<CachedBlock>, place: u32, from: usize) -> Result<u64> {
        let all: Vec<u32> = entry.with(|b| used(b, place, from).map(|(_, a)| a).collect());
        if all.is_empty() {
            return Ok(0);
        }
        {
            let mut segs = self.segs.lock();
            for a in all.iter().filter(|a| is_real(**a)) {
                segs.invalidate(*a)?;
            }
        }
        self.nodes.change(entry, |b| {
            b[addr_at(place, from)..addr_at(place, addrs(place))].fill(0);
        });
        self.give_blocks(all.len() as u64);
        Ok(all.len() as u64)
    }

    /// Frees the blocks from `from` on below the node `nid` with `levels` of indirect nodes under it, whose
    /// first block is `base`. Frees the node, too, where all of it goes; `lost`: one that media had. Returns
    /// blocks and nodes freed.
    fn cut_tree(
        &self,
        ino: u32,
        nid: u32,
        (levels, base): (u32, u64),
        from: u64,
        lost: &mut bool,
    ) -> Result<u64> {
        let entry = self.node(ino, nid)?;
        let mut freed = 0;
        if levels == 0 {
            let place = entry.with(Footer::read).place;
            freed += self.cut_addrs(&entry, place, from.saturating_sub(base) as usize)?;
        } else {
            let span = (NODE_ADDRS as u64).pow(levels);
            let start = (from.saturating_sub(base) / span) as usize;
            for slot in start..NODE_ADDRS {
                let child = entry.with(|b| le32(b, 4 * slot));
                if child == NULL_ADDR {
                    continue;
                }
                let child_base = base + slot as u64 * span;
                freed += self.cut_tree(ino, child, (levels - 1, child_base), from, lost)?;
                if child_base >= from {
                    self.nodes.change(&entry, |b| put32(b, 4 * slot, NULL_ADDR));
                }
            }
        }
        if base >= from {
            drop(entry);
            *lost |= self.free_node(ino, nid)?;
            freed += 1;
        }
        Ok(freed)
    }

    /// Frees the blocks of a file from block `from` on. Under the inode lock.
    pub(crate) fn cut_blocks(&self, owner: &Node, from: u64) -> Result<()> {
        if owner.state.lock().inline != 0 {
            return Ok(());
        }
        let _grow = self.grow_lock(owner.ino);
        let entry = self.inode_node(owner.ino)?;
        let (mut freed, mut lost) = (0, false);
        if from < INODE_ADDRS as u64 {
            freed += self.cut_addrs(&entry, 0, from as usize)?;
        }
        let n = NODE_ADDRS as u64;
        let mut base = INODE_ADDRS as u64;
        for (slot, levels) in [0, 0, 1, 1, 2].into_iter().enumerate() {
            let span = n.pow(levels + 1);
            let nid = entry.with(|b| le32(b, NIDS_AT + 4 * slot));
            if nid != NULL_ADDR && base + span > from {
                freed += self.cut_tree(owner.ino, nid, (levels, base), from, &mut lost)?;
                if base >= from {
                    self.nodes.change(&entry, |b| put32(b, NIDS_AT + 4 * slot, NULL_ADDR));
                }
            }
            base += span;
        }
        if lost {
            // All copies of these nodes in the log lie before this place, and no number comes back before a
            // checkpoint.
            let at = self.segs.lock().next_addr(log::WARM_NODE);
            self.memory.lock().cuts.entry(owner.ino).or_default().add(Cut { block: from as u32, at });
        }
        let mut s = owner.state.lock();
        s.blocks = s.blocks.saturating_sub(freed);
        Ok(())
    }
}

const _: () = assert!(ADDRS_AT + 4 * INODE_ADDRS <= NIDS_AT);
