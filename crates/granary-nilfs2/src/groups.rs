//! [`Groups`]: entries of one size with bitmaps of those in use; the ifile and DAT are such files.
//!
//! ```text
//!   | descriptors of 1024 groups | bitmap | entries of group 0 ... | bitmap | entries of group 1 ... | ...
//!     used 4 B each                32,768 bits
//!   | descriptors | ...
//! ```
//!
//! Source: the kernel's `alloc.c` (`nilfs_palloc_*`); descriptors count used entries and not free ones, so
//! that a hole is an empty group.

use crate::buffers::Buffers;
use crate::layout::{BLOCK_SIZE, BlockBytes, corrupt, le32, put32};
use crate::tree::Blocks;
use granary_fs::{FsError, Result};

/// Entries of a group: the bits of a block.
pub(crate) const GROUP: u64 = BLOCK_SIZE as u64 * 8;
/// Groups that a block of descriptors has.
const DESCRIPTORS: u64 = BLOCK_SIZE as u64 / 4;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    /// Bytes of an entry.
    pub entry: usize,
    /// Groups at most.
    pub most: u64,
    /// Entries from here on are taken only where none before is free. So a file on a small drive stays dense.
    pub dense: u64,
}

/// Whether a bit is set.
pub(crate) fn bit(bytes: &BlockBytes, n: u64) -> bool {
    bytes[n as usize / 8] >> (n % 8) & 1 == 1
}

/// The first zero bit from `from` on.
fn zero_bit(bytes: &BlockBytes, from: u64) -> Option<u64> {
    let mut n = from;
    while n < GROUP {
        if n.is_multiple_of(8) && bytes[n as usize / 8] == 0xff {
            n += 8;
        } else if bit(bytes, n) {
            n += 1;
        } else {
            return Some(n);
        }
    }
    None
}

impl Groups {
    fn per_block(self) -> u64 {
        (BLOCK_SIZE / self.entry) as u64
    }

    fn group_blocks(self) -> u64 {
        1 + GROUP / self.per_block()
    }

    /// Block and byte of a group's descriptor.
    pub fn descriptor(self, group: u64) -> (u64, usize) {
        let block = group / DESCRIPTORS * (1 + DESCRIPTORS * self.group_blocks());
        (block, (group % DESCRIPTORS) as usize * 4)
    }

    /// Block of a group's bitmap.
    pub fn bitmap(self, group: u64) -> u64 {
        self.descriptor(group).0 + 1 + group % DESCRIPTORS * self.group_blocks()
    }

    /// Block and byte of an entry.
    pub fn place(self, n: u64) -> (u64, usize) {
        let block = self.bitmap(n / GROUP) + 1 + n % GROUP / self.per_block();
        (block, (n % self.per_block()) as usize * self.entry)
    }

    /// Entries in use in a group.
    pub fn used(self, file: &mut Buffers, group: u64, from: &mut dyn Blocks) -> Result<u32> {
        let (block, at) = self.descriptor(group);
        let used = file.block(block, from)?.with_bytes(|b| le32(b, at));
        if used as u64 <= GROUP {
            Ok(used)
        } else {
            Err(corrupt(format!("a group with {used} entries in use")))
        }
    }

    /// Whether an entry is in use.
    pub fn is_used(self, file: &mut Buffers, n: u64, from: &mut dyn Blocks) -> Result<bool> {
        if n / GROUP >= self.most {
            return Ok(false);
        }
        Ok(file.block(self.bitmap(n / GROUP), from)?.with_bytes(|b| bit(b, n % GROUP)))
    }

    /// Takes a free entry, the first from `target` on in its group, else elsewhere.
    ///
    /// # Errors
    /// `NoSpace` where all are in use.
    pub fn take(self, file: &mut Buffers, target: u64, from: &mut dyn Blocks) -> Result<u64> {
        let found = match self.look(file, target, self.dense.min(self.most * GROUP), from)? {
            None => self.look(file, target, self.most * GROUP, from)?,
            found => found,
        };
        let n = found.ok_or(FsError::NoSpace)?;
        self.mark(file, n, true, from)?;
        Ok(n)
    }

    /// The first free entry before `end`, from `target` on in its group, else elsewhere.
    fn look(self, file: &mut Buffers, target: u64, end: u64, from: &mut dyn Blocks) -> Result<Option<u64>> {
        let groups = end.div_ceil(GROUP).max(1);
        let first = target / GROUP % groups;
        for step in 0..groups {
            let group = (first + step) % groups;
            if self.used(file, group, from)? as u64 >= GROUP {
                continue;
            }
            let (len, start) = (GROUP.min(end - group * GROUP), if step == 0 { target % GROUP } else { 0 });
            let found = file.block(self.bitmap(group), from)?.with_bytes(|b| {
                let free = |at| zero_bit(b, at).filter(|n| *n < len);
                free(start).or_else(|| free(0))
            });
            match found {
                Some(n) => return Ok(Some(group * GROUP + n)),
                None if len == GROUP => {
                    return Err(corrupt(format!("group {group} has no free entry, its descriptor says")));
                }
                None => {}
            }
        }
        Ok(None)
    }

    /// Sets or clears the bit of an entry, which was not so.
    pub fn mark(self, file: &mut Buffers, n: u64, used: bool, from: &mut dyn Blocks) -> Result<()> {
        let (group, bit_of) = (n / GROUP, n % GROUP);
        let (desc, at) = self.descriptor(group);
        let (block, _) = self.place(n);
        file.block(block, from)?;
        file.block(desc, from)?;
        let map = file.change(self.bitmap(group), from)?;
        if bit(map, bit_of) == used {
            return Err(corrupt(format!("entry {n} of inode {} is in the wrong state", file.ino)));
        }
        map[bit_of as usize / 8] ^= 1 << (bit_of % 8);
        let b = file.change(desc, from)?;
        let count = le32(b, at);
        put32(b, at, if used { count + 1 } else { count.saturating_sub(1) });
        Ok(())
    }
}
