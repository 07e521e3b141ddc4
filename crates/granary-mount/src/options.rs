//! [`Options`] of a mount, and the vfs configuration that fits one.

use crate::operations::Operations;
use granary_fs::Time;
use granary_units::Bytes;
use granary_vfs::{Atime, VfsConfig};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::SystemTime;

/// Called before fsync, fdatasync and O_SYNC writes are answered, after the file system has kept its own
/// promise. It tells [`Told`] when the image's promise is kept, too: before it returns or later, in whatever
/// thread.
pub type DurableHook = Arc<dyn Fn(Told) + Send + Sync>;

/// The callback that a [`DurableHook`] calls with its result.
pub type Told = Box<dyn FnOnce(io::Result<()>) + Send>;

/// Calls the hook, if there is one, and waits until it is told.
///
/// # Errors
/// The hook's.
pub(crate) fn wait_durable(hook: Option<&DurableHook>) -> io::Result<()> {
    let Some(hook) = hook else { return Ok(()) };
    let (tell, told) = mpsc::channel();
    hook(Box::new(move |durable| drop(tell.send(durable))));
    told.recv().unwrap_or_else(|_| Err(io::Error::other("nobody said whether the image is durable")))
}

/// Makes the text that readers of [`crate::STATS_FILE`] get.
pub type StatsHook = Arc<dyn Fn(&Operations) -> String + Send + Sync>;

/// Takes a line for people.
pub type Advise = Arc<dyn Fn(&str) + Send + Sync>;

/// How to mount.
#[derive(Clone)]
pub struct Options {
    /// Changes are refused: by the kernel, and (it can be told otherwise while mounted) by the mount itself.
    pub read_only: bool,
    /// Told in plain words what somebody tries that this mount does not do, and what to say instead.
    pub advise: Option<Advise>,
    /// Other users than the one who mounts may enter; permissions are checked as everywhere.
    pub allow_other: bool,
    /// Extended attributes. They cost a request before every write: the kernel asks for
    /// `security.capability`.
    pub xattrs: bool,
    /// Set-user-ID programs run as such; takes the superuser.
    pub suid: bool,
    /// Devices can be opened; takes the superuser.
    pub dev: bool,
    /// Threads that serve requests, at least 1. As many requests can wait for the host's files, or a paced
    /// drive, at the same time.
    pub threads: usize,
    /// The device as `df` and `/proc/mounts` show it.
    pub source: String,
    /// Makes acknowledged changes survive every failure that the medium's owner promises to survive (a host
    /// crash, say).
    pub durable: Option<DurableHook>,
    /// Where programs connect for direct access: a path that does not exist yet, of at most 107 bytes.
    pub direct: Option<PathBuf>,
    /// Counters for [`crate::STATS_FILE`]; without it the file does not exist.
    pub stats: Option<StatsHook>,
    /// The directory need not be empty: the mount shows what is in it.
    pub hides: bool,
}

/// Threads by default: as many as can run, at least 2. More of them cost: the kernel wakes them in turn, so
/// each request meets a thread whose caches are cold, and then that one which answered the last (a fifth of a
/// 4 KiB write + fsync, sixteen threads against two). An fsync that waits for the disk keeps none.
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).max(2)
}

impl Default for Options {
    fn default() -> Options {
        Options {
            read_only: false,
            advise: None,
            allow_other: false,
            xattrs: false,
            suid: false,
            dev: false,
            threads: default_threads(),
            source: "granary".to_owned(),
            durable: None,
            direct: None,
            stats: None,
            hides: false,
        }
    }
}

/// A vfs configuration for a mount made now: its clock shows the date, and the page cache takes `page_cache`
/// of the host's memory (the kernel has another one for clean pages above it).
pub fn host_config(base: VfsConfig, page_cache: Bytes, read_only: bool) -> VfsConfig {
    #[allow(clippy::disallowed_methods)] // a mounted file system stamps the date
    let date = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let running = granary_sim::now();
    let epoch = Time((date.as_nanos() as u64).saturating_sub(running.0).min(i64::MAX as u64) as i64);
    let atime = if read_only { Atime::Noatime } else { base.atime };
    VfsConfig { epoch, page_cache, atime, read_only, ..base }
}
