//! A mount on a drive in memory, taken away again whatever happens.

use granary_device::{Devices, Need, Role};
use granary_fs::Caller;
use granary_mount::{Mounted, Options, Unmounter, host_config};
use granary_mssd::Mssd;
use granary_pmem::{Dimm, DimmConfig};
use granary_testbed::Testbed;
use granary_testbed::registry::{self, FILE_SYSTEMS, FsEntry};
use granary_units::Bytes;
use granary_vfs::{Vfs, VfsConfig};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A mounted file system. Dropped, it is unmounted, lazily if need be.
pub struct Rig {
    pub fs: &'static str,
    pub vfs: Arc<Vfs>,
    devices: Devices,
    mounted: Option<Mounted>,
    unmounter: Unmounter,
    dir: tempfile::TempDir,
}

/// Unmounts. A child that another test has forked holds our open files until it executes its program. On the
/// way it closes the files of all mounts, and waits for their servers. So that takes as long as a test keeps
/// one of them from answering.
pub fn unmount(mounted: Mounted) {
    let (unmounter, mut taken) = (mounted.unmounter(), Ok(()));
    eventually(|| {
        taken = unmounter.unmount(false);
        taken.is_ok()
    });
    taken.expect("unmounts");
    mounted.join().expect("ends cleanly");
}

/// Whether mounts are possible here; says so where not.
pub fn possible() -> bool {
    let there = Path::new("/dev/fuse").exists();
    if !there {
        granary_suite::skip::skipped("/dev/fuse is missing");
    }
    there
}

/// The testbed of rigs. NILFS2 gives back at once the space that it keeps for an hour by default.
pub fn testbed() -> Testbed {
    Testbed::load("bytefs-emulator", &["nilfs2.protection_period=0".to_owned()]).expect("built in")
}

/// Those of [`systems`] that have files without names, whiteouts and trimming. NILFS2 has not, nor has
/// Linux's O_TMPFILE and whiteouts.
pub fn systems_with_all() -> impl Iterator<Item = &'static FsEntry> {
    systems().filter(|fs| fs.name != "nilfs2")
}

/// [`each`] of those.
pub fn each_with_all(test: impl Fn(&Rig)) {
    if !possible() {
        return;
    }
    run_on(systems_with_all(), &Options { allow_other: true, ..Options::default() }, test);
}

/// A file system on a new drive of 512 MiB, not mounted anywhere.
pub fn vfs(fs: &FsEntry) -> (Arc<Vfs>, Devices) {
    vfs_of(fs, Bytes::mib(512))
}

fn vfs_of(fs: &FsEntry, size: Bytes) -> (Arc<Vfs>, Devices) {
    let testbed = testbed();
    let mut config = testbed.ssd_for(Some(fs)).expect("an SSD");
    config.flash = config.flash.with_capacity(size);
    let mut devices = Devices::ssd(Arc::new(Mssd::new(&config).expect("a drive")));
    if fs.needs.contains(&Need::Nvm) {
        let dimm = DimmConfig::optane_dcpmm().with_capacity(Bytes::mib(64));
        devices = devices.with(Role::Nvm, Arc::new(Dimm::new(&dimm).expect("a DIMM")));
    }
    registry::mkfs(fs, &devices).expect("mkfs");
    let mounted = registry::mount(fs, &devices, &testbed, false).expect("mount");
    let config = host_config(VfsConfig::default(), Bytes::mib(64), false);
    (Vfs::mount(mounted, config).expect("vfs"), devices)
}

impl Rig {
    pub fn new(fs: &'static FsEntry, options: &Options) -> Rig {
        Rig::of(fs, Bytes::mib(512), options)
    }

