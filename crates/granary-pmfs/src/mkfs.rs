//! mkfs: the first state of the media.
//!
//! The drive is trimmed (a DIMM written), so that the journal and the first piece of the inode table read as
//! zeros. Written are the table block, the root directory and the superblock with its copy.

use crate::fs::Pmfs;
use crate::journal::Journal;
use crate::layout::inode::{PLACE, Tree, bytes};
use crate::layout::superblock::{LINES_VERSION, REDO_VERSION, Superblock, VERSION};
use crate::mount::write_super;
use crate::options::MkfsOptions;
use granary_device::{Port, Structure};
use granary_fs::{Attr, FileKind, FsError, Result};
use granary_pm::{BLOCK, FreeLists, Pm, saved};
use granary_units::Bytes;

/// Makes a file system: everything on the drive is lost.
///
/// # Errors
/// `NoSpace` where the drive is too small, `Invalid` for impossible options; the drive's.
pub fn mkfs(port: &Port, options: &MkfsOptions) -> Result<()> {
    make(port, options, if port.info().whole_lines { LINES_VERSION } else { VERSION })
}

/// Makes one with a redo log in the journal's place ([`mount_redo`](crate::mount_redo)).
///
/// # Errors
/// As [`mkfs`].
pub fn mkfs_redo(port: &Port, options: &MkfsOptions) -> Result<()> {
    make(port, options, REDO_VERSION)
}

fn make(port: &Port, options: &MkfsOptions, version: u32) -> Result<()> {
    let pm = Pm::new(port.clone());
    let blocks = pm.info().pages;
    let size = blocks * BLOCK;
    let by_size = if size >= Bytes::mib(128).0 { Bytes::mib(4).0 } else { (size / 32).max(Bytes::kib(64).0) };
    let journal = options.journal.map_or(by_size, |j| j.0) / BLOCK;
    let piece = options.piece.unwrap_or(if size >= Bytes::gib(1).0 { 512 } else { 16 });
    if journal < 16 || Journal::slots(journal) > 1 << 24 || piece == 0 || piece > 1 << 16 {
        return Err(FsError::Invalid);
    }
    let mut sb =
        Superblock { version, blocks, journal: journal as u32, piece, clean: true, ..Superblock::default() };
    let (first, end) = (sb.table() + 1, blocks.saturating_sub(1));
    let root = first + piece as u64;
    if root + 16 > end {
        return Err(FsError::NoSpace);
    }
    pm.clear(blocks, root + 1)?;
    let made = options.made();
    let mode = options.root_mode.unwrap_or(0o755);
    let attr = Attr { size: BLOCK, blocks: BLOCK / 512, ..Attr::new(FileKind::Dir, mode, made) };
    let mut b = pm.batch();
    b.put_u64(sb.table() * BLOCK, first, Structure::Inode)?;
    b.put(first * BLOCK + PLACE, &bytes(&attr, Tree { root, height: 0 }), Structure::Inode)?;
    b.put(root * BLOCK, &Pmfs::first_entries(1, 1), Structure::Dentry)?;
    b.fence()?;
    // Free: everything behind the root's block; inodes from 2 on.
    let words = [1, root + 1, end - root - 1, 2, 0];
    let lists = FreeLists::new(root + 1, end, 1, 0);
    lists.give(root + 1, end - root - 1)?;
    sb.saved = saved::write(&pm, &lists, &words)?.ok_or(FsError::NoSpace)?;
    write_super(&pm, &sb)
}
