//! [`DimmState`]: what is behind the lock of a [`Dimm`](super::Dimm): stores, write-backs, loads, with their
//! time and content.
//!
//! ```text
//!   content:  medium (newest that left the caches) <- overlaid by the lines that the caches hold
//!   time:     core (busy per line) -> module of the stripe -> accepted
//! ```
//!
//! Invariant: a call that is refused has changed nothing (one during which the host of the medium failed may
//! have).

use crate::caches::{Caches, Held, runs, split};
use crate::config::{DimmConfig, Domain, ErrorConfig};
use crate::counters::DimmCounters;
use crate::medium::Medium;
use crate::module::{Module, Picos, Times, Way, nanos, picos};
use crate::risk::Risk;
use granary_device::{CommandCounters, DriveError, LinkTraffic, Streamed, Structure};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, LINE_SIZE, LINES_PER_PAGE, Lpa, Nanos, PAGE_SIZE, Payload};
use std::collections::BTreeSet;

/// State of a core between its calls.
#[derive(Clone, Copy, Default)]
pub(super) struct Core {
    /// It can issue the next line then.
    pub(super) free: Picos,
    /// The line behind the last that it read.
    pub(super) next: u64,
}

/// Everything behind the lock.
pub struct DimmState<M> {
    pub(super) medium: M,
    pub(super) caches: Caches,
    pub(super) modules: Vec<Module>,
    pub(super) times: Times,
    stripe_lines: u64,
    pub(super) domain: Domain,
    cores: Vec<Core>,
    /// When the last line that left a core has been accepted.
    pub(super) accepted: Picos,
    /// Lines that have left a core.
    pub(super) posts: u64,
    pub(super) powered: bool,
    pub(super) tracking: bool,
    pub(super) risk: Risk,
    /// Lines that cannot be read.
    pub(super) bad: BTreeSet<u64>,
    pub(super) errors: ErrorConfig,
    pub(super) failures: Stream,
    pub(super) traffic: LinkTraffic,
    pub(super) commands: CommandCounters,
    pub(super) counters: DimmCounters,
    /// The file behind the medium failed.
    pub(super) fault: Option<DriveError>,
}

/// The host of the medium failed at a page, or does not have what was written there.
pub(super) fn host(page: u64) -> impl Fn(std::io::Error) -> DriveError {
    move |e| match e.kind() {
        std::io::ErrorKind::InvalidData => DriveError::Unreadable(page),
        _ => DriveError::ReadOnly(e.to_string()),
    }
}

pub(super) fn page_of(line: u64) -> u64 {
    line / LINES_PER_PAGE as u64
}

pub(super) fn byte_of(line: u64) -> usize {
    (line % LINES_PER_PAGE as u64) as usize * LINE_SIZE
}

/// First line of a range, and the one behind its last.
pub(super) fn lines_of(at: ByteAddr, len: usize) -> (u64, u64) {
    (at.line(), at.offset(len as u64 - 1).line() + 1)
}

impl<M: Medium> DimmState<M> {
    /// The same once more, if the medium has a second copy.
    pub(super) fn fork(&self) -> Option<DimmState<M>> {
        Some(DimmState {
            medium: self.medium.second()?,
            caches: self.caches.clone(),
            modules: self.modules.clone(),
            times: self.times.clone(),
            stripe_lines: self.stripe_lines,
            domain: self.domain,
            cores: self.cores.clone(),
            accepted: self.accepted,
            posts: self.posts,
            powered: self.powered,
            tracking: self.tracking,
            risk: self.risk.clone(),
            bad: self.bad.clone(),
            errors: self.errors,
            failures: self.failures.clone(),
            traffic: self.traffic,
            commands: self.commands,
            counters: self.counters,
            fault: self.fault.clone(),
        })
    }

    /// Idle, with power; the configuration is valid.
    pub fn new(c: &DimmConfig, medium: M) -> DimmState<M> {
        DimmState {
            medium,
            caches: Caches::new((c.caches.0 / LINE_SIZE as u64) as usize),
            modules: (0..c.dimms).map(|_| Module::new(c)).collect(),
            times: Times::new(c),
            stripe_lines: c.stripe.0 / LINE_SIZE as u64,
            domain: c.domain,
            cores: Vec::new(),
            accepted: 0,
            posts: 0,
            powered: true,
            tracking: false,
            risk: Risk::default(),
            bad: BTreeSet::new(),
            errors: c.errors,
            failures: Stream::new(c.errors.seed, "pmem.errors"),
            traffic: LinkTraffic::default(),
            commands: CommandCounters::default(),
            counters: DimmCounters { granule: c.granule.0, ..DimmCounters::default() },
            fault: None,
        }
    }

