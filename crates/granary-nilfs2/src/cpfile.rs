//! The cpfile: the list of checkpoints.
//!
//! ```text
//!   block 0  header | 1 .. 20      block 1  21 .. 41      hole (all of them ended)   ...   the present one
//! ```
//!
//! A block without checkpoints is a hole, and nobody walks over holes. So the reads of a walk, and the size
//! of the file, follow the number of checkpoints that exist, not of those that ever existed.
//!
//! Source: the kernel's `nilfs_cpfile_delete_checkpoints`. It keeps a list of snapshots, too; here they are
//! looked for, from the newest checkpoint back, where the header says that there are any.

use crate::dat::Virtual;
use crate::layout::CPFILE_INO;
use crate::layout::checkpoint::{self, Checkpoint, PER_BLOCK, SNAPSHOT, VALID};
use crate::media::Media;
use crate::state::State;
use granary_fs::Result;
use std::collections::{BTreeMap, BTreeSet};

impl State {
    /// A checkpoint's entry; `None`: there is none.
    ///
    /// # Errors
    /// `Corrupt`; the drive's, here and below.
    pub fn checkpoint(&mut self, cno: u64, media: &Media) -> Result<Option<Checkpoint>> {
        debug_assert_eq!(self.cpfile.ino, CPFILE_INO);
        let (block, at) = checkpoint::place(cno);
        if cno == 0 || cno >= self.cno {
            return Ok(None);
        }
        let mut from = Virtual { media, dat: &mut self.dat };
        self.cpfile
            .block(block, &mut from)?
            .with_bytes(|b| Checkpoint::parse(&b[at..at + checkpoint::CHECKPOINT]))
    }

    /// Blocks that are there, in order.
    fn cpfile_blocks(&mut self, media: &Media) -> Result<Vec<u64>> {
        let mut all: BTreeSet<u64> = self.cpfile.dirty.clone();
        let (mut next, mut from) = (0, Virtual { media, dat: &mut self.dat });
        while let Some((block, _)) = self.cpfile.tree.next(next, &mut from)? {
            all.insert(block);
            next = block + 1;
        }
        Ok(all.into_iter().collect())
    }

    /// Numbers that a block has places for.
    fn numbers(&self, block: u64) -> std::ops::Range<u64> {
        (block * PER_BLOCK).max(1)..((block + 1) * PER_BLOCK).min(self.cno)
    }

    /// All checkpoints, oldest first.
    pub fn all_checkpoints(&mut self, media: &Media) -> Result<Vec<(u64, Checkpoint)>> {
        let mut all = Vec::new();
        for block in self.cpfile_blocks(media)? {
            for cno in self.numbers(block) {
                all.extend(self.checkpoint(cno, media)?.map(|entry| (cno, entry)));
            }
        }
        Ok(all)
    }

    /// All checkpoints and their ages.
    pub fn history(&mut self, media: &Media) -> Result<&mut BTreeMap<u64, u64>> {
        if self.history.is_none() {
            let all = self.all_checkpoints(media)?;
            self.history = Some(all.into_iter().map(|(cno, entry)| (cno, entry.age)).collect());
        }
        Ok(self.history.get_or_insert_default())
    }

    /// The snapshots, where the header says that there are any.
    pub fn read_snapshots(&mut self, media: &Media) -> Result<()> {
        let mut from = Virtual { media, dat: &mut self.dat };
        let (_, count) = self.cpfile.block(0, &mut from)?.with_bytes(|b| checkpoint::counts(b));
        if count == 0 {
            return Ok(());
        }
        for block in self.cpfile_blocks(media)?.into_iter().rev() {
            for cno in self.numbers(block).rev() {
                if self.snapshots.len() as u64 >= count {
                    return Ok(());
                }
                if self.checkpoint(cno, media)?.is_some_and(|e| e.flags & SNAPSHOT != 0) {
                    self.snapshots.insert(cno);
                }
            }
        }
        Ok(())
    }

    /// Ends checkpoints that there are, and gives the blocks back that have no others.
    pub fn end_checkpoints(&mut self, gone: &[u64], media: &Media) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        let mut from = Virtual { media, dat: &mut self.dat };
        for cno in gone {
            let (block, at) = checkpoint::place(*cno);
            checkpoint::set_flags(&mut self.cpfile.change(block, &mut from)?[at..], 0);
            if let Some(history) = &mut self.history {
                history.remove(cno);
            }
        }
        let b = self.cpfile.change(0, &mut from)?;
        let (all, snapshots) = checkpoint::counts(b);
        checkpoint::set_counts(b, (all.saturating_sub(gone.len() as u64), snapshots));
        let blocks: BTreeSet<u64> = gone.iter().map(|cno| checkpoint::place(*cno).0).collect();
        // The next checkpoint, which is not there yet, needs its block.
        let present = checkpoint::place(self.cno).0;
        blocks.into_iter().filter(|block| *block != 0 && *block < present).try_for_each(|block| {
            let valid = |b: &crate::layout::BlockBytes| {
                (0..PER_BLOCK as usize)
                    .any(|n| checkpoint::flags(&b[n * checkpoint::CHECKPOINT..]) & VALID != 0)
            };
            let mut from = Virtual { media, dat: &mut self.dat };
            if !self.cpfile.block(block, &mut from)?.with_bytes(|b| valid(b)) {
                self.punch_cpfile(block, media)?;
            }
            Ok(())
        })
    }

    fn punch_cpfile(&mut self, block: u64, media: &Media) -> Result<()> {
        let freed = self.cpfile.tree.remove(block, &mut Virtual { media, dat: &mut self.dat })?;
        self.cpfile.pages.remove(&block);
        self.cpfile.dirty.remove(&block);
        // As with what logs of it replace: no checkpoint needs its own cpfile.
        freed.into_iter().filter(|ptr| *ptr != 0).try_for_each(|ptr| self.dat.end(ptr, self.cno, true, media))
    }
}
