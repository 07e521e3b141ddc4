//! The explorer finds bugs: each one planted here, in a file system or in a drive, within a bounded number of
//! seeds.

use crate::liar::{Liar, Lie};
use granary_crash::{Effort, Explorer, Failure, Phase, Report, Target};
use granary_device::vendor::pebble::{Remap, RemapKeep};
use granary_device::vendor::transactions::Commit;
use granary_device::{Command, Devices, Drive, DriveError, DriveInfo, Streamed, Structure, stream_by_store};
use granary_fs::{FileSystem, FsError};
use granary_units::{ByteAddr, Lpa, Nanos, TxId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A sound drive.
    None,
    In(Lie),
    /// The drive acknowledges every 20th COMMIT and forgets it.
    LostCommit,
    /// The drive acknowledges every 50th flush of lines without write-back.
    LostLine,
    /// The drive moves pages that it should give a second name.
    MovedName,
    /// The drive does not say that its cache is volatile.
    HiddenCache,
    /// The drive answers every 20th fence and does nothing.
    LostFence,
    /// None, but the drive has no second copy.
    NoCopy,
}

/// A target with a bug.
pub struct Planted {
    pub inner: Arc<dyn Target>,
    pub bug: Bug,
    /// Times that a drive was told to answer late.
    pub told: Arc<AtomicU64>,
}

impl Planted {
    /// Devices with the bug.
    pub fn around(&self, devices: Devices) -> Devices {
        match self.bug {
            Bug::In(_) => devices,
            bug => devices.map(|_, inner| {
                Arc::new(Forgetful { inner, bug, count: AtomicU64::new(0), told: self.told.clone() })
            }),
        }
    }
}

impl Target for Planted {
    granary_crash::forward_target!(inner: name, mkfs, renames_are_whole, times_are_durable, vfs, costs);

    fn devices(&self, seed: u64) -> Devices {
        self.around(self.inner.devices(seed))
    }
    fn mount(&self, devices: &Devices) -> Result<Arc<dyn FileSystem>, FsError> {
        let inner = self.inner.mount(devices)?;
        Ok(match self.bug {
            Bug::In(lie) => Arc::new(Liar { inner, lie }),
            _ => inner,
        })
    }
}

/// A drive that acknowledges what it forgets at once.
struct Forgetful {
    inner: Arc<dyn Drive>,
    bug: Bug,
    count: AtomicU64,
    told: Arc<AtomicU64>,
}

impl Forgetful {
    fn forgets(&self, bug: Bug, every: u64) -> bool {
        self.bug == bug && self.count.fetch_add(1, Relaxed) % every == every - 1
    }
}

impl Drive for Forgetful {
    granary_device::forward_drive!(inner: identify, load, flush_lines, load_pages, load_known, look_ahead, look_ahead_lines, wants_attention, settle, power_fail, power_on, traffic, counters, counters_at, check);

    fn verify(&self, now: Nanos) -> Result<Nanos, DriveError> {
        if self.forgets(Bug::LostFence, 20) { Ok(now) } else { self.inner.verify(now) }
    }

    fn track_in_flight(&self, on: bool) {
        self.inner.track_in_flight(on);
    }

    fn fork(&self) -> Option<Arc<dyn Drive>> {
        if self.bug == Bug::NoCopy {
            return None;
        }
        let (bug, count, told) = (self.bug, AtomicU64::new(self.count.load(Relaxed)), self.told.clone());
        Some(Arc::new(Forgetful { inner: self.inner.fork()?, bug, count, told }))
    }

    fn answer_late(&self, seed: Option<u64>) {
        self.told.fetch_add(seed.is_some().into(), Relaxed);
        self.inner.answer_late(seed);
    }

    fn info(&self) -> DriveInfo {
        let info = self.inner.info();
        DriveInfo { volatile_cache: info.volatile_cache && self.bug != Bug::HiddenCache, ..info }
    }

    fn store_from(
        &self,
        core: u16,
        now: Nanos,
        at: ByteAddr,
        data: &[u8],
        tx: TxId,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        if self.forgets(Bug::LostLine, 50) {
            return Ok(now);
        }
        self.inner.store_from(core, now, at, data, tx, what)
    }

    fn stream(
        &self,
        now: Nanos,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        stream_by_store(self, now, lpa, from, data, what)
    }

    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        if matches!(&command, Command::Vendor(own) if own.get::<Commit>().is_some())
            && self.forgets(Bug::LostCommit, 20)
        {
            return Ok(now);
        }
        if let Command::Vendor(own) = &command
            && let Some(RemapKeep { ranges }) = own.get()
            && self.bug == Bug::MovedName
        {
            let mut done = now;
            for r in ranges {
                let moved = Command::Vendor(&mut Remap { src: r.src, dst: r.dst, count: r.count });
                done = done.max(self.inner.submit(now, moved)?);
            }
            return Ok(done);
        }
        self.inner.submit(now, command)
    }
}

/// The first failure within `seeds` seeds.
fn found(fs: &str, load: &str, bug: Bug, seeds: u64) -> Failure {
    let target = Planted { inner: crate::targets::by_name(fs).expect("a target"), bug, told: Arc::default() };
    let explorer = match Explorer::new(Arc::new(target), crate::targets::load(load).expect("a load")) {
        Ok(explorer) => explorer,
        // Some bugs need no power failure to show.
        Err(failure) => return failure,
    };
    let failure = (1..=seeds).find_map(|seed| explorer.point(seed).err());
    failure.unwrap_or_else(|| panic!("{bug:?} in {fs} under {load} not found within {seeds} seeds"))
}

