//! Generated programs run on file systems as they are, without a failure.

use granary_crash::{Clients, Explorer, Load, Names, Promises, Sequence, Sequences};
use granary_fs::{Call, Caller, Cred, FileSystem};
use granary_sim::World;
use granary_sim::rng::Stream;
use granary_vfs::{Process, Vfs};
use std::sync::Arc;

/// Runs programs one after the other on one file system, each as a round on what those before have left, and
/// compares.
fn run_calmly(fs: &str, programs: Vec<Sequence>) {
    let target = crate::targets::by_name(fs).expect("a target");
    let devices = target.devices(1);
    let done = World::default().run(move || {
        target.mkfs(&devices).expect("mkfs");
        let fs: Arc<dyn FileSystem> = target.mount(&devices).expect("mount");
        let vfs = Vfs::mount(fs, target.vfs()).expect("vfs");
        let promises = Promises::new();
        let clients = Clients::new(Arc::clone(&vfs), promises.clone());
        for (round, program) in programs.iter().enumerate() {
            program.run(&clients, round as u32, &mut Stream::new(1, "unused"))?;
            // Verifying every tree would take most of the time.
            if round % 50 == 49 || round + 1 == programs.len() {
                promises.keep_everything();
                let mut process = Process::new(Arc::clone(&vfs), Cred::ROOT);
                let wrong = promises.verify(&mut process).violations;
                process.exit();
                if !wrong.is_empty() {
                    return Err(format!("after {}: {wrong:?}", program.name()));
                }
            }
        }
        vfs.sync(&Caller::KERNEL).map_err(|e| e.to_string())?;
        let wrong = vfs.fs().check(&Call::offline()).map_err(|e| e.to_string())?;
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    });
    assert_eq!(done.expect("ends"), Ok(()), "{fs}");
}

#[test]
fn every_program_of_one_call_runs_on_file_systems_of_three_kinds() {
    for fs in ["ext4", "bytefs", "nova"] {
        let all = Sequences::new(1, Names::ALL);
        run_calmly(fs, (0..all.count()).map(|i| all.nth(i)).collect());
    }
}

#[test]
fn a_sample_of_programs_of_three_calls_runs() {
    for fs in ["ext4", "f2fs", "nilfs2"] {
        run_calmly(fs, Sequences::sample(3, 100, 5));
    }
}

#[test]
fn a_program_is_a_load_by_its_name() {
    let program = "creat(/A/foo) fsync rename(/A/foo,/B/bar) sync";
    assert_eq!(granary_crash::load_by_name(program).expect("a load").name(), program);
    assert!(granary_crash::load_by_name("creat(/somewhere/else)").is_err());
}

/// Some programs of two and three calls at some power failures each.
fn explore(fs: &str, programs: usize, points: u64, seed: u64) {
    let all = (2..=3).flat_map(|depth| Sequences::sample(depth, programs, seed));
    for program in all {
        let target = crate::targets::by_name(fs).expect("a target");
        let explorer = Explorer::new(target, Arc::new(program)).unwrap_or_else(|f| panic!("calmly: {f}"));
        let report = explorer.explore(1..1 + points);
        assert!(report.failures.is_empty(), "{report}");
    }
}

#[test]
fn generated_programs_keep_their_promises_when_the_power_fails() {
    ["bytefs", "ext4", "f2fs", "nilfs2", "nova", "orchfs"].iter().for_each(|fs| explore(fs, 10, 2, 3));
}
