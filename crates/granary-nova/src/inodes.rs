//! Inode tables: one per CPU, in pieces that are chained.
//!
//! ```text
//!   inode number = index * CPUs + CPU
//!   piece 0          piece 1
//!   | 0 1 2 ... n-1 | next ──> | n ... | next ──> 0        128 B each; the last place holds the next piece's
//!                                                          block
//! ```
//!
//! Which inodes are free is known in host memory only; on media a free one is not valid.
//! Source: NOVA section 4.1.

use crate::Nova;
use crate::layout::inode::SIZE;
use granary_device::Structure;
use granary_fs::{FsError, Ino, Result};
use granary_pm::bytes::u64_at;
use granary_pm::{BLOCK, From, Pm, corrupt};
use granary_units::Page;
use std::sync::atomic::Ordering::Relaxed;

/// One CPU's inodes.
#[derive(Debug)]
pub struct Table {
    /// First block of each piece.
    pub pieces: Vec<u64>,
    /// First index never used.
    pub next: u64,
    /// Free ones below.
    pub free: Vec<u64>,
}

/// Inodes in a piece of `blocks` blocks.
pub fn per_piece(blocks: u64) -> u64 {
    blocks * BLOCK / SIZE as u64 - 1
}

/// Reads the chain of pieces that begins at `first`.
///
/// # Errors
/// `Corrupt`; the drive's.
pub fn read_pieces(pm: &Pm, first: u64, piece: u64, end: u64) -> Result<Vec<u64>> {
    let mut pieces = vec![first];
    loop {
        let last = pieces[pieces.len() - 1];
        let mut next = [0; 8];
        pm.load(last * BLOCK + per_piece(piece) * SIZE as u64, &mut next, Structure::Inode)?;
        match u64_at(&next, 0) {
            0 => return Ok(pieces),
            n if n <= first || n >= end || n + piece > end || pieces.len() as u64 > end / piece => {
                return Err(corrupt(format!("an inode table goes on in block {n}")));
            }
            n => pieces.push(n),
        }
    }
}

impl Table {
    /// Address of the inode with this index.
    pub fn slot(&self, index: u64, piece: u64) -> Option<u64> {
        let n = per_piece(piece);
        let first = self.pieces.get((index / n) as usize)?;
        Some(first * BLOCK + index % n * SIZE as u64)
    }
}

impl Nova {
    /// The root directory: the first inode of CPU 0 (index 0 is not used, so that no inode has number 0).
    pub(crate) fn root_ino(&self) -> Ino {
        Ino(self.cpus as u64)
    }

    /// Address of an inode.
    ///
    /// # Errors
    /// `Stale` where no table has it.
    pub(crate) fn slot(&self, ino: Ino) -> Result<u64> {
        let (cpu, index) = ((ino.0 % self.cpus as u64) as usize, ino.0 / self.cpus as u64);
        self.tables[cpu].lock().slot(index, self.piece).filter(|_| index > 0).ok_or(FsError::Stale)
    }

    /// Takes a free inode: (number, address).
    ///
    /// # Errors
    /// `NoSpace`.
    pub(crate) fn take_inode(&self) -> Result<(Ino, u64)> {
        let cpu = self.cpu();
        let mut table = self.tables[cpu].lock();
        let index = match table.free.pop() {
            Some(index) => index,
            None => {
                if table.slot(table.next, self.piece).is_none() {
                    self.grow_table(cpu, &mut table)?;
                }
                table.next += 1;
                table.next - 1
            }
        };
        self.used_inodes.fetch_add(1, Relaxed);
        let slot = table.slot(index, self.piece).ok_or(FsError::NoSpace)?;
        Ok((Ino(index * self.cpus as u64 + cpu as u64), slot))
    }

    /// Gives an inode back.
    pub(crate) fn give_inode(&self, ino: Ino) {
        let (cpu, index) = ((ino.0 % self.cpus as u64) as usize, ino.0 / self.cpus as u64);
        self.used_inodes.fetch_sub(1, Relaxed);
        self.tables[cpu].lock().free.push(index);
    }

    /// Adds a zeroed piece.
    fn grow_table(&self, cpu: usize, table: &mut Table) -> Result<()> {
        let piece = self.piece;
        let (first, n) =
            self.free.take_at_least(cpu, piece, piece, From::Below, false).ok_or(FsError::NoSpace)?;
        self.stores(|b| {
            for block in first..first + n {
                b.stream_page(block, &Page::ZERO, Structure::Inode)?;
            }
            b.fence()?;
            let last = table.pages_end(piece);
            b.put_u64(last, first, Structure::Inode)?;
            b.fence()
        })?;
        table.pieces.push(first);
        Ok(())
    }
}

impl Table {
    /// Address of the last piece's pointer to the next.
    fn pages_end(&self, piece: u64) -> u64 {
        let last = self.pieces.last().copied().unwrap_or(0);
        last * BLOCK + per_piece(piece) * SIZE as u64
    }
}
