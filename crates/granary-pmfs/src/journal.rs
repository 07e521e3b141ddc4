//! Transactions: old bytes into the journal, then changes in place.
//!
//! ```text
//!   begin    reserve entries in the ring; tail store, written back without a fence
//!   undo     entries with the old bytes | fence          once for each structure
//!   change   in place, ranges written back
//!   commit   fence | commit entry | fence
//!
//!   ring     ... | done | open | done | open |  (free)       head moves over what is done, when 1/8 is used
//!                ^head                       ^tail
//! ```
//!
//! Invariants: nothing changes in place before its old bytes are safe; the head on media never lies behind an
//! entry that is being overwritten. Recovery looks at the whole ring, entries are told by their generation:
//! the tail on media is never needed, so that it needs no fence.
//!
//! Source: PMFS section 3.2; reference/baselines.md sections 7.2 and 7.4.

use crate::layout::Bytes;
use crate::layout::journal::{COMMIT, DATA, ENTRY, Form, JournalEntry, TX_MASK, UNDO, header, parse_header};
use granary_device::Structure;
use granary_fs::Result;
use granary_pm::{BLOCK, Batch, Pm, corrupt};
use granary_sim::sync::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const WHAT: Structure = Structure::Journal;
/// Address of the journal.
const BASE: u64 = BLOCK;

/// Entries reserved by one transaction.
struct Span {
    start: u64,
    entries: u64,
    done: bool,
}

/// The ring. Positions count up for ever; entry `p` lies at `p % slots`.
struct Ring {
    head: u64,
    tail: u64,
    spans: VecDeque<Span>,
    next_tx: u32,
}

/// The journal.
pub struct Journal {
    slots: u64,
    /// Generation of the ring's turn 0.
    base: u16,
    form: Form,
    ring: Mutex<Ring>,
    room: Condvar,
}

/// An open transaction.
pub(crate) struct Tx {
    id: u32,
    start: u64,
    used: u64,
    entries: u64,
}

/// A generation with which nothing in the ring is valid any more: nobody has it or the next one. Two on from
/// the present one, but where the count has begun anew and comes to entries of long ago, which most mounts
/// leave alone.
fn unused_generation(journal: &[u8], present: u16, form: Form) -> u16 {
    let entries =
        journal.as_chunks::<{ ENTRY as usize }>().0.iter().skip(1).map(|e| JournalEntry::parse(e, form));
    let used: BTreeSet<u16> = entries.filter(|e| e.kind != 0).map(|e| e.generation).collect();
    let is_unused = |g: &u16| !used.contains(g) && !used.contains(&g.wrapping_add(1));
    // There are far fewer entries than generations in any journal that mkfs makes; else the oldest are given
    // up.
    let after = (2..=u16::MAX).map(|n| present.wrapping_add(n)).find(is_unused);
    after.unwrap_or(present.wrapping_add(2))
}

impl Journal {
    /// Entries in a journal of this many blocks.
    pub fn slots(blocks: u64) -> u64 {
        blocks * BLOCK / ENTRY - 1
    }

    /// Most entries of one transaction.
    pub fn most_entries(&self) -> usize {
        (self.slots / 4) as usize
    }

    fn generation(&self, position: u64) -> u16 {
        self.base.wrapping_add((position / self.slots) as u16)
    }

    fn addr(&self, position: u64) -> u64 {
        BASE + ENTRY * (1 + position % self.slots)
    }

