//! BAM on an image: the part of the file tables that is kept, and making them again from it.
//!
//! ```text
//!   0         8     16    24      32      40            4096
//!   | entries | src | dst | pages | moved | zeros ...   | entry 0 | entry 1 | ...
//!     8 B       a REMAP under way; pages 0: none          16 B each: inode number 8 | offset 4 | page 4
//! ```
//!
//! The entries' statements about the file's end are in a zone of their own, 2 B each: bytes of the page less
//! 1, highest bit: the file grew. The names are in another zone: see `names`.
//!
//! The lists, the inode table and the way from a page to its entry follow from the entries and their order,
//! which appending them again shows. A reset changes eight bytes, and so does the end of a REMAP.
//!
//! A REMAP of many pages, or one for which the log has to be cleaned first, reaches the image in several
//! groups. So it is noted before its first page moves, with the number of pages that have moved. The next
//! opening of the image moves the rest. A page that was only copied by then is moved again, with the same
//! result.
//!
//! It does *not* keep the map: that is the FTL's, and the image's medium renames its pages.

use super::names::Names;
use super::{Bam, NONE};
use crate::config::BamConfig;
use crate::saved::layout::{BAM_ENTRIES as ENTRIES, BAM_ENTRY as ENTRY, FILE_END, Layout};
use granary_redo::files::DRAM;
use granary_redo::redo::Redo;
use granary_redo::region::Region as DramFile;
use granary_redo::{ImageError, long, word};
use granary_units::Lpa;

/// Bytes before the note of a REMAP under way.
const NOTE: u64 = 8;
/// Entries read at once.
const AT_ONCE: u64 = 1 << 14;

/// A REMAP that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moving {
    /// First page.
    pub src: Lpa,
    /// Its new place.
    pub dst: Lpa,
    /// Number of pages.
    pub count: u64,
    /// Of these, pages that have moved, in the order in which REMAP goes through them.
    pub moved: u64,
}

impl Bam {
    /// The tables that an image kept, with the REMAP that was under way.
    ///
    /// # Errors
    /// [`ImageError::Damaged`], host errors.
    pub(super) fn load(
        config: &BamConfig,
        names: u32,
        pages: u64,
        layout: &Layout,
        dram: &DramFile,
    ) -> Result<Bam, ImageError> {
        let damaged = |why: String| ImageError::damaged(DRAM, format!("BAM: {why}"));
        let mut bam = Bam::new(config, names, pages);
        let mut head = [0; 40];
        dram.read(layout.bam, &mut head)?;
        let count = long(&head, 0);
        if count > bam.most_entries as u64 {
            return Err(damaged(format!("{count} entries, there can be {}", bam.most_entries)));
        }
        let mut bytes = Vec::new();
        for first in (0..count).step_by(AT_ONCE as usize) {
            bytes.resize((AT_ONCE.min(count - first) * ENTRY) as usize, 0);
            dram.read(layout.bam + ENTRIES + first * ENTRY, &mut bytes)?;
            for (n, e) in (first..).zip(bytes.chunks_exact(ENTRY as usize)) {
                let (ino, offset, lpa) = (long(e, 0), word(e, 8), word(e, 12));
                let twice = lpa != NONE && (lpa as u64 >= pages || bam.entry(Lpa(lpa as u64)).is_some());
                if offset == NONE || twice || bam.room(ino, 1, 0).is_err() {
                    return Err(damaged(format!("entry {n} is page {lpa}, block {offset} of file {ino}")));
                }
                bam.enter(ino, offset, lpa);
            }
        }
        if bam.keeps_ends {
            let mut bytes = vec![0; (count * FILE_END) as usize];
            dram.read(layout.ends, &mut bytes)?;
            bam.ends = bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
            if let Some(n) = bam.ends.iter().position(|end| end & 0x7000 != 0) {
                return Err(damaged(format!("entry {n} ends at no byte of its page")));
            }
            bam.redo_ends = Some(Redo::new(layout.ends));
        }
        bam.names = Names::load(names, pages, layout, dram)?;
        bam.inherited_names = bam.names.len() as u64;
        bam.inherited = count;
        bam.redo = Some(Redo::new(layout.bam));
        let [src, dst, count, moved] = [8, 16, 24, 32].map(|at| long(&head, at));
        let fits = |first: u64| first <= pages && count <= pages - first;
        if moved > count || !fits(src) || !fits(dst) {
            return Err(damaged(format!("{moved} of {count} pages moved from {src} to {dst}")));
        }
        let moving = Moving { src: Lpa(src), dst: Lpa(dst), count, moved };
        bam.unfinished = (count > 0).then_some(moving);
        Ok(bam)
    }

    /// For a drive that has become larger, of `pages` logical pages, and whose image keeps the entries at
    /// another place.
    pub(super) fn enlarge(&mut self, config: &BamConfig, pages: u64, layout: &Layout) {
        self.entry_of.resize(pages as usize, 0);
        self.most_entries = config.entries as usize;
        if let Some(redo) = &mut self.redo {
            redo.rebase(layout.bam);
        }
        if let Some(redo) = &mut self.redo_ends {
            redo.rebase(layout.ends);
        }
        self.names.rebase(layout);
    }

    /// Changes not yet handed over, where an image keeps them.
    pub(super) fn redos(&mut self) -> impl Iterator<Item = &mut Redo> {
        self.redo.iter_mut().chain(&mut self.redo_ends).chain(self.names.redo())
    }

    /// This REMAP is under way, and has come as far as it says; or none is.
    pub(super) fn note_down(&mut self, moving: Option<Moving>) {
        let Some(redo) = &mut self.redo else { return };
        match moving {
            Some(m) if m.moved > 0 => redo.put(NOTE + 24, &m.moved.to_le_bytes()),
            Some(m) => {
                let mut note = [0; 32];
                for (to, n) in note.chunks_exact_mut(8).zip([m.src.0, m.dst.0, m.count, m.moved]) {
                    to.copy_from_slice(&n.to_le_bytes());
                }
                redo.put(NOTE, &note);
            }
            None => redo.put(NOTE, &[0; 32]),
        }
    }

    /// There are so many entries now.
    pub(super) fn save_count(&mut self) {
        let count = self.entries.len() as u64;
        if let Some(redo) = &mut self.redo {
            redo.put(0, &count.to_le_bytes());
        }
    }

    /// The newest entry, of this file.
    pub(super) fn save_newest(&mut self, ino: u64) {
        let (Some(redo), Some(e)) = (&mut self.redo, self.entries.last()) else { return };
        let mut bytes = [0; ENTRY as usize];
        bytes[..8].copy_from_slice(&ino.to_le_bytes());
        bytes[8..12].copy_from_slice(&e.offset.to_le_bytes());
        bytes[12..].copy_from_slice(&e.lpa.to_le_bytes());
        let at = self.entries.len() as u64 - 1;
        redo.put(ENTRIES + at * ENTRY, &bytes);
        if let (Some(redo), Some(end)) = (&mut self.redo_ends, self.ends.last()) {
            redo.put(at * FILE_END, &end.to_le_bytes());
        }
        self.save_count();
    }

    /// An entry names this page now.
    pub(super) fn save_page(&mut self, entry: u32, lpa: u32) {
        if let Some(redo) = &mut self.redo {
            redo.put(ENTRIES + entry as u64 * ENTRY + 12, &lpa.to_le_bytes());
        }
    }
}
