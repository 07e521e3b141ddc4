//! Lost pages: those that the drive cannot read any more. They are found before anything is believed, and
//! written anew.
//!
//! ```text
//!   bitmap, orphan table   made anew from what is reached      inode table   its inodes are lost, names of
//!                                                                            them removed
//!   directory              names in it are lost, see `strays`  extents       what they named is lost
//!   attributes             lost                                journal       zeros: no record, no group
//!   content of a file      stays: reading it is an error,      nobody's      zeros
//!                          which zeros would hide
//! ```
//!
//! Lines of a lost page that the drive's log still has are read and believed as others are; the rest is
//! zeros, which is no right checksum, and where zeros mean "nothing here" [`Repair::lost_lines`] tells them
//! apart.

use super::{Bytes, Repair};
use crate::layout::{Geometry, INODES_PER_BLOCK};
use crate::truncate::blocks_of;
use granary_device::{DriveError, Port, Structure};
use granary_fs::{FileKind, Result};
use granary_units::{LINE_SIZE, Lpa, PAGE_SIZE, Page};
use std::collections::{BTreeMap, BTreeSet};

/// Pages read together: 16 MiB.
const WINDOW: u64 = 4096;

/// The pages of the drive that cannot be read.
///
/// # Errors
/// Of the drive, other than that.
pub(super) fn find(port: &Port) -> Result<BTreeSet<u64>> {
    let mut lost = BTreeSet::new();
    let end = port.info().pages;
    let mut pages = vec![Page::ZERO; WINDOW.min(end) as usize];
    for first in (0..end).step_by(WINDOW as usize) {
        find_among(port, first, &mut pages[..WINDOW.min(end - first) as usize], &mut lost)?;
    }
    Ok(lost)
}

/// Halves what cannot be read as a whole.
fn find_among(port: &Port, first: u64, pages: &mut [Page], lost: &mut BTreeSet<u64>) -> Result<()> {
    match port.read(Lpa(first), pages, Structure::Data) {
        Err(DriveError::Unreadable(_)) if pages.len() == 1 => {
            lost.insert(first);
            Ok(())
        }
        Err(DriveError::Unreadable(_)) => {
            let (low, high) = pages.split_at_mut(pages.len() / 2);
            let middle = first + low.len() as u64;
            find_among(port, first, low, lost)?;
            find_among(port, middle, high, lost)
        }
        other => Ok(other?),
    }
}

/// Leaves those that still cannot be read.
///
/// # Errors
/// As [`find`].
pub(super) fn still(port: &Port, lost: &mut BTreeSet<u64>) -> Result<()> {
    let mut page = [Page::ZERO];
    for lba in std::mem::take(lost) {
        find_among(port, lba, &mut page, lost)?;
    }
    Ok(())
}

/// Writes the lost pages of the journal area anew, before it is replayed: what was only there is lost.
/// Returns which.
///
/// # Errors
/// Of the drive.
pub(super) fn empty_journal(port: &Port, g: &Geometry, lost: &BTreeSet<u64>) -> Result<Vec<u64>> {
    let pages: Vec<u64> = lost.range(g.journal..g.journal + g.journal_blocks).copied().collect();
    for &lba in &pages {
        port.write(Lpa(lba), &[Page::ZERO], Structure::Journal)?;
    }
    Ok(pages)
}

