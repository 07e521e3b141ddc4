//! The parallel I/O engine: threads for each device, each with an address range of its own (OrchFS
//! section 3.6).
//!
//! ```text
//!   request ──> I/Os of 32 KiB ──> ring of thread (block mod n) ──> command, page cache of the SSD ──> done
//!       |                                                                                        |
//!       +── NVM stores meanwhile ──── all are waited for: the core spins for 5 ms, then the waiter parks ──+
//! ```
//!
//! A thread serves its ring in order, one I/O at a time. So two I/Os of one address are in the order of their
//! submission without any lock. Its read-ahead into the cache never races with a write: a thread lets go of
//! the cached pages of a block, writes it, and lets go of them again. Blocks that follow each other are not
//! merged: each is a command of its own.
//!
//! Threads of the SSD are daemons, started when they first have something to do. Those of the NVM are locks.
//! A store occupies the core that makes it either way, and the waiting caller's core would spin as long. So
//! the caller makes the stores himself while he has the lock of their address range. No more than
//! `nvm_threads` store at a time, which is what the paper's threads are for.
//!
//! Loads from the NVM are made by the caller, as in the released code: readers do not slow each other down as
//! writers do.

mod ring;
mod works;

pub use works::{Read, Work};

use crate::cache::SsdCache;
use crate::geometry::{BLOCK, PAGES};
use granary_device::Port;
use granary_fs::{FsError, Result};
use granary_sim::sync::{Condvar, Mutex, MutexGuard};
use granary_sim::{costs, cpu, hold, now};
use granary_units::Nanos;
use ring::Ring;
use std::sync::Arc;

/// Time for which a waiter keeps its core before it parks (released code: 5 ms, as OdinFS).
const SPIN: Nanos = Nanos::from_millis(5);

/// Devices and cache that the threads work on.
pub struct Devices {
    pub ssd: Port,
    pub cache: SsdCache,
}

/// See the module.
pub struct Engine {
    devices: Arc<Devices>,
    /// The SSD's threads that have begun.
    rings: parking_lot::Mutex<Vec<Option<Arc<Ring>>>>,
    /// Address ranges of the NVM; none: nobody waits for another one's stores.
    nvm: Vec<Mutex<()>>,
}

/// How far the I/Os of a request are.
#[derive(Default)]
struct Progress {
    submitted: usize,
    done: usize,
    /// When the last of the commands that are under way completes.
    until: Nanos,
    error: Option<FsError>,
}

/// I/Os that are waited for together.
#[derive(Default)]
pub struct Group {
    total: usize,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    progress: Mutex<Progress>,
    changed: Condvar,
}

impl Shared {
    /// A command is under way that completes then; what it needed of the host is done.
    fn submitted(&self, until: Nanos) {
        let mut p = self.progress.lock();
        p.submitted += 1;
        p.until = p.until.max(until);
        drop(p);
        self.changed.notify_all();
    }

    fn done(&self, result: Result<()>) {
        let mut p = self.progress.lock();
        p.done += 1;
        if let Err(e) = result {
            p.error.get_or_insert(e);
        }
        drop(p);
        self.changed.notify_all();
    }
}

impl Engine {
    /// One without any thread yet: so many for each device.
    pub fn new(ssd: Port, cache: SsdCache, ssd_threads: u64, nvm_threads: u64) -> Engine {
        Engine {
            devices: Arc::new(Devices { ssd, cache }),
            rings: parking_lot::Mutex::new((0..ssd_threads).map(|_| None).collect()),
            nvm: (0..nvm_threads).map(|_| Mutex::default()).collect(),
        }
    }

    /// Pages of the SSD in host memory.
    pub fn cache(&self) -> &SsdCache {
        &self.devices.cache
    }

    /// Gives an I/O to the thread of its block; `group` learns of its end, where somebody waits for it.
    pub fn submit(&self, work: Work, group: Option<&mut Group>) {
        let ring = {
            let mut rings = self.rings.lock();
            let n = rings.len() as u64;
            let place = &mut rings[(work.block() % n) as usize];
            place.get_or_insert_with(|| Ring::start(self.devices.clone())).clone()
        };
        let shared = group.map(|group| {
            group.total += 1;
            group.shared.clone()
        });
        ring.push(work, shared);
    }

    /// Does an I/O on the caller's core, and waits for it: without the engine.
    ///
    /// # Errors
    /// The drive's.
    pub fn run(&self, work: &Work) -> Result<()> {
        let ticket = work.start(&self.devices)?;
        work.end(&self.devices, ticket);
        Ok(())
    }

    /// Waits for all of a group. Its end is that of the last, whatever became of the others.
    ///
    /// # Errors
    /// The first that one of them met.
    pub fn wait(&self, group: &Group) -> Result<()> {
        if group.total == 0 {
            return Ok(());
        }
        let begin = now();
        let mut p = group.shared.progress.lock();
        while p.submitted < group.total && p.done < group.total {
            group.shared.changed.wait(&mut p);
        }
        let spun = p.until.min(begin.saturating_add(SPIN));
        drop(p);
        hold(|_| (), |()| spun);
        let mut p = group.shared.progress.lock();
        while p.done < group.total {
            group.shared.changed.wait(&mut p);
        }
        let error = p.error.clone();
        drop(p);
        if now().saturating_sub(begin) > SPIN {
            cpu(costs().context_switch);
        }
        error.map_or(Ok(()), Err)
    }

    /// The lock of the NVM thread whose address range this byte lies in: held while something is stored
    /// there, up to its fence.
    pub fn nvm_thread(&self, at: u64) -> Option<MutexGuard<'_, ()>> {
        let n = self.nvm.len() as u64;
        (n > 0).then(|| self.nvm[(at / BLOCK % n) as usize].lock())
    }

    /// Number of the NVM thread of a byte.
    pub fn nvm_owner(&self, at: u64) -> u64 {
        at / BLOCK % (self.nvm.len() as u64).max(1)
    }

    /// Ends the threads, when they have done what they have. No I/O may come later; nothing refuses one.
    pub fn stop(&self) {
        let rings: Vec<_> = self.rings.lock().iter_mut().filter_map(Option::take).collect();
        rings.iter().for_each(|ring| ring.stop());
    }

    /// Reads ahead: these pages of the SSD, by their owners, for nobody yet.
    pub fn read_ahead(&self, first: u64, count: u64) {
        let (mut at, end) = (first, first + count);
        while at < end {
            let block = at / PAGES as u64;
            let to = end.min((block + 1) * PAGES as u64);
            let pages = (at % PAGES as u64) as usize..(at % PAGES as u64 + to - at) as usize;
            self.submit(Work::Read(Arc::new(Read::new(block, pages.collect()))), None);
            at = to;
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.rings.lock().iter().flatten().for_each(|ring| ring.close());
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
