//! Writing: the decisions as blocks (directories, extents, records, bitmaps), and the order of their writes.

use super::names::Entry;
use super::{Bytes, Piece, Repair, bit, set_bit};
use crate::journal::Bitmap;
use crate::layout::{INODE_SIZE, SLOT_SIZE, SLOTS_PER_BLOCK, bitmap, dentry, extent, inode, line, xattr};
use crate::mkfs::ROOT;
use crate::truncate::blocks_of;
use granary_device::Structure;
use granary_fs::{FileKind, Result};
use granary_units::{LINE_SIZE, Lpa, PAGE_SIZE, Page};
use zerocopy::IntoBytes;

impl Repair<'_> {
    /// Link counts, parents, types, blocks beyond ends.
    pub(super) fn settle(&mut self) -> Result<()> {
        let all: Vec<u32> = self.inodes.keys().copied().collect();
        for ino in all {
            let found = self.inode(ino)?;
            let kind = found.kind.unwrap_or(FileKind::File);
            let is_dir = kind == FileKind::Dir;
            let expect = if is_dir { 2 + found.subdirs } else { found.names };
            let parent = match (is_dir, ino) {
                (true, ROOT) => ROOT,
                (true, _) => found.parent,
                _ => 0,
            };
            let had = (found.record.nlink.get(), found.record.parent.get());
            let is_new = found.record.nlink.get() == 0 && is_dir;
            found.record.nlink.set(expect);
            found.record.parent.set(parent);
            found.record.mode.set((kind.code() as u16) << 12 | found.record.mode.get() & 0o7777);
            found.changed |= had != (expect, parent);
            if had.0 != expect && !is_new {
                self.say(format!("inode {ino} had {} links, {expect} are right", had.0));
            }
            if had.1 != parent && !is_new {
                self.say(format!("inode {ino}: its parent was {}, {parent} is right", had.1));
            }
            self.settle_size(ino, kind)?;
        }
        Ok(())
    }

    fn settle_size(&mut self, ino: u32, kind: FileKind) -> Result<()> {
        let found = self.inode(ino)?;
        let size = found.record.size.get();
        // The type may be known by a name alone: then nobody has looked whether the target can be a short
        // one.
        let is_short = kind == FileKind::Symlink && found.record.slots.get() == 0;
        let most = match kind {
            FileKind::Symlink if is_short => found.target_len(),
            FileKind::Symlink => PAGE_SIZE as u64,
            _ => i64::MAX as u64,
        };
        if kind != FileKind::Dir && size > most {
            found.record.size.set(most);
            found.changed = true;
            self.say(format!("inode {ino} had {size} bytes: cut to {most}"));
        }
        if kind != FileKind::File {
            return Ok(());
        }
        let end = blocks_of(self.inode(ino)?.record.size.get());
        for p in self.inode(ino)?.pieces.clone() {
            for i in (0..p.len).filter(|&i| p.block + i as u64 >= end) {
                let lba = (p.lba + i) as u64;
                if self.read(lba, Structure::Data)?.iter().any(|&b| b != 0) {
                    self.put(lba, Structure::Data, &[0; PAGE_SIZE]);
                    self.say(format!("inode {ino}: block {lba} beyond its end was not zero"));
                }
            }
        }
        Ok(())
    }

    pub(super) fn encode(&mut self) -> Result<()> {
        let lists: Vec<(u32, bool)> = self.dirs.iter().map(|(&ino, d)| (ino, d.relist)).collect();
        for (ino, relist) in lists {
            if relist { self.encode_dir(ino)? } else { self.edit_dir(ino)? }
        }
        let all: Vec<u32> = self.inodes.keys().copied().collect();
        for ino in all {
            if self.inode(ino)?.rewrite_xattrs {
                self.encode_xattrs(ino)?;
            }
            if self.inode(ino)?.remap {
                self.encode_map(ino)?;
            }
            if self.inode(ino)?.changed {
                self.encode_record(ino)?;
            }
        }
        self.encode_bitmaps()
    }

    /// Writes a directory anew, into blocks that nobody owns as long as there are enough.
    fn encode_dir(&mut self, ino: u32) -> Result<()> {
        let mut entries = std::mem::take(&mut self.dirs.entry(ino).or_default().entries);
        entries.retain(|e| !e.gone);
        let (starts, end) = pack(&entries);
        let blocks = (end as u64).div_ceil(SLOTS_PER_BLOCK as u64);
        let old: Vec<u32> = self.inode(ino)?.pieces.iter().flat_map(|p| p.lba..p.lba + p.len).collect();
        let mut lbas = Vec::new();
        while (lbas.len() as u64) < blocks {
            match self.take_block() {
                Some(lba) => lbas.push(lba),
                None => break,
            }
        }
        if (lbas.len() as u64) < blocks {
            // In place, then: a crash may cost names now.
            lbas.drain(..).for_each(|lba| set_bit(&mut self.owned, lba as u64, false));
            self.cursor = self.g.data;
            lbas = old.iter().copied().take(blocks as usize).collect();
            while (lbas.len() as u64) < blocks {
                match self.take_block() {
                    Some(lba) => lbas.push(lba),
                    None => {
                        self.report.left.push(format!("directory {ino}: no space for all of its names"));
                        break;
                    }
                }
            }
        }
        let mut images = vec![[0u8; PAGE_SIZE]; lbas.len()];
        let put = |slot: u32, slots: u32, entry: Option<&Entry>, images: &mut Vec<Bytes>| {
            let n = (slot / SLOTS_PER_BLOCK) as usize;
            let Some(&lba) = lbas.get(n) else { return };
            let at = (slot % SLOTS_PER_BLOCK) as usize * SLOT_SIZE;
            let area = &mut images[n][at..at + slots as usize * SLOT_SIZE];
            let line = dentry::line_of(lba as u64, slot);
            match entry {
                Some(e) => dentry::write_entry(area, line, e.child, e.kind, &e.name),
                None => dentry::write_free(area, line, slots),
            }
        };
        let mut at = 0;
        for (entry, &start) in entries.iter().zip(&starts) {
            if start > at {
                put(at, start - at, None, &mut images);
            }
            at = start + dentry::slots_for(entry.name.len());
            put(start, at - start, Some(entry), &mut images);
        }
        for (lba, image) in lbas.iter().zip(&images) {
            self.put(*lba as u64, Structure::Dentry, image);
        }
        for lba in old.iter().filter(|lba| !lbas.contains(lba)) {
            set_bit(&mut self.owned, *lba as u64, false);
        }
        let written = end.min(lbas.len() as u32 * SLOTS_PER_BLOCK);
        let found = self.inode(ino)?;
        found.pieces =
            lbas.iter().enumerate().map(|(n, &lba)| Piece { block: n as u64, lba, len: 1 }).collect();
        found.record.size.set(written as u64 * SLOT_SIZE as u64);
        (found.remap, found.changed) = (true, true);
        Ok(())
    }

    fn encode_xattrs(&mut self, ino: u32) -> Result<()> {
        let found = self.inode(ino)?;
        let (string, old) = (found.xattrs.clone(), std::mem::take(&mut found.xattr_blocks));
        old.iter().for_each(|&lba| set_bit(&mut self.owned, lba as u64, false));
        let count = xattr::blocks_for(string.len()).unwrap_or(0);
        let lbas: Vec<u32> = (0..count).map_while(|_| self.take_block()).collect();
        let head = match lbas.len() == count {
            true => lbas.first().copied().unwrap_or(0),
            false => 0,
        };
        if head == 0 {
            lbas.iter().for_each(|&lba| set_bit(&mut self.owned, lba as u64, false));
            self.report.left.push(format!("inode {ino}: no space for its extended attributes: dropped"));
        } else {
            let mut images = vec![[0; PAGE_SIZE]; count];
            xattr::write(&string, &lbas, &mut images);
            for (lba, image) in lbas.iter().zip(&images) {
                self.put(*lba as u64, Structure::Inode, image);
            }
            self.say(format!("inode {ino}: its extended attributes shared blocks: written anew"));
        }
        let found = self.inode(ino)?;
        found.record.xattr.set(head);
        found.changed = true;
        Ok(())
    }

    /// Writes an inode's extents anew, into extent and index blocks that nobody owns.
    fn encode_map(&mut self, ino: u32) -> Result<()> {
        let found = self.inode(ino)?;
        let mut merged: Vec<Piece> = Vec::new();
        for &p in &found.pieces {
            match merged.last_mut() {
                Some(m) if (m.block + m.len as u64, m.lba.wrapping_add(m.len)) == (p.block, p.lba) => {
                    m.len += p.len
                }
                _ => merged.push(p),
            }
        }
        let old: Vec<u32> = found.slot_blocks.drain(..).chain(found.index_blocks.drain(..)).collect();
        let blocks = extent::blocks_for(merged.len() as u32);
        let indexes = blocks.div_ceil(extent::POINTERS_PER_INDEX);
        let mut lbas: Vec<u32> = (0..blocks + indexes).map_while(|_| self.take_block()).collect();
        if (lbas.len() as u32) < blocks + indexes {
            // Not safe against a crash, but better than nothing.
            lbas.extend(old.iter().take((blocks + indexes) as usize - lbas.len()));
        }
        if (lbas.len() as u32) < blocks + indexes {
            let lost = merged.split_off(extent::INLINE_SLOTS as usize);
            self.report
                .left
                .push(format!("inode {ino}: no space for a list of {} extents: dropped", lost.len()));
            lost.iter()
                .flat_map(|p| p.lba..p.lba + p.len)
                .for_each(|n| set_bit(&mut self.owned, n as u64, false));
            lbas.drain(..).for_each(|lba| set_bit(&mut self.owned, lba as u64, false));
        }
        for lba in old.iter().filter(|lba| !lbas.contains(lba)) {
            set_bit(&mut self.owned, *lba as u64, false);
        }
        let extents: Vec<extent::Extent> =
            merged.iter().map(|p| extent::Extent::new(p.block, p.lba, p.len)).collect();
        let (inline, listed) = extents.split_at(extents.len().min(extent::INLINE_SLOTS as usize));
        let (index_lbas, slot_lbas) = lbas.split_at(lbas.len().min(indexes as usize));
        for (part, &lba) in listed.chunks(extent::SLOTS_PER_EXTENT_BLOCK as usize).zip(slot_lbas) {
            let mut bytes = [0; PAGE_SIZE];
            part.iter().enumerate().for_each(|(n, e)| e.write_to(&mut bytes, n as u32));
            line::seal(&mut bytes, lba as u64, u64::MAX);
            self.put(lba as u64, Structure::DataPointer, &bytes);
        }
        for (n, part) in slot_lbas.chunks(extent::POINTERS_PER_INDEX as usize).enumerate() {
            let mut bytes = [0; PAGE_SIZE];
            part.iter().enumerate().for_each(|(i, &lba)| extent::set_pointer(&mut bytes, i as u32, lba));
            let next = index_lbas.get(n + 1).copied().unwrap_or(0);
            extent::set_pointer(&mut bytes, extent::POINTERS_PER_INDEX, next);
            line::seal(&mut bytes, index_lbas[n] as u64, u64::MAX);
            self.put(index_lbas[n] as u64, Structure::DataPointer, &bytes);
        }
        let index = index_lbas.first().copied().unwrap_or(0);
        let found = self.inode(ino)?;
        found.pieces = merged;
        let mut slots = [extent::Extent::default(); extent::INLINE_SLOTS as usize];
        slots[..inline.len()].copy_from_slice(inline);
        found.record.set_inline(&slots);
        found.record.slots.set(extents.len() as u32);
        found.record.index.set(index);
        found.changed = true;
        // Without an extent it is a short target, which lies in the inode: there is none.
        let size = found.record.size.get();
        if found.kind == Some(FileKind::Symlink) && extents.is_empty() && size > 0 {
            found.record.size.set(0);
            self.say(format!("inode {ino}: its target of {size} bytes is lost: empty"));
        }
        Ok(())
    }

    fn encode_record(&mut self, ino: u32) -> Result<()> {
        let record = self.inode(ino)?.record;
        let (lpa, at) = self.g.inode_place(ino);
        self.change(lpa.0, Structure::Inode, |b| {
            b[at..at + INODE_SIZE].copy_from_slice(record.as_bytes());
            line::seal(b, lpa.0, inode::LINES << (at / LINE_SIZE));
        })
    }

    fn encode_bitmaps(&mut self) -> Result<()> {
        let g = std::sync::Arc::clone(&self.g);
        self.stray_blocks.iter().for_each(|&n| set_bit(&mut self.owned, n, false));
        let mut inodes = vec![0; self.inode_bits.len()];
        set_bit(&mut inodes, 0, true);
        self.inodes.keys().for_each(|&ino| set_bit(&mut inodes, ino as u64, true));
        let mut blocks = self.owned.clone();
        blocks.resize(self.block_bits.len(), 0);
        let had = [std::mem::take(&mut self.inode_bits), std::mem::take(&mut self.block_bits)];
        let areas = [(Bitmap::Inodes, g.inodes(), "inode"), (Bitmap::Blocks, g.blocks(), "block")];
        for (((which, bits, name), mut words), mut had) in areas.into_iter().zip([inodes, blocks]).zip(had) {
            let per_block = (bitmap::BITS_PER_BLOCK / 64) as usize;
            // Of what could not be read it is not known what was wrong.
            for (n, part) in words.chunks(per_block).enumerate() {
                if self.lost.contains(&g.bitmap_block(which, n as u64).0) {
                    had[n * per_block..][..part.len()].copy_from_slice(part);
                }
            }
            let wrong = |had_is: bool| {
                (0..bits)
                    .filter(|&n| bit(&had, n) == had_is && bit(&words, n) != had_is)
                    .collect::<Vec<u64>>()
            };
            let (leaked, missing) = (wrong(true), wrong(false));
            let more = |list: &[u64]| {
                if list.len() > 1 { format!(" and {} more", list.len() - 1) } else { String::new() }
            };
            if let Some(n) = leaked.first() {
                self.say(format!("{name} {n}{} marked in use without an owner: free now", more(&leaked)));
            }
            if let Some(n) = missing.first() {
                self.say(format!("{name} {n}{} in use but marked free: marked now", more(&missing)));
            }
            (bits..words.len() as u64 * 64).for_each(|n| set_bit(&mut words, n, true));
            for (n, part) in words.chunks(per_block).enumerate() {
                let (lba, _) = g.bitmap_block(which, n as u64);
                let bytes = self.read(lba, Structure::Bitmap)?;
                let same = bitmap::words(&bytes).eq(part.iter().copied());
                if !same || line::damaged_or_zero(&bytes, lba) != 0 {
                    let mut bytes = [0; PAGE_SIZE];
                    bitmap::put_words(&mut bytes, part);
                    line::seal(&mut bytes, lba, u64::MAX);
                    self.put(lba, Structure::Bitmap, &bytes);
                }
            }
        }
        Ok(())
    }

    /// Writes everything: what inodes point to, inodes, and then what follows from them.
    pub(super) fn write_out(&mut self) -> Result<()> {
        let rank = |lba: u64| match self.g.is_metadata(lba) {
            false => 0,
            true if self.out[&lba].0 == Structure::Inode => 1,
            true => 2,
        };
        let mut order: Vec<u64> = self.out.keys().copied().collect();
        order.sort_by_key(|&lba| (rank(lba), lba));
        let mut last = 0;
        for lba in order {
            if rank(lba) != last {
                last = rank(lba);
                self.port.flush()?;
            }
            let (what, bytes) = &self.out[&lba];
            self.port.write(Lpa(lba), &[Page::from_bytes(bytes)], *what)?;
        }
        Ok(self.port.flush()?)
    }
}

/// The first slot of each entry, none across a block, and the end.
fn pack(entries: &[Entry]) -> (Vec<u32>, u32) {
    let mut at = 0;
    let start = |e: &Entry| {
        let slots = dentry::slots_for(e.name.len());
        let left = SLOTS_PER_BLOCK - at % SLOTS_PER_BLOCK;
        let start = if left < slots { at + left } else { at };
        at = start + slots;
        start
    };
    (entries.iter().map(start).collect(), at)
}
