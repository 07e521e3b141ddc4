//! Mounting, serving, unmounting.
//!
//! ```text
//!   mount() ── checks ── mount(2), INIT ── serving threads ──┐
//!                                                            | umount(2) by anybody, or Unmounter
//!   Mounted::join() <── threads end (no request under way) <─┘
//!        └─ close what is open, forget all lookups, Vfs::unmount (writes everything back), durable()
//! ```

use crate::adapter::{Adapter, MAX_BACKGROUND, MAX_WRITE};
use crate::direct::Direct;
use crate::error::MountError;
use crate::guard::Breaker;
use crate::mountinfo::{self, MountEntry};
use crate::operations::Operations;
use crate::options::{Options, wait_durable};
use granary_fs::{Caller, FsError};
use granary_fuse::abi::InitFlags;
use granary_fuse::{MountConfig, Server, Serving, Session};
use granary_units::Nanos;
use granary_vfs::Vfs;
use rustix::mount::{UnmountFlags, unmount};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// How often unmounting is tried again where the file system is in use.
const PATIENCE: u32 = 20;
/// How long it waits before: an exec takes a millisecond or a few.
const BETWEEN_TRIES: Nanos = Nanos::from_millis(10);

/// A mounted file system. Dropped without [`Mounted::join`], it is detached and everything is written back.
pub struct Mounted {
    session: Option<Serving>,
    direct: Option<Direct>,
    adapter: Arc<Adapter>,
    unmounter: Unmounter,
}

/// Unmounts; can be handed to another thread.
#[derive(Clone)]
pub struct Unmounter {
    dir: PathBuf,
    entry: Option<MountEntry>,
}

/// Mounts `vfs` on `dir` and serves it by threads of its own; returns when the mount answers. The caller
/// hands over its hold on the file system: [`Mounted::join`] ends it with [`Vfs::unmount`].
///
/// # Errors
/// [`MountError`]: what is wrong with `/dev/fuse`, the directory or the permissions.
pub fn mount(vfs: Arc<Vfs>, dir: &Path, options: &Options) -> Result<Mounted, MountError> {
    let dir = check_directory(dir, options.hides)?;
    check_device()?;
    let adapter = Arc::new(Adapter::new(vfs, options));
    let config = config(options, adapter.wanted(), (MAX_WRITE, MAX_BACKGROUND));
    let session = Session::mount(&dir, &config).map_err(|e| refused(&dir, e))?;
    adapter.kernel.get_or_init(|| session.notifier());
    adapter.errands.start(&adapter, "errands").map_err(MountError::io("starting a thread"))?;
    adapter.leavers.errands.start(&adapter, "space").map_err(MountError::io("starting a thread"))?;
    let session = serve(session, &adapter, options)?;
    let unmounter = Unmounter::here(dir)?;
    let device = unmounter.entry.as_ref().map_or(String::new(), |m| m.device.clone());
    let direct = options.direct.as_deref();
    let direct = direct.map(|socket| Direct::start(&adapter, socket, &device, options.allow_other));
    let direct = direct.transpose().map_err(MountError::io("making the socket for direct access"))?;
    Ok(Mounted { session: Some(session), direct, adapter, unmounter })
}

/// Whether there is FUSE, and `dir` could be mounted on: for a caller who wants to know before much is done.
/// [`mount`] looks again.
///
/// # Errors
/// [`MountError`]: what is wrong with `/dev/fuse` or the directory.
pub fn check(dir: &Path, hides: bool) -> Result<(), MountError> {
    check_directory(dir, hides)?;
    check_device()
}

/// The settings for the kernel, with the largest write and the number of requests that it may send ahead.
pub(crate) fn config(
    options: &Options,
    wanted: InitFlags,
    (max_write, max_background): (u32, u16),
) -> MountConfig {
    MountConfig {
        source: options.source.clone(),
        subtype: "granary".to_owned(),
        read_only: options.read_only,
        // An image may come from anywhere: no devices, no set-user-ID programs, unless asked for.
        dev: options.dev,
        suid: options.suid,
        allow_other: options.allow_other,
        wanted,
        max_write,
        max_background,
    }
}

