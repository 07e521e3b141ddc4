//! A panic in one request: that one is answered with an error, the mount takes no more changes, reads go on,
//! nothing reaches the image any more, and the next mount recovers what was promised. (A file of its own: the
//! hook is the process's.)

#[path = "it/image.rs"]
mod image;
#[path = "it/rig.rs"]
#[allow(dead_code)]
mod rig;

use granary_device::{Command, Devices, Drive, DriveError, Streamed, Structure};
use granary_fs::Cred;
use granary_image::host::memory::MemoryHost;
use granary_image::{Durability, Image};
use granary_mount::{MountError, Options};
use granary_testbed::registry::FsEntry;
use granary_units::{ByteAddr, Bytes, Dest, Lpa, Nanos, TxId};
use granary_vfs::{OpenFlags, Posix, Process, Vfs};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// A drive below which an invariant breaks at the next change of any of them, once.
struct Brittle {
    inner: Arc<dyn Drive>,
    armed: Arc<AtomicBool>,
}

impl Brittle {
    fn change(&self) {
        assert!(!self.armed.swap(false, SeqCst), "planted");
    }
}

impl Drive for Brittle {
    granary_device::forward_drive!(inner: info, identify, load, flush_lines, load_pages, load_known, verify, look_ahead, look_ahead_lines, wants_attention, settle, power_fail, power_on, track_in_flight, traffic, counters, counters_at, check);

    fn store_from(
        &self,
        core: u16,
        now: Nanos,
        at: ByteAddr,
        data: &[u8],
        tx: TxId,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.change();
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
        self.change();
        self.inner.stream(now, lpa, from, data, what)
    }

    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        if !matches!(command, Command::Read { .. }) {
            self.change();
        }
        self.inner.submit(now, command)
    }
}

fn open(host: &MemoryHost, entry: &FsEntry, new: bool) -> (Image, Arc<Vfs>, Arc<AtomicBool>) {
    let (image, devices) = image::open(host, Durability::Process);
    let armed = Arc::new(AtomicBool::new(false));
    let brittle = devices.drives().fold(Devices::none(), |all, (role, drive)| {
        all.with(role, Arc::new(Brittle { inner: drive.clone(), armed: armed.clone() }))
    });
    (image, image::vfs_on(brittle, entry, new), armed)
}

fn put(path: &Path, byte: u8) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&[byte; 9000])?;
    file.sync_all()
}

fn errno<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|e| e.raw_os_error())
}

const EIO: Option<i32> = Some(5);
const EROFS: Option<i32> = Some(30);

fn one(entry: &'static FsEntry) {
    let host = image::create(entry, Some(Bytes::mib(4)));
    let (image, vfs, armed) = open(&host, entry, true);
    let image = Arc::new(image);
    let dir = tempfile::tempdir().expect("a directory");
    let mounted = granary_mount::mount(vfs, dir.path(), &Options::default()).expect("mounts");
    let frozen = Arc::downgrade(&image);
    let freeze = move |why: &str| {
        if let Some(image) = frozen.upgrade() {
            image.freeze(why);
        }
    };
    mounted.breaker().on_panic(freeze, || (), || std::process::abort());

    let (kept, lost) = (dir.path().join("kept"), dir.path().join("lost"));
    put(&kept, 1).expect("written and synced");
    let sound = File::open(&kept).expect("opens");
    armed.store(true, SeqCst);
    assert_eq!(errno(put(&lost, 2)), EIO, "{}: the request that panicked", entry.name);
    assert!(!armed.load(SeqCst));
    let groups = image.journal_counters().groups;
    assert_eq!(errno(put(&dir.path().join("later"), 3)), EROFS, "{}", entry.name);
    assert_eq!(errno(fs::remove_file(&kept)), EROFS, "{}", entry.name);
    assert_eq!(errno(sound.sync_all()), EIO, "{}", entry.name);
    assert_eq!(fs::read(&kept).expect("reads go on"), [1; 9000], "{}", entry.name);
    assert!(fs::read_dir(dir.path()).expect("reads go on").count() > 0);
    drop(sound);
    let mut ended = mounted.unmounter().unmount(false);
    rig::eventually(|| {
        ended = mounted.unmounter().unmount(false);
        ended.is_ok()
    });
    ended.expect("unmounts");
    assert!(matches!(mounted.join(), Err(MountError::Panicked(_))), "{}", entry.name);
    assert_eq!(image.journal_counters().groups, groups, "{}: something was written", entry.name);
    let image = Arc::into_inner(image).expect("nobody has it");
    assert!(image.close().is_err(), "{}: an image of a doubtful memory is not closed as clean", entry.name);

    let (image, vfs, _) = open(&host, entry, false);
    assert!(image.replayed().is_some());
    assert_eq!(vfs.check().expect("readable"), Vec::<String>::new(), "{}", entry.name);
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    let fd = p.open("/kept", OpenFlags::RDONLY, 0).expect("there");
    let mut found = [0; 9000];
    assert_eq!(p.pread(fd, Dest::Bytes(&mut found), 0), Ok(9000));
    assert_eq!(found, [1; 9000]);
    p.exit();
    vfs.unmount().expect("unmounts");
    image.close().expect("closes");
}

#[test]
fn a_panic_in_a_request_is_an_error_and_the_end_of_changes() {
    if rig::possible() {
        rig::systems().for_each(one);
    }
}
