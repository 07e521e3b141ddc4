//! Claims: every block gets one owner. A second claimant gets a copy. Doubtful inodes come last and get none.

use super::{Piece, Repair, bit, set_bit};
use granary_device::Structure;
use granary_fs::{FileKind, Result};

impl Repair<'_> {
    pub(super) fn claim_all(&mut self) -> Result<()> {
        for r in self.g.fixed() {
            r.for_each(|n| set_bit(&mut self.owned, n, true));
        }
        self.stray_blocks.iter().for_each(|&n| set_bit(&mut self.owned, n, true));
        let mut order: Vec<(bool, u32)> = self.inodes.iter().map(|(&ino, f)| (f.doubtful, ino)).collect();
        order.sort_unstable();
        let mut second = Vec::new();
        for (_, ino) in order {
            self.claim(ino, &mut second)?;
        }
        // Only now is it known what nobody owns.
        for (ino, block, lba) in second {
            self.copy_block(ino, block, lba)?;
        }
        Ok(())
    }

    /// Whether nobody had block `lba`.
    fn own(&mut self, lba: u32) -> bool {
        let free = !bit(&self.owned, lba as u64);
        set_bit(&mut self.owned, lba as u64, true);
        free
    }

    fn claim(&mut self, ino: u32, second: &mut Vec<(u32, u64, u32)>) -> Result<()> {
        let found = self.inode(ino)?;
        let (doubtful, cut) = (found.doubtful, found.orphan.then_some(found.record.size.get()));
        let mut pieces = std::mem::take(&mut found.pieces);
        let (slots, indexes) =
            (std::mem::take(&mut found.slot_blocks), std::mem::take(&mut found.index_blocks));
        let xattrs = std::mem::take(&mut found.xattr_blocks);
        if let Some(size) = cut {
            let keep = crate::truncate::blocks_of(size);
            self.say(format!("inode {ino}: an interrupted truncation to {size} bytes was finished"));
            pieces.retain_mut(|p| {
                p.len = p.len.min(keep.saturating_sub(p.block).min(u32::MAX as u64) as u32);
                p.len > 0
            });
        }
        // Lists of extents that somebody else has, too, are written anew; what they say is known.
        let had = slots.len() + indexes.len();
        let slots: Vec<u32> =
            slots.into_iter().filter(|&lba| self.is_data(lba, 1) && self.own(lba)).collect();
        let indexes: Vec<u32> = indexes.into_iter().filter(|&lba| self.own(lba)).collect();
        let mut remap = slots.len() + indexes.len() < had || cut.is_some();
        let free: Vec<u32> = xattrs.iter().copied().filter(|&lba| self.own(lba)).collect();
        let mut kept: Vec<Piece> = Vec::new();
        for p in pieces {
            for i in 0..p.len {
                let (block, lba) = (p.block + i as u64, p.lba + i);
                if self.own(lba) {
                    match kept.last_mut() {
                        Some(k) if (k.block + k.len as u64, k.lba + k.len) == (block, lba) => k.len += 1,
                        _ => kept.push(Piece { block, lba, len: 1 }),
                    }
                    continue;
                }
                remap = true;
                if doubtful {
                    self.say(format!("inode {ino}: block {lba} has another owner: dropped"));
                } else {
                    second.push((ino, block, lba));
                }
            }
        }
        if remap {
            self.write_names_anew(ino)?;
        }
        let found = self.inode(ino)?;
        found.rewrite_xattrs = free.len() < xattrs.len();
        (found.pieces, found.slot_blocks, found.index_blocks, found.xattr_blocks) =
            (kept, slots, indexes, free);
        found.remap |= remap;
        Ok(())
    }

    /// A directory that loses a block, or gets another one: its names are known, and were counted. Checksums
    /// know where names are, too.
    fn write_names_anew(&mut self, ino: u32) -> Result<()> {
        if self.inode(ino)?.kind == Some(FileKind::Dir) {
            self.dirs.entry(ino).or_default().relist = true;
        }
        Ok(())
    }

    fn copy_block(&mut self, ino: u32, block: u64, lba: u32) -> Result<()> {
        let Some(new) = self.take_block() else {
            self.report
                .left
                .push(format!("inode {ino}: block {lba} has another owner, no space for a copy: dropped"));
            return Ok(());
        };
        if self.lost.contains(&(lba as u64)) {
            set_bit(&mut self.owned, new as u64, false);
            self.report
                .left
                .push(format!("inode {ino}: block {lba} has another owner and cannot be read: dropped"));
            return Ok(());
        }
        let bytes = self.read(lba as u64, Structure::Data)?;
        self.put(new as u64, Structure::Data, &bytes);
        self.say(format!("inode {ino}: block {lba} has another owner: copied to {new}"));
        let found = self.inode(ino)?;
        let at = found.pieces.partition_point(|p| p.block < block);
        found.pieces.insert(at, Piece { block, lba: new, len: 1 });
        Ok(())
    }
}
