//! [`StrictDrive`]: a drive that does exactly what its interface promises, no more, and objects to protocol
//! errors.
//!
//! ```text
//!   store ──> pending (posted)  ── verify ──> safe ── COMMIT(tx) ──> durable     tx 0: durable when safe
//!   write ──────────────────── completion ─────────────────────────> durable
//! ```
//!
//! A power failure keeps: any subset of unverified stores outside transactions, any subset of the pages in
//! flight, a prefix of the COMMITs in flight; nothing of uncommitted transactions. It panics where a COMMIT
//! comes before the verify of the transaction's stores, where a page with uncommitted lines is written by
//! block, and where a transaction number is used again.

use granary_device::vendor::transactions::{COMMANDS, Commit, Recover};
use granary_device::{Command, Drive, DriveError, DriveInfo, LinkTraffic, Structure};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, LINE_SIZE, Nanos, PAGE_SIZE, Page, TxId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

struct Store {
    page: u64,
    line: usize,
    data: [u8; LINE_SIZE],
    verified: bool,
}

enum InFlight {
    Write { done: Nanos, page: u64, data: Page },
    Commit { done: Nanos, tx: TxId },
}

#[derive(Default)]
struct State {
    /// Content that reads see.
    now: BTreeMap<u64, Page>,
    /// Content that survives a power failure.
    durable: BTreeMap<u64, Page>,
    pending: BTreeMap<TxId, Vec<Store>>,
    committed: BTreeSet<TxId>,
    in_flight: VecDeque<InFlight>,
    traffic: LinkTraffic,
    off: bool,
    unreadable: Option<u64>,
}

/// See the module.
pub struct StrictDrive {
    pages: u64,
    state: Mutex<State>,
}

fn put_line(pages: &mut BTreeMap<u64, Page>, page: u64, line: usize, data: &[u8; LINE_SIZE]) {
    let bytes = pages.entry(page).or_default().bytes_mut();
    bytes[line * LINE_SIZE..(line + 1) * LINE_SIZE].copy_from_slice(data);
}

impl State {
    fn commit(&mut self, tx: TxId) {
        for s in self.pending.remove(&tx).unwrap_or_default() {
            put_line(&mut self.durable, s.page, s.line, &s.data);
        }
        self.committed.insert(tx);
    }

    /// Ends what has completed by `now`.
    fn retire(&mut self, now: Nanos) {
        let mut later = VecDeque::new();
        for f in std::mem::take(&mut self.in_flight) {
            match f {
                InFlight::Write { done, page, data } if done <= now => {
                    self.durable.insert(page, data);
                }
                InFlight::Commit { done, tx } if done <= now => self.commit(tx),
                other => later.push_back(other),
            }
        }
        self.in_flight = later;
    }

    fn answers(&mut self, now: Nanos) -> Result<(), DriveError> {
        self.retire(now);
        if self.off { Err(DriveError::PoweredOff) } else { Ok(()) }
    }
}

impl StrictDrive {
    pub fn new(pages: u64) -> StrictDrive {
        // Every page begins as garbage: nobody may rely on zeros that he did not write.
        let mut state = State::default();
        for n in 0..pages {
            state.now.insert(n, Page::word(0x6761_7262_6167_6521 ^ n));
        }
        state.durable = state.now.clone();
        StrictDrive { pages, state: Mutex::new(state) }
    }

    /// From now on this page cannot be read; `None`: all can.
    pub fn refuse(&self, page: Option<u64>) {
        self.state.lock().unreadable = page;
    }
}

impl Drive for StrictDrive {
    granary_device::plain_drive!();

    fn info(&self) -> DriveInfo {
        DriveInfo {
            pages: self.pages,
            blocks: true,
            bytes: true,
            offers: [COMMANDS, &[]],
            max_transfer: 256,
            ..DriveInfo::default()
        }
    }

    fn load(&self, now: Nanos, at: ByteAddr, out: &mut [u8], what: Structure) -> Result<Nanos, DriveError> {
        let mut s = self.state.lock();
        s.answers(now)?;
        let first = at.line();
        let lines = (at.0 + out.len() as u64).div_ceil(64) - first;
        s.traffic.byte_read[what as usize] += lines * 64;
        for (i, b) in out.iter_mut().enumerate() {
            let a = at.offset(i as u64);
            let mut one = [0];
            s.now[&a.lpa().0].copy_out(a.in_page(), &mut one);
            *b = one[0];
        }
        Ok(now + Nanos(4800 * lines))
    }

    fn store_from(
        &self,
        _: u16,
        now: Nanos,
        at: ByteAddr,
        data: &[u8],
        tx: TxId,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        let mut s = self.state.lock();
        s.answers(now)?;
        assert!(!s.committed.contains(&tx), "{tx:?} was committed already");
        let mut done = 0;
        while done < data.len() {
            let a = at.offset(done as u64);
            let (page, inside) = (a.lpa().0, a.in_page());
            let line = inside / LINE_SIZE;
            let n = (LINE_SIZE - inside % LINE_SIZE).min(data.len() - done);
            assert!(tx == TxId::NONE || n == LINE_SIZE, "metadata go in whole lines");
            let mut whole = [0; LINE_SIZE];
            s.now[&page].copy_out(line * LINE_SIZE, &mut whole);
            let from = inside % LINE_SIZE;
            whole[from..from + n].copy_from_slice(&data[done..done + n]);
            put_line(&mut s.now, page, line, &whole);
            s.pending.entry(tx).or_default().push(Store { page, line, data: whole, verified: false });
            s.traffic.byte_write[what as usize] += LINE_SIZE as u64;
            done += n;
        }
        Ok(now + Nanos(600))
    }

