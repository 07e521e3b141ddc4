//! Inode numbers that are taken and given back; the table grows by a piece where none is left.

use crate::fs::Pmfs;
use crate::layout::FANOUT;
use crate::table::Table;
use granary_device::Structure;
use granary_fs::{FsError, Ino, Result};
use granary_pm::{BLOCK, From};
use granary_units::Page;

impl Pmfs {
    pub(crate) fn piece(&self) -> u64 {
        self.superblock.piece as u64
    }

    /// Address of an inode.
    ///
    /// # Errors
    /// `Stale` where the table does not have it.
    pub(crate) fn inode_addr(&self, ino: Ino) -> Result<u64> {
        self.table.lock().addr(ino.0, self.piece()).filter(|_| ino.0 > 0).ok_or(FsError::Stale)
    }

    /// Takes a free inode: (number, address).
    ///
    /// # Errors
    /// `NoSpace`.
    pub(crate) fn take_inode(&self) -> Result<(Ino, u64)> {
        let mut table = self.table.lock();
        let ino = match table.free.pop() {
            Some(ino) => ino,
            None => {
                if table.addr(table.next, self.piece()).is_none() {
                    self.grow_table(&mut table)?;
                }
                table.next += 1;
                table.next - 1
            }
        };
        let addr = table.addr(ino, self.piece()).ok_or(FsError::NoSpace)?;
        Ok((Ino(ino), addr))
    }

    /// Gives an inode back.
    pub(crate) fn give_inode(&self, ino: Ino) {
        self.table.lock().free.push(ino.0);
    }

    /// Adds a zeroed piece.
    fn grow_table(&self, table: &mut Table) -> Result<()> {
        let (piece, at) = (self.piece(), table.pieces.len() as u64);
        if at == FANOUT {
            return Err(FsError::NoSpace);
        }
        let (first, n) =
            self.free.take_at_least(0, piece, piece, From::Below, false).ok_or(FsError::NoSpace)?;
        self.stores(|b| {
            self.store_fresh(b, (first..first + n).map(|block| (block, &Page::ZERO)), Structure::Inode)?;
            b.fence()?;
            b.put_u64(self.superblock.table() * BLOCK + at * 8, first, Structure::Inode)?;
            b.fence()
        })?;
        table.pieces.push(first);
        Ok(())
    }
}
