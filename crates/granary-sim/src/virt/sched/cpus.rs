//! Processors: sets of them, and time on them.

use super::Sched;
use crate::cost::HostCosts;
use crate::virt::cpu::CpuSet;
use granary_units::Nanos;

impl Sched {
    /// The processors that the running task is on.
    #[inline]
    pub(super) fn cpu_set(&self) -> &CpuSet {
        match self.cpus.get() {
            0 => &self.host,
            n => self.others[n as usize - 1].get().expect("a task is on processors that there are"),
        }
    }

    /// Adds a set of processors; returns its number.
    pub(crate) fn add_cpus(&self, count: usize, costs: HostCosts) -> u32 {
        // A file system that is mounted again runs on the same processors.
        let same = |set: &CpuSet| set.is(count, &costs);
        if let Some(n) = self.others.iter().position(|set| set.get().is_some_and(same)) {
            return n as u32 + 1;
        }
        let free = self.others.iter().position(|set| set.get().is_none());
        let n = free.expect("a world has four sets of processors at most");
        let _ = self.others[n].set(CpuSet::new(count, costs));
        n as u32 + 1
    }

    /// Puts the running task on a set of processors; returns the one that it was on.
    pub(crate) fn change_cpus(&self, set: u32) -> u32 {
        // While the world is taken down the task is gone already.
        if let Some(task) = self.tasks.borrow().get(self.running.get() as usize) {
            task.cpus.set(set);
        }
        self.cpus.replace(set)
    }

    pub(crate) fn cpu_busy(&self) -> Nanos {
        self.host.busy()
    }

    pub(crate) fn cpu_busy_of(&self, set: u32) -> Nanos {
        match set {
            0 => self.host.busy(),
            n => self.others[n as usize - 1].get().map_or(Nanos::ZERO, CpuSet::busy),
        }
    }

    #[inline]
    pub(crate) fn cpu(&self, cost: Nanos) {
        if cost.0 > 0 {
            self.cpu_set().serve(self, cost);
        }
    }

    /// Runs `op` on a core, which waits with it until `end` of its result.
    #[inline]
    pub(crate) fn hold<T>(&self, op: impl FnOnce(Nanos) -> T, end: impl FnOnce(&T) -> Nanos) -> T {
        self.cpu_set().hold(self, op, end)
    }

    /// The core that the running task is taken to be on.
    #[inline]
    pub(crate) fn core(&self) -> usize {
        self.cpu_set().core_of(self.running.get())
    }
}
