//! [`DataJournal`]: file data inside transactions (`data = "journal"`).
//!
//! ```text
//!   journal area   | commit table: 64 entries of a line per block | blocks ...                             |
//!   record                                                          descriptor | page | page | ...
//!
//!   write:       record by block ── wait ── entry line by byte, with the TxID of the transaction ── ...
//!                COMMIT(TxID)
//!   checkpoint:  pages of committed records to their places ── wait ── transaction: entries cleared
//!                ── blocks free
//!   recovery:    RECOVER drops the entries of transactions that were not committed ── pages of the others
//!                to their places ── wait ── entries cleared one by one, the oldest first
//! ```
//!
//! The commit entry is a line of the transaction itself, stored through the byte window: the one COMMIT makes
//! metadata, small writes and large ones count together, and a record without it is garbage. This is the
//! paper's "commit entry containing the corresponding TxID at the end of the JBD2 journal record", kept in a
//! table so that recovery reads the table and not the area.
//!
//! Two kinds of data do not come here. New blocks are written where they belong, since nobody points to them
//! before the COMMIT. Few lines of a page are lines of the transaction.
//!
//! Invariants:
//! - The drive has a record before its entry's transaction is sealed.
//! - While a page is in a record that is not checkpointed, it changes through another record only: recovery
//!   stores whole pages after RECOVER has replayed the lines.
//! - No record outlives a newer one of the same page: recovery would take the page back to what it was. So a
//!   checkpoint clears its entries in one transaction.
//! - A block gets a new owner only after the records that name it are gone.
//! - One record is made at a time (`making`), so that a task without room waits for commits and for nothing
//!   else.
//!
//! Source: ByteFS sections 4.6 (data journaling) and 4.7 (data recovery).

mod recover;
mod salvage;

pub use recover::recover;
use recover::{OnMedia, bring_home, empty, records};
pub use salvage::{Lost, salvage};

use crate::core::Core;
use crate::journal::Journal;
use crate::layout::Geometry;
use crate::ranges::Ranges;
use crate::space::Run;
use granary_device::{Port, Structure, Ticket};
use granary_fs::{FsError, Result};
use granary_sim::sync;
use granary_units::{LINE_SIZE, Lpa, PAGE_SIZE, Page, TxId};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const ENTRY_MAGIC: [u8; 8] = *b"GRBFDATA";
const DESCRIPTOR_MAGIC: [u8; 8] = *b"GRBFDESC";
/// Entries in a block of the table.
const PER_BLOCK: u64 = (PAGE_SIZE / LINE_SIZE) as u64;
/// Bytes before the first page of a descriptor.
const HEAD: usize = 32;

/// A line of the commit table: a record whose transaction is committed.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Entry {
    magic: [u8; 8],
    /// Number of the record: a later one of the same page counts.
    seq: U64,
    /// The descriptor's block.
    first: U32,
    /// Pages after it.
    pages: U32,
    /// CRC-32C of the descriptor.
    crc: U32,
    /// The transaction, for people.
    tx: U32,
    zero: [u8; 32],
}

const _: () = assert!(size_of::<Entry>() == LINE_SIZE);

/// A record that is not checkpointed.
struct Record {
    entry: u64,
    blocks: Range<u64>,
    pages: Vec<(u32, Page)>,
    /// Sequence number of the sealed transaction.
    sealed: Option<u64>,
}

#[derive(Default)]
struct State {
    seq: u64,
    used: Ranges,
    free_entries: Vec<u64>,
    records: BTreeMap<u64, Record>,
    /// The newest record of a page.
    newest: FxHashMap<u32, u64>,
}

/// See the module.
pub struct DataJournal {
    first: u64,
    table: u64,
    blocks: u64,
    state: Mutex<State>,
    /// Held from the start of a record to the seal of its transaction.
    pub making: sync::Mutex<()>,
    checkpointing: sync::Mutex<()>,
    /// Records, for looks without the lock.
    live: AtomicUsize,
}

/// A record on its way into a transaction.
#[derive(Clone)]
pub struct Making {
    seq: u64,
    /// The line of the table.
    pub at: (Lpa, u32),
    entry: Entry,
}

impl Making {
    /// The entry, for transaction `tx`.
    pub fn line(&self, tx: TxId) -> [u8; LINE_SIZE] {
        let entry = Entry { tx: U32::new(tx.0), ..self.entry };
        entry.as_bytes().try_into().expect("a line")
    }
}

/// Blocks of the commit table in an area.
pub fn table_blocks(area: u64) -> u64 {
    (area / 128).clamp(1, 16)
}

