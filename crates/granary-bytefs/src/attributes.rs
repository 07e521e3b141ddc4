//! Attributes of an inode, and the extended ones: read from their blocks, changed in one transaction.
//!
//! ```text
//!   setxattr:  header line(s) and changed lines of the attributes' blocks
//!              | inode 64 B (128 B where blocks come or go) | bitmap 64 B where blocks come or go
//! ```
//!
//! The 128 B inode has no room for values, so the first attribute takes a block; after that a change costs
//! lines, not blocks. An inode that is no longer on media keeps changed attributes in memory.

use crate::core::Core;
use crate::fs::ByteFs;
use crate::journal::Tx;
use crate::layout::{InodeRecord, orphan, xattr};
use crate::node::{Dirty, Half, Node, Standing, node};
use crate::space::{Claim, Run};
use crate::truncate::blocks_of;
use granary_device::Structure;
use granary_fs::{Attributes, Call, FsError, Inode, Result, SetAttr};
use granary_kit::work::Kind;
use granary_kit::xattr_string;
use granary_sim::costs;
use granary_units::{LINE_SIZE, Lpa, PAGE_SIZE};

impl Attributes for ByteFs {
    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        let core = &*self.core;
        let node = node(inode);
        core.journal.alive()?;
        let _change = node.change.lock();
        if node.body.lock().standing == Standing::Gone {
            inode.update(|a| a.set(set, call.time));
            if let Some(size) = set.size {
                core.cut_gone(inode, size);
            }
            return Ok(());
        }
        let block = core.inode_block(node.ino)?;
        let mut tx = Tx::new(core);
        let mut half = if set.uid.or(set.gid).is_some() { Half::Both } else { Half::Hot };
        let (mut done, mut entry) = (true, None);
        if let Some(size) = set.size {
            core.unreserve_from(&mut node.body.lock(), blocks_of(size));
            let (slots, all) = core.cut_step(&mut tx, node, blocks_of(size))?;
            half = half.and(slots);
            done = all;
            // An inode without links is in the table already.
            if !done && node.body.lock().standing == Standing::Live {
                entry = tx.take_orphan();
            }
        }
        let kind =
            if set.size.is_some_and(|size| size < inode.size()) { Kind::Truncate } else { Kind::Attributes };
        tx.work(kind.inodes() + costs().inode_dirty);
        tx.touch(&block, core.inode_lines(node.ino, half));
        let seq = tx.run(|| {
            {
                let mut body = node.body.lock();
                body.disk_size = set.size.unwrap_or(body.disk_size);
            }
            if let Some(place) = entry {
                core.orphans.block.change(|b| orphan::set(b, place, node.ino));
            }
            inode.update(|a| a.set(set, call.time));
            core.put_blocks(inode);
            core.put_inode(&block, inode);
        })?;
        node.depends(seq);
        if done {
            return Ok(());
        }
        let _step = granary_sim::step("bytefs: a truncation goes on");
        core.cut_on(inode, blocks_of(inode.size()), entry)
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        let core = &*self.core;
        if !core.blind {
            inode.update(|a| a.accessed(call.time));
            core.mark_dirty(inode, Dirty { times: false, atime: true });
        }
        Ok(())
    }

    fn getxattr(&self, _call: &Call<'_>, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let core = &*self.core;
        Ok(xattr_string::get(&core.xattrs(node(inode))?, name).map(<[u8]>::to_vec))
    }

    fn setxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        let core = &*self.core;
        core.journal.alive()?;
        let node = node(inode);
        let _change = node.change.lock();
        let old = core.xattrs(node)?;
        let string = xattr_string::set(&old, name, value);
        let count = xattr::blocks_for(string.len()).ok_or(FsError::NoSpace)?;
        let (had, gone) = {
            let body = node.body.lock();
            (body.map.xattr_blocks.clone(), body.standing == Standing::Gone)
        };
        if gone {
            node.body.lock().xattrs = Some(string);
            inode.update(|a| a.changed(call.time));
            return Ok(());
        }
        let table = core.inode_block(node.ino)?;
        let mut tx = Tx::new(core);
        tx.work(costs().xattr_update);
        let mut lbas = had.clone();
        lbas.truncate(count);
        while lbas.len() < count {
            lbas.push(tx.take_blocks(1, None, Claim::Free)?.lba);
        }
        let mut blocks = Vec::with_capacity(count);
        for (n, &lba) in lbas.iter().enumerate() {
            let lpa = Lpa(lba as u64);
            blocks.push(match n < had.len() {
                true => core.cache.get(lpa, Structure::Inode)?,
                false => core.cache.fresh(lpa, Structure::Inode),
            });
        }
        let before: Vec<[u8; PAGE_SIZE]> = blocks.iter().map(|b| b.with(|b| *b)).collect();
        let mut images = before.clone();
        xattr::write(&string, &lbas, &mut images);
        for (n, block) in blocks.iter().enumerate() {
            let used = xattr::used(n, string.len()).div_ceil(LINE_SIZE);
            // Behind these the media has anything, which the zeros of a new block in the cache do not show.
            let known = if n < had.len() { xattr::used(n, old.len()).div_ceil(LINE_SIZE) } else { 0 };
            let lines = |from: &[u8; PAGE_SIZE], i: usize| from[i * LINE_SIZE..(i + 1) * LINE_SIZE].to_vec();
            let changed = (0..used).filter(|&i| i >= known || lines(&before[n], i) != lines(&images[n], i));
            let mask = changed.fold(0u64, |mask, i| mask | 1 << i);
            if mask != 0 {
                tx.touch(block, mask);
            }
        }
        for &lba in &had[count.min(had.len())..] {
            // Now: once it is free, it may be somebody else's.
            core.cache.forget(Lpa(lba as u64));
            tx.free_blocks(Run { lba, len: 1 }, true);
        }
        let half = if had == lbas { Half::Hot } else { Half::Both };
        tx.touch(&table, core.inode_lines(node.ino, half));
        let seq = tx.run(|| {
            for (block, image) in blocks.iter().zip(&images) {
                block.change(|b| *b = *image);
            }
            let mut body = node.body.lock();
            body.map.xattr_blocks.clone_from(&lbas);
            inode.update(|a| {
                a.changed(call.time);
                a.blocks = body.stat_blocks();
            });
            drop(body);
            core.put_inode(&table, inode);
        })?;
        node.depends(seq);
        Ok(())
    }

    fn listxattr(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        let core = &*self.core;
        Ok(xattr_string::names(&core.xattrs(node(inode))?))
    }

    fn generation(&self, inode: &Inode) -> u32 {
        node(inode).body.lock().generation
    }
}

