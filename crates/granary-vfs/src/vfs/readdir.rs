//! Reading directories.
//!
//! ```text
//!   position:  0 = "."   1 = ".."   2 + p = the file system's position p
//! ```
//!
//! Programs make and rename names while they read a directory. POSIX leaves open whether a reading sees what
//! came after `opendir` or `rewinddir`, but a file system that enters new names behind the old ones would
//! never come to an end. A [`DirStream`] remembers where the directory ended when it was at its start, and
//! nothing from behind that is told.

use super::Vfs;
use super::node::NodeRef;
use granary_fs::{Caller, DirEntry, FileKind, FsError, Result};
use granary_sim::{costs, cpu};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// An open directory: where its reading ends. Position 0 starts it anew.
#[derive(Debug)]
pub struct DirStream {
    /// [`granary_fs::Names::dir_end`] at the start; `u64::MAX` before it.
    end: AtomicU64,
}

impl Default for DirStream {
    fn default() -> DirStream {
        DirStream { end: AtomicU64::new(u64::MAX) }
    }
}

impl Vfs {
    /// Calls `emit` for the entries of `dir` after position `from` (0 = the first), "." and ".." included,
    /// until it returns false. [`DirEntry::next`] is the position to go on from. Entries behind those that
    /// were there when `stream` was last at its start (or was first read) are left out.
    ///
    /// # Errors
    /// `NotDir`; `NoEntry` where the directory was removed; the file system's.
    pub fn readdir(
        &self,
        caller: &Caller,
        dir: &NodeRef,
        stream: &DirStream,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        if !dir.is_dir() {
            return Err(FsError::NotDir);
        }
        let call = &self.call(caller);
        let above = if from <= 1 && !dir.is_orphan() { Some(self.parent(call, dir)?.ino()) } else { None };
        {
            let _shared = dir.rwsem.read();
            if dir.is_orphan() {
                return Err(FsError::NoEntry);
            }
            let mut end = stream.end.load(Relaxed);
            if from == 0 || end == u64::MAX {
                end = self.fs.dir_end(dir);
                stream.end.store(end, Relaxed);
            }
            let dots: [(&[u8], _); 2] = [(b".", Some(dir.ino())), (b"..", above)];
            for (at, (name, ino)) in dots.into_iter().enumerate().skip(from.min(2) as usize) {
                let ino = ino.expect("both are known at position 0 and 1");
                if !emit(DirEntry { name, ino, kind: FileKind::Dir, next: at as u64 + 1 }) {
                    return Ok(());
                }
            }
            let mut bytes = 0;
            self.fs.readdir(call, dir, from.saturating_sub(2), &mut |e| {
                if e.next > end {
                    return false;
                }
                if !granary_fs::is_name(e.name) {
                    return true;
                }
                // The kernel copies out per entry: a header of 19 bytes, the name, and a terminator.
                bytes += 20 + e.name.len();
                emit(DirEntry { next: e.next + 2, ..e })
            })?;
            cpu(costs().copy(bytes));
        }
        self.touch_atime(call, dir);
        Ok(())
    }
}