impl DataJournal {
    /// Of a file system whose table is empty.
    pub fn new(geometry: &Geometry) -> DataJournal {
        let table = table_blocks(geometry.journal_blocks);
        let state = State { free_entries: (0..table * PER_BLOCK).rev().collect(), ..State::default() };
        DataJournal {
            first: geometry.journal,
            table,
            blocks: geometry.journal_blocks - table,
            state: Mutex::new(state),
            making: sync::Mutex::new(()),
            checkpointing: sync::Mutex::new(()),
            live: AtomicUsize::new(0),
        }
    }

    /// Pages that one record can have.
    pub fn limit(&self) -> usize {
        ((PAGE_SIZE - HEAD) / 8).min(self.blocks as usize - 1)
    }

    /// Whether no record waits for its checkpoint.
    pub fn is_empty(&self) -> bool {
        self.live.load(Relaxed) == 0
    }

    /// Whether a record that is not checkpointed has this block.
    pub fn has(&self, lba: u32) -> bool {
        !self.is_empty() && self.state.lock().newest.contains_key(&lba)
    }

    /// Whether one has any of these.
    pub fn has_any(&self, runs: impl Iterator<Item = Run>) -> bool {
        if self.is_empty() {
            return false;
        }
        let state = self.state.lock();
        let within = |r: Run| state.newest.keys().any(|&lba| lba >= r.lba && lba - r.lba < r.len);
        runs.into_iter().any(within)
    }

    /// Pages of the blocks `lba..lba + len` that records have, by offset. Callers ask before they read the
    /// blocks: a checkpoint may come between.
    pub fn held(&self, lba: u32, len: usize) -> Vec<(usize, Page)> {
        if self.is_empty() {
            return Vec::new();
        }
        let state = self.state.lock();
        let of = |n: usize| {
            let lba = lba + n as u32;
            let record = &state.records[state.newest.get(&lba)?];
            record.pages.iter().find(|p| p.0 == lba).map(|p| (n, p.1.clone()))
        };
        (0..len).filter_map(of).collect()
    }

    fn allocate(&self, pages: u64) -> Option<(u64, u64, Range<u64>)> {
        let state = &mut *self.state.lock();
        let entry = *state.free_entries.last()?;
        let gap = state.used.missing(0..self.blocks).find(|g| g.end - g.start > pages)?;
        let blocks = gap.start..gap.start + 1 + pages;
        state.used.insert(blocks.clone());
        state.free_entries.pop();
        state.seq += 1;
        Some((state.seq, entry, blocks))
    }

    fn block(&self, n: u64) -> Lpa {
        Lpa(self.first + self.table + n)
    }

    fn entry_place(&self, entry: u64) -> (Lpa, u32) {
        (Lpa(self.first + entry / PER_BLOCK), (entry % PER_BLOCK) as u32)
    }

    /// The transaction with a record's entry has its place in the order.
    pub fn sealed(&self, making: Making, seq: u64) {
        let state = &mut *self.state.lock();
        if let Some(record) = state.records.get_mut(&making.seq) {
            record.sealed = Some(seq);
            for (lba, _) in &record.pages {
                state.newest.insert(*lba, making.seq);
            }
        }
    }

    /// A record whose transaction was given up: nobody names it.
    pub fn forget(&self, making: &Making) {
        let state = &mut *self.state.lock();
        if let Some(record) = state.records.remove(&making.seq) {
            state.used.remove(record.blocks);
            state.free_entries.push(record.entry);
            self.live.store(state.records.len(), Relaxed);
        }
    }

    /// Writes the pages of committed records where they belong, the newest of each, and empties their
    /// entries, all or none: an older record that outlives a newer one would bring its pages back.
    fn checkpoint(&self, port: &Port, log: &Journal) -> Result<()> {
        let _one = self.checkpointing.lock();
        let committed = log.committed();
        let mut home: BTreeMap<u32, Page> = BTreeMap::new();
        let mut done = Vec::new();
        for (seq, record) in &self.state.lock().records {
            if record.sealed.is_some_and(|s| s <= committed) {
                home.extend(record.pages.iter().cloned());
                done.push((*seq, record.entry));
            }
        }
        if done.is_empty() {
            return Ok(());
        }
        write_home(port, &home)?;
        let tx = log.new_tx();
        let place = |entry: u64| {
            let (lpa, line) = self.entry_place(entry);
            lpa.byte().offset(line as u64 * LINE_SIZE as u64)
        };
        for (_, entry) in &done {
            port.stage(place(*entry), &[0; LINE_SIZE], tx, Structure::Journal)?;
        }
        port.flush_lines(done.iter().map(|d| (place(d.1), LINE_SIZE)))?;
        log.fatal(log.commit_one(port, tx, None))?;
        let state = &mut *self.state.lock();
        for (seq, entry) in done {
            let Some(record) = state.records.remove(&seq) else { continue };
            state.used.remove(record.blocks);
            state.free_entries.push(entry);
            for (lba, _) in record.pages {
                if state.newest.get(&lba) == Some(&seq) {
                    state.newest.remove(&lba);
                }
            }
        }
        self.live.store(state.records.len(), Relaxed);
        Ok(())
    }

