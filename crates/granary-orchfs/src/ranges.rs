//! The range lock of a file, of two kinds (`range_lock`).
//!
//! ```text
//!   rw     readers and writers of intervals of blocks, first come, first served (OrchFS section 3.5)
//!   bits   the released code's: whoever may change the size has the file alone; all others share it, and
//!          each of them, readers too,
//!          takes the blocks that he touches one after the other, in ascending order, alone
//! ```
//!
//! Invariants: no two writers' intervals overlap, and no reader's overlaps a writer's. A waiter is passed by
//! nobody whose interval overlaps his. With `bits` no two intervals overlap at all, and blocks are taken in
//! ascending order, so that no two wait for each other. An interval is held from its last block's taking
//! until all are let go: a call on it is one step either way.

use crate::options::RangeKind;
use granary_sim::sync::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Use of an interval by its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Reads it.
    Read,
    /// Writes it, within the file's size.
    Write,
    /// Writes it, or gives and takes space, and the size may change.
    Resize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    ticket: u64,
    first: u64,
    last: u64,
    writes: bool,
}

impl Interval {
    fn excludes(&self, other: &Interval) -> bool {
        (self.writes || other.writes) && self.first <= other.last && other.first <= self.last
    }
}

#[derive(Default)]
struct NodeState {
    next: u64,
    held: Vec<Interval>,
    waiting: Vec<Interval>,
}

/// See the module.
#[derive(Default)]
pub struct RangeLock {
    kind: RangeKind,
    state: Mutex<NodeState>,
    changed: Condvar,
    /// Of `bits`: shared by whoever leaves the size alone.
    file: RwLock<()>,
}

/// Of `bits`: how the file is held.
enum Whole<'a> {
    Shared { _file: RwLockReadGuard<'a, ()> },
    Alone { _file: RwLockWriteGuard<'a, ()> },
}

/// An interval that is held; dropping it lets go.
pub struct Held<'a> {
    lock: &'a RangeLock,
    tickets: Vec<u64>,
    _whole: Option<Whole<'a>>,
}

impl RangeLock {
    /// A lock of this kind, which nobody holds.
    pub fn new(kind: RangeKind) -> RangeLock {
        RangeLock { kind, ..RangeLock::default() }
    }

    /// Waits for the blocks `first..=last`.
    pub fn lock(&self, first: u64, last: u64, how: Use) -> Held<'_> {
        let mut held = Held { lock: self, tickets: Vec::new(), _whole: None };
        match (self.kind, how) {
            (RangeKind::Rw, _) => held.tickets.push(self.wait_for(first, last, how != Use::Read)),
            (RangeKind::Bits, Use::Resize) => held._whole = Some(Whole::Alone { _file: self.file.write() }),
            (RangeKind::Bits, _) => {
                held._whole = Some(Whole::Shared { _file: self.file.read() });
                for block in first..=last {
                    held.tickets.push(self.wait_for(block, block, true));
                }
            }
        }
        held
    }

    /// The same for a writer within the size who does not wait.
    pub fn try_write(&self, first: u64, last: u64) -> Option<Held<'_>> {
        let mut held = Held { lock: self, tickets: Vec::new(), _whole: None };
        if self.kind == RangeKind::Bits {
            held._whole = Some(Whole::Shared { _file: self.file.try_read()? });
        }
        let mut s = self.state.lock();
        let interval = Interval { ticket: s.next, first, last, writes: true };
        if s.held.iter().chain(&s.waiting).any(|other| other.excludes(&interval)) {
            drop(s);
            return None;
        }
        s.next += 1;
        s.held.push(interval);
        held.tickets.push(interval.ticket);
        drop(s);
        Some(held)
    }

    /// Takes an interval when those before it have let go of what it excludes; its ticket.
    fn wait_for(&self, first: u64, last: u64, writes: bool) -> u64 {
        let mut s = self.state.lock();
        let interval = Interval { ticket: s.next, first, last, writes };
        s.next += 1;
        if s.held.iter().chain(&s.waiting).any(|other| other.excludes(&interval)) {
            s.waiting.push(interval);
            while s.held.iter().any(|other| other.excludes(&interval))
                || s.waiting.iter().any(|other| other.ticket < interval.ticket && other.excludes(&interval))
            {
                self.changed.wait(&mut s);
            }
            s.waiting.retain(|other| other.ticket != interval.ticket);
        }
        s.held.push(interval);
        interval.ticket
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !self.tickets.is_empty() {
            self.lock.state.lock().held.retain(|other| !self.tickets.contains(&other.ticket));
            self.lock.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;
    use granary_sim::{World, WorldConfig, now, sleep, spawn};
    use granary_units::Nanos;
    use std::sync::Arc;

    /// Tasks with random intervals: writers are alone in each block, readers never see one half written.
    #[test]
    fn writers_are_alone_and_readers_see_no_half() {
        for (seed, kind) in (0..12).map(|seed| (seed, [RangeKind::Rw, RangeKind::Bits][seed as usize % 2])) {
            let world = World::new(WorldConfig { seed, jitter: Nanos(300), ..WorldConfig::default() });
            let run = world.run(move || {
                let lock = Arc::new(RangeLock::new(kind));
                let blocks = Arc::new(parking_lot::Mutex::new([(0u32, 0u32); 16]));
                let tasks: Vec<_> = (0..12)
                    .map(|task| {
                        let (lock, blocks) = (lock.clone(), blocks.clone());
                        spawn("task", move || {
                            let mut random = Stream::new(seed * 100 + task, "ranges");
                            for _ in 0..60 {
                                let (a, b) = (random.below(16), random.below(16));
                                let (first, last, writes) = (a.min(b), a.max(b), random.chance(0.5));
                                let held = match random.chance(0.3) && writes {
                                    true => lock.try_write(first, last),
                                    false if writes && random.chance(0.2) => {
                                        Some(lock.lock(first, last, Use::Resize))
                                    }
                                    false if writes => Some(lock.lock(first, last, Use::Write)),
                                    false => Some(lock.lock(first, last, Use::Read)),
                                };
                                let Some(_held) = held else { continue };
                                let range = first as usize..=last as usize;
                                for (readers, writers) in &mut blocks.lock()[range.clone()] {
                                    assert!(*writers == 0 && (!writes || *readers == 0));
                                    *(if writes { writers } else { readers }) += 1;
                                }
                                sleep(Nanos(random.below(2_000)));
                                for (readers, writers) in &mut blocks.lock()[range] {
                                    *(if writes { writers } else { readers }) -= 1;
                                }
                            }
                        })
                    })
                    .collect();
                tasks.into_iter().for_each(|task| task.join());
            });
            run.unwrap_or_else(|stop| panic!("seed {seed}: {stop}"));
        }
    }

    /// A writer who waits for a reader comes before a reader who came later.
    #[test]
    fn who_waits_is_not_passed() {
        World::default()
            .run(|| {
                let lock = Arc::new(RangeLock::default());
                let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
                let tasks: Vec<_> = [(0, false), (10, true), (20, false)]
                    .map(|(at, writes)| {
                        let (lock, order) = (lock.clone(), order.clone());
                        spawn("task", move || {
                            sleep(Nanos(at));
                            let _held = lock.lock(0, 3, if writes { Use::Write } else { Use::Read });
                            order.lock().push((at, now()));
                            sleep(Nanos(100));
                        })
                    })
                    .into_iter()
                    .collect();
                tasks.into_iter().for_each(|task| task.join());
                let order: Vec<u64> = order.lock().iter().map(|(at, _)| *at).collect();
                assert_eq!(order, [0, 10, 20]);
            })
            .expect("ends");
    }
}
