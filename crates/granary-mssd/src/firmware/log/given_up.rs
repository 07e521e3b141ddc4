//! [`GivenUp`]: lines of flash pages that stayed unreadable, so that what the log held of the pages could be
//! written all the same.
//!
//! ```text
//!   flash page   |x x x x x x x x|  no attempt reads it     log:  | . . L . . L . . |  acknowledged lines
//!   cleaned to   |0 0 L 0 0 L 0 0|  a new flash page        mask: | 1 1 . 1 1 . 1 1 |  reading one of these
//!                                                                                      is an error
//!
//!   image's memory, first 4 KiB, from 96 on:   | pages 4 | zero 4 | page 4 | mask 8 | page 4 | mask 8 | ...
//! ```
//!
//! The media error stays one: a read of a line that is gone says so until the line is written again, as with
//! the Write Uncorrectable command of NVMe. The lines that were acknowledged into the log are never part of
//! it.
//!
//! Only where the log has no room to keep the lines: while it has, the page may yet be read. The table has
//! [`MOST`] entries; when it is full, cleaning waits until the host writes or trims one of its pages.
//!
//! Part of the drive's battery-backed memory: survives power loss, and an image keeps it.

use granary_redo::redo::Redo;
use std::collections::BTreeMap;

/// Pages in the table.
pub const MOST: usize = 256;
/// Where the table is in the image's memory.
pub const PLACE: u64 = 96;
/// Bytes before the first page.
const HEAD: usize = 8;
/// Bytes of a page.
const ENTRY: usize = 12;
/// Bytes of the table.
pub const SIZE: usize = HEAD + MOST * ENTRY;

/// The lines of each page that are gone.
#[derive(Clone, Default)]
pub struct GivenUp(BTreeMap<u32, u64>);

impl GivenUp {
    /// The table that an image kept, on a drive of `pages` pages.
    ///
    /// # Errors
    /// The table contradicts itself.
    pub fn load(bytes: &[u8; SIZE], pages: u64) -> Result<GivenUp, String> {
        let count = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        if count > MOST {
            return Err(format!("{count} pages with lines given up, there can be {MOST}"));
        }
        let mut table = BTreeMap::new();
        for e in bytes[HEAD..].chunks_exact(ENTRY).take(count) {
            let page = u32::from_le_bytes(e[..4].try_into().expect("4 bytes"));
            let mask = u64::from_le_bytes(e[4..].try_into().expect("8 bytes"));
            if page as u64 >= pages || mask == 0 || table.insert(page, mask).is_some() {
                return Err(format!("lines {mask:#x} of page {page} given up, on a drive of {pages} pages"));
            }
        }
        Ok(GivenUp(table))
    }

    /// Whether every line is there.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether another page finds room.
    pub fn has_room_for(&self, page: u32) -> bool {
        self.0.len() < MOST || self.0.contains_key(&page)
    }

    /// The lines of a page that are gone.
    pub fn of(&self, page: u32) -> u64 {
        self.0.get(&page).copied().unwrap_or(0)
    }

    /// From now on exactly these lines of a page are gone.
    pub fn set(&mut self, page: u32, lines: u64, redo: &mut Option<Redo>) {
        let before = if lines == 0 { self.0.remove(&page) } else { self.0.insert(page, lines) };
        assert!(self.0.len() <= MOST, "more pages given up than the table holds");
        if before.unwrap_or(0) != lines
            && let Some(redo) = redo
        {
            let mut bytes = Vec::with_capacity(HEAD + self.0.len() * ENTRY);
            bytes.extend_from_slice(&(self.0.len() as u64).to_le_bytes());
            for (page, lines) in &self.0 {
                bytes.extend_from_slice(&page.to_le_bytes());
                bytes.extend_from_slice(&lines.to_le_bytes());
            }
            redo.put(PLACE, &bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_comes_back_from_what_an_image_keeps() {
        let (mut table, mut redo) = (GivenUp::default(), Some(Redo::new(0)));
        let mut kept = [0; SIZE];
        for (page, lines) in [(7, 5), (9, 1 << 63), (7, 4), (8, 3), (8, 0)] {
            table.set(page, lines, &mut redo);
            let mut out = Vec::new();
            redo.as_mut().expect("kept").drain_into(&mut out);
            kept[..out.len() - 8].copy_from_slice(&out[8..]);
        }
        let back = GivenUp::load(&kept, 10).expect("as it was");
        assert_eq!(back.0, BTreeMap::from([(7, 4), (9, 1 << 63)]));
        assert!(GivenUp::load(&kept, 9).is_err(), "page 9 is beyond the end");
        kept[0] = 3;
        assert!(GivenUp::load(&kept, 10).is_err(), "no lines of page 8");
    }
}
