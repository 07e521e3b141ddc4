//! Copying between files without the caller's memory, and files without a name.

use super::Vfs;
use super::io::OpenFile;
use super::namespace::NewFile;
use super::node::NodeRef;
use crate::error::{FsError, Result};
use crate::fs::Cred;
use crate::posix::OpenFlags;
use granary_units::{Dest, Payload};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes copied at once.
const STEP: u64 = 1 << 20;

/// Numbers the names that files of `create_unnamed` have for a moment.
static UNNAMED: AtomicU64 = AtomicU64::new(0);

impl Vfs {
    /// Copies up to `len` bytes from one open file to another (or to another place of the same). Returns how many:
    /// fewer at the end of the source, or where an error came later.
    ///
    /// # Errors
    /// `BadFd` where the source is not open for reading or the target not for writing, or appends; `Invalid` where
    /// both are one file and the ranges overlap; `IsDir`; those of read and write.
    pub fn copy_file_range(
        &self,
        cred: &Cred,
        from: (&OpenFile, u64),
        to: (&OpenFile, u64),
        len: u64,
    ) -> Result<u64> {
        let ((source, pos_in), (target, pos_out)) = (from, to);
        if source.node().is_dir() || target.node().is_dir() {
            return Err(FsError::IsDir);
        }
        let appends = target.flags().contains(OpenFlags::APPEND);
        if !source.flags().reads() || !target.flags().writes() || appends {
            return Err(FsError::BadFd);
        }
        let (end_in, end_out) = (pos_in.checked_add(len), pos_out.checked_add(len));
        let (Some(end_in), Some(end_out)) = (end_in, end_out) else { return Err(FsError::TooBig) };
        if source.node().is(target.node()) && pos_in < end_out && pos_out < end_in {
            return Err(FsError::Invalid);
        }
        let mut buffer = vec![0; len.min(STEP) as usize];
        let mut done = 0;
        while done < len {
            let want = (len - done).min(STEP) as usize;
            let result =
                self.read(source, pos_in + done, Dest::Bytes(&mut buffer[..want])).and_then(|n| match n {
                    0 => Ok(0),
                    n => Ok(self.write(cred, target, pos_out + done, Payload::Bytes(&buffer[..n]))?.1),
                });
            match result {
                Ok(0) => break,
                Ok(n) => done += n as u64,
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    /// Makes a regular file without a name (O_TMPFILE): it is gone with its last user. It has a name for a moment,
    /// that of a hidden file; a power failure in that moment leaves it.
    ///
    /// # Errors
    /// As [`Vfs::create`].
    pub fn create_unnamed(&self, cred: &Cred, dir: &NodeRef, mode: u16) -> Result<NodeRef> {
        loop {
            let name = format!(".granary-unnamed-{}", UNNAMED.fetch_add(1, Relaxed));
            match self.create(cred, dir, name.as_bytes(), &NewFile::file(mode)) {
                Ok(node) => {
                    // Not the caller's: a sticky directory of somebody else lets nobody but the owner remove it, and
                    // that is the caller.
                    self.unlink(cred, dir, name.as_bytes())?;
                    return Ok(node);
                }
                Err(FsError::Exists) => {}
                Err(e) => return Err(e),
            }
        }
    }
}
