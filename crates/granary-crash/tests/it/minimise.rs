//! Failures are minimised to the calls that matter.

use crate::liar::Lie;
use crate::planted::{Bug, Planted};
use granary_crash::{Clients, Effort, Explorer, Failure, Load, Minimal, Phase};
use granary_fs::FsError;
use granary_sim::rng::Stream;
use granary_units::Payload;
use granary_vfs::{OpenFlags, Posix};
use std::cell::Cell;
use std::sync::Arc;

fn explorer(fs: &str, load: &str, bug: Bug) -> Explorer {
    let inner = crate::targets::by_name(fs).expect("a target");
    let target = Planted { inner, bug, told: Arc::default() };
    Explorer::new(Arc::new(target), crate::targets::load(load).expect("a load")).expect("sound")
}

/// The first failure of an image.
fn found(explorer: &Explorer) -> Failure {
    let failures = (1..40).flat_map(|seed| explorer.run(seed, &Effort::default()).failures);
    failures.into_iter().find(|f| !f.path.0.is_empty()).expect("found in an image")
}

/// Images that are looked at, at most.
const LOOKS: u32 = 6_000;

/// Minimises the first failure. Returns it, and what it comes to.
fn minimised(fs: &str, load: &str, bug: Bug) -> (Failure, Minimal) {
    let explorer = explorer(fs, load, bug);
    let failure = found(&explorer);
    minimised_of(explorer, failure)
}

/// Minimises this failure.
fn minimised_of(mut explorer: Explorer, failure: Failure) -> (Failure, Minimal) {
    let looks = Cell::new(0);
    let over = || {
        looks.set(looks.get() + 1);
        looks.get() > LOOKS
    };
    let minimal = explorer.minimise(&failure, &over).unwrap_or_else(|why| panic!("{why}: {failure}"));
    println!("{failure}\n{} of {}:\n{}", minimal.calls.len(), minimal.of, minimal.calls.join("\n"));
    println!("{} looks, {}", looks.get(), minimal.failure);
    (failure, minimal)
}

/// The failure that a line finds, where it is typed.
fn typed(explorer: Explorer, line: &str) -> Result<(), Failure> {
    let place = line.split_whitespace().last().expect("a place").trim_matches('`');
    let [seed, path, calls] = place.split(':').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let seed = seed.parse().expect("a run");
    let explorer = explorer.only(seed, &calls.parse().expect("calls"));
    explorer.replay(seed, &path.parse().expect("a path"))
}

/// Two clients make files; one of them renames one.
struct Files;

impl Load for Files {
    fn name(&self) -> &str {
        "files"
    }

    fn run(&self, clients: &Clients, round: u32, _random: &mut Stream) -> Result<(), String> {
        let mut first = clients.client();
        let made = ["a", "b"].into_iter().try_for_each(|dir| first.mkdir(format!("/{dir}{round}"), 0o755));
        made.map_err(|e| e.to_string())?;
        let tasks = [0, 1].map(|id| {
            let mut posix = clients.client();
            granary_sim::spawn("files", move || (0..20).try_for_each(|n| file(&mut posix, round, (id, n))))
        });
        tasks.into_iter().try_for_each(|task| task.join()).map_err(|e| e.to_string())
    }

    fn rounds(&self) -> u32 {
        1
    }
}

fn file(posix: &mut impl Posix, round: u32, (id, n): (u32, u32)) -> Result<(), FsError> {
    let path = format!("/a{round}/c{id}n{n}");
    let fd = posix.open(&path, OpenFlags::RDWR | OpenFlags::CREAT, 0o644)?;
    posix.write(fd, Payload::Fill { word: 1, len: 5_000 })?;
    posix.fsync(fd)?;
    posix.close(fd)?;
    if (id, n) == (1, 12) { posix.rename(&path, format!("/b{round}/new")) } else { Ok(()) }
}

