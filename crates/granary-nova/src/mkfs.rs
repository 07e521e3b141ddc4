//! mkfs: the first state of the media.
//!
//! The drive is trimmed (a DIMM written), so that journals and the first pieces of the inode tables read as
//! zeros (free inodes, no transaction). Written are the root directory and its log, and the superblock with
//! its copy.

use crate::layout::entry;
use crate::layout::inode::{self, LogPointers};
use crate::layout::superblock::Superblock;
use crate::layout::{HEAD_BLOCKS, LOG_SPACE, PAGE_ENTRIES, PAGE_OWNER, TAIL_BLOCKS};
use crate::mount::{first_free, write_super};
use crate::options::MkfsOptions;
use granary_device::{Port, Structure};
use granary_fs::{Attr, FileKind, FsError, Ino, Result};
use granary_pm::{BLOCK, Pm, saved};
use granary_units::Bytes;

/// Makes a file system: everything on the drive is lost.
///
/// # Errors
/// `NoSpace` where the drive is too small, `Invalid` for impossible options; the drive's.
pub fn mkfs(port: &Port, options: &MkfsOptions) -> Result<()> {
    let pm = Pm::new(port.clone());
    let blocks = pm.info().pages;
    let piece = options.piece.unwrap_or(if blocks * BLOCK >= Bytes::gib(1).0 { 512 } else { 16 });
    if options.cpus == 0 || options.cpus > 64 || piece == 0 || piece > 1 << 16 {
        return Err(FsError::Invalid);
    }
    let mut sb = Superblock { blocks, cpus: options.cpus, piece, clean: true, ..Superblock::default() };
    let log = first_free(&sb);
    if log + 64 + TAIL_BLOCKS > blocks {
        return Err(FsError::NoSpace);
    }
    pm.clear(blocks, log + 1)?;
    let cpus = options.cpus as u64;
    let ino = Ino(cpus);
    let made = options.made();
    let attr = Attr::new(FileKind::Dir, options.root_mode, made);
    let mut b = pm.batch();
    let mut at = log * BLOCK;
    for (epoch, name) in [(1, &b"."[..]), (2, b"..")] {
        let e = entry::dentry(epoch, name, ino.0, FileKind::Dir, made, 2);
        b.put(at, &e, Structure::Dentry)?;
        at += e.len() as u64;
    }
    debug_assert!(at < log * BLOCK + LOG_SPACE);
    b.put_u32(log * BLOCK + PAGE_ENTRIES, 2, Structure::Log)?;
    b.put_u64(log * BLOCK + PAGE_OWNER, ino.0, Structure::Log)?;
    let slot = (HEAD_BLOCKS + cpus) * BLOCK + inode::SIZE as u64;
    b.put(slot, &inode::bytes((ino, 0), &attr, LogPointers { head: log, tail: at }), Structure::Inode)?;
    b.put_u64(slot, inode::word(FileKind::Dir, attr.mode, true, false), Structure::Inode)?;
    b.fence()?;
    // Free: everything behind the root's log page. Per CPU: the first index never used, no free ones below.
    let end = blocks - TAIL_BLOCKS;
    let mut words = vec![1, log + 1, end - log - 1];
    for cpu in 0..cpus {
        words.extend([1 + u64::from(cpu == 0), 0]);
    }
    let lists = granary_pm::FreeLists::new(log + 1, end, 1, 0);
    lists.give(log + 1, end - log - 1)?;
    sb.saved = saved::write(&pm, &lists, &words)?.ok_or(FsError::NoSpace)?;
    write_super(&pm, &sb)
}
