//! FUSE_DEV_IOC_CLONE: another open `/dev/fuse` for the same mount.
//!
//! The kernel keeps a list of requests under way for each of them, so threads that have their own do not meet
//! at one lock.
//!
//! Source: `include/uapi/linux/fuse.h`, "Device ioctls"; `fuse_dev_ioctl_clone` of `fs/fuse/dev.c`
//! (Linux 4.2).
#![allow(unsafe_code)] // an ioctl

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Result;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// `_IOR(FUSE_DEV_IOC_MAGIC, 0, uint32_t)`.
const CLONE: Opcode = opcode::read::<u32>(229, 0);

/// Makes the newly opened device `new` serve the mount that `of` serves.
pub(crate) fn clone(new: BorrowedFd<'_>, of: BorrowedFd<'_>) -> Result<()> {
    let mut number = of.as_raw_fd() as u32;
    // SAFETY: the number is this ioctl's, and its argument a pointer to 32 bits, which the kernel only reads.
    unsafe { ioctl(new, Updater::<CLONE, u32>::new(&mut number)) }
}
