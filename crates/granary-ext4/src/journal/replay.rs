//! Recovery: committed transactions are replayed from the log, and nothing else is read.
//!
//! Passes: scan (which transactions have their commit block), revoke (block -> last transaction that revoked
//! it), replay (the newest copy of each block goes home unless revoked in that or a later transaction).
//!
//! A transaction counts when its blocks carry one number, at least the expected one, and its commit block is
//! there: what is left of earlier laps around the log has smaller numbers. Numbers may skip (empty
//! transactions).

use super::place;
use crate::layout::corrupt;
use crate::layout::journal::{LogSuper, Record, Tag, parse, unescape};
use granary_device::{Port, Structure, Ticket};
use granary_fs::Result;
use granary_units::{Lpa, Page};
use std::collections::BTreeMap;

/// Report of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replay {
    pub transactions: u32,
    pub blocks: u32,
    pub revoked: u32,
    /// First number that no transaction in the log can have.
    pub next_tid: u32,
}

/// Reads the log in order, many blocks at a time.
struct Reader<'a> {
    port: &'a Port,
    map: &'a [(u32, u64, u32)],
    len: u32,
    first: u32,
    pages: Vec<Page>,
}

impl Reader<'_> {
    fn page(&mut self, at: u32) -> Result<Page> {
        if !(self.first..self.first + self.pages.len() as u32).contains(&at) {
            let (lpa, run) = place(self.map, at);
            let n = run.min(self.len - at).min(128);
            self.pages = vec![Page::ZERO; n as usize];
            self.first = at;
            self.port.read(Lpa(lpa), &mut self.pages, Structure::Journal)?;
        }
        Ok(self.pages[(at - self.first) as usize].clone())
    }

    fn next(&self, at: u32) -> u32 {
        if at + 1 == self.len { 1 } else { at + 1 }
    }
}

/// One committed transaction in the log.
struct Logged {
    tid: u32,
    /// Copies and their places in the log.
    copies: Vec<(Tag, u32)>,
    revoked: Vec<u64>,
}

fn scan(reader: &mut Reader<'_>, log: &LogSuper) -> Result<Vec<Logged>> {
    let mut found: Vec<Logged> = Vec::new();
    let mut open: Option<Logged> = None;
    let (mut at, mut steps) = (log.start, 0);
    while steps < log.len {
        let page = reader.page(at)?;
        let Some((tid, record)) = parse(&page.to_bytes()) else { break };
        let floor = found.last().map_or(log.sequence, |l| l.tid + 1);
        let fits = open.as_ref().map_or(tid >= floor, |l| l.tid == tid);
        if !fits {
            break;
        }
        (at, steps) = (reader.next(at), steps + 1);
        let l = open.get_or_insert_with(|| Logged { tid, copies: Vec::new(), revoked: Vec::new() });
        match record {
            Record::Descriptor(tags) => {
                for tag in tags {
                    l.copies.push((tag, at));
                    (at, steps) = (reader.next(at), steps + 1);
                }
            }
            Record::Revoke(blocks) => l.revoked.extend(blocks),
            Record::Commit => found.extend(open.take()),
        }
    }
    Ok(found)
}

/// Replays the log whose superblock is `log`; `blocks` is the size of the file system.
///
/// # Errors
/// `Corrupt` where a committed copy has no home; the drive's.
pub(crate) fn replay(port: &Port, map: &[(u32, u64, u32)], log: &LogSuper, blocks: u64) -> Result<Replay> {
    let mut report = Replay { next_tid: log.sequence.max(1), ..Replay::default() };
    if log.start == 0 {
        return Ok(report);
    }
    let mut reader = Reader { port, map, len: log.len, first: 0, pages: Vec::new() };
    let found = scan(&mut reader, log)?;
    let mut revoked: BTreeMap<u64, u32> = BTreeMap::new();
    let mut newest: BTreeMap<u64, (u32, Tag, u32)> = BTreeMap::new();
    for l in &found {
        revoked.extend(l.revoked.iter().map(|lpa| (*lpa, l.tid)));
        newest.extend(l.copies.iter().map(|(tag, at)| (tag.home, (l.tid, *tag, *at))));
    }
    report.transactions = found.len() as u32;
    // The number of a transaction that was being written when power failed must not be used again.
    report.next_tid = found.last().map_or(report.next_tid, |l| l.tid + 1) + 1;
    let mut ticket = Ticket::NONE;
    for (home, (tid, tag, at)) in newest {
        if revoked.get(&home).is_some_and(|r| *r >= tid) {
            report.revoked += 1;
            continue;
        }
        if home >= blocks {
            return Err(corrupt(format!("transaction {tid} has a copy of block {home} of {blocks}")));
        }
        let mut copy = reader.page(at)?;
        if tag.escaped {
            unescape(&mut copy);
        }
        ticket = ticket.and(port.submit_write(Lpa(home), &[copy], tag.what)?);
        report.blocks += 1;
    }
    port.wait(ticket);
    port.flush()?;
    Ok(report)
}