    /// Differences between the table on media and the records in memory.
    ///
    /// # Errors
    /// Of the drive.
    pub fn check(&self, port: &Port) -> Result<Vec<String>> {
        let mut pages = vec![Page::ZERO; self.table as usize];
        port.read(Lpa(self.first), &mut pages, Structure::Journal)?;
        let state = self.state.lock();
        let known: Vec<u64> = state.records.values().map(|r| r.entry).collect();
        let mut bad = Vec::new();
        for (n, page) in pages.iter().enumerate() {
            for (line, bytes) in page.to_bytes().chunks_exact(LINE_SIZE).enumerate() {
                let entry = n as u64 * PER_BLOCK + line as u64;
                if bytes.iter().any(|&b| b != 0) && !known.contains(&entry) {
                    bad.push(format!("journal area: entry {entry} of the commit table is of no record"));
                }
            }
        }
        let used: u64 = state.records.values().map(|r| r.blocks.end - r.blocks.start).sum();
        if used != state.used.count() {
            bad.push(format!("journal area: {} blocks in use, records have {used}", state.used.count()));
        }
        Ok(bad)
    }
}

fn write_home(port: &Port, home: &BTreeMap<u32, Page>) -> Result<()> {
    let all: Vec<(u32, Page)> = home.iter().map(|(lba, page)| (*lba, page.clone())).collect();
    let mut ticket = Ticket::NONE;
    for run in all.chunk_by(|a, b| a.0 + 1 == b.0) {
        let pages: Vec<Page> = run.iter().map(|p| p.1.clone()).collect();
        ticket = ticket.and(port.submit_write(Lpa(run[0].0 as u64), &pages, Structure::Data)?);
    }
    port.wait(ticket);
    Ok(())
}

fn descriptor(seq: u64, pages: &[(u32, Page)]) -> Page {
    let mut block = [0; PAGE_SIZE];
    block[..8].copy_from_slice(&DESCRIPTOR_MAGIC);
    block[8..16].copy_from_slice(&seq.to_le_bytes());
    block[16..20].copy_from_slice(&(pages.len() as u32).to_le_bytes());
    for ((lba, page), at) in pages.iter().zip((HEAD..).step_by(8)) {
        block[at..at + 4].copy_from_slice(&lba.to_le_bytes());
        block[at + 4..at + 8].copy_from_slice(&crc32c::crc32c(&page.to_bytes()).to_le_bytes());
    }
    Page::from_bytes(&block)
}

impl Core {
    /// Starts a record of these pages, which the drive will have when the ticket is done; commits and
    /// checkpoints where there is no room. The caller holds `making` until [`DataJournal::sealed`].
    ///
    /// # Errors
    /// Of the drive.
    pub fn make_record(&self, pages: Vec<(u32, Page)>) -> Result<(Making, Ticket)> {
        let journal = &self.data_journal;
        assert!(pages.len() <= journal.limit(), "{} pages in one record", pages.len());
        let (seq, entry, blocks) = match journal.allocate(pages.len() as u64) {
            Some(found) => found,
            None => {
                self.checkpoint_data(true)?;
                journal.allocate(pages.len() as u64).ok_or(FsError::NoSpace)?
            }
        };
        let head = descriptor(seq, &pages);
        let making = Making {
            seq,
            at: journal.entry_place(entry),
            entry: Entry {
                magic: ENTRY_MAGIC,
                seq: U64::new(seq),
                first: U32::new(blocks.start as u32),
                pages: U32::new(pages.len() as u32),
                crc: U32::new(crc32c::crc32c(&head.to_bytes())),
                tx: U32::ZERO,
                zero: [0; 32],
            },
        };
        let mut content = vec![head];
        content.extend(pages.iter().map(|p| p.1.clone()));
        let at = journal.block(blocks.start);
        {
            let state = &mut *journal.state.lock();
            state.records.insert(seq, Record { entry, blocks, pages, sealed: None });
            journal.live.store(state.records.len(), Relaxed);
        }
        let ticket = self.port.submit_write(at, &content, Structure::Journal)?;
        Ok((making, ticket))
    }

    /// Checkpoints all committed records; with `commit` everything sealed is committed first.
    ///
    /// # Errors
    /// Of the drive.
    pub fn checkpoint_data(&self, commit: bool) -> Result<()> {
        if self.data_journal.is_empty() {
            return Ok(());
        }
        if commit {
            self.commit_only(self.journal.sealed())?;
        }
        self.data_journal.checkpoint(&self.port, &self.journal)
    }
}
