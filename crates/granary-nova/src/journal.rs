//! Lite transactions: several words in several inodes change together.
//!
//! ```text
//!   entries (address, old word) into the CPU's ring | fence | pair.tail := end | fence
//!   the words change in place                       | fence
//!   pair.head := pair.tail                          | fence
//! ```
//!
//! Invariant: one transaction at a time per CPU; between transactions head == tail. After a power failure the
//! words between head and tail are put back, last first.
//!
//! Source: NOVA section 4.4 ("lightweight journaling"), reference/baselines.md section 6.3.

use crate::Nova;
use crate::layout::JOURNAL_PAIRS;
use crate::layout::journal::{ENTRY, entry, parse};
use granary_device::Structure;
use granary_fs::Result;
use granary_pm::bytes::{put_u64, u64_at};
use granary_pm::{BLOCK, Batch, Pm, corrupt};

const WHAT: Structure = Structure::Journal;

/// One CPU's journal.
pub struct Journal {
    pair: u64,
    ring: u64,
    /// Offset in the ring.
    head: u64,
}

impl Journal {
    /// The journal of `cpu`, empty.
    pub fn new(cpu: usize, first_ring: u64, head: u64) -> Journal {
        let pair = JOURNAL_PAIRS * BLOCK + cpu as u64 * 64;
        Journal { pair, ring: (first_ring + cpu as u64) * BLOCK, head }
    }

    fn put_pair(&self, b: &mut Batch<'_>, head: u64, tail: u64) -> Result<()> {
        let mut pair = [0; 16];
        put_u64(&mut pair, 0, head);
        put_u64(&mut pair, 8, tail);
        b.put(self.pair, &pair, WHAT)
    }

    fn begin(&self, b: &mut Batch<'_>, words: &[(u64, u64)]) -> Result<u64> {
        assert!((words.len() as u64) < BLOCK / ENTRY, "a lite transaction of {} words", words.len());
        let mut at = self.head;
        for (addr, old) in words {
            b.put(self.ring + at, &entry(*addr, *old), WHAT)?;
            at = (at + ENTRY) % BLOCK;
        }
        b.fence()?;
        self.put_pair(b, self.head, at)?;
        b.fence()?;
        Ok(at)
    }

    fn end(&mut self, b: &mut Batch<'_>, tail: u64) -> Result<()> {
        b.fence()?;
        self.put_pair(b, tail, tail)?;
        b.fence()?;
        self.head = tail;
        Ok(())
    }

    /// At mount: puts back what an interrupted transaction changed; returns (journal, words put back).
    pub fn recover(pm: &Pm, cpu: usize, first_ring: u64, limit: u64) -> Result<(Journal, u32)> {
        let mut journal = Journal::new(cpu, first_ring, 0);
        let mut pair = [0; 16];
        pm.load(journal.pair, &mut pair, WHAT)?;
        let (head, tail) = (u64_at(&pair, 0), u64_at(&pair, 8));
        if head >= BLOCK || tail >= BLOCK || head % ENTRY != 0 || tail % ENTRY != 0 {
            return Err(corrupt(format!("journal {cpu} from {head} to {tail}")));
        }
        (journal.head, journal.ring) = (tail, journal.ring);
        if head == tail {
            return Ok((journal, 0));
        }
        let ring = pm.load_block(journal.ring / BLOCK, WHAT)?;
        let (mut at, mut words) = (head, Vec::new());
        while at != tail {
            let Some((addr, old)) = parse(&ring[at as usize..(at + ENTRY) as usize]) else {
                return Err(corrupt(format!("journal {cpu}: the entry at {at} is torn")));
            };
            if addr % 8 != 0 || addr > limit - 8 {
                return Err(corrupt(format!("journal {cpu}: an entry for byte {addr:#x}")));
            }
            words.push((addr, old));
            at = (at + ENTRY) % BLOCK;
        }
        let _step = granary_sim::step("nova: an interrupted lite transaction is undone");
        let mut b = pm.batch();
        for (addr, old) in words.iter().rev() {
            b.put_u64(*addr, *old, Structure::Inode)?;
        }
        journal.end(&mut b, tail)?;
        Ok((journal, words.len() as u32))
    }
}

impl Nova {
    /// Changes words in place, all or none: `words` are their addresses and present values.
    pub(crate) fn transaction(
        &self,
        b: &mut Batch<'_>,
        words: &[(u64, u64)],
        change: impl FnOnce(&mut Batch<'_>) -> Result<()>,
    ) -> Result<()> {
        let _step = granary_sim::step("nova: a lite transaction is under way");
        let mut journal = self.journals[self.cpu()].lock();
        let tail = journal.begin(b, words)?;
        change(b)?;
        journal.end(b, tail)
    }
}
