//! [`Dat`]: disk address translation: where virtual blocks lie, and which checkpoints have them.
//!
//! ```text
//!   entry 32 B:  address 8 | first checkpoint 8 | first checkpoint without it 8 (all ones: in use) | 0 8
//! ```
//!
//! A block that is written gets a new virtual number, and its old one ends; it stays readable for the
//! checkpoints before. When the cleaner moves a block only its address changes here. DAT's own blocks have no
//! virtual numbers: its map holds addresses.
//!
//! Source: reference/nilfs2.md section 5.1; numbers are looked for as by the kernel
//! (`nilfs_btree_find_target_v`, `nilfs_dat_prepare_update`): behind the block before, behind the old one,
//! else in an eighth of the group that the inode chooses.

use crate::buffers::Buffers;
use crate::counts::Counts;
use crate::groups::{GROUP, Groups};
use crate::layout::{corrupt, le64, put64};
use crate::media::Media;
use crate::tree::Blocks;
use granary_device::Structure;
use granary_fs::Result;
use granary_units::Page;

/// Bytes of an entry.
pub(crate) const ENTRY: usize = 32;
/// `end` of what is in use.
pub(crate) const IN_USE: u64 = u64::MAX;
/// Parts of a group that inodes are spread over (NILFS_BMAP_GROUP_DIV).
const PARTS: u64 = 8;

/// An entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DatEntry {
    /// Where the block lies; 0: nowhere yet.
    pub at: u64,
    /// First checkpoint that has it.
    pub start: u64,
    /// First checkpoint that does not.
    pub end: u64,
}

impl DatEntry {
    pub fn parse(b: &[u8]) -> DatEntry {
        DatEntry { at: le64(b, 0), start: le64(b, 8), end: le64(b, 16) }
    }

    fn store(&self, b: &mut [u8]) {
        put64(b, 0, self.at);
        put64(b, 8, self.start);
        put64(b, 16, self.end);
        put64(b, 24, 0);
    }

    pub fn is_in_use(&self) -> bool {
        self.end == IN_USE
    }
}

/// Reads by address.
pub(crate) struct Physical<'a>(pub &'a Media);

impl Blocks for Physical<'_> {
    fn load(&mut self, ptr: u64, what: Structure) -> Result<Page> {
        self.0.read(ptr, what)
    }
}

/// Reads by virtual number.
pub(crate) struct Virtual<'a> {
    pub media: &'a Media,
    pub dat: &'a mut Dat,
}

impl Blocks for Virtual<'_> {
    fn load(&mut self, ptr: u64, what: Structure) -> Result<Page> {
        let at = self.dat.address(ptr, self.media)?;
        self.media.read(at, what)
    }
}

/// See the module.
pub(crate) struct Dat {
    pub file: Buffers,
    pub groups: Groups,
    /// Blocks of segments that entries are of; `None`: nobody has asked yet.
    pub counts: Option<Counts>,
    /// Times that they were counted from nothing.
    pub walks: u64,
}

impl Dat {
    pub fn new(file: Buffers, blocks: u64) -> Dat {
        // Each number in use has a block, and ended ones go when their segment is cleaned: a quarter more is
        // for those that have no place yet.
        let (most, dense) = ((2 * blocks).div_ceil(GROUP) + 1, blocks + blocks / 4);
        Dat { file, groups: Groups { entry: ENTRY, most, dense }, counts: None, walks: 0 }
    }

    /// An entry.
    ///
    /// # Errors
    /// `Corrupt` where there can be none; the drive's, as below.
    pub fn entry(&mut self, n: u64, media: &Media) -> Result<DatEntry> {
        if n / GROUP >= self.groups.most {
            return Err(corrupt(format!("virtual block {n}")));
        }
        let (block, at) = self.groups.place(n);
        Ok(self.file.block(block, &mut Physical(media))?.with_bytes(|b| DatEntry::parse(&b[at..])))
    }

