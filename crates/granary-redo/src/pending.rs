//! [`Pending`]: flash pages whose content is not in `flash` yet, where it is instead, and how it gets there.
//!
//! ```text
//!   programmed --> in memory --frame safe--> in the redo log --its half is checkpointed--> in `flash`:
//!                     |                          |                                         no longer here
//!                     +-- stale, and that is safe (process mode): dropped, and never written to `flash`
//! ```
//!
//! Landing goes through a half of the log: pages that still wait at exactly that place are written in runs of
//! neighbours. Each rider has a number, so that a page that was programmed again meanwhile is not mistaken
//! for its former self.
//!
//! Invariant: every direct write of a page to `flash` follows a call of [`Pending::supersede`]. So an older
//! content that is just landing cannot overwrite the newer one. It does *not* decide what may be written
//! when: see `journal.rs`.

use super::host::HostFile;
use granary_units::{PAGE_SIZE, Page};
use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Pages that are written with one write: 256 KiB.
const RUN: usize = 64;

/// A flash page whose content goes through the log.
pub struct Rider {
    /// Where.
    pub ppa: u32,
    /// Sequence number of its program.
    pub seq: u64,
    /// Which of all riders: numbers grow.
    pub id: u64,
    /// Content: bytes, not a repeated word.
    pub page: Page,
    /// Sum of the content.
    pub sum: u32,
}

impl Rider {
    /// The content.
    pub fn bytes(&self) -> &[u8; PAGE_SIZE] {
        self.page.as_bytes().expect("riders are bytes")
    }
}

/// Where a content is.
#[derive(Clone)]
pub enum Held {
    /// Here.
    Memory(Page),
    /// At this offset in the file of the redo log.
    Log(u64),
}

struct Waiting {
    id: u64,
    held: Held,
}

#[derive(Default)]
struct State {
    pages: FxHashMap<u32, Waiting>,
    /// Pages that are being written to `flash`.
    landing: Range<u32>,
}

/// See the module.
#[derive(Default)]
pub struct Pending {
    state: Mutex<State>,
    landed: Condvar,
    /// How many there are, readable without the lock.
    count: AtomicUsize,
}

impl Pending {
    /// Keeps the content of a rider in memory.
    pub fn hold(&self, rider: &Rider) {
        let mut s = self.state.lock();
        s.pages.insert(rider.ppa, Waiting { id: rider.id, held: Held::Memory(rider.page.clone()) });
        self.count.store(s.pages.len(), SeqCst);
    }

    /// These riders are in the log: the content of the first one at offset `at` of the file, each next one
    /// `stride` bytes further on. Those of which a newer content waits already are passed over.
    pub fn logged(&self, riders: &[Rider], at: u64, stride: u64) {
        let mut s = self.state.lock();
        for (i, r) in riders.iter().enumerate() {
            let here = Waiting { id: r.id, held: Held::Log(at + i as u64 * stride) };
            match s.pages.get_mut(&r.ppa) {
                Some(newer) if newer.id > r.id => {}
                Some(same) => *same = here,
                None => {
                    s.pages.insert(r.ppa, here);
                }
            }
        }
        self.count.store(s.pages.len(), SeqCst);
    }

    /// The content of a page that is not in `flash`.
    pub fn held(&self, ppa: u32) -> Option<Held> {
        if self.is_empty() {
            return None;
        }
        self.state.lock().pages.get(&ppa).map(|w| w.held.clone())
    }

    /// Whether every content is in `flash`.
    pub fn is_empty(&self) -> bool {
        self.count.load(SeqCst) == 0
    }

    /// Forgets pages that are stale for good: each with the number of the first rider that came after its
    /// death.
    pub fn forget(&self, dead: &[(u32, u64)]) {
        if dead.is_empty() || self.is_empty() {
            return;
        }
        let mut s = self.state.lock();
        for (ppa, newer) in dead {
            if s.pages.get(ppa).is_some_and(|w| w.id < *newer) {
                s.pages.remove(ppa);
            }
        }
        self.count.store(s.pages.len(), SeqCst);
    }

    /// A content of this page will be written to `flash` directly: an older one waits no longer, nor is it
    /// landing.
    pub fn supersede(&self, ppa: u32) {
        if self.is_empty() {
            return;
        }
        let mut s = self.state.lock();
        s.pages.remove(&ppa);
        self.count.store(s.pages.len(), SeqCst);
        while s.landing.contains(&ppa) {
            self.landed.wait(&mut s);
        }
    }

