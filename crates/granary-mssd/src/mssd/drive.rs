//! The calls of the host.

use super::Mssd;
use granary_device::Structure;
use granary_device::{Chain, Command, Drive, DriveError, DriveInfo, Streamed};
use granary_device::{DriveCounters, LinkTraffic};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use parking_lot::{Mutex, RwLock};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

impl Drive for Mssd {
    fn info(&self) -> DriveInfo {
        DriveInfo { pages: self.pages(), ..self.info }
    }

    fn identify(&self, facts: &mut dyn Any) -> bool {
        let s = self.state.lock();
        s.companion.as_ref().is_some_and(|own| own.identify(facts)) || s.inner.firmware.identify(facts)
    }

    fn load(&self, now: Nanos, at: ByteAddr, out: &mut [u8], what: Structure) -> Result<Nanos, DriveError> {
        self.byte_range(at, out.len())?;
        self.call(now, |s| s.load(&self.at_clock, now, at, out, what))
    }

    fn store_from(
        &self,
        core: u16,
        now: Nanos,
        at: ByteAddr,
        data: &[u8],
        tx: TxId,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.byte_range(at, data.len())?;
        if tx != TxId::NONE && !self.has_transactions {
            return Err(DriveError::Unsupported("transactions"));
        }
        self.call(now, |s| s.store(&self.at_clock, core, now, at, data, tx, what))
    }

    fn flush_lines(&self, now: Nanos, at: ByteAddr, len: usize) -> Result<Nanos, DriveError> {
        self.byte_range(at, len)?;
        self.call(now, |s| s.flush_lines(&self.at_clock, now, at, len))
    }

    fn stream(
        &self,
        now: Nanos,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        // A page far beyond the end has no address of its bytes.
        self.range(lpa, 1)?;
        self.byte_range(lpa.byte().offset(from as u64), data.len())?;
        assert!(from + data.len() <= PAGE_SIZE, "{} bytes from {from} on leave the page", data.len());
        self.call(now, |s| s.stream(&self.at_clock, now, lpa, from, data, what))
    }

    fn load_pages(
        &self,
        now: Nanos,
        at: ByteAddr,
        len: usize,
        out: &mut [Page],
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.byte_range(at, len)?;
        self.call(now, |s| s.load_pages(&self.at_clock, now, at, len, out, what))
    }

    fn load_known(
        &self,
        now: Nanos,
        runs: &[(Lpa, usize)],
        until: Nanos,
        known: &[Page],
        fresh: &mut [Page],
        what: Structure,
    ) -> Chain {
        let in_range = |lpa, n| self.range(lpa, n as u64);
        self.state.lock().load_chain(&self.at_clock, in_range, now, runs, until, known, fresh, what)
    }

    fn verify(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.byte_range(ByteAddr(0), 0)?;
        self.call(now, |s| Ok(s.verify(&self.at_clock, now)))
    }

    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        let done = self.serve(now, command)?;
        if self.at_clock.link.nvme.queue_depth > 0 {
            self.state.lock().inner.queue.ended(done);
        }
        Ok(done)
    }

    fn look_ahead(&self, lpas: &[Lpa]) {
        self.state.lock().inner.backend.look_ahead(lpas);
    }

    fn look_ahead_lines(&self, at: &[ByteAddr]) {
        let s = self.state.lock();
        let mut missed = Vec::with_capacity(at.len());
        s.inner.firmware.look_ahead(at, &mut missed);
        s.inner.backend.look_ahead(&missed);
    }

    fn wants_attention(&self) -> bool {
        self.state.lock().companion.as_ref().is_some_and(|own| own.wants_attention())
    }

    fn settle(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.call(now, |s| {
            let t = now.max(s.inner.in_flight.last()).max(s.posted);
            s.acknowledge(t);
            s.settle_all(t)
        })
    }

    fn fork(&self) -> Option<Arc<dyn Drive>> {
        let mut s = self.state.lock();
        if s.inner.backend.is_on_image() {
            return None;
        }
        s.inner.backend.share();
        Some(Arc::new(Mssd {
            config: RwLock::new(self.config()),
            at_clock: self.at_clock.clone(),
            info: self.info,
            has_transactions: self.has_transactions,
            pages: AtomicU64::new(self.pages()),
            state: Mutex::new(s.clone()),
        }))
    }

    fn power_fail(&self, now: Nanos, random: &mut Stream) {
        let mut s = self.state.lock();
        s.power_fail(&self.at_clock, now, random);
        if let Err(e) = s.publish() {
            s.inner.fault.get_or_insert(e);
        }
    }

    fn power_on(&self, now: Nanos) -> Result<Nanos, DriveError> {
        let mut s = self.state.lock();
        let ready = s.power_on(&self.at_clock, now)?;
        s.publish()?;
        Ok(ready)
    }

    fn track_in_flight(&self, on: bool) {
        self.state.lock().track(on);
    }

    fn answer_late(&self, seed: Option<u64>) {
        self.state.lock().inner.in_flight.answer_late(seed);
    }

    fn traffic(&self) -> LinkTraffic {
        self.state.lock().inner.traffic
    }

    fn counters(&self) -> DriveCounters {
        self.state.lock().counters()
    }

    fn counters_at(&self, now: Nanos) -> DriveCounters {
        self.state.lock().counters_at(now)
    }

    fn check(&self) -> Result<(), Vec<String>> {
        let bad = self.state.lock().check();
        if bad.is_empty() { Ok(()) } else { Err(bad) }
    }
}
