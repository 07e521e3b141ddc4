//! Reading: every inode that the bitmap calls used, or may have called so, with its extents and attributes.

use super::{Bytes, Found, Piece, Repair, bit};
use crate::journal::Bitmap;
use crate::layout::{INODE_SIZE, INODES_PER_BLOCK, InodeRecord, bitmap, extent, inode, line, orphan, xattr};
use crate::mkfs::ROOT;
use granary_device::Structure;
use granary_fs::{FileKind, Result};
use granary_units::LINE_SIZE;

impl Repair<'_> {
    pub(super) fn read_all(&mut self) -> Result<()> {
        let (inode_bits, doubtful) = self.bitmap(Bitmap::Inodes, "inode")?;
        let (block_bits, _) = self.bitmap(Bitmap::Blocks, "block")?;
        (self.inode_bits, self.block_bits) = (inode_bits, block_bits);
        for n in 0..self.g.inodes() / INODES_PER_BLOCK {
            let first = n * INODES_PER_BLOCK;
            let wanted = |i: u64| {
                let group_doubtful = doubtful.contains(&(i / bitmap::BITS_PER_GROUP));
                (i > 0)
                    .then_some(group_doubtful)
                    .filter(|&d| d || bit(&self.inode_bits, i) || i == ROOT as u64)
            };
            let some: Vec<(u64, bool)> =
                (first..first + INODES_PER_BLOCK).filter_map(|i| Some((i, wanted(i)?))).collect();
            if some.is_empty() {
                continue;
            }
            let lba = self.g.table_block(n).0.0;
            let bytes = self.read(lba, Structure::Inode)?;
            let lost = self.lost_lines(lba, Structure::Inode)?;
            let (some, gone): (Vec<_>, Vec<_>) =
                some.into_iter().partition(|(i, _)| lost & inode::LINES << (2 * (i - first)) == 0);
            self.lose_inodes(lba, &gone);
            for (i, maybe) in some {
                self.read_inode(i as u32, maybe && i != ROOT as u64, &bytes)?;
            }
        }
        self.orphans()
    }

    /// Tells of inodes in use whose records cannot be read. The root directory is made anew.
    fn lose_inodes(&mut self, lba: u64, gone: &[(u64, bool)]) {
        let (Some((first, _)), Some((last, _))) = (gone.first(), gone.last()) else { return };
        self.lost_inodes = true;
        let maybe = if gone.iter().any(|(_, maybe)| *maybe) { " or may be" } else { "" };
        self.say(format!(
            "inode table: block {lba} cannot be read: what is{maybe} in use of inodes {first} to {last} is lost ({})",
            gone.len()
        ));
        if *first == ROOT as u64 {
            self.say("the root directory is lost: made anew".into());
            let blank = Found::new(self.blank_dir(0o755, 1), Some(FileKind::Dir));
            self.inodes.insert(ROOT, Found { reached: true, changed: true, ..blank });
            self.restored.insert(ROOT);
        }
    }

    /// A bitmap's words and the groups that are damaged.
    fn bitmap(&mut self, which: Bitmap, name: &str) -> Result<(Vec<u64>, Vec<u64>)> {
        let (mut words, mut doubtful) = (Vec::new(), Vec::new());
        for n in 0..self.g.bitmap_blocks(which) {
            let (at, _) = self.g.bitmap_block(which, n);
            let bytes = self.read(at, Structure::Bitmap)?;
            let lost = self.lost_lines(at, Structure::Bitmap)?;
            let bad = line::damaged_or_zero(&bytes, at) | lost;
            if self.lost.contains(&at) {
                self.say(format!("{name} bitmap: block {at} cannot be read: made anew"));
            } else if bad != 0 {
                let what = line::sentence(&format!("{name} bitmap"), at, bad);
                self.say(format!("{what}: made anew"));
            }
            doubtful.extend((0..64).filter(|l| bad >> l & 1 == 1).map(|l| n * 64 + l));
            words.extend(bitmap::words(&bytes));
        }
        Ok((words, doubtful))
    }

    fn orphans(&mut self) -> Result<()> {
        let lba = self.g.orphans;
        let bytes = self.read(lba, Structure::Superblock)?;
        let bad = line::damaged_or_zero(&bytes, lba) | self.lost_lines(lba, Structure::Superblock)?;
        if self.lost.contains(&lba) {
            self.say(format!("orphan table: block {lba} cannot be read: emptied"));
        } else if bad != 0 {
            self.say(format!("{}: emptied", line::sentence("orphan table", lba, bad)));
        }
        for place in 0..orphan::PLACES {
            let ino = orphan::get(&bytes, place);
            let damaged = bad & orphan::line_mask(place) != 0;
            if ino == 0 || damaged {
                continue;
            }
            match self.inodes.get_mut(&ino) {
                Some(found) => found.orphan = true,
                None => {
                    self.say(format!("place {place} of the orphan table named inode {ino}, which is free"))
                }
            }
        }
        if bytes.iter().any(|&b| b != 0) {
            self.put(lba, Structure::Superblock, &[0; granary_units::PAGE_SIZE]);
        }
        Ok(())
    }

    fn read_inode(&mut self, ino: u32, maybe: bool, table: &Bytes) -> Result<()> {
        let (lpa, at) = self.g.inode_place(ino);
        let record = InodeRecord::read(table, at);
        let bad = line::damaged(table, lpa.0, inode::LINES << (at / LINE_SIZE));
        let mut kind = record.kind();
        if maybe && (bad != 0 || kind.is_none() || record.nlink.get() == 0) {
            return Ok(());
        }
        if bad != 0 {
            let what = line::sentence(&format!("inode {ino}"), lpa.0, bad);
            self.say(format!("{what}: kept as far as it is plausible"));
        }
        if ino == ROOT && kind != Some(FileKind::Dir) {
            self.say("the root directory was no directory: made one".into());
            kind = Some(FileKind::Dir);
        }
        debug_assert!(at + INODE_SIZE <= table.len());
        let mut found = Found {
            doubtful: bad != 0,
            maybe,
            reached: ino == ROOT,
            changed: bad != 0 || kind != record.kind(),
            ..Found::new(record, kind)
        };
        let inline_target = kind == Some(FileKind::Symlink) && record.slots.get() == 0;
        if inline_target {
            self.check_target(ino, &mut found);
        } else {
            self.read_pieces(ino, &mut found)?;
        }
        self.read_xattrs(ino, &mut found)?;
        self.inodes.insert(ino, found);
        Ok(())
    }

    fn check_target(&mut self, ino: u32, found: &mut Found) {
        let size = found.record.size.get();
        if size > inode::INLINE_SIZE as u64 {
            let end = found.target_len();
            self.say(format!("inode {ino}: a short target of {size} bytes, cut to {end}"));
            found.record.size.set(end);
            found.changed = true;
        }
    }

    /// Extents in order of slots, as far as their lines and the chain of index blocks can be believed.
    fn read_pieces(&mut self, ino: u32, found: &mut Found) -> Result<()> {
        let slots = found.record.slots.get();
        let mut content: Vec<(extent::Extent, bool)> =
            found.record.inline().into_iter().take(slots as usize).map(|e| (e, !found.doubtful)).collect();
        let count = extent::blocks_for(slots) as usize;
        let mut next = found.record.index.get();
        while found.slot_blocks.len() < count {
            let left = count - found.slot_blocks.len();
            let n = left.min(extent::POINTERS_PER_INDEX as usize) as u32;
            let known = found.index_blocks.contains(&next);
            let bytes = match self.is_data(next, 1) && !known {
                true => self.read(next as u64, Structure::DataPointer)?,
                false => break,
            };
            let lines = extent::pointer_lines(n, left > n as usize);
            if line::damaged(&bytes, next as u64, lines) != 0 {
                break;
            }
            found.index_blocks.push(next);
            found.slot_blocks.extend((0..n).map(|i| extent::pointer(&bytes, i)));
            next = extent::pointer(&bytes, extent::POINTERS_PER_INDEX);
        }
        if found.slot_blocks.len() < count {
            self.say(format!(
                "inode {ino}: {slots} slots, but its index blocks are damaged: what they named is lost"
            ));
            found.remap = true;
        }
        for (i, lba) in found.slot_blocks.clone().into_iter().enumerate() {
            let left = (slots - extent::INLINE_SLOTS) as usize - i * extent::SLOTS_PER_EXTENT_BLOCK as usize;
            let n = left.min(extent::SLOTS_PER_EXTENT_BLOCK as usize) as u32;
            if !self.is_data(lba, 1) {
                self.say(format!("inode {ino}: extent block at {lba}: lost"));
                found.remap = true;
                continue;
            }
            let bytes = self.read(lba as u64, Structure::DataPointer)?;
            let bad = line::damaged(&bytes, lba as u64, extent::slot_lines(n));
            if self.lost.contains(&(lba as u64)) {
                self.say(format!("inode {ino}: extent block {lba} cannot be read: what it named is lost"));
                found.remap = true;
            } else if bad != 0 {
                let what = line::sentence(&format!("inode {ino}, extent block"), lba as u64, bad);
                self.say(format!("{what}: extents kept as far as they are plausible"));
                found.remap = true;
            }
            content.extend((0..n).map(|s| {
                let sure = bad >> (s / extent::SLOTS_PER_LINE) & 1 == 0;
                (extent::Extent::in_block(&bytes, s), sure)
            }));
        }
        self.keep_pieces(ino, found, &content);
        Ok(())
    }

    fn keep_pieces(&mut self, ino: u32, found: &mut Found, content: &[(extent::Extent, bool)]) {
        let mut kept: Vec<Piece> = Vec::new();
        for &(e, sure) in content {
            let piece = Piece { block: e.block.get(), lba: e.lba.get(), len: e.len.get() };
            if piece.len == 0 {
                continue;
            }
            let end = piece.block.checked_add(piece.len as u64).filter(|&end| end < 1 << 51);
            let marked = |p: &Piece| (p.lba..p.lba + p.len).all(|n| bit(&self.block_bits, n as u64));
            let fits = end.is_some() && self.is_data(piece.lba, piece.len) && (sure || marked(&piece));
            if fits {
                kept.push(piece);
            } else {
                self.say(format!("inode {ino}: {piece:?} cannot be: dropped"));
                found.remap = true;
            }
        }
        // Of extents that overlap the one in the lower slot stays.
        let mut order: Vec<usize> = (0..kept.len()).collect();
        order.sort_by_key(|&i| (kept[i].block, i));
        let mut end = 0;
        for i in order {
            let piece = kept[i];
            if piece.block < end {
                self.say(format!("inode {ino}: {piece:?} overlaps another extent: dropped"));
                found.remap = true;
                continue;
            }
            end = piece.block + piece.len as u64;
            found.pieces.push(piece);
        }
    }

    fn read_xattrs(&mut self, ino: u32, found: &mut Found) -> Result<()> {
        let head = found.record.xattr.get();
        if head == 0 {
            return Ok(());
        }
        let mut lbas = Vec::new();
        let mut string = None;
        if self.is_data(head, 1) {
            let bytes = self.read(head as u64, Structure::Inode)?;
            if let Some(count) = xattr::count(&bytes) {
                lbas = vec![head];
                lbas.extend(xattr::next_blocks(&bytes, count));
                if lbas.iter().all(|&lba| self.is_data(lba, 1)) {
                    let read = |&lba: &u32| self.read(lba as u64, Structure::Inode);
                    let blocks = lbas.iter().map(read).collect::<Result<Vec<Bytes>>>()?;
                    string = xattr::read(&blocks).ok();
                }
            }
        }
        match string {
            Some(string) => (found.xattr_blocks, found.xattrs) = (lbas, string),
            None => {
                self.say(format!("inode {ino}: its extended attributes are damaged: dropped"));
                found.record.xattr.set(0);
                found.changed = true;
            }
        }
        Ok(())
    }
}