impl Repair<'_> {
    /// The readable lines of a lost page, zeros for the others, and a mask of the lost lines.
    fn remains(&self, lba: u64, what: Structure) -> Result<(Bytes, u64)> {
        let (mut bytes, mut gone) = ([0; PAGE_SIZE], 0);
        for (n, line) in bytes.chunks_exact_mut(LINE_SIZE).enumerate() {
            match self.port.load(Lpa(lba).byte().offset((n * LINE_SIZE) as u64), line, what) {
                Err(DriveError::Unreadable(_)) => {
                    line.fill(0);
                    gone |= 1 << n;
                }
                other => other?,
            }
        }
        Ok((bytes, gone))
    }

    /// A block as media have it.
    pub(super) fn on_media(&self, lba: u64, what: Structure) -> Result<Bytes> {
        if self.lost.contains(&lba) {
            return Ok(self.remains(lba, what)?.0);
        }
        let mut page = [Page::ZERO];
        self.port.read(Lpa(lba), &mut page, what)?;
        Ok(page[0].to_bytes())
    }

    /// The lines of a block that cannot be read, as a mask.
    pub(super) fn lost_lines(&self, lba: u64, what: Structure) -> Result<u64> {
        if self.lost.contains(&lba) { Ok(self.remains(lba, what)?.1) } else { Ok(0) }
    }

    /// Whether the record of this inode is in a page that cannot be read.
    pub(super) fn is_lost_inode(&self, ino: u32) -> bool {
        self.g.has_inode(ino as u64) && self.lost.contains(&self.g.inode_place(ino).0.0)
    }

    /// Every lost page is written, but for what files have in them: those are named. All else is decided.
    pub(super) fn renew(&mut self) -> Result<()> {
        let content = self.lost_content();
        let mut of: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        content.values().for_each(|(ino, block)| of.entry(*ino).or_default().push(*block));
        for (ino, mut blocks) in of {
            blocks.sort_unstable();
            for run in blocks.chunk_by(|a, b| a + 1 == *b) {
                let (from, to) = (run[0] * PAGE_SIZE as u64, (run[0] + run.len() as u64) * PAGE_SIZE as u64);
                let size = self.inode(ino)?.record.size.get();
                let what = format!(
                    "{}: bytes {from} to {} cannot be read, and are left as they are: write them anew, or remove the file",
                    self.path(ino),
                    to.min(size) - 1
                );
                self.report.left.push(what);
            }
        }
        let superblocks: Vec<u64> = std::iter::once(0).chain(self.g.copies()).collect();
        let mut nobodys = 0;
        let lost: Vec<u64> = self.lost.iter().copied().collect();
        for lba in lost {
            let done = self.out.contains_key(&lba) || content.contains_key(&lba);
            if done || superblocks.contains(&lba) {
                continue;
            }
            let what = self.area_of(lba);
            // Of metadata some lines may still be right.
            let bytes = if self.g.is_metadata(lba) { self.on_media(lba, what)? } else { [0; PAGE_SIZE] };
            nobodys += u64::from(what == Structure::Data);
            self.put(lba, what, &bytes);
        }
        if nobodys > 0 {
            self.say(format!("{nobodys} pages without an owner could not be read: written anew"));
        }
        Ok(())
    }

    /// The lost pages that files have within their sizes: inode and block in the file.
    fn lost_content(&self) -> BTreeMap<u64, (u32, u64)> {
        let mut content = BTreeMap::new();
        if self.lost.is_empty() {
            return content;
        }
        for (&ino, found) in self.inodes.iter().filter(|(_, f)| f.kind != Some(FileKind::Dir)) {
            let end = blocks_of(found.record.size.get());
            for p in &found.pieces {
                let (from, to) = (p.lba as u64, p.lba as u64 + p.len as u64);
                let at = |lba: u64| p.block + (lba - from);
                let lost = self.lost.range(from..to).filter(|&&lba| at(lba) < end);
                content.extend(lost.map(|&lba| (lba, (ino, at(lba)))));
            }
        }
        content
    }

    fn area_of(&self, lba: u64) -> Structure {
        let g = &self.g;
        let table = |from: u64, to: u64| (from..to).contains(&lba);
        let inodes = table(g.inode_table, g.inode_table + g.first_inodes / INODES_PER_BLOCK);
        match lba {
            _ if lba == g.orphans => Structure::Superblock,
            _ if inodes || g.segments().any(|s| table(s.inode_table, s.data)) => Structure::Inode,
            _ if table(g.journal, g.data) => Structure::Journal,
            _ if g.is_metadata(lba) => Structure::Bitmap,
            _ => Structure::Data,
        }
    }

    /// A path of an inode, for people.
    fn path(&self, ino: u32) -> String {
        let (mut path, mut at) = (String::new(), ino);
        // A tree by now: the bound is for names that are being removed.
        for _ in 0..1000 {
            let Some((dir, name)) = self.named.get(&at) else { break };
            path = format!("/{}{path}", name.escape_ascii());
            at = *dir;
        }
        if path.is_empty() { format!("inode {ino}") } else { path }
    }
}
