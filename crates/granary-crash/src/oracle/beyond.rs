//! [`beyond`]: whether a recovered file has blocks beyond its end that nobody reserved.
//!
//! ```text
//!   |-- within the size --|-- reserved by fallocate: may stay --|-- the rest of a cut that took several --|
//!                                                                   transactions: must go
//! ```
//!
//! A file is made longer, which frees nothing, and must show zeros there, and cut to the size that it had.
//! Its count of blocks must stay as it is, but for two blocks of pointers. No read shows such blocks: a file
//! system may zero them when the file grows over them. Without this look they would be lost space for as long
//! as the file is there.

use super::model::{Model, NodeId};
use granary_fs::{FileKind, FsError};
use granary_units::Dest;
use granary_vfs::{OpenFlags, Posix};
use std::collections::BTreeSet;

/// Loads write no pages so far behind the end of a file that they cut.
const FURTHER: u64 = 64 << 20;

/// Bytes that are read behind the end of a file that has grown.
const GROWN: usize = 128 << 10;

/// Sectors of two blocks of pointers. Such blocks go with any change of the size where they are not needed
/// any more: ext4 folds the last leaf of a tree into the inode, and a tree of 14 MiB gave up an index and a
/// leaf.
const POINTERS: u64 = 16;

/// Cuts all files whose cuts the power failure may have interrupted to their sizes, and says whose blocks
/// become fewer. `model` is what was found by [`verify`](super::Promises::verify) just before. Times of files
/// move: nothing can be compared afterwards.
pub(super) fn beyond<P: Posix>(model: &Model, posix: &mut P) -> Vec<String> {
    let (mut wrong, mut seen) = (Vec::new(), BTreeSet::new());
    let mut todo = vec![(Vec::new(), NodeId::ROOT)];
    while let Some((path, id)) = todo.pop() {
        if !seen.insert(id) {
            continue;
        }
        let node = model.node(id);
        let entries = node.entries.iter().filter_map(|(name, slot)| Some((name, slot.current()?)));
        todo.extend(entries.map(|(name, id)| ([&path, &b"/"[..], name].concat(), id)));
        if node.kind == FileKind::File && node.content.was_cut() {
            let path = String::from_utf8_lossy(&path);
            match cut(posix, path.as_bytes(), node.content.reserved()) {
                Ok(None) => {}
                Ok(Some(what)) => wrong.push(format!("{path}: {what}")),
                Err(e) => wrong.push(format!("{path}: cut to its size: {e}")),
            }
        }
    }
    wrong
}

fn cut<P: Posix>(posix: &mut P, path: &[u8], reserved: u64) -> Result<Option<String>, FsError> {
    let size = match posix.stat(path)?.attr {
        attr if reserved > attr.size || attr.blocks == 0 => return Ok(None),
        attr => attr.size,
    };
    if !resize(posix, path, size + FURTHER)? {
        return Ok(None);
    }
    if let Some(at) = shows(posix, path, size)? {
        return Ok(Some(format!("has {size} bytes, and where it grows byte {at:#x} is not zero")));
    }
    let before = posix.stat(path)?.attr.blocks;
    if !resize(posix, path, size)? {
        return Ok(None);
    }
    let lost = before.saturating_sub(posix.stat(path)?.attr.blocks);
    Ok((lost > POINTERS)
        .then(|| format!("has {size} bytes, and {lost} sectors beyond them that nobody reserved")))
}

/// The first byte that is not zero of those that a file got when it grew, as far as a cut may have left old
/// ones.
fn shows<P: Posix>(posix: &mut P, path: &[u8], size: u64) -> Result<Option<u64>, FsError> {
    let mut bytes = vec![0; GROWN];
    let fd = posix.open(path, OpenFlags::RDONLY | OpenFlags::NOATIME, 0)?;
    let got = posix.pread(fd, Dest::Bytes(&mut bytes), size);
    posix.close(fd)?;
    Ok(bytes[..got?].iter().position(|byte| *byte != 0).map(|i| size + i as u64))
}

/// Says whether there was space for the record of it, which some file systems need.
fn resize<P: Posix>(posix: &mut P, path: &[u8], size: u64) -> Result<bool, FsError> {
    match posix.truncate(path, size) {
        Err(FsError::NoSpace) => Ok(false),
        done => done.map(|()| true),
    }
}