    /// Does what is due by `now`; an error if nothing can be served.
    #[inline]
    pub fn begin(&mut self, now: Nanos) -> Result<(), DriveError> {
        if !self.powered {
            return Err(DriveError::PoweredOff);
        }
        if self.tracking {
            self.answer(now);
        }
        self.fault.clone().map_or(Ok(()), Err)
    }

    pub(super) fn core(&mut self, core: u16) -> &mut Core {
        let i = core as usize;
        if i >= self.cores.len() {
            self.cores.resize(i + 1, Core::default());
        }
        &mut self.cores[i]
    }

    pub(super) fn idle_cores(&mut self) {
        self.cores.clear();
    }

    /// The DIMM that has a line, and the line behind the last of its stripe.
    pub(super) fn stripe(&self, line: u64) -> (usize, u64) {
        let stripe = line / self.stripe_lines;
        ((stripe % self.modules.len() as u64) as usize, (stripe + 1) * self.stripe_lines)
    }

    pub fn store(
        &mut self,
        core: u16,
        now: Nanos,
        at: ByteAddr,
        data: &[u8],
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        if !self.bad.is_empty() {
            self.part_of_bad_line(at, data.len())?;
        }
        self.commands.stores += 1;
        for (line, byte, offset, len) in split(at, data.len()) {
            let part = &data[offset..offset + len];
            if self.domain == Domain::Eadr && self.medium.outlives() {
                // The caches are in the persistence domain: their content is kept like content that has left
                // them.
                let page = page_of(line);
                self.medium.write(page, byte_of(line) + byte, Payload::Bytes(part)).map_err(host(page))?;
            }
            if let Some((line, held)) = self.caches.store(core, line, byte, part, what) {
                self.counters.evicted += 1;
                // No core waits for it.
                self.send(held.core, now, picos(now), Way::Clwb, line, 1);
                self.land(line, &held)?;
            }
        }
        Ok(now)
    }

    /// An error where a store changes a part of a line that cannot be read, so that nobody can have the rest
    /// of it.
    fn part_of_bad_line(&self, at: ByteAddr, len: usize) -> Result<(), DriveError> {
        let mut parts = split(at, len).filter(|(_, _, _, n)| *n < LINE_SIZE).map(|(line, ..)| line);
        match parts.find(|line| self.bad.contains(line) && !self.is_held_whole(*line)) {
            Some(line) => Err(DriveError::Unreadable(page_of(line))),
            None => Ok(()),
        }
    }

    pub fn flush_lines(&mut self, now: Nanos, at: ByteAddr, len: usize) -> Result<Nanos, DriveError> {
        if len == 0 || self.caches.is_empty() {
            return Ok(now);
        }
        let (first, end) = lines_of(at, len);
        let mut free = picos(now);
        let held = self.caches.take(first, end);
        for run in held.chunk_by(|(a, x), (b, y)| a + 1 == *b && x.core == y.core) {
            let (line, core) = (run[0].0, run[0].1.core);
            let start = self.core(core).free.max(picos(now));
            let left = self.send(core, now, start, Way::Clwb, line, run.len() as u64);
            self.core(core).free = left;
            free = free.max(left);
        }
        self.counters.written_back += held.len() as u64;
        for (line, held) in &held {
            self.land(*line, held)?;
        }
        Ok(nanos(free))
    }

    pub fn stream(
        &mut self,
        core: u16,
        now: Nanos,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        if data.len() == 0 {
            return Ok(now);
        }
        let at = lpa.byte().offset(from as u64);
        let (first, end) = lines_of(at, data.len());
        if !self.bad.is_empty() {
            self.part_of_bad_line(at, data.len())?;
        }
        // The caches' content of these lines is older.
        let now = self.flush_lines(now, at, data.len())?;
        let whole = ((from + data.len()) / LINE_SIZE).saturating_sub(from.div_ceil(LINE_SIZE)) as u64;
        self.commands.stores += 1;
        self.commands.merged_lines += end - first - whole;
        self.counters.streamed += end - first;
        self.traffic.byte_write[what as usize] += (end - first) * LINE_SIZE as u64;
        let start = self.core(core).free.max(picos(now));
        let left = self.send(core, now, start, Way::Nt, first, end - first);
        self.core(core).free = left;
        if self.tracking && self.domain == Domain::Adr {
            self.expose(at, data)?;
        } else {
            self.posts += end - first;
        }
        match data {
            Streamed::Page(page) => self.medium.replace(lpa.0, page).map_err(host(lpa.0))?,
            Streamed::Part(part) => self.medium.write(lpa.0, from, part).map_err(host(lpa.0))?,
        }
        if !self.bad.is_empty() {
            for (line, _, _, _) in split(at, data.len()).filter(|(_, _, _, n)| *n == LINE_SIZE) {
                self.bad.remove(&line);
            }
        }
        Ok(nanos(left))
    }

