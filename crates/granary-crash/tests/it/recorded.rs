//! The record is right: after any load, what the model holds is what the files hold; and a state that lacks
//! something promised is told from one that lacks something that was not.

use crate::liar::{Liar, Lie};
use granary_crash::{Clients, Load, Promises, Recorded, Torture};
use granary_fs::Cred;
use granary_sim::rng::Stream;
use granary_sim::{World, WorldConfig};
use granary_suite::memfs::{MemFs, MemFsConfig};
use granary_suite::reference::{Limits, RefFs, RefProcess};
use granary_units::{Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use parking_lot::Mutex;
use std::sync::Arc;

/// With everything promised the model allows exactly one state; it must be the one that is there.
#[test]
fn after_a_sync_the_model_is_the_file_system() {
    for seed in 0..40 {
        let world = World::new(WorldConfig { jitter: Nanos(2_000), seed, ..WorldConfig::default() });
        let violations = world.run(move || {
            let latency = Nanos(700);
            let fs = Arc::new(MemFs::new(MemFsConfig { latency, ..MemFsConfig::default() }));
            let vfs = Vfs::mount(fs, VfsConfig::default()).map_err(|e| e.to_string())?;
            let promises = Promises::new();
            let clients = Clients::new(Arc::clone(&vfs), promises.clone());
            Torture::default().run(&clients, 0, &mut Stream::new(seed, "load"))?;
            promises.keep_everything();
            let mut process = Process::new(vfs, Cred::ROOT);
            let verdict = promises.verify(&mut process);
            assert!(verdict.files > 5);
            Ok::<_, String>(verdict.violations)
        });
        assert_eq!(world_result(violations), Vec::<String>::new(), "seed {seed}");
    }
}

fn world_result(result: Result<Result<Vec<String>, String>, granary_sim::Stop>) -> Vec<String> {
    result.expect("no deadlock").unwrap_or_else(|e| vec![e])
}

fn reference() -> RefProcess {
    let limits = Limits { max_file_size: 1 << 30, max_links: 100 };
    RefProcess::new(Arc::new(Mutex::new(RefFs::new(limits))), Cred::ROOT)
}

const RW: OpenFlags = OpenFlags::RDWR.union(OpenFlags::CREAT);

/// The calls of the scripts below.
#[derive(Clone, Copy, Debug)]
enum Call {
    Create(&'static str),
    Write(&'static str, u64, u64, usize),
    Cut(&'static str, u64),
    Fsync(&'static str),
    Rename(&'static str, &'static str),
    Link(&'static str, &'static str),
    Unlink(&'static str),
    Mkdir(&'static str),
    Chmod(&'static str, u16),
}

fn apply(p: &mut impl Posix, call: Call) {
    let mut with = |path: &str, f: &mut dyn FnMut(&mut _, granary_vfs::Fd)| {
        let fd = p.open(path, RW, 0o644).expect("opens");
        f(p, fd);
        p.close(fd).expect("closes");
    };
    match call {
        Call::Create(path) => with(path, &mut |_, _| ()),
        Call::Write(path, pos, word, len) => with(path, &mut |p, fd| {
            p.pwrite(fd, Payload::Fill { word, len }, pos).expect("writes");
        }),
        Call::Cut(path, size) => with(path, &mut |p, fd| p.ftruncate(fd, size).expect("cuts")),
        Call::Fsync(path) => with(path, &mut |p, fd| p.fsync(fd).expect("syncs")),
        Call::Rename(a, b) => p.rename(a, b).expect("renames"),
        Call::Link(a, b) => p.link(a, b).expect("links"),
        Call::Unlink(a) => p.unlink(a).expect("unlinks"),
        Call::Mkdir(a) => p.mkdir(a, 0o755).expect("makes"),
        Call::Chmod(a, mode) => p.chmod(a, mode).expect("chmods"),
    }
}

/// Violations of a file system on which only the calls `survived` happened, after `all` were made.
fn verdict(all: &[Call], survived: &[Call]) -> Vec<String> {
    let promises = Promises::new();
    let mut recorded = Recorded::new(reference(), promises.clone());
    all.iter().for_each(|&call| apply(&mut recorded, call));
    let mut after = reference();
    survived.iter().for_each(|&call| apply(&mut after, call));
    promises.verify(&mut after).violations
}

use Call::*;

const SCRIPT: &[Call] = &[
    Mkdir("/d"),
    Create("/d/a"),
    Write("/d/a", 0, 7, 5000),
    Fsync("/d/a"),
    Write("/d/a", 4096, 9, 9000),
    Cut("/d/a", 100),
    Rename("/d/a", "/b"),
    Link("/b", "/d/c"),
];

#[test]
fn any_prefix_from_the_promise_on_is_allowed_and_none_before() {
    for n in 0..=SCRIPT.len() {
        let wrong = verdict(SCRIPT, &SCRIPT[..n]);
        assert_eq!(wrong.is_empty(), n >= 3, "first {n} calls: {wrong:?}");
    }
}

#[test]
fn a_rename_that_left_both_names_or_none_is_told() {
    let all = [Create("/a"), Fsync("/a"), Rename("/a", "/b")];
    for survived in [&[Create("/a"), Link("/a", "/b")][..], &[Create("/a"), Unlink("/a")][..]] {
        assert!(!verdict(&all, survived).is_empty(), "{survived:?}");
    }
    assert!(verdict(&all, &all).is_empty());
}

#[test]
fn bytes_that_nobody_wrote_there_are_told() {
    let all = [Create("/a"), Write("/a", 0, 7, 100), Write("/a", 200, 8, 100)];
    let wrong = verdict(&all, &[Create("/a"), Write("/a", 0, 7, 100), Write("/a", 150, 8, 150)]);
    assert!(wrong.len() == 1 && wrong[0].contains("byte 0x98 is 08"), "{wrong:?}");
}

#[test]
fn an_entry_that_nobody_made_and_a_mode_that_nobody_set_are_told() {
    let all = [Create("/a"), Chmod("/a", 0o600)];
    assert!(verdict(&all, &[Create("/a"), Create("/x")])[0].contains("nobody ever made it"));
    assert!(verdict(&all, &[Create("/a"), Chmod("/a", 0o640)])[0].contains("has mode 640"));
}

/// A fork taken after any call judges every state as a model that has seen those calls alone, whatever the
/// original sees later; and what becomes of forks does not show in the original.
#[test]
fn a_fork_and_its_original_do_not_see_each_others_later_changes() {
    let state = |n: usize| {
        let mut after = reference();
        SCRIPT[..n].iter().for_each(|&call| apply(&mut after, call));
        after
    };
    let promises = Promises::new();
    let mut recorded = Recorded::new(reference(), promises.clone());
    let mut forks = vec![promises.fork()];
    for &call in SCRIPT {
        apply(&mut recorded, call);
        forks.push(promises.fork());
    }
    let judged = |promises: &Promises, all: usize, who: &str| {
        for n in 0..=SCRIPT.len() {
            let wrong = promises.verify(&mut state(n)).violations;
            assert_eq!(wrong, verdict(&SCRIPT[..all], &SCRIPT[..n]), "{who} after {all} calls, {n} survived");
        }
    };
    for (all, fork) in forks.iter().enumerate() {
        judged(fork, all, "the fork");
        fork.keep_everything();
        fork.go_on_from(fork.verify(&mut state(0)));
        let mut elsewhere = Recorded::new(reference(), fork.clone());
        SCRIPT.iter().for_each(|&call| apply(&mut elsewhere, call));
    }
    judged(&promises, SCRIPT.len(), "the original");
}

/// A creation that the drive failed may have happened. An open of the name may make a file there all the
/// same.
#[test]
fn a_name_whose_creation_the_drive_failed_may_be_made_again() {
    let wrong = World::default().run(|| {
        let inner = Arc::new(MemFs::new(MemFsConfig::default()));
        let vfs = Vfs::mount(Arc::new(Liar { inner, lie: Lie::Symlink }), VfsConfig::default());
        let promises = Promises::new();
        let mut recorded =
            Recorded::new(Process::new(vfs.map_err(|e| e.to_string())?, Cred::ROOT), promises.clone());
        recorded.symlink("/else", "/a").expect_err("the drive fails");
        let fd = recorded.open("/a", RW, 0o644).expect("makes a file");
        recorded.close(fd).expect("closes");
        recorded.sync().expect("syncs");
        Ok(promises.verify(&mut recorded.into_inner()).violations)
    });
    assert_eq!(world_result(wrong), [] as [String; 0]);
}