    /// One on a drive of its own size.
    pub fn of(fs: &'static FsEntry, size: Bytes, options: &Options) -> Rig {
        let (vfs, devices) = vfs_of(fs, size);
        let dir = tempfile::tempdir().expect("a directory");
        let mounted = granary_mount::mount(vfs.clone(), dir.path(), options).expect("mounts");
        let unmounter = mounted.unmounter();
        Rig { fs: fs.name, vfs, devices, mounted: Some(mounted), unmounter, dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Pages that have been written to the drive.
    pub fn written(&self) -> u64 {
        self.devices.sum().link.block_write.iter().sum()
    }

    /// Pages that the drive has been told are free.
    pub fn trimmed(&self) -> u64 {
        self.devices.sum().commands.trim_pages
    }

    pub fn unmounter(&self) -> &Unmounter {
        &self.unmounter
    }

    pub fn mounted(&self) -> &Mounted {
        self.mounted.as_ref().expect("not yet finished")
    }

    /// Waits for the end of a mount that was taken away.
    pub fn join(&mut self) -> Result<(), granary_mount::MountError> {
        self.mounted.take().expect("mounted").join()
    }

    /// Everything is in order, on media too; and it unmounts.
    pub fn finish(mut self) {
        let mut bad = Vec::new();
        eventually(|| {
            self.vfs.sync(&Caller::KERNEL).expect("sync");
            bad = self.vfs.check().expect("check runs");
            bad.is_empty()
        });
        assert!(bad.is_empty(), "{}: {bad:#?}", self.fs);
        unmount(self.mounted.take().expect("mounted"));
        self.devices.check().expect("the devices are in order");
        let left = fs::read_dir(self.root()).expect("readable").count();
        assert_eq!(left, 0, "{} is still mounted", self.root().display());
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // A failed test may have files open: out of sight at once, and end without waiting for them.
        if let Some(mounted) = self.mounted.take() {
            let _ = self.unmounter.unmount(true);
            if std::thread::panicking() { std::mem::forget(mounted) } else { drop(mounted) }
        }
    }
}

/// The file systems under test: all of the registry, or those that `GRANARY_FS` names (`bytefs,ext4`).
pub fn systems() -> impl Iterator<Item = &'static FsEntry> {
    let wanted = std::env::var("GRANARY_FS").ok();
    // On the emulator of ByteFS's paper, which has no second names of pages.
    let testbed = testbed();
    // A file system that needs a DIMM gets one beside it.
    let served =
        FILE_SYSTEMS.iter().filter(move |fs| fs.needs.contains(&Need::Nvm) || testbed.roles_for(fs).is_ok());
    // Variants share the options of their file system, and one of them stands for all, unless others are
    // named.
    let named = wanted.is_some();
    let mut seen = Vec::new();
    let section = |fs: &FsEntry| fs.options.map_or(fs.name, |options| options.section);
    let served = served.filter(move |fs| {
        named || fs.crash.is_empty() || {
            let first = !seen.contains(&section(fs));
            seen.push(section(fs));
            first
        }
    });
    // Those without crash cases of their own differ from another in what a call costs only.
    let served = served.filter(|fs| !fs.crash.is_empty());
    served.filter(move |fs| wanted.as_deref().is_none_or(|w| w.split(',').any(|w| w == fs.name)))
}

/// Every third of [`systems`], for tests that take long of what is hardly a file system's own; tests with
/// other `first` (0 to 2) take others. All where `GRANARY_FS` names them.
pub fn some_systems(first: usize) -> impl Iterator<Item = &'static FsEntry> {
    let named = std::env::var_os("GRANARY_FS").is_some();
    systems().enumerate().filter(move |(n, _)| named || n % 3 == first).map(|(_, fs)| fs)
}

/// Runs the test on every file system, checks it and unmounts it.
pub fn each(test: impl Fn(&Rig)) {
    each_with(&Options { allow_other: true, ..Options::default() }, test);
}

pub fn each_with(options: &Options, test: impl Fn(&Rig)) {
    if !possible() {
        return;
    }
    run_on(systems(), options, test);
}

/// Runs the test on [`some_systems`].
pub fn each_third(first: usize, test: impl Fn(&Rig)) {
    if possible() {
        run_on(some_systems(first), &Options { allow_other: true, ..Options::default() }, test);
    }
}

fn run_on(systems: impl Iterator<Item = &'static FsEntry>, options: &Options, test: impl Fn(&Rig)) {
    for fs in systems {
        let rig = Rig::new(fs, options);
        test(&rig);
        rig.finish();
    }
}

/// Gives the kernel ten milliseconds.
#[allow(clippy::disallowed_methods)] // the kernel lives on the wall clock
pub fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(10));
}

/// Waits up to twenty seconds (a busy machine is slow): the kernel tells of last closes, and forgets inodes,
/// a little after the call that did it.
pub fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    (0..2000).any(|_| {
        let done = holds();
        if !done {
            pause();
        }
        done
    })
}

/// One file system, for what does not depend on it.
pub fn any() -> &'static FsEntry {
    registry::find("bytefs").expect("registered")
}