    /// Records the lines that non-temporal stores change as lines at risk.
    fn expose(&mut self, at: ByteAddr, data: Streamed<'_>) -> Result<(), DriveError> {
        let mut bytes = [0; PAGE_SIZE];
        let bytes = &mut bytes[..data.len()];
        data.copy_to(at.in_page(), bytes);
        for (line, byte, offset, len) in split(at, bytes.len()) {
            let before = self.line(line)?;
            let mut after = before;
            after[byte..byte + len].copy_from_slice(&bytes[offset..offset + len]);
            self.posts += 1;
            let mask = crate::caches::bits(byte, len);
            self.risk.write(line, self.posts, mask, self.bad.contains(&line), || before, after);
        }
        Ok(())
    }

    /// Lines `line..line + n` leave `core` from `start` on; returns when it can issue the next one.
    fn send(&mut self, core: u16, now: Nanos, start: Picos, way: Way, line: u64, n: u64) -> Picos {
        let (latency, busy) = (self.times.latency(way), self.times.core(way));
        let (mut sent, mut at, end) = (start, line, line + n);
        while at < end {
            let (dimm, stripe_end) = self.stripe(at);
            let module = &mut self.modules[dimm];
            let writers = module.writes(&self.times, now, core, way);
            let first = sent;
            for line in at..end.min(stripe_end) {
                let accepted = module.write(&self.times, (first, sent), way, writers, line);
                self.accepted = self.accepted.max(accepted);
                // Where the queue is full, the core waits with the next line until it could take this one.
                sent = (sent + busy).max(accepted.saturating_sub(latency));
            }
            module.written();
            at = end.min(stripe_end);
        }
        self.commands.posted_lines += n;
        sent
    }

    /// A line of the caches has left for its DIMM.
    fn land(&mut self, line: u64, held: &Held) -> Result<(), DriveError> {
        self.traffic.byte_write[held.what as usize] += LINE_SIZE as u64;
        self.posts += 1;
        if self.tracking && self.domain == Domain::Adr {
            let before = self.line(line)?;
            let mut after = before;
            held.overlay(0, &mut after);
            self.risk.write(line, self.posts, held.mask, self.bad.contains(&line), || before, after);
        }
        for (first, len) in runs(held.mask) {
            let data = Payload::Bytes(&held.data[first..first + len]);
            self.medium.write(page_of(line), byte_of(line) + first, data).map_err(host(page_of(line)))?;
        }
        if held.is_whole() {
            self.bad.remove(&line);
        }
        Ok(())
    }

    /// A line as the medium has it.
    pub(super) fn line(&self, line: u64) -> Result<[u8; LINE_SIZE], DriveError> {
        let mut out = [0; LINE_SIZE];
        self.medium.read(page_of(line), byte_of(line), &mut out).map_err(host(page_of(line)))?;
        Ok(out)
    }

    /// sfence: everything that left a core before is safe when this is answered.
    pub fn fence(&mut self, now: Nanos) -> Nanos {
        let done = nanos(self.accepted).max(now);
        self.commands.verifies += 1;
        self.counters.fences += 1;
        if self.tracking {
            self.risk.fences.push((done, self.posts));
        }
        done
    }

    /// Keeps all content that has reached the persistence domain from now on, if its medium outlives the
    /// process. Without `fence` only where the platform promises that of every store.
    #[inline]
    pub fn keep(&mut self, fence: bool) -> Result<(), DriveError> {
        if !self.medium.outlives() || !(fence || self.domain == Domain::Eadr) {
            return Ok(());
        }
        self.medium.publish().map_err(|e| DriveError::ReadOnly(e.to_string()))
    }

    /// Lets the buffers write out what they hold; returns when everything is idle.
    pub fn settle(&mut self, now: Nanos) -> Nanos {
        let idle = self.modules.iter_mut().map(|m| m.drain(&self.times, now)).max().unwrap_or(0);
        nanos(idle.max(self.accepted)).max(now)
    }
}
