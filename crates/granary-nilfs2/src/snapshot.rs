//! Checkpoints and snapshots, as `lscp`, `mkcp`, `chcp` and `rmcp` of nilfs-utils handle them.
//!
//! ```text
//!   every log is a checkpoint ... | 11 | 12 ss | 13 | 14 | ...     the cleaner ends those that are old;
//!                                                                  snapshots stay
//! ```

use crate::dat::Virtual;
use crate::fs::Nilfs2;
use crate::layout::checkpoint::{self, SNAPSHOT, VALID};
use crate::state::State;
use granary_fs::{Checkpoint, FsError, Result};
use granary_units::Nanos;

impl Nilfs2 {
    /// All checkpoints, oldest first (`lscp`).
    ///
    /// # Errors
    /// `Corrupt`; the drive's, here and below.
    pub fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        let mut s = self.state.lock();
        let all = s.all_checkpoints(&self.media)?.into_iter().map(|(number, e)| {
            let (age, snapshot) = (Nanos(e.age), e.flags & SNAPSHOT != 0);
            Checkpoint { number, age, snapshot, inodes: e.inodes, blocks: e.blocks }
        });
        Ok(all.collect())
    }

    /// Makes a checkpoint of everything that is so far (`mkcp`); its number.
    ///
    /// # Errors
    /// `ReadOnly` on a snapshot, here and below; what a log can fail with.
    pub fn make_checkpoint(&self) -> Result<u64> {
        self.may_change()?;
        self.construct()?;
        self.flush()?;
        Ok(self.state.lock().cno - 1)
    }

    fn mark(&self, cno: u64, change: impl FnOnce(&mut State, u32) -> Result<u32>) -> Result<()> {
        self.operate(|s| {
            let entry = s.checkpoint(cno, &self.media)?.ok_or(FsError::NoEntry)?;
            let flags = change(s, entry.flags)?;
            if flags & VALID == 0 {
                s.end_checkpoints(&[cno], &self.media)?;
                s.changed();
                return Ok(());
            }
            let (block, at) = checkpoint::place(cno);
            let mut from = Virtual { media: &self.media, dat: &mut s.dat };
            checkpoint::set_flags(&mut s.cpfile.change(block, &mut from)?[at..], flags);
            let b = s.cpfile.change(0, &mut from)?;
            let (all, _) = checkpoint::counts(b);
            checkpoint::set_counts(b, (all, s.snapshots.len() as u64));
            s.changed();
            Ok(())
        })?;
        self.construct()?;
        self.flush()
    }

    /// Lets the cleaner keep a checkpoint for ever (`chcp ss`).
    ///
    /// # Errors
    /// `NoEntry` where there is none, here and below.
    pub fn make_snapshot(&self, cno: u64) -> Result<()> {
        self.mark(cno, |s, flags| {
            s.snapshots.insert(cno);
            Ok(flags | SNAPSHOT)
        })
    }

    /// Makes a snapshot a checkpoint like others (`chcp cp`).
    ///
    /// # Errors
    /// As above.
    pub fn remove_snapshot(&self, cno: u64) -> Result<()> {
        self.mark(cno, |s, flags| {
            s.snapshots.remove(&cno);
            Ok(flags & !SNAPSHOT)
        })
    }

    /// Ends a checkpoint (`rmcp`).
    ///
    /// # Errors
    /// `Busy`: it is a snapshot.
    pub fn remove_checkpoint(&self, cno: u64) -> Result<()> {
        self.mark(cno, |_, flags| if flags & SNAPSHOT == 0 { Ok(0) } else { Err(FsError::Busy) })
    }
}