    fn flush_lines(&self, now: Nanos, _: ByteAddr, _: usize) -> Result<Nanos, DriveError> {
        Ok(now)
    }

    fn verify(&self, now: Nanos) -> Result<Nanos, DriveError> {
        let mut s = self.state.lock();
        s.answers(now)?;
        s.pending.values_mut().flatten().for_each(|p| p.verified = true);
        s.commit(TxId::NONE);
        s.committed.remove(&TxId::NONE);
        Ok(now + Nanos(1000))
    }

    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        let mut s = self.state.lock();
        s.answers(now)?;
        match command {
            Command::Read { lpa, out, what } => {
                let refused = |page: &u64| (lpa.0..lpa.0 + out.len() as u64).contains(page);
                if let Some(page) = s.unreadable.filter(refused) {
                    return Err(DriveError::Unreadable(page));
                }
                s.traffic.block_read[what as usize] += (out.len() * PAGE_SIZE) as u64;
                for (i, page) in out.iter_mut().enumerate() {
                    *page = s.now[&(lpa.0 + i as u64)].clone();
                }
                Ok(now + Nanos(45_000))
            }
            Command::Write { lpa, pages, what } => {
                s.traffic.block_write[what as usize] += (pages.len() * PAGE_SIZE) as u64;
                let done = now + Nanos(10_000 + 1_500 * pages.len() as u64);
                for (i, data) in pages.iter().enumerate() {
                    let page = lpa.0 + i as u64;
                    let open =
                        s.pending.iter().find(|(t, p)| **t != TxId::NONE && p.iter().any(|x| x.page == page));
                    assert!(
                        open.is_none(),
                        "block write of page {page} with lines of {:?}",
                        open.map(|o| o.0)
                    );
                    if let Some(none) = s.pending.get_mut(&TxId::NONE) {
                        none.retain(|p| p.page != page);
                    }
                    s.now.insert(page, data.clone());
                    s.in_flight.push_back(InFlight::Write { done, page, data: data.clone() });
                }
                Ok(done)
            }
            Command::Flush => Ok(now + Nanos(1000)),
            Command::Trim { lpa, count } => {
                for n in lpa.0..lpa.0 + count {
                    let open =
                        s.pending.iter().any(|(t, p)| *t != TxId::NONE && p.iter().any(|x| x.page == n));
                    assert!(!open, "trim of page {n} with uncommitted lines");
                    s.now.insert(n, Page::ZERO);
                    s.durable.insert(n, Page::ZERO);
                }
                Ok(now + Nanos(1000))
            }
            Command::Vendor(own) => {
                if own.get::<Recover>().is_some() {
                    s.pending.clear();
                    s.committed.clear();
                    s.now = s.durable.clone();
                    return Ok(now + Nanos::from_millis(1));
                }
                let Some(&Commit { tx }) = own.get() else { return Err(DriveError::Unsupported("BAM")) };
                let verified = s.pending.get(&tx).is_none_or(|p| p.iter().all(|x| x.verified));
                assert!(verified, "COMMIT of {tx:?} before its stores were verified");
                assert!(!s.committed.contains(&tx), "COMMIT of {tx:?} twice");
                // Commits complete in the order in which they are submitted.
                let last = s.in_flight.iter().rev().find_map(|f| match f {
                    InFlight::Commit { done, .. } => Some(*done),
                    InFlight::Write { .. } => None,
                });
                let done = (now + Nanos(3000)).max(last.unwrap_or(Nanos::ZERO) + Nanos(200));
                s.in_flight.push_back(InFlight::Commit { done, tx });
                Ok(done)
            }
        }
    }

    fn settle(&self, now: Nanos) -> Result<Nanos, DriveError> {
        Ok(now)
    }

    fn power_fail(&self, now: Nanos, random: &mut Stream) {
        let mut s = self.state.lock();
        s.retire(now);
        for store in s.pending.remove(&TxId::NONE).unwrap_or_default() {
            if random.chance(0.5) {
                put_line(&mut s.durable, store.page, store.line, &store.data);
            }
        }
        let mut commits_go_on = true;
        for f in std::mem::take(&mut s.in_flight) {
            match f {
                InFlight::Write { page, data, .. } if random.chance(0.5) => {
                    s.durable.insert(page, data);
                }
                InFlight::Write { .. } => {}
                InFlight::Commit { tx, .. } => {
                    commits_go_on &= random.chance(0.5);
                    if commits_go_on {
                        s.commit(tx);
                    }
                }
            }
        }
        s.pending.clear();
        s.now = s.durable.clone();
        s.off = true;
    }

    fn power_on(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.state.lock().off = false;
        Ok(now)
    }

    fn track_in_flight(&self, _: bool) {}

    fn traffic(&self) -> LinkTraffic {
        self.state.lock().traffic
    }

    fn check(&self) -> Result<(), Vec<String>> {
        Ok(())
    }
}
