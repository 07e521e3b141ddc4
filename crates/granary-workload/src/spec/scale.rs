//! Making a workload smaller (or larger) without changing its shape.
//!
//! Invariant: what was there stays there; a count never becomes 0 and a 0 stays 0. It does *not* change
//! sizes, times or the order of anything; [`Workload::scale`] has the table.

use super::{FlowopSpec, Op, Workload};
use crate::Error;

/// The most threads that a workload may run.
pub const MAX_THREADS: u32 = 65_536;

impl Workload {
    /// Multiplies the files, the directories and the counts that end the run by `factor` (`--scale`),
    /// rounding to the nearest whole number but never from something to nothing.
    ///
    /// | scales with the factor | does not |
    /// |---|---|
    /// | `entries` and `leafdirs` of every fileset | file sizes, I/O sizes, working sets, buffers |
    /// | the count of `finishoncount` | `iters`, semaphore values |
    /// | the bytes of `finishonbytes` | hog and delay values |
    /// | the whole seconds of `run`, at least one | event rates, threads, `prealloc` percentages |
    /// | the records of a trace: its first ones, or all and some again | |
    /// | | `dirwidth`, `dirgamma`: a directory keeps its width, the tree gets fewer directories |
    ///
    /// So a run at scale 0.01 does a hundredth of the operations on a hundredth of the files, also where it
    /// ends by time. A flat directory (`dirwidth` at or above `entries`) stays flat. A file that repeats a
    /// flowop `iters=$nfiles` times must be scaled by overriding its variable instead.
    ///
    /// # Errors
    ///
    /// [`Error::BadScale`] unless `factor` is finite and above 0.
    pub fn scale(&mut self, factor: f64) -> Result<(), Error> {
        if !(factor.is_finite() && factor > 0.0) {
            return Err(Error::BadScale(factor));
        }
        for set in &mut self.filesets {
            if !set.single_file {
                set.entries = scaled(set.entries, factor);
                set.leafdirs = scaled(set.leafdirs, factor);
            }
        }
        for process in &mut self.processes {
            for thread in &mut process.threads {
                scale_flowops(&mut thread.flowops, factor);
            }
        }
        self.fio = self.fio.iter().map(|on| on.scaled(factor)).collect();
        if let Some(trace) = &mut self.fiu {
            trace.scale(factor);
        }
        self.run.seconds = self.run.seconds.map(|seconds| scaled(seconds, factor));
        Ok(())
    }

    /// Multiplies the seconds of the run alone, at least one: files and counts stay as they are.
    ///
    /// # Errors
    ///
    /// As [`Workload::scale`].
    pub fn scale_time(&mut self, factor: f64) -> Result<(), Error> {
        if !(factor.is_finite() && factor > 0.0) {
            return Err(Error::BadScale(factor));
        }
        self.run.seconds = self.run.seconds.map(|seconds| scaled(seconds, factor));
        Ok(())
    }

    /// Runs `count` client threads (`--threads`).
    ///
    /// The clients are the threads of which there are most, counted over all processes; when several kinds
    /// tie, each becomes `count`. The others are left alone: `oltp` keeps its writers whatever number of
    /// readers it gets. In a process that runs once, the thread's instances change. In a process with several
    /// instances the process's instances change (one thread each), unless it has other kinds of thread too:
    /// then each process gets its share of the threads, rounded up. Of a fio job file the jobs with most
    /// clients get `count` (`numjobs`). A trace is replayed by `count` clients, each on files of its own.
    ///
    /// # Errors
    ///
    /// [`Error::BadThreads`] unless `count` is in `1..=`[`MAX_THREADS`].
    pub fn set_threads(&mut self, count: u32) -> Result<(), Error> {
        if !(1..=MAX_THREADS).contains(&count) {
            return Err(Error::BadThreads { wanted: count, max: MAX_THREADS });
        }
        let total = |instances: u32, thread: u32| u64::from(instances) * u64::from(thread);
        let most = self
            .processes
            .iter()
            .flat_map(|p| p.threads.iter().map(move |t| total(p.instances, t.instances)))
            .max()
            .unwrap_or(0);
        let clients = self.fio.iter().map(|on| on.job.clients).max().unwrap_or(0);
        for on in self.fio.iter_mut().filter(|on| on.job.clients == clients) {
            on.job.clients = count;
        }
        if let Some(trace) = &mut self.fiu {
            trace.clients = count;
        }
        for process in &mut self.processes {
            let instances = process.instances;
            let only_kind = process.threads.len() == 1;
            for thread in &mut process.threads {
                if total(instances, thread.instances) != most {
                    continue;
                }
                if instances > 1 && only_kind {
                    thread.instances = 1;
                    process.instances = count;
                } else {
                    thread.instances = count.div_ceil(instances.max(1));
                }
            }
        }
        Ok(())
    }
}