#[test]
fn a_bug_of_renames_comes_down_to_the_rename_and_what_it_needs() {
    let explorer = || {
        let inner = crate::targets::by_name("bytefs-sync").expect("a target");
        let target = Planted { inner, bug: Bug::In(Lie::Rename), told: Arc::default() };
        Explorer::new(Arc::new(target), Arc::new(Files)).expect("sound")
    };
    let effort = Effort { linear: true, anywhere: 0, in_steps: 0, draws: 1, ..Effort::default() };
    let failures = (1..20).flat_map(|seed| explorer().run(seed, &effort).failures);
    let failure = failures.into_iter().find(|f| f.path.0.len() == 1).expect("found in an image");
    let minimal = explorer().minimise(&failure, &|| false).unwrap_or_else(|why| panic!("{why}: {failure}"));
    let calls = &minimal.calls;
    println!("{failure}\n{} of {}:\n{}", calls.len(), minimal.of, calls.join("\n"));
    // Two directories, a file, the rename; the last line tells of the power failure.
    let expected = [
        "client 1: make Dir /a0",
        "client 1: make Dir /b0",
        "client 3: open /a0/c1n12",
        "client 3: rename /a0/c1n12, /b0/new",
    ];
    assert!(minimal.of > 50 && calls.len() == expected.len() + 1, "{}: {calls:?}", minimal.of);
    assert!(expected.iter().zip(calls).all(|(expected, call)| call.starts_with(expected)), "{calls:?}");
    assert!(calls[4].contains("the power fails in the load"), "{calls:?}");
}

#[test]
fn what_a_drive_loses_comes_down_to_few_calls_of_some_clients() {
    // A failure in the mount behind a clean unmount needs most of the calls: any may have moved the lost
    // page.
    let explorer = explorer("ext4@volatile", "torture", Bug::HiddenCache);
    let failures = (1..40).flat_map(|seed| explorer.run(seed, &Effort::default()).failures);
    let in_load = |f: &Failure| f.path.0.first().is_some_and(|place| place.phase == Phase::Load);
    let failure = failures.into_iter().find(in_load).expect("found in the load");
    let (_, minimal) = minimised_of(explorer, failure);
    assert!(minimal.of > 100 && minimal.calls.len() <= 16, "{}: {:?}", minimal.of, minimal.calls);
}

#[test]
fn the_line_of_a_minimised_failure_finds_it_where_it_is_typed() {
    for (fs, load, bug) in [
        ("ext4", "varmail", Bug::In(Lie::Fsync)),
        ("ext4@volatile", "torture", Bug::HiddenCache),
        // No call at all: mkfs left it so.
        ("f2fs@volatile", "torture", Bug::HiddenCache),
    ] {
        let (failure, minimal) = minimised(fs, load, bug);
        let line = minimal.failure.replay_command().expect("it has a place");
        assert_eq!(typed(explorer(fs, load, bug), &line), Err(minimal.failure.clone()), "{line}");
        assert_eq!(typed(explorer(fs, load, Bug::None), &line), Ok(()), "{line}");
        let all = explorer(fs, load, bug).replay(failure.seed, &failure.path);
        assert_eq!(all, Err(failure), "the whole run is what it was");
    }
}

#[test]
fn a_failure_that_does_not_come_again_is_told_as_it_is() {
    let failure = found(&explorer("ext4", "varmail", Bug::In(Lie::Fsync)));
    let why = explorer("ext4", "varmail", Bug::None).minimise(&failure, &|| false).expect_err("no bug");
    assert_eq!(why, "it does not come again");
    let of_mkfs = Failure { path: "m3+.1".parse().expect("a path"), ..failure };
    let why = explorer("ext4", "varmail", Bug::None).minimise(&of_mkfs, &|| false).expect_err("no bug");
    assert_eq!(why, "it does not come again");
}

#[test]
fn where_the_time_is_over_at_once_all_calls_before_the_power_failure_are_kept() {
    let mut explorer = explorer("ext4", "varmail", Bug::In(Lie::Fsync));
    let failure = found(&explorer);
    let minimal = explorer.minimise(&failure, &|| true).expect("it comes again");
    assert_eq!(minimal.failure.only.expect("calls are named").len(), minimal.of);
    assert_eq!(minimal.failure.evidence, failure.evidence);
}
