//! The superblock and its copies: where they are found, and in what order they are written.
//!
//! ```text
//!   block 0               written at mount, unmount, growth, repair            believed first
//!   copies                written at mkfs, growth, repair; never say "clean"   where block 0 cannot be read
//!   last block of the drive, else searched from its end backwards
//! ```
//!
//! A copy says which block it is in, so bytes of a file that look like a superblock are none. Of block 0 and
//! of a copy the checksum is not enough: one whose areas cannot lie on the drive is damaged, too.
//!
//! Invariants: a copy is as good as block 0 for finding everything: whoever changes what both say writes the
//! copies before anything relies on the change. While a repair is at work all say so.

use crate::layout::Geometry;
use crate::layout::Superblock;
use crate::layout::superblock::{IN_USE, REPAIRING};
use crate::mkfs::ROOT;
use granary_device::{Port, Structure};
use granary_fs::{FsError, Result};
use granary_units::{Lpa, PAGE_SIZE, Page};
use zerocopy::little_endian::U32;

/// Blocks read together in a search.
const WINDOW: u64 = 64;

fn read(port: &Port, lba: u64) -> Result<[u8; PAGE_SIZE]> {
    let mut page = [Page::ZERO];
    port.read(Lpa(lba), &mut page, Structure::Superblock)?;
    Ok(page[0].to_bytes())
}

/// Writes block 0.
///
/// # Errors
/// Of the drive.
pub fn write_superblock(port: &Port, sb: &Superblock) -> Result<()> {
    let sb = Superblock { place: U32::ZERO, ..*sb };
    Ok(port.write(Lpa(0), &[Page::from_bytes(&sb.to_block())], Structure::Superblock)?)
}

/// Writes all copies.
///
/// # Errors
/// Of the drive.
pub fn write_copies(port: &Port, sb: &Superblock) -> Result<()> {
    let state = if sb.state.get() == REPAIRING { sb.state } else { U32::new(IN_USE) };
    for place in sb.geometry().copies() {
        let copy = Superblock { place: U32::new(place as u32), state, ..*sb };
        port.write(Lpa(place), &[Page::from_bytes(&copy.to_block())], Structure::Superblock)?;
    }
    Ok(())
}

/// The superblock in block `place`, where it also describes areas that there can be on this drive: a checksum
/// says only that it was written so.
fn sound(port: &Port, block: &[u8; PAGE_SIZE], place: u64) -> Result<Superblock> {
    let sb = Superblock::read(block, place)?;
    check_geometry(&sb.geometry(), port, &sb)?;
    Ok(sb)
}

/// Whether areas lie where they can on this drive.
///
/// # Errors
/// `Corrupt`.
fn check_geometry(g: &Geometry, port: &Port, sb: &Superblock) -> Result<()> {
    let ordered = g.is_laid_out()
        && g.blocks() <= port.info().pages
        && g.blocks() <= u32::MAX as u64
        && g.segments().all(|s| {
            s.start < s.end
                && s.data < s.copy()
                && s.first_inode <= s.inodes
                && s.inodes <= u32::MAX as u64
                && s.inodes.is_multiple_of(32)
        });
    if ordered && sb.root.get() == ROOT {
        return Ok(());
    }
    Err(FsError::Corrupt(format!(
        "superblock: {g:?}, root {} on a drive of {} pages",
        sb.root,
        port.info().pages
    )))
}

/// The superblock, and the block of the copy that it was taken from where block 0 cannot be used.
///
/// # Errors
/// Why block 0 cannot be used, where there is no copy, either.
pub fn read_superblock(port: &Port) -> Result<(Superblock, Option<u64>)> {
    let first = read(port, 0);
    let why = match first.map(|block| (block, sound(port, &block, 0))) {
        Ok((_, Ok(sb))) => return Ok((sb, None)),
        Ok((block, Err(e))) if Superblock::is_older(&block) => return Err(e),
        Ok((_, Err(e))) | Err(e) => e,
    };
    match find_copy(port) {
        Some((place, sb)) => Ok((sb, Some(place))),
        None => Err(why),
    }
}

/// The copy nearest to the drive's end.
fn find_copy(port: &Port) -> Option<(u64, Superblock)> {
    let mut end = port.info().pages;
    let mut window = 1;
    while end > 1 {
        let first = end.saturating_sub(window).max(1);
        let mut pages = vec![Page::ZERO; (end - first) as usize];
        if port.read(Lpa(first), &mut pages, Structure::Superblock).is_err() {
            // One of them cannot be read: each by itself.
            for (lba, page) in (first..end).zip(&mut pages) {
                let _ = port.read(Lpa(lba), std::slice::from_mut(page), Structure::Superblock);
            }
        }
        for (lba, page) in (first..end).rev().zip(pages.iter().rev()) {
            if let Ok(sb) = sound(port, &page.to_bytes(), lba) {
                return Some((lba, sb));
            }
        }
        (end, window) = (first, WINDOW);
    }
    None
}

/// Faults of the copies on media; one that cannot be read is a fault, too.
pub fn check_copies(port: &Port, sb: &Superblock) -> Vec<String> {
    let mut bad = Vec::new();
    for place in sb.geometry().copies() {
        let told = match read(port, place).and_then(|block| Superblock::read(&block, place)) {
            Err(e) => e.to_string(),
            Ok(copy) if !copy.agrees(sb) => "it describes another file system".into(),
            Ok(_) => continue,
        };
        bad.push(format!("copy of the superblock in block {place}: {told}"));
    }
    bad
}
