//! [`Options`] of a mount, and the vfs configuration that fits one.

use crate::operations::Operations;
use granary_units::Bytes;
use granary_vfs::{Atime, Time, VfsConfig};
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

/// Called before fsync, fdatasync and O_SYNC writes are answered, after the file system has kept its own promise.
pub type DurableHook = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// Makes the text that readers of [`crate::STATS_FILE`] get.
pub type StatsHook = Arc<dyn Fn(&Operations) -> String + Send + Sync>;

/// How to mount.
#[derive(Clone)]
pub struct Options {
    /// The kernel refuses changes.
    pub read_only: bool,
    /// Other users than the one who mounts may enter; permissions are checked as everywhere.
    pub allow_other: bool,
    /// Extended attributes. They cost a request before every write: the kernel asks for `security.capability`.
    pub xattrs: bool,
    /// Threads that serve requests, at least 1. As many requests can wait for the drive at the same time.
    pub threads: usize,
    /// What `df` and `/proc/mounts` show as the device.
    pub source: String,
    /// Makes what the drive has acknowledged survive whatever the medium's owner promises (a host crash, say).
    pub durable: Option<DurableHook>,
    /// Counters for [`crate::STATS_FILE`]; without it the file does not exist.
    pub stats: Option<StatsHook>,
}

/// Threads by default: enough for a group of fsyncs to wait for one commit together; idle ones cost nothing.
pub(crate) const THREADS: usize = 16;

impl Default for Options {
    fn default() -> Options {
        Options {
            read_only: false,
            allow_other: false,
            xattrs: false,
            threads: THREADS,
            source: "granary".to_owned(),
            durable: None,
            stats: None,
        }
    }
}

/// A vfs configuration for a mount made now: its clock shows the date, and the page cache takes `page_cache` of the
/// host's memory (the kernel has another one for clean pages above it).
pub fn host_config(base: VfsConfig, page_cache: Bytes, read_only: bool) -> VfsConfig {
    #[allow(clippy::disallowed_methods)] // a mounted file system stamps the date
    let date = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let running = granary_sim::now();
    let epoch = Time((date.as_nanos() as u64).saturating_sub(running.0).min(i64::MAX as u64) as i64);
    let atime = if read_only { Atime::Noatime } else { base.atime };
    VfsConfig { epoch, page_cache, atime, ..base }
}
