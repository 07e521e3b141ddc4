//! The checkpoint slots: up to where each journal is digested. Two, written in turns; the newer whole one
//! counts.
//!
//! ```text
//!   0 "OrchFScp" 8 | 8 generation 8 | 16 mounts 8 | 24 clean 4 | 28 CRC-32C (itself zero) 4
//!   32 end of used inodes 8 | 40 zero
//!   64 head of journal 0, 8 | head of journal 1, 8 | ...
//! ```

use crate::geometry::PAGE;
use crate::layout::superblock::MOST_JOURNALS;
use granary_device::Structure;
use granary_fs::Result;
use granary_pm::bytes::{put_u32, put_u64, u32_at, u64_at};
use granary_pm::{Pm, corrupt};

const SIZE: usize = 64 + 8 * MOST_JOURNALS as usize;
const MAGIC: u64 = u64::from_le_bytes(*b"OrchFScp");
const CRC: usize = 28;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Counts the slots that were written.
    pub generation: u64,
    /// Counts the mounts.
    pub mounts: u64,
    /// It was unmounted: every journal is digested.
    pub clean: bool,
    /// No inode from this number on was ever used.
    pub inodes_end: u64,
    /// Position in each journal behind the last group that is digested.
    pub heads: Vec<u64>,
}

impl Checkpoint {
    fn bytes(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        put_u64(&mut b, 0, MAGIC);
        put_u64(&mut b, 8, self.generation);
        put_u64(&mut b, 16, self.mounts);
        put_u32(&mut b, 24, u32::from(self.clean));
        put_u64(&mut b, 32, self.inodes_end);
        self.heads.iter().enumerate().for_each(|(i, head)| put_u64(&mut b, 64 + 8 * i, *head));
        let crc = crc32c::crc32c(&b);
        put_u32(&mut b, CRC, crc);
        b
    }

    fn parse(b: &[u8; SIZE], journals: u64) -> Option<Checkpoint> {
        let mut plain = *b;
        put_u32(&mut plain, CRC, 0);
        if u64_at(b, 0) != MAGIC || u32_at(b, CRC) != crc32c::crc32c(&plain) {
            return None;
        }
        Some(Checkpoint {
            generation: u64_at(b, 8),
            mounts: u64_at(b, 16),
            clean: u32_at(b, 24) != 0,
            inodes_end: u64_at(b, 32),
            heads: (0..journals as usize).map(|i| u64_at(b, 64 + 8 * i)).collect(),
        })
    }

    /// Writes the next slot; durable when it returns.
    ///
    /// # Errors
    /// The drive's.
    pub fn write(&mut self, pm: &Pm) -> Result<()> {
        let next = Checkpoint { generation: self.generation + 1, ..self.clone() };
        let mut b = pm.batch();
        b.put((1 + next.generation % 2) * PAGE, &next.bytes(), Structure::Superblock)?;
        b.fence()?;
        self.generation = next.generation;
        Ok(())
    }

    /// The newer whole slot.
    ///
    /// # Errors
    /// `Corrupt` where neither is whole; the drive's.
    pub fn read(pm: &Pm, journals: u64) -> Result<Checkpoint> {
        let mut newest: Option<Checkpoint> = None;
        for slot in [1, 2] {
            let mut b = [0; SIZE];
            pm.load(slot * PAGE, &mut b, Structure::Superblock)?;
            let found = Checkpoint::parse(&b, journals);
            if found.as_ref().map(|c| c.generation) > newest.as_ref().map(|c| c.generation) {
                newest = found;
            }
        }
        newest.ok_or_else(|| corrupt("neither checkpoint slot is whole"))
    }
}