/// Starts the serving threads.
pub(crate) fn serve(
    session: Session,
    server: &Arc<impl Server>,
    options: &Options,
) -> Result<Serving, MountError> {
    let threads = options.threads.max(1);
    session.serve(Arc::clone(server), threads).map_err(MountError::io("starting the serving threads"))
}

pub(crate) fn refused(dir: &Path, e: io::Error) -> MountError {
    match e.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => {
            MountError::NotPermitted { dir: dir.to_owned() }
        }
        _ => MountError::io(format!("mounting on {}", dir.display()))(e),
    }
}

/// The directory must exist, be one, be empty (unless the mount `hides` what it shows itself) and not be a
/// mount already.
pub(crate) fn check_directory(dir: &Path, hides: bool) -> Result<PathBuf, MountError> {
    let missing = |_| MountError::NoDirectory(dir.to_owned());
    let plain = mountinfo::locate(dir).map_err(missing)?;
    let table = mountinfo::find(&plain).map_err(MountError::io("reading /proc/self/mountinfo"))?;
    if let Some(there) = table {
        let what = format!("{} ({})", there.source, there.fs_type);
        return Err(MountError::Busy { dir: plain, what });
    }
    if !fs::metadata(&plain).map_err(missing)?.is_dir() {
        return Err(MountError::NotADirectory(plain));
    }
    let mut entries = fs::read_dir(&plain).map_err(MountError::io(format!("reading {}", plain.display())))?;
    if !hides && entries.next().is_some() {
        return Err(MountError::NotEmpty(plain));
    }
    Ok(plain)
}

/// Character device 10:229 (Documentation/admin-guide/devices.txt of the kernel).
const FUSE_DEVICE: u64 = 10 << 8 | 229;

/// Whether FUSE is to be had.
///
/// # Errors
/// [`MountError::NoDevice`], [`MountError::OtherDevice`] or [`MountError::DeviceDenied`].
pub(crate) fn check_device() -> Result<(), MountError> {
    match OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Ok(file) => match file.metadata() {
            Ok(m) if m.file_type().is_char_device() && m.rdev() == FUSE_DEVICE => Ok(()),
            _ => Err(MountError::OtherDevice),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(MountError::NoDevice),
        // ENODEV, ENXIO: the node is there, the module is not.
        Err(e) if matches!(e.raw_os_error(), Some(6 | 19)) => Err(MountError::NoDevice),
        Err(e) => Err(MountError::DeviceDenied(e)),
    }
}

/// Waits until the serving threads have ended.
pub(crate) fn ended(session: Serving) -> Result<(), MountError> {
    session.join().map_err(MountError::io("serving /dev/fuse"))
}

impl Mounted {
    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.unmounter.dir
    }

    /// A handle that ends the mount.
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// To tell it of a panic.
    pub fn breaker(&self) -> Breaker {
        Breaker(Arc::clone(&self.adapter.guard))
    }

    /// Counters of the requests.
    pub fn operations(&self) -> Arc<Operations> {
        Arc::clone(&self.adapter.operations)
    }

    /// Waits until it is unmounted, and ends the file system cleanly: everything is written back and durable.
    ///
    /// # Errors
    /// The session's; the file system's.
    pub fn join(mut self) -> Result<(), MountError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), MountError> {
        let Some(session) = self.session.take() else { return Ok(()) };
        let served = ended(session);
        if let Some(mut direct) = self.direct.take() {
            direct.stop();
        }
        let adapter = &self.adapter;
        adapter.errands.stop();
        adapter.leavers.errands.stop();
        if let Err(e) = adapter.guard.sound() {
            // The state in memory is doubtful: none of it is written back.
            return Err(MountError::Panicked(e.to_string()));
        }
        adapter.let_go();
        let unmounted = adapter.vfs.unmount();
        if unmounted == Err(FsError::Busy) {
            // Something is in the way of the unmount. Data that programs wrote must not be lost with it.
            let _ = adapter.vfs.sync(&Caller::KERNEL);
        }
        let synced = wait_durable(adapter.durable.as_ref());
        unmounted?;
        synced.map_err(MountError::io("making the image durable"))?;
        served
    }

    /// Unmounts and waits.
    ///
    /// # Errors
    /// As [`Unmounter::unmount`] and [`Mounted::join`].
    pub fn unmount(self) -> Result<(), MountError> {
        self.unmounter.unmount(false)?;
        self.join()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.session.is_some() {
            // Detached, it ends when the last program lets go of it.
            let _ = self.unmounter.unmount(true);
            let _ = self.finish();
        }
    }
}

