//! Reading directories.
//!
//! ```text
//!   position:  0 = "."   1 = ".."   2 + p = the file system's position p
//! ```

use super::Vfs;
use super::node::NodeRef;
use crate::attr::FileKind;
use crate::error::{FsError, Result};
use crate::fs::DirEntry;
use granary_sim::{costs, cpu};

impl Vfs {
    /// Calls `emit` for the entries of `dir` after position `from` (0 = the first), "." and ".." included, until it
    /// returns false. [`DirEntry::next`] is the position to go on from.
    ///
    /// # Errors
    /// `NotDir`; `NoEntry` where the directory was removed; the file system's.
    pub fn readdir(
        &self,
        dir: &NodeRef,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        if !dir.is_dir() {
            return Err(FsError::NotDir);
        }
        let above = if from <= 1 && !dir.is_orphan() { Some(self.parent(dir)?.ino()) } else { None };
        {
            let _shared = dir.rwsem.read();
            if dir.is_orphan() {
                return Err(FsError::NoEntry);
            }
            let dots: [(&[u8], _); 2] = [(b".", Some(dir.ino())), (b"..", above)];
            for (at, (name, ino)) in dots.into_iter().enumerate().skip(from.min(2) as usize) {
                let ino = ino.expect("both are known at position 0 and 1");
                if !emit(DirEntry { name, ino, kind: FileKind::Dir, next: at as u64 + 1 }) {
                    return Ok(());
                }
            }
            let mut bytes = 0;
            self.fs.readdir(dir, from.saturating_sub(2), &mut |e| {
                // What the kernel copies out per entry: a header of 19 bytes, the name, and a terminator.
                bytes += 20 + e.name.len();
                emit(DirEntry { next: e.next + 2, ..e })
            })?;
            cpu(costs().copy(bytes));
        }
        self.touch_atime(dir)
    }
}