fn scaled(count: u64, factor: f64) -> u64 {
    if count == 0 {
        return 0;
    }
    // `as` saturates; counts above 2^53 lose their last bits, which no scaled run can notice.
    ((count as f64 * factor).round() as u64).max(1)
}

fn scale_flowops(flowops: &mut [FlowopSpec], factor: f64) {
    for flowop in flowops {
        match &mut flowop.op {
            Op::FinishOnCount { value, .. } | Op::FinishOnBytes { value, .. } => {
                *value = scaled(*value, factor);
            }
            Op::Composite(inner) => scale_flowops(inner, factor),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(workload: &Workload) -> u64 {
        let flowops = &workload.processes[0].threads[0].flowops;
        match flowops[flowops.len() - 1].op {
            Op::FinishOnCount { value, .. } => value,
            ref other => panic!("ends with {}", other.type_name()),
        }
    }

    #[test]
    fn a_scaled_workload_has_fewer_files_and_operations_but_the_same_shape() {
        let full = Workload::from_builtin("fileserver", &[]).unwrap();
        let mut small = full.clone();
        small.scale(0.01).unwrap();
        assert_eq!(small.filesets[0].entries * 100, full.filesets[0].entries);
        assert_eq!(finish(&small) * 100, finish(&full));
        assert_eq!(small.filesets[0].dirwidth, full.filesets[0].dirwidth);
        assert_eq!(small.filesets[0].size, full.filesets[0].size);
        assert_eq!(small.threads(), full.threads());
        assert!((small.expected_bytes() * 100.0 / full.expected_bytes() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_run_that_ends_by_time_gets_shorter() {
        for (factor, seconds) in [(1.0, 60), (0.05, 3), (0.001, 1)] {
            let mut oltp = Workload::from_builtin("oltp", &[]).unwrap();
            oltp.scale(factor).unwrap();
            assert_eq!(oltp.run.seconds, Some(seconds));
        }
    }

    #[test]
    fn scaling_never_makes_something_vanish() {
        let mut workload = Workload::from_builtin("webserver", &[]).unwrap();
        workload.scale(1e-12).unwrap();
        assert_eq!(workload.filesets.iter().map(|f| f.entries).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(finish(&workload), 1);
        assert_eq!(workload.filesets[0].leafdirs, 0, "and nothing comes from nothing");
    }

    #[test]
    fn nonsense_scales_and_thread_counts_are_refused() {
        let mut workload = Workload::from_builtin("create", &[]).unwrap();
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(workload.scale(factor), Err(Error::BadScale(_))), "{factor}");
        }
        assert!(workload.set_threads(0).is_err());
        assert!(workload.set_threads(MAX_THREADS + 1).is_err());
        assert_eq!(workload, Workload::from_builtin("create", &[]).unwrap(), "a refusal changes nothing");
    }

    #[test]
    fn threads_are_those_of_which_there_are_most() {
        let mut varmail = Workload::from_builtin("varmail", &[]).unwrap();
        varmail.set_threads(3).unwrap();
        assert_eq!(varmail.processes[0].threads[0].instances, 3);
        assert_eq!(varmail.threads(), 3);

        let mut oltp = Workload::from_builtin("oltp", &[]).unwrap();
        oltp.set_threads(50).unwrap();
        let counts: Vec<_> = oltp.processes.iter().map(|p| (p.name.as_str(), p.instances)).collect();
        assert_eq!(counts, [("lgwr", 1), ("dbwr", 10), ("shadow", 50)]);
        assert_eq!(oltp.threads(), 61);
    }
}
