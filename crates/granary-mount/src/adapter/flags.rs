//! Inode flags: `chattr` and `lsattr`.
//!
//! ```text
//!   chattr, lsattr   FS_IOC_GETFLAGS, SETFLAGS       flags 4
//!   xfs_io           FS_IOC_FSGETXATTR, FSSETXATTR   flags 4 | extent hint 4 | extents 4 | project 4
//!                                                    | hint 4 | 0 8
//! ```
//!
//! The kernel turns every way to ask (`file_getattr`, too) into one of these, and keeps no flag itself: the
//! vfs enforces the flags. The kernel checks the caller, but not before Linux 5.13, so the caller is checked
//! here, too.
//!
//! Before a file becomes immutable or append-only, the kernel writes back the pages that mappings have
//! changed: afterwards that would be refused. It does *not* keep other flags, or projects: EOPNOTSUPP.
//!
//! Source: linux/fs.h (`FS_IOC_GETFLAGS`, `struct fsxattr`); `fuse_fileattr_get` and `_set` of
//! fs/fuse/ioctl.c.

use super::Adapter;
use super::privileges::Requester;
use super::stats::Statistics;
use granary_fs::{FileKind, FsError, Result, flag};
use granary_fuse::NodeId;
use granary_vfs::Change;

/// _IOR('f', 1, long); the kernel hands on 4 bytes.
const GETFLAGS: u32 = 0x8008_6601;
/// _IOW('f', 2, long).
const SETFLAGS: u32 = 0x4008_6602;
/// _IOR('X', 31, struct fsxattr).
const FSGETXATTR: u32 = 0x801c_581f;
/// _IOW('X', 32, struct fsxattr).
const FSSETXATTR: u32 = 0x401c_5820;
/// Bytes of `struct fsxattr`.
const FSXATTR: usize = 28;

/// Each flag, and its bit in `struct fsxattr` (FS_XFLAG_IMMUTABLE and so on).
const XFLAGS: [(u8, u32); 4] =
    [(flag::IMMUTABLE, 0x8), (flag::APPEND, 0x10), (flag::NOATIME, 0x40), (flag::NODUMP, 0x80)];

fn word(data: &[u8]) -> Result<u32> {
    data.first_chunk().map(|b| u32::from_ne_bytes(*b)).ok_or(FsError::Invalid)
}

/// The flags that a call sets; `None`: it sets none.
fn given(cmd: u32, data: &[u8]) -> Result<Option<u8>> {
    match cmd {
        SETFLAGS => u8::try_from(word(data)?).map(Some).map_err(|_| FsError::NotSupported),
        FSSETXATTR => {
            let rest = data.get(4..FSXATTR).ok_or(FsError::Invalid)?;
            // Hints and projects; how many extents there are is for the caller to know, not to say.
            let asks = rest[..4].iter().chain(&rest[8..]).any(|b| *b != 0);
            let set = word(data)?;
            let known = XFLAGS.iter().fold(0, |all, (_, x)| all | x);
            if asks || set & !known != 0 {
                return Err(FsError::NotSupported);
            }
            Ok(Some(XFLAGS.iter().filter(|(_, x)| set & x != 0).fold(0, |all, (flag, _)| all | flag)))
        }
        _ => Ok(None),
    }
}

impl Adapter {
    /// Carries out the call, and returns the new content of the caller's structure; `None`: no call of ours.
    pub(super) fn flags_call(
        &self,
        caller: Requester,
        node: NodeId,
        cmd: u32,
        data: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        if !matches!(cmd, GETFLAGS | SETFLAGS | FSGETXATTR | FSSETXATTR) || Statistics::is(node) {
            return Ok(None);
        }
        let (id, node) = (node, self.node(node)?);
        if let Some(flags) = given(cmd, data)? {
            self.changes()?;
            self.vfs.setattr(&caller.sets_flags_of(&node), &node, &Change::flags(flags))?;
            // The kernel does not expect that the time of the last change has moved.
            self.forget_attributes(id);
            return Ok(Some(Vec::new()));
        }
        let flags = self.vfs.stat(&node).attr.flags;
        let bytes = |n: u32| n.to_ne_bytes();
        if cmd == GETFLAGS {
            return Ok(Some([bytes(flags.into()), [0; 4]].concat()));
        }
        let xflags = XFLAGS.iter().filter(|(flag, _)| flags & flag != 0).fold(0, |all, (_, x)| all | x);
        let mut structure = bytes(xflags).to_vec();
        structure.resize(FSXATTR, 0);
        Ok(Some(structure))
    }

    /// Whether the call makes a file fixed, of which mappings may have changed something.
    pub(super) fn must_write_back(&self, node: NodeId, cmd: u32, data: &[u8]) -> Result<bool> {
        if Statistics::is(node) {
            return Ok(false);
        }
        let Some(flags) = given(cmd, data)? else { return Ok(false) };
        let node = self.node(node)?;
        let more = node.view(|a| flags & !a.flags & flag::FIXED != 0);
        Ok(more && node.kind() == FileKind::File)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_say_a_flag_mean_the_same_and_what_is_not_kept_is_refused() {
        for (flag, x) in XFLAGS {
            let mut structure = x.to_ne_bytes().to_vec();
            structure.resize(FSXATTR, 0);
            assert_eq!(given(FSSETXATTR, &structure), Ok(Some(flag)));
            assert_eq!(given(SETFLAGS, &u32::from(flag).to_ne_bytes()), Ok(Some(flag)));
            structure[12] = 1;
            assert_eq!(given(FSSETXATTR, &structure), Err(FsError::NotSupported), "a project");
        }
        assert_eq!(given(SETFLAGS, &0x80_0000u32.to_ne_bytes()), Err(FsError::NotSupported));
        assert_eq!(given(SETFLAGS, &[0; 3]), Err(FsError::Invalid));
        assert_eq!(given(FSSETXATTR, &[0; 27]), Err(FsError::Invalid));
        assert_eq!(given(GETFLAGS, &[]), Ok(None));
    }
}
