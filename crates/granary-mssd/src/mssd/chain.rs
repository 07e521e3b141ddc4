//! Chains of loads ([`Drive::load_known`](crate::Drive::load_known)): page after page of which the host knows
//! the content.
//!
//! ```text
//!   first page: served as any load; was nothing in its way?
//!     no ──> the next one likewise
//!     yes ─> settled: as long as pages are cached and hold what the host knows,
//!            each takes as long as the one before,
//!            so time, processors and link go on by that many times as much at once        (load_settled)
//! ```
//!
//! A linear search of a directory asks for hundreds of pages for each name. The cost of a page here decides
//! how fast such file systems are simulated. Answers, counters and order of use are those of loads one by one
//! (tests/chains.rs).

use super::State;
use crate::config::DriveConfig;

use granary_device::Structure;
use granary_device::{Chain, DriveError};
use granary_units::{LINE_SIZE, LINES_PER_PAGE, Lpa, Nanos, PAGE_SIZE, Page};

/// How a load of a page passes where nothing is in its way.
struct Pace {
    /// From the asking until the firmware has it.
    half: Nanos,
    /// The firmware's work.
    work: Nanos,
    /// On the link.
    sending: Nanos,
    /// From the asking until the page is there.
    whole: Nanos,
}

impl State {
    #[allow(clippy::too_many_arguments, reason = "those of Drive::load_known, the drive and its range")]
    pub(super) fn load_chain(
        &mut self,
        c: &DriveConfig,
        in_range: impl Fn(Lpa, usize) -> Result<(), DriveError>,
        now: Nanos,
        runs: &[(Lpa, usize)],
        until: Nanos,
        known: &[Page],
        fresh: &mut [Page],
        what: Structure,
    ) -> Chain {
        let (mut chain, mut at) = (Chain::new(now), 0);
        while let Some(&(lpa, n)) = runs.get(chain.runs)
            && chain.goes_on(until)
        {
            let loaded = in_range(lpa, n).and_then(|()| {
                self.begin(chain.done)?;
                let loaded = self.load_known(c, chain.done, lpa, &known[at..at + n], &mut fresh[..n], what);
                self.publish()?;
                loaded
            });
            match loaded {
                Ok((done, changed)) => {
                    (chain.done, chain.changed) = (done, changed);
                    (chain.runs, at) = (chain.runs + 1, at + n);
                }
                Err(e) => chain.failed = Some(e),
            }
            if chain.goes_on(until) {
                let settled =
                    self.load_settled(c, chain.done, &runs[chain.runs..], until, &known[at..], what);
                chain.done += settled.1;
                (chain.runs, at) = (chain.runs + settled.0, at + settled.0);
            }
        }
        chain
    }

    /// Loads whole pages of which the host knows the content. Returns when they are there, and the bits of
    /// those that hold another, which are in `fresh`.
    fn load_known(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        lpa: Lpa,
        known: &[Page],
        fresh: &mut [Page],
        what: Structure,
    ) -> Result<(Nanos, u64), DriveError> {
        let mut changed = 0;
        let done = self.load_with(c, now, lpa.byte(), known.len() * PAGE_SIZE, what, |s, t, _, _| {
            let mut ready = t;
            for (i, (known, fresh)) in known.iter().zip(fresh).enumerate() {
                let lpa = lpa.offset(i as u64);
                if s.inner.tracking {
                    s.land(lpa, now);
                }
                let lpa = s.newest(lpa);
                let (new, done) = s.inner.firmware.read_known(&mut s.inner.backend, t, lpa, known)?;
                if let Some(page) = new {
                    *fresh = page;
                    changed |= 1 << i;
                }
                ready = ready.max(done);
            }
            Ok(ready)
        })?;
        Ok((done, changed))
    }

    /// Loads the first of these runs that are single pages, cached, and hold what the host knows, where
    /// nothing is in the way of any of them. Returns how many they are, and how long they took.
    fn load_settled(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        runs: &[(Lpa, usize)],
        until: Nanos,
        known: &[Page],
        what: Structure,
    ) -> (usize, Nanos) {
        let none = (0, Nanos::ZERO);
        // Where a page may change anything but the order of use, loads one by one do it.
        let redirects = self.companion.as_ref().is_some_and(|own| own.redirects());
        if redirects || self.inner.tracking || !self.wc.is_empty() || self.inner.backend.image().is_some() {
            return none;
        }
        let pace = self.pace(c);
        let asked = now + pace.half;
        let idle = self.posted.max(self.inner.backend.cores.idle_from()).max(self.inner.link.out_idle_from())
            <= asked;
        if !idle || pace.work.max(pace.sending).max(pace.half) > pace.whole {
            return none;
        }
        // As many as begin before `until`.
        let most = until.saturating_sub(now).0.div_ceil(pace.whole.0.max(1)).min(runs.len() as u64);
        let count = self.inner.firmware.hit_all(runs, known, asked, most as usize);
        let Some(others) = count.checked_sub(1) else { return none };
        let last = now + pace.whole * others as u64;
        self.inner.backend.pass(last);
        self.inner.link.pass(last);
        self.inner.backend.cores.pass(last);
        self.inner.backend.cores.serve_each(asked, pace.work, pace.whole, count);
        self.inner.link.lines_out_each(asked, LINES_PER_PAGE, pace.whole, count);
        let lines = (count * LINES_PER_PAGE) as u64;
        self.inner.traffic.byte_read[what as usize] += lines * LINE_SIZE as u64;
        self.inner.commands.loads += count as u64;
        self.inner.commands.load_lines += lines;
        (count, pace.whole * count as u64)
    }

    /// [`State::load_with`] of a cached page, while nobody else is served.
    fn pace(&self, c: &DriveConfig) -> Pace {
        let half = Nanos(c.link.line_read.0 / 2);
        let sending = self.inner.link.line_out() * LINES_PER_PAGE as u64;
        let done = half + sending - self.inner.link.line_out() + (c.link.line_read - half);
        let whole = match c.link.load_lines {
            0 => done,
            n => done.max(c.link.line_read * LINES_PER_PAGE.div_ceil(n) as u64),
        };
        Pace {
            half,
            work: c.firmware.entry_cost + c.firmware.line_cost * LINES_PER_PAGE as u64,
            sending,
            whole,
        }
    }
}
