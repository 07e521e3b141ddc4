//! The devices of a failure in an image: recovery finds there what the explorer has found.

use crate::liar::Lie;
use crate::planted::{Bug, Planted};
use granary_crash::target::OnImage;
use granary_crash::{Effort, Explorer, Failure, Place, Target};
use granary_fs::{Cred, Time};
use granary_lab::LabError;
use granary_lab::image::{OpenImage, check};
use granary_lab::kept::{Keep, keep};
use granary_vfs::{Posix, Process};
use std::path::Path;
use std::sync::Arc;

/// A target with a bug, and its explorer.
fn planted(fs: &str, bug: Bug, load: &str) -> (Arc<Planted>, Explorer) {
    let inner = crate::targets::by_name(fs).expect("a target");
    let target = Arc::new(Planted { inner, bug, told: Arc::default() });
    let load = crate::targets::load(load).expect("a load");
    let explorer = Explorer::new(Arc::clone(&target) as Arc<dyn Target>, load).expect("sound");
    (target, explorer)
}

/// The first failure of some runs that is wanted.
fn failure(explorer: &Explorer, effort: Effort, wanted: impl Fn(&Failure) -> bool) -> Failure {
    let mut failures = (1..20).flat_map(|seed| explorer.run(seed, &effort).failures);
    failures.find(|failure| !failure.path.0.is_empty() && wanted(failure)).expect("found")
}

fn keep_at(
    path: &Path,
    target: &Planted,
    explorer: &mut Explorer,
    failure: &Failure,
) -> Result<(), LabError> {
    let OnImage { fs, ssd, nvm, host } = target.inner.on_image().expect("an image keeps it");
    let devices = granary_image::ImageDevices { ssd, nvm };
    let image = Keep { fs, devices, host, label: "kept", date: Time(0) };
    keep(path, &image, |devices| explorer.keep(failure, &target.around(devices.clone())))
}

/// The first finding of `check()` after a recovery.
fn finding(failure: &Failure) -> Option<&str> {
    failure.evidence.first()?.strip_prefix("check after recovery: ")
}

#[test]
fn the_check_of_an_image_finds_what_the_explorer_found_after_the_same_recovery() {
    let dir = tempfile::tempdir().expect("a directory");
    let drawn = Effort { anywhere: 16, in_steps: 16, ..Effort::default() };
    let listed = Effort { draws: 8, exhaustive: true, ..drawn };
    for (n, (fs, bug, effort)) in [
        ("ext4@volatile", Bug::HiddenCache, drawn),
        ("f2fs@volatile", Bug::HiddenCache, listed),
        ("pmfs@nvm", Bug::LostFence, drawn),
        ("bytefs", Bug::LostCommit, drawn),
    ]
    .into_iter()
    .enumerate()
    {
        let (target, mut explorer) = planted(fs, bug, "torture");
        // Of listed states one behind the first: which it is, copies of the devices say, and these devices
        // have none.
        let is_later = |place: &Place| !place.listed || place.draw > 0;
        let failure = failure(&explorer, effort, |failure| {
            finding(failure).is_some() && failure.path.0.last().is_some_and(is_later)
        });
        println!("{failure}");
        let path = dir.path().join(n.to_string());
        keep_at(&path, &target, &mut explorer, &failure).unwrap_or_else(|e| panic!("{e}: {failure}"));
        let wrong = check(&path).expect("it opens").wrong;
        let finding = finding(&failure).expect("it has one");
        assert!(wrong.iter().any(|what| what.contains(finding)), "{fs}: {finding}: {wrong:?}");
        assert_eq!(explorer.replay(failure.seed, &failure.path), Err(failure), "the explorer is as before");
    }
}

#[test]
fn a_name_that_was_lost_is_not_in_the_image_whatever_its_devices() {
    let dir = tempfile::tempdir().expect("a directory");
    for (n, fs) in ["ext4", "bytefs-log", "f2fs-remap", "nilfs2", "spfs+ext4"].into_iter().enumerate() {
        let (target, mut explorer) = planted(fs, Bug::In(Lie::Fsync), "varmail");
        let lost = |failure: &Failure| {
            let first = failure.evidence.iter().find(|what| what.contains("lost name"))?;
            Some(first.split(": ").next()?.to_owned())
        };
        let wanted = |failure: &Failure| failure.stage.starts_with("verify") && lost(failure).is_some();
        let failure = failure(&explorer, Effort::default(), wanted);
        let name = lost(&failure).expect("a name");
        let path = dir.path().join(n.to_string());
        keep_at(&path, &target, &mut explorer, &failure).unwrap_or_else(|e| panic!("{e}: {failure}"));
        let open = OpenImage::open(&path, Default::default(), true).expect("it opens");
        let vfs = open.vfs(Time(0), granary_units::Bytes::mib(4)).expect("it mounts");
        let mut process = Process::new(Arc::clone(&vfs), Cred::ROOT);
        assert!(process.stat("/").is_ok());
        assert!(process.stat(&name).is_err(), "{fs}: {name} is there: {failure}");
        process.exit();
        vfs.unmount().expect("it unmounts");
    }
}

#[test]
fn what_a_second_power_failure_and_one_in_mkfs_leave_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let (target, mut explorer) = planted("ext4@volatile", Bug::HiddenCache, "torture");
    let nested = failure(&explorer, Effort::default(), |failure| failure.path.0.len() == 2);
    keep_at(&dir.path().join("nested"), &target, &mut explorer, &nested).expect("kept");
    assert!(OpenImage::open(&dir.path().join("nested"), Default::default(), true).is_ok());
    let (target, mut explorer) = planted("ext4@volatile", Bug::HiddenCache, "creat(/A/foo) fsync");
    let made = (0..20).find_map(|seed| explorer.making(seed).failures.into_iter().next());
    let made = made.expect("mkfs relies on FLUSH");
    keep_at(&dir.path().join("made"), &target, &mut explorer, &made).expect("kept");
    let wrong = check(&dir.path().join("made")).expect("it opens").wrong;
    println!("{made}\n{wrong:#?}");
    assert!(!wrong.is_empty(), "{made}");
}

#[test]
fn where_nothing_can_be_kept_it_is_said_why_and_no_image_is_left() {
    let dir = tempfile::tempdir().expect("a directory");
    let (target, mut explorer) = planted("ext4@volatile", Bug::HiddenCache, "torture");
    let failure = failure(&explorer, Effort::default(), |_| true);
    let path = dir.path().join("image");
    let mut refused = |failure: &Failure| {
        let e = keep_at(&path, &target, &mut explorer, failure).expect_err("refused").to_string();
        assert!(!path.exists(), "{e}");
        e
    };
    let none = Failure { path: Default::default(), ..failure.clone() };
    assert!(refused(&none).contains("no power failure led to it"));
    let damaged = Failure { path: "d0-.0".parse().expect("a path"), ..failure.clone() };
    assert!(refused(&damaged).contains("damaged media led to it"));
    let other = Failure { seed: failure.seed + 1000, ..failure.clone() };
    assert!(refused(&other).contains("it does not come again"));
    std::fs::create_dir(&path).and_then(|()| std::fs::write(path.join("mine"), "")).expect("a file");
    let e = keep_at(&path, &target, &mut explorer, &failure).expect_err("something is there").to_string();
    assert!(e.contains("exists already") && path.join("mine").exists(), "{e}");
}