    /// Writes to `flash` what waits in one half of the log. `half`: its content, which begins at offset
    /// `base` of the log's file; `found`: pages and where in the half their contents are. Returns the number
    /// of pages written.
    ///
    /// # Errors
    /// Host errors.
    pub fn land(
        &self,
        flash: &dyn HostFile,
        half: &[u8],
        base: u64,
        mut found: Vec<(u32, usize)>,
    ) -> io::Result<u64> {
        {
            let s = self.state.lock();
            found.retain(|f| s.is_at(base, f));
        }
        found.sort_unstable();
        let (mut bytes, mut written) = (Vec::with_capacity(RUN * PAGE_SIZE), 0);
        for run in found.chunk_by(|a, b| a.0 + 1 == b.0).flat_map(|run| run.chunks(RUN)) {
            bytes.clear();
            run.iter().for_each(|&(_, at)| bytes.extend_from_slice(&half[at..at + PAGE_SIZE]));
            if self.land_run(flash, base, run, &bytes)? {
                written += run.len() as u64;
                continue;
            }
            // Some have left since: the others one by one.
            for (one, bytes) in run.chunks(1).zip(bytes.chunks_exact(PAGE_SIZE)) {
                written += u64::from(self.land_run(flash, base, one, bytes)?);
            }
        }
        Ok(written)
    }

    /// Writes neighbouring pages, if all of them still wait at their places.
    fn land_run(
        &self,
        flash: &dyn HostFile,
        base: u64,
        run: &[(u32, usize)],
        bytes: &[u8],
    ) -> io::Result<bool> {
        let (first, last) = (run[0].0, run[run.len() - 1].0);
        {
            let mut s = self.state.lock();
            if !run.iter().all(|f| s.is_at(base, f)) {
                return Ok(false);
            }
            // From here on `supersede` of one of these pages waits for the write.
            s.landing = first..last + 1;
        }
        let done = flash.write_at(first as u64 * PAGE_SIZE as u64, bytes);
        let mut s = self.state.lock();
        s.landing = 0..0;
        if done.is_ok() {
            for f in run {
                if s.is_at(base, f) {
                    s.pages.remove(&f.0);
                }
            }
        }
        self.count.store(s.pages.len(), SeqCst);
        self.landed.notify_all();
        done.map(|()| true)
    }
}

impl State {
    /// Whether the newest content of a page is the one at this place of the half that begins at `base`.
    fn is_at(&self, base: u64, &(ppa, at): &(u32, usize)) -> bool {
        let here = base + at as u64;
        self.pages.get(&ppa).is_some_and(|w| matches!(w.held, Held::Log(log) if log == here))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Host, memory::MemoryHost};

    fn rider(ppa: u32, id: u64) -> Rider {
        let mut bytes = [id as u8; PAGE_SIZE];
        bytes[0] = !bytes[1];
        Rider { ppa, seq: 1, id, page: Page::from_bytes(&bytes), sum: crate::sum::page(&bytes) }
    }

    /// The half of a log with the contents of these riders one after the other.
    fn half(riders: &[Rider]) -> Vec<u8> {
        riders.iter().flat_map(|r| *r.bytes()).collect()
    }

    fn places(riders: &[Rider]) -> Vec<(u32, usize)> {
        riders.iter().enumerate().map(|(i, r)| (r.ppa, i * PAGE_SIZE)).collect()
    }

    #[test]
    fn the_newest_content_lands_and_what_is_dead_does_not() {
        let (host, pending) = (MemoryHost::new(), Pending::default());
        let flash = host.open("flash", false).expect("file");
        flash.set_len(100 * PAGE_SIZE as u64).expect("length");
        let old = [rider(7, 1), rider(8, 2), rider(9, 3), rider(20, 4), rider(21, 5)];
        pending.logged(&old, 0, PAGE_SIZE as u64);
        // 8 is programmed again and still in memory only; 20 is dead; 21 died and was programmed again in the
        // same call.
        pending.hold(&rider(8, 6));
        pending.forget(&[(20, 6), (21, 5)]);
        assert_eq!(pending.land(&*flash, &half(&old), 0, places(&old)).expect("written"), 3);
        let read = |ppa: u32| {
            let mut out = [0; PAGE_SIZE];
            flash.read_at(ppa as u64 * PAGE_SIZE as u64, &mut out).expect("read");
            out[1]
        };
        assert_eq!([7, 8, 9, 20, 21].map(read), [1, 0, 3, 0, 5]);
        assert!(matches!(pending.held(8), Some(Held::Memory(_))) && pending.held(7).is_none());
        // The first one of 8 is logged late: it is not the newest.
        pending.logged(&old[1..2], 1 << 20, PAGE_SIZE as u64);
        assert!(matches!(pending.held(8), Some(Held::Memory(_))));
        pending.supersede(8);
        assert!(pending.is_empty());
    }

    #[test]
    fn a_failed_write_leaves_the_content_where_it_is() {
        let (host, pending) = (MemoryHost::new(), Pending::default());
        let flash = host.open("flash", false).expect("file");
        let riders = [rider(1, 1), rider(2, 2)];
        pending.logged(&riders, 0, PAGE_SIZE as u64);
        host.stop_after(0, 100);
        assert!(pending.land(&*flash, &half(&riders), 0, places(&riders)).is_err());
        assert!(matches!(pending.held(2), Some(Held::Log(at)) if at == PAGE_SIZE as u64));
    }
}