#[test]
fn an_fsync_that_does_nothing_is_found() {
    for fs in ["bytefs", "ext4"] {
        let failure = found(fs, "varmail", Bug::In(Lie::Fsync), 20);
        let text = failure.to_string();
        assert!(text.contains("lost name") || text.contains("may be") || text.contains("may have"), "{text}");
    }
}

#[test]
fn an_fsync_that_leaves_the_times_behind_is_found() {
    let text = found("ext4", "torture", Bug::In(Lie::Times), 60).to_string();
    assert!(text.contains("time of modification"), "{text}");
}

#[test]
fn a_sync_that_does_nothing_is_found() {
    found("bytefs", "torture", Bug::In(Lie::Sync), 60);
}

#[test]
fn a_rename_in_two_steps_is_found() {
    let text = found("bytefs-sync", "torture", Bug::In(Lie::Rename), 60).to_string();
    assert!(text.contains("a rename happened at the new name only"), "{text}");
}

#[test]
fn a_page_that_never_reached_the_drive_is_found() {
    let text = found("ext4", "fileserver", Bug::In(Lie::LostPage), 20).to_string();
    assert!(text.contains("it may be"), "{text}");
}

#[test]
fn a_drive_that_forgets_commits_is_found() {
    found("bytefs", "varmail", Bug::LostCommit, 20);
}

#[test]
fn a_drive_that_forgets_lines_is_found() {
    found("bytefs", "varmail", Bug::LostLine, 20);
}

#[test]
fn cleaning_that_leaves_nothing_at_the_old_place_is_found() {
    found("f2fs-remap", "clean", Bug::MovedName, 40);
}

/// Without the FLUSH that stands for FUA, an fsync is taken back.
#[test]
fn a_volatile_cache_that_is_not_told_of_is_found() {
    for fs in ["ext4@volatile", "f2fs@volatile", "orchfs@volatile"] {
        found(fs, "torture", Bug::HiddenCache, 80);
    }
}

#[test]
fn drives_answer_late_in_half_of_the_points_and_of_the_runs() {
    let told = |punctual: bool, runs: bool| {
        let told = Arc::new(AtomicU64::new(0));
        let inner = crate::targets::by_name("ext4").expect("a target");
        let target = Planted { inner, bug: Bug::None, told: told.clone() };
        let load = crate::targets::load("torture").expect("a load");
        let explorer = Explorer::new(Arc::new(target), load).expect("sound");
        let explorer = if punctual { explorer.punctual() } else { explorer };
        let mut report = if runs { Report::default() } else { explorer.explore(1..21) };
        (1..21).filter(|_| runs).for_each(|seed| report.add(explorer.run(seed, &Effort::BRIEF)));
        assert!(report.failures.is_empty(), "{report}");
        told.load(Relaxed)
    };
    for runs in [false, true] {
        assert_eq!(told(true, runs), 0);
        assert!((5..=15).contains(&told(false, runs)), "{}", told(false, runs));
    }
}

#[test]
fn a_seed_replays_its_point_exactly() {
    let run = || found("bytefs", "varmail", Bug::In(Lie::Fsync), 20);
    assert_eq!(run(), run());
}

#[test]
fn devices_without_a_second_copy_are_refused_with_what_to_do() {
    let inner = crate::targets::by_name("ext4").expect("a target");
    let target = Planted { inner, bug: Bug::NoCopy, told: Arc::default() };
    let explorer = Explorer::new(Arc::new(target), crate::targets::load("torture").expect("a load"));
    let report = explorer.expect("sound").run(1, &Effort::default());
    assert!(report.points == 0 && report.failures.len() == 1, "{report}");
    assert!(report.failures[0].to_string().contains("Drive::fork"), "{report}");
}

/// An image of a run that fails does so again, and not where the bug is not.
#[test]
fn a_place_in_a_run_replays_its_image_exactly() {
    for (fs, load, bug) in [
        ("ext4", "varmail", Bug::In(Lie::Fsync)),
        ("bytefs", "varmail", Bug::In(Lie::Fsync)),
        ("ext4@volatile", "torture", Bug::HiddenCache),
    ] {
        let explorer = |bug| {
            let target =
                Planted { inner: crate::targets::by_name(fs).expect("a target"), bug, told: Arc::default() };
            Explorer::new(Arc::new(target), crate::targets::load(load).expect("a load")).expect("sound")
        };
        let mut planted = explorer(bug);
        let effort = Effort { anywhere: 8, in_steps: 8, ..Effort::default() };
        let failures = (1..20).flat_map(|seed| planted.run(seed, &effort).failures);
        // Of a file, so that there are calls to tell.
        let in_load = |f: &Failure| {
            let of_a_file = f.evidence.first().is_some_and(|what| what.starts_with('/'));
            of_a_file && f.path.0.len() == 1 && f.path.0[0].phase == Phase::Load
        };
        let failure = failures.into_iter().find(in_load).expect("found in an image of the load");
        let again = planted.replay(failure.seed, &failure.path).expect_err("fails again");
        assert_eq!(again, failure);
        // And is told: the calls on the file, the last ones, and the command in which the power failed.
        let story = planted.tell(&failure).join("\n");
        assert!(story.contains("calls on /") && story.contains("client "), "{failure}\n{story}");
        assert!(story.contains("-- the power fails in the load, "), "{story}");
        assert!(bug == Bug::HiddenCache || story.contains("fsync /"), "{story}");
        assert_eq!(planted.replay(failure.seed, &failure.path), Err(again), "telling changes nothing");
        assert_eq!(explorer(Bug::None).replay(failure.seed, &failure.path), Ok(()), "{failure}");
    }
}