impl Unmounter {
    /// The one for what was just mounted on `dir`. It never unmounts another mount than that.
    pub(crate) fn here(dir: PathBuf) -> Result<Unmounter, MountError> {
        let entry = mountinfo::find(&dir).map_err(MountError::io("reading /proc/self/mountinfo"))?;
        Ok(Unmounter { dir, entry })
    }

    /// The one for what is mounted on `dir`.
    ///
    /// # Errors
    /// [`MountError::NotMounted`], [`MountError::NothingThere`] where that is nothing of ours.
    pub fn of(dir: &Path) -> Result<Unmounter, MountError> {
        let plain = mountinfo::locate(dir).map_err(|_| MountError::NothingThere(dir.to_owned()))?;
        let entry = mountinfo::ours(&plain).map_err(MountError::io("reading /proc/self/mountinfo"))?;
        if entry.is_none() {
            return Err(MountError::NotMounted(plain));
        }
        Ok(Unmounter { dir: plain, entry })
    }

    /// Where.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the file system is still mounted, in this mount namespace or in another one.
    pub fn elsewhere(&self) -> Option<mountinfo::Elsewhere> {
        self.entry.as_ref().and_then(|m| mountinfo::mounted_elsewhere(&m.device, &m.source))
    }

    /// Unmounts, if it is still mounted. `lazy`: takes it out of sight now; it ends when nobody uses it any
    /// more.
    ///
    /// Waits a little for programs that use it. A program that starts another holds its own files twice for
    /// an instant, between fork and exec, even those that it has closed since.
    ///
    /// # Errors
    /// [`MountError::InUse`] unless lazy; the system's error.
    pub fn unmount(&self, lazy: bool) -> Result<(), MountError> {
        for _ in 0..PATIENCE {
            match self.unmount_now(lazy) {
                Err(MountError::InUse(_)) => granary_sim::sleep(BETWEEN_TRIES),
                other => return other,
            }
        }
        self.unmount_now(lazy)
    }

    fn unmount_now(&self, lazy: bool) -> Result<(), MountError> {
        let now = mountinfo::find(&self.dir).map_err(MountError::io("reading /proc/self/mountinfo"))?;
        if now.is_none() || now.as_ref().map(|m| m.id) != self.entry.as_ref().map(|m| m.id) {
            return Ok(());
        }
        let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::NOFOLLOW };
        match unmount(&self.dir, flags) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::BUSY) => Err(MountError::InUse(self.dir.clone())),
            Err(rustix::io::Errno::PERM) => self.by_helper(lazy),
            Err(e) => Err(MountError::io(format!("unmounting {}", self.dir.display()))(e.into())),
        }
    }

    /// Users other than root unmount through the set-user-ID program of the fuse3 package.
    fn by_helper(&self, lazy: bool) -> Result<(), MountError> {
        let mut command = Command::new("fusermount3");
        command.arg(if lazy { "-uz" } else { "-u" }).arg("--").arg(&self.dir).stdin(Stdio::null());
        match command.env("LC_ALL", "C").output() {
            Ok(said) if said.status.success() => Ok(()),
            Ok(said) if String::from_utf8_lossy(&said.stderr).contains("busy") => {
                Err(MountError::InUse(self.dir.clone()))
            }
            _ => Err(MountError::UnmountNotPermitted { dir: self.dir.clone() }),
        }
    }
}