impl Core {
    /// The blocks of an inode's attributes as its record and their head say.
    ///
    /// # Errors
    /// `Corrupt`, drive errors.
    pub fn load_xattr_blocks(&self, ino: u32, record: &InodeRecord) -> Result<Vec<u32>> {
        let head = record.xattr.get();
        if head == 0 {
            return Ok(Vec::new());
        }
        let bad = |lba: u32| FsError::Corrupt(format!("inode {ino}: no extended attributes in block {lba}"));
        if !self.geometry.has_data(head as u64, 1) {
            return Err(bad(head));
        }
        let block = self.cache.get(Lpa(head as u64), Structure::Inode)?;
        let mut all = vec![head];
        all.extend(
            block.with(|b| xattr::count(b).map(|n| xattr::next_blocks(b, n))).ok_or_else(|| bad(head))?,
        );
        match all.iter().find(|&&lba| !self.geometry.has_data(lba as u64, 1)) {
            Some(&lba) => Err(bad(lba)),
            None => Ok(all),
        }
    }

    /// All attributes as one string.
    fn xattrs(&self, node: &Node) -> Result<Vec<u8>> {
        let lbas = {
            let body = node.body.lock();
            if let Some(string) = &body.xattrs {
                return Ok(string.clone());
            }
            body.map.xattr_blocks.clone()
        };
        let read = |lba: u32| Ok(self.cache.get(Lpa(lba as u64), Structure::Inode)?.with(|b| *b));
        let blocks = lbas.into_iter().map(read).collect::<Result<Vec<[u8; PAGE_SIZE]>>>()?;
        xattr::read(&blocks).map_err(|e| match e {
            FsError::Corrupt(what) => FsError::Corrupt(format!("inode {}: {what}", node.ino)),
            other => other,
        })
    }

    /// An inode without links is freed: its attributes' blocks, too.
    pub fn free_xattrs(&self, tx: &mut Tx<'_>, node: &Node) {
        for lba in std::mem::take(&mut node.body.lock().map.xattr_blocks) {
            self.cache.forget(Lpa(lba as u64));
            tx.free_blocks(Run { lba, len: 1 }, true);
        }
    }
}
