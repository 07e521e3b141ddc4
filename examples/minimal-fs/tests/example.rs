//! The example has to pass the tests of the registry's file systems: a workload, the model suite, power
//! failures, a mount; and it has to keep its size.

use granary_crash::{Explorer, load_by_name, target};
use granary_device::{Devices, Port};
use granary_example::{ENTRY, Minimal, mkfs, mount};
use granary_fs::entry::Mount;
use granary_fs::{Caller, Cred, Features, FileSystem, FsEntry, FsError, Result};
use granary_sim::World;
use granary_suite::model::Mix;
use granary_suite::reference::Limits;
use granary_suite::suite;
use granary_units::{Bytes, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use granary_workload::Workload;
use granary_workload::run::{Run, RunOptions};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// The example's entry in the registry.
static REGISTERED: &[FsEntry] = &[ENTRY];

fn devices(size: Bytes) -> Devices {
    Devices::ssd(suite::drive(size))
}

/// Mounted as the registry's users do it: through the entry.
fn by_entry(devices: &Devices) -> Arc<dyn FileSystem> {
    let options = granary_fs::Defaults;
    let how = Mount {
        options: &options,
        metadata_cache: Bytes::mib(1),
        read_only: false,
        lower: None,
        inside: None,
    };
    (ENTRY.mount)(devices, &how).expect("mounts")
}

fn vfs(devices: &Devices) -> Arc<Vfs> {
    Vfs::mount(by_entry(devices), VfsConfig::default()).expect("mounts")
}

fn formatted(size: Bytes) -> Devices {
    let devices = devices(size);
    (ENTRY.mkfs)(&devices, &granary_fs::Defaults).expect("formats");
    devices
}

fn sound(vfs: &Arc<Vfs>) {
    vfs.sync(&Caller::KERNEL).expect("syncs");
    assert_eq!(vfs.check().expect("checks"), [] as [String; 0]);
}

#[derive(Clone)]
struct Subject;

impl suite::Subject for Subject {
    type Fs = Minimal;
    /// A mount has nothing to recover, so it cannot tell whether it was unmounted.
    type Recovery = ();

    fn limits(&self) -> Limits {
        let Features { max_file_size, max_links, .. } = Features::PLAIN;
        Limits { max_file_size, max_links }
    }

    fn mkfs(&self, port: &Port) -> Result<()> {
        mkfs(&Devices::ssd(port.drive().clone()))
    }

    fn mount(&self, port: Port) -> Result<Arc<Minimal>> {
        mount(&Devices::ssd(port.drive().clone()))
    }

    fn recovery(_: &Minimal) {}

    fn was_clean((): &()) -> bool {
        true
    }
}

/// Lines of the example, which is to be read in one go. This number may only become smaller.
const MOST_LINES: usize = 300;

/// Lines of Rust: those that are neither blank nor comments. Tests are beside them, in `tests`.
#[test]
fn it_stays_small() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = fs::read_dir(src).expect("readable").map(|e| e.expect("an entry").path());
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let lines: usize =
        files.map(|file| fs::read_to_string(file).expect("readable").lines().filter(is_code).count()).sum();
    assert!((100..=MOST_LINES).contains(&lines), "it has {lines} lines");
}

#[test]
fn a_workload_runs_on_it_and_it_is_sound_after_a_remount() {
    World::default()
        .run(|| {
            let devices = formatted(Bytes::mib(64));
            let vars = [("nfiles", "60"), ("count", "300"), ("nthreads", "4"), ("filesize", "12k")];
            let vars = vars.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let workload = Workload::from_builtin("varmail", &vars).expect("built in");
            let mounted = vfs(&devices);
            let clients = {
                let vfs = mounted.clone();
                move |_: &str| Process::new(vfs.clone(), Cred::ROOT)
            };
            let mut run = Run::new(&workload, clients, RunOptions::default());
            run.setup().expect("sets up");
            assert!(run.measure().expect("runs").total_ops >= 300);
            drop(run);
            sound(&mounted);
            mounted.unmount().expect("unmounts");
            sound(&vfs(&devices));
        })
        .expect("no deadlock");
}

#[test]
fn calls_behave_as_the_reference() {
    suite::calls_behave_as_the_reference(&Subject, 0..4, suite::tiny_caches(), Mix::default(), 2_000);
    suite::calls_behave_as_the_reference(&Subject, 100..102, VfsConfig::default(), Mix::default(), 2_000);
}

#[test]
fn concurrent_calls_have_a_serial_order() {
    suite::concurrent_calls_have_a_serial_order(&Subject);
}

