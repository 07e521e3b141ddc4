//! Calls of ioctl(2) that the kernel hands on: FITRIM (`fstrim`), which tells the drive what is free;
//! flags.rs has the others.
//!
//! ```text
//!   struct fstrim_range   start 8 | length 8 | least 8      bytes; length becomes what was told of
//! ```
//!
//! The kernel checks nothing of an ioctl for a FUSE server. FIEMAP never gets here: the kernel asks the
//! inode, and FUSE has none.
//!
//! Source: linux/fs.h (`FITRIM`, `struct fstrim_range`); `ext4_ioctl` of fs/ext4/ioctl.c for who may;
//! `fuse_do_ioctl` of fs/fuse/ioctl.c.

use super::Adapter;
use super::privileges::Requester;
use granary_fs::{FsError, Result};
use granary_fuse::NodeId;

/// _IOWR('X', 121, struct fstrim_range).
const FITRIM: u32 = 0xc018_5879;

impl Adapter {
    /// Carries out the call, and returns the new content of the caller's structure; `None`: no call of ours.
    pub(super) fn ioctl(
        &self,
        caller: Requester,
        node: NodeId,
        cmd: u32,
        data: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        match cmd {
            FITRIM => self.trim(caller, data).map(Some),
            _ => self.flags_call(caller, node, cmd, data),
        }
    }

    fn trim(&self, caller: Requester, range: &[u8]) -> Result<Vec<u8>> {
        if !caller.administers() {
            return Err(FsError::NotPermitted);
        }
        self.changes()?;
        let (words, _) = range.as_chunks::<8>();
        let &[start, len, least] = words else { return Err(FsError::Invalid) };
        let [start, len, least] = [start, len, least].map(u64::from_ne_bytes);
        let told = self.vfs.trim(start, len, least)?;
        Ok([start, told, least].iter().flat_map(|n| n.to_ne_bytes()).collect())
    }
}
