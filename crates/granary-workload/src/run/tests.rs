//! The runner on a small file system in memory.

mod control;
mod effects;
mod ends;
mod fio;
mod fiu;
mod memfs;
mod standstill;
mod trees;

use super::{Outcome, Run, RunError, RunOptions};
use crate::Workload;
use granary_sim::World;
use granary_units::Nanos;
use memfs::MemFs;

/// Duration of a call unless a test sets another.
const LATENCY: Nanos = Nanos::from_micros(10);

fn workload(text: &str) -> Workload {
    Workload::parse("test.f", text, &[]).unwrap_or_else(|error| panic!("{error}"))
}

/// Sets up and runs `text`, with this seed and call latency.
fn run_with(text: &str, seed: u64, fs: &MemFs) -> Result<Outcome, RunError> {
    let (workload, fs) = (workload(text), fs.clone());
    let body = move || {
        let options = RunOptions { seed, ..RunOptions::default() };
        let mut run = Run::new(&workload, |name: &str| fs.client(name), options);
        run.setup()?;
        run.measure()
    };
    World::default().run(body).expect("no deadlock")
}

fn run(text: &str) -> (Outcome, MemFs) {
    let fs = MemFs::new(LATENCY);
    let outcome = run_with(text, 1, &fs).unwrap_or_else(|error| panic!("{error}"));
    (outcome, fs)
}

fn fails(text: &str) -> String {
    run_with(text, 1, &MemFs::new(LATENCY)).expect_err("the run fails").to_string()
}

/// A workload of one process with these thread bodies, over `fileset set`.
fn one_process(fileset: &str, threads: &str, end: &str) -> String {
    format!(
        "define fileset name=set,path=/mnt/data,{fileset}\n\
         define process name=p,instances=1\n{{\n{threads}\n}}\n{end}\n"
    )
}

/// One thread with these flowops, run for `seconds`.
fn one_thread(fileset: &str, flowops: &str, seconds: u64) -> String {
    one_process(fileset, &format!("thread name=t,memsize=10m\n{{\n{flowops}\n}}"), &format!("run {seconds}"))
}

fn count(outcome: &Outcome, flowop: &str) -> u64 {
    outcome.ops.get(flowop).unwrap_or_else(|| panic!("no flowop {flowop}")).count
}
