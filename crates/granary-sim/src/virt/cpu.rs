//! [`CpuSet`]: processors of one place, the host or a drive, as tasks share them; and waiting for one.

use super::sched::Sched;
use crate::cost::HostCosts;
use crate::server::Server;
use granary_units::Nanos;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// No instant.
const NEVER: u64 = u64::MAX;

/// Processors that tasks share.
pub(super) struct CpuSet {
    cores: RefCell<Server>,
    count: usize,
    pub(super) costs: HostCosts,
    /// When the task that waits for a core, to hold it for a time that is not known yet, begins; else
    /// [`NEVER`].
    begins: Cell<u64>,
    /// Tasks that ask for a core behind it.
    queue: RefCell<VecDeque<u32>>,
}

impl CpuSet {
    pub(super) fn new(count: usize, costs: HostCosts) -> CpuSet {
        CpuSet {
            cores: RefCell::new(Server::new(count)),
            count,
            costs,
            begins: Cell::new(NEVER),
            queue: RefCell::default(),
        }
    }

    /// Whether these are so many processors with these costs.
    pub(super) fn is(&self, count: usize, costs: &HostCosts) -> bool {
        self.count == count && self.costs == *costs
    }

    /// Time given to tasks, over all of them.
    pub(super) fn busy(&self) -> Nanos {
        self.cores.borrow().busy()
    }

    /// The one that a task is taken to be on.
    #[inline]
    pub(super) fn core_of(&self, task: u32) -> usize {
        task as usize % self.count
    }

    #[inline]
    pub(super) fn serve(&self, sched: &Sched, cost: Nanos) {
        self.await_turn(sched);
        let end = self.cores.borrow_mut().reserve(sched.now(), cost).end;
        sched.sleep_until(end);
    }

    #[inline]
    fn is_open(&self, sched: &Sched) -> bool {
        self.begins.get() != NEVER && self.cores.borrow().next_free() > sched.now()
    }

    /// Waits until all who asked for a core before know when theirs is free again: as a rule that is so at
    /// once. Only who holds a core for a time that shows when it begins, and waits for the core to begin,
    /// leaves it open.
    #[inline]
    fn await_turn(&self, sched: &Sched) {
        if self.is_open(sched) || !self.queue.borrow().is_empty() {
            self.queue_up(sched);
        }
    }

    #[cold]
    fn queue_up(&self, sched: &Sched) {
        let me = sched.task_id();
        self.queue.borrow_mut().push_back(me);
        loop {
            // When that one begins, the first task in the queue goes on; it may be the next to leave it open.
            let begins = self.begins.get();
            let now = sched.now().0;
            sched.run_again(if begins == NEVER { now } else { begins.max(now) });
            if !self.is_open(sched) && self.queue.borrow().front() == Some(&me) {
                self.queue.borrow_mut().pop_front();
                return;
            }
        }
    }

    /// Runs `op` on a core, which waits with it until `end` of its result.
    #[inline]
    pub(super) fn hold<T>(
        &self,
        sched: &Sched,
        op: impl FnOnce(Nanos) -> T,
        end: impl FnOnce(&T) -> Nanos,
    ) -> T {
        self.await_turn(sched);
        if self.cores.borrow().next_free() > sched.now() {
            return self.hold_later(sched, op, end);
        }
        let start = sched.now();
        let out = op(start);
        let end = end(&out).max(start);
        if end > start {
            // Nobody else has run since: the core is there.
            self.cores.borrow_mut().reserve(start, end - start);
            sched.sleep_until(end);
        }
        out
    }

    /// The same on the core that is free next.
    #[cold]
    fn hold_later<T>(&self, sched: &Sched, op: impl FnOnce(Nanos) -> T, end: impl FnOnce(&T) -> Nanos) -> T {
        let start = self.cores.borrow_mut().take();
        self.begins.set(start.0);
        sched.run_again(start.0);
        self.begins.set(NEVER);
        let out = op(start);
        let end = end(&out).max(start);
        self.cores.borrow_mut().give(start, end);
        sched.sleep_until(end);
        out
    }
}