    /// Where a block lies.
    pub fn address(&mut self, n: u64, media: &Media) -> Result<u64> {
        match self.entry(n, media)?.at {
            0 => Err(corrupt(format!("virtual block {n} lies nowhere"))),
            at => Ok(at),
        }
    }

    fn change(&mut self, n: u64, entry: DatEntry, media: &Media) -> Result<()> {
        let (block, at) = self.groups.place(n);
        let b = self.file.change(block, &mut Physical(media))?;
        if let Some(counts) = &mut self.counts {
            counts.change(&DatEntry::parse(&b[at..]), &entry);
        }
        entry.store(&mut b[at..]);
        Ok(())
    }

    /// Where a block of this inode, without others beside it, looks for a number: in an eighth of the first
    /// group, or of the part of it that is kept dense. The kernel spreads over all of it: on a drive of some
    /// MiB each cleaning would then change more blocks of DAT than it frees.
    pub fn target(&self, ino: u64) -> u64 {
        ino % PARTS * (GROUP.min(self.groups.dense) / PARTS)
    }

    /// A new number, from `cno` on; its block has no place yet.
    pub fn begin(&mut self, target: u64, cno: u64, media: &Media) -> Result<u64> {
        // 0 is no pointer.
        let n = self.groups.take(&mut self.file, target.max(1), &mut Physical(media))?;
        self.change(n, DatEntry { at: 0, start: cno, end: IN_USE }, media)?;
        Ok(n)
    }

    /// Nothing from `cno` on has this block any more; `dead`: no checkpoint needs it either.
    pub fn end(&mut self, n: u64, cno: u64, dead: bool, media: &Media) -> Result<()> {
        let e = self.entry(n, media)?;
        if !e.is_in_use() || e.start > cno {
            return Err(corrupt(format!("virtual block {n} ends at {cno}, but is {e:?}")));
        }
        if e.at == 0 {
            return self.free(n, media);
        }
        self.change(n, DatEntry { end: if dead { e.start } else { cno }, ..e }, media)
    }

    /// The number can be given to another block.
    pub fn free(&mut self, n: u64, media: &Media) -> Result<()> {
        self.groups.mark(&mut self.file, n, false, &mut Physical(media))?;
        self.change(n, DatEntry::default(), media)
    }

    /// The entry will change: its block is in the next log.
    pub fn touch(&mut self, n: u64, media: &Media) -> Result<()> {
        let (block, _) = self.groups.place(n);
        self.file.change(block, &mut Physical(media)).map(drop)
    }

    /// The block has a place.
    pub fn put(&mut self, n: u64, at: u64, media: &Media) -> Result<()> {
        let e = self.entry(n, media)?;
        self.change(n, DatEntry { at, ..e }, media)
    }

    /// A block or node of the DAT has another place.
    pub fn moved(&mut self, before: u64, after: u64) {
        if let Some(counts) = &mut self.counts {
            counts.move_dat(before, after);
        }
    }

    /// Every entry in use, ended ones too.
    pub fn walk(&mut self, media: &Media, tell: &mut dyn FnMut(u64, DatEntry)) -> Result<()> {
        let (groups, mut from) = (self.groups, Physical(media));
        for group in 0..groups.most {
            if groups.used(&mut self.file, group, &mut from)? == 0 {
                continue;
            }
            let bitmap = self.file.block(groups.bitmap(group), &mut from)?.to_bytes();
            for part in 0..GROUP / 128 {
                let bits = part as usize * 16..(part as usize + 1) * 16;
                if bitmap[bits].iter().all(|b| *b == 0) {
                    continue;
                }
                let first = group * GROUP + part * 128;
                let (block, _) = groups.place(first);
                self.file.block(block, &mut from)?.with_bytes(|b| {
                    // Number 0 is kept: it is no pointer.
                    for i in (0..128).filter(|i| first + i > 0 && crate::groups::bit(&bitmap, part * 128 + i))
                    {
                        tell(first + i, DatEntry::parse(&b[i as usize * ENTRY..]));
                    }
                });
            }
        }
        Ok(())
    }
}
