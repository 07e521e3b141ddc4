//! [`Cores`]: the side that processor time is billed to: the host, or a drive in which software runs.
//!
//! ```text
//!   task:  cpu(a)            host
//!          device.run(|| {
//!            cpu(b)          the drive's processors, at the drive's costs
//!          })
//!          cpu(c)            host
//! ```
//!
//! Locks, waits and daemons know nothing of it: only [`crate::cpu`], [`crate::hold`], [`crate::costs`] and
//! [`crate::core`] look at whose processors the task is on. A new task begins on the host's. On the wall
//! clock there is nothing to bill.

use crate::cost::HostCosts;
use crate::virt;
use granary_units::Nanos;

/// Sets of processors in one world: the host's, and three more.
pub(crate) const MOST_SETS: usize = 4;

/// Processors of one place in the present world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    set: u32,
}

/// Puts the task back where it was.
struct Back(u32);

impl Drop for Back {
    fn drop(&mut self) {
        if let Some(w) = virt::current() {
            w.change_cpus(self.0);
        }
    }
}

impl Cores {
    /// The host's.
    pub const HOST: Cores = Cores { set: 0 };

    /// `count` more processors in this world, on which work costs what `costs` says; those that there are
    /// where so many with such costs were asked for before. On the wall clock: [`Cores::HOST`].
    ///
    /// # Panics
    /// Where a world has four sets already, or `count` is 0.
    pub fn new(count: usize, costs: HostCosts) -> Cores {
        assert!(count > 0, "a set of processors has one at least");
        Cores { set: virt::current().map_or(0, |w| w.add_cpus(count, costs)) }
    }

    /// Does `work` on these processors: its charges are billed to them.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        let Some(w) = virt::current() else { return work() };
        let _back = Back(w.change_cpus(self.set));
        work()
    }

    /// Processor time billed to them so far.
    pub fn busy(self) -> Nanos {
        virt::current().map_or(Nanos::ZERO, |w| w.cpu_busy_of(self.set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{World, WorldConfig, core, costs, cpu, hold, now, spawn};

    fn costs_of(syscall: u64) -> HostCosts {
        HostCosts { syscall: Nanos(syscall), ..HostCosts::ZERO }
    }

    #[test]
    fn work_is_billed_to_the_processors_it_runs_on() {
        let config = WorldConfig { host_cores: 2, costs: costs_of(7), ..WorldConfig::default() };
        World::new(config)
            .run(|| {
                let drive = Cores::new(1, costs_of(70));
                cpu(Nanos(100));
                assert_eq!(costs().syscall, Nanos(7));
                drive.run(|| {
                    cpu(Nanos(30));
                    hold(|t| t + Nanos(20), |t| *t);
                    assert_eq!(costs().syscall, Nanos(70));
                    Cores::HOST.run(|| cpu(Nanos(1)));
                    assert_eq!((costs().syscall, core()), (Nanos(70), 0));
                });
                cpu(Nanos(5));
                assert_eq!((Cores::HOST.busy(), drive.busy()), (Nanos(106), Nanos(50)));
                assert_eq!(now(), Nanos(156));
            })
            .expect("ends");
    }

    /// A drive with one processor serves callers one after the other, with any number of host cores; a task
    /// that waits there leaves its host's processor to others.
    #[test]
    fn sets_are_waited_for_apart() {
        let config = WorldConfig { host_cores: 8, ..WorldConfig::default() };
        World::new(config)
            .run(|| {
                let drive = Cores::new(1, HostCosts::ZERO);
                let tasks: Vec<_> = (0..4)
                    .map(|_| spawn("caller", move || drive.run(|| cpu(Nanos(10)))))
                    .chain((0..8).map(|_| spawn("other", || cpu(Nanos(25)))))
                    .collect();
                tasks.into_iter().for_each(|t| t.join());
                assert_eq!((now(), drive.busy(), Cores::HOST.busy()), (Nanos(40), Nanos(40), Nanos(200)));
            })
            .expect("ends");
    }

    #[test]
    fn a_panic_on_a_drive_leaves_the_task_on_the_host() {
        World::default()
            .run(|| {
                let drive = Cores::new(1, costs_of(70));
                let caught = std::panic::catch_unwind(|| drive.run(|| panic!("planted")));
                assert!(caught.is_err());
                assert_eq!(costs().syscall, Nanos::ZERO);
            })
            .expect("ends");
    }
}
