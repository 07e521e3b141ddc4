//! DevFS: a file system that works inside the drive, on the drive's processors and in its memory.
//!
//! ```text
//!   program   command in its buffer ─ doorbell ─┐                          (or a system call that does the
//!                                                                          same)
//!   - - - - - - - - - - - - - - - - - - - - - - v - - - - - - - - - - - - - - - - - - - - - - - - - - -
//!   drive     admission   copied, sender and memory checked, numbered      credentials.rs  command.rs
//!             filemap     one worker at a time for each file               files.rs
//!             objects     inode, dentry, ... in the drive's memory,
//!                         or the part of them that the host keeps          memory.rs  objects.rs
//!             PMFS        structures on storage                            granary-pmfs
//!             redo log    kept by a capacitor, or on storage (naive)       granary-pm
//! ```
//!
//! A call that returned is durable. `fs/` has the traits of [`granary_fs::FileSystem`]: each call is a
//! command.
//!
//! - The paper keeps a journal of 4 KiB for each file. Here all files share one log with a lane for each
//!   processor: a lane is as independent as a file's journal, and a rename needs one transaction, not two.
//!   The ledger counts the paper's sizes.
//! - The capacitor's flush is a recovery: at the next mount the log is brought home. So a second failure is
//!   harmless.
//! - Storage is what the drive's processors see as bytes. On a testbed with DIMMs these are it; else it is
//!   the memory of the M-SSD, without the host's link: what a load or a store costs there is the firmware's
//!   work (`DriveConfig::from_inside`).
//!
//! Source: Kannan et al., "Designing a True Direct-Access File System with DevFS", FAST 2018; the structures
//! on storage are PMFS's, as in the paper (section 4).

#![forbid(unsafe_code)]

pub mod command;
pub mod credentials;
mod entry;
mod files;
mod fs;
pub mod memory;
mod objects;
mod options;

pub use entry::{DEVFS, DEVFS_CAP, DEVFS_NAIVE};
pub use granary_pmfs::{MAX_FILE_SIZE, Recovery};
pub use objects::MemoryStats;
pub use options::{Crossing, MkfsOptions, MountOptions};

use crate::credentials::CredentialTable;
use crate::files::Files;
use crate::objects::Objects;
use granary_device::Port;
use granary_fs::entry::Inside;
use granary_fs::{Entrance, Result};
use granary_pm::Keep;
use granary_pmfs::Pmfs;
use granary_sim::{Cores, costs};
use parking_lot::Mutex;
use std::sync::Arc;

/// A mounted DevFS.
pub struct DevFs {
    /// Structures on storage.
    inner: Arc<Pmfs>,
    /// The drive's processors.
    cores: Cores,
    entrance: Entrance,
    name: &'static str,
    files: Files,
    credentials: Mutex<CredentialTable>,
    objects: Mutex<Objects>,
}

/// Makes a file system: everything on the storage is lost.
///
/// # Errors
/// `NoSpace` where the storage is too small, `Invalid` for impossible options; the drive's.
pub fn mkfs(port: &Port, options: &MkfsOptions) -> Result<()> {
    granary_pmfs::mkfs_redo(port, &options.structures(port.info().pages))
}

/// Mounts the file system on a drive, recovering it where it was not unmounted, with processors like the
/// host's.
///
/// # Errors
/// `Corrupt` where there is no sound DevFS; the drive's.
pub fn mount(port: Port, options: &MountOptions) -> Result<Arc<DevFs>> {
    mount_inside(port, options, DEVFS.name, None)
}

/// The same on these processors, under this name of the registry.
///
/// # Errors
/// As [`mount`].
pub fn mount_inside(
    port: Port,
    options: &MountOptions,
    name: &'static str,
    inside: Option<&Inside>,
) -> Result<Arc<DevFs>> {
    let (count, from, to) = inside.map_or((4, 1, 1), |i| (i.cores, i.host_clock_mhz, i.clock_mhz));
    let cores = Cores::new(count.max(1), costs().at_clock(from, to));
    let memory = inside.map_or(granary_units::Bytes::gib(2), |i| i.memory);
    let keep = if options.capacitor { Keep::Capacitor } else { Keep::Storage };
    let inner = granary_pmfs::mount_redo(port, keep, options.capacitor_bytes.0)?;
    Ok(Arc::new(DevFs {
        inner,
        cores,
        entrance: match options.crossing {
            Crossing::Direct => Entrance::Device(cores),
            Crossing::Trap => Entrance::Ioctl(cores),
        },
        name,
        files: Files::default(),
        credentials: Mutex::default(),
        objects: Mutex::new(Objects::new(options, memory.0)),
    }))
}

impl DevFs {
    /// The recovery that mount had to do.
    pub fn recovery(&self) -> Recovery {
        self.inner.recovery()
    }

    /// The drive's memory by kind, and the moves to the host and back.
    pub fn memory_stats(&self) -> MemoryStats {
        self.objects.lock().stats()
    }

    /// Counters of the redo log since mount.
    pub fn log_stats(&self) -> granary_pm::RedoStats {
        self.inner.redo().unwrap_or_default()
    }

    /// The ledger's total and the sum over the objects: they are equal.
    pub fn recount(&self) -> (u64, u64) {
        self.objects.lock().recount()
    }
}