#[test]
fn any_calls_of_64_tasks_end_and_leave_a_sound_file_system() {
    suite::any_calls_of_64_tasks_end_and_leave_a_sound_file_system(&Subject);
}

#[test]
fn threads_on_the_wall_clock_leave_a_sound_file_system() {
    suite::threads_on_the_wall_clock_leave_a_sound_file_system(&Subject);
}

#[test]
fn what_was_fsynced_survives_power_failures() {
    // Each fsync writes the whole tree, so a load of many files takes long: soaks have the others.
    for (load, points) in [("torture", 20), ("late", 3)] {
        let target = target::by_name(REGISTERED, "minimal").expect("it has a crash case");
        let load = load_by_name(load).expect("known");
        let explorer = Explorer::new(target, load).unwrap_or_else(|e| panic!("{e}"));
        let report = explorer.explore(0..points);
        assert!(report.failures.is_empty(), "{}", report.failures[0]);
        assert!(report.coverage.failures >= points && report.coverage.files > 0);
    }
}

#[test]
fn scribbled_media_are_refused_or_reported() {
    suite::scribbled_images_are_refused_or_reported(&Subject, 64);
}

#[test]
fn it_refuses_to_grow_beyond_its_area_and_goes_on() {
    World::default()
        .run(|| {
            let devices = formatted(Bytes::mib(32));
            let mounted = vfs(&devices);
            let mut p = Process::new(mounted.clone(), Cred::ROOT);
            let fd = p.open("/big", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("creates");
            let mut end = 0;
            let full = loop {
                match p.pwrite(fd, Payload::Fill { word: 7, len: 1 << 18 }, end) {
                    Ok(n) => end += n as u64,
                    Err(e) => break e,
                }
            };
            assert_eq!(full, FsError::NoSpace);
            assert!(end > 8 << 20, "{end} bytes found room");
            p.fsync(fd).expect("what found room can be written");
            p.unlink("/big").expect("removes");
            p.close(fd).expect("closes");
            let fd =
                p.open("/small", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("there is room again");
            p.pwrite(fd, Payload::Fill { word: 8, len: 1 << 20 }, 0).expect("writes");
            p.exit();
            sound(&mounted);
        })
        .expect("no deadlock");
}

#[test]
fn a_device_without_a_tree_is_refused() {
    let devices = devices(Bytes::mib(32));
    assert!(matches!(mount(&devices), Err(FsError::Corrupt(_))));
    assert!(matches!(mkfs(&Devices::none()), Err(FsError::NoDeviceFor(_))));
}

#[test]
fn programs_use_it_mounted() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: /dev/fuse is missing");
        return;
    }
    let devices = formatted(Bytes::mib(64));
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let mounted = || {
        let config = granary_mount::host_config(VfsConfig::default(), Bytes::mib(16), false);
        let vfs = Vfs::mount(by_entry(&devices), config).expect("vfs");
        let mounted = granary_mount::mount(vfs.clone(), dir.path(), &granary_mount::Options::default());
        (vfs, mounted.expect("mounts"))
    };
    let text = "as programs see it\n".repeat(9_000);
    let (vfs, mount) = mounted();
    fs::create_dir_all(path("a/b")).expect("mkdir -p");
    fs::write(path("a/b/file"), &text).expect("writes");
    fs::File::open(path("a/b/file")).and_then(|f| f.sync_all()).expect("fsync");
    fs::hard_link(path("a/b/file"), path("a/link")).expect("links");
    std::os::unix::fs::symlink("b/file", path("a/symlink")).expect("symlinks");
    fs::rename(path("a/b/file"), path("a/b/renamed")).expect("renames");
    sound(&vfs);
    mount.unmounter().unmount(false).expect("unmounts");
    mount.join().expect("ends cleanly");
    assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 0);

    let (vfs, mount) = mounted();
    assert_eq!(fs::read_to_string(path("a/link")).expect("reads"), text);
    assert_eq!(fs::read_link(path("a/symlink")).expect("reads"), Path::new("b/file"));
    assert!(fs::read_to_string(path("a/symlink")).is_err(), "it was renamed");
    let mut names: Vec<_> =
        fs::read_dir(path("a")).expect("lists").map(|e| e.expect("entry").file_name()).collect();
    names.sort();
    assert_eq!(names, ["b", "link", "symlink"]);
    sound(&vfs);
    fs::remove_dir_all(path("a")).expect("rm -r");
    mount.unmounter().unmount(false).expect("unmounts");
    mount.join().expect("ends cleanly");
}