    /// At mount: undoes what was not committed; returns (journal, transactions undone).
    pub fn recover(pm: &Pm, blocks: u64, limit: u64, form: Form) -> Result<(Journal, u32)> {
        let slots = Journal::slots(blocks);
        let mut bytes = vec![0; (blocks * BLOCK) as usize];
        pm.load(BASE, &mut bytes, WHAT)?;
        let (head, generation) = parse_header(form, &bytes);
        if head >= slots {
            return Err(corrupt(format!("the journal's head is at {head} of {slots}")));
        }
        let mut open: BTreeMap<u32, Vec<JournalEntry>> = BTreeMap::new();
        let mut order = Vec::new();
        for position in head..head + slots {
            let at = (ENTRY * (1 + position % slots)) as usize;
            let e = JournalEntry::parse(&bytes[at..at + ENTRY as usize], form);
            let turn = generation.wrapping_add((position >= slots).into());
            if e.generation != turn {
                continue;
            }
            match e.kind {
                // Never written since mkfs.
                0 => {}
                COMMIT => {
                    open.remove(&e.tx);
                }
                UNDO if e.size as usize <= DATA && e.addr <= limit - DATA as u64 => {
                    if !open.contains_key(&e.tx) {
                        order.push(e.tx);
                    }
                    open.entry(e.tx).or_default().push(e);
                }
                _ => return Err(corrupt(format!("journal entry {}: {e:?}", position % slots))),
            }
        }
        let _step =
            (!open.is_empty()).then(|| granary_sim::step("pmfs: interrupted transactions are undone"));
        let mut b = pm.batch();
        for tx in order.iter().rev() {
            for e in open.get(tx).into_iter().flatten().rev() {
                b.put(e.addr, &e.data[..e.size as usize], Structure::Inode)?;
            }
        }
        b.fence()?;
        let base = unused_generation(&bytes, generation, form);
        b.put(BASE, &header(form, 0, base), WHAT)?;
        b.fence()?;
        let ring = Ring { head: 0, tail: 0, spans: VecDeque::new(), next_tx: 1 };
        let journal = Journal { slots, base, form, ring: Mutex::new(ring), room: Condvar::default() };
        Ok((journal, open.len() as u32))
    }

    /// Moves the head over finished transactions, on media and then in memory.
    fn clean(&self, b: &mut Batch<'_>, ring: &mut Ring) -> Result<()> {
        let _step = granary_sim::step("pmfs: the journal is cleaned");
        let mut head = ring.head;
        while let Some(span) = ring.spans.front().filter(|s| s.done) {
            head = span.start + span.entries;
            ring.spans.pop_front();
        }
        if ring.spans.is_empty() {
            head = ring.tail;
        }
        if head != ring.head {
            b.put(BASE, &header(self.form, head % self.slots, self.generation(head)), WHAT)?;
            b.fence()?;
            ring.head = head;
        }
        Ok(())
    }
}

/// Bytes that change in place.
#[derive(Clone, Debug)]
pub struct Edit {
    /// Where.
    pub addr: u64,
    /// Present bytes; empty: need not be put back.
    pub old: Bytes,
    /// New bytes.
    pub new: Bytes,
    /// The structure that the bytes belong to.
    pub what: Structure,
}

impl Journal {
    /// Begins a transaction of up to `entries` undo entries.
    pub(crate) fn begin(&self, b: &mut Batch<'_>, entries: u64) -> Result<Tx> {
        let entries = entries + 1;
        assert!(entries as usize <= self.most_entries(), "a transaction of {entries} entries");
        let mut ring = self.ring.lock();
        if ring.tail + entries - ring.head > self.slots / 8 {
            self.clean(b, &mut ring)?;
        }
        while ring.tail + entries - ring.head > self.slots {
            self.room.wait(&mut ring);
            self.clean(b, &mut ring)?;
        }
        let (id, start) = (ring.next_tx, ring.tail);
        ring.next_tx = ring.next_tx.wrapping_add(1) & TX_MASK;
        ring.tail += entries;
        ring.spans.push_back(Span { start, entries, done: false });
        // The tail lies in a line of the header's; nobody waits for it.
        b.put_u64(BASE + 16, ring.tail, WHAT)?;
        Ok(Tx { id, start, used: 0, entries })
    }

    pub(crate) fn entry(
        &self,
        b: &mut Batch<'_>,
        tx: &mut Tx,
        kind: u8,
        addr: u64,
        old: &[u8],
    ) -> Result<()> {
        assert!(tx.used < tx.entries, "a transaction has more entries than it reserved");
        let position = tx.start + tx.used;
        let mut data = [0; DATA];
        data[..old.len()].copy_from_slice(old);
        let generation = self.generation(position);
        let e = JournalEntry { addr, tx: tx.id, generation, kind, size: old.len() as u8, data };
        tx.used += 1;
        b.put(self.addr(position), &e.bytes(self.form), WHAT)
    }

    /// Commits the changes of a transaction.
    pub(crate) fn commit(&self, b: &mut Batch<'_>, mut tx: Tx) -> Result<()> {
        b.fence()?;
        self.entry(b, &mut tx, COMMIT, 0, &[])?;
        b.fence()?;
        self.finish(&tx);
        Ok(())
    }

    fn finish(&self, tx: &Tx) {
        let mut ring = self.ring.lock();
        if let Ok(i) = ring.spans.binary_search_by_key(&tx.start, |s| s.start) {
            ring.spans[i].done = true;
        }
        drop(ring);
        self.room.notify_all();
    }
}
