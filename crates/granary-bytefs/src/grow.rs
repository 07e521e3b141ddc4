//! Growing: a segment behind the end of the file system, on a drive that has become larger, while it is in
//! use or not.
//!
//! ```text
//!   1  bitmaps of the segment, at its front     nobody reads them yet
//!   2  block 0: the segment, "growing"          the file system has the new size from here on
//!   3  bits that the last old bitmap blocks had beyond the end: free, in one transaction, committed
//!   4  copies: the segment                      block 0: no longer "growing"
//!   5  allocators                               the space is used
//! ```
//!
//! A power failure before 2 leaves the old size, one after it the new size: mounting finds "growing" and does
//! 3 and 4 (once more). Nothing of the segment is in use before 5, so doing them twice takes nothing back.
//!
//! It does *not* shrink, and does not move anything.

use crate::core::Core;
use crate::journal::{Bitmap, Tx};
use crate::layout::{Geometry, Segment, Superblock, bitmap, line};
use crate::space::{Run, Space};
use crate::supers::{write_copies, write_superblock};
use granary_device::{Port, Structure};
use granary_fs::{FsError, Result};
use granary_units::{Lpa, PAGE_SIZE, Page};
use parking_lot::Mutex;
use std::ops::Range;
use zerocopy::little_endian::U32;

/// The bits of a segment in the bitmap block where the old ones end: those to become free. The metadata at
/// the segment's front and its copy of the superblock stay in use.
fn slack(which: Bitmap, s: &Segment) -> Option<Range<u64>> {
    let (from, to) = match which {
        Bitmap::Inodes => (s.first_inode, s.inodes),
        Bitmap::Blocks => (s.data, s.copy()),
    };
    let old = if which == Bitmap::Inodes { s.first_inode } else { s.start };
    let end = (bitmap::blocks_for(old) * bitmap::BITS_PER_BLOCK).min(to);
    (from < end).then_some(from..end)
}

/// Writes the bitmap blocks that a segment brings; its inode table is garbage as any inode that is not in
/// use.
fn write_bitmaps(port: &Port, s: &Segment) -> Result<()> {
    let areas = [
        (s.start, s.first_inode, s.inodes, s.first_inode..s.inodes),
        (s.block_bitmap, s.start, s.end, s.data..s.copy()),
    ];
    for (area, old, bits, free) in areas {
        let first = bitmap::blocks_for(old);
        for n in first..bitmap::blocks_for(bits) {
            let (from, to) = (n * bitmap::BITS_PER_BLOCK, (n + 1) * bitmap::BITS_PER_BLOCK);
            let mut bytes = [0; PAGE_SIZE];
            let (a, b) = (free.start.clamp(from, to), free.end.clamp(from, to));
            bitmap::flip(&mut bytes, 0, a - from, true);
            bitmap::flip(&mut bytes, b - from, to - b, true);
            let at = area + n - first;
            line::seal(&mut bytes, at, u64::MAX);
            port.write(Lpa(at), &[Page::from_bytes(&bytes)], Structure::Bitmap)?;
        }
    }
    Ok(())
}

/// Finishes the growth that a superblock says is under way; the file system is not mounted and recovered.
///
/// # Errors
/// Of the drive.
pub fn finish(port: &Port, g: &Geometry, sb: &mut Superblock) -> Result<()> {
    let Some(s) = g.segments().next_back() else { return Ok(()) };
    let _step = granary_sim::step("bytefs: a mount finishes a growth");
    for which in [Bitmap::Inodes, Bitmap::Blocks] {
        if let Some(bits) = slack(which, s) {
            let n = bits.start / bitmap::BITS_PER_BLOCK;
            let (at, _) = g.bitmap_block(which, n);
            let mut page = [Page::ZERO];
            port.read(Lpa(at), &mut page, Structure::Bitmap)?;
            let mut bytes = page[0].to_bytes();
            bitmap::flip(&mut bytes, bits.start % bitmap::BITS_PER_BLOCK, bits.end - bits.start, false);
            let changed = bitmap::line_mask(bits.start % bitmap::BITS_PER_BLOCK, bits.end - bits.start);
            line::seal(&mut bytes, at, changed);
            port.write(Lpa(at), &[Page::from_bytes(&bytes)], Structure::Bitmap)?;
        }
    }
    sb.growing = U32::ZERO;
    write_copies(port, sb)?;
    write_superblock(port, sb)
}

impl Core {
    /// See [`granary_fs::Space::grow`]. Beyond the drive's end the answer says whether a larger drive would
    /// be of use: `Invalid` if so, `NoSpace` if not.
    pub fn grow(&self, superblock: &Mutex<Superblock>, blocks: u64) -> Result<()> {
        let _one = self.growing.lock();
        self.journal.alive()?;
        let g = &self.geometry;
        // A drive may have more pages than addresses have bits.
        let blocks = blocks.min(u32::MAX as u64);
        if blocks <= g.blocks() {
            return if blocks == g.blocks() { Ok(()) } else { Err(FsError::Invalid) };
        }
        let segment = g.next_segment(blocks).ok_or(FsError::NoSpace)?;
        if blocks > self.port.drive().info().pages {
            return Err(FsError::Invalid);
        }
        let _step = granary_sim::step("bytefs: the file system grows");
        write_bitmaps(&self.port, &segment)?;
        self.port.flush()?;
        let mut sb = superblock.lock().with(&segment);
        self.journal.fatal(write_superblock(&self.port, &sb))?;
        self.journal.fatal(self.free_slack(&segment))?;
        sb.growing = U32::ZERO;
        self.journal.fatal(write_copies(&self.port, &sb).and_then(|()| write_superblock(&self.port, &sb)))?;
        *superblock.lock() = sb;
        self.journal.fatal(self.use_segment(segment))
    }

    /// Step 3.
    fn free_slack(&self, s: &Segment) -> Result<()> {
        let mut tx = Tx::new(self);
        if let Some(bits) = slack(Bitmap::Inodes, s) {
            tx.free_inodes(bits);
        }
        if let Some(bits) = slack(Bitmap::Blocks, s) {
            let run = Run { lba: bits.start as u32, len: (bits.end - bits.start) as u32 };
            tx.free_blocks(run, false);
        }
        let seq = tx.run(|| ())?;
        self.commit_to(seq)
    }

    /// Step 5.
    fn use_segment(&self, s: Segment) -> Result<()> {
        let had = [Bitmap::Inodes, Bitmap::Blocks].map(|which| self.geometry.bitmap_blocks(which));
        self.geometry.add(s);
        for (which, had) in [Bitmap::Inodes, Bitmap::Blocks].into_iter().zip(had) {
            for n in had..self.geometry.bitmap_blocks(which) {
                let block = self.cache.get(Lpa(self.geometry.bitmap_block(which, n).0), Structure::Bitmap)?;
                block.pin();
                match which {
                    Bitmap::Inodes => self.inode_bitmap.write().push(block),
                    Bitmap::Blocks => self.block_bitmap.write().push(block),
                }
            }
        }
        self.inodes.lock().grow(s.inodes, &[]);
        let taken = [s.fixed(), s.copy()..s.end];
        self.space.grow(s.end, &taken, Space::to_keep(self.geometry.data_blocks()));
        Ok(())
    }
}
