//! Recovery of the data journal: a mount brings the records on media home.

use super::{ENTRY_MAGIC, Entry, HEAD, table_blocks, write_home};
use crate::layout::Geometry;
use granary_device::{Port, Structure};
use granary_fs::{FsError, Result};
use granary_units::{LINE_SIZE, Lpa, PAGE_SIZE, Page, TxId};
use std::collections::BTreeMap;
use zerocopy::{FromBytes, IntoBytes};

/// A record as media have it.
pub(super) struct OnMedia {
    /// Place of its entry in the table.
    pub(super) entry: u64,
    /// Its number; `None`: not to be believed.
    pub(super) seq: Option<u64>,
    /// The blocks that it changes; `None`: its descriptor is not the one that was committed.
    pub(super) blocks: Option<Vec<u32>>,
    /// Their content, or what is wrong.
    pub(super) pages: std::result::Result<Vec<Page>, String>,
}

/// The records of the commit table, the oldest first; before them those whose number is not to be believed.
///
/// # Errors
/// Of the drive.
pub(super) fn records(port: &Port, g: &Geometry) -> Result<Vec<OnMedia>> {
    let table = table_blocks(g.journal_blocks);
    let blocks = g.journal_blocks - table;
    let mut pages = vec![Page::ZERO; table as usize];
    port.read(Lpa(g.journal), &mut pages, Structure::Journal)?;
    let bytes: Vec<u8> = pages.iter().flat_map(|p| p.to_bytes()).collect();
    let mut found = Vec::new();
    for (n, line) in (0..).zip(bytes.chunks_exact(LINE_SIZE)) {
        let entry = Entry::read_from_bytes(line).expect("a line");
        if line.iter().all(|&b| b == 0) {
            continue;
        }
        let (first, count) = (entry.first.get() as u64, entry.pages.get() as u64);
        if count as usize > (PAGE_SIZE - HEAD) / 8 || first + count >= blocks {
            found.push(OnMedia { entry: n, seq: None, blocks: None, pages: Err(entry_damaged(n)) });
            continue;
        }
        let mut record = vec![Page::ZERO; 1 + count as usize];
        port.read(Lpa(g.journal + table + first), &mut record, Structure::Journal)?;
        found.push(on_media(g, n, &entry, &record));
    }
    found.sort_by_key(|r| r.seq);
    Ok(found)
}

pub(super) fn entry_damaged(n: u64) -> String {
    format!("journal area: entry {n} of the commit table is damaged")
}

/// Holds an entry, its descriptor and pages against each other.
pub(super) fn on_media(g: &Geometry, n: u64, entry: &Entry, record: &[Page]) -> OnMedia {
    let head = record[0].to_bytes();
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let places = || (HEAD..).step_by(8).take(record.len() - 1);
    let numbered = head[8..16] == *entry.seq.as_bytes();
    let whole = numbered && crc32c::crc32c(&head) == entry.crc.get();
    let sound = |(page, at): (&Page, usize)| {
        crc32c::crc32c(&page.to_bytes()) == word(at + 4) && g.has_data(word(at) as u64, 1)
    };
    let pages = match (entry.magic == ENTRY_MAGIC, whole && record[1..].iter().zip(places()).all(sound)) {
        (true, true) => Ok(record[1..].to_vec()),
        (false, _) => Err(entry_damaged(n)),
        _ => Err(format!("journal area: record {} of the data journal is damaged", entry.seq)),
    };
    OnMedia {
        entry: n,
        seq: numbered.then_some(entry.seq.get()),
        blocks: whole.then(|| places().map(word).collect()),
        pages,
    }
}

/// After RECOVER: moves the pages of all committed records to their places and empties the table. Returns how
/// many pages there were.
///
/// # Errors
/// `Corrupt` where an entry or its record is not what was written; of the drive.
pub fn recover(port: &Port, g: &Geometry) -> Result<u64> {
    let records = records(port, g)?;
    if let Some(what) = records.iter().find_map(|r| r.pages.as_ref().err()) {
        return Err(FsError::Corrupt(what.clone()));
    }
    bring_home(port, g, &records)
}

/// Moves the pages of sound records to their places, the newest of each, and empties their entries.
pub(super) fn bring_home<'a>(
    port: &Port,
    g: &Geometry,
    records: impl IntoIterator<Item = &'a OnMedia> + Clone,
) -> Result<u64> {
    let mut all = records.clone().into_iter().peekable();
    let _step = all.peek().map(|_| granary_sim::step("bytefs: a mount brings the data journal home"));
    let mut home = BTreeMap::new();
    for r in all {
        let pages = r.pages.iter().flatten().cloned();
        home.extend(r.blocks.iter().flatten().copied().zip(pages));
    }
    write_home(port, &home)?;
    // The power may fail again: an older record must not outlive a newer one. There are no transactions yet.
    records.into_iter().try_for_each(|r| empty(port, g, r))?;
    Ok(home.len() as u64)
}

/// Empties a record's entry: it is none any more.
pub(super) fn empty(port: &Port, g: &Geometry, record: &OnMedia) -> Result<()> {
    let at = Lpa(g.journal).byte().offset(record.entry * LINE_SIZE as u64);
    port.store(at, &[0; LINE_SIZE], TxId::NONE, Structure::Journal)?;
    port.verify()?;
    Ok(())
}
